"""The port opens and shuts as the script or the test says, and connections are kept or not."""

import contextlib
import socket
from functools import partial

import httpx
import pytest

from midthought.testing import (
    Attempt,
    FaultyUpstream,
    RecordedRequest,
    SceneError,
    cut,
    play,
    refused_port,
)

STREAM = b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n"
GET = b"GET /v1/x HTTP/1.1\r\nHost: here\r\n\r\n"
CLOSE = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
STALL = {"fault": "stall"}


def connect(upstream: FaultyUpstream) -> socket.socket:
    """A raw connection."""
    return socket.create_connection(("127.0.0.1", upstream.port), timeout=5)


def read_all(sock: socket.socket) -> tuple[bytes, str]:
    """What arrives, and whether a FIN or a reset ended it."""
    got: list[bytes] = []
    try:
        while data := sock.recv(65536):
            got.append(data)
    except ConnectionResetError:
        return b"".join(got), "rst"
    return b"".join(got), "fin"


def once_open(upstream: FaultyUpstream) -> bytes:
    """One reply, as soon as the port is open; empty if it stays shut."""
    for _ in range(500):
        with contextlib.suppress(ConnectionRefusedError), connect(upstream) as sock:
            sock.sendall(CLOSE)
            return read_all(sock)[0]
        upstream.wait_until(lambda: False, timeout_s=0.01)
    return b""


def test_refused_port() -> None:
    """Nobody listens on it, and nobody else can be given it meanwhile."""
    with refused_port() as port, httpx.Client(trust_env=False) as http:
        with pytest.raises(httpx.ConnectError, match="refused"):
            http.get(f"http://127.0.0.1:{port}")


def test_connect_refused_between_two_replies() -> None:
    """After the reply before it the port is shut, then open again, without a request used up."""
    attempts = [play(b"one"), Attempt([{"fault": "connect_refused"}]), play(b"two")]
    with FaultyUpstream(attempts, refuse_s=600) as upstream, httpx.Client(trust_env=False) as http:
        reply = http.get(upstream.url)
        assert (b"one", "close") == (reply.content, reply.headers["connection"])
        for _ in range(3):
            with pytest.raises(httpx.ConnectError, match="refused"):
                http.get(upstream.url)
        upstream.online()

        assert b"two" == http.get(upstream.url).content
        assert [0, 1] == [request.number for request in upstream.requests]


def test_connect_refused_passes_by_itself() -> None:
    """Each such entry lasts `refuse_s`; a script may begin with them, and then opens."""
    refused = Attempt([{"fault": "connect_refused"}])
    upstream = FaultyUpstream([refused, refused, play(b"ok")], refuse_s=0.01)
    with pytest.raises(ConnectionRefusedError):
        connect(upstream)  # not started yet, so no time has passed for it
    with upstream:
        assert b"ok" in once_open(upstream)
        assert 1 == len(upstream.requests)


def test_what_a_test_says_outlives_the_script() -> None:
    """The time of a scripted refusal, once ended by hand, neither shuts nor opens the port."""
    attempts = [play(b"one"), Attempt([{"fault": "connect_refused"}]), play(b"two")]
    with FaultyUpstream(attempts, refuse_s=0.01) as upstream:
        assert b"one" in once_open(upstream)
        upstream.online()
        assert b"two" in once_open(upstream)
        upstream.offline()
        upstream.wait_until(lambda: False, timeout_s=0.03)
        with pytest.raises(ConnectionRefusedError):
            connect(upstream)


def test_the_port_is_shut_before_the_last_bytes() -> None:
    """Nobody can have read the end of a reply while a connect would still be let in."""
    attempts = [Attempt([b"x" * 30_000_000, STALL]), Attempt([{"fault": "connect_refused"}])]
    with FaultyUpstream(attempts) as upstream, connect(upstream) as sock:
        sock.sendall(GET)
        assert upstream.wait_until(lambda: len(upstream.requests) == 1)
        sock.recv(200)
        with pytest.raises(ConnectionRefusedError):
            connect(upstream)


def test_online_against_the_script() -> None:
    """A port opened by hand where the script has nothing to answer with: said at the end."""
    attempts = [play(b"one"), Attempt([{"fault": "connect_refused"}])]
    with pytest.raises(SceneError, match="put the attempt that answers it at the end"):
        with FaultyUpstream(attempts, refuse_s=0) as upstream:
            for expected, end in ((b"one", "fin"), (b"", "rst")):
                upstream.online()
                with connect(upstream) as sock:
                    sock.sendall(CLOSE)
                    got, how = read_all(sock)
                assert (True, end) == (expected in got, how)


def test_a_refused_connect_that_nobody_can_meet() -> None:
    """A request that was being written while the port was shut gets the entry after the refusal."""
    refused = Attempt([{"fault": "connect_refused"}])
    attempts = [play(b"one"), refused, play(b"two"), play(b"three")]
    with FaultyUpstream(attempts, refuse_s=0.01) as upstream:
        with connect(upstream) as first, connect(upstream) as second:
            second.sendall(CLOSE[:-2] + b"Expect: 100-continue\r\nContent-Length: 1\r\n\r\n")
            assert second.recv(100).startswith(b"HTTP/1.1 100 ")
            first.sendall(CLOSE)
            assert b"one" in read_all(first)[0]
            second.sendall(b"x")

            assert b"two" in read_all(second)[0]
        assert b"three" in once_open(upstream)


def test_a_function_can_shut_the_port() -> None:
    """An answering function says offline() and online() itself."""

    def answer(request: RecordedRequest, number: int) -> Attempt:
        upstream.offline()
        return play(b"the last for now")

    with FaultyUpstream(answer) as upstream:
        with connect(upstream) as sock:
            sock.sendall(GET)
            assert b"the last" in (got := read_all(sock))[0]
            assert "fin" == got[1], "a connection is not kept where no new one could be made"
        with pytest.raises(ConnectionRefusedError):
            connect(upstream)


@pytest.mark.parametrize("fault", ["fin", "rst", "stall"])
def test_connect_refused_after_a_broken_reply(fault: str) -> None:
    """The port is shut before the client can know that its reply broke, so it never slips in."""
    attempts = [cut(STREAM, 9, fault=fault), Attempt([{"fault": "connect_refused"}])]
    for _ in range(20):
        with FaultyUpstream(attempts) as upstream, connect(upstream) as sock:
            sock.sendall(GET)
            got = b""
            while not got.endswith(STREAM[:9] + b"\r\n"):
                got += sock.recv(65536)
            if fault != "stall":
                read_all(sock)
            sock.close()
            if fault == "stall":
                first = upstream.requests[0]
                assert upstream.wait_until(partial(getattr, first, "client_closed"))
            with pytest.raises(ConnectionRefusedError):
                connect(upstream)


def test_offline_drops_idle_connections_and_lets_replies_go_on() -> None:
    """Going offline by hand: idle connections end, an open reply does not, connects are refused."""
    with FaultyUpstream([play(b"x"), Attempt(["y", STALL])]) as upstream:
        with connect(upstream) as idle, connect(upstream) as busy:
            idle.sendall(GET)
            assert upstream.wait_until(lambda: bool(upstream.requests[0:1]))
            assert upstream.wait_until(lambda: upstream.requests[0].reply_over_at is not None)
            busy.sendall(GET)
            assert upstream.wait_until(lambda: len(upstream.requests) == 2)
            upstream.offline()

            assert "fin" == read_all(idle)[1]
            with pytest.raises(ConnectionRefusedError):
                connect(upstream)
            assert upstream.wait_until(lambda: upstream.open_connections == 1)


def test_reused_is_played_on_a_kept_connection() -> None:
    """A connection that worked dies under the next request, which is what a stale one does."""
    attempts = [
        play(b"warm"),
        Attempt(status=None, framing="reused", steps=[{"fault": "rst_before_response"}]),
        play(b"fresh"),
    ]
    with FaultyUpstream(attempts) as upstream, httpx.Client(trust_env=False) as http:
        assert b"warm" == http.get(upstream.url).content
        with pytest.raises(httpx.ReadError):
            http.get(upstream.url)
        assert b"fresh" == http.get(upstream.url).content

        seen = [(request.connection, request.reused) for request in upstream.requests]
        assert [(0, False), (0, True), (1, False)] == seen
