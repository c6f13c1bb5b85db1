"""Checkpoints of a reply: where the provider can take it up again, and how much stood there.

A checkpoint is usable for what is kept if nothing that is kept would be sent a second time, but for
the text of the last, open block: that is followed silently up to where it was shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ._blocks import Block

__all__ = ["Mark", "Marks"]

_MOST = 256
_THINKING = ("thinking", "redacted_thinking")


class Mark(msgspec.Struct, frozen=True):
    """One checkpoint: the provider's handle, and the blocks that stood before it."""

    handle: Mapping[str, Any]
    blocks: tuple[tuple[int, bool, int], ...]
    """(index, closed, characters) of each block then."""
    finished_thinking: frozenset[int]
    """Indexes of thinking that was whole then: a resume does not bring it again."""
    text_chars: int
    """Characters of visible text then."""


class Marks:
    """Checkpoints of one turn, the newest last."""

    def __init__(self) -> None:
        self._marks: list[Mark] = []

    def add(self, handle: Mapping[str, Any], blocks: Sequence[Block]) -> None:
        """The provider set a checkpoint after these blocks."""
        stood = tuple((b.index, b.closed, len(b.text) + len(b.pending)) for b in blocks)
        text = sum(len(b.text) + len(b.pending) for b in blocks if b.kind == "text")
        thought = frozenset(b.index for b in blocks if b.closed and b.kind in _THINKING)
        self._marks.append(Mark(handle, stood, thought, text))
        if len(self._marks) > _MOST:
            del self._marks[1]  # the first stays: it can always be used before anything is kept

    @property
    def last(self) -> Mark | None:
        """The newest checkpoint."""
        return self._marks[-1] if self._marks else None

    def usable(self, kept: Sequence[Block]) -> Mark | None:
        """The newest checkpoint from which nothing kept is sent again, except open text."""
        done = {b.index for b in kept if b.closed}
        room = {b.index: len(b.text) for b in kept}
        last = kept[-1] if kept else None
        for mark in reversed(self._marks):
            stood = {index for index, _, _ in mark.blocks}
            missing = [b for b in kept if b.index not in stood]
            if any(b is not last or b.closed or b.kind != "text" for b in missing):
                continue
            if all(
                (index in mark.finished_thinking and index not in room)
                or (index in room and chars <= room[index] and (closed == (index in done)))
                for index, closed, chars in mark.blocks
            ):
                return mark
        return None
