"""The engine of one turn: feed events and the time, get effects.

The surface of the pure core. It does no IO, reads no clock and draws no random number: the host
gives ``now`` (seconds of a clock that stands still while the caller is thinking) and ``rng``. The
same inputs give the same effects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from midthought.policies import FailureKind, Policy

from ._backoff import Rng
from ._blocks import Block
from ._build import Builder
from ._context import NEVER, Context
from ._effects import Close, Effect, Withdraw
from ._events import (
    Answered,
    BlockDelta,
    Cancelled,
    ClockJumped,
    Event,
    HostEvent,
    Refused,
    TimePassed,
    Yielded,
)
from ._failure import Phase
from ._history import History
from ._moves import Moves
from ._receiver import Receiver
from ._turn import Attempt, Turn
from ._usage import Ledger, TurnUsage

__all__ = ["Recovery"]


class Recovery:
    """One turn. ``start(now)`` first, then ``feed`` until a ``Done`` effect.

    ``request`` is the provider's JSON body; ``hooks`` names what the host can be asked; ``refused``
    are continuation strategies that this server is known to refuse.
    """

    def __init__(
        self,
        policy: Policy,
        request: Mapping[str, Any],
        builder: Builder,
        *,
        rng: Rng,
        hooks: Collection[str] = (),
        refused: Collection[str] = (),
        turn_id: str = "",
        run_id: str = "",
    ) -> None:
        ids = {"run_id": run_id, "turn_id": turn_id}
        self._ctx = Context(
            policy, request, builder, rng=rng, hooks=hooks, refused=refused, ids=ids
        )
        self._moves = Moves(self._ctx)
        self._receiver = Receiver(self._ctx, self._moves)
        self._timeline = self._ctx.timeline
        self._clocks = self._ctx.clocks

    # --- what it knows --------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy with the model's own settings laid over it."""
        return self._ctx.policy

    @property
    def request(self) -> Mapping[str, Any]:
        """The caller's request, as a hook may have changed it."""
        return self._ctx.request

    @property
    def model(self) -> str:
        """Model of the request."""
        return self._ctx.model

    @property
    def turn(self) -> Turn:
        """Facts of the turn."""
        return self._ctx.turn

    @property
    def attempt(self) -> int:
        """Number of the attempt at hand."""
        return self._ctx.attempt

    @property
    def state(self) -> str:
        """Name of the machine's state."""
        return self._ctx.turn.state

    @property
    def is_open(self) -> bool:
        """Events of an attempt are expected."""
        return self._ctx.open

    @property
    def done(self) -> bool:
        """The turn has ended."""
        return self._ctx.turn.outcome is not None

    @property
    def blocks(self) -> list[Block]:
        """Blocks of the reply so far; after the end: those that were kept."""
        return self._timeline.blocks

    @property
    def ledger(self) -> Ledger:
        """Tokens per attempt."""
        return self._ctx.ledger

    @property
    def usage(self) -> TurnUsage:
        """Tokens of all attempts."""
        return self._ctx.ledger.total()

    @property
    def headers_s(self) -> float:
        """How long the open attempt may take until its response begins."""
        return self._clocks.headers_s

    @property
    def liveness_s(self) -> float:
        """How long the open attempt may be silent."""
        return self._clocks.liveness_s

    @property
    def history(self) -> History:
        """The turn as messages for the provider."""
        return self._ctx.history

    @property
    def refused(self) -> frozenset[str]:
        """Continuation strategies that the server refuses, with what this turn found out."""
        return frozenset(self._ctx.learned)

    # --- driving it -------------------------------------------------------------------------------

    def start(self, now: float) -> list[Effect]:
        """Begin the turn: the original request goes out."""
        ctx = self._ctx
        ctx.now = now
        if ctx.policy.clocks.deadline_s is not None:
            ctx.deadline_at = now + ctx.policy.clocks.deadline_s
        ctx.record("llm_turn_started", features=sorted(ctx.features))
        request = ctx.builder.original(ctx.request, ctx.policy)
        self._moves.send(request, Attempt(0, "original"), None)
        return self._take()

    def feed(self, event: Event | HostEvent, now: float) -> list[Effect]:
        """Take one event; returns the orders that follow from it."""
        if isinstance(event, HostEvent):
            self._ctx.now = now
            if self._ctx.turn.outcome is None:
                _HOST[type(event)](self, event)
            return self._take()
        return self.feed_all((event,), now)

    def feed_all(self, events: Iterable[Event], now: float) -> list[Effect]:
        """Take the events of one read."""
        ctx, timeline, clocks = self._ctx, self._timeline, self._clocks
        take = self._receiver.take
        ctx.now = now
        for event in events:
            # Text of the block that is being shown: the hot path, nothing else can happen.
            if (
                type(event) is BlockDelta
                and event.index == timeline.hot_index
                and event.attempt == timeline.attempt
                and event.field == "text"
            ):
                timeline.hot(event)
                clocks.last_byte = clocks.progress = now
            else:
                take(event)
        return self._take()

    def next_deadline(self) -> float:
        """When to feed ``TimePassed`` if nothing else happens; infinity: never."""
        ctx = self._ctx
        if ctx.turn.outcome is not None:
            return NEVER
        if ctx.open:
            return min(self._clocks.deadline(), ctx.deadline_at)
        plan = ctx.turn.plan
        if plan is not None and plan.asks:
            return min(plan.asked_at + ctx.policy.clocks.hook_s, ctx.deadline_at)
        return min(ctx.until, ctx.deadline_at)

    def _take(self) -> list[Effect]:
        out = self._ctx.out[:]
        self._ctx.out.clear()
        return out

    # --- the host's events ------------------------------------------------------------------------

    def _time(self, event: TimePassed) -> None:
        ctx, plan = self._ctx, self._ctx.turn.plan
        if ctx.now >= ctx.deadline_at:
            ctx.turn.reason = "deadline"
            self._withdraw()
            self._moves.fire("deadline_passed")
        elif ctx.open:
            self._check_clocks()
        elif plan is not None and plan.asks:
            if ctx.now >= plan.asked_at + ctx.policy.clocks.hook_s:
                self._withdraw()
                self._moves.refuse(plan, "no answer in time")
        elif ctx.now >= ctx.until:
            self._moves.fire("waited")

    def _check_clocks(self) -> None:
        ctx = self._ctx
        expired = ctx.clocks.expired(ctx.now)
        if expired is None:
            return
        if ctx.stop is not None:
            # The reply is whole; only its end marker never came.
            ctx.out.append(Close(ctx.attempt))
            self._receiver.reply_ended(ctx.stop.stop)
            return
        if expired.before_content:
            ctx.clocks.grow()
        self._stalled(f"{expired.clock} = {expired.limit_s:g} s ran out")

    def _stalled(self, message: str) -> None:
        ctx = self._ctx
        kind = FailureKind.stalled if ctx.begun else FailureKind.timeout
        phase: Phase = "stream" if ctx.clocks.responded else "response"
        self._moves.failed(ctx.failure(kind, message, phase))

    def _jump(self, event: ClockJumped) -> None:
        ctx = self._ctx
        if ctx.open and ctx.stop is None and event.seconds > ctx.policy.clocks.wall_jump_s:
            self._stalled(f"the machine slept for {event.seconds:.0f} s")

    def _cancelled(self, event: Cancelled) -> None:
        self._abort("cancelled", event.cause)

    def _yielded(self, event: Yielded) -> None:
        self._abort("yielded", "yielded")

    def _abort(self, trigger: str, cause: str) -> None:
        ctx = self._ctx
        ctx.record("llm_stream_aborted", cause=cause, state=ctx.turn.state)
        ctx.turn.reason = cause
        self._withdraw()
        self._moves.fire(trigger)

    def _withdraw(self) -> None:
        plan = self._ctx.turn.plan
        if plan is not None and plan.asks:
            self._ctx.out.append(Withdraw(plan.number))

    def _answered(self, event: Answered) -> None:
        ctx, plan = self._ctx, self._ctx.turn.plan
        if plan is None or not plan.asks or event.plan != plan.number:
            ctx.turn.late_events += 1
            return
        hook = plan.asks.pop(0)
        if ctx.table.roles[ctx.turn.state] == "ask":
            self._moves.fire("answered")
            return
        if hook == "compact" and _size(event.request) >= _size(ctx.request):
            self._moves.refuse(plan, "the request did not shrink")
            return
        before = ctx.request, ctx.features
        ctx.request = event.request
        ctx.features = ctx.builder.features(event.request, ctx.policy)
        if plan.how == "continue" and not ctx.strategies(ctx.turn.decided.kept):
            ctx.request, ctx.features = before
            self._moves.refuse(plan, "no continuation strategy is allowed with the new request")
            return
        ctx.sent = self._moves.request_for(ctx.order) or ctx.sent
        self._moves.fire("answered")
        self._moves.go_on(plan)

    def _refused(self, event: Refused) -> None:
        plan = self._ctx.turn.plan
        if plan is not None and plan.asks and event.plan == plan.number:
            self._moves.refuse(plan, event.reason)
        else:
            self._ctx.turn.late_events += 1


def _size(request: Mapping[str, Any]) -> int:
    return len(msgspec.json.encode(request))


_HOST: dict[type[HostEvent], Any] = {
    TimePassed: Recovery._time,
    ClockJumped: Recovery._jump,
    Cancelled: Recovery._cancelled,
    Yielded: Recovery._yielded,
    Answered: Recovery._answered,
    Refused: Recovery._refused,
}
