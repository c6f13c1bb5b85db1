"""A stream of JSON objects in one JSON array: network chunks in, one frame per object out.

Google's servers send it where ``alt=sse`` is not asked for. Rule: bytes only, as in `_sse`, whose
`Frame` and errors it shares, so that a dialect reads both alike. Only brackets and strings are
looked at; what stands between two objects (a comma, white space, the array's own brackets) belongs
to the frame of the object that follows. Objects outside of an array are frames too, so a body that
is one object, or server-sent events under the wrong content type, is read just the same.
It imports no httpx, asyncio, time, random, socket or os.
"""

from __future__ import annotations

import re
from typing import Final

from ._sse import BOM, MAX_EVENT_BYTES, Frame, Framer, looks_like_sse

__all__ = ["JSONArrayFramer"]

_MARK: Final = re.compile(rb'[{}"]')
#: The rest of a string, as far as it has come; a lone backslash at the end waits for its partner.
_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_QUOTE, _OPEN = b'"{'  # as numbers


class JSONArrayFramer(Framer):
    """Frames of an ``application/json`` body that is a stream; `data` is one object.

    The closing bracket of the array, with what follows it, stays in the tail: it says nothing.
    """

    __slots__ = ("_at", "_begin", "_depth", "_in_string")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__(max_bytes)
        self._at = 0  # so far `_pending` was looked at
        self._begin = 0  # where the object at hand begins, while `_cut` is at work
        self._depth = 0
        self._in_string = False

    def may_begin(self, head: bytes) -> bool:
        """Whether a body of this form may begin so; what is too short to tell may."""
        start = head.removeprefix(BOM).lstrip()[:1]
        return start in (b"", b"[", b"{") or looks_like_sse(head) is not False

    def finish(self) -> Frame | None:
        """Always None: an object whose last bracket is missing is not whole."""
        return None

    def _ends(self, pending: bytearray, start: int, data: bytes) -> bool:
        return self._scan(pending) >= 0

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        start = self._at = self._depth = 0
        self._in_string = False
        while (end := self._scan(data)) >= 0:
            frames.append(Frame(data[start:end], None, data[self._begin : end]))
            start = end
        self._pending = bytearray(data[start:])
        self._at -= start
        return frames

    def _scan(self, data: bytes | bytearray) -> int:
        """End of the object at hand, or -1; goes on where it stopped, so no byte is read twice."""
        while True:
            if self._in_string and not self._string_ends(data):
                return -1
            mark = _MARK.search(data, self._at)
            if mark is None:
                self._at = len(data)
                return -1
            self._at = mark.end()
            byte = data[mark.start()]
            if byte == _QUOTE:
                self._in_string = True
            elif byte == _OPEN:
                if not self._depth:
                    self._begin = mark.start()
                self._depth += 1
            elif self._depth:
                self._depth -= 1
                if not self._depth:
                    return self._at

    def _string_ends(self, data: bytes | bytearray) -> bool:
        """Go to the end of the string at hand; False if it has not come yet."""
        found = _STRING.match(data, self._at)
        assert found is not None  # it matches nothing as well
        self._at = found.end()
        if self._at >= len(data) or data[self._at] != _QUOTE:
            return False
        self._at += 1
        self._in_string = False
        return True
