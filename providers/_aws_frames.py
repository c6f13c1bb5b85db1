"""AWS event-stream messages: network chunks in, one frame per message out (Amazon Bedrock).

Rule: bytes only, as in `_sse`, whose `Frame` it shares.  botocore's own parser reads a message
(extra `bedrock`); it is imported when the first framer is made, for nobody else needs it.  It
imports no httpx, asyncio, time, random, socket or os.

    in the message                  in the frame
    :event-type                     event
    :exception-type                 event, and fields {:message-type: exception}
    :error-code, :error-message     event and data {"message"}, and fields {:message-type: error}
    payload                         data; never empty for an exception

A message whose checksum or length is wrong makes the rest of the stream unreadable: nothing says
where the next one begins.
"""

from __future__ import annotations

from struct import error as _StructError
from typing import Any, Final

from ._json import encode_json
from ._sse import MAX_EVENT_BYTES, EventTooLarge, Frame, Framer, FramingError

__all__ = ["AWSFramer", "CorruptFrame", "MissingBotocore", "message_type", "parser"]

_PRELUDE_BYTES: Final = 12
_MESSAGE_TYPE: Final = b":message-type"
_EVENT: Final = "event"


class CorruptFrame(FramingError):
    """A message of the stream does not add up."""

    def __init__(self, why: str, frames: list[Frame]) -> None:
        super().__init__(
            f"a message of the event stream is damaged ({why}); "
            "treat the stream as broken after the last whole message",
            frames,
        )


class MissingBotocore(ImportError):
    """The parser of AWS event streams is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "Amazon Bedrock needs botocore to read its event streams: "
            "pip install 'midthought[bedrock]'",
            name="botocore",
        )


def parser() -> Any:
    """botocore's event stream module; raises `MissingBotocore` where it is not installed."""
    try:
        from botocore import eventstream
    except ImportError:
        raise MissingBotocore from None
    return eventstream


def message_type(frame: Frame) -> str:
    """`event`, `exception` or `error`."""
    return _EVENT if frame.fields is None else frame.fields.get(_MESSAGE_TYPE, b"").decode()


class AWSFramer(Framer):
    """Frames of an `application/vnd.amazon.eventstream` body."""

    __slots__ = ("_buffer", "_damaged", "_too_long")

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        super().__init__(max_bytes)
        found = parser()
        self._buffer = found.EventStreamBuffer()
        self._damaged: type[Exception] = found.ParserError
        self._too_long: tuple[type[Exception], ...] = (
            found.InvalidPayloadLength,
            found.InvalidHeadersLength,
        )

    def may_begin(self, head: bytes) -> bool:
        """Whether a body of this form may begin so; what is too short to tell may.

        A message of 16 MiB or more does not come first, so the length begins with a zero byte.
        """
        return head[:1] in (b"", b"\0")

    def feed(self, data: bytes) -> list[Frame]:
        """Take one chunk and return the frames that it finishes.

        Raises `EventTooLarge` or `CorruptFrame`, which carry the frames before the fault.
        """
        self._pending += data
        self._buffer.add_data(data)
        frames: list[Frame] = []
        while True:
            self._check_length(frames)
            try:
                message = next(self._buffer, None)
            except self._too_long:
                raise EventTooLarge(self._max_bytes, len(self._pending), frames) from None
            except self._damaged as fault:
                raise CorruptFrame(type(fault).__name__, frames) from None
            except (ValueError, KeyError, IndexError, _StructError) as fault:
                # The checksums hold, but the headers inside cannot be read.
                raise CorruptFrame(type(fault).__name__, frames) from None
            if message is None:
                return frames
            size = message.prelude.total_length
            frames.append(_frame(bytes(self._pending[:size]), message.headers, message.payload))
            del self._pending[:size]

    def finish(self) -> Frame | None:
        """Nothing stands in for a missing checksum: a tail never counts."""
        return None

    def _check_length(self, frames: list[Frame]) -> None:
        """A wait for bytes that will never come: no message is shorter than its own frame."""
        if len(self._pending) < _PRELUDE_BYTES:
            return
        size = int.from_bytes(self._pending[:4], "big")
        headers = int.from_bytes(self._pending[4:8], "big")
        if size < _PRELUDE_BYTES + headers + 4:
            raise CorruptFrame("lengths", frames)
        if size > self._max_bytes:
            raise EventTooLarge(self._max_bytes, size, frames)


def _frame(raw: bytes, headers: dict[str, Any], payload: bytes) -> Frame:
    kind = _text(headers, ":message-type") or _EVENT
    if kind == _EVENT:
        return Frame(raw, _text(headers, ":event-type"), payload or None)
    name = _text(headers, ":exception-type") or _text(headers, ":error-code")
    if not payload:
        payload = encode_json({"message": _text(headers, ":error-message") or ""}).encode()
    return Frame(raw, name, payload, fields={_MESSAGE_TYPE: kind.encode()})


def _text(headers: dict[str, Any], name: str) -> str | None:
    """A header that is text; it may hold numbers, bytes and dates too."""
    value = headers.get(name)
    return value if isinstance(value, str) else None
