"""Frames of the Responses API made by hand, and what the reader makes of them.

For tests of the dialect ``openai_responses``: ``read`` runs bytes through an ``AttemptReader``, and
``Stream`` numbers events as the API does.
"""

import json
from collections.abc import Iterable
from typing import Any

from midthought.policies import Policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    StopKnown,
)

__all__ = [
    "DIALECT",
    "POLICY",
    "Stream",
    "blocks_of",
    "done_item",
    "frame",
    "item",
    "last",
    "only",
    "policy",
    "read",
    "stop_of",
    "text_of",
]

Json = dict[str, Any]

DIALECT = get_dialect("openai_responses")
SSE = [("content-type", "text/event-stream; charset=utf-8")]


def policy(**tables: Any) -> Policy:
    """A policy of this dialect with nothing but these tables set."""
    return Policy.model_validate({"name": "test", "dialect": "openai_responses", **tables})


POLICY = policy()


def frame(data: Json | str, event: str = "") -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def read(chunks: Iterable[bytes], *, used: Policy = POLICY, attempt: int = 0) -> list[Event]:
    """Everything one attempt says about a stream that ends in an orderly way."""
    reader = AttemptReader(used, DIALECT, attempt)
    events = reader.response(200, SSE)
    for chunk in chunks:
        if not reader.finished:
            events += reader.feed(chunk)
    return events if reader.finished else events + reader.end()


def item(kind: str, **fields: Any) -> Json:
    """An output item; ids are made of its kind."""
    return {"type": kind, "id": f"{kind}-1", "status": "in_progress", **fields}


def done_item(begun: Json, **fields: Any) -> Json:
    """The same item at its end."""
    return {**begun, "status": "completed", **fields}


class Stream:
    """Collects frames; every event gets the next ``sequence_number``."""

    def __init__(self, first: int = 0, **response: Any) -> None:
        self.frames: list[bytes] = []
        self.number = first
        self.response = {"id": "resp_1", "object": "response", "model": "gpt-5", **response}

    def add(self, kind: str, **fields: Any) -> "Stream":
        """One event of this type, ``response.`` before it."""
        data = {"type": f"response.{kind}", "sequence_number": self.number, **fields}
        self.frames.append(frame(data, f"response.{kind}"))
        self.number += 1
        return self

    def created(self) -> "Stream":
        """The beginning."""
        begun = {**self.response, "status": "in_progress", "output": []}
        return self.add("created", response=begun).add("in_progress", response=begun)

    def added(self, begun: Json, output: int = 0) -> "Stream":
        """An output item begins."""
        return self.add("output_item.added", output_index=output, item=begun)

    def done(self, ended: Json, output: int = 0) -> "Stream":
        """An output item ends."""
        return self.add("output_item.done", output_index=output, item=ended)

    def text(
        self, *pieces: str, output: int = 0, part: int = 0, kind: str = "output_text"
    ) -> "Stream":
        """A content part begins and grows by these pieces; it stays open."""
        key = "refusal" if kind == "refusal" else "text"
        place = {"item_id": "message-1", "output_index": output, "content_index": part}
        self.add("content_part.added", **place, part={"type": kind, key: ""})
        for piece in pieces:
            self.add(f"{kind}.delta", **place, delta=piece)
        return self

    def message(self, *pieces: str, output: int = 0, **fields: Any) -> "Stream":
        """A whole message of one text."""
        begun = item("message", role="assistant", content=[], **fields)
        place = {"item_id": begun["id"], "output_index": output, "content_index": 0}
        said = "".join(pieces)
        part = {"type": "output_text", "text": said, "annotations": []}
        self.added(begun, output).text(*pieces, output=output)
        self.add("output_text.done", **place, text=said)
        self.add("content_part.done", **place, part=part)
        return self.done(done_item(begun, content=[part]), output)

    def call(
        self, *pieces: str, output: int = 0, name: str = "add", call: str = "call_1"
    ) -> "Stream":
        """A whole function call."""
        begun = item("function_call", name=name, call_id=call, arguments="")
        place = {"item_id": begun["id"], "output_index": output}
        self.added(begun, output)
        for piece in pieces:
            self.add("function_call_arguments.delta", **place, delta=piece)
        self.add("function_call_arguments.done", **place, arguments="".join(pieces))
        return self.done(done_item(begun, arguments="".join(pieces)), output)

    def reasoning(self, *pieces: str, output: int = 0, signature: str | None = "enc") -> "Stream":
        """A whole reasoning item of one summary."""
        begun = item("reasoning", summary=[])
        place = {"item_id": begun["id"], "output_index": output, "summary_index": 0}
        self.added(begun, output)
        for piece in pieces:
            self.add("reasoning_summary_text.delta", **place, delta=piece)
        said = "".join(pieces)
        summary = [{"type": "summary_text", "text": said}] if said else []
        signed = {"encrypted_content": signature} if signature else {}
        return self.done(done_item(begun, summary=summary, **signed), output)

    def completed(self, **fields: Any) -> "Stream":
        """The end."""
        usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
        ended = {"status": "completed", "output": [], "usage": usage, **fields}
        return self.add("completed", response={**self.response, **ended})

    def incomplete(self, reason: str | None) -> "Stream":
        """The end before the end."""
        details = {"reason": reason} if reason else None
        ended: Json = {"status": "incomplete", "incomplete_details": details, "output": []}
        return self.add("incomplete", response={**self.response, **ended})

    def failed(self, **error: Any) -> "Stream":
        """The end by an error of the server."""
        ended: Json = {"status": "failed", "error": error or None, "output": []}
        return self.add("failed", response={**self.response, **ended})


# --- what the events say ------------------------------------------------------------------------


def last(events: list[Event]) -> Finished:
    """The attempt's end."""
    assert isinstance(events[-1], Finished)
    return events[-1]


def only(events: list[Event], *kinds: type[Event]) -> list[Any]:
    """The events of these kinds."""
    return [event for event in events if isinstance(event, kinds)]


def stop_of(events: list[Event]) -> tuple[str, str]:
    """The stop fact in our word and the provider's."""
    (stop,) = only(events, StopKnown)
    return stop.stop.value, stop.reason


def text_of(events: list[Event], field: str = "text") -> str:
    """All deltas of a field."""
    return "".join(e.text for e in events if isinstance(e, BlockDelta) and e.field == field)


def blocks_of(events: list[Event], attempt: int = 0) -> list[Block]:
    """The blocks as the engine would keep them: all of them, in the order of their starts."""
    found: dict[int, Block] = {}
    for event in events:
        if isinstance(event, BlockStarted):
            found[event.index] = Block(
                index=event.index,
                kind=event.kind,
                attempt=attempt,
                id=event.id,
                name=event.name,
                data=event.data,
                parent=event.parent,
            )
        elif isinstance(event, BlockDelta):
            _grow(found[event.index], event)
        elif isinstance(event, BlockClosed):
            block = found[event.index]
            block.closed = True
            block.data = event.data if event.data is not None else block.data
    return list(found.values())


def _grow(block: Block, event: BlockDelta) -> None:
    if event.field == "signature":
        block.signature = (block.signature or "") + event.text
    elif event.field == "citation":
        block.citations.append(event.text)
    elif event.field == "other":
        block.extra.append(event.text)
    else:
        block.parts.append(event.text)
