"""A host without sockets and with fake time: bytes straight into ``Recovery`` and its reader.

The twin of the clients for runs in the ten thousands. An upstream is a function of the request
body and its number that gives an ``Answer``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx
from caller_view import CallerView
from reply_parts import Flat

import midthought
from midthought.policies import Policy
from midthought.statemachine import (
    Close,
    Done,
    Effect,
    Emit,
    Event,
    HostEvent,
    KeepAlive,
    Record,
    Retract,
    Retracted,
    Send,
    TimePassed,
    Wait,
)

__all__ = ["Answer", "End", "Sent", "Twin", "Waited", "sse"]

Headers = Sequence[tuple[str, str]]
#: How an answer ends: orderly; by one of the transport's exceptions; or never.
End = Literal["eof", "fin", "rst", "stall", "refused"]

STREAM: Headers = (("content-type", "text/event-stream"),)
JSON: Headers = (("content-type", "application/json"),)
BROKEN: dict[str, type[httpx.TransportError]] = {
    "fin": httpx.RemoteProtocolError,
    "rst": httpx.ReadError,
    "refused": httpx.ConnectError,
}
STARTED_AT = 100.0
#: More requests than any policy allows: the machine does not stop.
TOO_MANY = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What upstream answers to one request."""

    body: bytes = b""
    end: End = "eof"
    status: int = 200
    headers: Headers = STREAM
    chunk: int = 0
    """Bytes per read; 0: all at once."""


def sse(body: bytes, end: End = "eof") -> Answer:
    """A stream."""
    return Answer(body, end)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, and what the caller had seen when it went out."""

    attempt: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    fresh: bool
    at: float
    text: str
    solid: str
    flat: Flat


@dataclass(frozen=True, slots=True)
class Waited:
    """One pause."""

    delay_s: float
    reason: str


@dataclass
class Twin:
    """Runs one turn. ``told`` are host events by the number of the read they come before."""

    policy: Policy
    request: Mapping[str, Any]
    upstream: Callable[[Mapping[str, Any], int], Answer]
    rng: Callable[[], float] = lambda: 0.5
    choices: int = 1
    told: Mapping[int, HostEvent] = field(default_factory=dict)
    capabilities: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.machine = midthought.Recovery(
            self.policy, self.request, rng=self.rng, refused=self.capabilities
        )
        self.view = CallerView(choices=self.choices)
        self.now = STARTED_AT
        self.steps = 0
        self.events: list[Event] = []
        self.records: list[tuple[str, Mapping[str, Any]]] = []
        self.sent: list[Sent] = []
        self.waited: list[Waited] = []
        self.after_done: list[Effect] = []
        self.done = False
        self._send: Send | None = None
        self._until: float | None = None
        self._closed: set[int] = set()

    def run(self) -> Twin:
        """The whole turn; returns itself."""
        self._carry_out(self.machine.start(self.now))
        while not self.done:
            if self._send is not None:
                send, self._send = self._send, None
                self._exchange(send)
            elif self._until is not None:
                self._step()
                if not self.done and self._until is not None:
                    self.now, self._until = max(self.now, self._until), None
                    self._feed(TimePassed())
            else:
                raise AssertionError(f"stuck in state {self.machine.state}")
        return self

    @property
    def attempts(self) -> Sequence[Any]:
        """One entry per request, as the machine tells it."""
        return self.machine.turn.attempts

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The history as it was sent and answered."""
        return list(self.machine.history.messages)

    @property
    def message(self) -> dict[str, Any] | None:
        """The one clean message."""
        return next(iter(self.machine.history.message), None)

    @property
    def took_s(self) -> float | None:
        """Fake seconds that the turn took."""
        return self.now - STARTED_AT

    def records_of(self, name: str) -> list[Mapping[str, Any]]:
        """Fields of the records with this name."""
        return [fields for found, fields in self.records if found == name]

    # --- one exchange -------------------------------------------------------------------------

    def _exchange(self, send: Send) -> None:
        if len(self.sent) >= TOO_MANY:
            raise AssertionError("the turn does not end")
        body = send.request.body
        self.sent.append(
            Sent(
                send.attempt,
                body,
                send.request.headers,
                send.fresh,
                self.now,
                self.view.text,
                self.view.solid,
                self.view.flat,
            )
        )
        answer = self.upstream(body, send.attempt)
        self._step()
        if self._over(send.attempt):
            return
        reader = self.machine.reader(send.attempt)
        if answer.end == "refused":
            self._all(reader.broke(httpx.ConnectError("refused"), phase="connect"))
            return
        self._all(reader.response(answer.status, answer.headers, connection="new"))
        size = answer.chunk or len(answer.body) or 1
        for at in range(0, len(answer.body), size):
            self._step()
            if self._over(send.attempt):
                return
            self._all(reader.feed(answer.body[at : at + size]))
        self._step()
        if not self._over(send.attempt):
            self._end(reader, answer.end, send.attempt)

    def _end(self, reader: Any, end: End, attempt: int) -> None:
        if end == "eof":
            self._all(reader.end())
        elif end == "stall":
            while not self._over(attempt):
                self.now = self.machine.next_deadline()
                self._feed(TimePassed())
        else:
            self._all(reader.broke(BROKEN[end]("cut by the test"), phase="stream"))

    def _over(self, attempt: int) -> bool:
        return self.done or attempt in self._closed

    def _step(self) -> None:
        event = self.told.get(self.steps)
        self.steps += 1
        if event is not None:
            self._feed(event)

    # --- the machine ------------------------------------------------------------------------------

    def _feed(self, event: Event | HostEvent) -> None:
        self._carry_out(self.machine.feed(event, self.now))

    def _all(self, events: list[Event]) -> None:
        self._carry_out(self.machine.feed_all(events, self.now))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if self.done:
                self.after_done.append(effect)
            if type(effect) is Emit:
                self._emit(effect.event)
            elif type(effect) is not KeepAlive:
                self._order(effect)

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        self.view.take(event)

    def _order(self, effect: Effect) -> None:
        match effect:
            case Record(name, fields):
                self.records.append((name, fields))
            case Retract(index):
                self._emit(Retracted(self.machine.attempt, index))
            case Close(attempt):
                self._closed.add(attempt)
            case Send():
                self._send, self._until = effect, None
            case Wait(until, delay_s, reason):
                self._until = until
                self.waited.append(Waited(delay_s, reason))
            case Done():
                self.done = True
                self._send = self._until = None
            case _:
                raise AssertionError(f"an order that this host does not know: {effect!r}")
