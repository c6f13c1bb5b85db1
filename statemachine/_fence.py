"""A code fence that the next attempt opens again although the text already ends inside it.

The re-opened line, and one line of preamble before it, is dropped. A bare fence line may just as
well be the end of the block, so it is kept: when in doubt nothing is dropped.
"""

from __future__ import annotations

import re

__all__ = ["FenceGuard", "open_fence"]

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n`]*)$", re.MULTILINE)


def open_fence(text: str) -> str | None:
    """The opening line (stripped) of the code fence that ``text`` ends inside of, or ``None``."""
    opening: re.Match[str] | None = None
    for line in _FENCE.finditer(text):
        if opening is None:
            opening = line
        elif line[1].startswith(opening[1]) and not line[2].strip():
            opening = None
    return opening[0].strip() if opening is not None else None


class FenceGuard:
    """Holds the first two lines of an attempt at the most, and at most ``window`` characters."""

    def __init__(self, line: str | None, window: int) -> None:
        self._line = line if line is not None and line.strip("`~") else None
        self._window = window
        self._held = ""
        self.dropped_chars = 0

    @property
    def done(self) -> bool:
        """Nothing is held or looked for any more."""
        return self._line is None

    def feed(self, text: str) -> str:
        """Take text, return what may be released."""
        if self._line is None:
            return text
        self._held += text
        at = 0
        for _ in range(2):
            at += len(self._held[at:]) - len(self._held[at:].lstrip("\n"))
            end = self._held.find("\n", at)
            line = self._held[at : end if end >= 0 else None].strip()
            if end < 0:
                return self._wait_or_release(line, first=at == 0)
            if line == self._line:
                return self._release(end + 1)
            at = end + 1
        return self._release(0)

    def _wait_or_release(self, line: str, *, first: bool) -> str:
        possible = first or (self._line or "").startswith(line)
        return "" if possible and len(self._held) <= self._window else self._release(0)

    def _release(self, drop: int) -> str:
        text, self._held, self._line = self._held[drop:], "", None
        self.dropped_chars = drop
        return text

    def end(self) -> str:
        """The attempt is complete: what is held is no fence line."""
        return "" if self.done else self._release(0)
