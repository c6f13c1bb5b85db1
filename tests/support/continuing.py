"""An upstream that plays a recorded reply and, asked to go on, plays the rest of it.

It reads a continuation as a model does: how much of the recorded reply does the history carry, and
where does the rest begin? The rest comes as a fresh stream of the same dialect. Imports nothing of
the project.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from recordings import Recording
from reply_parts import HIDDEN, Part
from sse_frames import Frame

__all__ = ["Continuing", "Garbled", "Played", "Variant"]

Json = dict[str, Any]
#: How an instructed model goes on. ``exact``: where the history ends. ``no_leading_space``: without
#: leading white space where it was told that there is some. ``repeats``: with the last 20 to 60
#: characters once more. ``restarts``: from the beginning. ``rethinks``: after thinking again.
#: ``echoes``: not for instructed models; one that is prefilled says the prefix once more.
Variant = Literal["exact", "no_leading_space", "repeats", "restarts", "rethinks", "echoes"]

SAID_AGAIN: tuple[Variant, ...] = ("repeats", "restarts")
#: Fewer characters said again are no proof of anything: such a model is not played.
PROOF = 12
#: What an instruction says where the text ends with white space.
_ENDS_WITH_SPACE = "already ends with white space"


class Garbled(AssertionError):
    """The history of a continuation is not what the provider said."""


@dataclass(frozen=True, slots=True)
class Played:
    """What was made of one request."""

    kind: Literal["original", "prefill", "instruct"]
    carried: str = ""
    """The text of the reply that the history carries."""
    carried_parts: tuple[Part, ...] = ()
    """Parts of the reply in the history that are no text."""
    begins_at: int = 0
    """Where in the recorded text the rest begins."""
    stream: bytes = b""


@dataclass(slots=True)
class _Place:
    """A place in the recorded reply: in a text part, or after part ``number``."""

    number: int
    offset: int
    parts: list[Part] = field(default_factory=list)


class Continuing:
    """Plays one recording; ``asked`` is how many messages the caller's own request has."""

    def __init__(
        self, recording: Recording, *, asked: int = 1, variant: Variant = "exact", repeat: int = 20
    ) -> None:
        self._recording = recording
        self._reply = recording.reply
        self._asked = asked
        self._variant = variant
        self._repeat = repeat
        self.played: list[Played] = []

    def play(self, request: Mapping[str, Any]) -> bytes:
        """The whole answer to this request body; raises ``Garbled`` for a wrong history."""
        messages = request["messages"]
        if len(messages) == self._asked:
            played = Played("original", stream=self._recording.data)
        elif messages[-1]["role"] == "assistant":
            played = self._go_on("prefill", messages[-1], "")
        else:
            played = self._go_on("instruct", messages[-2], str(messages[-1]["content"]))
        self.played.append(played)
        return played.stream

    def _go_on(
        self, kind: Literal["prefill", "instruct"], message: Json, instruction: str
    ) -> Played:
        content = message["content"]
        blocks = [] if isinstance(content, str) else [b for b in content if b["type"] == "text"]
        carried = content if isinstance(content, str) else "".join(b["text"] for b in blocks)
        place = self._find(content)
        mine = (self._variant == "echoes") is (kind == "prefill")
        variant = self._variant if mine else "exact"
        if variant == "echoes":
            place = _Place(next(n for n, p in enumerate(self._reply.parts) if p.kind == "text"), 0)
        if variant in SAID_AGAIN and min(len(carried), place.offset) < PROOF:
            variant = "exact"
        place = self._vary(place, variant, instruction)
        before = {part.kind for part in self._reply.parts[: place.number]}
        if variant == "restarts" and before <= {"text", *HIDDEN}:
            return Played(kind, carried, tuple(place.parts), 0, self._recording.data)
        begins_at = sum(len(p.text) for p in self._texts(place.number)) + place.offset
        make = _anthropic_rest if self._recording.wire == "anthropic" else _chat_rest
        stream = make(self._recording, place, rethinks=variant == "rethinks")
        return Played(kind, carried, tuple(place.parts), begins_at, stream)

    def _texts(self, upto: int) -> list[Part]:
        return [p for p in self._reply.parts[:upto] if p.kind == "text"]

    def _vary(self, place: _Place, variant: Variant, instruction: str) -> _Place:
        part = self._reply.parts[place.number] if place.number < len(self._reply.parts) else None
        if part is None or part.kind != "text":
            return place
        if variant == "no_leading_space" and _ENDS_WITH_SPACE in instruction:
            rest = part.text[place.offset :]
            place.offset += len(rest) - len(rest.lstrip())
        elif variant == "repeats":
            place.offset = max(0, place.offset - self._repeat)
        return place

    # --- how much the history carries ---------------------------------------------------------

    def _find(self, content: Any) -> _Place:
        place = _Place(0, 0)
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in blocks:
            if block["type"] == "text":
                found = self._find_text(place.number, place.offset, block["text"])
                if found is None:
                    said = block["text"][-40:]
                    raise Garbled(f"the history says {said!r}, which was not said so")
                place.number, place.offset = found
            else:
                self._find_part(place, block)
        return place

    def _find_text(self, number: int, offset: int, text: str) -> tuple[int, int] | None:
        """Where ``text`` ends, if it was said from here on; blank parts may be missing in it."""
        parts = self._reply.parts
        if number >= len(parts):
            return None
        if parts[number].kind != "text":
            _may_be_missing(parts[number])
            return self._find_text(number + 1, 0, text)
        rest = parts[number].text[offset:]
        if rest.startswith(text):
            return number, offset + len(text)
        if self._variant == "no_leading_space" and (loose := _loosely(rest, text)):
            return number, offset + loose
        if rest and text.startswith(rest):
            found = self._find_text(number + 1, 0, text[len(rest) :])
            if found is not None:
                return found
        return None if rest.strip() else self._find_text(number + 1, 0, text)

    def _find_part(self, place: _Place, block: Json) -> None:
        parts = self._reply.parts
        while place.number < len(parts):
            part = parts[place.number]
            rest, place.offset = part.text[place.offset :], 0
            place.number += 1
            if _is_same(part, block):
                place.parts.append(part)
                return
            if part.kind != "text" or rest.strip():
                _may_be_missing(part)
        raise Garbled(f"a {block['type']} block in the history was never said")


def _loosely(said: str, text: str) -> int | None:
    """Where ``text`` ends in ``said``, if it only lacks white space that was left out before."""
    at = 0
    for char in text:
        while at < len(said) and said[at] != char and said[at].isspace():
            at += 1
        if at >= len(said) or said[at] != char:
            return None
        at += 1
    return at


def _may_be_missing(part: Part) -> None:
    if part.kind not in (*HIDDEN, "other"):
        raise Garbled(f"a {part.kind} part of the reply is missing in the history")


def _is_same(part: Part, block: Json) -> bool:
    if part.kind == "thinking":
        return bool(block["type"] == "thinking" and block["signature"] == part.signature)
    if part.kind == "redacted_thinking":
        return block == part.raw
    same_id = part.kind == "other" or part.id in (block.get("id"), block.get("tool_use_id"))
    return bool(block["type"] == part.raw.get("type") and same_id)


# --- the rest, as a fresh stream ------------------------------------------------------------------


def _event(data: Json) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    return f"event: {data['type']}\ndata: {text}\n\n".encode()


def _chunk(data: Json) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@functools.lru_cache(maxsize=1000)
def _tail(recording: Recording, shift: int) -> tuple[bytes, list[int]]:
    """All frames with their block indexes moved, and where each begins in that."""
    pieces = []
    for frame in recording.reply.frames:
        if shift and isinstance(frame.json, dict) and "index" in frame.json:
            pieces.append(_event({**frame.json, "index": frame.json["index"] + shift}))
        else:
            pieces.append(recording.data[frame.begin : frame.end].rstrip() + b"\n\n")
    return b"".join(pieces), list(itertools.accumulate(map(len, pieces), initial=0))


def _from(recording: Recording, number: int, shift: int = 0) -> bytes:
    data, begins = _tail(recording, shift)
    return data[begins[number] :]


def _anthropic_rest(recording: Recording, place: _Place, *, rethinks: bool) -> bytes:
    parts, frames = recording.reply.parts, recording.reply.frames
    out, used = [_event(_fresh_start(frames))], 0
    if rethinks and parts[0].kind == "thinking" and parts[0].close is not None:
        out += [_event(f.json) for f in frames[parts[0].begin : parts[0].close + 1]]
        used = 1
    number, offset = place.number, place.offset
    if offset and offset >= len(parts[number].text):
        number, offset = number + 1, 0
    if number >= len(parts):
        last = parts[-1]
        return b"".join([*out, _from(recording, (last.close or last.last) + 1)])
    part, shift = parts[number], used - parts[number].wire_index
    if not offset:
        return b"".join([*out, _from(recording, part.begin, shift)])
    frame, end = part.piece_at(offset)
    start = {"type": "content_block_start", "index": used}
    delta = {"type": "text_delta", "text": part.text[offset:end]}
    out.append(_event({**start, "content_block": {**part.raw, "text": ""}}))
    out.append(_event({"type": "content_block_delta", "index": used, "delta": delta}))
    return b"".join([*out, _from(recording, frame + 1, shift)])


def _fresh_start(frames: Sequence[Frame]) -> Json:
    first = next(f.json["message"] for f in reversed(frames) if f.json["type"] == "message_start")
    return {"type": "message_start", "message": {**first, "content": [], "stop_reason": None}}


def _chat_rest(recording: Recording, place: _Place, *, rethinks: bool) -> bytes:
    parts, frames = recording.reply.parts, recording.reply.frames
    head = {k: v for k, v in frames[0].json.items() if k not in ("choices", "usage", "x_groq")}
    role = {"role": "assistant", "content": ""}
    out = [_chunk({**head, "choices": [{"index": 0, "delta": role, "finish_reason": None}]})]
    if rethinks and parts[0].kind == "thinking":
        out.append(_from(recording, parts[0].begin)[: _length(recording, parts[0])])
    number, offset = place.number, place.offset
    if offset >= len(parts[number].text):
        number, offset = number + 1, 0
    if number >= len(parts):
        # Its last frame may hold more than the text: the stop fact, say.
        frame, text = parts[-1].last, ""
    elif parts[number].kind == "text":
        frame, end = parts[number].piece_at(offset)
        text = parts[number].text[offset:end]
    else:
        frame, text = parts[number].begin, ""
    out.append(_chunk(_sliced(frames[frame].json, text, reasons=number < len(parts) and not text)))
    return b"".join([*out, _from(recording, frame + 1)])


def _length(recording: Recording, part: Part) -> int:
    _, begins = _tail(recording, 0)
    return begins[part.last + 1] - begins[part.begin]


def _sliced(data: Json, text: str, *, reasons: bool) -> Json:
    """The chunk with this text instead of its own, and without reasoning that came before it."""
    copy: Json = json.loads(json.dumps(data))
    for choice in copy["choices"]:
        if not choice.get("index"):
            delta = choice.get("delta") or {}
            kept = {k: v for k, v in delta.items() if reasons or "reasoning" not in k}
            choice["delta"] = {**kept, "content": text}
    return copy
