"""The end of a turn: what is kept, what the caller is told, whatever the outcome.

Every final state passes here once: commit is applied, so that the history is valid, open blocks are
closed for the caller, and ``TurnFinished`` and ``Done`` go out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from midthought.policies import Final, Stop

from ._commit import Commit, Dropped
from ._context import NEVER, Context
from ._effects import Close, Done, Emit
from ._events import TurnFinished
from ._failure import Failure

__all__ = ["end_attempt", "end_continuation", "end_turn"]


def end_attempt(ctx: Context, *, complete: bool) -> None:
    """An attempt is over: decide what would be kept and close its accounts."""
    turn, timeline = ctx.turn, ctx.timeline
    attempt = turn.attempts[-1]
    attempt.received_chars = timeline.received_chars()
    turn.decided = decided = timeline.commit(finished=complete)
    if not complete and not ctx.partial and not any(b.shown_by >= 0 for b in decided.kept):
        # Nobody saw it and no request can carry it: the attempt was in vain.
        gone = (Dropped(block, "no_message") for block in decided.kept)
        turn.decided = Commit(dropped=(*decided.dropped, *gone))
    attempt.kept_chars = timeline.kept_chars(turn.decided)
    per_token = ctx.policy.cap.chars_per_token
    ctx.ledger.end(complete=complete, estimate=int(attempt.received_chars / per_token))
    ctx.ledger.discard(int((attempt.received_chars - attempt.kept_chars) / per_token))
    if ctx.order is not None and attempt.kept_chars:
        ctx.history.answered(ctx.order)
    ctx.record(
        "llm_attempt_ended",
        how=attempt.how,
        strategy=attempt.strategy,
        stop=attempt.stop.value if attempt.stop is not None else None,
        failure=_facts(attempt.failure),
        received=[
            {"kind": block.kind, "chars": chars, "closed": block.closed}
            for block, chars in timeline.received()
        ],
        received_chars=attempt.received_chars,
        kept_chars=attempt.kept_chars,
    )


def _facts(failure: Failure | None) -> dict[str, Any] | None:
    """The facts that rules ask about; the message stands in the record of the break."""
    if failure is None:
        return None
    facts = msgspec.to_builtins(failure)
    return {k: v for k, v in facts.items() if k not in ("message", "provider", "model")}


def end_continuation(ctx: Context, *, failed: str | None, said: str) -> None:
    """The record that every continuation ends with, exactly once."""
    if ctx.order is None:
        return
    if failed is None:
        ctx.record("llm_stream_continuation_completed", completion_reason=said)
    else:
        ctx.record("llm_stream_continuation_failed", error_kind=failed, error_message=said)


def end_turn(ctx: Context) -> None:
    """Enter a final state."""
    turn = ctx.turn
    outcome = turn.outcome = ctx.table.outcomes[turn.state]
    ctx.until = NEVER
    if ctx.open:
        _break_off(ctx)
    if outcome == "completed":
        _complete(ctx)
    else:
        _give_up(ctx, outcome)
    ctx.history.close(ctx.timeline.blocks, finished=outcome == "completed" and not turn.failed)
    ctx.out.append(
        Emit(
            TurnFinished(
                ctx.attempt,
                outcome,
                turn.stop,
                turn.failure if outcome == "exhausted" else None,
                turn.reason,
                turn.incomplete,
                turn.retry_at_s,
            )
        )
    )
    ctx.out.append(Done(outcome))


def _break_off(ctx: Context) -> None:
    """The turn ends while upstream is open: by the caller, or by the deadline."""
    ctx.out.append(Close(ctx.attempt))
    ctx.open = False
    ctx.stop_upstream()
    ctx.timeline.cut()
    end_attempt(ctx, complete=False)
    end_continuation(ctx, failed=ctx.turn.reason, said="ended by the caller or the deadline")
    ctx.apply(f"{ctx.turn.reason}_error")


def _complete(ctx: Context) -> None:
    turn = ctx.turn
    if turn.failed and turn.whole_tool_calls:
        turn.stop, turn.reason = Stop.tool_use, "tool_calls_whole"
    elif turn.failed:
        turn.stop, turn.incomplete, turn.reason = Stop.end, True, "partial_accepted"
    else:
        turn.incomplete = turn.stop in (Stop.length, Stop.context_full)
        turn.reason = "stop" if ctx.timeline.blocks else "empty"
        ctx.timeline.accept()
        if ctx.stop is not None:
            ctx.out.append(Emit(ctx.stop))
    ctx.timeline.finish()
    ctx.record("llm_turn_finished", stop=turn.stop.value, reason=turn.reason, **_sums(ctx))


def _give_up(ctx: Context, outcome: Final) -> None:
    turn = ctx.turn
    ctx.stop_upstream()
    turn.incomplete = True
    turn.stop = Stop.aborted if outcome == "aborted" else Stop.error
    if outcome == "exhausted":
        turn.reason = turn.reason or "no_rule_left"
        if turn.retry_at_s is None and turn.failure is not None:
            turn.retry_at_s = turn.failure.retry_after_s
    ctx.apply(ctx.why_dropped)
    if ctx.policy.blocks.tool_use.on_abort == "drop":
        for block in ctx.timeline.drop_calls():
            ctx.record_tool(block, f"{turn.reason}_error")
    else:
        ctx.history.answer_calls()
    turn.decided = ctx.timeline.commit()
    ctx.apply(f"{turn.reason}_error")
    ctx.timeline.finish()
    if outcome == "aborted":
        ctx.record("llm_turn_finished", stop="aborted", reason=turn.reason, **_sums(ctx))
        return
    if any(attempt.how in ("continue", "resume") for attempt in turn.attempts):
        ctx.record(
            "llm_stream_continuation_exhausted",
            attempts=len(turn.attempts),
            final_reason=ctx.why if turn.reason == "no_rule_left" else turn.reason,
        )
    ctx.record("llm_turn_exhausted", reason=turn.reason, **_sums(ctx))


def _sums(ctx: Context) -> dict[str, Any]:
    usage = ctx.ledger.total()
    return {
        "attempts": len(ctx.turn.attempts),
        "blocks": [block.kind for block in ctx.timeline.blocks],
        "output_tokens": usage.output,
        "discarded_output_tokens": usage.discarded_output,
        "late_events": ctx.turn.late_events,
    }
