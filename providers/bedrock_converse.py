"""Bedrock's ConverseStream: one shape of message for every maker's models, in AWS messages.

Rule: what upstream sent never raises; what is not known is passed on. Frames, exceptions and the
key are in ``_bedrock``, requests in ``_bedrock_converse_request``. Imports no IO.

The grammar (dispatch is on the message's event type):

    event                 carries                              becomes
    messageStart          role                                 Opened (a second one: Opened again)
    contentBlockStart     start.toolUse                        BlockStarted: tool call, server tool
                          start.toolResult, .image             server tool's result, media
    contentBlockDelta     delta.text                           BlockDelta of a text block
                          .reasoningContent.text, .signature   of a thinking block
                          .reasoningContent.redactedContent    redacted thinking
                          .toolUse.input                       tool input, JSON in pieces
                          .citation                            citation of the open text block
                          .toolResult, .image, others          an ``other`` delta, as JSON
    contentBlockStop      –                                    BlockClosed
    messageStop           stopReason                           StopKnown (the stop fact)
    metadata              usage                                UsageReported, the end marker
    chunk                 bytes                                events of Nova over InvokeModel…
    an exception, error   message                              an error; its name is the code
    anything else         –                                    Unknown

Only tool calls, results and images are announced: text and reasoning start with their first delta.
A citation without an open text block has a block of its own on the wire, of no text; it becomes an
``other`` block. Input of a call that never started is a broken frame.

``chunk``: InvokeModelWithResponseStream of Amazon's Nova sends the same events inside, by name. It
puts each piece of text into a block of its own; pieces that follow each other are one block here.
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

from . import _bedrock
from ._bedrock_converse_facts import STOPS, as_stream, token_usage
from ._bedrock_converse_request import ConverseRequests
from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._json import REFUSED, Json, decode_json, encode_json, step, text_of
from ._open_blocks import OpenBlock, OpenBlocks
from ._sse import Frame, Framer

__all__ = ["BedrockConverse", "ConverseDecoder", "dialect"]

#: Per kind of delta: the kind of block that it begins where none is open.
_BEGINS: Final[dict[str, BlockKind]] = {"text": "text", "citation": "other"}
_NOVA_TEXT: Final = "text"


class _HotDelta(msgspec.Struct, gc=False):
    text: str


class _HotEvent(msgspec.Struct, gc=False):
    """The delta that comes for every token, typed; all others take the general way."""

    contentBlockIndex: int
    delta: _HotDelta


_decode_hot: Final = msgspec.json.Decoder(_HotEvent).decode


class ConverseDecoder:
    """Reads the frames of one attempt; see the grammar above."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._stops = STOPS | policy.stream.stops
        self._failures = policy.stream.failures
        self._blocks = OpenBlocks(attempt)
        self._stopped = False
        self._in_chunks = False

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        if frame.event != "contentBlockDelta" or frame.fields is not None:
            return self._general(frame, out)
        try:
            hot = _decode_hot(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._general(frame, out)
        block = self._blocks.get(hot.contentBlockIndex)
        text = hot.delta.text
        if block is None or block.kind != "text" or not text or block.half:
            return self._general(frame, out)
        out.append(BlockDelta(self._attempt, block.index, text))
        return None

    def ended(self, out: list[Event]) -> None:
        """Close what the provider left open; a tool call's input is for the machine to judge."""
        self._blocks.close_all(out)

    def _general(self, frame: Frame, out: list[Event]) -> Signal:
        if frame.fields is not None:
            return ErrorSeen(_bedrock.exception_facts(frame))
        name, data = frame.event or "", frame.data or b""
        try:
            body = decode_json(_bedrock.chunk_bytes(data) if name == "chunk" else data)
        except (ValueError, *REFUSED):
            return Malformed(f"an event of {len(data)} bytes that is not JSON")
        if not isinstance(body, Mapping):
            out.append(Unknown(self._attempt, name, frame.raw))
            return None
        if name != "chunk":
            return self._event(name, body, frame, out)
        self._in_chunks = True
        signal: Signal = None
        known = [name for name in _HANDLERS if isinstance(body.get(name), Mapping)]
        for name in known or [next(iter(body), "")]:
            signal = self._event(name, step(body, name), frame, out) or signal
        return signal

    def _event(self, name: str, body: Json, frame: Frame, out: list[Event]) -> Signal:
        if (handler := _HANDLERS.get(name)) is not None:
            return handler(self, body, out)
        out.append(Unknown(self._attempt, name, frame.raw))
        return None

    # --- one handler per row of the grammar ------------------------------------------------------

    def _message_start(self, body: Json, out: list[Event]) -> Signal:
        self._blocks.restart()
        out.append(Opened(self._attempt))
        return None

    def _block_start(self, body: Json, out: list[Event]) -> Signal:
        start, key = step(body, "start"), self._key(body)
        self._end_text(out)
        if use := step(start, "toolUse"):
            own = use.get("type") == "server_tool_use"
            self._start_tool(key, "server_tool" if own else "tool_use", {"toolUse": use}, out)
        elif result := step(start, "toolResult"):
            self._start_tool(key, "server_tool", {"toolResult": result}, out)
        elif image := step(start, "image"):
            self._blocks.start(key, "media", out, data={"image": dict(image)})
        elif start:
            self._blocks.start(key, "other", out, data=dict(start))
        else:
            out.append(Heartbeat(self._attempt))  # its first delta says what it is
        return None

    def _start_tool(self, key: Hashable, kind: BlockKind, data: Json, out: list[Event]) -> None:
        ((wire, tool),) = data.items()
        plain = kind == "tool_use" and set(tool) <= {"toolUseId", "name"}
        self._blocks.start(
            key,
            kind,
            out,
            id=text_of(tool.get("toolUseId")),
            name=text_of(tool.get("name")),
            data=None if plain else {wire: dict(tool)},
        )

    def _block_delta(self, body: Json, out: list[Event]) -> Signal:
        delta, key = step(body, "delta"), self._key(body)
        block = self._blocks.get(key)
        for name, value in delta.items():
            if name == "toolUse":
                if block is None:
                    return Malformed("input of a tool call that never started")
                piece = value.get("input") if isinstance(value, Mapping) else None
                self._blocks.add(block, text_of(piece) or "", out, "input")
            elif name == "reasoningContent" and isinstance(value, Mapping):
                block = self._reason(key, block, value, out)
            else:
                block = self._plain(key, block, name, value, out)
        if not delta:
            out.append(Heartbeat(self._attempt))
        return None

    def _reason(
        self, key: Hashable, block: OpenBlock | None, value: Json, out: list[Event]
    ) -> OpenBlock:
        redacted = text_of(value.get("redactedContent"))
        if block is None:
            self._end_text(out)
            data = {"reasoningContent": {"redactedContent": redacted}} if redacted else None
            kind: BlockKind = "redacted_thinking" if redacted else "thinking"
            block = self._blocks.start(key, kind, out, data=data)
        elif redacted:
            self._blocks.add(block, encode_json({"redactedContent": redacted}), out, "other")
        text, signature = text_of(value.get("text")), text_of(value.get("signature"))
        if signature:
            self._blocks.add(block, signature, out, "signature")
        if text or not (signature or redacted):
            self._blocks.add(block, text or "", out)
        return block

    def _plain(
        self, key: Hashable, block: OpenBlock | None, name: str, value: Any, out: list[Event]
    ) -> OpenBlock:
        if block is None:
            if name != "text":
                self._end_text(out)
            block = self._blocks.start(key, _BEGINS.get(name, "other"), out)
        if name == "text" and block.kind == "text":
            self._blocks.add(block, text_of(value) or "", out)
        elif name == "citation" and block.kind == "text":
            self._blocks.add(block, encode_json(value), out, "citation")
        else:
            self._blocks.add(block, encode_json({name: value}), out, "other")
        return block

    def _block_stop(self, body: Json, out: list[Event]) -> Signal:
        key = self._key(body)
        if self._blocks.get(key) is None:
            out.append(Heartbeat(self._attempt))
        else:
            self._blocks.close(key, out)
        return None

    def _message_stop(self, body: Json, out: list[Event]) -> Signal:
        reason = text_of(body.get("stopReason"))
        if reason is None:
            out.append(Heartbeat(self._attempt))
            return None
        self._end_text(out)
        stop = Stop.error if reason in self._failures else self._stops.get(reason, Stop.end)
        if stop is Stop.end and self._blocks.calls:
            stop = Stop.tool_use
        more = body.get("additionalModelResponseFields")
        details = {"additionalModelResponseFields": more} if more else None
        out.append(StopKnown(self._attempt, stop, reason, details))
        self._stopped = True
        return None

    def _metadata(self, body: Json, out: list[Event]) -> Signal:
        if (usage := token_usage(body.get("usage"))) is not None:
            out.append(UsageReported(self._attempt, usage))
        else:
            out.append(Heartbeat(self._attempt))
        return Terminal() if self._stopped else None

    # --- what the handlers share -----------------------------------------------------------------

    def _key(self, body: Json) -> Hashable:
        """The block's number; pieces of text of Nova's are all of one block."""
        index = body.get("contentBlockIndex")
        if self._in_chunks and "text" in step(body, "delta"):
            return _NOVA_TEXT
        return index if isinstance(index, int) else None

    def _end_text(self, out: list[Event]) -> None:
        if self._blocks.get(_NOVA_TEXT) is not None:
            self._blocks.close(_NOVA_TEXT, out)


_HANDLERS: Final[dict[str, Callable[[ConverseDecoder, Json, list[Event]], Signal]]] = {
    "messageStart": ConverseDecoder._message_start,
    "contentBlockStart": ConverseDecoder._block_start,
    "contentBlockDelta": ConverseDecoder._block_delta,
    "contentBlockStop": ConverseDecoder._block_stop,
    "messageStop": ConverseDecoder._message_stop,
    "metadata": ConverseDecoder._metadata,
}


class BedrockConverse(ConverseRequests, Dialect):
    """Both sides of the dialect."""

    name = "bedrock_converse"
    content_types = _bedrock.CONTENT_TYPES

    def framer(self, content_type: str, policy: Policy) -> Framer:
        """Messages of an AWS event stream."""
        return _bedrock.framer(policy)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> ConverseDecoder:
        """A new decoder for one attempt."""
        return ConverseDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole reply that came as one JSON body (Converse), or ``None``."""
        message = step(step(body, "output"), "message") if isinstance(body, Mapping) else {}
        content = message.get("content")
        if not isinstance(content, list):
            return None
        decoder = self.decoder(policy, attempt)
        out: list[Event] = []
        for name, piece in as_stream(content, body):
            if isinstance(decoder._event(name, piece, Frame(b""), out), Malformed):
                return None
        decoder.ended(out)
        return out


dialect: Final = BedrockConverse()
