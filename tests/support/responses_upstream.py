"""An upstream that plays a recorded response and, asked to go on, plays the rest of it.

It reads a continuation as a model does: how much of the recorded reply does the input carry, and
where does the rest begin? The rest comes as a new response. Asked for the same response again
(``GET``), it plays what comes after the number, or the whole as one body. Imports nothing of the
project but what the twin does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, urlsplit

from recordings import Recording
from sse_frames import Frame, split_frames
from strict_responses import StrictResponses, type_faults
from twin import JSON, Answer, Twin, sse

from midthought.statemachine import Effect, Send, StopUpstream

__all__ = ["Asked", "ResponsesTwin", "Said", "Unit", "Upstream", "said_by"]

Json = dict[str, Any]
CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
#: Items that a history may lack: reasoning, and what is bound to it.
MAY_LACK = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "reasoning",
        "text",
        "web_search_call",
    }
)


@dataclass(slots=True)
class Unit:
    """A text part of a message, or any other output item."""

    kind: str
    """``text``, ``refusal``, or the item's type."""
    begin: int
    """The frame of its start."""
    done: int
    """The frame that ends it: for a call, that of its input."""
    item: Json
    """The item at its end."""
    pieces: list[tuple[int, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of it."""
        return "".join(piece for _, piece in self.pieces)

    def before(self, frame: int) -> str:
        """What of it had come before this frame."""
        return "".join(piece for at, piece in self.pieces if at < frame)


@dataclass
class Said:
    """What a recording says."""

    data: bytes
    frames: list[Frame]
    units: list[Unit] = field(default_factory=list)

    @property
    def items(self) -> list[Json]:
        """The output items, as they ended."""
        return [f.json["item"] for f in self.frames if f.json["type"].endswith("output_item.done")]

    @cached_property
    def text(self) -> str:
        """All visible text."""
        return "".join(unit.text for unit in self.units if unit.kind == "text")

    @property
    def end(self) -> Json:
        """The response, as it ended."""
        response: Json = self.frames[-1].json["response"]
        return response

    def numbered(self) -> bool:
        """Every event has its number."""
        return all("sequence_number" in frame.json for frame in self.frames)


def said_by(recording: Recording) -> Said:
    """Read a recording."""
    frames = [frame for frame in split_frames(recording.data) if frame.json is not None]
    said = Said(recording.data, frames)
    open_units: dict[int, Unit] = {}
    for number, one in enumerate(frames):
        _read(said, open_units, number, one.json)
    return said


def _read(said: Said, open_units: dict[int, Unit], number: int, event: Json) -> None:
    kind = event["type"].removeprefix("response.")
    place = event.get("output_index", max(open_units, default=0))
    if kind == "output_item.added" and event["item"]["type"] != "message":
        unit = Unit(event["item"]["type"], number, len(said.frames), event["item"])
        open_units[place] = unit
        said.units.append(unit)
    elif kind == "content_part.added" and event["part"]["type"] in ("output_text", "refusal"):
        what = "text" if event["part"]["type"] == "output_text" else "refusal"
        unit = Unit(what, number, len(said.frames), {})
        open_units[place] = unit
        said.units.append(unit)
    elif kind in ("output_text.delta", "refusal.delta", "function_call_arguments.delta",
                  "custom_tool_call_input.delta"):  # fmt: skip
        open_units[place].pieces.append((number, event["delta"]))
    elif kind in ("function_call_arguments.done", "custom_tool_call_input.done"):
        unit = open_units[place]
        unit.done = number
        if not unit.pieces:
            unit.pieces.append((number, str(event.get("arguments", event.get("input")))))
    elif kind == "output_item.done" and place in open_units:
        unit = open_units[place]
        unit.item, unit.done = event["item"], min(unit.done, number)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and what was made of it."""

    kind: str
    """``original``, ``instruct``, ``resume``, ``poll``."""
    faults: tuple[str, ...] = ()
    stream: bytes = b""


class Garbled(AssertionError):
    """The history of a continuation is not what the provider said."""


class Upstream:
    """Plays one recording; ``own`` is how many input items the caller's own request has.

    ``typed``: the provider's items are those of the official SDK's types.
    """

    def __init__(
        self, said: Said, *, own: int = 1, background: bool = False, typed: bool = True
    ) -> None:
        self.said = said
        self.typed = typed
        self._own = own
        self._background = background
        self.strict = StrictResponses(said=[list(said.items)])
        self.asked: list[Asked] = []

    def original(self) -> bytes:
        """The recorded stream; a background response says so at its start."""
        if not self._background:
            return self.said.data
        return b"".join(self._frame(frame.json) for frame in self.said.frames)

    def post(self, body: Mapping[str, Any]) -> bytes:
        """The answer to a request body."""
        items = body["input"]
        own = isinstance(items, str) or len(items) <= self._own
        typed = [] if own or not self.typed else type_faults(items)
        faults = tuple(self.strict.faults(body) + typed)
        stream = self.original() if own else self._rest(items[self._own : -1])
        self.asked.append(Asked("original" if own else "instruct", faults, stream))
        return stream

    def get(self, path: str) -> Answer:
        """The same response again."""
        query = parse_qs(urlsplit(path).query)
        if query.get("stream") != ["true"]:
            self.asked.append(Asked("poll"))
            return Answer(json.dumps(self._whole()).encode(), headers=JSON)
        after = int(query["starting_after"][0])
        later = [f.json for f in self.said.frames if f.json["sequence_number"] > after]
        stream = b"".join(map(self._frame, later))
        self.asked.append(Asked("resume", (), stream))
        return sse(stream)

    def _frame(self, event: Json) -> bytes:
        if self._background and "response" in event:
            kept = {"background": True, "store": True}
            event = {**event, "response": {**event["response"], **kept}}
        return _event(event)

    def _whole(self) -> Json:
        return {**self.said.end, "object": "response", "output": self.said.items}

    # --- the rest, as a new response -------------------------------------------------------------

    def _rest(self, history: list[Json]) -> bytes:
        number, offset = self._find(history)
        name = f"resp_{len(self.asked)}"
        first: Json = {"id": name, "object": "response", "status": "in_progress", "output": []}
        events: list[Json] = [{"type": "response.created", "response": first}]
        for place, unit in enumerate(self.said.units[number:]):
            events += _played(unit, offset if place == 0 else 0, place, name)
        ended = (e for e in events if e["type"].endswith("item.done"))
        self.strict.said.append([event["item"] for event in ended])
        end = self.said.frames[-1].json
        events.append({**end, "response": {**end["response"], "id": name, "output": []}})
        return b"".join(_event({**event, "sequence_number": at}) for at, event in enumerate(events))

    def _find(self, history: list[Json]) -> tuple[int, int]:
        """The unit and the offset in it where the rest begins."""
        number, offset = 0, 0
        for item in history:
            if item["type"] != "message":
                number, offset = self._find_item(item, number, offset), 0
                continue
            for part in item["content"]:
                said = part.get("text") or part["refusal"]
                number, offset = self._find_text(said, number, offset)
        if number < len(self.said.units) and offset >= len(self.said.units[number].text) > 0:
            return number + 1, 0
        return number, offset

    def _find_item(self, item: Json, number: int, offset: int) -> int:
        for at in range(number, len(self.said.units)):
            unit = self.said.units[at]
            name = str(item.get("id")).partition("_resp_")[0]  # of a rest that was played
            if unit.kind == item["type"] and unit.item.get("id") == name:
                return at + 1
            _may_lack(unit, offset if at == number else 0)
        raise Garbled(f"a {item['type']} in the history was never said")

    def _find_text(self, text: str, number: int, offset: int) -> tuple[int, int]:
        for at in range(number, len(self.said.units)):
            unit, begin = self.said.units[at], offset if at == number else 0
            if unit.kind in ("text", "refusal") and unit.text[begin:].strip():
                if not unit.text[begin:].startswith(text):
                    raise Garbled(f"the history says {text[-40:]!r}, which was not said so")
                return at, begin + len(text)
            _may_lack(unit, begin)
        raise Garbled("text in the history that was never said")


def _may_lack(unit: Unit, offset: int) -> None:
    rest = unit.kind == "text" and unit.text[offset:].strip()
    if unit.kind not in MAY_LACK or rest:
        raise Garbled(f"a {unit.kind} of the reply is missing in the history")


def _event(event: Json) -> bytes:
    data = json.dumps(event, ensure_ascii=False)
    return f"event: {event['type']}\ndata: {data}\n\n".encode()


def _played(unit: Unit, offset: int, place: int, name: str) -> list[Json]:
    """The events of a unit of the rest."""
    if unit.kind in ("text", "refusal"):
        return _message(unit, offset, place, name)
    whole = {**unit.item, "id": f"{unit.item['id'].partition('_resp_')[0]}_{name}"}
    begun = {**whole, "status": "in_progress"}
    if (key := CALLS.get(unit.kind)) is not None:
        begun[key] = ""
    events = [{"type": "response.output_item.added", "output_index": place, "item": begun}]
    if unit.kind in CALLS:
        what = (
            "function_call_arguments" if unit.kind == "function_call" else "custom_tool_call_input"
        )
        for _, piece in unit.pieces:
            delta = {"output_index": place, "item_id": begun["id"], "delta": piece}
            events.append({"type": f"response.{unit.kind}{what}.delta", **delta})
    done = {"type": "response.output_item.done", "output_index": place, "item": whole}
    return [*events, done]


def _message(unit: Unit, offset: int, place: int, name: str) -> list[Json]:
    rest = unit.text[offset:]
    wire = "output_text" if unit.kind == "text" else "refusal"
    key = "text" if unit.kind == "text" else "refusal"
    message = {"type": "message", "id": f"msg_{name}_{place}", "role": "assistant"}
    where = {"output_index": place, "content_index": 0, "item_id": message["id"]}
    part: Json = {"type": wire, key: "", "annotations": []}
    events: list[Json] = [
        {
            "type": "response.output_item.added",
            "output_index": place,
            "item": {**message, "status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **where, "part": part},
    ]
    for at in range(0, len(rest), 11):
        events.append({"type": f"response.{wire}.delta", **where, "delta": rest[at : at + 11]})
    events.append({"type": f"response.{wire}.done", **where, key: rest})
    whole = {**part, key: rest}
    done = {**message, "status": "completed", "content": [whole]}
    return [
        *events,
        {"type": "response.content_part.done", **where, "part": whole},
        {"type": "response.output_item.done", "output_index": place, "item": done},
    ]


class ResponsesTwin(Twin):
    """The twin, for an upstream that has to see method and path too: ``send``, when it is asked."""

    send: Send | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.stopped: list[tuple[str, str | None]] = []
        """The provider's stop calls: method and path."""

    def _exchange(self, send: Send) -> None:
        self.send = send
        super()._exchange(send)

    def _order(self, effect: Effect) -> None:
        if isinstance(effect, StopUpstream):
            self.stopped.append((effect.request.method, effect.request.path))
        else:
            super()._order(effect)
