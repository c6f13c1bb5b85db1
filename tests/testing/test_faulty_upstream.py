"""Every framing and every fault does on the wire what the grammar says."""

import contextlib
import gzip
import socket
import zlib
from collections.abc import Iterator
from functools import partial

import anyio
import httpx
import pytest

from midthought.testing import (
    Attempt,
    FaultyUpstream,
    RecordedRequest,
    Step,
    cut,
    play,
)
from midthought.testing._faults import FAULTS, FRAMINGS

STREAM = b"event: a\ndata: 1\n\nevent: b\ndata: \xf0\x9f\x98\x80\n\n"
GET = b"GET /v1/x HTTP/1.1\r\nHost: here\r\n\r\n"
STALL = {"fault": "stall"}
RST = {"fault": "rst"}
FIN = {"fault": "fin"}
EOF = {"fault": "eof_clean"}


def connect(upstream: FaultyUpstream) -> socket.socket:
    """A raw connection."""
    return socket.create_connection(("127.0.0.1", upstream.port), timeout=5)


def read_all(sock: socket.socket) -> tuple[bytes, str]:
    """What arrives until the other end is heard of no more, and how it said so."""
    got: list[bytes] = []
    while True:
        try:
            data = sock.recv(1 << 20)
        except ConnectionResetError:
            return b"".join(got), "rst"
        except TimeoutError:
            return b"".join(got), "silence"
        if not data:
            return b"".join(got), "fin"
        got.append(data)


def wire(attempt: Attempt, request: bytes = GET) -> tuple[bytes, bytes, str]:
    """Head, body with its framing, and the end of one reply, from a raw socket."""
    with FaultyUpstream([attempt]) as upstream, connect(upstream) as sock:
        sock.sendall(request)
        got, end = read_all(sock)
    head, blank, body = got.partition(b"\r\n\r\n")
    return head + blank, body, end


@contextlib.contextmanager
def client() -> Iterator[httpx.Client]:
    """A client that asks no proxy and waits no longer than a failing test should."""
    with httpx.Client(trust_env=False, timeout=5) as found:
        yield found


CLOSE = b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"

# framing, steps, the head after the first two lines, the body as framed, the end.
WIRE = {
    "chunked": ("chunked", ["ab", "c"], b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", "fin"),
    "chunked, nothing": ("chunked", [EOF], b"0\r\n\r\n", "fin"),
    "chunked, eof_clean": ("chunked", ["ab", EOF], b"2\r\nab\r\n0\r\n\r\n", "fin"),
    "chunked, fin": ("chunked", ["ab", FIN], b"2\r\nab\r\n", "fin"),
    "chunked, rst": ("chunked", ["ab", RST], b"2\r\nab\r\n", "rst"),
    "chunked, fin at once": ("chunked", [FIN], b"", "fin"),
    "close": ("close", ["ab", "c"], b"abc", "fin"),
    "close, fin": ("close", ["ab", FIN], b"ab", "fin"),
    "close, rst": ("close", ["ab", RST], b"ab", "rst"),
    "length": ("length", ["ab", "c"], b"abc", "fin"),
    "length, fin": ("length", ["ab", FIN], b"ab", "fin"),
    "length, rst": ("length", ["ab", RST], b"ab", "rst"),
}
DELIMITER = {
    "chunked": b"transfer-encoding: chunked",
    "close": b"connection: close",
    "length": b"content-length: 3",
}


@pytest.mark.parametrize(("framing", "steps", "body", "end"), WIRE.values(), ids=WIRE)
def test_wire_bytes(framing: str, steps: list[Step], body: bytes, end: str) -> None:
    """Each framing and each end is exactly these bytes, and the end is a FIN or a reset."""
    got = wire(Attempt(steps, framing=framing), CLOSE)

    assert (HEAD + DELIMITER[framing] + b"\r\n\r\n", body, end) == got


@pytest.mark.parametrize(
    ("attempt", "end"),
    [
        (Attempt(framing="none", steps=[FIN]), "fin"),
        (Attempt(framing="none", steps=[RST]), "rst"),
        (Attempt([{"fault": "rst_before_response"}]), "rst"),
        (Attempt([{"wait": 0.001}, {"fault": "rst_before_response"}]), "rst"),
    ],
    ids=["none, fin", "none, rst", "rst_before_response", "wait, rst_before_response"],
)
def test_no_status_line(attempt: Attempt, end: str) -> None:
    """The request is taken and not one byte of an answer comes before the end."""
    assert (b"", b"", end) == wire(attempt)


def test_each_step_is_one_chunk() -> None:
    """Chunks are the steps: raw bytes, an emoji cut in two, and the rest come one by one."""
    steps: list[Step] = ["data: ", {"b64": "8J8="}, b"\x98\x80", "\n\n"]
    with FaultyUpstream([Attempt(steps)]) as upstream, client() as http:
        with http.stream("GET", upstream.url) as response:
            chunks = list(response.iter_raw())

    assert [b"data: ", b"\xf0\x9f", b"\x98\x80", b"\n\n"] == chunks


def test_head_says_what_the_script_says() -> None:
    """Status, header order and spelling are the script's; a body is JSON by default."""
    attempt = Attempt(
        status=529,
        framing="length",
        headers=[("Retry-After", "3"), ("x-a", "1"), ("x-a", "2")],
        body='{"error":{}}',
    )

    head, body, _ = wire(attempt, CLOSE)

    assert (
        b"HTTP/1.1 529 Provider Status\r\nRetry-After: 3\r\nx-a: 1\r\nx-a: 2\r\n"
        b"content-type: application/json\r\ncontent-length: 12\r\n\r\n"
    ) == head
    assert b'{"error":{}}' == body


def test_a_given_header_replaces_the_usual_one() -> None:
    """A content type, a wrong content-length: what the script names is not sent a second time."""
    attempt = Attempt(
        ["ab"], framing="length", headers={"Content-Type": "text/html", "Content-Length": "9"}
    )

    head, body, end = wire(attempt)

    assert b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n" == head
    assert (b"ab", "fin") == (body, end), "a length that is not kept cannot keep the connection"


def test_statuses_without_a_body() -> None:
    """204 has neither body nor length."""
    assert (b"HTTP/1.1 204 No Content\r\n\r\n", b"", "fin") == wire(Attempt(status=204), CLOSE)


def test_expect_continue_is_answered() -> None:
    """A client that asks first is told to go on, and its body is recorded."""
    with FaultyUpstream([Attempt(["x"])]) as upstream, connect(upstream) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == sock.recv(25)
        sock.sendall(b"hi")
        assert sock.recv(12).startswith(b"HTTP/1.1 200")

        assert b"hi" == upstream.requests[0].body


# What httpx makes of it: the three ways of reading must see the same.

HTTPX = {
    "eof_clean": (cut(STREAM, 20, fault="eof_clean"), None, None),
    "fin": (cut(STREAM, 20), httpx.RemoteProtocolError, "incomplete chunked read"),
    "fin, length": (cut(STREAM, 20, framing="length"), httpx.RemoteProtocolError, "expected 39"),
    "fin, close": (cut(STREAM, 20, framing="close"), None, None),
    "rst": (cut(STREAM, 20, fault="rst"), httpx.ReadError, None),
    "rst, length": (cut(STREAM, 20, fault="rst", framing="length"), httpx.ReadError, None),
}


@pytest.mark.parametrize(("attempt", "error", "text"), HTTPX.values(), ids=HTTPX)
def test_httpx_sync(attempt: Attempt, error: type[Exception] | None, text: str | None) -> None:
    """A synchronous client gets all bytes before the fault, and then the fault's own exception."""
    got = b""
    with FaultyUpstream([attempt]) as upstream, httpx.Client(trust_env=False, timeout=5) as http:
        with http.stream("GET", upstream.url) as response:
            with pytest.raises(error, match=text) if error else contextlib.nullcontext():
                for data in response.iter_raw():
                    got += data

    assert STREAM[:20] == got


@pytest.mark.parametrize(("attempt", "error", "text"), HTTPX.values(), ids=HTTPX)
async def test_httpx_async(
    attempt: Attempt, error: type[Exception] | None, text: str | None
) -> None:
    """So does an asynchronous one, on asyncio and on trio, with the server in the same process."""
    got = b""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
        with FaultyUpstream([attempt]) as upstream:
            async with http.stream("GET", upstream.url) as response:
                with pytest.raises(error, match=text) if error else contextlib.nullcontext():
                    async for data in response.aiter_raw():
                        got += data

    assert STREAM[:20] == got


def test_a_reset_loses_no_byte_before_it() -> None:
    """Whatever was sent before a reset can be read: also a lot of it, by a slow reader."""
    body = bytes(range(256)) * 80_000
    with FaultyUpstream([Attempt([body, RST], framing="close")]) as upstream:
        with connect(upstream) as sock:
            sock.sendall(GET)
            assert upstream.wait_until(lambda: len(upstream.requests) == 1)
            got, end = read_all(sock)

    assert (body, "rst") == (got.partition(b"\r\n\r\n")[2], end)


def test_a_slow_reader_gets_all_of_a_large_reply() -> None:
    """Megabytes wait for a client that reads late, and come whole."""
    body = bytes(range(256)) * 30_000
    with FaultyUpstream([Attempt([body, {"wait": 0}, body])]) as upstream:
        with connect(upstream) as sock:
            sock.sendall(CLOSE)
            assert upstream.wait_until(lambda: bool(upstream.requests))
            got, end = read_all(sock)

    framed = b"%x\r\n%b\r\n" % (len(body), body)
    assert (framed * 2 + b"0\r\n\r\n", "fin") == (got.partition(b"\r\n\r\n")[2], end)


def test_a_stall_is_silence_until_the_upstream_closes() -> None:
    """After the bytes nothing comes, not even an end; closing the upstream ends it."""
    upstream = FaultyUpstream([Attempt(["ab", STALL])]).start()
    with connect(upstream) as sock:
        sock.sendall(GET)
        head = sock.recv(65536)
        while not head.endswith(b"2\r\nab\r\n"):
            head += sock.recv(65536)
        sock.settimeout(0.03)
        assert (b"", "silence") == read_all(sock)
        upstream.close()
        sock.settimeout(5)

        assert b"" == read_all(sock)[0]


def test_none_is_silence_too() -> None:
    """`none` without steps never answers, and the request is there all the same."""
    with FaultyUpstream([Attempt(framing="none")]) as upstream, connect(upstream) as sock:
        sock.sendall(GET)
        sock.settimeout(0.03)

        assert (b"", "silence") == read_all(sock)
        assert ["GET"] == [request.method for request in upstream.requests]


def test_gzip_cut_is_a_stream_without_its_trailer() -> None:
    """All text can be read, the gzip stream has no end, and httpx takes that for a success."""
    attempt = Attempt(["Alpha ", "beta", {"fault": "gzip_cut"}, EOF])
    with FaultyUpstream([attempt]) as upstream, client() as http:
        silent = http.get(upstream.url)
        with http.stream("GET", upstream.url) as response:
            raw = b"".join(response.iter_raw())

    assert ("gzip", "Alpha beta") == (silent.headers["content-encoding"], silent.text)
    with pytest.raises(EOFError, match="end-of-stream"):
        gzip.decompress(raw)
    decoder = zlib.decompressobj(wbits=31)
    assert (b"Alpha beta", False) == (decoder.decompress(raw), decoder.eof)


def test_gzip_whole() -> None:
    """With `compress` and an orderly end it is a correct gzip stream, readable step by step."""
    with FaultyUpstream([Attempt(["Alpha ", "beta"], compress=True)]) as upstream:
        with client() as http, http.stream("GET", upstream.url) as response:
            raw = list(response.iter_raw())

    decoder = zlib.decompressobj(wbits=31)
    assert [b"Alpha ", b"beta", b""] == [decoder.decompress(piece) for piece in raw]
    assert decoder.eof


def test_stale_content_encoding_is_a_decoding_error() -> None:
    """A gzip header over plain text is what it is: no client can decode it."""
    attempt = Attempt(["data: plain\n\n"], headers={"content-encoding": "gzip"})
    with FaultyUpstream([attempt]) as upstream, client() as http:
        with pytest.raises(httpx.DecodingError):
            http.get(upstream.url)


@pytest.mark.parametrize("framing", ["chunked", "length", "reused"])
def test_keep_alive(framing: str) -> None:
    """Whole replies keep the connection, also for requests sent ahead of their answers."""
    attempts = [play(b"one"), Attempt(["two"], framing=framing)]
    with FaultyUpstream(attempts) as upstream, connect(upstream) as sock:
        sock.sendall(GET * 2 + CLOSE)
        got, end = read_all(sock)

        assert (1, b"two" in got, "fin") == (upstream.connection_count, True, end)
        assert [0, 1, 2] == [request.number for request in upstream.requests]


def test_requests_sent_ahead() -> None:
    """Requests that come while a reply is played are answered after it, in order, each once."""
    tail = b"0\r\n\r\n"

    def answer(request: RecordedRequest, number: int) -> Attempt:
        return Attempt(["x"] * 70 + [f"<{number}>"])

    with FaultyUpstream(answer) as upstream, connect(upstream) as sock:
        for _ in range(200):
            sock.sendall(GET)
        sock.sendall(CLOSE)
        replies = read_all(sock)[0].split(tail)

    assert [f"<{number}>" for number in range(201)] == [
        reply[reply.index(b"<") : reply.index(b">") + 1].decode() for reply in replies[:-1]
    ]


def test_nothing_is_answered_after_the_end() -> None:
    """Requests behind one whose reply ends the connection are not taken, sent before or after."""
    with FaultyUpstream([Attempt(["x"], framing="close")]) as upstream:
        with connect(upstream) as sock:
            sock.sendall(GET * 2)
            assert "fin" == read_all(sock)[1]
            sock.sendall(GET)
        assert upstream.wait_until(lambda: upstream.open_connections == 0)

        assert 1 == len(upstream.requests)


async def test_keep_alive_async() -> None:
    """A pool gets the same connection again, after chunked replies and after length ones."""
    attempts = [play(b"one"), play(b"two", framing="length"), play(b"three")]
    async with httpx.AsyncClient(trust_env=False) as http:
        with FaultyUpstream(attempts) as upstream:
            texts = [(await http.get(upstream.url)).text for _ in range(4)]

            assert ["one", "two", "three", "three"] == texts
            assert 1 == upstream.connection_count


def test_waits_are_real_and_scaled() -> None:
    """A wait is waited; scaled to nothing it is not, and the bytes are the same."""
    attempt = Attempt(["a", {"wait": 3600}, "b"], head_after_s=3600)
    with FaultyUpstream([attempt], time_scale=0) as upstream, client() as http:
        assert b"ab" == http.get(upstream.url).content

    with FaultyUpstream([attempt], time_scale=1) as upstream, connect(upstream) as sock:
        sock.sendall(GET)
        sock.settimeout(0.03)
        assert (b"", "silence") == read_all(sock)


def test_waits_come_between_their_bytes() -> None:
    """What stands before a wait arrives before it is over, the status line first of all."""
    attempt = Attempt(["a", {"wait": 3600}, "b"])
    with FaultyUpstream([attempt]) as upstream, connect(upstream) as sock:
        sock.sendall(GET)
        got = b""
        while not got.endswith(b"1\r\na\r\n"):
            got += sock.recv(65536)
        sock.settimeout(0.03)

        assert (b"", "silence") == read_all(sock)


async def test_the_event_loop_stays_free() -> None:
    """A stall leaves the event loop to the test, which can cancel; and the closing is seen."""
    async with httpx.AsyncClient(trust_env=False, timeout=5) as http:
        with FaultyUpstream([cut(STREAM, 20, fault="stall"), play(b"y")]) as upstream:
            async with http.stream("GET", upstream.url) as response:
                chunks = response.aiter_raw()
                assert STREAM[:20] == await anext(chunks)
                with anyio.move_on_after(0.02) as scope:
                    await anext(chunks)
            assert scope.cancelled_caught
            first = upstream.requests[0]
            gone = partial(getattr, first, "client_closed")
            assert await anyio.to_thread.run_sync(upstream.wait_until, gone)
            assert b"y" == (await http.get(upstream.url)).content


def test_every_word_of_the_grammar_is_known() -> None:
    """The framings and faults are those of the case files' grammar, no more and no less."""
    assert set("chunked close length none reused h2 aws-eventstream".split()) == set(FRAMINGS)
    assert (
        "eof_clean fin rst stall gzip_cut rst_before_response connect_refused "
        "h2_rst h2_goaway aws_frame clock_jump"
    ).split() == list(FAULTS)
