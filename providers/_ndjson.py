"""Newline-delimited JSON: network chunks in, one frame per line out (Ollama's own API).

Rule: bytes only, as in `_sse`, whose `Frame` and errors it shares, so that a dialect reads both
alike.  It imports no httpx, asyncio, time, random, socket or os.
"""

from __future__ import annotations

from ._sse import BOM, Frame, Framer

__all__ = ["NDJSONFramer"]


class NDJSONFramer(Framer):
    """Frames of an `application/x-ndjson` body: `data` is the line without white space around it.

    A blank line is a frame with `data` None.  LF and CRLF end a line; a lone CR does not, since
    JSON allows it as white space.
    """

    __slots__ = ()

    def may_begin(self, head: bytes) -> bool:
        """Whether a body of this form may begin so; what is too short to tell may."""
        return head.removeprefix(BOM).lstrip()[:1] in (b"", b"{")

    def finish(self) -> Frame | None:
        """Return the last line if no line end follows it, marked `unterminated`, or None."""
        raw = bytes(self._pending)
        frame = Frame(raw, None, self._value(raw, []), unterminated=True)
        return None if frame.data is None else frame

    def _ends(self, pending: bytearray, start: int, data: bytes) -> bool:
        return 10 in data  # LF

    def _cut(self, data: bytes) -> list[Frame]:
        lines = data.split(b"\n")
        tail = lines.pop()
        if tail:
            self._pending = bytearray(tail)
        frames: list[Frame] = []
        for line in lines:
            frames.append(Frame(line + b"\n", None, self._value(line, frames)))
        return frames

    def _value(self, line: bytes, frames: list[Frame]) -> bytes | None:
        if self._has_bom(line, frames):
            line = line[len(BOM) :]
        return line.strip(b" \t\r") or None
