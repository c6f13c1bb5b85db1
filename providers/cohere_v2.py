"""The Cohere dialect, version 2 of its chat API: typed server-sent events.

Rule: what upstream sent never raises; what is not known is passed on. Requests are in
``_cohere_v2_request``. Imports no IO.

The grammar (dispatch is on ``data.type``; the ``event:`` line repeats it):

    data.type         carries                              becomes
    message-start     id                                   Opened (a second one: Opened again)
    content-start     index, delta.message.content         BlockStarted: text or thinking
    content-delta     index, .content{text | thinking}     BlockDelta
    content-end       index                                BlockClosed
    tool-plan-delta   delta.message.tool_plan              a thinking block, data {type: tool_plan}
    tool-call-start   index, .tool_calls{id, function}     BlockStarted: a tool call
    tool-call-delta   index, .tool_calls.function          BlockDelta of its input
    tool-call-end     index                                BlockClosed
    citation-start    .citations{start, end, sources}      BlockDelta: a citation of its block
    citation-end      index                                Heartbeat
    message-end       delta{finish_reason, usage, error}   UsageReported, StopKnown, the end marker;
                                                           with an error: an error
    [DONE]            –                                    the end marker, no stop fact
    debug, others     –                                    Unknown

Content and tool calls are counted apart on the wire; in our events a block's number is its place.
The tool plan has no end of its own: the next block ends it. A call without its start is a broken
frame, since a call without a name cannot be made whole. The recordings show citations before their
block ends; one that comes later is passed on as Unknown: a closed block takes nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    BlockKind,
    Event,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    UsageReported,
)

from ._cohere_v2_facts import STOPS, as_stream, token_usage
from ._cohere_v2_request import CohereRequests
from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._json import REFUSED, Json, decode_json, encode_json, step, text_of
from ._open_blocks import OpenBlocks
from ._sse import Frame

__all__ = ["CohereDecoder", "CohereV2", "dialect"]

#: Per type of a citation: the kind of block whose characters it counts.
_CITED: Final[dict[Any, BlockKind]] = {"THINKING_CONTENT": "thinking", "PLAN": "thinking"}
_PLAN: Final = "plan"


class _HotText(msgspec.Struct, gc=False):
    text: str = ""
    thinking: str = ""


class _HotContent(msgspec.Struct, gc=False):
    content: _HotText


class _HotMessage(msgspec.Struct, gc=False):
    message: _HotContent


class _HotEvent(msgspec.Struct, tag="content-delta", gc=False):
    """The one event that comes for every token, typed; all others take the general way."""

    index: int
    delta: _HotMessage


_decode_hot: Final = msgspec.json.Decoder(_HotEvent).decode


class CohereDecoder:
    """Reads the frames of one attempt; see the grammar above."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._stops = STOPS | policy.stream.stops
        self._failures = policy.stream.failures
        self._blocks = OpenBlocks(attempt)

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        try:
            hot = _decode_hot(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._general(frame, out)
        block = self._blocks.get(hot.index)
        content = hot.delta.message.content
        if block is None or self._blocks.halves:
            return self._general(frame, out)
        text = content.thinking if block.kind == "thinking" else content.text
        if not text:
            return self._general(frame, out)
        out.append(BlockDelta(self._attempt, block.index, text))
        return None

    def ended(self, out: list[Event]) -> None:
        """Close what the provider left open; a tool call's input is for the machine to judge."""
        self._blocks.close_all(out)

    def _general(self, frame: Frame, out: list[Event]) -> Signal:
        data = frame.data or b""
        if data.strip() == b"[DONE]":
            return Terminal()
        try:
            body = decode_json(data)
        except ValueError:
            if frame.event == "error":
                return ErrorSeen(ErrorFacts(message=data.decode("utf-8", "replace")))
            return Malformed(f"an event of {len(data)} bytes that is not JSON")
        if not isinstance(body, Mapping):
            out.append(Unknown(self._attempt, frame.event or "", frame.raw))
            return None
        named = body.get("type")
        kind = named if isinstance(named, str) else frame.event or ""
        if (handler := _HANDLERS.get(kind)) is not None:
            return handler(self, body, frame, out)
        # Outside a stream an error is a bare {"id", "message"}.
        if "error" in (kind, frame.event) or body.get("error") or (not kind and "message" in body):
            return ErrorSeen(error_facts(body, 400) or ErrorFacts())
        out.append(Unknown(self._attempt, kind, frame.raw))
        return None

    # --- one handler per row of the grammar ------------------------------------------------------

    def _message_start(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        self._blocks.restart()
        out.append(Opened(self._attempt, text_of(body.get("id"))))
        return None

    def _content_start(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        content = _below(body, "content")
        self._end_plan(out)
        kind = content.get("type")
        self._begin(body.get("index"), content, kind == "thinking" or "thinking" in content, out)
        return None

    def _content_delta(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        index, content = body.get("index"), _below(body, "content")
        thinking = bool(content.get("thinking"))
        block = self._blocks.get(index)
        if block is None and (thinking or content.get("text")):
            self._begin(index, content, thinking, out)
        elif block is not None:
            text = content.get("thinking" if block.kind == "thinking" else "text")
            self._blocks.add(block, text_of(text) or "", out)
        else:
            out.append(Heartbeat(self._attempt))
        return None

    def _content_end(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        return self._end(body.get("index"), out)

    def _tool_plan(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        block = self._blocks.get(_PLAN)
        if block is None:
            data = {"type": "tool_plan"}
            block = self._blocks.start(_PLAN, "thinking", out, data=data)
        plan = step(step(body, "delta"), "message").get("tool_plan")
        self._blocks.add(block, text_of(plan) or "", out)
        return None

    def _call_start(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        call = _below(body, "tool_calls")
        function = step(call, "function")
        self._end_plan(out)
        key = _call_key(body)
        name = text_of(function.get("name"))
        block = self._blocks.start(key, "tool_use", out, id=text_of(call.get("id")), name=name)
        if arguments := text_of(function.get("arguments")):
            self._blocks.add(block, arguments, out, "input")
        return None

    def _call_delta(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        block = self._blocks.get(_call_key(body))
        if block is None:
            return Malformed("input of a tool call that never started")
        arguments = step(_below(body, "tool_calls"), "function").get("arguments")
        self._blocks.add(block, text_of(arguments) or "", out, "input")
        return None

    def _call_end(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        return self._end(_call_key(body), out)

    def _citation(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        citation = _below(body, "citations")
        kind = _CITED.get(citation.get("type"), "text")
        block = self._blocks.last(kind)
        if block is None:
            out.append(Unknown(self._attempt, "citation-start", frame.raw))
        else:
            self._blocks.add(block, encode_json(citation), out, "citation")
        return None

    def _citation_end(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        out.append(Heartbeat(self._attempt))
        return None

    def _message_end(self, body: Json, frame: Frame, out: list[Event]) -> Signal:
        delta = step(body, "delta")
        reason = text_of(delta.get("finish_reason"))
        words = text_of(delta.get("error"))
        if (usage := token_usage(delta.get("usage"))) is not None:
            out.append(UsageReported(self._attempt, usage))
        if words:
            codes = (reason,) if reason else ()
            return ErrorSeen(ErrorFacts(message=words, codes=codes, body=body))
        if reason:
            self._end_plan(out)
            stop = Stop.error if reason in self._failures else self._stops.get(reason, Stop.end)
            if stop is Stop.end and self._blocks.calls:
                stop = Stop.tool_use
            out.append(StopKnown(self._attempt, stop, reason))
        return Terminal()

    # --- what the handlers share -----------------------------------------------------------------

    def _begin(self, index: Hashable, content: Json, thinking: bool, out: list[Event]) -> None:
        block = self._blocks.start(index, "thinking" if thinking else "text", out)
        if given := text_of(content.get("thinking" if thinking else "text")):
            self._blocks.add(block, given, out)

    def _end(self, key: Hashable, out: list[Event]) -> Signal:
        if self._blocks.get(key) is not None:
            self._blocks.close(key, out)
        else:
            out.append(Heartbeat(self._attempt))
        return None

    def _end_plan(self, out: list[Event]) -> None:
        if self._blocks.get(_PLAN) is not None:
            self._blocks.close(_PLAN, out)


_HANDLERS: Final[dict[str, Callable[[CohereDecoder, Json, Frame, list[Event]], Signal]]] = {
    "message-start": CohereDecoder._message_start,
    "content-start": CohereDecoder._content_start,
    "content-delta": CohereDecoder._content_delta,
    "content-end": CohereDecoder._content_end,
    "tool-plan-delta": CohereDecoder._tool_plan,
    "tool-call-start": CohereDecoder._call_start,
    "tool-call-delta": CohereDecoder._call_delta,
    "tool-call-end": CohereDecoder._call_end,
    "citation-start": CohereDecoder._citation,
    "citation-end": CohereDecoder._citation_end,
    "message-end": CohereDecoder._message_end,
}


def _below(body: Json, key: str) -> Json:
    """``delta.message.<key>``, where every event keeps what it brings."""
    return step(step(step(body, "delta"), "message"), key)


def _call_key(body: Json) -> Hashable:
    return ("call", body.get("index"))


class CohereV2(CohereRequests, Dialect):
    """Both sides of the dialect."""

    name = "cohere_v2"
    content_types = ("text/event-stream",)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> CohereDecoder:
        """A new decoder for one attempt."""
        return CohereDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole reply that came as one JSON body, or ``None`` if it is none."""
        if not isinstance(body, Mapping) or not isinstance(body.get("message"), Mapping):
            return None
        out: list[Event] = []
        decoder = self.decoder(policy, attempt)
        for event in as_stream(body):
            frame = Frame(b"", data=encode_json(event).encode("utf-8", "surrogatepass"))
            signal = decoder.decode(frame, out)
            if isinstance(signal, ErrorSeen):
                return None
        decoder.ended(out)
        return out


dialect: Final = CohereV2()
