"""Parts of one candidate as blocks: when they open, which may be open together, when they close.

    part                              block                     closes
    text                              text, goes on             another part that is none; the end
    text, thought                     thinking, goes on         the same
    text with a thoughtSignature      text or thinking, alone   at once, its data is the part
    no text, a thoughtSignature       other                     at once
    functionCall with args            tool_use                  at a finish reason
    functionCall, willContinue        tool_use                  at a finish reason, once its
                                                                arguments have ended
    executableCode, toolCall          server_tool (use)         at once
    codeExecutionResult, toolResponse server_tool (result)      at once
    inlineData, fileData              media                     at once
    anything else                     other                     at once

A signature belongs to its own part: parts are never merged over one, and what has one goes back as
it came. That is why a call closes no sooner: until a finish reason its signature may still come.
Text is counted together over parts without one, for the caller and for the seam. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event

from ._gemini_args import PartialArgs, UnreadableArgs
from ._json import encode_json, join_surrogates

__all__ = ["CANDIDATE_STRIDE", "CandidateBlocks"]

Json = dict[str, Any]
Prose = Literal["text", "thinking"]

#: Blocks of candidate ``c`` are numbered from ``c * CANDIDATE_STRIDE``.
CANDIDATE_STRIDE: Final = 1 << 16

_USES: Final = ("executableCode", "toolCall")
_RESULTS: Final = ("codeExecutionResult", "toolResponse")
_MEDIA: Final = ("inlineData", "fileData")
#: With one of these, text in the same part is not what the part is about.
_CONTENT: Final = frozenset((*_USES, *_RESULTS, *_MEDIA, "functionResponse"))
#: What a part may hold that is no content.
_BESIDE: Final = frozenset({"text", "thought", "thoughtSignature", "functionCall"})


class _Call:
    """A function call being received."""

    __slots__ = ("args", "closed", "index", "part", "whole")

    def __init__(self, index: int, part: Json, function: Mapping[str, Any]) -> None:
        given = function.get("args")
        self.index = index
        self.part = part
        self.args = PartialArgs(given if isinstance(given, Mapping) else None)
        self.whole = False
        self.closed = False

    def signed(self, part: Mapping[str, Any]) -> None:
        """A later piece brought the signature."""
        signature = part.get("thoughtSignature")
        if signature and not self.part.get("thoughtSignature"):
            self.part = {**self.part, "thoughtSignature": signature}

    def verbatim(self) -> Json:
        """The part as if it had come in one piece."""
        function = self.part["functionCall"]
        kept = {k: v for k, v in function.items() if k not in ("partialArgs", "willContinue")}
        if self.args.value or "args" in kept:
            kept["args"] = self.args.value
        return {**self.part, "functionCall": kept}


class CandidateBlocks:
    """Turns the parts of one candidate into block events."""

    __slots__ = (
        "_attempt", "_calls", "_cited", "_data", "_half", "_next", "_streamed", "_using", "details",
        "prose", "prose_kind", "reason",
    )  # fmt: skip

    def __init__(self, attempt: int, candidate: int) -> None:
        self._attempt = attempt
        self._next = candidate * CANDIDATE_STRIDE
        self._data: Json = {"choice": candidate} if candidate else {}
        self._calls: list[_Call] = []
        self._streamed: _Call | None = None
        self._using: list[str] = []  # ids of the provider's own tools that have no result yet
        self._cited: set[str] = set()
        self._half = ""
        self.details: Json = {}
        """What was said about the candidate besides its parts."""
        self.prose: int | None = None
        """The open text or thinking block."""
        self.prose_kind: Prose = "text"
        self.reason = ""

    @property
    def takes_text(self) -> bool:
        """Text can go straight into the open block: no half of an emoji waits."""
        return not self._half

    @property
    def calls(self) -> int:
        """How many function calls there are."""
        return len(self._calls)

    def add(self, part: Json, out: list[Event]) -> None:
        """One part; ``UnreadableArgs`` for arguments that belong nowhere."""
        function = part.get("functionCall")
        if isinstance(function, Mapping):
            self._function(part, function, out)
            return
        text, signature = part.get("text"), part.get("thoughtSignature")
        if isinstance(text, str) and _CONTENT.isdisjoint(part):
            kind: Prose = "thinking" if part.get("thought") is True else "text"
            if signature and text:
                self._signed(kind, text, part, out)
            elif text:
                self._say(kind, text, out)
            elif signature:
                self._whole("other", part, out)
        elif signature or any(key not in _BESIDE for key in part):
            self._other(part, out)

    def cite(self, metadata: Any, out: list[Event]) -> None:
        """Citations of the text so far; each is told once, to the open text."""
        lists = [metadata.get(k) for k in ("citations", "citationSources")]
        for citation in (one for found in lists if isinstance(found, list) for one in found):
            told = encode_json(citation)
            if self.prose is not None and self.prose_kind == "text" and told not in self._cited:
                self._cited.add(told)
                out.append(BlockDelta(self._attempt, self.prose, told, "citation"))

    def stop(self, *, cut: bool, out: list[Event]) -> None:
        """A finish reason: calls are whole now. ``cut``: one may have been cut in two."""
        if self._streamed is not None and not cut:
            self._end_streamed(out)
        for call in self._calls:
            if call.whole and not call.closed:
                call.closed = True
                out.append(
                    BlockClosed(self._attempt, call.index, {**self._data, **call.verbatim()})
                )

    def end_prose(self, out: list[Event]) -> None:
        """Close the open text or thinking block."""
        if self.prose is None:
            return
        if self._half:
            self._half = ""
            out.append(BlockDelta(self._attempt, self.prose, "\ufffd"))
        out.append(BlockClosed(self._attempt, self.prose))
        self.prose = None

    # --- text -------------------------------------------------------------------------------------

    def _say(self, kind: Prose, text: str, out: list[Event]) -> None:
        if self.prose is None or self.prose_kind != kind:
            self.end_prose(out)
            self.prose_kind = kind
            self.prose = self._start(kind, out)
        text, self._half = join_surrogates(self._half, text)
        if text:
            out.append(BlockDelta(self._attempt, self.prose, text))

    def _signed(self, kind: Prose, text: str, part: Json, out: list[Event]) -> None:
        """A part of its own: what follows has another signature, or none."""
        self.end_prose(out)
        index = self._start(kind, out)
        out.append(BlockDelta(self._attempt, index, join_surrogates("", text)[0]))
        signature = part["thoughtSignature"]
        if isinstance(signature, str):
            out.append(BlockDelta(self._attempt, index, signature, "signature"))
        out.append(BlockClosed(self._attempt, index, {**self._data, **part}))

    # --- function calls ---------------------------------------------------------------------------

    def _function(self, part: Json, function: Mapping[str, Any], out: list[Event]) -> None:
        name = function.get("name")
        call = self._streamed
        if isinstance(name, str) and name:
            if call is not None:
                self._end_streamed(out)
            call = self._begin(name, part, function, out)
        elif call is None:
            if function.get("partialArgs"):
                raise UnreadableArgs("arguments of a function call that never began")
            return
        pieces = function.get("partialArgs")
        for piece in pieces if isinstance(pieces, list) else ():
            call.args.add(piece)
            # A piece is progress; the input itself can be told once it is whole.
            out.append(BlockDelta(self._attempt, call.index, encode_json(piece), "other"))
        call.signed(part)
        self._streamed = call
        if function.get("willContinue") is not True:
            self._end_streamed(out)

    def _begin(self, name: str, part: Json, function: Mapping[str, Any], out: list[Event]) -> _Call:
        self.end_prose(out)
        call_id = function.get("id")
        if not isinstance(call_id, str) or not call_id:
            call_id = f"call_{self._attempt}_{self._next}"  # made up, and never sent back
        call = _Call(self._start("tool_use", out, id=call_id, name=name), part, function)
        self._calls.append(call)
        return call

    def _end_streamed(self, out: list[Event]) -> None:
        """The arguments have ended, unless one of them is half a string."""
        call, self._streamed = self._streamed, None
        if call is not None and not call.args.inside:
            call.whole = True
            out.append(BlockDelta(self._attempt, call.index, encode_json(call.args.value), "input"))

    # --- everything else --------------------------------------------------------------------------

    def _other(self, part: Json, out: list[Event]) -> None:
        key = next((key for key in part if key in _CONTENT), "")
        if part.get("thought") is True:
            self._whole("other", part, out)  # a sketch made while thinking is no answer
        elif key in _USES:
            self._using.append(_id_of(part[key]) or f"tool_{self._attempt}_{self._next}")
            self._whole("server_tool", part, out, id=self._using[-1])
        elif key in _RESULTS:
            self._whole("server_tool", part, out, id=self._pair(_id_of(part[key])))
        else:
            self._whole("media" if key in _MEDIA else "other", part, out)

    def _pair(self, result_id: str | None) -> str:
        """The use that this result belongs to: by its id, else the first that waits."""
        if result_id in self._using:
            self._using.remove(result_id)
            return result_id
        if result_id is None and self._using:
            return self._using.pop(0)
        return result_id or f"result_{self._attempt}_{self._next}"

    def _whole(self, kind: Any, part: Json, out: list[Event], *, id: str | None = None) -> None:
        self.end_prose(out)
        index = self._start(kind, out, id=id, data=part)
        out.append(BlockClosed(self._attempt, index))

    def _start(
        self,
        kind: Any,
        out: list[Event],
        *,
        id: str | None = None,
        name: str | None = None,
        data: Json | None = None,
    ) -> int:
        index, self._next = self._next, self._next + 1
        told = {**self._data, **(data or {})}
        out.append(BlockStarted(self._attempt, index, kind, id, name, told or None))
        return index


def _id_of(tool: Any) -> str | None:
    found = tool.get("id") if isinstance(tool, Mapping) else None
    return found if isinstance(found, str) and found else None
