"""One turn between the machine and a transport: bytes in, events out, orders kept for the host.

No IO and no waiting here: the sync and async clients read ``send``, ``wait_until``, ``ask``,
``closing`` and ``done`` after each call and do what they say. Whatever they do the same stands
here, once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from midthought.policies import Policy
from midthought.providers import AttemptReader, Dialect
from midthought.statemachine import (
    Ask,
    Cancelled,
    ClockJumped,
    Close,
    Connection,
    Done,
    Effect,
    Emit,
    Event,
    HostEvent,
    KeepAlive,
    Phase,
    Record,
    Recovery,
    Request,
    Retract,
    Retracted,
    Rng,
    Send,
    StopUpstream,
    TimePassed,
    Wait,
    Withdraw,
    Yielded,
)

from ._clock import PausingClock, wall_time
from ._reply import Reply

__all__ = ["Sink", "TurnCore"]


class Sink(Protocol):
    """Takes a record: its name and its fields."""

    def __call__(self, name: str, fields: Mapping[str, Any]) -> None: ...


_TOLD: dict[str, HostEvent] = {
    "cancel": Cancelled("caller"),
    "abort": Cancelled("shutdown"),
    "disconnect": Cancelled("disconnect"),
    "defect": Cancelled("defect"),
    "yield": Yielded(),
}


class TurnCore:
    """State of one running turn, shared by every host."""

    def __init__(
        self,
        policy: Policy,
        dialect: Dialect,
        request: Mapping[str, Any],
        *,
        rng: Rng,
        sink: Sink,
        hooks: Collection[str] = (),
        refused: Collection[str] = (),
        turn_id: str = "",
        run_id: str = "",
        clock: PausingClock | None = None,
    ) -> None:
        self.machine = Recovery(
            policy,
            request,
            dialect,
            rng=rng,
            hooks=hooks,
            refused=refused,
            turn_id=turn_id,
            run_id=run_id,
        )
        self.policy = self.machine.policy
        self.dialect = dialect
        self.reply = Reply(self.machine)
        self.clock = clock or PausingClock()
        self._sink = sink
        self.told: deque[HostEvent] = deque()
        """What was told from outside and not yet dealt with."""
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None
        self._reader: AttemptReader | None = None
        self._sent_at = 0.0
        # Orders for the host; each is cleared by the host once it is carried out.
        self.send: Send | None = None
        self.wait_until: float | None = None
        self.ask: Ask | None = None
        self.stop_call: Request | None = None
        self.closing = False
        self.broken = False
        """The connection of the attempt broke: idle ones of its origin are suspect."""
        self.done = False
        self.ending = False
        """Somebody said that the turn is to end: what was read and not handed on is void."""
        self.deadline = 0.0
        """When to call ``tick`` if nothing else comes: the machine's, as last fed."""

    # --- what the host reports ----------------------------------------------------------------

    def begin(self) -> list[Event]:
        """Start the turn."""
        return self._carry_out(self.machine.start(self.clock.now()))

    def take_send(self) -> Send:
        """The request to open now."""
        send, self.send = self.send, None
        assert send is not None
        self._sent_at = self.clock.now()
        self._reader = AttemptReader(
            self.policy,
            self.dialect,
            send.attempt,
            model=self.machine.model,
            choices=self.dialect.choices(self.machine.request),
        )
        return send

    def headers(
        self, status: int, headers: Iterable[tuple[str, str]], connection: Connection
    ) -> list[Event]:
        """The response's status and headers arrived."""
        return self._read(
            self._now_reader().response(
                status,
                headers,
                connection=connection,
                elapsed_s=self.clock.now() - self._sent_at,
                wall_now=wall_time(),
            )
        )

    def data(self, chunk: bytes) -> list[Event]:
        """Bytes of the body arrived."""
        reader = self._reader
        if reader is None:
            return []
        now = self.clock.now()
        if now >= self.deadline:
            late = self._carry_out(self.machine.feed(TimePassed(), now))
            if self.closing or self.done:
                return late
        return self._carry_out(self.machine.feed_all(reader.feed(chunk), now))

    def ended(self) -> list[Event]:
        """The body ended in an orderly way."""
        reader = self._now_reader()
        if reader.finished and self.machine.is_open:
            raise RuntimeError("the attempt has ended, but the machine was not told: a sink raised")
        return self._read(reader.end(elapsed_s=self.clock.now() - self._sent_at))

    def broke(
        self,
        error: BaseException,
        *,
        phase: Phase | None = None,
        connection: Connection = "unknown",
    ) -> list[Event]:
        """The transport raised."""
        self.broken = True
        return self._read(
            self._now_reader().broke(
                error,
                phase=phase,
                connection=connection,
                elapsed_s=self.clock.now() - self._sent_at,
            )
        )

    def tick(self) -> list[Event]:
        """A deadline of the machine was reached, or may have been."""
        return self._carry_out(self.machine.feed(TimePassed(), self.clock.now()))

    def host(self, event: HostEvent) -> list[Event]:
        """A fact from the host itself."""
        return self._carry_out(self.machine.feed(event, self.clock.now()))

    # --- told from outside ----------------------------------------------------------------------

    def tell(self, what: str) -> None:
        """``cancel``, ``abort``, ``disconnect``, ``yield`` or ``defect``, from any thread."""
        self.ending = True
        self._tell(_TOLD[what])

    def _tell(self, event: HostEvent) -> None:
        with self._lock:
            self.told.append(event)
            wake = self._wake
        if wake is not None:
            wake()

    def jumped(self, seconds: float) -> None:
        """The machine slept; from any thread. Below ``clocks.wall_jump_s`` it does not matter."""
        if seconds > self.policy.clocks.wall_jump_s:
            self._tell(ClockJumped(seconds))

    def on_tell(self, wake: Callable[[], None] | None) -> None:
        """Call ``wake`` when something is told; at once if it already was."""
        with self._lock:
            self._wake = wake
            waiting = bool(self.told)
        if waiting and wake is not None:
            wake()

    def take_told(self) -> list[Event]:
        """Deal with what was told."""
        events: list[Event] = []
        while self.told:
            events += self.host(self.told.popleft())
        return events

    # --- effects ----------------------------------------------------------------------------------

    def _now_reader(self) -> AttemptReader:
        if self._reader is None:
            raise RuntimeError("bytes before the request was sent: take_send() comes first")
        return self._reader

    def _read(self, events: list[Event]) -> list[Event]:
        return self._carry_out(self.machine.feed_all(events, self.clock.now()))

    def _carry_out(self, effects: list[Effect]) -> list[Event]:
        events: list[Event] = []
        for effect in effects:
            if type(effect) is Emit:
                events.append(effect.event)
            else:
                self._order(effect, events)
        self.deadline = self.machine.next_deadline()
        return events

    def _order(self, effect: Effect, events: list[Event]) -> None:
        match effect:
            case Record(name, fields):
                self._sink(name, fields)
            case Retract(index):
                events.append(Retracted(self.machine.attempt, index))
            case Close():
                self.closing = True
            case Send():
                self.send, self.wait_until, self.ask = effect, None, None
            case Wait(until):
                self.wait_until = until
            case Ask():
                self.ask = effect
            case Withdraw():
                self.ask = None
            case Done():
                self.done = True
                self.send = self.wait_until = self.ask = None
            case StopUpstream(_, request):
                self.stop_call = request
            case KeepAlive():
                pass  # a native caller sees the silence for what it is
            case _:
                raise RuntimeError(f"effect {effect!r} is not known to this host")
