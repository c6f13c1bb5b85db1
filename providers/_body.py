"""A response body that is no stream: collected within bounds, then read for what it says.

An error answer of any status, a whole reply as one JSON body, a portal's page, nothing at all.
Imports no IO.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from ._dialect import Dialect, ErrorFacts
from ._json import decode_json
from ._sse import BOM, Frame, FramingError, SSEFramer, looks_like_sse

__all__ = ["ERROR_BODY_BYTES", "BodyFacts", "error_beside", "read_body"]

ERROR_BODY_BYTES: Final = 256 * 1024
"""So much of an error answer is read; what is longer is no error text."""

Kind = Literal["empty", "json", "html", "other"]


class BodyFacts(msgspec.Struct, frozen=True):
    """What a body is. ``value`` is the decoded JSON, ``what`` says type and length for messages."""

    kind: Kind
    value: Any
    what: str
    text: str
    """The words of a short plain body, else empty."""


def read_body(body: bytes, content_type: str) -> BodyFacts:
    """Tell what a collected body is; JSON may also stand in the first event of a stream."""
    if not body.strip():
        return BodyFacts("empty", None, "an empty body", "")
    for data in (body.removeprefix(BOM), *_event_data(body)):
        try:
            value = decode_json(data)
        except ValueError:
            continue
        return BodyFacts("json", value, f"JSON, {len(body)} bytes", "")
    if body.lstrip()[:1] == b"<" or ("html" in content_type and looks_like_sse(body) is False):
        return BodyFacts("html", None, f"HTML, {len(body)} bytes", "")
    text = body[:2000].decode("utf-8", "replace") if content_type.startswith("text/") else ""
    return BodyFacts("other", None, f"{content_type or 'no content type'}, {len(body)} bytes", text)


def _event_data(body: bytes) -> list[bytes]:
    if not looks_like_sse(body):
        return []
    framer = SSEFramer()
    try:
        frames: list[Frame | None] = [*framer.feed(body), framer.finish()]
    except FramingError as fault:
        frames = list(fault.frames)
    return [frame.data for frame in frames if frame is not None and frame.data]


def error_beside(frame: Frame, dialect: Dialect) -> ErrorFacts | None:
    """The error in a frame without data: an ``error:`` field, or bare JSON between the frames."""
    stated = (frame.fields or {}).get(b"error")
    data = frame.raw.strip() if stated is None else stated
    try:
        value = decode_json(data)
    except ValueError:
        return None if stated is None else ErrorFacts(message=stated.decode("utf-8", "replace"))
    return dialect.error_facts(value, None if stated is None else 400)
