"""Strings as they come in pieces: halves of surrogate pairs, text tags, and whole-so-far deltas.

Rule: text in, text out; no events and no JSON. Each object belongs to one block or one choice.
"""

from __future__ import annotations

from ._json import join_surrogates

__all__ = ["Cumulative", "Pairs", "Tags", "Unreadable"]


class Unreadable(ValueError):
    """A frame that parses but cannot mean anything; its text tells types and lengths only."""


class Pairs:
    """Joins a surrogate pair that was cut into two deltas.

    Some servers escape an emoji as two halves and put each in a delta of its own. The first half
    waits for the second; a half that stays alone becomes U+FFFD, since no string may carry it.
    """

    __slots__ = ("_half",)

    def __init__(self) -> None:
        self._half = ""

    @property
    def waiting(self) -> bool:
        """A first half waits."""
        return bool(self._half)

    def add(self, text: str) -> str:
        """The text that is whole after this piece."""
        if not self._half and text.isascii():
            return text
        text, self._half = join_surrogates(self._half, text)
        return text

    def rest(self) -> str:
        """What a half that nothing followed becomes; empty where none waits."""
        half, self._half = self._half, ""
        return "\ufffd" if half else ""


class Tags:
    """Splits text at the tags of ``[blocks.thinking] tags``, also where a delta cuts one."""

    __slots__ = ("_close", "_held", "_open", "inside")

    def __init__(self, opening: str, closing: str) -> None:
        self._open = opening
        self._close = closing
        self._held = ""
        self.inside = False
        """Between the tags: what comes is thinking."""

    def add(self, text: str) -> list[tuple[bool, str]]:
        """Pieces of text with whether they are thinking; the beginning of a tag waits."""
        text, self._held = self._held + text, ""
        pieces: list[tuple[bool, str]] = []
        while text:
            tag = self._close if self.inside else self._open
            before, found, after = text.partition(tag)
            if not found:
                held = _overlap(text, tag)
                before, self._held = text[: len(text) - held], text[len(text) - held :]
            if before:
                pieces.append((self.inside, before))
            if not found:
                break
            self.inside = not self.inside
            if not self.inside:
                pieces.append((True, ""))  # ends the thinking, also where no text follows
            text = after
        return pieces

    def rest(self) -> tuple[bool, str]:
        """What waited for the rest of a tag that never came."""
        held, self._held = self._held, ""
        return self.inside, held


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of ``text`` that begins ``tag``."""
    for length in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-length:]):
            return length
    return 0


class Cumulative:
    """Turns deltas that repeat the whole text so far into what is new in each."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[object, str] = {}

    def new(self, key: object, text: str) -> str:
        """The new part of ``text``; raises ``Unreadable`` if it does not go on from the last."""
        seen = self._seen.get(key, "")
        if text.startswith(seen):
            self._seen[key] = text
            return text[len(seen) :]
        if seen.startswith(text):
            return ""
        raise Unreadable(
            f"cumulative text of {len(text)} characters does not go on from the {len(seen)} before"
        )
