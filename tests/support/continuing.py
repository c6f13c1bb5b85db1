"""An upstream that plays a recorded reply and, asked to go on, plays the rest of it.

It reads a continuation as a model does: how much of the recorded reply does the history carry, and
where does the rest begin? The rest comes as a fresh stream of the same dialect. Imports nothing of
the project.
"""

from __future__ import annotations

import functools
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
Variant = Literal["exact", "no_leading_space", "repeats", "restarts", "rethinks"]

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
        variant = self._variant if kind == "instruct" else "exact"
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
                    raise Garbled(f"the history says {block['text'][-40:]!r}, which was not said so")
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


def _may_be_missing(part: Part) -> None:
    if part.kind not in (*HIDDEN, "other"):
        raise Garbled(f"a {part.kind} part of the reply is missing in the history")


def _is_same(part: Part, block: Json) -> bool:
    if part.kind == "thinking":
        return block["type"] == "thinking" and block["signature"] == part.signature
    if part.kind == "redacted_thinking":
        return block == part.raw
    return block["type"] == part.raw.get("type") and (
        part.kind == "other" or part.id in (block.get("id"), block.get("tool_use_id"))
    )


# --- the rest, as a fresh stream ------------------------------------------------------------------


def _event(data: Json) -> bytes:
    text = json.dumps(data, ensure_ascii=False)
    return f"event: {data['type']}\ndata: {text}\n\n".encode()


@functools.lru_cache(maxsize=50_000)
def _shifted(file: str, number: int, shift: int, raw: bytes) -> bytes:
    data = json.loads(raw)
    return _event({**data, "index": data["index"] + shift})


def _anthropic_rest(recording: Recording, place: _Place, *, rethinks: bool) -> bytes:
    reply, frames = recording.reply, recording.reply.frames
    first = next(f.json["message"] for f in reversed(frames) if f.json["type"] == "message_start")
    first = {**first, "content": [], "stop_reason": None}
    out = [_event({"type": "message_start", "message": first})]
    used = 0
    if rethinks and reply.parts[0].kind == "thinking" and reply.parts[0].close is not None:
        out += [_event(f.json) for f in frames[reply.parts[0].begin : reply.parts[0].close + 1]]
        used = 1
    at, base = _resume_at(reply.parts, frames, place)
    part = reply.parts[place.number] if place.number < len(reply.parts) else None
    if part is not None and part.kind == "text" and 0 < place.offset < len(part.text):
        rest = _rest_of_piece(part, place.offset)
        start = {"type": "content_block_start", "index": used}
        out.append(_event({**start, "content_block": {**part.raw, "text": ""}}))
        delta = {"type": "text_delta", "text": rest}
        out.append(_event({"type": "content_block_delta", "index": used, "delta": delta}))
    out += [_moved(recording, number, used - base) for number in range(at, len(frames))]
    return b"".join(out)


def _moved(recording: Recording, number: int, shift: int) -> bytes:
    frame = recording.reply.frames[number]
    if isinstance(frame.json, dict) and "index" in frame.json:
        return _shifted(recording.name, number, shift, frame.data)
    return recording.data[frame.begin : frame.end].rstrip() + b"\n\n"


def _resume_at(parts: Sequence[Part], frames: list[Frame], place: _Place) -> tuple[int, int]:
    """The first frame that is played as it is, and the wire index that becomes 0 there."""
    if place.number < len(parts):
        part = parts[place.number]
        if part.kind == "text" and 0 < place.offset < len(part.text):
            return _piece_at(part, place.offset)[0] + 1, part.wire_index
        if not place.offset:
            return part.begin, part.wire_index
        return _resume_at(parts, frames, _Place(place.number + 1, 0))
    last = parts[-1]
    return (last.last if last.close is None else last.close) + 1, 0


def _piece_at(part: Part, offset: int) -> tuple[int, int]:
    """The frame that holds the character at this offset, and the offset within its piece."""
    for number, text in part.pieces:
        if offset < len(text):
            return number, offset
        offset -= len(text)
    raise AssertionError("the offset is beyond the part")


def _rest_of_piece(part: Part, offset: int) -> str:
    number, within = _piece_at(part, offset)
    return "".join(text for at, text in part.pieces if at == number)[within:]


def _chat_rest(recording: Recording, place: _Place, *, rethinks: bool) -> bytes:
    reply, frames = recording.reply, recording.reply.frames
    head = {k: v for k, v in frames[0].json.items() if k not in ("choices", "usage", "x_groq")}
    role = {"role": "assistant", "content": ""}
    out = [_chunk({**head, "choices": [{"index": 0, "delta": role, "finish_reason": None}]})]
    begin = reply.parts[0]
    if rethinks and begin.kind == "thinking":
        out += [_raw(recording, n) for n in range(begin.begin, begin.last + 1)]
    part = reply.parts[place.number]
    at = place
    if place.offset >= len(part.text):
        at = _Place(place.number + 1, 0)
    if at.offset or (at.number < len(reply.parts) and reply.parts[at.number].kind == "text"):
        part = reply.parts[at.number]
        number, _ = _piece_at(part, at.offset)
        out.append(_chunk(_sliced(frames[number].json, _rest_of_piece(part, at.offset))))
        return b"".join([*out, *(_raw(recording, n) for n in range(number + 1, len(frames)))])
    if at.number < len(reply.parts):
        first = reply.parts[at.number].begin
        out.append(_chunk(_sliced(frames[first].json, "")))
        first += 1
    else:
        first = part.last + 1
        if reply.stop_frame == part.last:
            out.append(_chunk(_sliced(frames[part.last].json, "")))
    return b"".join([*out, *(_raw(recording, n) for n in range(first, len(frames)))])


def _chunk(data: Json) -> bytes:
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _raw(recording: Recording, number: int) -> bytes:
    frame = recording.reply.frames[number]
    return recording.data[frame.begin : frame.end].rstrip() + b"\n\n"


def _sliced(data: Json, text: str) -> Json:
    """The chunk with this text instead of its own, and without reasoning."""
    copy: Json = json.loads(json.dumps(data))
    for choice in copy["choices"]:
        if not choice.get("index"):
            delta = choice.get("delta") or {}
            kept = {key: value for key, value in delta.items() if "reasoning" not in key}
            choice["delta"] = {**kept, "content": text}
    return copy
