"""The turn as the caller keeps it: blocks, history, usage, attempts, outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from midthought.statemachine import (
    Attempt,
    AttemptUsage,
    Block,
    Failure,
    Recovery,
    TurnUsage,
)

__all__ = ["Reply", "ToolCall"]


class ToolCall(msgspec.Struct, frozen=True):
    """A whole tool call of the reply."""

    id: str | None
    name: str | None
    arguments: str
    """JSON text, ``{}`` for a call without input."""

    def parsed(self) -> Any:
        """The arguments as data; raises ``msgspec.DecodeError`` if the provider sent no JSON."""
        return msgspec.json.decode(self.arguments)


class Reply:
    """A live view of one turn; final once ``outcome`` is set."""

    def __init__(self, machine: Recovery) -> None:
        self._machine = machine

    @property
    def outcome(self) -> Literal["completed", "exhausted", "aborted"] | None:
        """``None`` while the turn is running."""
        return self._machine.turn.outcome

    @property
    def state(self) -> str:
        """State of the machine now."""
        return self._machine.state

    @property
    def stop(self) -> str:
        """Why the reply ended, in the common set (``end``, ``tool_use``, ``length`` …)."""
        return self._machine.turn.stop.value

    @property
    def incomplete(self) -> bool:
        """The reply was cut by a cap, or is a partial one."""
        return self._machine.turn.incomplete

    @property
    def reason(self) -> str:
        """Why the turn ended, in a word or two."""
        return self._machine.turn.reason

    @property
    def hint(self) -> str | None:
        """What the policy says to do next."""
        return self._machine.turn.hint

    @property
    def failure(self) -> Failure | None:
        """The failure that ended the turn; ``None`` for a completed one."""
        turn = self._machine.turn
        return turn.failure if turn.outcome == "exhausted" else None

    @property
    def attempts(self) -> list[Attempt]:
        """One entry per upstream request."""
        return list(self._machine.turn.attempts)

    @property
    def blocks(self) -> Sequence[Block]:
        """The reply's content blocks; after the end, those that were kept."""
        return tuple(self._machine.blocks)

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(b.text for b in self._machine.blocks if b.kind in ("text", "refusal"))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Whole tool calls, in order."""
        return [
            ToolCall(b.id, b.name, b.text if b.text.strip() else "{}")
            for b in self._machine.blocks
            if b.kind == "tool_use" and b.closed
        ]

    @property
    def message(self) -> dict[str, Any] | None:
        """One assistant message for the caller's history; ``None`` if nothing was kept.

        Where a reply is several items (OpenAI's Responses) this is the first: see ``items``.
        """
        found = self._machine.history.message
        return found[0] if found else None

    @property
    def items(self) -> list[dict[str, Any]]:
        """The reply as the provider's history holds it: one message, or several items."""
        return self._machine.history.message

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was really sent and answered after the caller's request, in order."""
        return self._machine.history.messages

    @property
    def recovery_indexes(self) -> tuple[int, ...]:
        """Which of ``messages`` recovery wrote itself."""
        return self._machine.history.recovery_indexes

    @property
    def usage(self) -> TurnUsage:
        """Tokens summed over all attempts."""
        return self._machine.usage

    @property
    def usage_per_attempt(self) -> list[AttemptUsage]:
        """Tokens of each attempt."""
        return list(self._machine.ledger.attempts)
