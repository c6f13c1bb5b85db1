"""Wire dialect ``gemini``: ``streamGenerateContent`` of the Gemini API and of Vertex AI.

Rule: what upstream sent never raises; what is not known is passed on. Requests are built in
``_gemini_request``, blocks in ``_gemini_parts``. Imports no IO.

The stream is one ``GenerateContentResponse`` per event (``alt=sse``, lines end with CRLF), or the
same objects in one JSON array. It has no start, no block borders and no end marker:

    in a response                       meaning
    candidates or promptFeedback,       Opened (responseId, modelVersion)
      the first time
    candidates[].content.parts[]        blocks, by the table in ``_gemini_parts``
    candidates[].citationMetadata       citations of the text so far
    candidates[].continuationToken      Checkpoint: from here on the reply can be asked for again
    candidates[].finishReason           the stop fact; text may still follow
    ... one of [stream] failures        the stop fact as Stop.error
    promptFeedback.blockReason          the stop fact: safety, whatever the reason
    groundingMetadata, finishMessage, … details of the stop fact
    usageMetadata                       usage: a running total
    error, in an object or an array     error, whatever came before
    another object                      Unknown

A reply is complete at a finish reason and ends with the body. Old models give one with every
response: the last that came counts, and each one is told, so that the wait for more begins anew.
Enumerations may come as numbers; what a number means is the policy's. A reason that nobody knows is
an end. A stop with function calls is ``tool_use``.

With ``candidateCount`` above 1 each candidate has its own blocks, numbered from
``candidate * 65536``, and those above 0 carry ``{"choice": c}`` as data. ``Usage.input`` includes
cached tokens, ``Usage.output`` includes thoughts.

The Interactions API of the same provider is not read here: its stream is of steps with event ids,
another grammar with another resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    Checkpoint,
    Event,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    Usage,
    UsageReported,
)

from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal
from ._gemini_args import UnreadableArgs
from ._gemini_facts import CUTTING, STOPS, Counters, error_facts, usage_of, word
from ._gemini_parts import CANDIDATE_STRIDE, CandidateBlocks
from ._gemini_request import GeminiRequests
from ._json import REFUSED, decode_json
from ._json_array import JSONArrayFramer
from ._sse import Frame, Framer, SSEFramer

__all__ = ["CANDIDATE_STRIDE", "Gemini", "GeminiDecoder", "dialect"]

Json = Mapping[str, Any]

#: What a candidate says besides its parts, kept for the stop fact; the last value counts.
_DETAILS: Final = (
    "finishMessage", "groundingMetadata", "safetyRatings", "urlContextMetadata",
)  # fmt: skip
#: One of these in an object, and it is a response of this API.
_OURS: Final = ("candidates", "promptFeedback", "usageMetadata", "responseId")


class _Part(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A part that is only text; any other is refused, and read slowly."""

    text: str
    thought: bool = False


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part]


class _Candidate(msgspec.Struct, gc=False):
    """A candidate in the middle of its text; keys that would make it more must be absent."""

    content: _Content
    index: int = 0
    finishReason: None = None
    citationMetadata: None = None
    continuationToken: None = None
    finishMessage: None = None
    groundingMetadata: None = None
    urlContextMetadata: None = None


class _Response(msgspec.Struct, gc=False):
    candidates: tuple[_Candidate]
    usageMetadata: Counters | None = None
    promptFeedback: None = None
    error: None = None


_decode_hot: Final = msgspec.json.Decoder(_Response).decode


class GeminiDecoder:
    """Reads the frames of one attempt; see the table above."""

    __slots__ = (
        "_attempt", "_blocks", "_counters", "_expected", "_failures", "_hot", "_hot_thought",
        "_opened", "_paused", "_stops", "_usage",
    )  # fmt: skip

    def __init__(self, policy: Policy, attempt: int, choices: int = 1) -> None:
        stream = policy.stream
        self._attempt = attempt
        self._expected = choices
        self._stops = STOPS | {name.upper(): stop for name, stop in stream.stops.items()}
        self._failures = {name.upper(): name for name in stream.failures}
        self._blocks: dict[int, CandidateBlocks] = {}
        self._opened = False
        self._paused = False
        self._counters: Counters | None = None
        self._usage: Usage | None = None
        # Index of the block that more text goes straight into, else -1.
        self._hot = -1
        self._hot_thought = False

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        if self._hot < 0:
            return self._general(frame, out)
        try:
            response = _decode_hot(frame.data)  # type: ignore[arg-type]
        except REFUSED:
            return self._general(frame, out)
        candidate = response.candidates[0]
        before = len(out)
        for part in candidate.content.parts:
            if part.thought is not self._hot_thought or candidate.index:
                del out[before:]
                return self._general(frame, out)
            if part.text:
                out.append(BlockDelta(self._attempt, self._hot, part.text))
        counters = response.usageMetadata
        if counters is not None and counters != self._counters:
            self._count(counters, out)
        if len(out) == before:
            out.append(Heartbeat(self._attempt))
        return None

    def ended(self, out: list[Event]) -> None:
        """Close the text; where the provider only pauses, it stays open to be gone on with."""
        for blocks in self._blocks.values():
            if not self._paused:
                blocks.end_prose(out)
        self._hot = -1

    # --- one response -----------------------------------------------------------------------------

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
        for one in body if isinstance(body, list) else [body]:
            signal = self._response(one, frame, out)
            if signal is not None:
                return signal
        return None

    def _response(self, body: Any, frame: Frame, out: list[Event]) -> Signal:
        if frame.event == "error" or (isinstance(body, Mapping) and body.get("error")):
            return ErrorSeen(error_facts(body, 400) or ErrorFacts())
        if not _is_response(body):
            out.append(Unknown(self._attempt, frame.event or "", frame.raw))
            return None
        before = len(out)
        try:
            self.take(body, out)
        except UnreadableArgs as error:
            return Malformed(str(error))
        if len(out) == before:
            out.append(Heartbeat(self._attempt))
        return None

    def take(self, body: Json, out: list[Event]) -> None:
        """Append the events of one decoded response; ``UnreadableArgs`` as in ``add``."""
        candidates, feedback = body.get("candidates"), body.get("promptFeedback")
        if not self._opened:
            self._opened = True
            names = (body.get(key) for key in ("responseId", "modelVersion"))
            out.append(Opened(self._attempt, *(n if isinstance(n, str) else None for n in names)))
        self._count(_counters(body.get("usageMetadata")), out)
        for candidate in candidates if isinstance(candidates, list) else ():
            if isinstance(candidate, Mapping):
                self._candidate(candidate, out)
        if isinstance(feedback, Mapping) and (reason := word(feedback.get("blockReason"))):
            # Whatever the word: some are failures where a candidate ends with them (OTHER).
            details = {"promptFeedback": dict(feedback)}
            out.append(StopKnown(self._attempt, Stop.safety, reason, details))
        self._warm()

    def _candidate(self, candidate: Json, out: list[Event]) -> None:
        index = candidate.get("index")
        number = index if isinstance(index, int) and index > 0 else 0
        blocks = self._blocks.get(number)
        if blocks is None:
            blocks = self._blocks[number] = CandidateBlocks(self._attempt, number)
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, Mapping) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                blocks.add(part, out)
        if isinstance(cited := candidate.get("citationMetadata"), Mapping):
            blocks.cite(cited, out)
        blocks.details |= {key: candidate[key] for key in _DETAILS if candidate.get(key)}
        token = candidate.get("continuationToken")
        if isinstance(token, str) and token and not number:
            out.append(Checkpoint(self._attempt, {"continuationToken": token}, of_request=True))
        if reason := word(candidate.get("finishReason")):
            blocks.reason = reason
            stop = self._meaning(reason)
            if stop is not Stop.error:
                blocks.stop(cut=stop in CUTTING, out=out)
            self._tell_stop(out)

    # --- stop, usage, and what is hot -------------------------------------------------------------

    def _meaning(self, reason: str) -> Stop:
        if reason in self._failures:
            return Stop.error
        return self._stops.get(reason, Stop.end)

    def _tell_stop(self, out: list[Event]) -> None:
        """The stop fact, once every candidate has stopped, and again with each later reason."""
        every = self._blocks
        reasons = [blocks.reason for blocks in every.values()]
        failed = next((r for r in reasons if r in self._failures), None)
        if failed is None and (len(every) < self._expected or not all(reasons)):
            return
        first = every.get(0) or next(iter(every.values()))
        reason = self._failures[failed] if failed else first.reason
        stop = Stop.error if failed else self._meaning(reason)
        if stop is Stop.end and first.calls:
            stop = Stop.tool_use
        self._paused = stop is Stop.pause
        details = dict(first.details)
        if len(every) > 1:
            details["candidates"] = {str(number): b.reason for number, b in every.items()}
        out.append(StopKnown(self._attempt, stop, reason, details or None))

    def _count(self, counters: Counters | None, out: list[Event]) -> None:
        if counters is None:
            return
        self._counters = counters
        usage = usage_of(counters)
        if usage is not None and usage != self._usage:
            self._usage = usage
            out.append(UsageReported(self._attempt, usage))

    def _warm(self) -> None:
        """Where the first candidate has text open, what follows is likely more of it."""
        self._hot = -1
        blocks = self._blocks.get(0)
        if blocks is not None and blocks.prose is not None and blocks.takes_text:
            self._hot = blocks.prose
            self._hot_thought = blocks.prose_kind == "thinking"


def _is_response(body: Any) -> bool:
    return isinstance(body, Mapping) and any(key in body for key in _OURS)


def _counters(usage: Any) -> Counters | None:
    if not isinstance(usage, Mapping):
        return None
    read = {name: usage.get(name) for name in Counters.__struct_fields__}
    return Counters(**{n: v for n, v in read.items() if isinstance(v, int) and v is not True})


class Gemini(GeminiRequests, Dialect):
    """Both sides of the dialect."""

    name = "gemini"
    content_types: tuple[str, ...] = ("text/event-stream", "application/json")

    def framer(self, content_type: str, policy: Policy) -> Framer:
        """Server-sent events, or one JSON array where ``alt=sse`` was not asked for."""
        kind = JSONArrayFramer if content_type == "application/json" else SSEFramer
        return kind(policy.limits.event_bytes)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> GeminiDecoder:
        """A new decoder; ``choices`` is the request's ``candidateCount``."""
        return GeminiDecoder(policy, attempt, choices)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole reply in one JSON body: a response, or an array of them."""
        responses = body if isinstance(body, list) else [body]
        if not all(_is_response(one) for one in responses):
            return None
        decoder, out = GeminiDecoder(policy, attempt), list[Event]()
        try:
            for one in responses:
                decoder.take(one, out)
        except UnreadableArgs:
            return None
        decoder.ended(out)
        return out


dialect: Final = Gemini()
