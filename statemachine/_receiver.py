"""What arrives from upstream: one handler per event, for the attempt that is open.

Keeps the timeline, the clocks and the ledger, finds what a dialect cannot see (a call that never
became whole, a seam that does not join), and hands the end of the attempt to the moves.
"""

from __future__ import annotations

from typing import Any

from midthought.policies import FailureKind, Stop

from ._context import Context
from ._effects import Emit, KeepAlive
from ._events import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Checkpoint,
    Event,
    Finished,
    Heartbeat,
    Opened,
    Responded,
    StopKnown,
    Unknown,
    UsageReported,
)
from ._joining import text_seam
from ._moves import Moves

__all__ = ["Receiver"]

#: Facts that come before the reply itself: they do not open an attempt.
_BEFORE = frozenset({Responded, Heartbeat, Finished, Checkpoint})
#: Stops that may fall inside a tool call: what is not whole is dropped, never repaired.
_CUTTING = frozenset({Stop.length, Stop.context_full, Stop.safety, Stop.pause})


class Receiver:
    """Upstream's events of one turn."""

    def __init__(self, ctx: Context, moves: Moves) -> None:
        self._ctx = ctx
        self._moves = moves
        self._started = False
        self._told_opened = False

    def take(self, event: Event) -> None:
        """Take an event; one of another attempt, or after the end, is late: counted and dropped."""
        ctx = self._ctx
        if not ctx.open or event.attempt != ctx.attempt:
            ctx.turn.late_events += 1
            return
        ctx.clocks.last_byte = ctx.now
        if not ctx.begun and type(event) not in _BEFORE:
            self._first()
        _HANDLERS[type(event)](self, event)
        if ctx.open and ctx.timeline.overflow is not None:
            self._overflowed(ctx.timeline.overflow)

    def _first(self) -> None:
        ctx = self._ctx
        ctx.begun, self._started = True, False
        ctx.clocks.responded = ctx.clocks.opened = True
        ctx.clocks.progress = ctx.now
        self._moves.fire("opened")

    def _responded(self, event: Responded) -> None:
        self._ctx.clocks.responded = True

    def _opened(self, event: Opened) -> None:
        ctx = self._ctx
        if self._started:
            # A second start: harmless while nothing of the attempt was shown.
            if ctx.timeline.restart():
                self._moves.begin_timeline()
            else:
                self._fail(FailureKind.premature_end, "a second start event after content")
            return
        self._started = True
        if not self._told_opened:
            # Once a turn, from the first attempt that opens.
            self._told_opened = True
            ctx.out.append(Emit(event))

    def _content(self) -> None:
        self._ctx.clocks.progress = self._ctx.now
        self._ctx.clocks.content = True

    def _block_started(self, event: BlockStarted) -> None:
        self._content()
        if event.kind == "thinking":
            self._ctx.reasoned = True
        self._ctx.timeline.started(event)

    def _delta(self, event: BlockDelta) -> None:
        self._content()
        self._ctx.timeline.delta(event)
        if not self._ctx.seam_recorded:
            self._joined()

    def _closed(self, event: BlockClosed) -> None:
        self._content()
        self._ctx.timeline.closed(event)
        if not self._ctx.seam_recorded:
            self._joined()

    def _joined(self) -> None:
        ctx, joint = self._ctx, self._ctx.timeline.joint
        if joint is None or ctx.order is None:
            return
        ctx.seam_recorded = True
        ctx.record(
            "llm_seam_joined",
            strategy=ctx.order.strategy,
            quality=joint.quality,
            dropped_chars=joint.dropped_chars,
            mismatch=joint.mismatch,
        )
        if joint.mismatch and text_seam(ctx.policy, ctx.order.strategy).on_mismatch == "reject":
            self._fail(FailureKind.seam_mismatch, "the answer does not join what was shown")

    def _checkpoint(self, event: Checkpoint) -> None:
        ctx = self._ctx
        # A resume goes out with the caller's request: an instructed attempt had another one.
        foreign = event.of_request and ctx.order is not None and ctx.order.handle is None
        # While the seam holds text, where the checkpoint stands in the turn is not known.
        if ctx.seam_recorded and not foreign:
            # A resumed stream may not say again which reply it belongs to: its order knows.
            known = ctx.order.handle if ctx.order is not None and ctx.order.handle else {}
            ctx.marks.add({**known, **event.handle}, ctx.timeline.blocks)

    def _stop_known(self, event: StopKnown) -> None:
        ctx = self._ctx
        ctx.stop = event
        ctx.clocks.grace = ctx.now
        if event.stop in _CUTTING:
            self._drop_unfinished(event.stop)
        if not self._moves.answers(event.stop):
            ctx.timeline.stop()

    def _drop_unfinished(self, stop: Stop) -> None:
        for block in self._ctx.timeline.drop_unfinished_calls():
            self._ctx.record_tool(block, stop.value)

    def _usage(self, event: UsageReported) -> None:
        if self._ctx.ledger.report(event.usage):
            self._ctx.clocks.progress = self._ctx.now
        self._ctx.out.append(Emit(event))

    def _heartbeat(self, event: Heartbeat) -> None:
        if self._ctx.timeline.holding:
            self._ctx.out.append(KeepAlive())

    def _unknown(self, event: Unknown) -> None:
        self._ctx.out.append(Emit(event))

    def _overflowed(self, what: str) -> None:
        ctx = self._ctx
        if what == "block":
            block = ctx.timeline.drop_largest()
            if block.kind == "tool_use":
                ctx.record_tool(block, "runaway_error")
            self._fail(FailureKind.runaway, "a block grew over limits.block_bytes")
        else:
            self._fail(FailureKind.event_too_large, "held content grew over limits.held_bytes")

    def _fail(self, kind: FailureKind, message: str) -> None:
        self._moves.failed(self._ctx.failure(kind, message))

    def _finished(self, event: Finished) -> None:
        if event.failure is not None:
            self._moves.failed(event.failure)
        else:
            self.reply_ended(event.stop)

    def reply_ended(self, stop: Stop) -> None:
        """The model stopped by itself; calls it left open are whole, dropped, or a failure."""
        ctx = self._ctx
        timeline = ctx.timeline
        if not ctx.begun:
            self._first()
        if stop in _CUTTING:
            self._drop_unfinished(stop)
        timeline.close_whole_calls()
        if timeline.open_calls():
            self._fail(FailureKind.malformed_tool_call, "the reply ended inside a tool call")
            return
        if stop is Stop.end and timeline.calls_of_attempt():
            stop = Stop.tool_use
        timeline.settle_seam()
        if not ctx.seam_recorded:
            self._joined()
        self._moves.finished(stop)


_HANDLERS: dict[type[Event], Any] = {
    Responded: Receiver._responded,
    Opened: Receiver._opened,
    BlockStarted: Receiver._block_started,
    BlockDelta: Receiver._delta,
    BlockClosed: Receiver._closed,
    Checkpoint: Receiver._checkpoint,
    StopKnown: Receiver._stop_known,
    UsageReported: Receiver._usage,
    Heartbeat: Receiver._heartbeat,
    Unknown: Receiver._unknown,
    Finished: Receiver._finished,
}
