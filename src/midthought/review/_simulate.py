"""A fleet of turns in virtual time: what a policy recovers, what it costs, and what its rivals do.

The machine is the real one, fed with events instead of bytes; no socket, no sleep. Each turn meets
the same upstream, whatever plays it: the policy, a restart from scratch, or giving up at the first
failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    Phase,
    Record,
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


class Clockwork:
    """The machine's host in virtual time, one attempt at a time."""

    def __init__(self, policy: Policy, world: World) -> None:
        self._world = world
        dialect = get_dialect(policy.dialect)
        self.machine = Recovery(policy, _REQUEST, dialect, rng=world.random.random)
        self.now = 0.0
        self.paid = 0
        self.input = 0
        self.broken = self.joining = False
        self.wait: float | None = None
        self.send: int | None = None

    def carry_out(self, effects: Sequence[Effect]) -> None:
        """Keep what has to be done next."""
        for effect in effects:
            if type(effect) is Send:
                self.send, self.wait = effect.attempt, None
            elif type(effect) is Wait:
                self.wait = effect.until
            elif type(effect) is Record and effect.name == "llm_seam_joined":
                self.joining = False

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
        # Until the seam is decided each token counts: it is decided at one of them.
        self.joining = self.machine.turn.attempts[-1].strategy is not None
        first = -(-self._shown_chars() // CHARS_PER_TOKEN) if self.joining else 0
        script = self._world.attempt(self.now, first)
        arriving = Arriving(number, script, self._world, prompt_tokens + first)
        if script.streams:
            self.input += prompt_tokens + first
        if script.ending.kind != "whole":
            self.broken = True
        sent = self.now
        # A batch holds what arrives until a clock would run out: as if each token came alone.
        while not self._ended():
            deadline = self.machine.next_deadline() - sent
            batch = arriving.next(deadline, alone=self.joining)
            if batch is None:
                break
            self.now = sent + batch.at_s
            self.carry_out(self.machine.feed_all(batch.events, self.now))
        self.paid += arriving.tokens
        while not self._ended():
            self.now = self.machine.next_deadline()
            self.carry_out(self.machine.feed(TimePassed(), self.now))
            self.broken = True

    def _ended(self) -> bool:
        return self.machine.done or self.send is not None or self.wait is not None

    def _shown_chars(self) -> int:
        return sum(len(block.text) for block in self.machine.blocks)


class Batch(NamedTuple):
    """Events that may be fed together."""

    at_s: float
    """After the request was sent."""
    events: list[Event]


class Arriving:
    """The events of a scripted attempt, in as few batches as the machine's clocks allow."""

    def __init__(self, number: int, script: Script, world: World, input_tokens: int) -> None:
        self._number = number
        self._script = script
        self._world = world
        self._input = input_tokens
        self._opened = self._over = False
        self.tokens = 0
        """Output tokens that have arrived."""

    def next(self, deadline_s: float, *, alone: bool = False) -> Batch | None:
        """What arrives before ``deadline_s``; ``None``: nothing does, or nothing more will.

        ``alone``: no more than one token.
        """
        script = self._script
        if self._over:
            return None
        if not script.streams or not self._opened:
            self._opened, at = True, script.opened_s
            self._over = not script.streams
            if at >= deadline_s:
                self._over = True
                return None
            return Batch(at, self._beginning())
        if alone and self._at + 1 < script.last:
            at = script.time_of(self._at + 1)
            return Batch(at, self._text(self._at + 1)) if at < deadline_s else None
        if script.ended_s < deadline_s:
            self._over = True
            return Batch(script.ended_s, [*self._text(script.last), *self._ending()])
        upto = script.arrived(deadline_s)
        return Batch(script.time_of(upto), self._text(upto)) if upto > self._at else None

    @property
    def _at(self) -> int:
        return self._script.first + self.tokens

    def _beginning(self) -> list[Event]:
        number = self._number
        if not self._script.streams:
            return [self._failed()]
        return [Responded(number), Opened(number)]

    def _text(self, upto: int) -> list[Event]:
        text = self._world.text(self._at, upto)
        begun: list[Event] = [] if self.tokens else [BlockStarted(self._number, 0, "text")]
        self.tokens = upto - self._script.first
        return [*begun, BlockDelta(self._number, 0, text)] if text else []

    def _ending(self) -> list[Event]:
        number, kind = self._number, self._script.ending.kind
        if kind == "stall":
            return []
        if kind != "whole":
            return [self._failed()]
        closed = [BlockClosed(number, 0)] if self.tokens else []
        return [
            *closed,
            UsageReported(number, Usage(self._input, self.tokens)),
            StopKnown(number, Stop.end, "stop"),
            Finished(number, Stop.end),
        ]

    def _failed(self) -> Finished:
        ending = self._script.ending
        phase: Phase = "stream" if self._script.streams else "response"
        phase = "connect" if ending.kind == "connect" else phase
        failure = Failure(
            _KINDS[ending.kind],
            phase=phase,
            message="simulated",
            status=ending.status,
            retry_after_s=ending.retry_after_s,
            connection="new",
        )
        return Finished(self._number, Stop.error, failure)


def play_turn(policy: Policy, faults: Faults, seed: int, turn: int) -> Outcome:
    """One turn with the policy."""
    world = World(faults, seed, turn)
    clockwork = Clockwork(policy, world)
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
        used += faults.reply.prompt_tokens if script.streams else 0
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
