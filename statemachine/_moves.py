"""Changes of state: fire a trigger, then do what the state entered is there for.

The states are known by their roles, so a policy may name them as it likes. What follows from what
is the transition table's business; here stands only what each role does on entry.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from midthought.policies import FailureKind, Rule, Stop

from ._backoff import delay_s, hinted_delay_s
from ._build import Continue
from ._context import NEVER, Context
from ._effects import Ask, Close, Emit, Request, Send, Wait
from ._ending import end_attempt, end_continuation, end_turn
from ._events import StateChanged
from ._failure import Failure
from ._joining import make_order, make_seam, next_cap
from ._rules import Facts, Verdict, rule_action
from ._turn import Attempt, Plan

__all__ = ["Moves"]


class Moves:
    """The machine of one turn at work."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._plans = 0
        self._waited_s = 0.0
        self._previous_delay: dict[str, float] = {}
        self._enter = {
            "assess": self._assess,
            "commit": self._commit,
            "wait": self._wait,
            "resume": self._resume,
            "ask": self._ask,
            "final": self._final,
        }

    def fire(self, trigger: str) -> None:
        """Move by ``trigger``; a change of state is shown to the caller and carried out."""
        ctx, turn = self._ctx, self._ctx.turn
        before = turn.state
        ctx.table.fire(turn, trigger)
        if turn.state == before:
            return
        ctx.record("llm_state_changed", source=before, trigger=trigger, state=turn.state)
        detail = self._detail()
        ctx.out.append(Emit(StateChanged(ctx.attempt, before, trigger, turn.state, detail)))
        enter = self._enter.get(ctx.table.roles[turn.state])
        if enter is not None:
            enter()

    def _detail(self) -> dict[str, Any]:
        turn = self._ctx.turn
        detail: dict[str, Any] = {}
        if turn.failure is not None:
            detail["error_kind"] = turn.failure.kind.value
        if turn.plan is not None:
            detail |= {
                "rule": turn.plan.rule.name,
                "how": turn.plan.how,
                "strategy": turn.plan.strategy,
                "delay_s": turn.plan.delay_s,
                "use": turn.plan.uses,
                "uses_left": self._ctx.chooser.left(turn.plan.rule),
            }
        return detail

    # --- the attempt ended -----------------------------------------------------------------------

    def failed(self, failure: Failure) -> None:
        """The open attempt failed: fix the facts, close it, find an answer."""
        ctx, turn = self._ctx, self._ctx.turn
        same = turn.failure is not None and turn.failure.kind is failure.kind
        turn.failure = turn.attempts[-1].failure = failure
        turn.stop = Stop.error
        ctx.out.append(Close(ctx.attempt))
        ctx.open = False
        visible = ctx.timeline.visible_by(ctx.attempt)
        turn.in_a_row = turn.in_a_row + 1 if same and not visible else 1
        ctx.timeline.cut(marked=self._marked())
        ctx.chooser.struck.clear()
        end_attempt(ctx, complete=False)
        end_continuation(ctx, failed=failure.kind.value, said=failure.message)
        self.fire("failed")

    def finished(self, stop: Stop) -> None:
        """The open attempt ended with the model's stop."""
        ctx, turn = self._ctx, self._ctx.turn
        ctx.open = False
        turn.failure = None
        turn.attempts[-1].stop = turn.stop = stop
        ctx.chooser.struck.clear()
        end_attempt(ctx, complete=True)
        end_continuation(ctx, failed=None, said=stop.value)
        # A cut is no answer: only a continuation that ended by itself can show a standstill.
        idle = ctx.order is not None and not turn.attempts[-1].kept_chars
        turn.idle_continuations = turn.idle_continuations + 1 if idle else 0
        turn.rule, _ = self._choose(None, stop)
        self.fire("finished")

    def answers(self, stop: Stop) -> bool:
        """A rule would take this stop: what is held must not be released yet."""
        ctx = self._ctx
        if not any(stop in rule.on.stop for rule in ctx.policy.rules):
            return False
        ctx.turn.decided = ctx.timeline.commit(finished=True)
        return self._choose(None, stop)[0] is not None

    # --- rules ------------------------------------------------------------------------------------

    def _choose(self, failure: Failure | None, stop: Stop) -> tuple[Rule | None, list[Verdict]]:
        return self._ctx.chooser.choose(self._facts(failure, stop))

    def _facts(self, failure: Failure | None, stop: Stop) -> Facts:
        ctx, turn, timeline = self._ctx, self._ctx.turn, self._ctx.timeline
        kept = turn.decided.kept
        # Of a reply that refuses nothing is continued or asked again, whatever broke it.
        refusing = any(b.kind == "refusal" for b in timeline.blocks)
        return Facts(
            failure=failure,
            stop=stop,
            partial=ctx.partial,
            attempt_partial=turn.attempts[-1].kept_chars > 0,
            attempt_visible=any(b.shown_by == ctx.attempt for b in kept),
            turn_visible=any(b.shown_by >= 0 for b in kept),
            continuing=ctx.order is not None,
            in_a_row=turn.in_a_row,
            refusing=failure is not None and refusing,
            resumable="resume" in ctx.strategies(kept),
            strategies=ctx.strategies(kept),
            can_retract=ctx.policy.turn.retract,
            hooks=ctx.hooks,
            attempts_left=ctx.policy.limits.attempts - len(turn.attempts),
            longest_wait_s=ctx.policy.limits.max_retry_after_s,
            input_left=self._input_left(),
            now=ctx.now,
        )

    def _input_left(self) -> bool:
        """One more request stays within ``limits.extra_input_tokens``, by what was reported."""
        limit = self._ctx.policy.limits.extra_input_tokens
        inputs = [attempt.input or 0 for attempt in self._ctx.ledger.attempts]
        return limit is None or sum(inputs[1:]) + max(inputs, default=0) <= limit

    # --- states -----------------------------------------------------------------------------------

    def _assess(self) -> None:
        ctx, turn = self._ctx, self._ctx.turn
        turn.plan, turn.wait_fits = None, True
        turn.rule, verdicts = self._choose(turn.failure, turn.stop)
        if turn.failure is not None and turn.failure.phase == "stream":
            ctx.record("llm_stream_interrupted", **self._interrupted(turn.failure))
        ctx.record(
            "llm_recovery_decided",
            state=turn.state,
            rule=turn.rule.name if turn.rule else None,
            action=turn.rule.action if turn.rule else None,
            looked_at=[{"rule": v.rule, "answer": v.answer} for v in verdicts],
            uses=dict(ctx.chooser.uses),
            budgets=dict(ctx.chooser.drawn),
        )
        if turn.rule is not None and turn.rule.action == "stop":
            turn.hint = turn.rule.hint
        self.fire("assessed")

    def _interrupted(self, failure: Failure) -> dict[str, Any]:
        """Fields of ``llm_stream_interrupted``: counts and characters, never content."""
        decided = self._ctx.turn.decided
        kept, dropped = decided.kept, decided.dropped
        last = kept[-1] if kept else None
        return {
            "original_attempt": 0,
            "continuation_attempt": self._ctx.attempt,
            "error_kind": failure.kind.value,
            "error_message": failure.message,
            "committed_text_blocks": sum(b.kind == "text" for b in kept),
            "committed_partial_text": len(last.text) if last and not last.closed else 0,
            "discarded_partial_tool_use": sum(d.block.kind == "tool_use" for d in dropped),
            "discarded_thinking": sum(d.block.kind == "thinking" for d in dropped),
            "usage_flushed": True,
        }

    def _commit(self) -> None:
        ctx, turn, rule = self._ctx, self._ctx.turn, self._ctx.turn.rule
        if rule is None or (turn.failed and turn.whole_tool_calls):
            self._apply(None)
            self.fire("committed")
            return
        how, edits = rule_action(rule)
        if how == "again":
            how = "continue" if ctx.partial else "retry"
        self._plans += 1
        uses = ctx.chooser.take(rule, ctx.now)
        asks: list[str] = [edit for edit in edits if edit in ctx.hooks]
        turn.plan = Plan(self._plans, rule, how, uses, asks=asks)
        self.go_on(turn.plan)

    def go_on(self, plan: Plan) -> None:
        """Make the plan whole: ask what still has to be asked, then commit."""
        ctx = self._ctx
        if plan.asks:
            plan.asked_at = ctx.now
            ctx.out.append(Ask(plan.asks[0], plan.number, {"kind": ctx.why}))
            return
        self._build(plan, rule_action(plan.rule).edits)
        self._set_delay(plan)
        self._apply(plan)
        self.fire("committed")

    def _build(self, plan: Plan, edits: Collection[str]) -> None:
        ctx = self._ctx
        if "next_strategy" in edits and ctx.order is not None:
            ctx.refused.add(ctx.order.strategy)
            if self._refused_by_server():
                ctx.learned.add(ctx.order.strategy)
            if ctx.order.handle is not None and plan.how == "continue":
                ctx.stop_upstream()  # the reply goes on elsewhere: the provider need not end it
        if plan.how in ("continue", "resume"):
            if not ctx.turn.failed:  # after a failure this was done at the cut
                ctx.timeline.cut(keep_short=True, marked=self._marked())
                ctx.turn.decided = ctx.timeline.commit(finished=True)
            order = self._order(plan)
            plan.strategy, ctx.next_order = order.strategy, order
            plan.request = self.request_for(order)
        elif plan.how == "retry" and self._takes_back():
            plan.anew = True
            plan.request, ctx.next_order = self.request_for(None), None
        elif plan.how == "retry":
            plan.request, ctx.next_order = ctx.sent, ctx.order
            plan.strategy = ctx.order.strategy if ctx.order else None
        if "strip_thinking" in edits and plan.request is not None:
            plan.request = ctx.builder.strip_thinking(plan.request, ctx.policy)

    def _marked(self) -> dict[int, int]:
        """What the last checkpoint covers, where this policy resumes from checkpoints."""
        mark = self._ctx.marks.last
        if mark is None or "resume" not in self._ctx.policy.continuation.strategies:
            return {}
        return {index: chars for index, _, chars in mark.blocks}

    def _refused_by_server(self) -> bool:
        failure = self._ctx.turn.failure
        if failure is None or failure.kind is not FailureKind.prefill_rejected:
            return False
        # That one reply can no longer be resumed says nothing of the next one.
        return self._ctx.order is not None and self._ctx.order.handle is None

    def _takes_back(self) -> bool:
        """A retry after output: what was shown is taken back and the turn begins anew."""
        ctx = self._ctx
        visible = ctx.timeline.visible_by(ctx.attempt) or ctx.turn.attempts[-1].kept_chars > 0
        return ctx.policy.turn.retract and visible

    def _order(self, plan: Plan) -> Continue:
        ctx, kept = self._ctx, self._ctx.turn.decided.kept
        entries = zip(ctx.turn.attempts, ctx.ledger.attempts, strict=True)
        produced = sum(entry.output or 0 for attempt, entry in entries if attempt.kept_chars)
        own = ctx.builder.cap(ctx.request, ctx.policy)
        cap = next_cap(ctx.policy, own, produced, plan.rule.cap)
        strategy = "resume" if plan.how == "resume" else ctx.strategies(kept)[0]
        mark = ctx.marks.usable(kept)
        if strategy in ("resume", "poll") and mark is not None:
            start = mark.text_chars if strategy == "resume" else 0
            return Continue(strategy, tuple(kept), handle=mark.handle, sent_chars=start)
        return make_order(ctx.policy, strategy, kept, ctx.features, cap)

    def request_for(self, order: Continue | None) -> Request | None:
        """The request of this order, made of the caller's; of none: the caller's own."""
        ctx = self._ctx
        if order is None:
            return ctx.builder.original(ctx.request, ctx.policy)
        if order.handle is None:
            return ctx.builder.continuation(ctx.request, ctx.policy, order)
        poll = order.strategy == "poll"
        return ctx.builder.resume(ctx.request, ctx.policy, order.handle, poll=poll)

    def _set_delay(self, plan: Plan) -> None:
        ctx, turn, limits = self._ctx, self._ctx.turn, self._ctx.policy.limits
        hint = turn.failure.retry_after_s if turn.failure is not None else None
        name = plan.rule.backoff
        if hint is not None:
            plan.delay_s = hinted_delay_s(hint, limits.retry_after_jitter, ctx.rng)
        elif name is not None:
            previous = self._previous_delay.get(name, 0.0)
            plan.delay_s = delay_s(ctx.policy.backoff[name], plan.uses, ctx.rng, previous)
            self._previous_delay[name] = plan.delay_s
        self._waited_s += plan.delay_s
        fits = self._waited_s <= limits.wait_s and ctx.now + plan.delay_s < ctx.deadline_at
        turn.wait_fits = fits
        if 0 < turn.no_progress_limit <= turn.idle_continuations:
            turn.reason = "no_progress"
        elif not fits:
            turn.reason, turn.retry_at_s = "wait_too_long", plan.delay_s

    def _apply(self, plan: Plan | None) -> None:
        ctx = self._ctx
        ctx.apply(ctx.why_dropped, take_back=plan is not None and plan.anew)

    def _ask(self) -> None:
        """A state of the policy's own that asks the host for its word."""
        ctx, plan = self._ctx, self._ctx.turn.plan
        if plan is None:
            raise RuntimeError(f"{ctx.turn.state!r} was entered without a plan: check the policy")
        plan.asks, plan.asked_at = [ctx.turn.state], ctx.now
        if ctx.turn.state in ctx.hooks:
            ctx.out.append(Ask(ctx.turn.state, plan.number, {"kind": ctx.why}))
        else:
            self.refuse(plan, "the host has no such hook")

    def refuse(self, plan: Plan, reason: str) -> None:
        """The host has no answer: the rule of this plan does not apply to this failure."""
        ctx = self._ctx
        ctx.turn.plan = None
        ctx.chooser.struck.add(plan.rule.name)
        ctx.record("llm_hook_refused", rule=plan.rule.name, reason=reason)
        self.fire("refused")

    def _wait(self) -> None:
        ctx, plan = self._ctx, self._ctx.turn.plan
        delay = 0.0
        if plan is not None and not plan.waited:
            # Of several wait states in a row the first one waits.
            delay, plan.waited = plan.delay_s, True
        ctx.until = ctx.now + delay
        if delay > 0:
            ctx.out.append(Wait(ctx.until, delay, ctx.why))
        else:
            self.fire("waited")

    def _resume(self) -> None:
        ctx, turn = self._ctx, self._ctx.turn
        ctx.until = NEVER
        plan, turn.plan = turn.plan, None
        if plan is None or plan.request is None or plan.how == "finish":
            raise RuntimeError(f"state {turn.state!r} was entered without a plan: check the policy")
        number = ctx.attempt + 1
        info = Attempt(number, plan.how, plan.strategy, plan.rule.name, plan.delay_s)
        self.send(plan.request, info, ctx.next_order)
        if ctx.order is not None:
            ctx.record(
                "llm_stream_continuation_started",
                backoff_s=plan.delay_s,
                strategy=ctx.order.strategy,
                committed_blocks=[b.kind for b in ctx.order.blocks],
                committed_chars=sum(len(b.text) for b in ctx.order.blocks),
            )
        if plan.how == "retry":
            ctx.record(
                "llm_request_retried",
                backoff_s=plan.delay_s,
                rule=plan.rule.name,
                error_kind=ctx.why,
            )

    def _final(self) -> None:
        end_turn(self._ctx)

    def send(self, request: Request, info: Attempt, order: Continue | None) -> None:
        """Open an attempt."""
        ctx = self._ctx
        ctx.attempt = info.number
        ctx.turn.attempts.append(info)
        ctx.sent, ctx.order = request, order
        ctx.open, ctx.begun, ctx.stop = True, False, None
        ctx.clocks.send(ctx.now)
        ctx.ledger.begin(info.number)
        self.begin_timeline()
        ctx.out.append(Send(info.number, request, fresh=info.number > 0))

    def begin_timeline(self) -> None:
        """Events of the open attempt follow, joined by the seam of its order."""
        ctx = self._ctx
        blocks = ctx.timeline.blocks
        seam = make_seam(ctx.policy, ctx.order, blocks) if ctx.order is not None else None
        ctx.seam_recorded = seam is None
        ctx.timeline.begin(ctx.attempt, seam, f"{ctx.policy.provider}/{ctx.model}")
