"""A fleet of turns in virtual time: what a policy recovers, what it costs, and what its rivals do.

The machine is the real one, fed with events instead of bytes; no socket, no sleep. Each turn meets
the same upstream, whatever plays it: the policy, a restart from scratch, or giving up at the first
failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from midthought.policies import FailureKind, Policy, Stop
from midthought.providers import get_dialect
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Effect,
    Event,
    Failure,
    Finished,
    Opened,
    Recovery,
    Responded,
    Send,
    StopKnown,
    TimePassed,
    Usage,
    UsageReported,
    Wait,
    delay_s,
)

from ._faults import Faults
from ._world import CHARS_PER_TOKEN, Script, World

__all__ = ["Figures", "Outcome", "Report", "play_turn", "simulate"]

_REQUEST: dict[str, Any] = {
    "model": "simulated",
    "max_tokens": 100_000,
    "messages": [{"role": "user", "content": "simulated"}],
}
_KINDS = {
    "cut": FailureKind.sse_transport,
    "overloaded": FailureKind.overloaded,
    "rate_limited": FailureKind.rate_limited,
    "server_error": FailureKind.server_error,
    "connect": FailureKind.connect,
}


class Outcome(NamedTuple):
    """One turn as one player brought it to its end."""

    whole: bool
    broken: bool
    """Something went wrong on the way."""
    requests: int
    took_s: float
    added_s: float
    """Over what the turn takes if nothing breaks."""
    paid_tokens: int
    """Output tokens that upstream made."""
    kept_tokens: int
    """Output tokens in the reply."""
    input_tokens: int


class Figures(NamedTuple):
    """A player's sums over all turns."""

    player: str
    turns: int
    broken: int
    whole: int
    healed_share: float
    """Of the turns in which something went wrong, how many ended whole."""
    added_p50_s: float
    added_p95_s: float
    added_p99_s: float
    requests_per_turn: float
    paid_tokens: int
    wasted_tokens: int
    input_tokens: int


class Report(NamedTuple):
    """The policy and its two rivals on the same turns."""

    policy: str
    faults: str
    seed: int
    figures: tuple[Figures, ...]


class _Clockwork:
    """The machine's host in virtual time, one attempt at a time."""

    def __init__(self, policy: Policy, world: World) -> None:
        self._world = world
        dialect = get_dialect(policy.dialect)
        self.machine = Recovery(policy, _REQUEST, dialect, rng=world.random.random)
        self.now = 0.0
        self.paid = 0
        self.input = 0
        self.broken = False
        self.wait: float | None = None
        self.send: int | None = None

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Keep what has to be done next."""
        for effect in effects:
            if type(effect) is Send:
                self.send, self.wait = effect.attempt, None
            elif type(effect) is Wait:
                self.wait = effect.until

    def run(self, prompt_tokens: int) -> None:
        """Play the turn to its end."""
        self.carry_out(self.machine.start(self.now))
        while not self.machine.done:
            if self.send is not None:
                self._attempt(self.send, prompt_tokens)
            else:
                self.now = max(self.now, self.machine.next_deadline())
                self.carry_out(self.machine.feed(TimePassed(), self.now))

    def _attempt(self, number: int, prompt_tokens: int) -> None:
        self.send = None
        first = -(-self._shown_chars() // CHARS_PER_TOKEN)
        script = self._world.attempt(self.now, first)
        sent = self.now
        self.paid += script.last - script.first
        if script.ending.status is None and script.ending.kind != "connect":
            self.input += prompt_tokens + first
        for at, events in attempt_events(number, script, self._world):
            if not self._advance(sent + at, number):
                return
            self.carry_out(self.machine.feed_all(events, self.now))
        if script.ending.kind == "stall":
            self.broken = True
            while not self.machine.done and self.send is None and self.wait is None:
                self.now = self.machine.next_deadline()
                self.carry_out(self.machine.feed(TimePassed(), self.now))
        elif script.ending.kind != "whole":
            self.broken = True

    def _advance(self, to: float, number: int) -> bool:
        """Let the time pass to ``to``; False if a clock ended the attempt before."""
        while self.machine.next_deadline() <= to:
            self.now = self.machine.next_deadline()
            self.carry_out(self.machine.feed(TimePassed(), self.now))
            if self.machine.done or self.send is not None or self.wait is not None:
                self.broken = True
                return False
        self.now = to
        return True

    def _shown_chars(self) -> int:
        attempts = self.machine.turn.attempts
        if not attempts or attempts[-1].strategy is None:
            return 0
        return sum(len(block.text) for block in self.machine.blocks)


def attempt_events(
    number: int, script: Script, world: World
) -> Iterator[tuple[float, list[Event]]]:
    """The events of a scripted attempt, with their times after the request was sent."""
    ending = script.ending
    if ending.status is not None or ending.kind == "connect":
        phase = "connect" if ending.kind == "connect" else "response"
        yield script.ended_s, [Finished(number, Stop.error, _failure(script, phase))]
        return
    text = world.text(script.first, script.last)
    begun: list[Event] = [Responded(number), Opened(number), BlockStarted(number, 0, "text")]
    yield script.opened_s, begun
    if text:
        yield script.ended_s, [BlockDelta(number, 0, text)]
    if ending.kind == "whole":
        used = Usage(output=script.last - script.first)
        yield (
            script.ended_s,
            [
                BlockClosed(number, 0),
                StopKnown(number, Stop.end, "stop"),
                UsageReported(number, used),
                Finished(number, Stop.end),
            ],
        )
    elif ending.kind != "stall":
        yield script.ended_s, [Finished(number, Stop.error, _failure(script, "stream"))]


def _failure(script: Script, phase: Any) -> Failure:
    ending = script.ending
    return Failure(
        _KINDS[ending.kind],
        phase=phase,
        message="simulated",
        status=ending.status,
        retry_after_s=ending.retry_after_s,
        processed="no" if phase == "connect" else "unknown",
    )


def play_turn(policy: Policy, faults: Faults, seed: int, turn: int) -> Outcome:
    """One turn with the policy."""
    world = World(faults, seed, turn)
    clockwork = _Clockwork(policy, world)
    clockwork.run(faults.reply.prompt_tokens)
    machine = clockwork.machine
    kept = sum(len(block.text) for block in machine.blocks) // CHARS_PER_TOKEN
    return Outcome(
        whole=machine.turn.outcome == "completed",
        broken=clockwork.broken,
        requests=len(machine.turn.attempts),
        took_s=clockwork.now,
        added_s=clockwork.now - world.whole_s,
        paid_tokens=clockwork.paid,
        kept_tokens=kept,
        input_tokens=clockwork.input,
    )


def _rival(policy: Policy, faults: Faults, seed: int, turn: int, tries: int) -> Outcome:
    """Restart from scratch up to ``tries`` requests, with the policy's transient waits."""
    world, now, paid, used, requests = World(faults, seed, turn), 0.0, 0, 0, 0
    spec = policy.backoff.get("transient") or next(iter(policy.backoff.values()), None)
    broken = whole = False
    kept = 0
    while requests < tries and not whole:
        script = world.attempt(now, 0)
        requests += 1
        paid += script.last
        refused = script.ending.status is not None or script.ending.kind == "connect"
        used += 0 if refused else faults.reply.prompt_tokens
        now += script.ended_s
        kept = script.last
        whole = script.ending.kind == "whole"
        if not whole:
            broken = True
            now += policy.clocks.liveness_s if script.ending.kind == "stall" else 0.0
            if requests < tries and spec is not None:
                hint = script.ending.retry_after_s
                now += hint if hint is not None else delay_s(spec, requests, world.random.random)
    return Outcome(whole, broken, requests, now, now - world.whole_s, paid, kept, used)


def simulate(
    policy: Policy,
    faults: Faults,
    *,
    turns: int = 1000,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Play ``turns`` turns with the policy and its rivals; a seed gives the same figures."""
    players: dict[str, list[Outcome]] = {"policy": [], "restart": [], "give up": []}
    policy = policy.for_model(_REQUEST["model"])
    for turn in range(turns):
        players["policy"].append(play_turn(policy, faults, seed, turn))
        tries = policy.limits.attempts
        players["restart"].append(_rival(policy, faults, seed, turn, tries))
        players["give up"].append(_rival(policy, faults, seed, turn, 1))
        if progress is not None and turn % 1000 == 999:
            progress(turn + 1)
    figures = tuple(_sum(name, outcomes) for name, outcomes in players.items())
    return Report(policy.name, faults.name, seed, figures)


def _sum(player: str, outcomes: Sequence[Outcome]) -> Figures:
    broken = [o for o in outcomes if o.broken]
    added = sorted(o.added_s for o in outcomes if o.whole)
    paid = sum(o.paid_tokens for o in outcomes)
    kept = sum(o.kept_tokens for o in outcomes if o.whole)
    return Figures(
        player=player,
        turns=len(outcomes),
        broken=len(broken),
        whole=sum(o.whole for o in outcomes),
        healed_share=sum(o.whole for o in broken) / len(broken) if broken else 1.0,
        added_p50_s=_rank(added, 0.50),
        added_p95_s=_rank(added, 0.95),
        added_p99_s=_rank(added, 0.99),
        requests_per_turn=sum(o.requests for o in outcomes) / max(1, len(outcomes)),
        paid_tokens=paid,
        wasted_tokens=paid - kept,
        input_tokens=sum(o.input_tokens for o in outcomes),
    )


def _rank(values: Sequence[float], share: float) -> float:
    """The value at ``share`` of the sorted ``values``; 0 for none."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
