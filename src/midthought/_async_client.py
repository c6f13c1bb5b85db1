"""The async client: asyncio and trio. Thin: it moves bytes and waits, ``_core`` decides."""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
import httpx

from midthought.statemachine import Answered, Ask, Event, Refused, Request

from ._base_client import STOP_CALL_S, BaseClient, Opening, connection_phase, exhausted
from ._call import PreparedCall
from ._core import TurnCore
from ._encoding import inflater
from ._pool import Pools, verify
from ._reply import Reply
from ._sleepwatch import sleep_watch
from ._sockets import shut_down

__all__ = ["AsyncClient", "AsyncStream"]

_EXHAUST_READS = 1000


class AsyncClient(BaseClient):
    """Streams turns with recovery; ``http_client`` may be any ``httpx.AsyncClient``."""

    def __init__(
        self,
        policy: Any,
        *,
        http_client: httpx.AsyncClient | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(policy, **settings)
        self._pools: Pools[httpx.AsyncClient] = Pools(
            lambda limits: httpx.AsyncClient(
                limits=limits, timeout=None, verify=verify(self.base_url)
            ),
            http_client,
        )

    def stream(self, call: PreparedCall) -> AsyncStream:
        """Run the call: iterate for events, the last one is ``TurnFinished``.

        A plain function: raises ``InvalidPreparedCall`` or ``ClosedClient`` at once.
        """
        return AsyncStream(self, self._begin(call))

    async def result(self, call: PreparedCall) -> Reply:
        """Run the call to its end; raises ``RecoveryExhausted`` unless it completed."""
        stream = self.stream(call)
        async with stream:
            async for _ in stream:
                pass
        if stream.turn.outcome != "completed":
            raise exhausted(stream._core)
        return stream.turn

    async def aclose(self) -> None:
        """End running turns as aborted, and close the client's own connections."""
        self._end_turns()
        for client in self._pools.drain():
            await client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


class AsyncStream:
    """The events of one turn. Leaving the loop, or ``async with``, closes the response."""

    def __init__(self, client: AsyncClient, core: TurnCore) -> None:
        self._core = core
        # The generator knows only the core, so that dropping the stream finalises it at once.
        self._events = _events(client, core, _Exchange(client, core))

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    @property
    def turn(self) -> Reply:
        """The turn, live."""
        return self._core.reply

    def cancel(self) -> None:
        """The turn is not wanted any more."""
        self._core.tell("cancel")

    def abort(self) -> None:
        """The program is shutting down."""
        self._core.tell("abort")

    def yield_(self) -> None:
        """The caller takes over with what there is."""
        self._core.tell("yield")

    async def aclose(self) -> None:
        """Close the response and end the turn, if it has not ended."""
        await self._events.aclose()  # type: ignore[attr-defined]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _events(client: AsyncClient, core: TurnCore, io: _Exchange) -> AsyncIterator[Event]:
    clock = core.clock
    sleep_watch.add(core)
    try:
        events = core.begin()
        while True:
            if core.closing:
                await io.close()
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
                events = await io.step()
        await io.finish()
    finally:
        sleep_watch.remove(core)
        await io.abandon()
        client._learn(core)


class _Exchange:
    """The HTTP side of one turn: at most one response is open."""

    def __init__(self, client: AsyncClient, core: TurnCore) -> None:
        self._client = client
        self._core = core
        self._http: httpx.AsyncClient | None = None
        self._response: httpx.Response | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._plain: Callable[[bytes], bytes] | None = None
        self._opening: Opening | None = None
        self._scope: anyio.CancelScope | None = None
        self._soon: Callable[[Callable[[], None]], object] | None = None
        self._thread = 0

    async def step(self) -> list[Event]:
        """Carry out the order at hand, or read on."""
        core = self._core
        if core.send is not None and self._client._pools.closed:
            core.tell("abort")
            return core.take_told()
        if core.send is not None:
            return await self._open()
        if core.ask is not None:
            return await self._ask(core.ask)
        if core.wait_until is not None:
            return await self._wait()
        return await self._next()

    def _wake(self) -> None:
        """What was told ends the wait at hand; may come from another thread."""
        if threading.get_ident() == self._thread:
            self._end_wait()
        elif self._soon is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the turn with it
                self._soon(self._end_wait)

    def _end_wait(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
        elif self._response is not None:
            shut_down(self._response)

    async def _open(self) -> list[Event]:
        core = self._core
        if self._soon is None:
            # asyncio's loop or trio's token: both run a function soon, asked from any thread.
            loop: Any = anyio.lowlevel.current_token().native_token
            self._soon = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon
            self._thread = threading.get_ident()
        send = core.take_send()
        machine = core.machine
        opening = self._opening = Opening(machine.headers_s, machine.liveness_s, fresh=send.fresh)
        method, url, headers, body = self._client._http_request(core, send.request)
        self._http = self._client._pools.take(fresh=send.fresh)

        async def trace(name: str, info: dict[str, Any]) -> None:
            opening.saw(name, info)

        request = self._http.build_request(
            method,
            url,
            headers=headers,
            content=body,
            extensions={"timeout": opening.timeout, "trace": trace},
        )
        result: list[Event] | None = None
        with _Waiting(self):
            try:
                response = await self._http.send(request, stream=True)
            except httpx.TransportError as error:
                result = core.broke(
                    error,
                    phase=connection_phase(error, opening),
                    connection=opening.connection,
                )
            else:
                opening.responded()
                self._response = response
                self._body, self._plain = response.aiter_raw(), inflater(response)
                result = core.headers(
                    response.status_code, response.headers.multi_items(), opening.connection
                )
        return result if result is not None else self._interrupted()

    def _interrupted(self) -> list[Event]:
        """A wait was ended from outside: by what was told, or by a clock."""
        return self._core.take_told() if self._core.told else self._core.tick()

    async def _next(self) -> list[Event]:
        core, body, opening = self._core, self._body, self._opening
        assert body is not None and opening is not None
        left = core.deadline - core.clock.now()
        try:
            if left >= opening.read_s - 0.05:
                # httpx's own read timeout is this very clock: no second timer per chunk.
                chunk = self._inflated(await anext(body))
            else:
                chunk = None
                with _Waiting(self):
                    chunk = self._inflated(await anext(body))
        except StopAsyncIteration:
            return core.take_told() if core.told else core.ended()
        except (httpx.TransportError, httpx.DecodingError) as error:
            return self._failed(error)
        # Outside: what the machine's own sinks raise is no fault of the transport.
        return core.data(chunk) if chunk is not None else self._interrupted()

    def _inflated(self, chunk: bytes) -> bytes | None:
        return chunk if self._plain is None else self._plain(chunk)

    def _failed(self, error: Exception) -> list[Event]:
        core = self._core
        if core.told:
            return core.take_told()
        if isinstance(error, httpx.ReadTimeout):
            events = core.tick()
            if core.closing or core.done:
                return events
        connection = self._opening.connection if self._opening is not None else "unknown"
        return core.broke(error, phase="stream", connection=connection)

    async def _wait(self) -> list[Event]:
        with _Waiting(self):
            await anyio.sleep_forever()
        return self._interrupted()

    async def _ask(self, ask: Ask) -> list[Event]:
        core = self._core
        core.ask = None
        hook = self._client._hooks[ask.hook]
        answer: Any = None
        finished = False
        with _Waiting(self):
            try:
                answer = hook(
                    str(ask.question.get("kind", "")), copy.deepcopy(dict(core.machine.request))
                )
                if inspect.isawaitable(answer):
                    answer = await answer
            except Exception:
                # A bug of the host: end the turn with a valid history, then let it through.
                core.tell("defect")
                core.take_told()
                raise
            finished = True
        if not finished:
            return self._interrupted()
        if answer is None:
            return core.host(Refused(ask.plan, "the hook returned None"))
        return core.host(Answered(ask.plan, answer))

    async def close(self) -> None:
        """Close the open response at once."""
        self._core.closing = False
        response, body, http = self._response, self._body, self._http
        self._response = self._body = self._http = None
        if response is not None:
            with anyio.CancelScope(shield=True):
                await response.aclose()
        if body is not None:
            await _exhaust(body)
        if http is not None:
            await self._release(http)

    async def _release(self, http: httpx.AsyncClient) -> None:
        suspect, self._core.broken = self._core.broken, False
        old = self._client._pools.release(http, suspect=suspect)
        if old is not None:
            with anyio.CancelScope(shield=True):
                await old.aclose()

    async def finish(self) -> None:
        """After a whole reply: read the body's end, so that the connection can be used again."""
        body = self._body
        if body is None:
            return
        with anyio.move_on_after(0.05):
            try:
                async for _ in body:
                    pass
            except (httpx.TransportError, httpx.DecodingError):
                pass  # the reply is whole: what its connection does now is its own business

    async def abandon(self) -> None:
        """The turn is over, or the caller left: nothing of ours stays open."""
        if not self._core.done:
            self._core.tell("cancel")
            self._core.take_told()
        self._core.on_tell(None)
        await self.close()
        stop, self._core.stop_call = self._core.stop_call, None
        if stop is not None:
            with anyio.CancelScope(shield=True):
                await self._stop(stop)

    async def _stop(self, stop: Request) -> None:
        """The provider's own stop call; best effort, the turn is over."""
        method, url, headers, body = self._client._http_request(self._core, stop)
        http = self._client._pools.take(fresh=True)
        with contextlib.suppress(httpx.TransportError):
            await http.request(method, url, headers=headers, content=body, timeout=STOP_CALL_S)


class _Waiting:
    """A cancel scope up to the machine's deadline that ``tell`` can end."""

    def __init__(self, io: _Exchange) -> None:
        self._io = io
        core = io._core
        # A little later than the machine's own time, so that it finds its clock run out.
        left = core.deadline - core.clock.now() + 0.001
        self._scope = anyio.CancelScope(deadline=anyio.current_time() + max(0.0, left))

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._io._scope = self._scope
        self._io._core.on_tell(self._io._wake)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._io._scope = None
        return self._scope.__exit__(kind, error, trace)


async def _exhaust(body: AsyncIterator[bytes]) -> None:
    """Let httpx's generators run out, now that the response is closed.

    They are nested, and trio warns of each that is dropped half-way. What httpx had read already
    comes first; then the cancelled scope, or the closed connection, ends them all.
    """
    with anyio.CancelScope(shield=True) as scope, contextlib.suppress(Exception):
        scope.cancel()
        for _ in range(_EXHAUST_READS):
            await anext(body)
