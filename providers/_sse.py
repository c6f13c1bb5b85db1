"""Server-sent events: network chunks in, whole frames out, every byte accounted for.

Rule: bytes only.  This module cuts and names fields; it decodes no JSON and knows no dialect.
It imports no httpx, asyncio, time, random, socket or os.

Why not a ready-made decoder: recovery needs the exact bytes of each frame (to forward them
untouched), the unfinished tail (to see a cut), a bound on one event, and a frame handed out the
moment its blank line is there.  The field rules are those of the HTML standard, "Server-sent
events", with two differences: comments stay visible, and unknown fields are kept, because some
servers report a failure in a field of their own (`error: {...}`).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = [
    "BOM",
    "MAX_EVENT_BYTES",
    "EventTooLarge",
    "Frame",
    "Framer",
    "FramingError",
    "InvalidFrame",
    "SSEFramer",
    "looks_like_sse",
]

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"
_LF, _CR, _SPACE = b"\n\r "  # as numbers: `10 in data` is six times as fast as `b"\n" in data`


class FramingError(ValueError):
    """The bytes cannot be framed; the framer that raised it must not be fed again.

    `frames` holds the whole frames that came before the fault in the same chunk, so that
    nothing that arrived intact is lost.
    """

    def __init__(self, message: str, frames: list[Frame]) -> None:
        super().__init__(message)
        self.frames = frames


class EventTooLarge(FramingError):
    """One event, finished or not, is larger than `limit_bytes`; `size_bytes` had arrived."""

    def __init__(self, limit_bytes: int, size_bytes: int, frames: list[Frame]) -> None:
        super().__init__(
            f"one stream event is {size_bytes} bytes so far, expected at most {limit_bytes}; "
            "raise the limit if this server really sends events of that size",
            frames,
        )
        self.limit_bytes = limit_bytes
        self.size_bytes = size_bytes


class InvalidFrame(FramingError):
    """An event name is not UTF-8.  It is never read with replacement characters."""

    def __init__(self, frames: list[Frame]) -> None:
        super().__init__(
            "a stream event has a name that is not UTF-8, expected UTF-8 text; "
            "treat the stream as broken after the last whole event",
            frames,
        )


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One frame of a stream: the lines up to and including a blank line.

    `raw` is exactly what arrived.  `event` is None without a name (or with an empty one);
    `data` is None without a data field and b"" with an empty one, several data lines are joined
    by b"\\n".  `comment` says that the frame holds a comment line: with `data` None it is a
    keep-alive.  `fields` holds fields the standard does not know, by name; `id` and `retry` are
    read by nobody.  A frame that is only a line end is an extra blank line and means nothing.
    `unterminated` marks a tail that was tried at the end of input.
    """

    raw: bytes
    event: str | None = None
    data: bytes | None = None
    comment: bool = False
    fields: dict[bytes, bytes] | None = None
    unterminated: bool = False


class Framer:
    """Cuts a byte stream into frames; a subclass says where a frame ends and what is in it.

    For every sequence of `feed` calls, the `raw` of all frames followed by `tail` equals the
    bytes fed.  One event may hold at most `max_bytes`, however it is split over chunks.
    """

    __slots__ = ("_max_bytes", "_opening", "_pending")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes!r}")
        self._max_bytes = max_bytes
        self._opening = True  # no frame yet: a byte order mark may still come
        self._pending = bytearray()

    def may_begin(self, head: bytes) -> bool:
        """Whether a body of this form may begin so; what is too short to tell may."""
        return True

    @property
    def tail(self) -> bytes:
        """The bytes of the frame that is not finished yet."""
        return bytes(self._pending)

    def feed(self, data: bytes) -> list[Frame]:
        """Take one chunk and return the frames that it finishes.

        Raises `EventTooLarge` or `InvalidFrame`, which carry the frames before the fault.
        """
        if self._pending:
            start = len(self._pending)
            self._pending += data
            if not self._ends(self._pending, start, data):
                if len(self._pending) > self._max_bytes:
                    raise EventTooLarge(self._max_bytes, len(self._pending), [])
                return []
            data = bytes(self._pending)
            self._pending = bytearray()
        frames = self._cut(data)
        if len(data) > self._max_bytes:
            self._check_sizes(frames)
        if frames:
            self._opening = False
        return frames

    def finish(self) -> Frame | None:
        """Return what the tail would be if it ended here, marked `unterminated`, else None.

        For the end of input; it changes nothing, so `raw` is still `tail` and not a frame of its
        own.  Whether the content is whole is for the caller to judge, by parsing it.
        """
        raise NotImplementedError

    def _ends(self, pending: bytearray, start: int, data: bytes) -> bool:
        """Say whether `data`, which begins at `start` of `pending`, finishes a frame."""
        raise NotImplementedError

    def _cut(self, data: bytes) -> list[Frame]:
        """Cut `data`, which begins at a frame's start, and leave the rest in `_pending`."""
        raise NotImplementedError

    def _has_bom(self, raw: bytes, frames: list[Frame]) -> bool:
        return self._opening and not frames and raw.startswith(BOM)

    def _check_sizes(self, frames: list[Frame]) -> None:
        for index, frame in enumerate(frames):
            if len(frame.raw) > self._max_bytes:
                raise EventTooLarge(self._max_bytes, len(frame.raw), frames[:index])
        if len(self._pending) > self._max_bytes:
            raise EventTooLarge(self._max_bytes, len(self._pending), frames)


# A line ends with LF, CRLF or CR.  Atomic, so that CRLF is never tried again as two line ends.
_EOL: Final = rb"(?>\r\n?|\n)"
_LINE_END: Final = re.compile(_EOL)
_FRAME_END: Final = re.compile(_EOL + _EOL)

# The whole input in one pass, groups (frame, event, data, tail).  In order: the two shapes nearly
# every frame has, read at once; an extra blank line; any other frame; what is not finished.
# Possessive throughout, so that no input makes it go back over bytes twice.
_LF_FRAMES: Final = re.compile(
    rb"((?:event: ?+(.++)\n)?+data: ?+(.++)\n\n|\n|(?:.++\n)++\n|((?s:.++)))"
)
# The same where CRs are about.  `.` is five times as fast as a set, so the data of the first
# shape may hold CRs: one at its end, or the lines end in several ways and are cut once more.
_TEXT: Final = rb"[^\r\n]++"
_ONE_FRAME: Final = rb"%b|(?:%b%b)++%b" % (_EOL, _TEXT, _EOL, _EOL)
_CRLF_FRAMES: Final = re.compile(
    rb"((?:event: ?+(%b)\r\n)?+data: ?+(.++)\n\r\n|%b|((?s:.++)))" % (_TEXT, _ONE_FRAME)
)
_MIXED_FRAMES: Final = re.compile(_ONE_FRAME)


_STARTS: Final = (b"data:", b"event:", b"id:", b"retry:", b":")
#: Enough bytes to tell: the longest of these, and a byte order mark before it.
_SNIFF_BYTES: Final = 16


def looks_like_sse(body: bytes) -> bool | None:
    """Whether a body begins like a server-sent event; ``None`` if it is too short to tell."""
    start = body.removeprefix(BOM).lstrip()
    if start.startswith(_STARTS):
        return True
    if len(body) < _SNIFF_BYTES and any(known.startswith(start) for known in _STARTS):
        return None
    return False


class _EventNames(dict[bytes, str]):
    """Names already decoded.  Bounded: a hostile server cannot make it grow."""

    def __missing__(self, raw: bytes) -> str:
        name = str(raw, "utf-8")
        if len(self) < 512 and len(raw) <= 64:
            self[raw] = name
        return name


_event_names: Final = _EventNames()


class SSEFramer(Framer):
    """Frames of a `text/event-stream` body; split it as it likes, also inside a character.

    A frame whose blank line is a CR at the end of a chunk is handed out at once; should an LF
    follow, that LF is an extra blank line of its own.
    """

    __slots__ = ("_event", "_head")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__(max_bytes)
        # What stood before the data of the last frame that came alone in a chunk.  A stream
        # repeats it, and a chunk that begins with it needs no search.
        self._head = b"data: "
        self._event: str | None = None

    def may_begin(self, head: bytes) -> bool:
        """Whether a body of this form may begin so; what is too short to tell may."""
        return looks_like_sse(head) is not False

    def feed(self, data: bytes) -> list[Frame]:
        """Take one chunk and return the frames that it finishes.

        Raises `EventTooLarge` or `InvalidFrame`, which carry the frames before the fault.
        """
        head = self._head
        if data.startswith(head) and not self._pending:
            end = len(data) - 2
            if (
                data.find(b"\n", len(head)) == end
                and data[-1] == _LF
                and _CR not in data
                and end + 2 <= self._max_bytes
            ):
                self._opening = False
                return [Frame(data, self._event, data[len(head) : end])]
        return Framer.feed(self, data)

    def finish(self) -> Frame | None:
        """Return the frame the tail would be if a blank line followed, or None.

        None if it holds neither data nor an unknown field, or its name is not readable.
        """
        raw = bytes(self._pending)
        try:
            frame = _parse(raw, self._has_bom(raw, []), unterminated=True)
        except UnicodeDecodeError:
            return None
        return None if frame.data is None and frame.fields is None else frame

    def _ends(self, pending: bytearray, start: int, data: bytes) -> bool:
        # Only the border is new.  The line end before a blank line may be old, its last byte is
        # enough; without a CR in the new bytes the blank line can only be an LF after an LF.
        if _CR in data:
            return _FRAME_END.search(pending, start - 1) is not None
        return pending.find(b"\n\n", start - 1) >= 0

    def _cut(self, data: bytes) -> list[Frame]:
        frames: list[Frame] = []
        names = _event_names
        crlf = _CR in data
        body = b""
        try:
            for raw, event, body, tail in (_CRLF_FRAMES if crlf else _LF_FRAMES).findall(data):
                if body and (not crlf or body.find(_CR) == len(body) - 1):
                    value = body[:-1] if crlf else body
                    frames.append(Frame(raw, names[event] if event else None, value))
                elif tail:
                    self._pending = bytearray(tail)
                elif body:
                    for piece in _MIXED_FRAMES.findall(raw):
                        frames.append(_parse(piece, False))
                else:
                    frames.append(_parse(raw, self._has_bom(raw, frames)))
        except UnicodeDecodeError:
            raise InvalidFrame(frames) from None
        if body and not crlf and len(frames) == 1:
            self._remember(frames[0], len(body))
        return frames

    def _remember(self, frame: Frame, body_bytes: int) -> None:
        head = frame.raw[: -body_bytes - 2]
        # Without the space after the colon the next value's own first space would be kept.
        if head[-1] == _SPACE:
            self._head = head
            self._event = frame.event


def _parse(raw: bytes, bom: bool, unterminated: bool = False) -> Frame:
    """Read any frame field by field; raises UnicodeDecodeError for the event name."""
    event: str | None = None
    data: list[bytes] = []
    comment = False
    fields: dict[bytes, bytes] = {}
    for line in _LINE_END.split(raw[len(BOM) :] if bom else raw):
        name, colon, value = line.partition(b":")
        if colon and not name:
            comment = True
            continue
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = _event_names[value] or None
        elif colon and name not in (b"id", b"retry"):
            fields[name] = value
    joined = b"\n".join(data) if data else None
    return Frame(raw, event, joined, comment, fields or None, unterminated)
