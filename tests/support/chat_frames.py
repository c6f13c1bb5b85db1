"""Chat Completions frames made by hand, and what the reader makes of them.

For tests of the dialect ``openai_chat``: ``play`` runs frames through an ``AttemptReader``.
"""

import json
from typing import Any

from midthought.policies import FailureKind, Policy, Stop
from midthought.providers import AttemptReader
from midthought.providers.openai_chat import dialect
from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event, Finished

__all__ = ["DONE", "blocks", "chunk", "end", "failure", "play", "policy", "sse", "text"]

DONE = b"data: [DONE]\n\n"


def policy(**tables: Any) -> Policy:
    """A policy with nothing but these tables set."""
    return Policy(name="test", dialect="openai_chat", **tables)


def sse(document: Any, event: str = "") -> bytes:
    """One frame."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()


def chunk(delta: Any = None, finish: Any = None, index: int = 0, **top: Any) -> bytes:
    """A chunk with one choice."""
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return sse({"id": "c1", "model": "m", "choices": [choice], **top})


def text(value: str, finish: Any = None, **more: Any) -> bytes:
    """A chunk with text."""
    return chunk({"content": value}, finish, **more)


def play(*frames: bytes, **tables: Any) -> list[Event]:
    """Every event of a stream with these frames that then ends."""
    reader = AttemptReader(policy(**tables), dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    for frame in frames:
        events += reader.feed(frame)
    return events if reader.finished else events + reader.end()


def blocks(events: list[Event]) -> list[tuple[str, str, bool]]:
    """Kind, text and whether it was closed, of each block in order."""
    found: dict[int, list[Any]] = {}
    for event in events:
        if isinstance(event, BlockStarted):
            assert event.index not in found
            found[event.index] = [event.kind, "", False]
        elif isinstance(event, BlockDelta):
            assert not found[event.index][2], "a delta after its block was closed"
            if event.field in ("text", "input"):
                found[event.index][1] += event.text
        elif isinstance(event, BlockClosed):
            found[event.index][2] = True
    return [(kind, value, closed) for kind, value, closed in found.values()]


def end(events: list[Event]) -> Finished:
    """The one ``Finished``, and that it is one and the last."""
    assert [e for e in events if isinstance(e, Finished)] == events[-1:]
    assert isinstance(events[-1], Finished)
    return events[-1]


def failure(events: list[Event]) -> tuple[FailureKind, str | None, str]:
    """Kind, code and words of the failure this attempt ended with."""
    finished = end(events)
    assert finished.stop is Stop.error
    assert finished.failure is not None
    return finished.failure.kind, finished.failure.code, finished.failure.message
