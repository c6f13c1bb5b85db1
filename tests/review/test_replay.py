"""A recorded turn through a policy: the same one decides the same, another one shows where not."""

from __future__ import annotations

from pathlib import Path

import pytest
from lanes import HURRY, overlay
from run_files import NAMES, recorded

from midthought.policies import Policy
from midthought.review import Replay, read_run, replay


def replayed(tmp_path: Path, name: str, policy: Policy | None = None) -> Replay:
    """The recorded turn through its own policy, or another."""
    told = recorded(name)
    path = tmp_path / "run.jsonl"
    path.write_bytes(told.data)
    return replay(read_run(path).turns[0], policy or told.policy)


@pytest.mark.parametrize("name", NAMES)
def test_its_own_policy_decides_the_same(tmp_path: Path, name: str) -> None:
    """After every attempt the same rule and action, a wait within its jitter, the same outcome."""
    found = replayed(tmp_path, name)

    assert found.same, found
    rules = [(d.attempt, d.ended, d.rule, d.action) for d in found.recorded]
    assert rules == [(d.attempt, d.ended, d.rule, d.action) for d in found.replayed]


def test_a_policy_that_gives_up_earlier(tmp_path: Path) -> None:
    """With one request the turn is exhausted where the record went on."""
    strict = overlay("anthropic", HURRY + "[limits]\nattempts = 1\n")
    found = replayed(tmp_path, "anthropic: cut in text", strict)

    assert not found.same
    assert ["cut"] == [d.rule for d in found.recorded]
    assert [None] == [d.rule for d in found.replayed]
    assert ("completed", "exhausted") == (found.outcome_recorded, found.outcome_replayed)


def test_a_policy_that_goes_further(tmp_path: Path) -> None:
    """A request that the record has no answer for makes the outcome unknown."""
    found = replayed(tmp_path, "anthropic: cut until given up", overlay("anthropic", HURRY))

    assert "exhausted" == found.outcome_recorded
    assert "unknown" == found.outcome_replayed
    assert [None] == [d.rule for d in found.recorded[1:]]
    assert ["cut"] == [d.rule for d in found.replayed[1:]]


def test_other_waits_are_a_difference(tmp_path: Path) -> None:
    """The same rules with other delays: not the same, and the delays are shown."""
    slow = overlay("anthropic", "[backoff.continuation]\ninitial_s = 5\nmax_s = 9\n")
    found = replayed(tmp_path, "anthropic: cut twice", slow)

    assert not found.same
    assert [0.001, 0.002] == [d.wait_s for d in found.recorded]
    assert [5.0, 9.0] == [d.wait_s for d in found.replayed]


def test_another_provider_tells_it_too(tmp_path: Path) -> None:
    """The facts of a turn are the same whatever dialect it was recorded in."""
    found = replayed(tmp_path, "anthropic: cut in text", overlay("openai-chat", HURRY))

    assert found.same


def test_a_record_that_ends_early(tmp_path: Path) -> None:
    """Of a turn without an end the outcome is unknown on both sides."""
    told = recorded("anthropic: cut in text")
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(told.data.splitlines(keepends=True)[:3]))
    found = replay(read_run(path).turns[0], told.policy)

    assert "unknown" == found.outcome_recorded
