"""What the parts of the engine share during one turn: settings, collected facts, the list of
orders.

Holds state and writes records; decides nothing. Receiver, moves and ending all work on it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from midthought.policies import FailureKind, Policy

from ._backoff import Rng
from ._blocks import Block
from ._build import Builder, Continue
from ._clocks import StreamClocks
from ._effects import Effect, Record, Request, StopUpstream
from ._events import StopKnown
from ._failure import Failure, Phase
from ._history import History
from ._joining import allowed_strategies, text_seam
from ._marks import Marks
from ._release import size_bytes
from ._rules import Chooser
from ._table import compile_table
from ._timeline import Timeline
from ._turn import Turn
from ._usage import Ledger

__all__ = ["NEVER", "Context"]

NEVER = float("inf")


class Context:
    """One turn's working state."""

    def __init__(
        self,
        policy: Policy,
        request: Mapping[str, Any],
        builder: Builder,
        *,
        rng: Rng,
        hooks: Collection[str],
        refused: Collection[str],
        ids: Mapping[str, str],
    ) -> None:
        self.model = builder.model(request)
        self.policy = policy = policy.for_model(self.model)
        self.request = request
        self.builder = builder
        self.rng = rng
        self.hooks = frozenset(hooks)
        self.refused = set(refused)
        self.reasoned = False
        """Some attempt brought thinking."""
        self.learned = set(refused)
        """Of those, what the server itself refuses: true for other turns too."""
        self.features = builder.features(request, policy)
        self.table = compile_table(policy)
        self.out: list[Effect] = []
        self.clocks = StreamClocks(policy.clocks)
        self.ledger = Ledger()
        # Recovery switched off is a policy without rules: block safety and the stop fact stay.
        self.chooser = Chooser(policy.rules if policy.enabled else (), policy.budgets)
        self.marks = Marks()
        self.turn = Turn(self.table.initial, policy.limits.no_progress)
        self.timeline = self._make_timeline()
        self.history = History(builder, policy)
        self.now = 0.0
        self.until = NEVER
        self.deadline_at = NEVER
        # The attempt at hand.
        self.attempt = 0
        self.open = False
        self.sent = Request(request)
        self.order: Continue | None = None
        self.next_order: Continue | None = None
        self.stop: StopKnown | None = None
        self.begun = False
        """Its first event has arrived."""
        self.seam_recorded = True
        self._stopped: Request | None = None
        self._common = {
            **ids,
            "provider": policy.provider,
            "model": self.model,
            "policy": policy.name,
            "policy_digest": self.table.digest,
        }

    def _make_timeline(self) -> Timeline:
        strategies = self.strategies(())
        spec = text_seam(self.policy, strategies[0]) if strategies else None
        word = self.policy.blocks.text.release == "word" or (
            spec is not None and spec.release == "word"
        )
        first = spec.hold_first if spec is not None else 0
        return Timeline(self.policy, self.out, word=word, hold_first=first)

    def strategies(self, kept: Collection[Block]) -> tuple[str, ...]:
        """Continuation strategies that are allowed now, the preferred first."""
        # A model that has reasoned is a thinking model, whatever the request says.
        have = {*self.features, "thinking"} if self.reasoned else self.features
        return allowed_strategies(
            self.policy, have, self.refused, tuple(kept), self.resumes(tuple(kept))
        )

    def resumes(self, kept: Sequence[Block]) -> tuple[str, ...]:
        """Which of ``resume`` and ``poll`` the provider can do from the last usable checkpoint."""
        mark = self.marks.usable(kept)
        if mark is None:
            return ()
        return tuple(
            name
            for name in ("resume", "poll")
            if self.builder.resume(self.request, self.policy, mark.handle, poll=name == "poll")
        )

    def failure(self, kind: FailureKind, message: str, phase: Phase = "stream") -> Failure:
        """A failure that the engine itself found."""
        return Failure(
            kind, phase=phase, message=message, provider=self.policy.provider, model=self.model
        )

    @property
    def why(self) -> str:
        """What is being dealt with: the failure's kind, or the stop."""
        turn = self.turn
        return turn.failure.kind.value if turn.failure is not None else turn.stop.value

    def record(self, name: str, **fields: Any) -> None:
        """Write a record with the common fields."""
        self.out.append(
            Record(name, {**self._common, "attempt": self.attempt, "at_s": self.now, **fields})
        )

    def record_tool(self, block: Block, reason: str) -> None:
        """A tool call is dropped."""
        self.record(
            "discarded_partial_tool_use",
            tool_name=block.name or "",
            partial_input_bytes=size_bytes(block.text),
            reason=reason,
        )

    def record_thinking(self, block: Block, reason: str, rule: str) -> None:
        """A thinking block is dropped."""
        self.record(
            "discarded_partial_thinking",
            thinking_chars=len(block.text),
            reason=reason,
            rule=rule,
        )

    def stop_upstream(self) -> None:
        """A reply that goes on without its connection is not wanted any more: say so, once."""
        mark = self.marks.last
        call = self.builder.stop_call(self.policy, mark.handle) if mark is not None else None
        if call is not None and call != self._stopped:
            self._stopped = call
            self.out.append(StopUpstream(self.attempt, call))

    @property
    def why_dropped(self) -> str:
        """The reason that records of what is dropped now give."""
        return f"{self.why}_error" if self.turn.failed else self.why

    @property
    def partial(self) -> bool:
        """What commit keeps could be sent back; thinking alone, say, makes no message."""
        kept = self.turn.decided.kept
        return bool(kept) and bool(self.builder.messages(kept, self.policy))

    def apply(self, reason: str, *, take_back: bool = False) -> None:
        """Carry out what commit decided, or take all of it back; records what is dropped."""
        self.record_dropped(reason)
        if take_back:
            self.timeline.take_back()
            self.history.taken_back()
        else:
            self.timeline.apply(self.turn.decided)
        self.turn.decided = self.timeline.commit(finished=not self.turn.failed)

    def record_dropped(self, reason: str) -> None:
        """Everything that commit decided to drop, one record each."""
        for dropped in self.turn.decided.dropped:
            if dropped.block.kind == "tool_use":
                self.record_tool(dropped.block, reason)
            elif dropped.block.kind == "thinking":
                self.record_thinking(dropped.block, reason, dropped.reason)
