"""The blocks of one choice: when they open, which may be open together, and when they close.

    block                    opens                    closes
    text, thinking, refusal  first content of it      another of the three, or a call, begins; stop
    tool_use                 first sight of a call    a later block begins and its input is one JSON
                                                      object; a stop that does not cut; a stop that
                                                      cuts, if its input is whole
    media (audio)            first piece              stop
    media (image), other,    whole in one frame       at once
    redacted_thinking

An empty input does not close at a later block: servers that announce all calls before they fill
them exist, and a closed call is one that may be run. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from midthought.policies import Policy
from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event

from ._json import encode_json
from ._openai_chat_frames import Delta
from ._openai_chat_text import Cumulative, Pairs, Tags, Unreadable
from ._openai_chat_tools import Calls

__all__ = ["CHOICE_STRIDE", "ChoiceBlocks"]

Kind = Literal["text", "thinking", "redacted_thinking", "refusal", "media", "other"]

#: Blocks of choice ``c`` are numbered from ``c * CHOICE_STRIDE``.
CHOICE_STRIDE: Final = 1 << 16

_MEDIA_PARTS: Final = frozenset(
    {"image_url", "image", "input_audio", "audio", "file", "document_url"}
)


class ChoiceBlocks:
    """Turns the deltas of one choice into block events."""

    __slots__ = (
        "_attempt", "_audio", "_choice", "_cumulative", "_next", "_pairs", "_tags",
        "_whole_json", "calls", "prose", "prose_kind", "reason",
    )  # fmt: skip

    def __init__(self, attempt: int, choice: int, policy: Policy) -> None:
        tags = policy.blocks.thinking.tags
        self._attempt = attempt
        self._choice = choice
        self._next = choice * CHOICE_STRIDE
        self._cumulative = Cumulative() if policy.stream.cumulative_text else None
        self._tags = Tags(tags[0], tags[1]) if len(tags) == 2 else None
        self._pairs = Pairs()
        self._whole_json = policy.blocks.tool_use.whole_json
        self._audio: int | None = None
        self.calls = Calls(attempt, choice, self._cumulative)
        self.prose: int | None = None
        """Index of the open text, thinking or refusal block."""
        self.prose_kind: Kind = "text"
        self.reason = ""
        """The finish reason, once there is one."""

    @property
    def takes_text(self) -> bool:
        """A text or thinking block is open, and more of it can go into it as it comes."""
        return (
            self.prose is not None
            and self.prose_kind != "refusal"
            and self._cumulative is None
            and self._tags is None
            and not self._pairs.waiting
        )

    def add(self, delta: Delta, out: list[Event]) -> None:
        """The events of one delta. Raises ``Unreadable``."""
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._reasoning(delta, out)
        if content := delta.content:
            self._content(content, out)
        if isinstance(delta.refusal, str) and delta.refusal:
            self._prose("refusal", delta.refusal, out)
        if delta.tool_calls:
            calls = delta.tool_calls
            for entry in calls if isinstance(calls, list) else [calls]:
                self._call(entry, False, out)
        if delta.function_call:
            self._call(delta.function_call, True, out)
        if delta.audio or delta.images or delta.annotations:
            self._extras(delta, out)

    def stop(self, *, cut: bool, out: list[Event]) -> bool:
        """The choice has stopped: close its blocks. ``cut``: in the middle of what it wrote.

        After a cutting stop a call whose input is not whole stays open: it is half. Says whether
        there was any tool call.
        """
        self._flush_tags(out)
        self._close_prose(out)
        for call in self.calls.all:
            if call.block is None and not cut:
                self.calls.start(call, self._take(), out)
        if not cut or self._whole_json:
            self.calls.close(out, only_whole=cut)
        if self._audio is not None:
            out.append(BlockClosed(self._attempt, self._audio))
            self._audio = None
        return bool(self.calls.all)

    def _take(self) -> int:
        index = self._next
        self._next += 1
        return index

    def _begin(self, out: list[Event]) -> int:
        """A later block begins: calls that are whole are closed by that."""
        if self.calls.all:
            self.calls.close(out, only_whole=True)
        return self._take()

    def _start(
        self, kind: Kind, out: list[Event], *, id: str | None = None, data: Any = None
    ) -> int:
        index = self._begin(out)
        if self._choice:
            data = {**(data or {}), "choice": self._choice}
        out.append(BlockStarted(self._attempt, index, kind, id, None, data))
        return index

    def _prose(self, kind: Kind, text: str, out: list[Event]) -> None:
        if self._cumulative is not None:
            text = self._cumulative.new(kind, text)
        self._write(kind, text, out)

    def _write(self, kind: Kind, text: str, out: list[Event]) -> None:
        if self.prose is not None and self.prose_kind != kind and text:
            self._close_prose(out)
        text = self._pairs.add(text) if text else ""
        if not text:
            return
        if self.prose is None:
            self.prose, self.prose_kind = self._start(kind, out), kind
        out.append(BlockDelta(self._attempt, self.prose, text))

    def _close_prose(self, out: list[Event]) -> None:
        if self.prose is None:
            return
        if rest := self._pairs.rest():
            out.append(BlockDelta(self._attempt, self.prose, rest))
        out.append(BlockClosed(self._attempt, self.prose))
        self.prose = None

    def _text(self, text: str, out: list[Event]) -> None:
        if self._tags is None:
            self._prose("text", text, out)
            return
        if self._cumulative is not None:
            text = self._cumulative.new("text", text)
        for thinking, piece in self._tags.add(text):
            if piece:
                self._write("thinking" if thinking else "text", piece, out)
            elif self.prose_kind == "thinking":
                self._close_prose(out)

    def _flush_tags(self, out: list[Event]) -> None:
        if self._tags is not None:
            thinking, rest = self._tags.rest()
            if rest:
                self._write("thinking" if thinking else "text", rest, out)

    def _content(self, content: Any, out: list[Event]) -> None:
        """A string, or a list of parts (Mistral)."""
        if isinstance(content, str):
            self._text(content, out)
            return
        if not isinstance(content, list):
            raise Unreadable(f"content is a {type(content).__name__}, expected text or parts")
        for part in content:
            if isinstance(part, str):
                self._text(part, out)
            elif isinstance(part, dict):
                self._part(part, out)

    def _part(self, part: dict[str, Any], out: list[Event]) -> None:
        kind = part.get("type")
        if kind == "text":
            if isinstance(text := part.get("text"), str) and text:
                self._text(text, out)
        elif kind == "thinking":
            if text := _joined(part.get("thinking")):
                self._prose("thinking", text, out)
            signature = part.get("signature")
            if isinstance(signature, str) and signature and self._thinking_open:
                assert self.prose is not None
                out.append(BlockDelta(self._attempt, self.prose, signature, "signature"))
        else:
            self._whole_block("media" if kind in _MEDIA_PARTS else "other", part, out)

    @property
    def _thinking_open(self) -> bool:
        return self.prose is not None and self.prose_kind == "thinking"

    def _whole_block(self, kind: Kind, data: dict[str, Any], out: list[Event]) -> None:
        out.append(BlockClosed(self._attempt, self._start(kind, out, data=data)))

    def _reasoning(self, delta: Delta, out: list[Event]) -> None:
        """Reasoning text once, though servers send it in several fields; details verbatim."""
        details = delta.reasoning_details
        details = [d for d in details if isinstance(d, dict)] if isinstance(details, list) else []
        text = next(
            (t for t in (delta.reasoning_content, delta.reasoning) if t and isinstance(t, str)), ""
        )
        if text := text or _joined(details):
            self._prose("thinking", text, out)
        for detail in details:
            self._detail(detail, out)

    def _detail(self, detail: dict[str, Any], out: list[Event]) -> None:
        """An item of ``reasoning_details`` goes back as it came (OpenRouter).

        With the thinking that is open; an encrypted one that comes by itself, often after the text,
        is a block of its own, so that the text around it stays one block.
        """
        if not any(detail.get(key) for key in ("text", "summary", "data", "signature")):
            return
        if not self._thinking_open:
            self._whole_block("redacted_thinking", {"reasoning_details": [detail]}, out)
            return
        assert self.prose is not None
        out.append(BlockDelta(self._attempt, self.prose, encode_json(detail), "other"))
        signature = detail.get("signature")
        if isinstance(signature, str) and signature:
            out.append(BlockDelta(self._attempt, self.prose, signature, "signature"))

    def _call(self, entry: Any, legacy: bool, out: list[Event]) -> None:
        if not isinstance(entry, dict):
            raise Unreadable(f"a tool call is a {type(entry).__name__}, expected an object")
        if (event := self.calls.more(entry)) is not None:
            out.append(event)
            return
        piece, call = self.calls.find(entry, legacy)
        if call is None:
            self._flush_tags(out)
            self._close_prose(out)
            self.calls.close(out, only_whole=True)
            call = self.calls.begin(piece)
        if self.calls.add(call, piece, self._next, out):
            self._next += 1

    def _extras(self, delta: Delta, out: list[Event]) -> None:
        if isinstance(delta.audio, dict) and delta.audio:
            if self._audio is None:
                audio_id = delta.audio.get("id")
                audio_id = audio_id if isinstance(audio_id, str) else None
                self._audio = self._start("media", out, id=audio_id, data={"type": "audio"})
            out.append(BlockDelta(self._attempt, self._audio, encode_json(delta.audio), "other"))
        for image in _objects(delta.images):
            self._whole_block("media", image, out)
        if self.prose is not None and self.prose_kind == "text":
            for note in _objects(delta.annotations):
                out.append(BlockDelta(self._attempt, self.prose, encode_json(note), "citation"))


def _objects(value: Any) -> Iterable[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _joined(parts: Any) -> str:
    """The text of a thinking part or of reasoning details: a string, or a list of objects."""
    if isinstance(parts, str):
        return parts
    texts = (part.get("text") or part.get("summary") for part in _objects(parts))
    return "".join(text for text in texts if isinstance(text, str))
