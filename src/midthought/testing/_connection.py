"""One accepted connection: requests in, plans played out.

Plays bytes, pauses and ends exactly as the plan has them and knows no framing. Runs in the loop's
thread only.
"""

import socket
import struct
import sys
from typing import Protocol

from ._loop import READ, WRITE, Loop
from ._plan import End, Op, Pause, Plan, Write
from ._record import RecordedRequest
from ._request import BadRequest, ParsedRequest, RequestReader

if sys.platform == "linux":
    import fcntl
    import termios

READ_BYTES = 256 * 1024
READS = 16  # before the other connections get their turn
BURST = 64  # operations before the other connections get their turn
RESET_POLL_S = 0.001
RESET_POLLS = 2000

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class Host(Protocol):
    """What a connection asks of its server, and tells it."""

    time_scale: float

    @property
    def is_listening(self) -> bool:
        """False while connects are refused."""

    def asked(
        self, connection: "Connection", parsed: ParsedRequest
    ) -> tuple[RecordedRequest, Plan] | None:
        """The record and the reply to a request, or None: reset the connection."""

    def bad_request(self, connection: "Connection", error: BadRequest) -> None:
        """The client wrote something that is no request."""

    def ending(self, record: RecordedRequest) -> None:
        """The last bytes of this reply, or its end, come next; may be said twice."""

    def replied(self, record: RecordedRequest) -> None:
        """The reply is over."""

    def left(self, record: RecordedRequest) -> None:
        """The client went away before the reply was over."""

    def closed(self, connection: "Connection") -> None:
        """The connection is gone."""


class Connection:
    """State of one socket. `is_open` ends once; `is_idle` between two requests."""

    def __init__(self, sock: socket.socket, number: int, host: Host, loop: Loop) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.request_count = 0
        self.is_open = True
        self._sock = sock
        self._host = host
        self._loop = loop
        self._reader = RequestReader()
        self._record: RecordedRequest | None = None
        self._ops: tuple[Op, ...] = ()
        self._at = 0
        self._keep = True
        self._out = memoryview(b"")
        self._events = READ
        self._draining = False
        self._asking = False
        loop.watch(sock, READ, self._ready)

    @property
    def is_idle(self) -> bool:
        """True while no reply is being found or played and nothing of a request has come."""
        busy = self._asking or self._draining or self._record is not None
        return not busy and self._reader.is_empty

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self.is_open:
            self.is_open = False
            self._loop.unwatch(self._sock)
            self._sock.close()
            self._host.closed(self)

    # What the selector says.

    def _ready(self, events: int) -> None:
        if self.is_open and events & READ:
            self._read()
        if self.is_open and events & WRITE:
            self._play()

    def _watch(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._loop.watch(self._sock, events, self._ready)

    def _read(self) -> None:
        """Take all there is: a FIN behind a request is seen before any other connection's bytes."""
        ended = False
        for _ in range(READS):
            try:
                data = self._sock.recv(READ_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:  # a reset is one way of going away
                data = b""
            if ended := not data:
                break
            if not self._draining:
                self._reader.feed(data)
        self._next_request()
        if ended:
            self._gone()

    def _gone(self) -> None:
        """The client closed or reset; during a wait after the last byte it has left nothing out."""
        record, self._record = self._record, None
        if record is not None:
            if not self._out and self._ops[self._at :] == (End("finish"),):
                self._host.replied(record)
            else:
                self._host.left(record)
        self.close()

    # What is asked.

    def _next_request(self) -> None:
        if not self.is_open or self._draining or self._record is not None:
            return
        try:
            parsed = self._reader.next()
        except BadRequest as error:
            self._host.bad_request(self, error)
            self._send_now(_BAD_REQUEST)
            self._shut_down()
            return
        if parsed is None:
            if self._reader.wants_continue():
                self._send_now(_CONTINUE)
            return
        self._asking = True  # the answer may be given by a function that shuts the port
        answer = self._host.asked(self, parsed)
        self._asking = False
        self.request_count += 1
        if answer is None:
            self._reset()
            return
        self._record, plan = answer
        self._keep = plan.keep_alive and not parsed.wants_close
        self._ops, self._at = plan.ops, 0
        self._play()

    # What is played.

    def _play(self) -> None:
        """Go on until something has to be waited for, or others should have their turn."""
        for _ in range(BURST):
            if not self.is_open or self._record is None:
                return
            if self._out and not self._flush():
                return
            op = self._ops[self._at]
            self._at += 1
            if isinstance(op, Write):
                if isinstance(self._ops[self._at], End):
                    self._host.ending(self._record)
                self._out = memoryview(op.data)
            elif isinstance(op, Pause):
                self._loop.later(op.seconds * self._host.time_scale, self._play)
                return
            else:
                self._end(op)
                return
        self._loop.soon(self._play)

    def _flush(self) -> bool:
        """True when nothing is left to write."""
        try:
            sent = self._sock.send(self._out)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._gone()
            return False
        if self._record is not None:
            self._record.sent_bytes += sent
        self._out = self._out[sent:]
        self._watch(READ | WRITE if self._out else READ)
        return not self._out

    def _send_now(self, data: bytes) -> None:
        """A few bytes outside of any plan, on a connection with nothing else to write."""
        try:
            self._sock.send(data)
        except OSError:
            pass  # a client that has gone is noticed by reading

    def _end(self, op: End) -> None:
        assert self._record is not None
        self._host.ending(self._record)
        if op.kind == "stall":
            return
        if op.kind == "rst":
            self._reset_when_read(RESET_POLLS)
            return
        record, self._record = self._record, None
        if op.kind == "fin" or not self._keep or not self._host.is_listening:
            self._shut_down()
        else:
            self._loop.soon(self._next_request)
        self._host.replied(record)

    def _shut_down(self) -> None:
        """Send a FIN. Closing now would turn it into a reset if the client still writes."""
        self._draining = True
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()

    def _reset_when_read(self, polls: int) -> None:
        """Reset once all bytes have arrived: a reset throws away what is still on its way."""
        if not self.is_open:
            return
        if polls and _unsent_bytes(self._sock):
            self._loop.later(RESET_POLL_S, lambda: self._reset_when_read(polls - 1))
            return
        record, self._record = self._record, None
        self._reset()
        if record is not None:
            self._host.replied(record)

    def _reset(self) -> None:
        linger = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
        try:
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        except OSError:
            pass  # the client was quicker
        self.close()


def _unsent_bytes(sock: socket.socket) -> int:
    """Bytes that the other end has not acknowledged; 0 where the system cannot say."""
    if sys.platform == "linux":
        answer = fcntl.ioctl(sock, termios.TIOCOUTQ, b"\0\0\0\0")
        return int.from_bytes(answer, sys.byteorder)
    return 0
