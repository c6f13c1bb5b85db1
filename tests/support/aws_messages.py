"""AWS event-stream messages made by hand from the published layout; imports nothing of the project.

A message: total length, headers' length and their checksum; headers; payload; checksum of it all.
"""

import base64
import json
import struct
from typing import Any
from zlib import crc32

__all__ = ["EVENT_STREAM", "chunk", "error", "event", "exception", "message"]

EVENT_STREAM = "application/vnd.amazon.eventstream"
_TEXT = 7


def _header(name: str, value: str) -> bytes:
    data = value.encode()
    return bytes([len(name)]) + name.encode() + bytes([_TEXT]) + struct.pack("!H", len(data)) + data


def message(headers: dict[str, str], payload: bytes = b"", *, raw_headers: bytes = b"") -> bytes:
    """One message; ``raw_headers`` come after ``headers`` as they are."""
    block = b"".join(_header(name, value) for name, value in headers.items()) + raw_headers
    prelude = struct.pack("!II", 16 + len(block) + len(payload), len(block))
    prelude += struct.pack("!I", crc32(prelude))
    body = prelude + block + payload
    return body + struct.pack("!I", crc32(body))


def event(name: str, payload: Any) -> bytes:
    """An event with a JSON payload."""
    headers = {
        ":event-type": name,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    try:
        data = json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half an emoji
        data = json.dumps(payload).encode()
    return message(headers, data)


def chunk(inner: Any) -> bytes:
    """An event of InvokeModelWithResponseStream; ``inner`` is what its bytes say."""
    text = inner if isinstance(inner, bytes) else json.dumps(inner).encode()
    return event("chunk", {"bytes": base64.b64encode(text).decode(), "p": "abcdefgh"})


def exception(name: str, payload: Any = None) -> bytes:
    """An exception of the service's model; without a payload where ``None``."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return message(headers, b"" if payload is None else json.dumps(payload).encode())


def error(code: str, words: str) -> bytes:
    """An error that the service's model does not know."""
    return message({":message-type": "error", ":error-code": code, ":error-message": words})
