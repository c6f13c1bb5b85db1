"""Files are read once while they stay the same, and again when they do not."""

import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import PolicyError, list_policies, load_policy
from midthought.policies._loader import _tree


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    """Also one of the same length and time, and also where it is a parent."""
    parent, child = tmp_path / "parent.toml", tmp_path / "child.toml"
    child.write_text('extends = ["parent"]')
    for number in (1, 2, 3):
        parent.write_text(f'extends = ["base"]\nlimits.attempts = {number}')
        os.utime(parent, (0, 0))
        assert (number, number) == (
            load_policy(parent).limits.attempts,
            load_policy(child).limits.attempts,
        )


def test_faults_are_told_each_time(tmp_path: Path) -> None:
    """A file that is still wrong is refused with the same words."""
    path = tmp_path / "wrong.toml"
    path.write_text('extends = ["base"]\nabout.checked = 2026-12-01\nlimits.wait_s = inf')
    told = []
    for _ in range(2):
        with pytest.raises(PolicyError) as raised:
            load_policy(path)
        told.append(raised.value.faults)

    assert told[0] == told[1]
    assert {"a date or time", "inf"} == {fault.found for fault in told[0]}


def test_listing_reads_each_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many policies build on a file, its text is parsed one time."""
    parsed: list[str] = []

    def loads(text: str, **more: Any) -> dict[str, Any]:
        parsed.append(text)
        return tomllib.loads(text, **more)

    _tree.cache_clear()
    monkeypatch.setattr("midthought.policies._search.tomllib", _Counting(loads))
    shipped = list_policies()

    assert len(shipped) > 20
    assert len(parsed) == len(set(parsed)) == len(shipped)


class _Counting:
    """Stands for the parser's module."""

    TOMLDecodeError = tomllib.TOMLDecodeError

    def __init__(self, loads: Any) -> None:
        self.loads = loads
