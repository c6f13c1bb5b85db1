"""A recorded turn through another policy: what it would have decided, attempt by attempt.

Works on the shapes and facts in a run file; text is made up in the recorded lengths. Where the
other policy goes its own way, upstream's later answers are those of the record, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from midthought.policies import Policy, Stop
from midthought.providers import get_dialect
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Failure,
    Finished,
    Opened,
    Record,
    Recovery,
    StopKnown,
    TimePassed,
)

from ._run_file import Turn
from ._world import filler

__all__ = ["Decision", "Replay", "replay"]


class Decision(NamedTuple):
    """What was decided after an attempt."""

    attempt: int
    ended: str
    """The failure's kind, or the stop."""
    rule: str | None
    action: str | None
    wait_s: float


class Replay(NamedTuple):
    """Both stories of one turn."""

    recorded: tuple[Decision, ...]
    replayed: tuple[Decision, ...]
    outcome_recorded: str
    outcome_replayed: str
    """``unknown`` where the record has no answer for a request that the other policy sends."""

    @property
    def same(self) -> bool:
        """The other policy does the same."""
        return (self.recorded, self.outcome_recorded) == (self.replayed, self.outcome_replayed)


def replay(turn: Turn, policy: Policy) -> Replay:
    """Play the recorded attempts of ``turn`` through ``policy``."""
    attempts = [r for r in turn.records if r["event"] == "llm_attempt_ended"]
    request = {"model": turn.records[0]["model"], "messages": [], "max_tokens": 100_000}
    machine = Recovery(policy, request, get_dialect(policy.dialect), rng=lambda: 0.0)
    records = list(_records(machine.start(0.0)))
    now = 0.0
    for number, recorded in enumerate(attempts):
        if machine.done:
            break
        records += _records(machine.feed_all(_events(number, recorded), now))
        while not machine.done and machine.attempt == number:
            now = machine.next_deadline()
            records += _records(machine.feed(TimePassed(), now))
    outcome = machine.turn.outcome if machine.done else "unknown"
    return Replay(
        recorded=tuple(_decisions(turn.records)),
        replayed=tuple(_decisions([{"event": r.name, **r.fields} for r in records])),
        outcome_recorded=_outcome(turn),
        outcome_replayed=outcome or "unknown",
    )


def _records(effects: list[Any]) -> Iterator[Record]:
    return (effect for effect in effects if isinstance(effect, Record))


def _outcome(turn: Turn) -> str:
    last = turn.records[-1]
    if last["event"] == "llm_turn_exhausted":
        return "exhausted"
    if last["event"] == "llm_turn_finished":
        return "aborted" if last["stop"] == "aborted" else "completed"
    return "unknown"


def _decisions(records: Any) -> Iterator[Decision]:
    decided: Mapping[str, Any] | None = None
    ended = ""
    for record in records:
        if record["event"] == "llm_attempt_ended":
            failure = record["failure"]
            ended = failure["kind"] if failure is not None else record["stop"] or "ended"
        elif record["event"] == "llm_recovery_decided":
            if decided is not None:
                yield _decision(decided, ended, 0.0)
            decided = record
        elif "backoff_s" in record and decided is not None:
            yield _decision(decided, ended, float(record["backoff_s"]))
            decided = None
    if decided is not None:
        yield _decision(decided, ended, 0.0)


def _decision(record: Mapping[str, Any], ended: str, wait_s: float) -> Decision:
    return Decision(record["attempt"], ended, record["rule"], record["action"], wait_s)


def _events(number: int, recorded: Mapping[str, Any]) -> list[Event]:
    events: list[Event] = []
    if recorded["received"]:
        events.append(Opened(number))
    for index, block in enumerate(recorded["received"]):
        events.append(BlockStarted(number, index, block["kind"], f"id{number}-{index}", "tool"))
        text = filler(number * 7919, block["chars"])
        if block["kind"] == "tool_use":
            whole = block["closed"] or recorded["stop"] is not None
            events.append(
                BlockDelta(number, index, '{"a":"' + text + ('"}' if whole else ""), "input")
            )
        elif text:
            events.append(BlockDelta(number, index, text))
        if block["closed"]:
            events.append(BlockClosed(number, index))
    if recorded["stop"] is not None:
        stop = Stop(recorded["stop"])
        events += [StopKnown(number, stop, stop.value), Finished(number, stop)]
    elif recorded["failure"] is not None:
        failure = msgspec.convert(recorded["failure"], Failure)
        events.append(Finished(number, Stop.error, failure))
    return events
