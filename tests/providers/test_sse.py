"""SSE framing: every byte accounted for, frames at once, the standard's field rules, bounds."""

import re
import time
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._sse import (
    BOM,
    EventTooLarge,
    Frame,
    FramingError,
    InvalidFrame,
    SSEFramer,
)

LINES = [
    b"data: {}", b"data:x", b"data:  two", b"data: ", b"data:", b"data", b"datum: x", b"data : x",
    b"event: ping", b"event:delta", b"event: caf\xc3\xa9", b"event:", b"event", b": keep-alive",
    b":", b"id: 7", b"retry: 10", b"error: {}", b"\xef\xbb\xbfdata: late",
    b"data: \xe2\x80\xa8\xff", b"", b"", b"",
]  # fmt: skip
LINE_ENDS = st.sampled_from([[b"\n"], [b"\r\n"], [b"\r"], [b"\n", b"\r\n", b"\r"]])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Streams of likely and unlikely lines, with one kind of line end or all, perhaps cut."""
    line_ends = st.sampled_from(draw(LINE_ENDS))
    lines = draw(st.lists(st.tuples(st.sampled_from(LINES), line_ends), max_size=20))
    head = draw(st.sampled_from([b"", b"", BOM]))
    stream = head + b"".join(line + end for line, end in lines)
    return stream[: draw(st.integers(0, len(stream)))] if draw(st.booleans()) else stream


soups = st.lists(st.sampled_from([b"\r", b"\n", b":", b" ", b"d", b"data:", BOM, b"\xef"]))
inputs = streams() | soups.map(b"".join)
chunkings = st.sampled_from([1, 2, 3, 5, 16, 1000])


def split(stream: bytes, sizes: Iterable[int]) -> list[bytes]:
    """Cut off chunks of these sizes; what remains is the last chunk."""
    chunks, start = [], 0
    for size in sizes:
        chunks.append(stream[start : start + size])
        start += size
    return [*chunks, stream[start:]]


def frames_of(*chunks: bytes) -> list[Frame]:
    """All frames that one framer hands out for the chunks."""
    framer = SSEFramer()
    return [frame for chunk in chunks for frame in framer.feed(chunk)]


def events_of(frames: Iterable[Frame]) -> list[tuple[str, bytes]]:
    """Name and data of the frames that have data."""
    return [(frame.event or "", frame.data) for frame in frames if frame.data is not None]


def by_the_standard(stream: bytes) -> list[tuple[str, bytes]]:
    """The standard's algorithm, written down line by line: what has been dispatched so far."""
    lines = re.sub(b"\r\n|\r", b"\n", stream.removeprefix(BOM)).split(b"\n")[:-1]
    dispatched, event, values = [], b"", list[bytes]()
    for line in lines:
        name, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            if values:
                dispatched.append((event.decode(), b"\n".join(values)))
            event, values = b"", []
        elif name == b"event":
            event = value
        elif name == b"data":
            values.append(value)
    return dispatched


@given(inputs, st.lists(st.integers(0, 9)))
def test_every_byte_is_in_exactly_one_frame_or_in_the_tail(stream: bytes, sizes: list[int]) -> None:
    """The frames' raw bytes and the tail, joined, are the input, after every chunk of any size."""
    framer, fed, raws = SSEFramer(), b"", b""
    for chunk in split(stream, sizes):
        fed += chunk
        raws += b"".join(frame.raw for frame in framer.feed(chunk))
        assert raws + framer.tail == fed


@given(inputs, chunkings)
def test_events_are_those_of_the_standard_and_come_at_once(stream: bytes, size: int) -> None:
    """After every chunk of any size exactly the events the standard has dispatched are out."""
    framer, events = SSEFramer(), list[tuple[str, bytes]]()
    for start in range(0, len(stream), size):
        events += events_of(framer.feed(stream[start : start + size]))
        assert events == by_the_standard(stream[: start + size])


@given(streams(), st.lists(st.integers(0, 30)))
def test_what_a_frame_holds_does_not_depend_on_the_split(stream: bytes, sizes: list[int]) -> None:
    """Comments, names, data and unknown fields are the same whole and split."""

    def content(frames: list[Frame]) -> list[tuple[object, ...]]:
        rows = [(f.event, f.data, f.comment, f.fields) for f in frames]
        return [row for row in rows if row != (None, None, False, None)]

    assert content(frames_of(*split(stream, sizes))) == content(frames_of(stream))


@given(streams())
def test_the_tail_is_read_as_if_a_blank_line_followed(stream: bytes) -> None:
    """`finish` says what one more blank line would have said, and changes nothing."""
    framer, twin = SSEFramer(), SSEFramer()
    framer.feed(stream)
    twin.feed(stream)
    tail = framer.finish()
    assert framer.finish() == tail
    try:
        frames = twin.feed(b"\n\n")
    except InvalidFrame:  # the cut is inside a name's character
        frames = []
    assert events_of([tail] if tail else []) == events_of(frames)
    if tail is not None:
        assert (tail.raw, tail.unterminated) == (framer.tail, True)


@pytest.mark.parametrize(
    ("tail", "fields"),
    [(b"error: {}", {b"error": b"{}"}), (b"dat", None), (BOM[:2], None), (b"event: a", None)],
)
def test_a_tail_without_data_counts_only_for_an_unknown_field(
    tail: bytes, fields: dict[bytes, bytes] | None
) -> None:
    """An `error:` line that ends the stream is seen; half a line or a lone name is nothing."""
    framer = SSEFramer()
    framer.feed(tail)
    frame = framer.finish()
    assert (frame and frame.fields) == fields
    assert framer.tail == tail


@pytest.mark.parametrize(
    ("stream", "frame"),
    [
        (b"data: x\n\n", Frame(b"data: x\n\n", None, b"x")),
        (b"event: a\ndata: x\n\n", Frame(b"event: a\ndata: x\n\n", "a", b"x")),
        (b"data: x\nevent: a\n\n", Frame(b"data: x\nevent: a\n\n", "a", b"x")),
        (b"event: a\nevent: b\ndata\n\n", Frame(b"event: a\nevent: b\ndata\n\n", "b", b"")),
        (b"event: \ndata: x\n\n", Frame(b"event: \ndata: x\n\n", None, b"x")),
        (b"data: a\ndata:\ndata: b\n\n", Frame(b"data: a\ndata:\ndata: b\n\n", None, b"a\n\nb")),
        (b"data:  x\n\n", Frame(b"data:  x\n\n", None, b" x")),
        (b"data: a: b\n\n", Frame(b"data: a: b\n\n", None, b"a: b")),
        (b"data : x\n\n", Frame(b"data : x\n\n", fields={b"data ": b"x"})),
        (b"event: ping\n\n", Frame(b"event: ping\n\n", "ping")),
        (b"id: 1\nretry: 9\n\n", Frame(b"id: 1\nretry: 9\n\n")),
        (b": hi\n\n", Frame(b": hi\n\n", comment=True)),
        (b":\ndata: x\n\n", Frame(b":\ndata: x\n\n", None, b"x", comment=True)),
        (b"error: {}\n\n", Frame(b"error: {}\n\n", fields={b"error": b"{}"})),
        (b"\n", Frame(b"\n")),
        (BOM + b"data: x\n\n", Frame(BOM + b"data: x\n\n", None, b"x")),
    ],
)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_a_frame_is_read_field_by_field(stream: bytes, frame: Frame, line_end: bytes) -> None:
    """Each shape of a frame has the event, data, comment and fields that the standard gives it."""
    stream = stream.replace(b"\n", line_end)
    raw = frame.raw.replace(b"\n", line_end)
    wanted = Frame(raw, frame.event, frame.data, frame.comment, frame.fields)
    assert frames_of(stream) == [wanted]
    if line_end != b"\r\n":  # byte by byte the LF after a final CR is a blank line of its own
        assert frames_of(*split(stream, [1] * len(stream))) == [wanted]


def test_chunks_that_begin_alike_are_still_read_one_by_one() -> None:
    """A remembered beginning never decides for the next chunk: spaces, names and lines count."""
    chunks = [
        b"event: a\ndata: 1\n\n", b"event: a\ndata: 2\n\n", b"event: a\ndata:  3\n\n",
        b"event: a\ndata: 4\ndata: 5\n\n", b"event: a\ndata: 6\n\ndata: 7\n\n",
        b"data: 8\n\n", b"event: b\ndata: 9\n\n", b"event: a\ndata: \n\n", b"data:10\n\n",
        b"data: 11\n\n", b"data:\n\n", b"data: 12\r\rdata: 13\n\n", b"data: 14\n",
        b"\ndata: 15\n\n", b"data: ", b"data: 16\n\n",
        b"data: 17\nd", b"ata: 18\n\n", b"data:  19\r\n\r\n", b"data:  20\n\n",
    ]  # fmt: skip
    assert events_of(frames_of(*chunks)) == [
        ("a", b"1"), ("a", b"2"), ("a", b" 3"), ("a", b"4\n5"), ("a", b"6"), ("", b"7"),
        ("", b"8"), ("b", b"9"), ("a", b""), ("", b"10"), ("", b"11"), ("", b""),
        ("", b"12"), ("", b"13"), ("", b"14"), ("", b"15"), ("", b"data: 16"),
        ("", b"17\n18"), ("", b" 19"), ("", b" 20"),
    ]  # fmt: skip


def test_a_byte_order_mark_counts_only_at_the_very_start() -> None:
    """One mark is taken from the first frame, split or not; later ones are the server's bytes."""
    stream = BOM + b"data: 1\n\n" + BOM + b"data: 2\n\n" + b"data: " + BOM + b"3\n\n"
    for frames in (frames_of(stream), frames_of(*split(stream, [1] * len(stream)))):
        assert events_of(frames) == [("", b"1"), ("", BOM + b"3")]
        assert frames[1].fields == {BOM + b"data": b"2"}
    after_first = frames_of(b"data: 1\n\n", BOM + b"data: 2\n\n")
    assert events_of(after_first) == [("", b"1")]


def test_a_name_that_is_not_utf8_is_refused_and_nothing_before_it_is_lost() -> None:
    """`InvalidFrame` carries the whole frames before it; no replacement character is made up."""
    with pytest.raises(InvalidFrame, match="not UTF-8") as caught:
        SSEFramer().feed(b"event: a\ndata: 1\n\nevent: \xff\ndata: 2\n\ndata: 3\n\n")
    assert events_of(caught.value.frames) == [("a", b"1")]
    with pytest.raises(InvalidFrame):
        SSEFramer().feed(b"id: 1\nevent: \xff\n\n")
    cut = SSEFramer()
    cut.feed(b"data: 1\nevent: caf\xc3")
    assert cut.finish() is None


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_one_event_is_bounded_however_it_arrives(size: int) -> None:
    """An event of `max_bytes` passes and one byte more raises, finished or not, in any chunks."""
    event = b"data: " + b"x" * 92 + b"\n\n"
    framer = SSEFramer(max_bytes=100)
    for start in range(0, len(event), size):
        frames = framer.feed(event[start : start + size])
    assert len(frames) == 1
    for too_large in (b"data: " + b"x" * 93 + b"\n\n", b"data: " + b"x" * 95, b"event: x\n" * 12):
        framer = SSEFramer(max_bytes=100)
        with pytest.raises(EventTooLarge, match="at most 100") as caught:
            for start in range(0, len(too_large), size):
                framer.feed(too_large[start : start + size])
        assert caught.value.limit_bytes == 100
        assert 100 < caught.value.size_bytes <= 108


def test_frames_before_an_event_that_is_too_large_are_handed_over() -> None:
    """The error carries the whole frames of its chunk, and says nothing of their content."""
    small = b"data: secret\n\n"
    for large in (b"data: " + b"x" * 100, b"data: " + b"x" * 100 + b"\n\n" + small):
        with pytest.raises(FramingError) as caught:
            SSEFramer(max_bytes=100).feed(small * 20 + large)
        assert [frame.raw for frame in caught.value.frames] == [small] * 20
        assert "secret" not in str(caught.value)
    assert len(SSEFramer(max_bytes=100).feed(small * 20)) == 20


def test_a_bound_below_one_byte_is_refused() -> None:
    """A framer that could never hand out anything is a mistake of its caller."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        SSEFramer(max_bytes=0)


def test_an_event_in_many_chunks_costs_as_much_per_byte_as_in_few() -> None:
    """Work grows with the bytes, not with their square: no rescan of what is already held."""

    def seconds(size: int) -> float:
        stream, best = b"data: " + b"x" * size + b"\n\n", float("inf")
        for _ in range(3):
            framer, begin = SSEFramer(), time.process_time()
            for index in range(len(stream)):
                framer.feed(stream[index : index + 1])
            best = min(best, time.process_time() - begin)
            assert framer.tail == b""
        return best

    assert seconds(160_000) < 20 * seconds(20_000)  # 8 when linear, 64 when quadratic


def test_names_of_a_hostile_server_do_not_pile_up() -> None:
    """Decoded names are kept for reuse only up to a bound, and right beyond it."""
    from midthought.providers import _sse

    stream = b"".join(b"event: n%d\ndata: x\n\n" % index for index in range(3000))
    assert [frame.event for frame in frames_of(stream)] == [f"n{index}" for index in range(3000)]
    assert len(_sse._event_names) <= 512
