"""JSON as providers send it: a fast decoder first, then the standard one, then it counts as broken.

The fast decoder refuses what the standard one reads (an emoji whose two halves came in two
deltas, a number out of range), and the official SDKs read it; so do we. Nothing here raises for
input but ``ValueError``. Imports no IO.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

__all__ = [
    "REFUSED",
    "Json",
    "decode_json",
    "documents",
    "encode_json",
    "join_surrogates",
    "step",
    "text_of",
    "whole_object",
]

#: A JSON object as it came.
Json = Mapping[str, Any]

#: What the fast decoder raises for input it does not take; too deep is a ``RecursionError``.
REFUSED: Final = (msgspec.DecodeError, RecursionError)

_FAST: Final = msgspec.json.Decoder()
_STANDARD: Final = json.JSONDecoder()


def decode_json(data: bytes) -> Any:
    """The value of one JSON document; ``ValueError`` if it is none."""
    try:
        return _FAST.decode(data)
    except REFUSED:
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ValueError("JSON nested too deep") from None


def encode_json(value: Any) -> str:
    """``value`` as compact JSON text; halves of surrogate pairs stay escaped."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError, RecursionError):
        return json.dumps(value, separators=(",", ":"))


def documents(data: bytes) -> list[bytes]:
    """The JSON documents of an event that holds several, with only white space between; else empty.

    Some servers forget the blank line between two events.
    """
    found: list[bytes] = []
    try:
        text = data.decode("utf-8")
        position = 0
        while rest := text[position:].lstrip():
            position = len(text) - len(rest)
            _, end = _STANDARD.raw_decode(text, position)
            found.append(text[position:end].encode())
            position = end
    except (ValueError, RecursionError):
        return []
    return found if len(found) > 1 else []


def whole_object(text: str) -> dict[str, Any] | None:
    """Tool input as an object: nothing is ``{}``, JSON of an object is that, else ``None``."""
    if not text.strip():
        return {}
    try:
        value = decode_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def join_surrogates(held: str, text: str) -> tuple[str, str]:
    """Text that can be encoded, and a first half that still waits for its second.

    ``held`` is the half that the last call returned, ``text`` what came now. Two halves that meet
    become their character; a half that meets no partner becomes U+FFFD, as nothing can send it.
    """
    text = held + text
    held = ""
    if text and "\ud800" <= text[-1] <= "\udbff":
        text, held = text[:-1], text[-1]
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return joined, held


def text_of(value: Any) -> str | None:
    """The value if it is text."""
    return value if isinstance(value, str) else None


def step(body: Json, key: str) -> Json:
    """The table below ``key``; empty where there is none."""
    value = body.get(key)
    return value if isinstance(value, Mapping) else {}
