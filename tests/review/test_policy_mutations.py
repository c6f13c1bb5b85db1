"""Single mistakes in shipped policies: each kind is refused, or listed with the reason why not."""

import itertools
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest
import tomli_w
from policy_mutations import HARMLESS, KINDS, Data, harmless

from midthought.policies import dump_policy, list_policies, load_policy
from midthought.review import prove

SHIPPED = [info.name for info in list_policies()]


@cache
def _text(name: str) -> str:
    return dump_policy(load_policy(name))


def _data(name: str) -> Data:
    return tomllib.loads(_text(name))


def _passing(mutants: Iterator[tuple[str, Data]], kind: str, path: Path) -> list[str]:
    """Labels of mutants that pass the check though nobody calls them harmless."""
    found = []
    for label, data in mutants:
        path.write_text(tomli_w.dumps(data), "utf-8")
        if prove(path).is_safe and not harmless(kind, label):
            found.append(label)
    return found


def test_there_are_many_kinds() -> None:
    """At least 60 kinds of mistakes are made, and the base has a place for nearly all of them."""
    made = [kind for kind, make in KINDS.items() if next(make(_data("base")), None)]

    assert len(made) >= 100
    assert len([kind for kind in made if kind not in HARMLESS]) >= 60


@pytest.mark.parametrize("kind", KINDS)
def test_mistakes_in_the_base_are_refused(kind: str, tmp_path: Path) -> None:
    """Mistakes of every kind, made all over `base`, are refused or listed with a reason."""
    mutants = list(KINDS[kind](_data("base")))
    spread = mutants[:: max(1, len(mutants) // 12)]

    assert [] == _passing(iter(spread), kind, tmp_path / "mutant.toml")


@pytest.mark.parametrize("name", SHIPPED)
def test_mistakes_in_shipped_policies_are_refused(name: str, tmp_path: Path) -> None:
    """In each shipped policy some kinds, others in each, so that together it is all of them."""
    kinds = list(KINDS)
    step = max(1, len(kinds) // 8)
    for kind in kinds[SHIPPED.index(name) % step :: step]:
        mutants = itertools.islice(KINDS[kind](_data(name)), 1)
        assert [] == _passing(mutants, kind, tmp_path / "mutant.toml"), kind


@pytest.mark.torture
@pytest.mark.parametrize("name", SHIPPED)
def test_all_mistakes_in_all_shipped_policies_are_refused(name: str, tmp_path: Path) -> None:
    """The whole product: every mistake of every kind in every policy."""
    for kind, make in KINDS.items():
        assert [] == _passing(make(_data(name)), kind, tmp_path / "mutant.toml"), kind


def test_reasons_are_needed() -> None:
    """No reason stands in the table for a mistake that nobody makes any more."""
    made = {
        f"{kind}: {label}"
        for name in ("base", "strict", "anthropic")
        for kind, make in KINDS.items()
        for label, _ in make(_data(name))
    }

    assert [] == [
        key
        for key in HARMLESS
        if key not in KINDS and not any(fnmatchcase(label, key) for label in made)
    ]
