"""Ollama's own chat API: one JSON object a line, each with a piece of the message.

Rule: what upstream sent never raises; what is not known is passed on. Requests are in
``_ollama_request``. Imports no IO.

The grammar (the first line also means Opened; a line may say several of these):

    in a line                     becomes
    message.thinking              thinking block; it ends when something else comes
    message.content               text block; it ends when something else comes
    message.tool_calls[]          a tool call, whole: started, its input, closed
    message.images[]              a media block, whole
    "done": true                  UsageReported, StopKnown by done_reason, and the end marker
    error                         an error, the status is still 200
    nothing of these              Heartbeat; an object without message and done: Unknown

``done_reason`` ``stop`` after tool calls is ``tool_use``; a missing one is an end. ``unload`` says
that the model was taken away: a failure where the policy's ``[stream] failures`` says so. Arguments
of a call are an object on this wire, never text in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    Event,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    Usage,
    UsageReported,
)

from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._json import REFUSED, decode_json, encode_json
from ._ndjson import NDJSONFramer
from ._ollama_request import OllamaRequests
from ._open_blocks import OpenBlock, OpenBlocks
from ._sse import Frame, Framer

__all__ = ["Ollama", "OllamaDecoder", "dialect"]

#: Stop reasons where the policy's ``[stream]`` says nothing about them.
STOPS: Final[dict[str, Stop]] = {
    "stop": Stop.end,
    "length": Stop.length,
    "load": Stop.end,  # an empty request, that only loaded the model
    "unload": Stop.end,
}


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Any] | None = None
    images: list[Any] | None = None


class _Line(msgspec.Struct, gc=False):
    message: _Message | None = None
    done: bool | None = False
    done_reason: str | None = None
    model: str | None = None
    error: Any = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode


class OllamaDecoder:
    """Reads the lines of one attempt; see the grammar above."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._stops = STOPS | policy.stream.stops
        self._failures = policy.stream.failures
        self._blocks = OpenBlocks(attempt)
        self._opened = False
        self._prose: OpenBlock | None = None  # the open text or thinking block

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the line's events to ``out``; the frame has data."""
        try:
            line = _decode_line(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._odd(frame, out)
        message, prose = line.message, self._prose
        if prose is not None and message is not None and not line.done and line.error is None:
            other = message.thinking if prose.kind == "text" else message.content
            text = message.content if prose.kind == "text" else message.thinking
            if text and not (other or message.tool_calls or message.images or prose.half):
                out.append(BlockDelta(self._attempt, prose.index, text))
                return None
        return self._tell(line, frame, out)

    def ended(self, out: list[Event]) -> None:
        """Nothing is left open: the last line closes."""

    def _odd(self, frame: Frame, out: list[Event]) -> Signal:
        """JSON that the fast decoder refused, values of other types, no JSON at all."""
        data = frame.data or b""
        try:
            body = decode_json(data)
        except ValueError:
            return Malformed(f"a line of {len(data)} bytes that is not JSON")
        try:
            line = msgspec.convert(body, _Line)
        except msgspec.ValidationError:
            if isinstance(body, Mapping) and (facts := error_facts(body)) is not None:
                return ErrorSeen(facts)
            out.append(Unknown(self._attempt, "", frame.raw))
            return None
        return self._tell(line, frame, out)

    def _tell(self, line: _Line, frame: Frame, out: list[Event]) -> Signal:
        if line.error:
            return ErrorSeen(error_facts(decode_json(frame.data or b"null")) or ErrorFacts())
        if line.message is None and not line.done:
            out.append(Unknown(self._attempt, "", frame.raw))
            return None
        before = len(out)
        if not self._opened:
            self._opened = True
            out.append(Opened(self._attempt, None, line.model))
        if line.message is not None:
            self._message(line.message, out)
        if line.done:
            self._stop(line, out)
            return Terminal()
        if len(out) == before:
            out.append(Heartbeat(self._attempt))
        return None

    def _message(self, message: _Message, out: list[Event]) -> None:
        if message.thinking:
            self._say("thinking", message.thinking, out)
        if message.content:
            self._say("text", message.content, out)
        for call in message.tool_calls or ():
            self._call(call, out)
        if message.images:
            self._end_prose(out)
            self._blocks.start("media", "media", out, data={"images": message.images})
            self._blocks.close("media", out)

    def _say(self, kind: Any, text: str, out: list[Event]) -> None:
        if self._prose is None or self._prose.kind != kind:
            self._end_prose(out)
            self._prose = self._blocks.start("prose", kind, out)
        self._blocks.add(self._prose, text, out)

    def _call(self, call: Any, out: list[Event]) -> None:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            return
        self._end_prose(out)
        arguments = function.get("arguments")
        # Some relays send OpenAI's form, where they are text.
        given = arguments if isinstance(arguments, str) else encode_json(arguments or {})
        id, name = call.get("id"), function.get("name")
        block = self._blocks.start(
            "call",
            "tool_use",
            out,
            id=id if isinstance(id, str) and id else None,
            name=name if isinstance(name, str) else None,
        )
        self._blocks.add(block, given, out, "input")
        self._blocks.close("call", out)

    def _end_prose(self, out: list[Event]) -> None:
        if self._prose is not None:
            self._blocks.close("prose", out)
            self._prose = None

    def _stop(self, line: _Line, out: list[Event]) -> None:
        self._end_prose(out)
        usage = Usage(input=_count(line.prompt_eval_count), output=_count(line.eval_count))
        if usage != Usage():
            out.append(UsageReported(self._attempt, usage))
        reason = line.done_reason or ""
        stop = Stop.error if reason in self._failures else self._stops.get(reason, Stop.end)
        if stop is Stop.end and self._blocks.calls:
            stop = Stop.tool_use
        out.append(StopKnown(self._attempt, stop, reason or "done"))


def _count(value: int | None) -> int | None:
    return value if value is not None and value >= 0 else None


class Ollama(OllamaRequests, Dialect):
    """Both sides of the dialect."""

    name = "ollama"
    content_types = ("application/x-ndjson", "application/ndjson", "application/jsonl")

    def framer(self, content_type: str, policy: Policy) -> Framer:
        """Lines."""
        return NDJSONFramer(policy.limits.event_bytes)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> OllamaDecoder:
        """A new decoder for one attempt."""
        return OllamaDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole reply that came as one JSON body: the same object as a last line."""
        if not isinstance(body, Mapping) or not isinstance(body.get("message"), Mapping):
            return None
        out: list[Event] = []
        decoder = self.decoder(policy, attempt)
        data = encode_json(body).encode("utf-8", "surrogatepass")
        if not isinstance(decoder.decode(Frame(data, data=data), out), Terminal):
            return None
        decoder.ended(out)
        return out


dialect: Final = Ollama()
