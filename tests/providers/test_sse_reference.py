"""The SSE framing beside httpx-sse: equal on what streams hold, and right where that one is not.

httpx-sse reads each stream through a real httpx response. Events without data are left out of the
comparison on both sides: it invents some, as the tests at the end say one by one.
"""

import base64
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._sse import BOM, EventTooLarge, Frame, InvalidFrame, SSEFramer

SHARED = Path(__file__).resolve().parents[3] / "shared"
CORPUS = SHARED / "corpus"
CASES = SHARED / "cases" / "cases.jsonl"
NOT_HERE = pytest.mark.skip(reason="the recorded streams are not beside the project")


def recorded(pattern: str) -> list[Any]:
    """Paths below the corpus as test parameters, or one that is skipped."""
    paths = sorted(CORPUS.rglob(pattern))
    return [pytest.param(path, id=f"{path.parent.name}/{path.name}") for path in paths] or [
        pytest.param(None, id="none", marks=NOT_HERE)
    ]


class Chunks(httpx.SyncByteStream):
    """A response body that arrives in these chunks; `sent` says how many were asked for."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = list(chunks)
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            self.sent += 1
            yield chunk


def reference(body: Chunks) -> Iterator[ServerSentEvent]:
    """What httpx-sse makes of the body."""
    headers = {"content-type": "text/event-stream"}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=body))
    with (
        httpx.Client(transport=transport) as client,
        client.stream("GET", "http://127.0.0.1/") as response,
    ):
        yield from EventSource(response).iter_sse()


def expected(*chunks: bytes) -> list[tuple[str, str]]:
    """Name and data of the reference's events that have data."""
    return [(event.event, event.data) for event in reference(Chunks(chunks)) if event.data]


def frames_of(*chunks: bytes) -> list[Frame]:
    """All frames that one framer hands out for the chunks."""
    framer = SSEFramer()
    return [frame for chunk in chunks for frame in framer.feed(chunk)]


def events_of(frames: Iterable[Frame]) -> list[tuple[str, str]]:
    """Name and decoded data of the frames that have data; `message` is the standard's default."""
    return [(frame.event or "message", frame.data.decode()) for frame in frames if frame.data]


def cut(stream: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut off chunks of these sizes; what remains is the last chunk."""
    chunks, start = [], 0
    for size in sizes:
        chunks.append(stream[start : start + size])
        start += size
    return [*chunks, stream[start:]]


@pytest.mark.parametrize("path", recorded("*.sse"))
def test_recorded_streams_are_read_as_the_reference_does(path: Path) -> None:
    """Whole, byte by byte and at random splits: the reference's events, and every byte kept."""
    stream = path.read_bytes()
    wanted = expected(stream)
    chance = random.Random(path.name)
    splits = [[stream], cut(stream, [1] * len(stream))]
    splits += [cut(stream, [chance.randrange(1, 400) for _ in range(999)]) for _ in range(3)]
    for chunks in splits:
        framer, frames = SSEFramer(), list[Frame]()
        for chunk in chunks:
            frames += framer.feed(chunk)
        assert events_of(frames) == wanted
        assert b"".join(frame.raw for frame in frames) + framer.tail == stream
    assert expected(*splits[-1]) == wanted


@pytest.mark.parametrize("path", recorded("*.splits.json"))
def test_real_reads_give_the_events_of_the_whole_stream(path: Path) -> None:
    """The chunks that a socket really delivered give the reference's events."""
    reads = json.loads(path.read_text("utf-8"))
    stream = (path.parent / reads["file"]).read_bytes()
    chunks = cut(stream, reads["read_sizes"])
    assert events_of(frames_of(*chunks)) == expected(*chunks) == expected(stream)


LINES = [
    "data: {}", "data:x", "data:  two", "data:", "data", "data: \u2028\x85\x0b", "data: \ufeff",
    "event: ping", "event:é", "event:", ": keep-alive", "id: 7", "retry: 10", "error: {}", "", "",
]  # fmt: skip
LINE_ENDS = ["\n", "\n", "\r\n", "\r"]
rows_of_lines = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(LINE_ENDS)))


@given(rows_of_lines, st.integers(1, 30))
def test_generated_streams_are_read_as_the_reference_does(
    rows: list[tuple[str, str]], size: int
) -> None:
    """Any mix of lines and line ends, in chunks of any size, gives the reference's events."""
    stream = "".join(line + end for line, end in rows).encode()
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert events_of(frames_of(*chunks)) == expected(*chunks) == expected(stream)


# --- the handed cases of framing -----------------------------------------------------------------


def case(name: str) -> list[bytes]:
    """The chunks of a case's first attempt."""
    if not CASES.exists():
        pytest.skip("the handed cases are not beside the project")
    rows = map(json.loads, CASES.read_text("utf-8").splitlines())
    steps = next(row for row in rows if row["id"] == name)["repro"]["attempts"][0]["steps"]
    chunks = []
    for step in steps:
        if isinstance(step, str):
            chunks.append(step.encode())
        elif "b64" in step:
            chunks.append(base64.b64decode(step["b64"]))
    return chunks


def text_of(frames: Iterable[Frame]) -> str:
    """The text that chat chunks deliver; a frame with no data, or empty data, delivers none."""
    values = [frame.data for frame in frames if frame.data and frame.data != b"[DONE]"]
    documents = map(json.loads, values)
    return "".join(d["choices"][0]["delta"].get("content", "") for d in documents)


@pytest.mark.parametrize(
    ("name", "text"),
    [("I01-utf8-split", "Zoë 🚀"), ("I02-crlf", "Alpha"), ("I03-no-space-after-colon", "Alpha")],
)
def test_handed_cases_that_the_reference_reads_too(name: str, text: str) -> None:
    """Split characters, CR and CRLF, no space after the colon: the text is whole, any split."""
    chunks = case(name)
    stream = b"".join(chunks)
    assert text_of(frames_of(*chunks)) == text
    single = frames_of(*cut(stream, [1] * len(stream)))
    assert events_of(single) == events_of(frames_of(stream)) == expected(stream)


def test_an_event_is_not_held_for_a_line_feed_that_may_follow() -> None:
    """I02. A CR at a chunk's end ends the event now; the reference waits for the next chunk."""
    chunks = [b"data: 1\r\n\r", b"\ndata: 2\r\r", b"data: 3\r\n\r\n"]
    body = Chunks(chunks)
    assert (next(reference(body)).data, body.sent) == ("1", 2)
    framer = SSEFramer()
    assert [events_of(framer.feed(chunk)) for chunk in chunks] == [
        [("message", "1")],
        [("message", "2")],
        [("message", "3")],
    ]
    framer = SSEFramer()
    for chunk in case("I02-crlf")[:-1]:
        assert bool(events_of(framer.feed(chunk))) is (chunk != b"\n")


def test_a_byte_order_mark_does_not_cost_the_first_event() -> None:
    """I08. The mark is taken from the start; the reference loses the first event's data."""
    stream = BOM + b"data: 1\n\ndata: 2\n\n"
    assert events_of(frames_of(stream)) == [("message", "1"), ("message", "2")]
    assert expected(stream) == [("message", "2")]
    assert text_of(frames_of(*case("I08-bom"))) == "Alpha"


def test_an_id_does_not_make_events_of_blank_lines() -> None:
    """I05. After one `id:` the reference makes an empty event of every keep-alive."""
    stream = b"id: 1\ndata: x\n\n: keep-alive\n\n\n"
    assert [event.data for event in reference(Chunks([stream]))] == ["x", "", ""]
    assert [(f.data, f.comment) for f in frames_of(stream)] == [
        (b"x", False),
        (None, True),
        (None, False),
    ]


def test_a_frame_without_data_is_no_event() -> None:
    """I05. Only a data field makes an event; the reference dispatches names, ids and retries."""
    stream = b"event: ping\n\nid: 1\n\nretry: 3000\n\n"
    assert len(list(reference(Chunks([stream])))) == 3
    assert [(f.event, f.data) for f in frames_of(stream)] == [
        ("ping", None),
        (None, None),
        (None, None),
    ]
    chunks = case("I05-meta-only-events")
    assert text_of(frames_of(*chunks)) == "Alpha"
    assert sum(1 for frame in frames_of(*chunks) if not frame.data) == 4


def test_an_unfinished_event_is_seen() -> None:
    """B04. The tail can be seen and tried; the reference drops it in silence."""
    stream = b'data: 1\n\ndata: {"finish_reason":"stop"}'
    assert expected(stream) == [("message", "1")]
    framer = SSEFramer()
    framer.feed(stream)
    assert framer.tail == b'data: {"finish_reason":"stop"}'
    tail = framer.finish()
    assert tail is not None
    assert (tail.data, tail.unterminated) == (b'{"finish_reason":"stop"}', True)
    framer = SSEFramer()
    framer.feed(b"".join(case("B04-last-event-no-blank-line")))
    tail = framer.finish()
    assert tail is not None
    assert json.loads(tail.data or b"")["choices"][0]["finish_reason"] == "stop"


def test_an_event_that_never_ends_is_bounded() -> None:
    """The reference keeps all of an endless event; here it is refused with its size."""
    chunks = [b"data: "] + [b"x" * 1000] * 100
    assert list(reference(body := Chunks(chunks))) == []
    assert body.sent == len(chunks)
    framer = SSEFramer(max_bytes=50_000)
    with pytest.raises(EventTooLarge) as caught:
        for chunk in chunks:
            framer.feed(chunk)
    assert (caught.value.limit_bytes, caught.value.size_bytes) == (50_000, 50_006)


def test_bytes_that_are_not_utf8_are_never_replaced() -> None:
    """Data keeps its bytes and a name is refused; the reference makes replacement characters."""
    stream = b"event: a\xff\ndata: b\xff\n\n"
    assert expected(stream) == [("a\ufffd", "b\ufffd")]
    with pytest.raises(InvalidFrame):
        frames_of(stream)
    assert [frame.data for frame in frames_of(b"data: b\xff\n\n")] == [b"b\xff"]


def test_keep_alives_and_unknown_fields_can_be_seen() -> None:
    """The reference drops comments and an `error:` field; here a clock and a rule can use them."""
    stream = b': OPENROUTER PROCESSING\n\nerror: {"detail":"try again"}\n\n'
    assert list(reference(Chunks([stream]))) == []
    first, second = frames_of(stream)
    assert first.comment
    assert second.fields == {b"error": b'{"detail":"try again"}'}


def test_the_recorded_error_field_is_kept() -> None:
    """A recorded server states its failure in a field of that name, in the middle of a stream."""
    path = CORPUS / "other"
    if not path.exists():
        pytest.skip("the recorded streams are not beside the project")
    (stream,) = (p.read_bytes() for p in path.glob("gpustack-with-extended-thinking*.sse"))
    (error,) = (frame for frame in frames_of(stream) if frame.fields)
    assert b"failed to decode" in (error.fields or {})[b"error"]
