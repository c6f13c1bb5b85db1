"""A recorded turn through another policy: what it would have decided, attempt by attempt.

Works on the shapes and facts in a run file; text is made up in the recorded lengths. Where the
other policy goes its own way, upstream's later answers are those of the record, in their order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from midthought.policies import Policy, Stop
from midthought.providers import get_dialect
from midthought.statemachine import (
    Answered,
    Ask,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Cancelled,
    Effect,
    Event,
    Failure,
    Finished,
    HostEvent,
    Opened,
    Record,
    Recovery,
    Refused,
    StopKnown,
    TimePassed,
    Yielded,
)

from ._run_file import Turn
from ._world import filler

__all__ = ["Decision", "Replay", "replay"]


_ALMOST_ONE = math.nextafter(1.0, 0.0)
_HAIR = 1e-9


class Decision(NamedTuple):
    """What was decided after an attempt."""

    attempt: int
    ended: str
    """The failure's kind, or the stop."""
    rule: str | None
    action: str | None
    wait_s: float
    """How long was waited; of a replay the shortest that the policy allows."""
    longest_s: float
    """With jitter a policy allows a span."""

    def fits(self, recorded: Decision) -> bool:
        """The record may come from this decision."""
        facts = self[:4] == recorded[:4]
        return facts and self.wait_s - _HAIR <= recorded.wait_s <= self.longest_s + _HAIR


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
        return (
            self.outcome_recorded == self.outcome_replayed
            and len(self.recorded) == len(self.replayed)
            and all(map(Decision.fits, self.replayed, self.recorded))
        )


def replay(turn: Turn, policy: Policy) -> Replay:
    """Play the recorded attempts of ``turn`` through ``policy``."""
    shortest, outcome = _play(turn, policy, 0.0)
    longest, _ = _play(turn, policy, _ALMOST_ONE)
    spans = zip(shortest, [*longest, *shortest[len(longest) :]], strict=False)
    return Replay(
        recorded=tuple(_decisions(turn.records)),
        replayed=tuple(low._replace(longest_s=max(low.wait_s, high.wait_s)) for low, high in spans),
        outcome_recorded=_outcome(turn),
        outcome_replayed=outcome,
    )


def _play(turn: Turn, policy: Policy, drawn: float) -> tuple[list[Decision], str]:
    """What ``policy`` decides if every random number is ``drawn``, and how the turn ends."""
    host = _Host(turn, policy, drawn)
    machine = host.machine
    start, now = float(turn.records[0]["at_s"]), 0.0
    attempts = [r for r in turn.records if r["event"] == "llm_attempt_ended"]
    aborted = next((r for r in turn.records if r["event"] == "llm_stream_aborted"), None)
    for number, recorded in enumerate(attempts):
        if machine.done:
            break
        now = max(now, float(recorded["at_s"]) - start)
        host.take(machine.feed_all(_events(number, recorded), now), now)
        if _is_open(recorded) and aborted is None:
            host.take(machine.feed(TimePassed(), now), now)
        last = number == len(attempts) - 1
        while _waits(machine, number) and not (last and (aborted or _is_open(recorded))):
            now = machine.next_deadline()
            host.take(machine.feed(TimePassed(), now), now)
    if aborted is not None and not machine.done:
        cause = aborted["cause"]
        told = Yielded() if cause == "yielded" else Cancelled(cause)
        host.take(machine.feed(told, now), now)
    outcome = machine.turn.outcome if machine.done else None
    return list(_decisions(host.records)), outcome or "unknown"


class _Builder:
    """The policy's dialect, for a request with the recorded features."""

    def __init__(self, policy: Policy, features: Iterable[str]) -> None:
        self._dialect = get_dialect(policy.dialect)
        self._features = frozenset(features)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dialect, name)

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """As recorded: the request itself is in no record."""
        return self._features


class _Host:
    """Keeps the records, and answers the hooks that the recorded host had as it did."""

    def __init__(self, turn: Turn, policy: Policy, drawn: float) -> None:
        decided = [r for r in turn.records if r["event"] == "llm_recovery_decided"]
        refused = [r["reason"] for r in turn.records if r["event"] == "llm_hook_refused"]
        self._request = {"model": turn.records[0]["model"], "messages": []}
        self._refused = deque(refused)
        self.records: list[dict[str, Any]] = []
        self.machine = Recovery(
            policy,
            {**self._request, "max_tokens": 100_000},
            _Builder(policy, turn.records[0].get("features", ())),
            rng=lambda: drawn,
            hooks={r["action"] for r in decided if r["action"]},
        )
        self.take(self.machine.start(0.0), 0.0)

    def take(self, effects: list[Effect], now: float) -> None:
        """Carry out what matters here."""
        for effect in effects:
            if isinstance(effect, Record):
                self.records.append({"event": effect.name, **effect.fields})
            elif isinstance(effect, Ask):
                answer: HostEvent = Answered(effect.plan, self._request)
                if self._refused:
                    answer = Refused(effect.plan, self._refused.popleft())
                self.take(self.machine.feed(answer, now), now)


def _waits(machine: Recovery, number: int) -> bool:
    """The turn goes on, and the request after ``number`` was not sent yet."""
    return not machine.done and machine.attempt == number


def _is_open(recorded: Mapping[str, Any]) -> bool:
    """The attempt did not end by itself: the caller or the deadline ended the turn in it."""
    return recorded["stop"] is None and recorded["failure"] is None


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
    return Decision(record["attempt"], ended, record["rule"], record["action"], wait_s, wait_s)


def _events(number: int, recorded: Mapping[str, Any]) -> list[Event]:
    events: list[Event] = []
    if recorded["received"]:
        events.append(Opened(number))
    dropped = recorded["received_chars"] - recorded["kept_chars"]
    for index, block in enumerate(recorded["received"]):
        events.append(BlockStarted(number, index, block["kind"], f"id{number}-{index}", "tool"))
        text = filler(number * 7919, block["chars"])
        if block["kind"] == "tool_use":
            # Chat closes no call: it was whole if commit kept it.
            kept = dropped < max(1, block["chars"])
            whole = block["closed"] or recorded["stop"] is not None or kept
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
