"""Wire dialect ``openai_responses``: the OpenAI Responses API and the servers that speak like it.

Rule: dispatch is on ``data.type`` (the ``event:`` line is optional) and on ``output_index`` (relays
change the ids of items with every event). What upstream sent never raises. Items are told apart in
``_openai_responses_items``, requests are built in ``_openai_responses_request``. Imports no IO.

    data.type                              becomes
    response.created                       Opened (another one with another id: Opened again)
    response.queued, in_progress           Heartbeat, or Opened if it is the first
    response.output_item.added             a block, but for a message: its parts are the blocks
    response.content_part.added            text or refusal block
    <name>.delta, <name>.done              BlockDelta by the table ``DELTAS``; what a done event has
                                           more than the deltas is added; it closes a call
    response.output_text.annotation.added  citation
    response.content_part.done             nothing: the next part, or its item, closes a text
    response.output_item.done              signature (encrypted_content), BlockClosed with the item;
                                           nothing is closed that the item says is incomplete
    response.completed                     what was not done is closed; usage, the stop fact, end
    response.incomplete                    the same, by incomplete_details.reason
    response.failed, error, {"error": {}}  error, whatever comes after
    [DONE]                                 end marker; some relays add it
    keepalive, framing of reasoning parts  Heartbeat
    another .delta of an item              BlockDelta of field other, as JSON
    anything else                          Unknown: progress of tools, partial images

A resumed stream begins in the middle: no response.created, perhaps no output_item.added. Then
blocks begin by their first delta, whole items come of their done events, and text that a done event
repeats is not taken for new. Attempt 0 is never a resume: a beginning that is missing there is a
broken stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    UsageReported,
)

from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._http_errors import error_facts
from ._json import REFUSED, decode_json, encode_json
from ._openai_responses_blocks import Blocks
from ._openai_responses_items import DELTAS, STOPS, HotEvent, token_usage
from ._openai_responses_marks import Checkpoints
from ._openai_responses_request import ResponsesRequests
from ._sse import Frame

__all__ = ["OpenAIResponses", "ResponsesDecoder", "dialect"]

Json = Mapping[str, Any]

_decode_hot: Final = msgspec.json.Decoder(HotEvent).decode
_LIFECYCLE: Final = ("response.created", "response.queued", "response.in_progress")
_ALIVE: Final = frozenset(
    {
        "keepalive",
        "ping",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_part.done",
    }
)
_FAILED: Final = frozenset({"failed", "cancelled"})
#: Of a delta that is passed on as JSON, what says nothing.
_PADDING: Final = frozenset({"obfuscation", "sequence_number", "logprobs"})


class ResponsesDecoder:
    """Reads the frames of one attempt; see the grammar above."""

    __slots__ = (
        "_attempt", "_blocks", "_done_is_terminal", "_failures", "_id", "_marks", "_opened",
        "_stopped", "_stops",
    )  # fmt: skip

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._stops = STOPS | policy.stream.stops
        self._failures = policy.stream.failures
        self._done_is_terminal = policy.stream.done_is_terminal
        self._marks = Checkpoints(attempt)
        self._blocks = Blocks(attempt, self._marks)
        self._blocks.whole = attempt == 0
        self._id: str | None = None
        self._opened = False
        self._stopped = False

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        try:
            hot = _decode_hot(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._general(frame, out)
        block = self._blocks.hot
        if (
            block is None
            or type(hot) is not block.hot
            or hot.output_index != block.output
            or hot.part != block.part
            or not hot.delta
        ):
            return self._general(frame, out)
        out.append(BlockDelta(self._attempt, block.index, hot.delta, block.field))
        block.chars += len(hot.delta)
        block.last = hot.delta
        if self._marks.active and block.kind == "text":
            self._marks.text(len(hot.delta), hot.number, out)
        return None

    def ended(self, out: list[Event]) -> None:
        """Close what the provider left open; a tool call's input is for the machine to judge."""
        self._blocks.close_open(out)

    def whole(self, response: Json, out: list[Event]) -> None:
        """Events of a whole response that came as one body; no stop fact while it is running."""
        self._blocks.whole = True
        self._open(response, out)
        self._end(f"response.{response.get('status')}", response, out)

    def _general(self, frame: Frame, out: list[Event]) -> Signal:
        data = frame.data or b""
        try:
            body = decode_json(data)
        except ValueError:
            if frame.event == "error":
                return ErrorSeen(ErrorFacts(message=data.decode("utf-8", "replace")))
            if data.strip() == b"[DONE]":
                return self._done(out)
            return Malformed(f"an event of {len(data)} bytes that is not JSON")
        if not isinstance(body, Mapping):
            if frame.event == "error":
                return ErrorSeen(ErrorFacts(message=body if isinstance(body, str) else ""))
            out.append(Unknown(self._attempt, frame.event or "", frame.raw))
            return None
        named = body.get("type")
        kind = named if isinstance(named, str) else frame.event or ""
        if not self._opened and (reason := self._headless(kind, body)):
            return Malformed(reason)
        return self._tell(kind, body, frame, out)

    def _headless(self, kind: str, body: Json) -> str:
        """Why this first event cannot be the first: attempt 0 begins at the beginning."""
        number = body.get("sequence_number")
        content = kind.startswith("response.") and kind not in _LIFECYCLE
        if self._attempt or not content or not isinstance(number, int) or number < 2:
            return ""
        return f"the stream begins with event {number}: what came before it is missing"

    def _tell(self, kind: str, body: Json, frame: Frame, out: list[Event]) -> Signal:
        before = len(out)
        signal: Signal = None
        name, _, suffix = kind.rpartition(".")
        if (handler := _HANDLERS.get(kind)) is not None:
            signal = handler(self, body, out)
        elif name in DELTAS and suffix in ("delta", "done"):
            self._begin(out)
            add = self._blocks.delta if suffix == "delta" else self._blocks.text_done
            add(name, body, out)
        elif kind in _ALIVE:
            pass
        elif self._is_error(kind, frame, body):
            return self._error(body, out)
        elif suffix == "delta" and (block := self._blocks.open_block(body)) is not None:
            told = {key: value for key, value in body.items() if key not in _PADDING}
            out.append(BlockDelta(self._attempt, block.index, encode_json(told), "other"))
        else:
            out.append(Unknown(self._attempt, kind, frame.raw))
        if signal is None and len(out) == before:
            out.append(Heartbeat(self._attempt))
        return signal

    @staticmethod
    def _is_error(kind: str, frame: Frame, body: Json) -> bool:
        """An event of no known type that states an error; the API's own types are known."""
        stated = bool(body.get("error")) and not kind.startswith("response.")
        return stated or frame.event == "error"

    # --- one handler per row of the grammar ------------------------------------------------------

    def _created(self, body: Json, out: list[Event]) -> Signal:
        response = _table(body.get("response"))
        if self._opened and _text(response.get("id")) == self._id:
            return None
        self._blocks.reset()
        self._blocks.whole = True
        self._open(response, out)
        self._marks.begin(response, body.get("sequence_number"), out)
        return None

    def _lifecycle(self, body: Json, out: list[Event]) -> Signal:
        response = _table(body.get("response"))
        if not self._opened:
            self._open(response, out)
        self._usage(response, out)
        return None

    def _item_added(self, body: Json, out: list[Event]) -> Signal:
        if isinstance(item := body.get("item"), Mapping):
            self._begin(out)
            self._marks.item(body.get("sequence_number"), out)
            self._blocks.item_added(body, item, out)
        return None

    def _item_done(self, body: Json, out: list[Event]) -> Signal:
        if isinstance(item := body.get("item"), Mapping):
            self._begin(out)
            self._blocks.item_done(body, item, out)
            self._marks.done(body.get("sequence_number"), out)
        return None

    def _part_added(self, body: Json, out: list[Event]) -> Signal:
        self._begin(out)
        self._blocks.part_added(body, _table(body.get("part")), out)
        return None

    def _part_done(self, body: Json, out: list[Event]) -> Signal:
        self._begin(out)
        self._blocks.part_done(body, _table(body.get("part")), out)
        return None

    def _annotation(self, body: Json, out: list[Event]) -> Signal:
        self._begin(out)
        self._blocks.annotation(body, out)
        self._marks.done(body.get("sequence_number"), out)
        return None

    def _ended(self, body: Json, out: list[Event]) -> Signal:
        self._begin(out)
        return self._end(str(body.get("type")), _table(body.get("response")), out)

    def _error(self, body: Json, out: list[Event]) -> Signal:
        return ErrorSeen(error_facts(body, 400) or ErrorFacts())

    def _done(self, out: list[Event]) -> Signal:
        """The end marker of relays: the stop fact too, where the policy says that it is one."""
        if not self._stopped and self._done_is_terminal:
            self._blocks.close_open(out)
            self._stop(Stop.end, "[DONE]", out)
        return Terminal()

    # --- what the handlers share -----------------------------------------------------------------

    def _begin(self, out: list[Event]) -> None:
        if not self._opened:
            self._open({}, out)

    def _open(self, response: Json, out: list[Event]) -> None:
        self._opened = True
        self._id = _text(response.get("id"))
        out.append(Opened(self._attempt, self._id, _text(response.get("model"))))

    def _usage(self, response: Json, out: list[Event]) -> None:
        if (usage := token_usage(response.get("usage"))) is not None:
            out.append(UsageReported(self._attempt, usage))

    def _end(self, kind: str, response: Json, out: list[Event]) -> Signal:
        """The response is over: by its own status, else by the type of the event."""
        status = response.get("status")
        if status not in ("completed", "incomplete", *_FAILED):
            status = kind.removeprefix("response.")
        self._usage(response, out)
        if status in _FAILED:
            return ErrorSeen(_failure(response))
        if status not in ("completed", "incomplete"):
            return None
        if self._blocks.whole:
            self._blocks.output(response.get("output"), out)
        self._blocks.close_open(out)
        reason = _text(_table(response.get("incomplete_details")).get("reason"))
        if status == "completed":
            self._stop(self._stops.get("completed", Stop.end), "completed", out)
        else:
            # An unknown reason is a cap of some kind: the reply is not whole.
            self._stop(self._stops.get(reason or "", Stop.length), reason or "incomplete", out)
        return Terminal()

    def _stop(self, stop: Stop, reason: str, out: list[Event]) -> None:
        self._stopped = True
        if reason in self._failures:
            stop = Stop.error
        elif stop is Stop.end and self._blocks.calls:
            stop = Stop.tool_use
        out.append(StopKnown(self._attempt, stop, reason))


_HANDLERS: Final[dict[str, Callable[[ResponsesDecoder, Json, list[Event]], Signal]]] = {
    "response.created": ResponsesDecoder._created,
    "response.queued": ResponsesDecoder._lifecycle,
    "response.in_progress": ResponsesDecoder._lifecycle,
    "response.output_item.added": ResponsesDecoder._item_added,
    "response.output_item.done": ResponsesDecoder._item_done,
    "response.content_part.added": ResponsesDecoder._part_added,
    "response.content_part.done": ResponsesDecoder._part_done,
    "response.output_text.annotation.added": ResponsesDecoder._annotation,
    "response.completed": ResponsesDecoder._ended,
    "response.incomplete": ResponsesDecoder._ended,
    "response.failed": ResponsesDecoder._ended,
    "response.cancelled": ResponsesDecoder._ended,
    "response.error": ResponsesDecoder._error,
    "error": ResponsesDecoder._error,
}


def _table(value: Any) -> Json:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _failure(response: Json) -> ErrorFacts:
    """The error of a response that failed or was cancelled."""
    facts = error_facts({"error": response.get("error")})
    status = str(response.get("status") or "failed")
    return facts or ErrorFacts(message=f"the response is {status}", codes=(status,), body=response)


class OpenAIResponses(ResponsesRequests, Dialect):
    """Both sides of the dialect."""

    name = "openai_responses"
    content_types: tuple[str, ...] = ("text/event-stream",)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> ResponsesDecoder:
        """A new decoder for one attempt; the API has no choices."""
        return ResponsesDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``; a failed response is one."""
        if isinstance(body, Mapping) and body.get("object") == "response":
            return _failure(body) if body.get("status") in _FAILED else None
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole response; of one that is still running, only its start."""
        if not isinstance(body, Mapping) or body.get("object") != "response":
            return None
        out: list[Event] = []
        self.decoder(policy, attempt).whole(body, out)
        return out


dialect: Final = OpenAIResponses()
