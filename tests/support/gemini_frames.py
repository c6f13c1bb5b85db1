"""Gemini responses made by hand, and what the reader makes of them.

For tests of the dialect ``gemini``: ``read`` runs bytes through an ``AttemptReader``.
"""

import json
from collections.abc import Iterable
from typing import Any

from midthought.policies import FailureKind, Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Failure,
    Finished,
    UsageReported,
)

__all__ = [
    "DIALECT",
    "JSON",
    "POLICY",
    "SSE",
    "VERTEX",
    "built",
    "call",
    "failed",
    "failure",
    "frame",
    "last",
    "only",
    "read",
    "says",
    "stop",
    "text_of",
    "thinks",
    "usage_of",
]

DIALECT = get_dialect("gemini")
POLICY = load_policy("gemini")
VERTEX = load_policy("vertex")
SSE = [("content-type", "text/event-stream")]
JSON = [("content-type", "application/json; charset=UTF-8")]


def read(
    chunks: Iterable[bytes],
    *,
    used: Policy = POLICY,
    headers: list[tuple[str, str]] = SSE,
    status: int = 200,
    choices: int = 1,
) -> list[Event]:
    """Everything one attempt says about a body that ends in an orderly way."""
    reader = AttemptReader(used, DIALECT, 0, choices=choices)
    events = reader.response(status, headers)
    for chunk in chunks:
        events += reader.feed(chunk)
    return events + reader.end()


def frame(data: Any) -> bytes:
    """One event with this JSON, as the API sends it: its lines end with CRLF."""
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\r\n\r\n".encode()


def says(*parts: Any, **candidate: Any) -> bytes:
    """An event with these parts (text as a string); more keys of the candidate by name."""
    made = [{"text": part} if isinstance(part, str) else part for part in parts]
    content = {"content": {"role": "model", "parts": made}} if made else {}
    return frame({"candidates": [{**content, **candidate}]})


def thinks(text: str, **part: Any) -> dict[str, Any]:
    """A thought."""
    return {"text": text, "thought": True, **part}


def call(name: str = "add", args: Any = None, **part: Any) -> dict[str, Any]:
    """A function call in one part."""
    given = {} if args is None else {"args": args}
    return {"functionCall": {"name": name, **given}, **part}


def stop(reason: Any = "STOP", *parts: Any) -> bytes:
    """An event with a finish reason."""
    return says(*parts, finishReason=reason)


def only(events: list[Event], kind: type[Event]) -> list[Any]:
    """The events of one kind."""
    return [event for event in events if type(event) is kind]


def last(events: list[Event]) -> Finished:
    """The one ``Finished``, which has to be the last event."""
    (finished,) = only(events, Finished)
    assert finished is events[-1]
    assert isinstance(finished, Finished)
    return finished


def failure(events: list[Event]) -> Failure:
    """The failure that the attempt ended with."""
    found = last(events).failure
    assert found is not None
    return found


def failed(events: list[Event]) -> FailureKind:
    """Its kind."""
    return failure(events).kind


def text_of(events: list[Event], kind: str = "text") -> str:
    """All text of the blocks of this kind."""
    return "".join(block.text for block in built(events) if block.kind == kind)


def usage_of(events: list[Event]) -> dict[str, int | None]:
    """The last value of each counter."""
    counters: dict[str, int | None] = {}
    for event in only(events, UsageReported):
        for name in event.usage.__struct_fields__:
            value = getattr(event.usage, name)
            counters[name] = counters.get(name) if value is None else value
    return counters


def built(events: list[Event]) -> list[Block]:
    """The blocks as the machine keeps them, held to the grammar of events."""
    blocks: dict[int, Block] = {}
    for event in events:
        match event:
            case BlockStarted():
                assert event.index not in blocks
                named = (event.id, event.name, event.data)
                blocks[event.index] = Block(event.index, event.kind, event.attempt, *named)
            case BlockDelta():
                block = blocks[event.index]
                assert not block.closed
                _add(block, event)
            case BlockClosed():
                block = blocks[event.index]
                assert not block.closed
                block.closed = True
                block.data = block.data if event.data is None else event.data
    return [blocks[index] for index in sorted(blocks)]


def _add(block: Block, event: BlockDelta) -> None:
    match event.field:
        case "signature":
            block.signature = (block.signature or "") + event.text
        case "citation":
            block.citations = [*block.citations, event.text]
        case "other":
            block.extra = [*block.extra, event.text]
        case _:
            block.parts = [*block.parts, event.text]
