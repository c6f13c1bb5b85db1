"""The JSON of a Chat Completions stream as typed structs, and the ways such a frame can be odd.

Rule: shapes only. Nothing here keeps state between frames or makes events; a frame is read fast and
typed where it is as the specification says, and leniently where it is not. Imports no IO.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

import msgspec

__all__ = [
    "DONE",
    "Choice",
    "Chunk",
    "Delta",
    "chunk_from",
    "delta_from",
    "documents",
    "plain_text",
    "read_chunk",
    "read_text",
]


class Delta(msgspec.Struct, gc=False):
    """What one chunk adds to a choice; keys that nobody reads are skipped by the decoder."""

    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    tool_calls: Any = None
    function_call: Any = None
    refusal: Any = None
    audio: Any = None
    images: Any = None
    annotations: Any = None


class Choice(msgspec.Struct, gc=False):
    """One entry of ``choices``."""

    index: Any = 0
    delta: Delta | None = None
    finish_reason: Any = None
    error: Any = None
    message: Any = None
    """A whole message where servers send one instead of (or beside) a delta."""


class Chunk(msgspec.Struct, gc=False):
    """One frame's JSON object."""

    id: Any = None
    model: Any = None
    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _HotDelta(msgspec.Struct, gc=False):
    content: _Text
    reasoning_content: None = None
    reasoning: None = None
    reasoning_details: None = None
    tool_calls: None = None
    function_call: None = None
    refusal: None = None
    audio: None = None
    images: None = None
    annotations: None = None


class _HotChoice(msgspec.Struct, gc=False):
    delta: _HotDelta
    index: Literal[0] = 0
    finish_reason: None = None
    error: None = None


class _HotChunk(msgspec.Struct, gc=False):
    """A chunk of text and nothing else: any other is refused, by the decoder in C."""

    choices: tuple[_HotChoice]
    usage: None = None
    error: None = None
    x_groq: None = None


#: Reads a chunk that holds only text, as nearly every one does; refuses any other.
read_text = msgspec.json.Decoder(_HotChunk).decode

#: Stands for the end marker between documents of one frame.
DONE: Final = object()

#: Reads a frame of the usual shape; raises ``msgspec.MsgspecError`` for any other.
read_chunk = msgspec.json.Decoder(Chunk).decode

# Strict about control characters as the SDKs are, but a lone surrogate and NaN are readable.
_STANDARD: Final = json.JSONDecoder()
_BLANK: Final = " \t\r\n"


def documents(data: bytes) -> list[Any]:
    """Every JSON document of one data field, in order, with ``DONE`` for the end marker.

    Two whole documents in one field are a named tolerance (``two_documents``: a blank line was
    lost on the way); anything half raises ``ValueError``, whose text tells lengths and no content.
    """
    text = str(data, "utf-8").strip(_BLANK)
    found: list[Any] = []
    at = 0
    while at < len(text):
        if text.startswith("[DONE]", at):
            value, at = DONE, at + len("[DONE]")
        else:
            value, at = _STANDARD.raw_decode(text, at)
            if not isinstance(value, dict | list):
                raise ValueError(f"a {type(value).__name__} where an object was expected")
        found.append(value)
        while at < len(text) and text[at] in _BLANK:
            at += 1
    return found


def chunk_from(document: dict[str, Any]) -> Chunk:
    """The typed chunk of an object that the fast decoder refused; wrong types count as absent."""
    choices = document.get("choices")
    return Chunk(
        id=document.get("id"),
        model=document.get("model"),
        choices=[_choice_from(choice) for choice in choices if isinstance(choice, dict)]
        if isinstance(choices, list)
        else None,
        usage=document.get("usage"),
        error=document.get("error"),
        x_groq=document.get("x_groq"),
    )


def _choice_from(choice: dict[str, Any]) -> Choice:
    return Choice(
        index=choice.get("index", 0),
        delta=delta_from(choice.get("delta")),
        finish_reason=choice.get("finish_reason"),
        error=choice.get("error"),
        message=choice.get("message"),
    )


def delta_from(value: Any) -> Delta | None:
    """A delta (or a whole message) read field by field; ``None`` if it is no object."""
    if not isinstance(value, dict):
        return None
    return Delta(*(value.get(name) for name in Delta.__struct_fields__))


def plain_text(chunk: Chunk, thinking: bool) -> str | None:
    """The text (or thinking) of a chunk that holds nothing else, as nearly every one does."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.usage or chunk.error or chunk.x_groq:
        return None
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.index or choice.finish_reason or choice.error:
        return None
    text, other = delta.content, delta.reasoning_content or delta.reasoning
    if thinking:
        text, other = other, text
    if (
        other
        or delta.tool_calls
        or delta.reasoning_details
        or delta.refusal
        or delta.function_call
        or delta.audio
        or delta.images
        or delta.annotations
    ):
        return None
    return text if type(text) is str else None
