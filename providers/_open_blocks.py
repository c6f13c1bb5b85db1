"""Blocks of one attempt as they open and close: numbering, halves of emoji, whole-piece blocks.

For dialects that name their blocks by something else than one running number (two counters, a kind,
an index that only some blocks announce). ``key`` is whatever the dialect calls a block by. Imports
no IO.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import msgspec

from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockKind,
    BlockStarted,
    DeltaField,
    Event,
    Heartbeat,
)

from ._json import join_surrogates

__all__ = ["OpenBlock", "OpenBlocks"]


class OpenBlock(msgspec.Struct):
    """A block that is not closed yet."""

    index: int
    """In our events: in the order of their starts."""
    kind: BlockKind
    half: str = ""
    """First half of an emoji whose second has not come."""


class OpenBlocks:
    """The open blocks of one attempt, by the dialect's key."""

    __slots__ = ("_attempt", "_open", "_started", "calls", "halves")

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._open: dict[Hashable, OpenBlock] = {}
        self._started = 0
        self.calls = 0
        """Tool calls of the caller that were started."""
        self.halves = False
        """Some open block waits for half an emoji, so that no text may pass it by."""

    def get(self, key: Hashable) -> OpenBlock | None:
        """The open block of this key."""
        return self._open.get(key)

    def last(self, kind: BlockKind) -> OpenBlock | None:
        """The open block of this kind that was started last."""
        found = [block for block in self._open.values() if block.kind == kind]
        return found[-1] if found else None

    def restart(self) -> None:
        """The provider begins anew: what was open is void, numbers start at 0 again."""
        self._open.clear()
        self._started = self.calls = 0
        self.halves = False

    def start(
        self,
        key: Hashable,
        kind: BlockKind,
        out: list[Event],
        *,
        id: str | None = None,
        name: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> OpenBlock:
        """Append ``BlockStarted``. A block of this key that is open is closed before, but for a
        tool call: that one was never finished, and stays open for good."""
        before = self._open.get(key)
        if before is not None and before.kind in _CALLS:
            del self._open[key]
        elif before is not None:
            self.close(key, out)
        block = self._open[key] = OpenBlock(self._started, kind)
        self._started += 1
        self.calls += kind == "tool_use"
        out.append(BlockStarted(self._attempt, block.index, kind, id, name, data))
        return block

    def add(
        self, block: OpenBlock, text: str, out: list[Event], field: DeltaField = "text"
    ) -> None:
        """Append what is more of a block; an empty piece is a sign of life."""
        if field in ("text", "input"):
            text, block.half = join_surrogates(block.half, text)
            self.halves = any(one.half for one in self._open.values())
        if text:
            out.append(BlockDelta(self._attempt, block.index, text, field))
        else:
            out.append(Heartbeat(self._attempt))

    def close(self, key: Hashable, out: list[Event], data: dict[str, Any] | None = None) -> None:
        """Append ``BlockClosed``; ``data``: the whole block, where the end of it brings that."""
        block = self._open.pop(key)
        if block.half:
            field: DeltaField = "text" if block.kind in _PROSE else "input"
            out.append(BlockDelta(self._attempt, block.index, "\ufffd", field))
            self.halves = any(one.half for one in self._open.values())
        out.append(BlockClosed(self._attempt, block.index, data))

    def close_all(self, out: list[Event]) -> None:
        """Close what the provider left open; a tool call's input is for the machine to judge."""
        for key in [key for key, block in self._open.items() if block.kind not in _CALLS]:
            self.close(key, out)


_PROSE = ("text", "thinking", "refusal")
_CALLS = ("tool_use", "server_tool")
