"""The block timeline: what arrived, block by block, in the order of the turn.

One ``Block`` per content block of the reply as the caller sees it; text of a later attempt that
joins an open block is appended to that block. Memory is the reply, nothing is kept per event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from midthought.policies import Release

from ._events import BlockKind

__all__ = ["Block"]


class Block(msgspec.Struct):
    """A content block being built. Strings are collected in lists and joined when asked."""

    index: int
    """Position in the turn, the caller's index."""
    kind: BlockKind
    attempt: int
    """The attempt that started it."""
    id: str | None = None
    name: str | None = None
    data: dict[str, Any] | None = None
    """The provider's own start (or whole) block, where it must go back verbatim."""
    parent: str | None = None
    """Id of the block that this one may not be without."""
    free_input: bool = False
    """Tool input is free text."""
    parts: list[str] = []
    """Text of text, refusal and thinking blocks; input JSON of tool calls."""
    signature: str | None = None
    """Only whole once the block is closed."""
    citations: list[str] = []
    """Citations as JSON text."""
    extra: list[str] = []
    """Deltas of field ``other`` as JSON text."""
    closed: bool = False
    follows: int = -1
    """Index of the block that came before the last attempt went on in this one."""
    origin: str = ""
    """Provider and model that made it: signatures are only good there."""

    # What follows is about release, not about the provider's reply.
    mode: Release = "live"
    pending: str = ""
    """Received text that waits: leading white space, the first characters, the word being written.
    """
    lost: str = ""
    """Pending text that a cut dropped: received, never shown."""
    solid: bool = False
    """It has visible content: blank text, framing and signatures never count."""
    ready: bool = False
    """Its own release rule is fulfilled."""
    passing: bool = False
    """It is released together with whatever follows it."""
    shown: bool = False
    """Its start was handed to the caller."""
    shown_by: int = -1
    """The last attempt that showed content of it."""
    size: int = 0
    """Bytes received, counted off the hot path only."""

    @property
    def chars(self) -> int:
        """Characters received and not forgotten, shown or not."""
        return len(self.text) + len(self.pending) + len(self.lost)

    @property
    def text(self) -> str:
        """All text (or tool input) so far; joined once, then kept."""
        parts = self.parts
        if len(parts) > 1:
            parts[:] = ["".join(parts)]
        return parts[0] if parts else ""
