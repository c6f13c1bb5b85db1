"""The sync client: the same turns in plain threads. Thin: it moves bytes, ``_core`` decides."""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import httpx

from midthought.statemachine import Answered, Ask, Event, Refused, Request

from ._alarm import Alarm
from ._base_client import STOP_CALL_S, BaseClient, Opening, connection_phase, exhausted
from ._call import PreparedCall
from ._core import TurnCore
from ._encoding import inflater
from ._pool import Pools, verify
from ._reply import Reply
from ._sending import Sending
from ._sleepwatch import sleep_watch
from ._sockets import shut_down, shut_down_pending, shut_down_stream

__all__ = ["Client", "Stream"]


class Client(BaseClient):
    """Streams turns with recovery; ``http_client`` may be any ``httpx.Client``."""

    def __init__(
        self,
        policy: Any,
        *,
        http_client: httpx.Client | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(policy, **settings)
        self._pools: Pools[httpx.Client] = Pools(
            lambda limits: httpx.Client(limits=limits, timeout=None, verify=verify(self.base_url)),
            http_client,
        )

    def stream(self, call: PreparedCall) -> Stream:
        """Run the call: iterate for events, the last one is ``TurnFinished``.

        Raises ``InvalidPreparedCall`` or ``ClosedClient`` at once.
        """
        return Stream(self, self._begin(call))

    def result(self, call: PreparedCall) -> Reply:
        """Run the call to its end; raises ``RecoveryExhausted`` unless it completed."""
        with self.stream(call) as stream:
            for _ in stream:
                pass
        if stream.turn.outcome != "completed":
            raise exhausted(stream._core)
        return stream.turn

    def close(self) -> None:
        """End running turns as aborted, and close the client's own connections."""
        self._end_turns()
        for client in self._pools.drain():
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Stream:
    """The events of one turn. Leaving the loop, or ``with``, closes the response."""

    def __init__(self, client: Client, core: TurnCore) -> None:
        self._core = core
        # The generator knows only the core, so that dropping the stream finalises it at once.
        self._events = _events(client, core, _Exchange(client, core))

    def __iter__(self) -> Iterator[Event]:
        return self._events

    @property
    def turn(self) -> Reply:
        """The turn, live."""
        return self._core.reply

    def cancel(self) -> None:
        """The turn is not wanted any more; from any thread, also while a read is blocked."""
        self._core.tell("cancel")

    def abort(self) -> None:
        """The program is shutting down."""
        self._core.tell("abort")

    def yield_(self) -> None:
        """The caller takes over with what there is."""
        self._core.tell("yield")

    def close(self) -> None:
        """Close the response and end the turn, if it has not ended."""
        self._events.close()  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _events(client: Client, core: TurnCore, io: _Exchange) -> Iterator[Event]:
    clock = core.clock
    sleep_watch.add(core)
    try:
        events = core.begin()
        while True:
            if core.closing:
                io.close()
            if events:
                clock.pause()
                for event in events:
                    yield event
                    if core.ending and not core.done:
                        break  # what was told comes first; the rest of this read is void
                clock.resume()
            if core.told and not core.done:
                events = core.take_told()
            elif core.done:
                break
            else:
                events = io.step()
        io.finish()
    finally:
        sleep_watch.remove(core)
        io.abandon()
        client._learn(core)


class _Exchange:
    """The HTTP side of one turn: at most one response is open."""

    def __init__(self, client: Client, core: TurnCore) -> None:
        self._client = client
        self._core = core
        self._http: httpx.Client | None = None
        self._response: httpx.Response | None = None
        self._body: Iterator[bytes] | None = None
        self._plain: Callable[[bytes], bytes] | None = None
        self._opening: Opening | None = None
        self._woken = threading.Event()
        self._alarm = Alarm(core)
        core.on_tell(self._wake)

    def step(self) -> list[Event]:
        """Carry out the order at hand, or read on."""
        core = self._core
        if core.send is not None and self._client._pools.closed:
            core.tell("abort")
            return core.take_told()
        if core.send is not None:
            return self._open()
        if core.ask is not None:
            return self._ask(core.ask)
        if core.wait_until is not None:
            return self._wait()
        return self._next()

    def _wake(self) -> None:
        self._woken.set()
        response = self._response
        if response is not None:
            shut_down(response)

    def _left(self) -> float:
        # A little later than the machine's own time, so that it finds its clock run out.
        left = self._core.deadline - self._core.clock.now() + 0.001
        return min(max(0.0, left), threading.TIMEOUT_MAX / 2)

    def _open(self) -> list[Event]:
        core = self._core
        send = core.take_send()
        machine = core.machine
        opening = self._opening = Opening(machine.headers_s, machine.liveness_s, fresh=send.fresh)
        method, url, headers, body = self._client._http_request(core, send.request)
        http = self._http = self._client._pools.take(fresh=send.fresh)

        def trace(name: str, info: dict[str, Any]) -> None:
            opening.saw(name, info)

        request = http.build_request(
            method,
            url,
            headers=headers,
            content=body,
            extensions={"timeout": opening.timeout, "trace": trace},
        )
        # One of its own: the thread of a request that was given up still rings the old one.
        self._woken = threading.Event()
        if core.told:
            self._woken.set()
        sending = Sending(http, request, self._woken)
        if not sending.wait(self._left()):
            sending.abandon()
            # Upstream sees the end at once, and the thread that waits for it ends.
            if not shut_down_stream(opening.network_stream):
                shut_down_pending(http, opening.timeout)
            self._http = None
            self._release(http)
            events = core.take_told() if core.told else core.tick()
            if not (core.closing or core.done):
                events += core.broke(httpx.ReadTimeout("no response in time"), phase="response")
            return events
        if sending.error is not None:
            return core.broke(
                sending.error,
                phase=connection_phase(sending.error, opening),
                connection=opening.connection,
            )
        response = self._response = sending.response
        assert response is not None
        opening.responded()
        self._body, self._plain = response.iter_raw(), inflater(response)
        return core.headers(
            response.status_code, response.headers.multi_items(), opening.connection
        )

    def _next(self) -> list[Event]:
        core, body, opening = self._core, self._body, self._opening
        assert body is not None and opening is not None and self._response is not None
        if core.deadline - core.clock.now() < opening.read_s - 0.05:
            self._alarm.set(core.deadline, self._response)
        try:
            chunk = next(body)
            chunk = chunk if self._plain is None else self._plain(chunk)
        except StopIteration:
            return self._late() or core.ended()
        except (httpx.TransportError, httpx.DecodingError) as error:
            events = self._late(timed_out=isinstance(error, httpx.ReadTimeout))
            if events:
                return events
            return core.broke(error, phase="stream", connection=opening.connection)
        # Outside: what the machine's own sinks raise is no fault of the transport.
        return core.data(chunk)

    def _late(self, *, timed_out: bool = False) -> list[Event]:
        """Events of what ended the read from outside: something told, or a clock."""
        core = self._core
        if core.told:
            return core.take_told()
        if timed_out or core.deadline <= core.clock.now():
            events = core.tick()
            return events if core.closing or core.done else []
        return []

    def _wait(self) -> list[Event]:
        core = self._core
        self._woken.clear()
        if not core.told:
            self._woken.wait(self._left())
        return core.take_told() if core.told else core.tick()

    def _ask(self, ask: Ask) -> list[Event]:
        core = self._core
        core.ask = None
        try:
            answer = self._client._hooks[ask.hook](
                str(ask.question.get("kind", "")), copy.deepcopy(dict(core.machine.request))
            )
        except Exception:
            # A bug of the host: end the turn with a valid history, then let it through.
            core.tell("defect")
            core.take_told()
            raise
        # Nothing could interrupt the hook: an answer that comes too late is refused here.
        late = core.tick()
        told = Refused(ask.plan, "the hook returned None") if answer is None else None
        return [*late, *core.host(told or Answered(ask.plan, answer))]

    def close(self) -> None:
        """Close the open response at once."""
        self._core.closing = False
        self._alarm.off()
        response, http = self._response, self._http
        self._response = self._body = self._http = None
        if response is not None:
            response.close()
        if http is not None:
            self._release(http)

    def _release(self, http: httpx.Client) -> None:
        suspect, self._core.broken = self._core.broken, False
        old = self._client._pools.release(http, suspect=suspect)
        if old is not None:
            old.close()

    def finish(self) -> None:
        """After a whole reply: read the body's end, so that the connection can be used again."""
        body, response = self._body, self._response
        if body is None or response is None:
            return
        self._alarm.set(self._core.clock.now() + 0.05, response)
        try:
            for _ in body:
                pass
        except (httpx.TransportError, httpx.DecodingError):
            pass  # the reply is whole: what its connection does now is its own business

    def abandon(self) -> None:
        """The turn is over, or the caller left: nothing of ours stays open."""
        if not self._core.done:
            self._core.tell("cancel")
            self._core.take_told()
        self._core.on_tell(None)
        self.close()
        stop, self._core.stop_call = self._core.stop_call, None
        if stop is not None:
            self._stop(stop)

    def _stop(self, stop: Request) -> None:
        """The provider's own stop call; best effort, the turn is over."""
        method, url, headers, body = self._client._http_request(self._core, stop)
        http = self._client._pools.take(fresh=True)
        with contextlib.suppress(httpx.TransportError):
            http.request(method, url, headers=headers, content=body, timeout=STOP_CALL_S)
