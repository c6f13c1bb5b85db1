"""What the reader makes of bytes in any dialect, and each way to split a stream into reads."""

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from anthropic_frames import built, last, usage_of
from native_streams import Stream

from midthought.policies import Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Event, StopKnown

__all__ = ["calls_of", "cuts", "read", "reply_of", "shipped", "text_of_kind"]


shipped = functools.cache(load_policy)


def read(policy: Policy | str, chunks: Iterable[bytes], content_type: str) -> list[Event]:
    """Everything one attempt says about a stream that ends in an orderly way."""
    used = shipped(policy) if isinstance(policy, str) else policy
    reader = AttemptReader(used, get_dialect(used.dialect), 0)
    events = reader.response(200, [("content-type", content_type)])
    for chunk in chunks:
        events += reader.feed(chunk)
    return events + reader.end()


def cuts(stream: Stream) -> Iterator[list[bytes]]:
    """The body whole, byte by byte, by sevens, and frame by frame."""
    data = stream.data
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield [data[i : i + 7] for i in range(0, len(data), 7)]
    yield stream.frames


def text_of_kind(events: list[Event], kind: str) -> str:
    """All text of the blocks of this kind."""
    return "".join(block.text for block in built(events) if block.kind == kind)


def calls_of(events: list[Event], kind: str = "tool_use") -> list[tuple[Any, Any, Any]]:
    """Id, name and parsed input of each call."""
    found = [block for block in built(events) if block.kind == kind and block.name]
    return [(block.id, block.name, json.loads(block.text or "{}")) for block in found]


def reply_of(events: list[Event]) -> dict[str, Any]:
    """What the caller of a plain client would get: the parts that an SDK gives too."""
    assert last(events).failure is None
    stops = [event for event in events if isinstance(event, StopKnown)]
    return {
        "text": text_of_kind(events, "text"),
        "thinking": text_of_kind(events, "thinking"),
        "calls": calls_of(events),
        "usage": usage_of(events),
        "stop": stops[-1].reason,
    }
