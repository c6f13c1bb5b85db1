"""A proxy in front of a real server that breaks its streams where it is told, for real.

It reads event streams event by event and passes them on as they come. ``split_tokens`` sends every
piece of text character by character, as gateways that re-chunk do, so that a cut can fall inside a
token. Imports nothing else of midthought but the kit's errors.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from ._errors import PortUnavailable, UpstreamError

__all__ = ["Cut", "Cutter"]

HOST = "127.0.0.1"
_RESET = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)  # closing sends a reset
_CHUNK_BYTES = 65536
#: Of the request: what is about this connection only, and what would compress the answer.
_NOT_PASSED_ON = frozenset(
    {"accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where and how one reply breaks.

    After ``at`` events, or characters of text: an event whose text would pass ``at`` is not sent.
    ``into_event`` bytes of the next event still get through. ``how``: a TCP ``reset``, a ``close``
    (FIN) without the end of the body, or ``silence`` until the client goes away.
    """

    at: int
    unit: Literal["characters", "events"] = "characters"
    how: Literal["reset", "close", "silence"] = "reset"
    into_event: int = 0

    def __post_init__(self) -> None:
        if self.at < 0 or self.into_event < 0:
            raise ValueError(f"at and into_event count from 0, not {self.at}, {self.into_event}")


class Cutter:
    """A context manager: reply i of ``upstream`` (a URL) is broken by ``cuts[i]``.

    ``None`` there, or no entry: passed on whole; so is all that is no event stream. ``requests``
    holds the JSON bodies that came. Knows the text of Chat Completions, Responses and Anthropic
    Messages. Every reply has a connection of its own. Raises ``PortUnavailable``.
    """

    def __init__(
        self,
        upstream: str,
        cuts: Sequence[Cut | None],
        *,
        split_tokens: bool = False,
        port: int = 0,
    ) -> None:
        where = urlsplit(upstream)
        if where.scheme != "http" or not where.hostname:
            raise UpstreamError(f"upstream is {upstream!r}, expected the http://… of a server")
        self._target = (where.hostname, where.port or 80)
        self._prefix = where.path.rstrip("/")
        self._cuts = cuts
        self._split = split_tokens
        self._lock = threading.Lock()
        self._server = _listening(port)
        self._server.cutter = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True, name="cutter"
        )
        self.requests: list[Any] = []
        self.url = f"http://{HOST}:{self._server.server_address[1]}"

    def _begin(self, body: bytes) -> Cut | None:
        """Note a request; how its reply shall break."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(json.loads(body))
        return self._cuts[number] if number < len(self._cuts) else None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    """One thread per connection; ``hang_up`` ends those that still run, closing joins them."""

    allow_reuse_address = sys.platform != "win32"
    cutter: Cutter

    def __init__(self, port: int) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._hung_up = False
        super().__init__((HOST, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """In the accepting thread: nothing that was accepted escapes ``hang_up``."""
        self.watch(request)
        super().process_request(request, client_address)

    def watch(self, connection: socket.socket) -> None:
        """Hang this one up too."""
        with self._lock:
            self._open.add(connection)
            if self._hung_up:
                _wake(connection)

    def forget(self, connection: socket.socket) -> None:
        """It is closed."""
        with self._lock:
            self._open.discard(connection)

    def hang_up(self) -> None:
        """Wake every thread that waits on a connection."""
        with self._lock:
            self._hung_up = True
            for connection in self._open:
                _wake(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """One of the two ends has gone, which is what this is about; a defect is shown."""
        if not isinstance(sys.exc_info()[1], OSError | http.client.HTTPException):
            super().handle_error(request, client_address)


def _wake(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _listening(port: int) -> _Server:
    try:
        return _Server(port)
    except OSError as error:
        raise PortUnavailable(
            error.errno,
            f"cannot listen on {HOST}:{port}: {error.strerror}; "
            "pass port=0 for any free port, or stop what listens there",
        ) from error


class _Handler(BaseHTTPRequestHandler):
    """One request and its reply."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def finish(self) -> None:
        """Close; a cut has closed it before."""
        self.server.forget(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_POST(self) -> None:
        """Ask upstream the same; pass its answer on, until the cut."""
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        cutter = self.server.cutter
        cut = cutter._begin(body)
        upstream = http.client.HTTPConnection(*cutter._target)
        upstream.connect()
        with contextlib.closing(upstream.sock) as connection:
            self.server.watch(connection)
            try:
                upstream.request("POST", cutter._prefix + self.path, body, self._passed_on())
                with upstream.getresponse() as response:
                    whole = self._answer(response, cut, split=cutter._split)
            finally:
                self.server.forget(connection)
        if not whole and cut is not None:
            self._break(cut)

    def _passed_on(self) -> dict[str, str]:
        return {k: v for k, v in self.headers.items() if k.lower() not in _NOT_PASSED_ON}

    def _answer(self, response: http.client.HTTPResponse, cut: Cut | None, *, split: bool) -> bool:
        """Pass the answer on; false if the cut came."""
        kind = response.headers.get("content-type", "")
        self.send_response(response.status)
        self.send_header("content-type", kind)
        self.send_header("connection", "close")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if not kind.startswith("text/event-stream"):
            self._chunk(response.read())
        elif not self._stream(_pieces(response, split=split), cut):
            return False
        self.wfile.write(b"0\r\n\r\n")
        return True

    def _stream(self, pieces: Iterator[tuple[bytes, str]], cut: Cut | None) -> bool:
        """Pass pieces on; false once the cut has come."""
        if cut is None:
            for event, _ in pieces:
                self._chunk(event)
            return True
        left = cut.at
        for event, text in pieces:
            size = 1 if cut.unit == "events" else len(text)
            if left == 0 or size > left:
                self._chunk(event[: cut.into_event])
                return False
            self._chunk(event)
            left -= size
            if left == 0 and not cut.into_event:
                return False  # now, not when the next event comes
        return True

    def _chunk(self, data: bytes) -> None:
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _break(self, cut: Cut) -> None:
        if cut.how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.connection.close()
        elif cut.how == "silence":
            while self.connection.recv(_CHUNK_BYTES):
                pass


def _pieces(response: http.client.HTTPResponse, *, split: bool) -> Iterator[tuple[bytes, str]]:
    """Whole events, as they come, with the text that each brings."""
    rest = b""
    while chunk := response.read1(_CHUNK_BYTES):
        *events, rest = (rest + chunk).split(b"\n\n")
        for event in events:
            yield from _read(event + b"\n\n", split=split)
    if rest:
        yield rest, ""


def _read(event: bytes, *, split: bool) -> Iterator[tuple[bytes, str]]:
    head, mark, data = event.partition(b"data: ")
    frame = json.loads(data) if data.startswith(b"{") else {}
    holder, key = _holder(frame)
    text = holder.get(key) or ""
    if not split or len(text) < 2:
        yield event, text
        return
    for character in text:
        holder[key] = character
        yield head + mark + json.dumps(frame).encode() + b"\n\n", character


def _holder(frame: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The object of a frame that holds its text, and under which key."""
    if choices := frame.get("choices"):
        return choices[0].get("delta") or {}, "content"
    if frame.get("type") == "response.output_text.delta":
        return frame, "delta"
    delta = frame.get("delta")
    return (delta, "text") if isinstance(delta, dict) else ({}, "text")
