"""Events and turns as plain rows, for ``--json``: one JSON object a line, named by its ``type``.

The fields of an event are those of its class in ``midthought.statemachine``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from midthought import PreparedCall, Reply
from midthought.policies import policy_digest
from midthought.statemachine import Event

from ._terminal import Terminal

__all__ = ["RowTeller", "event_row", "turn_row", "without_user"]


def event_row(event: Event) -> dict[str, Any]:
    """An event with its ``type``: ``block_delta`` for a ``BlockDelta``."""
    name = re.sub(r"(?<!^)([A-Z])", r"_\1", type(event).__name__).lower()
    return {"type": name, **msgspec.to_builtins(event)}


def turn_row(reply: Reply) -> dict[str, Any]:
    """A turn that has ended: its whole reply, each attempt and the usage."""
    return {
        "outcome": reply.outcome,
        "stop": reply.stop,
        "incomplete": reply.incomplete,
        "reason": reply.reason,
        "text": reply.text,
        "tool_calls": msgspec.to_builtins(reply.tool_calls),
        "attempts": msgspec.to_builtins(reply.attempts),
        "usage": msgspec.to_builtins(reply.usage),
    }


def without_user(url: str) -> str:
    """The URL without the name and password that may stand in it."""
    scheme, mark, rest = url.rpartition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


class RowTeller:
    """Tells a program what a turn does."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def begin(self, call: PreparedCall, base_url: str) -> None:
        """The turn is about to start."""
        policy = call.policy
        row = {"policy": policy.name, "policy_digest": policy_digest(policy)[:12]}
        model = call.dialect.model(call.request)
        where = {"model": model, "base_url": without_user(base_url)}
        self._terminal.row({"type": "turn_started", **row, **where})

    def record(self, name: str, fields: Mapping[str, Any]) -> None:
        """Records are the journal's business."""

    def event(self, event: Event, reply: Reply) -> None:
        """One event."""
        self._terminal.row(event_row(event))

    def end(self, reply: Reply) -> None:
        """The turn is over."""
        self._terminal.row({"type": "turn", **turn_row(reply)})
