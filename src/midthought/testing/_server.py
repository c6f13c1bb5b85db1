"""`FaultyUpstream`: a loopback HTTP/1.1 server that breaks as it is told.

The life cycle and what a test may look at; the work is done in one thread of its own
(`_backend.py`), so that it serves synchronous code and any event loop alike.
"""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from ._answers import Answer, Answers, Called, Scripted
from ._backend import Backend
from ._errors import UpstreamError
from ._port import HOST, Port
from ._record import RecordedRequest
from ._script import Attempt, check
from ._steps import seconds


class FaultyUpstream:
    """A scripted upstream on a loopback port; a context manager.

    `attempts` has one entry per request, the last one repeating, or is a function of the recorded
    request and its number. `port` 0 takes any free port. `time_scale` multiplies every wait of
    the script. A `connect_refused` entry keeps the port shut for `refuse_s` seconds, counted from
    the end of the reply before it.

    Raises at once: ScriptError with all that is wrong with the script, UnsupportedStep for what
    needs another server, PortUnavailable. On closing, what the answering function raised is
    raised again, and SceneError where a request did not come as its attempt needs it.
    """

    def __init__(
        self,
        attempts: Sequence[Attempt] | Answer,
        *,
        port: int = 0,
        time_scale: float = 1.0,
        refuse_s: float = 0.05,
    ) -> None:
        numbers = {"time_scale": time_scale, "refuse_s": refuse_s}
        answers = _checked(attempts, port, numbers)
        self._port = Port(port)
        self._lifecycle = threading.Lock()
        self._started = self._closed = False
        try:
            if not answers.refused_next:
                self._port.listen()
            self._backend = Backend(answers, self._port, time_scale, refuse_s)
        except BaseException:
            self._port.close()
            raise

    # Life.

    def start(self) -> Self:
        """Start to answer; entering the context does it. Raises UpstreamError after `close`."""
        with self._lifecycle:
            if self._closed:
                raise UpstreamError("this upstream is closed; make a new FaultyUpstream")
            if not self._started:
                self._started = True
                self._backend.loop.start()
                self._backend.loop.call(self._backend.started)
        return self

    def close(self) -> None:
        """Close every connection, give the port back, end the thread; idempotent, any thread.

        Raises the first of what went wrong meanwhile, the others as its notes; see the class.
        """
        loop = self._backend.loop
        if loop.is_inside:
            raise UpstreamError("close the upstream from outside its answering function")
        with self._lifecycle:
            if self._closed:
                return
            self._closed = True
            loop.stop()
        self._raise_defects()

    def _raise_defects(self) -> None:
        defects = self._backend.defects
        if self._backend.loop.failure is not None:
            defects.append(self._backend.loop.failure)
        if defects:
            first, *others = defects
            for other in others:
                first.add_note(f"and {type(other).__name__}: {other}")
            raise first

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; a failure of the block comes first, and ours becomes a note on it."""
        try:
            self.close()
        except BaseException as defect:
            if error is None:
                raise
            error.add_note(f"the upstream also met {type(defect).__name__}: {defect}")

    # What it is and what it saw.

    @property
    def port(self) -> int:
        """The port, the same for the whole life, also while it is shut."""
        return self._port.number

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a slash at the end."""
        return f"http://{HOST}:{self.port}"

    @property
    def requests(self) -> list[RecordedRequest]:
        """Every request so far, in order of arrival: a new list of the live records."""
        with self._backend.changed:
            return list(self._backend.requests)

    @property
    def connection_count(self) -> int:
        """Connections accepted so far."""
        return self._backend.connection_count

    @property
    def open_connections(self) -> int:
        """Connections that neither side has closed yet."""
        return len(self._backend.connections)

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 5.0) -> bool:
        """Block until the condition holds; it is asked after each thing that the server sees.

        Returns whether it holds. The condition only looks. Async code runs this in a thread.
        """
        with self._backend.changed:
            return self._backend.changed.wait_for(condition, timeout_s)

    # What it can be told while it runs.

    def offline(self) -> None:
        """Refuse connects and drop idle connections, until `online`. Open replies go on."""
        self._backend.loop.call(self._backend.go_offline)

    def online(self) -> None:
        """Accept again; `connect_refused` entries that are next in the script are used up."""
        self._backend.loop.call(self._backend.go_online)


def _checked(attempts: Sequence[Attempt] | Answer, port: int, numbers: dict[str, float]) -> Answers:
    """Look at everything that was given, and name all that is wrong in one error."""
    faults = [
        f"{name}: expected a number, zero or more, not {value!r}"
        for name, value in numbers.items()
        if seconds(value) is None
    ]
    if type(port) is not int or not 0 <= port <= 65535:
        faults.append(f"port: expected 0 to 65535, not {port!r}")
    if callable(attempts):
        check((), faults=faults)
        return Called(attempts)
    if not isinstance(attempts, Sequence) or not attempts:
        faults.append("attempts: expected a list of Attempt, one or more, or a function")
        check((), faults=faults)
    check(attempts, faults=faults)
    return Scripted(attempts)
