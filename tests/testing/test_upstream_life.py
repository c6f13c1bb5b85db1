"""Starting, stopping, many connections: nothing is left behind and nothing is lost."""

import contextlib
import errno
import gc
import os
import resource
import socket
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from midthought.testing import (
    Attempt,
    FaultyUpstream,
    PortUnavailable,
    RecordedRequest,
    SceneError,
    ScriptError,
    UpstreamError,
    _port,
    play,
)
from midthought.testing._loop import Loop

GET = b"GET / HTTP/1.1\r\n\r\n"
STALL = Attempt(["x", {"fault": "stall"}])
DESCRIPTORS = Path("/proc/self/fd")


def connect(upstream: FaultyUpstream) -> socket.socket:
    """A raw connection."""
    return socket.create_connection(("127.0.0.1", upstream.port), timeout=5)


def arrived(upstream: FaultyUpstream, count: int) -> bool:
    """True once so many requests are there."""
    return len(upstream.requests) == count


def descriptors() -> int:
    """How many this process has open; 0 where the system does not say."""
    return len(list(DESCRIPTORS.iterdir())) if DESCRIPTORS.exists() else 0


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Threads and descriptors of earlier tests may go meanwhile; none may come to stay."""
    gc.collect()
    threads, files = set(threading.enumerate()), descriptors()
    yield
    assert set() == set(threading.enumerate()) - threads
    assert files >= descriptors()


@pytest.mark.usefixtures("nothing_left")
def test_nothing_is_left() -> None:
    """After closing, no thread, socket or descriptor remains, whatever was going on."""
    attempts = [play(b"x"), STALL, Attempt(framing="none"), Attempt(["y", {"wait": 3600}])]
    for _ in range(20):
        with FaultyUpstream(attempts) as upstream:
            socks = [connect(upstream) for _ in range(6)]
            for sock in socks[:5]:
                sock.sendall(GET)
            socks[0].close()
            assert upstream.wait_until(partial(arrived, upstream, 5))
        for sock in socks:
            sock.close()


@pytest.mark.usefixtures("nothing_left")
def test_never_started_is_closed_too() -> None:
    """An upstream that was made and never entered gives its port back when closed."""
    FaultyUpstream([play(b"x")]).close()
    FaultyUpstream([Attempt([{"fault": "connect_refused"}])]).close()


@pytest.mark.usefixtures("nothing_left")
def test_start_and_close_from_many_threads() -> None:
    """Both may be called often and at once; closed is the last word, a new start an error."""
    upstream = FaultyUpstream([STALL])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: upstream.start(), range(16)))
        with connect(upstream) as sock:
            sock.sendall(GET)
            assert upstream.wait_until(lambda: len(upstream.requests) == 1)
            list(pool.map(lambda _: upstream.close(), range(16)))
            assert 0 == upstream.open_connections
    with pytest.raises(UpstreamError, match="make a new"):
        upstream.start()


def test_closed_port_refuses() -> None:
    """Closed means that nobody listens there."""
    with FaultyUpstream([STALL]) as upstream:
        connect(upstream).close()
    with pytest.raises(ConnectionRefusedError):
        connect(upstream)


def test_port_in_use() -> None:
    """A taken port is refused at construction, and the message says what to do."""
    with FaultyUpstream([STALL]) as upstream:
        with pytest.raises(PortUnavailable, match=rf":{upstream.port}: .*pass port=0") as caught:
            FaultyUpstream([STALL], port=upstream.port)

    assert isinstance(caught.value, OSError)
    with FaultyUpstream([play(b"x")], port=upstream.port) as again:
        assert upstream.port == again.port, "and it is free again at once"


@pytest.mark.usefixtures("nothing_left")
def test_port_taken_while_offline() -> None:
    """An upstream that is offline holds its port, but not against one that asks for it."""
    with FaultyUpstream([play(b"mine")]) as upstream:
        upstream.offline()
        with FaultyUpstream([play(b"other")], port=upstream.port):
            with pytest.raises(PortUnavailable, match="stop what listens there"):
                upstream.online()
        upstream.online()

        assert "mine" == httpx.get(upstream.url, trust_env=False).text


@pytest.mark.usefixtures("nothing_left")
def test_systems_where_two_sockets_cannot_share_a_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a second socket to hold it, the port opens and shuts all the same."""
    held: list[weakref.ref[socket.socket]] = []

    def bound(number: int) -> socket.socket:
        if any((other := ref()) is not None and other.fileno() >= 0 for ref in held):
            raise OSError(errno.EADDRINUSE, "Address already in use")
        sock = _port_bound(number)
        held.append(weakref.ref(sock))
        return sock

    _port_bound = _port._bound
    monkeypatch.setattr(_port, "_bound", bound)
    with FaultyUpstream([play(b"x")]) as upstream:
        for _ in range(3):
            assert "x" == httpx.get(upstream.url, trust_env=False).text
            upstream.offline()
            with pytest.raises(ConnectionRefusedError):
                connect(upstream)
            upstream.online()


@pytest.mark.usefixtures("nothing_left")
def test_a_defect_of_the_server_ends_it_loudly() -> None:
    """If its own thread fails, clients are cut off, closing raises the error, nothing is left."""
    upstream = FaultyUpstream([play(b"x")]).start()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    upstream._backend.asked = broken  # type: ignore[assignment]
    with connect(upstream) as sock:
        sock.sendall(GET)
        with contextlib.suppress(ConnectionResetError):
            assert b"" == sock.recv(100)
    with pytest.raises(ZeroDivisionError, match="ours"):
        upstream.close()
    upstream.close()


def test_calls_into_the_thread() -> None:
    """A call gives its result or its own error to the caller, and works after the end too."""
    loop = Loop("test", at_end=lambda: None)
    assert "before" == loop.call(lambda: "before")
    loop.start()
    assert loop.call(lambda: loop.is_inside) is True
    assert "inside" == loop.call(lambda: loop.call(lambda: "inside"))
    with pytest.raises(ZeroDivisionError):
        loop.call(lambda: 1 // 0)
    loop.stop()
    assert loop.call(lambda: loop.is_inside) is False
    loop.stop()

    assert loop.failure is None


@pytest.mark.usefixtures("nothing_left")
def test_five_hundred_at_once() -> None:
    """500 open replies are served by one thread, each to its own end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096 and (hard == resource.RLIM_INFINITY or hard >= 4096):
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))

    def answer(request: RecordedRequest, number: int) -> Attempt:
        return Attempt([f"data: {request.path}\n\n", {"wait": 0.01}, "data: end\n\n"])

    with FaultyUpstream(answer) as upstream:
        socks = [connect(upstream) for _ in range(500)]
        assert upstream.wait_until(lambda: upstream.open_connections == 500)
        threads = set(threading.enumerate())
        for number, sock in enumerate(socks):
            sock.sendall(b"GET /%d HTTP/1.1\r\nConnection: close\r\n\r\n" % number)
        bodies = []
        for sock in socks:
            with sock, sock.makefile("rb") as file:
                bodies.append(file.read().partition(b"\r\n\r\n")[2])

        assert set() == set(threading.enumerate()) - threads
    assert all(f"data: /{n}\n\n".encode() in body for n, body in enumerate(bodies))
    assert all(body.endswith(b"data: end\n\n\r\n0\r\n\r\n") for body in bodies)


@pytest.mark.usefixtures("nothing_left")
def test_two_thousand_connections() -> None:
    """A test may open thousands of connections one after the other; each is seen once."""
    with FaultyUpstream([play(b"data: 1\n\n")]) as upstream:
        for _ in range(2000):
            with connect(upstream) as sock:
                sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
                while sock.recv(4096):
                    pass
        seen = [request.connection for request in upstream.requests]

    assert list(range(2000)) == seen


def test_a_long_reply_does_not_hold_up_the_others() -> None:
    """A slow reader of a huge reply and a busy writer leave the thread free for the next client."""
    huge = Attempt([b"x" * 1000] * 20_000)
    with FaultyUpstream([huge, play(b"quick")]) as upstream, connect(upstream) as slow:
        slow.sendall(GET)
        assert upstream.wait_until(lambda: len(upstream.requests) == 1)

        assert "quick" == httpx.get(upstream.url, trust_env=False).text
        assert upstream.requests[0].reply_over_at is None


def test_answering_function() -> None:
    """A function gets each recorded request and its number, and its attempt is played."""
    asked: list[tuple[int, object]] = []

    def answer(request: RecordedRequest, number: int) -> Attempt:
        asked.append((number, request.json()))
        return play(f"reply {number}".encode())

    with FaultyUpstream(answer) as upstream, httpx.Client(trust_env=False) as http:
        texts = [http.post(upstream.url, json={"n": n}).text for n in range(3)]

    assert ["reply 0", "reply 1", "reply 2"] == texts
    assert [(0, {"n": 0}), (1, {"n": 1}), (2, {"n": 2})] == asked


def test_an_error_of_the_function_is_raised_to_the_test() -> None:
    """What the function raises resets that connection and comes out when the upstream is closed."""

    def answer(request: RecordedRequest, number: int) -> Attempt:
        if number == 0:
            raise ZeroDivisionError("mine")
        return play(b"fine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        with FaultyUpstream(answer) as upstream:
            with pytest.raises(httpx.ReadError):
                httpx.get(upstream.url, trust_env=False)
            assert "fine" == httpx.get(upstream.url, trust_env=False).text

    assert ["raised while answering request 0"] == caught.value.__notes__


@pytest.mark.parametrize(
    ("attempt", "text"),
    [
        (Attempt([{"fault": "nope"}]), "unknown fault 'nope'"),
        (Attempt([{"fault": "connect_refused"}]), r"upstream\.offline\(\)"),
    ],
)
def test_a_bad_attempt_of_the_function(attempt: Attempt, text: str) -> None:
    """A function's attempt is checked like a script."""
    with pytest.raises(ScriptError, match=text):
        with FaultyUpstream(lambda request, number: attempt) as upstream:
            with pytest.raises(httpx.ReadError):
                httpx.get(upstream.url, trust_env=False)


def test_the_function_cannot_close_its_own_upstream() -> None:
    """That would wait for itself; it is an error instead of a hang."""

    def answer(request: RecordedRequest, number: int) -> Attempt:
        upstream.close()
        return play(b"never")

    upstream = FaultyUpstream(answer).start()
    with pytest.raises(httpx.ReadError):
        httpx.get(upstream.url, trust_env=False)
    with pytest.raises(UpstreamError, match="from outside"):
        upstream.close()


def test_a_failing_test_comes_first() -> None:
    """An error of the block is not hidden by what the upstream has to say; that becomes a note."""
    with pytest.raises(AssertionError, match="the test's own") as caught:
        with FaultyUpstream([Attempt(framing="reused")]) as upstream:
            httpx.get(upstream.url, trust_env=False)
            raise AssertionError("the test's own")

    assert "the upstream also met SceneError" in caught.value.__notes__[0]


def test_reused_on_a_new_connection_is_a_wrong_scene() -> None:
    """An attempt for a kept connection that comes on a new one shows nothing, and that is said."""
    with pytest.raises(SceneError, match="put a whole reply before it"):
        with FaultyUpstream([Attempt(["x"], framing="reused")]) as upstream:
            httpx.get(upstream.url, trust_env=False)


@pytest.mark.parametrize(
    "request_bytes",
    [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/2\r\n\r\n"],
)
def test_what_is_no_request_is_a_wrong_scene(request_bytes: bytes) -> None:
    """A client that writes no HTTP gets a 400, and the test hears of it."""
    with pytest.raises(SceneError, match=r"no HTTP/1\.1 request"):
        with FaultyUpstream([play(b"x")]) as upstream, connect(upstream) as sock:
            sock.sendall(request_bytes)
            assert sock.recv(4096).startswith(b"HTTP/1.1 400 ")


def test_wait_until_gives_up() -> None:
    """A condition that never holds is reported as such, not waited for."""
    with FaultyUpstream([play(b"x")]) as upstream:
        assert upstream.wait_until(lambda: False, timeout_s=0.01) is False


def test_several_problems_come_out_together() -> None:
    """The first problem is raised and carries the others."""
    with pytest.raises(SceneError) as caught:
        with FaultyUpstream([Attempt(["x"], framing="reused")]) as upstream:
            for _ in range(2):
                httpx.get(upstream.url, trust_env=False)

    assert 1 == len(caught.value.__notes__)
    assert "request 1 came on a new connection" in caught.value.__notes__[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="counts descriptors of a POSIX process")
def test_a_limit_of_open_files_is_said() -> None:
    """Running out of descriptors is named at the end, with the remedy, and the server goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(OSError, match="open files") as caught:
        with FaultyUpstream([play(b"late")]) as upstream:
            sock = socket.socket()
            sock.settimeout(5)
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            try:
                sock.connect(("127.0.0.1", upstream.port))
                sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
                while not upstream._backend.defects:
                    upstream.wait_until(lambda: False, timeout_s=0.001)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            with sock, sock.makefile("rb") as file:
                assert b"late" in file.read()

    assert any("ulimit -n" in note for note in caught.value.__notes__)
