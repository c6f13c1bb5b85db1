"""Faults of real connections are the same kinds under both HTTP libraries, by the base policy."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import httpx2
import pytest

from midthought.policies import FailureKind, load_policy
from midthought.providers import AttemptReader, classify, get_dialect
from midthought.statemachine import Event, Failure, Finished

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
PART = b": alive\n\n"


def _reset(peer: socket.socket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextmanager
def server(act: Callable[[socket.socket], None]) -> Iterator[str]:
    """A loopback server that reads one request, does ``act``, and closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            act(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        thread.join()
        listener.close()


def _fin_before(peer: socket.socket) -> None:
    pass


def _rst_before(peer: socket.socket) -> None:
    _reset(peer)


def _not_http(peer: socket.socket) -> None:
    peer.sendall(b"SSH-2.0-server\r\n\r\n")


def _fin_in_chunks(peer: socket.socket) -> None:
    peer.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + _chunk(PART))


def _fin_in_length(peer: socket.socket) -> None:
    peer.sendall(HEAD + b"content-length: 999\r\n\r\n" + PART)


def _rst_in_chunks(peer: socket.socket) -> None:
    peer.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n" + _chunk(PART))
    peer.recv(1)  # the client says that it has read the chunk
    _reset(peer)


def _no_gzip(peer: socket.socket) -> None:
    peer.sendall(HEAD + b"content-encoding: gzip\r\n\r\n" + PART)


REAL = [
    (_fin_before, "sse_transport", "connect"),
    (_rst_before, "sse_transport", "connect"),
    (_not_http, "sse_transport", "connect"),
    (_fin_in_chunks, "sse_transport", "stream"),
    (_fin_in_length, "sse_transport", "stream"),
    (_rst_in_chunks, "sse_transport", "stream"),
    (_no_gzip, "body_decode", "stream"),
]


def _read(library: Any, url: str, prodding: bool = False) -> Failure:
    """What one attempt over this HTTP library ends as; hosts catch as widely."""
    policy = load_policy("anthropic")
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0)
    events: list[Event] = []
    try:
        with library.Client(timeout=5.0) as client, client.stream("POST", url) as response:
            events += reader.response(response.status_code, response.headers.items())
            for data in response.iter_bytes():
                events += reader.feed(data)
                if prodding:
                    response.extensions["network_stream"].write(b"x")
        events += reader.end()
    except Exception as error:
        events += reader.broke(error)
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished is events[-1]
    assert finished.failure is not None
    return finished.failure


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize(("act", "kind", "phase"), REAL, ids=[row[0].__name__ for row in REAL])
def test_real_transport_faults(
    library: Any, act: Callable[[socket.socket], None], kind: str, phase: str
) -> None:
    """Faults of a real connection are the same kinds under both HTTP libraries."""
    with server(act) as url:
        found = _read(library, url, prodding=act is _rst_in_chunks)

    assert (FailureKind(kind), phase) == (found.kind, found.phase)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_nobody_listens(library: Any) -> None:
    """A refused connection is ``connect``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

    assert (FailureKind.connect, "connect") == (
        (found := _read(library, url)).kind,
        found.phase,
    )


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_read_timeouts(library: Any) -> None:
    """Silence is ``timeout`` before the stream and ``stalled`` inside it."""
    policy = load_policy("anthropic")
    request = library.Request("POST", "http://127.0.0.1/")
    error = library.ReadTimeout("", request=request)

    assert FailureKind.timeout is classify(policy, phase="connect", exc=error).kind
    assert FailureKind.stalled is classify(policy, phase="stream", exc=error).kind
