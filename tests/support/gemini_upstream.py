"""A Gemini server that plays a recorded reply and, asked to go on, plays the rest of it.

It reads a continuation as a model does: how much of the reply does the history carry, and where
does the rest begin? Asked with a continuation token it plays on from that checkpoint. Imports
nothing of the project.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sse_frames import Frame, split_frames, tail_is_whole

__all__ = ["Garbled", "GeminiReply", "GeminiUpstream", "Item", "with_tokens"]

Json = dict[str, Any]
STOPPED = ("finishReason", "blockReason")


class Garbled(AssertionError):
    """The history of a continuation is not what the provider said."""


@dataclass
class Item:
    """A part of the reply; the pieces of a call's arguments are one."""

    frame: int
    place: int
    """Which part of its frame."""
    raw: Json

    @property
    def text(self) -> str:
        """Visible text, else empty."""
        return "" if self.raw.get("thought") else str(self.raw.get("text", ""))

    @property
    def is_text(self) -> bool:
        """Text, with a signature or not."""
        return "text" in self.raw and not self.raw.get("thought") and bool(self.raw["text"])


class GeminiReply:
    """A recorded body, read in the plainest way."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.frames: list[Frame] = split_frames(data)
        self.items: list[Item] = []
        self.stop_frame = len(self.frames)
        for number, frame in enumerate(self.frames):
            for place, part in enumerate(parts_of(frame.json)):
                if part.get("functionCall", {"name": 1}).get("name"):
                    self.items.append(Item(number, place, part))
            if self.stop_frame == len(self.frames) and stop_of(frame.json):
                self.stop_frame = number

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(item.text for item in self.items)

    @property
    def stop(self) -> str:
        """The last finish reason, or the reason of a block."""
        return next(filter(None, (stop_of(frame.json) for frame in reversed(self.frames))))

    @property
    def calls(self) -> list[str]:
        """Names of the function calls."""
        return [i.raw["functionCall"]["name"] for i in self.items if "functionCall" in i.raw]

    @property
    def first_calls(self) -> list[Json]:
        """Parts of the first call of each turn: here, of the one."""
        return [i.raw for i in self.items if "functionCall" in i.raw][:1]

    def arrived(self, at: int) -> tuple[int, int]:
        """How many frames a cut at this byte leaves: surely, and with a tail that is whole."""
        sure = sum(frame.end <= at for frame in self.frames)
        most = sure < len(self.frames) and tail_is_whole(self.frames[sure], at)
        return sure, sure + most

    def text_before(self, frame: int) -> str:
        """Visible text of the frames before this one."""
        return "".join(item.text for item in self.items if item.frame < frame)


def parts_of(response: Json) -> list[Json]:
    """The parts of the first candidate."""
    for candidate in response.get("candidates", ()):
        if not candidate.get("index"):
            return list(candidate.get("content", {}).get("parts", ()))
    return []


def stop_of(response: Json) -> str | None:
    """The finish reason of the first candidate, or why the prompt was blocked."""
    blocked: str | None = response.get("promptFeedback", {}).get("blockReason")
    for candidate in response.get("candidates", ()):
        if not candidate.get("index") and candidate.get("finishReason"):
            return str(candidate["finishReason"])
    return blocked


def event(response: Json) -> bytes:
    """A response as an event."""
    return f"data: {json.dumps(response, ensure_ascii=False)}\r\n\r\n".encode()


def with_tokens(data: bytes, every: int = 2) -> bytes:
    """The same stream with a checkpoint in every so many responses before the last."""
    frames = split_frames(data)
    out = []
    for number, frame in enumerate(frames):
        response = copy.deepcopy(frame.json)
        if number % every == every - 1 and number < len(frames) - 1 and response.get("candidates"):
            response["candidates"][0]["continuationToken"] = f"token-{number}"
        out.append(event(response))
    return b"".join(out)


@dataclass
class Played:
    """What was made of one request: which way, and the text that was there before."""

    kind: str
    carried: str = ""
    stream: bytes = b""


@dataclass
class GeminiUpstream:
    """Plays one reply; ``asked`` is how many turns the caller's own request has."""

    reply: GeminiReply
    asked: int = 1
    otherwise: str = ""
    """Said instead of the rest after a checkpoint, in other words."""
    played: list[Played] = field(default_factory=list)

    def play(self, body: Mapping[str, Any]) -> bytes:
        """The whole answer to this request body; raises ``Garbled`` for a wrong history."""
        contents = body["contents"]
        if token := body.get("continuationToken"):
            played = self._resumed(int(token.removeprefix("token-")))
        elif len(contents) == self.asked:
            played = Played("original", stream=self.reply.data)
        else:
            kind = "prefill" if contents[-1]["role"] == "model" else "instruct"
            number, offset, carried = self._find(contents[self.asked]["parts"])
            played = Played(kind, carried, self._rest(number, offset))
        self.played.append(played)
        return played.stream

    def _resumed(self, number: int) -> Played:
        frames = self.reply.frames
        rest = self.reply.data[frames[number].end :]
        if self.otherwise:
            stop = copy.deepcopy(frames[-1].json)
            stop["candidates"][0]["content"] = {"parts": [{"text": self.otherwise}]}
            rest = event(stop)
        return Played("resume", self.reply.text_before(number + 1), rest)

    def _find(self, parts: Sequence[Json]) -> tuple[int, int, str]:
        """Number of the item and offset in it where the rest begins, and the text before."""
        number, offset, carried = 0, 0, ""
        items = self.reply.items
        for part in parts:
            if "text" in part and part["text"] and not part.get("thought"):
                number, offset = self._text(number, offset, part["text"])
                carried += part["text"]
                continue
            while number < len(items) and items[number].raw != part:
                self._may_be_missing(items[number], offset)
                number, offset = number + 1, 0
            if number == len(items):
                raise Garbled(f"a part in the history was never said: {str(part)[:80]}")
            number += 1
        return number, offset, carried

    def _text(self, number: int, offset: int, text: str) -> tuple[int, int]:
        items = self.reply.items
        while text:
            if number == len(items):
                raise Garbled(f"the history says {text[-40:]!r}, which was not said")
            item = items[number]
            rest = item.text[offset:] if item.is_text else ""
            if rest.startswith(text):
                return number, offset + len(text)
            if rest and not text.startswith(rest):
                raise Garbled(f"the history says {text[:40]!r}, said was {rest[:40]!r}")
            if not item.is_text:
                self._may_be_missing(item, 0)
            text = text[len(rest) :]
            number, offset = number + 1, 0
        return number, offset

    def _may_be_missing(self, item: Item, offset: int) -> None:
        alone = item.raw.get("thought") or (not item.raw.get("text") and "text" in item.raw)
        if not alone and item.text[offset:].strip():
            raise Garbled(f"a part is missing in the history: {str(item.raw)[:80]}")

    def _rest(self, number: int, offset: int) -> bytes:
        items, frames = self.reply.items, self.reply.frames
        if number < len(items) and items[number].is_text and offset >= len(items[number].text):
            number, offset = number + 1, 0
        if number == len(items):
            last = copy.deepcopy(frames[-1].json)
            if parts_of(last):
                last["candidates"][0].pop("content")
            return event(last)
        item = items[number]
        response = copy.deepcopy(frames[item.frame].json)
        kept = parts_of(response)[item.place :]
        if offset:
            kept[0] = {"text": kept[0]["text"][offset:]}
        response["candidates"][0]["content"]["parts"] = kept
        return event(response) + self.reply.data[frames[item.frame].end :]
