"""The server's one thread: readiness, timers, and calls from other threads.

Knows sockets only as something that becomes ready. A callback that raises ends the loop, and the
exception is kept in `failure` for whoever joins the thread.
"""

import heapq
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Callback = Callable[[], object]
OnReady = Callable[[int], object]
Result = TypeVar("Result")

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


class Loop:
    """One selector in one thread. All but `call`, `start` and `stop` is for that thread only."""

    def __init__(self, name: str, at_end: Callback) -> None:
        """`at_end` runs last, however the loop ends, while sockets can still be unwatched."""
        self._at_end = at_end
        self._selector = selectors.DefaultSelector()
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, READ, self._drain)
        self._soon: deque[Callback] = deque()
        self._calls: deque[Callback] = deque()  # other threads wait for these
        self._timers: list[tuple[float, int, Callback]] = []
        self._timer_count = 0
        self._lock = threading.Lock()
        self._stopping = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def is_inside(self) -> bool:
        """True in the loop's own thread."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in the loop's thread and return what it returns; from any thread."""
        if self.is_inside or not self._thread.is_alive():
            return function()
        future: Future[Result] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # the caller's to see, not the loop's
                future.set_exception(error)

        with self._lock:
            if is_open := not self._closed:
                self._calls.append(run)
                self._wake()
        return future.result() if is_open else function()

    def stop(self) -> None:
        """End the thread and wait for it; idempotent, from any thread but its own."""
        with self._lock:
            self._stopping = True
            if not self._closed:
                self._wake()
        if self._thread.ident is not None:
            self._thread.join()
        elif not self._closed:
            self._shut()

    def watch(self, sock: socket.socket, events: int, ready: OnReady) -> None:
        """Call `ready(events)` when the socket is; again with other events to change them."""
        if sock.fileno() in self._selector.get_map():
            self._selector.modify(sock, events, ready)
        else:
            self._selector.register(sock, events, ready)

    def unwatch(self, sock: socket.socket) -> None:
        """Forget a socket; before it is closed."""
        if sock.fileno() in self._selector.get_map():
            self._selector.unregister(sock)

    def soon(self, callback: Callback) -> None:
        """Run a callback in the next round."""
        self._soon.append(callback)

    def later(self, delay_s: float, callback: Callback) -> None:
        """Run a callback after a delay. It cannot be taken back: let it look whether it is due."""
        self._timer_count += 1
        due = time.monotonic() + delay_s
        heapq.heappush(self._timers, (due, self._timer_count, callback))

    def _wake(self) -> None:
        try:
            self._waker.send(b"\0")
        except BlockingIOError:
            pass  # enough wake-ups are waiting

    def _drain(self, _events: int) -> None:
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            pass

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
        except BaseException as error:
            self.failure = error
        finally:
            self._shut()

    def _round(self) -> None:
        for key, events in self._selector.select(self._timeout()):
            key.data(events)
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        for waiting in (self._soon, self._calls):
            for _ in range(len(waiting)):
                waiting.popleft()()

    def _timeout(self) -> float | None:
        if self._soon:
            return 0.0
        if self._timers:
            return max(0.0, self._timers[0][0] - time.monotonic())
        return None

    def _shut(self) -> None:
        with self._lock:
            self._closed = True
        while self._calls:
            self._calls.popleft()()
        self._at_end()
        self._soon.clear()
        self._timers.clear()
        for held in (self._selector, self._waker, self._woken):
            held.close()
