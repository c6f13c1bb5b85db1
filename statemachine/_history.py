"""The turn as messages: one clean message, and what was really sent and answered.

Both are valid for the provider. Recovery's own user messages stand only in ``messages``, marked,
and only where the model answered them. Filled by the engine, closed when the turn ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from midthought.policies import Policy

from ._blocks import Block
from ._build import Builder, Continue
from ._commit import commit

__all__ = ["History"]


class History:
    """Messages of one turn, for the caller's conversation."""

    def __init__(self, builder: Builder, policy: Policy) -> None:
        self._builder = builder
        self._policy = policy
        self._orders: list[Continue] = []
        self._kept: Sequence[Block] = ()
        self._answer_calls = False

    def answered(self, order: Continue) -> None:
        """The continuation ``order`` brought something that is kept."""
        self._orders.append(order)

    def taken_back(self) -> None:
        """The turn begins anew: nothing that was asked so far counts."""
        self._orders.clear()

    def answer_calls(self) -> None:
        """Nobody will run the calls of this turn: they are answered as not executed."""
        self._answer_calls = True

    def close(self, blocks: Sequence[Block], *, finished: bool) -> None:
        """The turn ended with these blocks."""
        self._kept = commit(blocks, self._policy.blocks, finished=finished).kept

    @property
    def kept(self) -> Sequence[Block]:
        """Blocks that went into the history."""
        return self._kept

    @property
    def message(self) -> list[dict[str, Any]]:
        """The reply as if nothing had broken: a list of one assistant message, or empty."""
        first = min((b.attempt for b in self._kept), default=0)
        clean, earlier = [], False
        for block in self._kept:
            thinking = block.kind in ("thinking", "redacted_thinking")
            if thinking and earlier and block.attempt > first:
                continue  # a provider wants thinking first in its message
            earlier = True
            clean.append(block)
        return self._builder.messages(clean, self._policy)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was sent and answered, with recovery's user messages (``recovery_indexes``)."""
        return [message for message, _ in self._parts()]

    @property
    def recovery_indexes(self) -> tuple[int, ...]:
        """Which of ``messages`` are recovery's own."""
        return tuple(i for i, (_, ours) in enumerate(self._parts()) if ours)

    def _parts(self) -> list[tuple[dict[str, Any], bool]]:
        calls = [b for b in self._kept if b.kind == "tool_use"] if self._answer_calls else []
        answers = self._builder.not_executed(calls, self._policy) if calls else []
        return [*self._sent_and_answered(), *((message, True) for message in answers)]

    def _sent_and_answered(self) -> list[tuple[dict[str, Any], bool]]:
        said = [order for order in self._orders if order.instruction is not None]
        if not said or not self._kept:
            return [(message, False) for message in self.message]
        order = said[-1]
        after = self._after(order)
        sent = self._builder.messages(order.blocks, self._policy)
        answer = self._builder.messages(after, self._policy)
        if not sent or not answer:
            return [(message, False) for message in self.message]
        ours = self._builder.instruction(order.instruction or "", self._policy)
        return [
            *((message, False) for message in sent),
            (ours, True),
            *((message, False) for message in answer),
        ]

    def _after(self, order: Continue) -> list[Block]:
        """Kept blocks beyond what ``order`` sent back, as the answer to it had them."""
        known = {block.index: block for block in order.blocks}
        rest = []
        for block in self._kept:
            sent = known.get(block.index)
            if sent is None:
                rest.append(block)
            elif block.kind == "text" and len(block.text) > len(sent.text):
                text = block.text[len(sent.text) :]
                if text.strip():
                    rest.append(msgspec.structs.replace(block, parts=[text], citations=[]))
        # Thinking that came before the text went on is a later block, but stands first here.
        return sorted(rest, key=lambda b: (max(b.index, b.follows), -b.index))
