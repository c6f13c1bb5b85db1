"""The server behind `FaultyUpstream`: accepts, records, answers, opens and shuts the port.

Everything that is not said to be for any thread runs in the loop's thread. `changed` guards what
other threads read and is notified after each thing that the server sees.
"""

import errno
import threading
import time

from ._answers import Answers
from ._connection import Connection
from ._errors import SceneError
from ._loop import READ, Loop
from ._plan import Plan
from ._port import Port
from ._record import RecordedRequest
from ._request import BadRequest, ParsedRequest

ACCEPTS = 128  # connections taken before the others get their turn
ACCEPT_PAUSE_S = 0.05


class Backend:
    """One running script. Implements what `_connection.Host` asks for."""

    def __init__(self, answers: Answers, port: Port, time_scale: float, refuse_s: float) -> None:
        self.time_scale = time_scale
        self.changed = threading.Condition()
        self.requests: list[RecordedRequest] = []
        self.connections: set[Connection] = set()
        self.connection_count = 0
        self.defects: list[BaseException] = []
        self._answers = answers
        self._port = port
        self._refuse_s = refuse_s
        self._turn = 0  # of the port, so that an outdated timer does nothing
        self._refused_after: RecordedRequest | None = None
        self.loop = Loop(f"faulty-upstream-{port.number}", at_end=self._shut)
        self._accept_again()

    @property
    def is_listening(self) -> bool:
        """False while connects are refused."""
        return self._port.listener is not None

    def started(self) -> None:
        """The loop runs; a script may begin with a refused connect."""
        if self._answers.refused_next:
            self._count_refusal()

    # The port opens and shuts.

    def go_offline(self) -> None:
        """Refuse connects and drop the idle connections."""
        self._turn += 1
        self._refused_after = None
        self._stop_listening()
        self._port.refuse()
        for connection in list(self.connections):
            if connection.is_idle:
                connection.close()

    def go_online(self) -> None:
        """Accept; refused connects that are next in the script are used up."""
        self._turn += 1
        self._refused_after = None
        while self._answers.refused_next and self._answers.pass_refusal():
            pass
        self._port.listen()
        self._accept_again()

    def _accept_again(self) -> None:
        if self._port.listener is not None:
            self.loop.watch(self._port.listener, READ, self._accept)

    def _stop_listening(self) -> None:
        if self._port.listener is not None:
            self.loop.unwatch(self._port.listener)

    def _count_refusal(self) -> None:
        """Let one refused connect last; the port opens when no further one follows it."""
        self._turn += 1
        turn = self._turn

        def over() -> None:
            if turn != self._turn:
                return
            if self._answers.refused_next and not self._answers.pass_refusal():
                return  # the script's last word
            if self._answers.refused_next:
                self._count_refusal()
            else:
                self.go_online()

        self.loop.later(self._refuse_s, over)

    def _accept(self, _events: int) -> None:
        listener = self._port.listener
        if listener is None:
            return
        for _ in range(ACCEPTS):
            try:
                sock, _peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            connection = Connection(sock, self.connection_count, self, self.loop)
            with self.changed:
                self.connection_count += 1
                self.connections.add(connection)
                self.changed.notify_all()

    def _pause_accepting(self, error: OSError) -> None:
        """Out of descriptors, most likely: said at the end, and tried again a little later."""
        if error.errno in (errno.EMFILE, errno.ENFILE):
            error.add_note("raise the limit of open files (ulimit -n) or open fewer connections")
        self.defects.append(error)
        self._stop_listening()
        self.loop.later(ACCEPT_PAUSE_S, self._accept_again)

    def _shut(self) -> None:
        for connection in list(self.connections):
            connection.close()
        self._stop_listening()
        self._port.close()

    # What the connections ask and tell.

    def asked(
        self, connection: Connection, parsed: ParsedRequest
    ) -> tuple[RecordedRequest, Plan] | None:
        """Record a request and find its reply; None where there is none to give."""
        reused = connection.request_count > 0
        with self.changed:
            request = RecordedRequest.of(
                parsed,
                number=len(self.requests),
                connection=connection.number,
                reused=reused,
                at=time.monotonic(),
            )
            self.requests.append(request)
            self.changed.notify_all()
        try:
            plan = self._answers.plan(request)
        except BaseException as error:  # the test's own, raised to it when it closes us
            error.add_note(f"raised while answering request {request.number}")
            self.defects.append(error)
            return None
        if plan.needs_reused and not reused:
            self._wrong_scene(
                f"request {request.number} came on a new connection, and its attempt has framing "
                "'reused': put a whole reply before it and keep the client's connection"
            )
        if plan.refused:
            self._wrong_scene(
                f"request {request.number} was let in by online(), and the script ends with "
                "'connect_refused': put the attempt that answers it at the end"
            )
            return None
        return request, plan

    def bad_request(self, connection: Connection, error: BadRequest) -> None:
        """A client that writes no HTTP is a finding."""
        self._wrong_scene(
            f"connection {connection.number} carried no HTTP/1.1 request: {error}; "
            "it was answered with 400"
        )

    def _wrong_scene(self, text: str) -> None:
        self.defects.append(SceneError(text))

    def ending(self, request: RecordedRequest) -> None:
        """Shut the port before the client can know that this reply is over."""
        if self._answers.refused_next and self._port.listener is not None:
            self.go_offline()
            self._refused_after = request

    def replied(self, request: RecordedRequest) -> None:
        """Note the end of a reply."""
        with self.changed:
            request.reply_over_at = time.monotonic()
            self.changed.notify_all()
        self._over(request)

    def left(self, request: RecordedRequest) -> None:
        """Note that the client went away."""
        with self.changed:
            request.client_closed = True
            request.client_closed_at = time.monotonic()
            self.changed.notify_all()
        self._over(request)

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        with self.changed:
            self.connections.discard(connection)
            self.changed.notify_all()

    def _over(self, request: RecordedRequest) -> None:
        if request is self._refused_after:
            self._refused_after = None
            self._count_refusal()
