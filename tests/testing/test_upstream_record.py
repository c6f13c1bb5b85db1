"""What a client wrote is recorded as it wrote it, and when it left is known."""

import itertools
import json
import socket
import time
from functools import partial

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.testing import Attempt, FaultyUpstream, RecordedRequest, cut, play
from midthought.testing._request import BadRequest, ParsedRequest, RequestReader

STALL = Attempt(["data: 1\n\n", {"fault": "stall"}])

PLAIN = (
    b"POST /v1/x?key=1 HTTP/1.1\r\nHost: h\r\nX-Two:  b \r\nx-two: c\r\n"
    b"Content-Length: 4\r\n\r\nbody"
)
CHUNKED = (
    b"PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\nA;ext=1\r\n0123456789\r\n0\r\ntrailer: t\r\n\r\n"
)
EMPTY = b"GET / HTTP/1.1\r\n\r\n"


def connect(upstream: FaultyUpstream) -> socket.socket:
    """A raw connection."""
    return socket.create_connection(("127.0.0.1", upstream.port), timeout=5)


def recorded(raw: bytes, count: int = 1) -> list[RecordedRequest]:
    """What the upstream recorded of these bytes on one connection."""
    with FaultyUpstream([play(b"x")]) as upstream, connect(upstream) as sock:
        sock.sendall(raw)
        assert upstream.wait_until(lambda: len(upstream.requests) == count)
        return upstream.requests


def test_recorded_byte_for_byte() -> None:
    """Method, path with query, headers in order and spelling, body, and every raw byte."""
    (request,) = recorded(PLAIN)

    assert ("POST", "/v1/x?key=1", b"body", PLAIN) == (
        request.method,
        request.path,
        request.body,
        request.raw,
    )
    assert (
        ("Host", "h"),
        ("X-Two", "b"),
        ("x-two", "c"),
        ("Content-Length", "4"),
    ) == request.headers
    assert ("b", None, "d") == (
        request.header("x-TWO"),
        request.header("x-three"),
        request.header("x-three", "d"),
    )


def test_chunked_request_bodies() -> None:
    """A chunked body is recorded both ways: joined, and as it was written."""
    (request,) = recorded(CHUNKED)

    assert (b"abc0123456789", CHUNKED) == (request.body, request.raw)


def test_json() -> None:
    """A JSON body is decoded on demand, and what is none raises the decoder's error."""
    with FaultyUpstream([play(b"x")]) as upstream:
        httpx.post(upstream.url, json={"a": "ä"}, trust_env=False)
        httpx.post(upstream.url, content=b"{", trust_env=False)
        good, bad = upstream.requests

    assert {"a": "ä"} == good.json()
    with pytest.raises(json.JSONDecodeError):
        bad.json()


def test_a_large_body() -> None:
    """Megabytes of request are recorded whole."""
    body = bytes(range(256)) * 40_000
    with FaultyUpstream([play(b"x")]) as upstream:
        httpx.post(upstream.url, content=body, trust_env=False)
        httpx.post(upstream.url, content=iter([body[:99], body[99:]]), trust_env=False)

        assert [body, body] == [request.body for request in upstream.requests]


@given(cuts=st.lists(st.integers(0, 400), max_size=12), order=st.permutations([0, 1, 2, 0]))
def test_any_split_gives_the_same_requests(cuts: list[int], order: list[int]) -> None:
    """However the bytes arrive, the same requests come out, whole and in order."""
    raws = [(PLAIN, CHUNKED, EMPTY)[number] for number in order]
    stream = b"".join(raws)
    places = sorted({0, len(stream), *(place for place in cuts if place < len(stream))})
    reader = RequestReader()
    found: list[ParsedRequest] = []
    for start, end in itertools.pairwise(places):
        reader.feed(stream[start:end])
        while (parsed := reader.next()) is not None:
            found.append(parsed)

    assert raws == [parsed.head + parsed.wire_body for parsed in found]
    assert reader.is_empty


def test_byte_by_byte() -> None:
    """The same one byte at a time: nothing is given before its last byte is there."""
    for raw in (PLAIN, CHUNKED, EMPTY):
        reader = RequestReader()
        for place in range(len(raw)):
            assert reader.next() is None
            reader.feed(raw[place : place + 1])
        parsed = reader.next()
        assert parsed is not None
        assert raw == parsed.head + parsed.wire_body


@pytest.mark.parametrize(
    "raw",
    [
        b"x" * 300_000,
        b"GET / HTTP/1.1\r\ncontent-length: four\r\n\r\n",
        b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nbroken\r\n\r\n",
        b"GET /\r\n\r\n",
    ],
)
def test_what_cannot_be_read(raw: bytes) -> None:
    """Endless heads, wrong lengths and wrong chunk sizes are no requests."""
    reader = RequestReader()
    reader.feed(raw)
    with pytest.raises(BadRequest):
        reader.next()


def test_connections_and_times() -> None:
    """Each request knows its number, its connection, whether that was used before, and when."""
    before = time.monotonic()
    with FaultyUpstream([play(b"x")]) as upstream:
        with httpx.Client(trust_env=False) as http:
            http.get(upstream.url)
            http.get(upstream.url)
        httpx.get(upstream.url, trust_env=False)
        requests = upstream.requests

    assert [(0, 0, False), (1, 0, True), (2, 1, False)] == [
        (request.number, request.connection, request.reused) for request in requests
    ]
    times = [before, *(at for one in requests for at in (one.arrived_at, one.reply_over_at or 0))]
    assert sorted(times) == times


def closed(request: RecordedRequest) -> bool:
    """True once the client's leaving was seen."""
    return request.client_closed


@pytest.mark.parametrize(
    "attempt",
    [
        STALL,
        Attempt(framing="none"),
        Attempt(["x", {"wait": 3600}, "y"]),
        Attempt(["x"], head_after_s=3600),
        Attempt([b"x" * 30_000_000]),
        cut(b"data: 1\n\n", 3, fault="stall", framing="length"),
    ],
    ids=["stall", "none", "wait", "before the head", "while writing", "stall, length"],
)
@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_client_that_leaves_is_seen(attempt: Attempt, how: str) -> None:
    """Closing or resetting before the reply is over is recorded with its time, at every stage."""
    with FaultyUpstream([attempt]) as upstream:
        with connect(upstream) as sock:
            sock.sendall(EMPTY)
            assert upstream.wait_until(lambda: len(upstream.requests) == 1)
            (request,) = upstream.requests
            assert not request.client_closed
            if how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert upstream.wait_until(partial(closed, request))
        assert request.client_closed_at is not None
        assert request.client_closed_at >= request.arrived_at
        assert request.reply_over_at is None
        assert upstream.wait_until(lambda: upstream.open_connections == 0)


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
@pytest.mark.parametrize("steps", [1, 60, 61, 62, 63, 64, 65])
def test_reading_to_the_end_is_not_leaving(framing: str, steps: int) -> None:
    """A client that closes after the last byte has not left early, however quick it is."""
    with FaultyUpstream([Attempt(["x"] * (steps - 1) + ["end"], framing=framing)]) as upstream:
        for _ in range(20):
            with connect(upstream) as sock:
                sock.sendall(EMPTY)
                got = b""
                while not got.endswith((b"end\r\n0\r\n\r\n", b"xend", b"\nend")):
                    got += sock.recv(4096)
        assert upstream.wait_until(lambda: upstream.open_connections == 0)
        requests = upstream.requests

    assert 20 == len(requests)
    assert not any(request.client_closed for request in requests)
    assert all(request.reply_over_at is not None for request in requests)


def test_a_wait_after_the_last_byte() -> None:
    """Leaving in a wait that nothing follows is early only if the client was promised an end."""
    for framing, early in (("length", False), ("close", True), ("chunked", True)):
        with FaultyUpstream([Attempt(["end", {"wait": 3600}], framing=framing)]) as upstream:
            with connect(upstream) as sock:
                sock.sendall(EMPTY)
                got = b""
                while not got.rstrip().endswith(b"end"):
                    got += sock.recv(4096)
            assert upstream.wait_until(partial(no_connection, upstream))
            (request,) = upstream.requests

        assert early == request.client_closed
        assert early == (request.reply_over_at is None)


def no_connection(upstream: FaultyUpstream) -> bool:
    """True once all connections are closed."""
    return upstream.open_connections == 0


def test_a_wait_outlives_its_client() -> None:
    """A wait that ends after the client has left does nothing, and the next client is served."""
    with FaultyUpstream([Attempt(["x", {"wait": 0.01}, "y"])]) as upstream:
        with connect(upstream) as sock:
            sock.sendall(EMPTY)
            sock.recv(4096)
        assert upstream.wait_until(partial(no_connection, upstream))
        assert "xy" == httpx.get(upstream.url, trust_env=False).text


def test_closing_before_the_next_request_is_seen_in_that_order() -> None:
    """A client that closes one connection and then writes on another is recorded in that order."""
    for _ in range(100):
        with FaultyUpstream([STALL, play(b"x")]) as upstream:
            first = connect(upstream)
            first.sendall(EMPTY)
            first.recv(1)
            first.close()
            with connect(upstream) as second:
                second.sendall(EMPTY)
                second.recv(1)
                one, two = upstream.requests

        assert one.client_closed_at is not None
        assert one.client_closed_at <= two.arrived_at


def test_sent_bytes() -> None:
    """How much of the reply was handed out is known, head and framing included."""
    with FaultyUpstream([play(b"data", framing="length")]) as upstream, connect(upstream) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        got = b""
        while data := sock.recv(4096):
            got += data
        (request,) = upstream.requests

    assert len(got) == request.sent_bytes


def test_nothing_private_is_shown() -> None:
    """The repr has no header, query or body: there may be keys and prompts in them."""
    (request,) = recorded(PLAIN.replace(b"Host: h", b"authorization: Bearer sk-1"))

    assert "<RecordedRequest 0 on connection 0: POST /v1/x, 4 bytes>" == repr(request)
