"""What a recorded reply says, part by part and event by event: the tests' own accumulator.

Two dialects, read in the plainest way: the recordings are known, nothing has to be tolerated that
is not in them. Imports nothing of the project.
"""

from __future__ import annotations

import bisect
import itertools
import json
from dataclasses import dataclass, field
from typing import Any

from sse_frames import Frame, split_frames, tail_is_whole

__all__ = ["Flat", "Part", "Reply", "State", "flat_of", "read_reply"]

Json = dict[str, Any]
#: Text, refusal, and everything that stands as one thing; reasoning is left out.
Flat = list[tuple[Any, ...]]

HIDDEN = ("thinking", "redacted_thinking")
CALLED = {"tool_use": "tool_use", "server_tool_use": "server_tool", "mcp_tool_use": "server_tool"}
PLAIN = ("text", "thinking", "redacted_thinking")


@dataclass(slots=True)
class Part:
    """A block of the reply. Frames are numbered from 0."""

    kind: str
    begin: int
    """The frame that starts it."""
    raw: Json
    """The block as it starts on the wire."""
    id: str | None = None
    name: str | None = None
    close: int | None = None
    """The frame that closes it."""
    pieces: list[tuple[int, str]] = field(default_factory=list)
    signature: str = ""
    cited: bool = False
    wire_index: int = 0
    last: int = 0
    """The last frame that has to do with it."""

    _whole: str | None = None
    _frames: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All of its text (or tool input)."""
        if self._whole is None:
            self._whole = "".join(text for _, text in self.pieces)
            self._frames = [at for at, _ in self.pieces]
            self._ends = list(itertools.accumulate((len(t) for _, t in self.pieces), initial=0))
        return self._whole

    def before(self, frame: int) -> State:
        """What of it had arrived before this frame."""
        whole = self.text
        text = whole[: self._ends[bisect.bisect_left(self._frames, frame)]]
        return State(self, text, self.close is not None and self.close < frame)

    def piece_at(self, offset: int) -> tuple[int, int]:
        """The frame that holds the character at this offset, and the end of what it says."""
        if offset >= len(self.text):
            raise IndexError(f"offset {offset} is beyond the part")
        number = bisect.bisect_right(self._ends, offset) - 1
        frame = self._frames[number]
        return frame, self._ends[bisect.bisect_right(self._frames, frame)]


@dataclass(slots=True)
class State:
    """A part, as far as it had arrived."""

    part: Part
    text: str
    closed: bool


@dataclass(slots=True)
class Reply:
    """All of it."""

    wire: str
    frames: list[Frame]
    parts: list[Part] = field(default_factory=list)
    stop: str | None = None
    stop_frame: int | None = None
    """The frame with the stop fact."""
    choices: int = 1

    def arrived(self, at: int) -> tuple[int, int]:
        """How many frames a cut at this byte leaves: surely, and with a tail that is whole."""
        sure = bisect.bisect_right(self.frames, at, key=lambda frame: frame.end)
        most = sure < len(self.frames) and tail_is_whole(self.frames[sure], at)
        return sure, sure + most

    def before(self, frame: int) -> list[State]:
        """The parts that had begun before this frame."""
        return [part.before(frame) for part in self.parts if part.begin < frame]

    @property
    def whole(self) -> list[State]:
        """The parts at the end."""
        return self.before(len(self.frames))

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(part.text for part in self.parts if part.kind == "text")


def flat_of(states: list[State]) -> Flat:
    """The visible reply as one list, text that follows text joined; tool input decoded."""
    flat: Flat = []
    for state in states:
        kind = state.part.kind
        if kind in HIDDEN:
            continue
        if kind in ("text", "refusal"):
            if flat and flat[-1][0] == kind:
                flat[-1] = (kind, flat[-1][1] + state.text)
            elif state.text:
                flat.append((kind, state.text))
        else:
            flat.append((kind, state.part.id, state.part.name, decoded(state.text)))
    return flat


def decoded(text: str) -> Any:
    """Tool input as data; text that is no JSON stays text."""
    try:
        return json.loads(text) if text.strip() else {}
    except ValueError:
        return text


def read_reply(wire: str, body: bytes) -> Reply:
    """Read a whole body, or a piece of one that ends between two events."""
    reply = Reply(wire, split_frames(body))
    reader = _Anthropic(reply) if wire == "anthropic" else _Chat(reply)
    for number, frame in enumerate(reply.frames):
        if isinstance(frame.json, dict):
            reader.take(number, frame.json)
    return reply


class _Anthropic:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._open: dict[int, Part] = {}

    def take(self, number: int, data: Json) -> None:
        match data.get("type"):
            case "message_start":
                self._reply.parts.clear()
                self._open.clear()
                self._message(number, data["message"])
            case "content_block_start":
                part = self._start(number, data["index"], data["content_block"])
                self._open[data["index"]] = part
            case "content_block_delta":
                self._delta(number, self._open[data["index"]], data["delta"])
            case "content_block_stop":
                part = self._open.pop(data["index"])
                part.close = part.last = number
            case "message_delta" if data["delta"].get("stop_reason"):
                self._stop(number, data["delta"]["stop_reason"])
            case "message_stop" if self._reply.stop is not None and not self._reply.stop_frame:
                self._reply.stop_frame = number

    def _message(self, number: int, message: Json) -> None:
        for index, block in enumerate(message["content"]):
            part = self._start(number, index, block)
            part.close = number
        # A reason that comes with the start counts once the message has stopped.
        self._reply.stop = message.get("stop_reason")
        self._reply.stop_frame = None

    def _stop(self, number: int, reason: str) -> None:
        self._reply.stop = reason
        if self._reply.stop_frame is None:
            self._reply.stop_frame = number

    def _start(self, number: int, index: int, block: Json) -> Part:
        wire_kind: str = block["type"]
        result = wire_kind.endswith("_tool_result")
        kind = CALLED.get(wire_kind, "server_tool" if result else "other")
        kind = wire_kind if wire_kind in PLAIN else kind
        part = Part(kind, number, block, block.get("tool_use_id" if result else "id"))
        part.name, part.wire_index, part.last = block.get("name"), index, number
        if given := block.get("text", "") if kind == "text" else block.get("thinking", ""):
            part.pieces.append((number, given))
        if not result and block.get("input"):
            part.pieces.append((number, json.dumps(block["input"])))
        self._reply.parts.append(part)
        return part

    def _delta(self, number: int, part: Part, delta: Json) -> None:
        part.last = number
        match delta["type"]:
            case "text_delta":
                part.pieces.append((number, delta["text"]))
            case "thinking_delta":
                part.pieces.append((number, delta["thinking"]))
            case "input_json_delta" if delta["partial_json"]:
                if part.raw.get("input") and part.pieces[0][0] == part.begin:
                    part.pieces.clear()
                part.pieces.append((number, delta["partial_json"]))
            case "signature_delta":
                part.signature += delta["signature"]
            case "citations_delta":
                part.cited = True


class _Chat:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._prose: Part | None = None
        self._calls: list[tuple[Any, Part]] = []

    def take(self, number: int, data: Json) -> None:
        for choice in data.get("choices") or ():
            index = choice.get("index") or 0
            self._reply.choices = max(self._reply.choices, index + 1)
            if index == 0:
                self._choice(number, choice)

    def _choice(self, number: int, choice: Json) -> None:
        delta = choice.get("delta") or choice.get("message") or {}
        if thought := _reasoning(delta):
            self._say(number, "thinking", thought)
        content = delta.get("content")
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, dict) and part.get("type") == "thinking":
                self._say(number, "thinking", "".join(p.get("text", "") for p in part["thinking"]))
            elif text := part.get("text") if isinstance(part, dict) else part:
                self._say(number, "text", text)
        if delta.get("refusal"):
            self._say(number, "refusal", delta["refusal"])
        for entry in delta.get("tool_calls") or ():
            self._call(number, entry, entry.get("function") or {})
        if legacy := delta.get("function_call"):
            self._call(number, {"index": 0}, legacy)
        if choice.get("finish_reason"):
            self._finish(number, choice["finish_reason"])

    def _say(self, number: int, kind: str, text: str) -> None:
        if self._prose is None or self._prose.kind != kind:
            self._end_prose(number)
            self._prose = Part(kind, number, {})
            self._reply.parts.append(self._prose)
        self._prose.pieces.append((number, text))
        self._prose.last = number

    def _end_prose(self, number: int) -> None:
        if self._prose is not None:
            self._prose.close, self._prose = number, None

    def _call(self, number: int, entry: Json, body: Json) -> None:
        known = [part for index, part in self._calls if index == entry.get("index")]
        other = entry.get("id") and any(part.id and part.id != entry["id"] for part in known[-1:])
        if not known or entry.get("index") is None or other:
            self._end_prose(number)
            self._close_calls(number, whole=True)
            part = Part("tool_use", number, {}, entry.get("id") or None)
            self._calls.append((entry.get("index"), part))
            self._reply.parts.append(part)
            known = [part]
        part = known[-1]
        part.id, part.name = part.id or entry.get("id"), part.name or body.get("name")
        if text := body.get("arguments"):
            part.pieces.append((number, text))
        part.last = number

    def _close_calls(self, number: int, *, whole: bool) -> None:
        for _, part in self._calls:
            text = "".join(text for _, text in part.pieces)
            if part.close is None and not (whole and not isinstance(decoded(text), dict)):
                part.close = number

    def _finish(self, number: int, reason: str) -> None:
        self._end_prose(number)
        if reason != "length":
            self._close_calls(number, whole=False)
        self._reply.stop = reason
        if self._reply.stop_frame is None:
            self._reply.stop_frame = number


def _reasoning(delta: Json) -> str:
    text = delta.get("reasoning_content") or delta.get("reasoning") or ""
    if not text:
        details = delta.get("reasoning_details") or ()
        text = "".join(d.get("text") or d.get("summary") or "" for d in details)
    return str(text)
