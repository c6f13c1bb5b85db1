"""The Anthropic Messages dialect: named server-sent events, one content block after another.

Rule: what upstream sent never raises; what is not known is passed on. The request side is in
``_anthropic_request``, the pieces of a block in ``_anthropic_blocks``. Imports no IO.

The grammar (dispatch is on ``data.type``; the ``event:`` line may be missing or wrong):

    data.type            carries                       becomes
    message_start        message{id, model, usage}     Opened, UsageReported (a second one: Opened
                                                       again, block numbers start anew)
    content_block_start  index, content_block          BlockStarted (+ BlockDelta for text in it)
    content_block_delta  index, delta                  BlockDelta, by the table of its block kind
    content_block_stop   index                         BlockClosed
    message_delta        delta{stop_reason}, usage     UsageReported, StopKnown (the stop fact)
    message_stop         –                             the end marker
    ping                 –                             Heartbeat
    error                error{type, message}          an error, whatever came before
    anything else        –                             Unknown, as it came

Where upstream breaks its own grammar: a repeated start of the block that is open, and a repeated
or foreign stop, mean nothing; text or thinking for a block that is not open starts one; input for
a tool call that never started is a broken frame, since a call without a name cannot be made whole.
A stop reason that nobody knows is an ``end``: the model did stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy, Stop
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    Event,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    UsageReported,
)

from ._anthropic_blocks import (
    IMPLIED,
    HotEvent,
    OpenBlock,
    begin_block,
    delta_text,
    token_usage,
)
from ._anthropic_request import AnthropicRequests
from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._json import REFUSED, decode_json, join_surrogates
from ._sse import Frame

__all__ = ["AnthropicDecoder", "AnthropicMessages", "dialect"]

Json = Mapping[str, Any]

_decode_hot: Final = msgspec.json.Decoder(HotEvent).decode
#: Stop reasons where the policy's ``[stream]`` says nothing about them.
STOPS: Final[dict[str, Stop]] = {
    "end_turn": Stop.end,
    "stop_sequence": Stop.end,
    "tool_use": Stop.tool_use,
    "max_tokens": Stop.length,
    "model_context_window_exceeded": Stop.context_full,
    "pause_turn": Stop.pause,
    "refusal": Stop.safety,
}
#: What ``message_delta`` may say beside the reason.
_STOP_DETAILS: Final = ("stop_sequence", "stop_details", "container")


class AnthropicDecoder:
    """Reads the frames of one attempt; see the grammar above."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._stops = STOPS | policy.stream.stops
        self._failures = policy.stream.failures
        self._open: dict[int, OpenBlock] = {}  # by the provider's index
        self._used: set[int] = set()  # our indexes
        self._last = 0
        self._halves = False  # some open block waits for half an emoji
        self._first_reason: str | None = None  # a stop reason that came in message_start
        self._stopped = False

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        try:
            hot = _decode_hot(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._general(frame, out)
        block = self._open.get(hot.index)
        delta = hot.delta
        if block is None or type(delta) is not block.hot or self._halves:
            return self._general(frame, out)
        value = delta.value
        if value:
            out.append(BlockDelta(self._attempt, block.index, value, block.hot_field))
        else:
            out.append(Heartbeat(self._attempt))
        return None

    def ended(self, out: list[Event]) -> None:
        """Close what the provider left open; a tool call's input is for the machine to judge."""
        for index in [i for i, block in self._open.items() if block.hot_field != "input"]:
            self._close(index, out)

    def whole(self, message: Json, out: list[Event]) -> None:
        """Events of a whole message that came in one piece, with its stop fact."""
        self._begin(message, out)
        self._first_stop(out)

    def _general(self, frame: Frame, out: list[Event]) -> Signal:
        data = frame.data or b""
        try:
            body = decode_json(data)
        except ValueError:
            if frame.event == "error":
                return ErrorSeen(ErrorFacts(message=data.decode("utf-8", "replace")))
            if data == b"[DONE]":  # some relays add it
                out.append(Unknown(self._attempt, "[DONE]", frame.raw))
                return None
            return Malformed(f"an event of {len(data)} bytes that is not JSON")
        if not isinstance(body, Mapping):
            out.append(Unknown(self._attempt, frame.event or "", frame.raw))
            return None
        named = body.get("type")
        kind = named if isinstance(named, str) else frame.event or ""
        if (handler := _HANDLERS.get(kind)) is not None:
            return handler(self, body, out)
        if "error" in (kind, frame.event) or body.get("error"):
            return ErrorSeen(error_facts(body, 400) or ErrorFacts())
        out.append(Unknown(self._attempt, kind, frame.raw))
        return None

    # --- one handler per row of the grammar ------------------------------------------------------

    def _message_start(self, body: Json, out: list[Event]) -> Signal:
        message = body.get("message")
        self._begin(message if isinstance(message, Mapping) else {}, out)
        return None

    def _block_start(self, body: Json, out: list[Event]) -> Signal:
        start = body.get("content_block")
        index = self._index(body, self._last + 1 if self._used else 0)
        self._start(index, start if isinstance(start, Mapping) else {}, out)
        return None

    def _block_delta(self, body: Json, out: list[Event]) -> Signal:
        delta = body.get("delta")
        if not isinstance(delta, Mapping):
            out.append(Heartbeat(self._attempt))
            return None
        index = self._index(body, self._last)
        block = self._open.get(index)
        if block is None:
            kind = delta.get("type")
            if kind == "input_json_delta":
                return Malformed("input of a tool call that never started")
            implied = IMPLIED.get(kind) if isinstance(kind, str) else None
            if implied is None:
                out.append(Heartbeat(self._attempt))
                return None
            block = self._start(index, {"type": implied}, out)
        self._add(block, delta, out)
        return None

    def _block_stop(self, body: Json, out: list[Event]) -> Signal:
        index = self._index(body, self._last)
        if index in self._open:
            self._close(index, out)
        else:
            out.append(Heartbeat(self._attempt))
        return None

    def _message_delta(self, body: Json, out: list[Event]) -> Signal:
        self._usage(body.get("usage"), out)
        delta = body.get("delta")
        if isinstance(delta, Mapping) and isinstance(reason := delta.get("stop_reason"), str):
            self._stop(reason, delta, out)
        return None

    def _message_stop(self, body: Json, out: list[Event]) -> Signal:
        self._first_stop(out)
        return Terminal()

    def _ping(self, body: Json, out: list[Event]) -> Signal:
        out.append(Heartbeat(self._attempt))
        return None

    # --- what the handlers share -----------------------------------------------------------------

    def _begin(self, message: Json, out: list[Event]) -> None:
        self._open.clear()
        self._used.clear()
        self._halves = False
        out.append(Opened(self._attempt, _text(message.get("id")), _text(message.get("model"))))
        self._usage(message.get("usage"), out)
        content = message.get("content")
        for index, start in enumerate(content if isinstance(content, list) else ()):
            if isinstance(start, Mapping):
                self._start(index, start, out)
                self._close(index, out)
        self._first_reason = _text(message.get("stop_reason"))

    def _index(self, body: Json, default: int) -> int:
        index = body.get("index")
        return index if isinstance(index, int) and not isinstance(index, bool) else default

    def _start(self, index: int, start: Json, out: list[Event]) -> OpenBlock:
        block = self._open.get(index)
        if block is not None:
            again: list[Event] = []
            same = begin_block(self._attempt, block.index, start, again)
            if (same.kind, same.id) == (block.kind, block.id):
                out.append(Heartbeat(self._attempt))
                return block
            if block.hot_field == "input":
                del self._open[index]  # never closed: half a tool call
            else:
                self._close(index, out)
        ours = index if index not in self._used else max(self._used) + 1
        self._used.add(ours)
        self._last = index
        block = self._open[index] = begin_block(self._attempt, ours, start, out)
        return block

    def _add(self, block: OpenBlock, delta: Json, out: list[Event]) -> None:
        text, field = delta_text(block.kind, delta)
        if field in ("text", "input"):
            text, block.half = join_surrogates(block.half, text)
            self._halves = any(one.half for one in self._open.values())
        if field == "input" and text:
            block.given_input = ""
        if text:
            out.append(BlockDelta(self._attempt, block.index, text, field))
        else:
            out.append(Heartbeat(self._attempt))

    def _close(self, index: int, out: list[Event]) -> None:
        block = self._open.pop(index)
        if block.half:
            out.append(BlockDelta(self._attempt, block.index, "\ufffd", block.hot_field))
            self._halves = any(one.half for one in self._open.values())
        if block.given_input:
            out.append(BlockDelta(self._attempt, block.index, block.given_input, "input"))
        out.append(BlockClosed(self._attempt, block.index))

    def _usage(self, counters: Any, out: list[Event]) -> None:
        if (usage := token_usage(counters)) is not None:
            out.append(UsageReported(self._attempt, usage))

    def _first_stop(self, out: list[Event]) -> None:
        if not self._stopped and self._first_reason:
            self._stop(self._first_reason, {}, out)

    def _stop(self, reason: str, delta: Json, out: list[Event]) -> None:
        self._stopped = True
        stop = Stop.error if reason in self._failures else self._stops.get(reason, Stop.end)
        details = {key: delta[key] for key in _STOP_DETAILS if delta.get(key)}
        out.append(StopKnown(self._attempt, stop, reason, details or None))


_HANDLERS: Final[dict[str, Callable[[AnthropicDecoder, Json, list[Event]], Signal]]] = {
    "message_start": AnthropicDecoder._message_start,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "ping": AnthropicDecoder._ping,
}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


class AnthropicMessages(AnthropicRequests, Dialect):
    """Both sides of the dialect."""

    name = "anthropic_messages"
    content_types = ("text/event-stream",)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> AnthropicDecoder:
        """A new decoder for one attempt."""
        return AnthropicDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole message that came as one JSON body, or ``None`` if it is none."""
        if not isinstance(body, Mapping) or body.get("type") != "message":
            return None
        out: list[Event] = []
        self.decoder(policy, attempt).whole(body, out)
        return out


dialect: Final = AnthropicMessages()
