"""The boundary: one attempt's response in, normalised events out, and exactly one ``Finished``.

Rule: whatever upstream or the transport does becomes events; a fault of our own code raises. Hosts
feed headers, bytes, the end or an exception; the dialect reads frames; the policy's rows name
failures. Decides nothing about recovery. Imports no IO.

An attempt ends, whichever comes first:

    an error frame                          Finished(error), also after the stop fact
    the end marker                          Finished(stop) after a stop fact, else premature_end
    the body's end, or a transport's fault  Finished(stop) after a stop fact, else a failure
    a frame nobody can read                 Finished(error): sse_parse, event_too_large
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from midthought.policies import FailureKind, Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    Event,
    Failure,
    Finished,
    Heartbeat,
    Responded,
    StopKnown,
    Unknown,
)

from ._body import ERROR_BODY_BYTES, error_beside, read_body
from ._classify import Connection, Phase
from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal, Terminal
from ._json import documents
from ._response import Response
from ._sse import EventTooLarge, Frame, Framer, FramingError, looks_like_sse

__all__ = ["AttemptReader"]

_SSE: Final = "text/event-stream"
#: Until something of the dialect is recognised, so much of a stream is kept: it may be no stream.
_HEAD_BYTES: Final = 64 * 1024


class AttemptReader:
    """Reads one attempt: ``response`` once, then ``feed`` or ``read``, then ``end`` or ``broke``.

    ``finished`` is true once ``Finished`` was given out; from then on nothing is. ``tail`` is the
    last frame where its blank line was missing and it counted all the same, for hosts that pass
    frames on.
    """

    __slots__ = (
        "_attempt", "_body", "_decode", "_decoder", "_dialect", "_framer", "_head", "_may_begin",
        "_policy", "_response", "_stop", "finished", "tail",
    )  # fmt: skip

    def __init__(
        self,
        policy: Policy,
        dialect: Dialect,
        attempt: int,
        *,
        model: str = "",
        choices: int = 1,
    ) -> None:
        self._policy = policy
        self._dialect = dialect
        self._attempt = attempt
        self._response = Response(policy, model)
        self._decoder = dialect.decoder(policy, attempt, choices)
        self._decode = self._decoder.decode
        self._framer: Framer | None = None
        self._may_begin: Callable[[bytes], bool] = _may_be_sse
        self._head: bytearray | None = bytearray()  # None: something was recognised
        self._body: bytearray | None = None
        self._stop: StopKnown | None = None
        self.finished = False
        self.tail: Frame | None = None

    # --- what the host says ----------------------------------------------------------------------

    def response(
        self,
        status: int,
        headers: Iterable[tuple[str, str]],
        *,
        connection: Connection = "unknown",
        elapsed_s: float | None = None,
        wall_now: float | None = None,
    ) -> list[Event]:
        """Status and headers arrived. A stream: ``Responded``; anything else is read to its end.

        ``elapsed_s`` is the time since the request was sent, ``wall_now`` seconds since the epoch
        (for dates in retry hints, where the response has no ``Date`` of its own).
        """
        response = self._response
        response.arrived(status, headers)
        response.connection = connection
        response.elapsed_s = elapsed_s
        response.wall_now = wall_now
        if response.ok and response.content_type in ("", *self._dialect.content_types):
            return [self._open_stream(response.content_type)]
        self._body = bytearray()
        return []

    def feed(self, data: bytes) -> list[Event]:
        """Bytes of the body, as they come; what they mean."""
        out: list[Event] = []
        if self._framer is None:
            self._collect(data, out)
            return out
        frames, fault = self._frames(data)
        decode = self._decode
        for frame in frames:
            if frame.data:
                before = len(out)
                signal = decode(frame, out)
                # The hot path ends here: more of a block says nothing about the attempt's end.
                if (
                    signal is None
                    and self._head is None
                    and len(out) == before + 1
                    and type(out[before]) is BlockDelta
                ):
                    continue
                self._judge(frame, signal, before, out)
            else:
                self._without_data(frame, out)
            if self.finished:
                return out
        if fault is not None:
            self._unreadable(fault, out)
        return out

    def read(self, data: bytes) -> list[tuple[Frame | None, list[Event]]]:
        """``feed``, frame by frame; the frame is ``None`` for events that no frame made."""
        if self._framer is None:
            return [(None, events)] if (events := self.feed(data)) else []
        pairs: list[tuple[Frame | None, list[Event]]] = []
        frames, fault = self._frames(data)
        for frame in frames:
            out: list[Event] = []
            self._take(frame, out)
            pairs.append((frame, out))
            if self.finished:
                return pairs
        if fault is not None:
            last: list[Event] = []
            self._unreadable(fault, last)
            pairs.append((None, last))
        return pairs

    def end(self, elapsed_s: float | None = None) -> list[Event]:
        """The body ended in an orderly way."""
        out: list[Event] = []
        self._response.elapsed_s = elapsed_s or self._response.elapsed_s
        if self._body is not None:
            self._conclude(bytes(self._body), out)
        self._try_tail(out)
        if self.finished:
            return out
        if self._stop is not None:
            self._complete(self._stop, out)
        elif self._head is not None and self._response.status is not None:
            self._conclude(bytes(self._head), out)
        else:
            self._fail(FailureKind.premature_end, "the stream ended without a stop reason", out)
        return out

    def broke(
        self,
        exc: BaseException,
        *,
        phase: Phase | None = None,
        connection: Connection | None = None,
        elapsed_s: float | None = None,
    ) -> list[Event]:
        """The transport raised ``exc``: sending, waiting for the response, or reading its body."""
        out: list[Event] = []
        response = self._response
        response.connection = connection or response.connection
        response.elapsed_s = elapsed_s or response.elapsed_s
        if self._body is not None and not response.ok:
            self._conclude(bytes(self._body), out)  # the status says more than the cut
        self._try_tail(out)
        if self.finished:
            return out
        if self._stop is not None:
            self._complete(self._stop, out)
            return out
        response.phase = phase or response.phase
        self._finish(response.classified(exc=exc), out)
        return out

    # --- one frame -------------------------------------------------------------------------------

    def _frames(self, data: bytes) -> tuple[list[Frame], FramingError | None]:
        assert self._framer is not None
        if self._head is not None and len(self._head) < _HEAD_BYTES:
            self._head += data
        try:
            return self._framer.feed(data), None
        except FramingError as fault:
            return fault.frames, fault

    def _take(self, frame: Frame, out: list[Event]) -> None:
        if frame.data:
            before = len(out)
            try:
                signal = self._decode(frame, out)
            except Exception as error:
                # Upstream may put anything anywhere: what cannot be read ends the attempt, not us.
                signal = Malformed(f"{type(error).__name__} in a frame of {len(frame.raw)} bytes")
            self._judge(frame, signal, before, out)
        else:
            self._without_data(frame, out)

    def _judge(self, frame: Frame, signal: Signal, before: int, out: list[Event]) -> None:
        """What a frame's events, those from ``before`` on, and its signal say about the attempt."""
        self._look(before, out)
        if signal is not None and not self.finished:
            self._act(signal, frame, out)

    def _look(self, before: int, out: list[Event]) -> None:
        """Note what new events say about the attempt: a stop fact, or that this is our dialect."""
        for place in range(before, len(out)):
            event = out[place]
            if type(event) is not Unknown:
                self._head = None
            if type(event) is not StopKnown:
                continue
            if event.stop is not Stop.error:
                self._stop = event
                continue
            del out[place:]
            self._finish(self._response.stopped(event.reason), out)
            return

    def _act(self, signal: Signal, frame: Frame, out: list[Event]) -> None:
        if isinstance(signal, ErrorSeen):
            self._finish(self._response.classified(signal.error), out)
        elif isinstance(signal, Malformed):
            self._malformed(signal, frame, out)
        elif isinstance(signal, Terminal):
            if self._stop is not None:
                self._complete(self._stop, out)
            else:
                what = "the stream's end marker came without a stop reason"
                self._fail(FailureKind.premature_end, what, out)

    def _malformed(self, signal: Malformed, frame: Frame, out: list[Event]) -> None:
        """What else it may be, before the stream counts as broken; a tail is dropped instead."""
        data = frame.data or b""
        if data.startswith(b":"):  # a comment inside a data line
            out.append(Heartbeat(self._attempt))
            return
        pieces = documents(data)
        for piece in pieces:
            if not self.finished:
                self._take(Frame(frame.raw, frame.event, piece), out)
        if not pieces and not frame.unterminated:
            self._fail(FailureKind.sse_parse, signal.reason, out)

    def _without_data(self, frame: Frame, out: list[Event]) -> None:
        """A keep-alive, or an error that a server put beside the stream's own form."""
        if frame.fields is not None and (facts := error_beside(frame, self._dialect)) is not None:
            self._finish(self._response.classified(facts), out)
        elif frame.raw.strip():
            out.append(Heartbeat(self._attempt))

    def _try_tail(self, out: list[Event]) -> None:
        """Bytes after the last blank line count if they are a whole frame, once."""
        if self._framer is None:
            return
        frame, self._framer = self._framer.finish(), None
        if frame is None:
            return
        before = len(out)
        self._take(frame, out)
        if len(out) > before:
            self.tail = frame

    # --- what is no stream -----------------------------------------------------------------------

    def _open_stream(self, content_type: str) -> Responded:
        self._framer = self._dialect.framer(content_type, self._policy)
        self._may_begin = self._framer.may_begin
        self._body = None
        self._response.phase = "stream"
        return Responded(self._attempt, self._response.request_id)

    def _collect(self, data: bytes, out: list[Event]) -> None:
        if self.finished:
            return
        if self._body is None:
            raise RuntimeError(
                "a body before its headers, or after its end: response() comes first"
            )
        self._body += data
        limit = self._policy.limits.event_bytes if self._response.ok else ERROR_BODY_BYTES
        if self._sniffed():
            body = bytes(self._body)
            out.append(self._open_stream(_SSE))
            out.extend(self.feed(body))
        elif len(self._body) > limit:
            self._conclude(bytes(self._body), out)

    def _sniffed(self) -> bool:
        """The body is a stream whose content type is wrong."""
        ours = self._response.ok and _SSE in self._dialect.content_types
        return ours and looks_like_sse(bytes((self._body or b"")[:64])) is True

    def _conclude(self, body: bytes, out: list[Event]) -> None:
        """Finish an attempt whose answer is this body and no stream of the dialect."""
        response, found = self._response, read_body(body, self._response.content_type)
        what = f"HTTP {response.status}, {found.what}"
        begun = found.kind == "other" and self._may_begin(body)
        if response.ok and (found.kind == "empty" or begun):
            self._fail(FailureKind.premature_end, f"{what}: no event of a reply", out)
            return
        response.phase = "response"
        default = FailureKind.not_a_stream if response.ok else FailureKind.unknown
        content_type, facts = None, None
        if found.kind == "html":
            content_type = "text/html"
            default = FailureKind.server_error if response.ok else default
        elif found.kind == "json":
            facts = self._dialect.error_facts(found.value, response.status)
            if facts is None and response.ok and self._whole_reply(found.value, out):
                return
        elif found.text and not response.ok:
            facts = ErrorFacts(message=found.text)
        message = None if facts is not None and facts.message else what
        failure = response.classified(
            facts, message=message, content_type=content_type, default=default
        )
        self._finish(failure, out)

    def _whole_reply(self, value: object, out: list[Event]) -> bool:
        """A whole reply as one JSON body: as good as a stream."""
        events = self._dialect.unary(value, self._policy, self._attempt)
        if events is None:
            return False
        if self._body is not None:
            out.append(Responded(self._attempt, self._response.request_id))
        before = len(out)
        out.extend(events)
        self._look(before, out)
        if self._stop is not None:
            self._complete(self._stop, out)
        elif not self.finished:
            self._fail(FailureKind.premature_end, "the reply has no stop reason", out)
        return True

    # --- the one Finished ------------------------------------------------------------------------

    def _complete(self, stop: StopKnown, out: list[Event]) -> None:
        self._decoder.ended(out)
        self._close(Finished(self._attempt, stop.stop), out)

    def _unreadable(self, fault: FramingError, out: list[Event]) -> None:
        large = isinstance(fault, EventTooLarge)
        kind = FailureKind.event_too_large if large else FailureKind.sse_parse
        self._fail(kind, str(fault), out)

    def _fail(self, kind: FailureKind, message: str, out: list[Event]) -> None:
        self._finish(self._response.failure(kind, message), out)

    def _finish(self, failure: Failure, out: list[Event]) -> None:
        self._close(Finished(self._attempt, Stop.error, failure), out)

    def _close(self, event: Finished, out: list[Event]) -> None:
        self.finished = True
        self._framer = self._body = self._head = None
        out.append(event)


def _may_be_sse(head: bytes) -> bool:
    return looks_like_sse(head) is not False
