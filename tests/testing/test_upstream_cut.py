"""A recorded stream is played as it was, or cut exactly where it is told."""

import itertools
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from midthought.testing import Attempt, FaultyUpstream, ScriptError, cut, event_borders, play

STREAM = b"event: a\ndata: 1\n\ndata: \xf0\x9f\x98\x80\r\n\r\ndata: 3\r\rdata: 4\n\n"
CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus"


def chunks_of(attempt: Attempt) -> list[bytes]:
    """The body as an HTTP client sees it, chunk by chunk; a fault ends it."""
    found: list[bytes] = []
    with FaultyUpstream([attempt]) as upstream, httpx.Client(trust_env=False) as http:
        with http.stream("GET", upstream.url) as response:
            try:
                for data in response.iter_raw():
                    found.append(data)
            except (httpx.ReadError, httpx.RemoteProtocolError):
                pass
    return found


def test_cut_at_every_byte() -> None:
    """For each offset exactly that many bytes come, then the fault: 0 and the whole length too."""
    for fault in ("fin", "rst", "eof_clean"):
        attempts = [cut(STREAM, at, fault=fault) for at in range(len(STREAM) + 1)]
        with FaultyUpstream(attempts) as upstream, httpx.Client(trust_env=False) as http:
            for at in range(len(STREAM) + 1):
                got = b""
                error: Exception | None = None
                with http.stream("GET", upstream.url) as response:
                    try:
                        for data in response.iter_raw():
                            got += data
                    except httpx.TransportError as caught:
                        error = caught
                kinds = {"fin": httpx.RemoteProtocolError, "rst": httpx.ReadError}
                assert (STREAM[:at], kinds.get(fault, type(None))) == (got, type(error))


@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
def test_play_is_the_stream(framing: str) -> None:
    """Played, the bytes are those of the recording in every framing."""
    with FaultyUpstream([play(STREAM, framing=framing, headers={"x-a": "b"})]) as upstream:
        response = httpx.get(upstream.url, trust_env=False)

    assert (STREAM, "b") == (response.content, response.headers["x-a"])


SIZES: dict[str, tuple[Any, list[int]]] = {
    "one piece": (None, [len(STREAM)]),
    "by bytes": (1, [1] * len(STREAM)),
    "by tens": (10, [10, 10, 10, 10, 10]),
    "recorded": ([3, 20], [3, 20, 27]),
    "exactly": ([3, 47], [3, 47]),
    "more than there is": ([40, 40, 40], [40, 10]),
    "larger than all": (1000, [50]),
}


@pytest.mark.parametrize(("chunks", "sizes"), SIZES.values(), ids=SIZES)
def test_chunks(chunks: Any, sizes: list[int]) -> None:
    """Recorded read sizes, or one size, cut the stream into HTTP chunks; the rest is the last."""
    found = chunks_of(play(STREAM, chunks=chunks))

    assert sizes == [len(chunk) for chunk in found]
    assert STREAM == b"".join(found)


def test_chunks_of_a_cut() -> None:
    """The pieces of a cut stream are those of the whole one, up to the cut."""
    assert [b"event", b": a\nd"] == chunks_of(cut(STREAM, 10, chunks=5, fault="rst"))
    assert [] == chunks_of(cut(STREAM, 0, chunks=[5]))


def test_waits_between_pieces() -> None:
    """A pause stands before each piece but the first."""
    attempt = play(b"abc", chunks=1, wait_s=0.5)

    assert [b"a", {"wait": 0.5}, b"b", {"wait": 0.5}, b"c"] == list(attempt.steps)


@pytest.mark.parametrize("headers", [{"x-a": "b"}, [("x-a", "b")]])
def test_a_cut_length_promised_the_whole(headers: Any) -> None:
    """Under content-length the length of the whole stream was promised, at every cut."""
    with FaultyUpstream([cut(STREAM, 7, framing="length", headers=headers)]) as upstream:
        with httpx.stream("GET", upstream.url, trust_env=False) as response:
            assert str(len(STREAM)) == response.headers["content-length"]
            assert "b" == response.headers["x-a"]
            with pytest.raises(httpx.RemoteProtocolError, match="received 7 bytes, expected 50"):
                response.read()


@pytest.mark.parametrize(
    ("at", "fault", "text"),
    [
        (51, "fin", "at: expected 0 to 50, the length of the stream, not 51"),
        (-1, "fin", "at: expected 0 to 50, the length of the stream, not -1"),
        (True, "fin", "at: expected 0 to 50"),
        (1, "fni", "unknown fault 'fni'; did you mean 'fin'"),
        (1, "connect_refused", "'connect_refused' cannot cut a stream"),
    ],
)
def test_wrong_cuts(at: int, fault: str, text: str) -> None:
    """A place outside of the stream and a fault that cannot cut are refused at once."""
    with pytest.raises(ScriptError, match=text):
        cut(STREAM, at, fault=fault)


@pytest.mark.parametrize("chunks", [0, -1, [3, 0], [2.5]])
def test_wrong_chunks(chunks: Any) -> None:
    """A piece has one byte or more."""
    with pytest.raises(ScriptError, match="chunks: expected sizes of one byte or more"):
        play(STREAM, chunks=chunks)


def test_gzip_cut() -> None:
    """A cut of the compressed form is a cut like the others."""
    with FaultyUpstream([cut(STREAM, 20, fault="gzip_cut")]) as upstream:
        response = httpx.get(upstream.url, trust_env=False)

    assert (STREAM[:20], "gzip") == (response.content, response.headers["content-encoding"])


def test_event_borders() -> None:
    """After each blank line, whatever the line ends are; half a CRLF is none."""
    assert (18, 32, 41, 50) == event_borders(STREAM)
    assert () == event_borders(b"data: 1\r\n")
    assert (4,) == event_borders(b"a\n\r\nb")
    assert () == event_borders(b"")


def test_borders_split_into_events() -> None:
    """The pieces between the borders are the events, and together the stream."""
    borders = event_borders(STREAM)
    pieces = [STREAM[a:b] for a, b in itertools.pairwise([0, *borders])]

    assert STREAM == b"".join(pieces)
    assert 4 == len(pieces)
    assert all(piece.startswith((b"event", b"data")) for piece in pieces)


@pytest.mark.skipif(not CORPUS.exists(), reason="the recorded streams are not here")
def test_recorded_streams() -> None:
    """Recorded streams with their real read sizes arrive as those bytes in those pieces."""
    splits = sorted(CORPUS.glob("*/*.splits.json"))[:20]
    for path in splits:
        sizes = json.loads(path.read_text("utf-8"))["read_sizes"]
        stream = path.with_name(path.name.replace(".splits.json", ".sse")).read_bytes()
        found = chunks_of(play(stream, chunks=sizes))

        assert stream == b"".join(found)
        assert sizes == [len(chunk) for chunk in found]
    assert splits
