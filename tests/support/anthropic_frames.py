"""Anthropic Messages frames made by hand, and what the reader makes of them.

For tests of the dialect ``anthropic_messages``: ``read`` runs bytes through an ``AttemptReader``.
"""

import json
from collections.abc import Iterable
from typing import Any

from midthought.policies import FailureKind, Policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    Opened,
    UsageReported,
)

__all__ = [
    "DIALECT",
    "END",
    "MESSAGE",
    "POLICY",
    "SSE",
    "START",
    "TEXT",
    "built",
    "delta",
    "failed",
    "frame",
    "last",
    "only",
    "policy",
    "read",
    "start",
    "stop",
    "text_of",
    "usage_of",
]

DIALECT = get_dialect("anthropic_messages")
SSE = [("content-type", "text/event-stream; charset=utf-8")]


def policy(**tables: Any) -> Policy:
    """A policy of this dialect with nothing but these tables set."""
    return Policy.model_validate({"name": "test", "dialect": "anthropic_messages", **tables})


POLICY = policy()


def read(chunks: Iterable[bytes], *, used: Policy = POLICY) -> list[Event]:
    """Everything one attempt says about a stream that ends in an orderly way."""
    reader = AttemptReader(used, DIALECT, 0)
    events = reader.response(200, SSE)
    for chunk in chunks:
        events += reader.feed(chunk)
    return events + reader.end()


def frame(data: Any, event: str | None = "") -> bytes:
    """One frame; ``event`` is the type in the data unless given, ``None`` leaves the line out."""
    text = data if isinstance(data, str) else json.dumps(data)
    if event == "":
        event = data["type"]
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
START = frame({"type": "message_start", "message": {**MESSAGE, "stop_reason": None}})
END = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + frame(
    {"type": "message_stop"}
)


def start(index: Any, block: Any) -> bytes:
    """A ``content_block_start`` frame."""
    return frame({"type": "content_block_start", "index": index, "content_block": block})


def delta(index: Any, kind: str, **value: Any) -> bytes:
    """A ``content_block_delta`` frame."""
    data = {"type": "content_block_delta", "index": index, "delta": {"type": kind, **value}}
    return frame(data)


def stop(index: Any) -> bytes:
    """A ``content_block_stop`` frame."""
    return frame({"type": "content_block_stop", "index": index})


TEXT = start(0, {"type": "text", "text": ""})


def only(events: list[Event], *kinds: type[Event]) -> list[Event]:
    """The events of these classes."""
    return [event for event in events if isinstance(event, kinds)]


def last(events: list[Event]) -> Finished:
    """The one ``Finished``, which is the last event."""
    (finished,) = only(events, Finished)
    assert finished is events[-1]
    assert isinstance(finished, Finished)
    return finished


def failed(events: list[Event]) -> FailureKind:
    """The kind of failure that ended the attempt."""
    failure = last(events).failure
    assert failure is not None
    return failure.kind


def text_of(events: list[Event]) -> str:
    """All visible text."""
    return "".join(e.text for e in events if isinstance(e, BlockDelta) and e.field == "text")


def built(events: list[Event]) -> list[Block]:
    """The blocks that these events build, as a host that only reads would."""
    blocks: dict[int, Block] = {}
    for event in events:
        if isinstance(event, Opened):
            blocks = {}
        elif isinstance(event, BlockStarted):
            assert event.index not in blocks
            blocks[event.index] = Block(
                event.index, event.kind, 0, event.id, event.name, event.data, parts=[]
            )
        elif isinstance(event, BlockDelta):
            block = blocks[event.index]
            assert not block.closed
            if event.field in ("text", "input"):
                block.parts.append(event.text)
            elif event.field == "signature":
                block.signature = (block.signature or "") + event.text
            else:
                kept = block.citations if event.field == "citation" else block.extra
                kept.append(event.text)
        elif isinstance(event, BlockClosed):
            assert not blocks[event.index].closed
            blocks[event.index].closed = True
    return list(blocks.values())


def usage_of(events: list[Event]) -> dict[str, int]:
    """Counters as they stand at the end; the last value of each wins."""
    counters: dict[str, int] = {}
    for event in events:
        if isinstance(event, UsageReported):
            for name in event.usage.__struct_fields__:
                if (value := getattr(event.usage, name)) is not None:
                    counters[name] = value
    return counters
