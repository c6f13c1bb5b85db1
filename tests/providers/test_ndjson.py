"""NDJSON framing: one frame a line, with the same guarantees as the SSE framing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._ndjson import NDJSONFramer
from midthought.providers._sse import BOM, EventTooLarge, Frame

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus"
RECORDED: list[Any] = sorted(CORPUS.rglob("*.ndjson")) or [
    pytest.param(None, marks=pytest.mark.skip(reason="the corpus is not beside the project"))
]

pieces = st.sampled_from([b"{}", b'{"a":"\xc3\xa9"}', b" ", b"\r", b"\n", b"\r\n", BOM, b"\xef"])


def frames_of(*chunks: bytes) -> list[Frame]:
    """All frames that one framer hands out for the chunks."""
    framer = NDJSONFramer()
    return [frame for chunk in chunks for frame in framer.feed(chunk)]


@given(st.lists(pieces).map(b"".join), st.sampled_from([1, 2, 3, 1000]))
def test_lines_are_frames_whatever_the_chunks(stream: bytes, size: int) -> None:
    """Each line is a frame the moment its LF is there, and no byte is lost."""
    framer, raws = NDJSONFramer(), list[bytes]()
    for start in range(0, len(stream), size):
        raws += [frame.raw for frame in framer.feed(stream[start : start + size])]
        *lines, rest = stream[: start + size].split(b"\n")
        assert (raws, framer.tail) == ([line + b"\n" for line in lines], rest)


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"{}\n", [b"{}"]),
        (b"{}\r\n{}\r\n", [b"{}", b"{}"]),
        (b"\n \r\n{}\n", [None, None, b"{}"]),
        (b' {"a":\r1} \n', [b'{"a":\r1}']),
        (BOM + b"{}\n" + BOM + b"{}\n", [b"{}", BOM + b"{}"]),
    ],
)
def test_data_is_the_line_without_what_is_around_it(stream: bytes, data: list[bytes]) -> None:
    """White space and a first byte order mark are not data, and a blank line has none."""
    assert [frame.data for frame in frames_of(stream)] == data
    single = [stream[index : index + 1] for index in range(len(stream))]
    assert [frame.data for frame in frames_of(*single)] == data


def test_the_last_line_without_a_line_end_is_tried() -> None:
    """`finish` returns it marked, and nothing for a tail that is only white space."""
    framer = NDJSONFramer()
    framer.feed(b'{}\n{"done":true}')
    assert framer.finish() == Frame(b'{"done":true}', None, b'{"done":true}', unterminated=True)
    assert framer.tail == b'{"done":true}'
    blank = NDJSONFramer()
    blank.feed(BOM + b" \r")
    assert blank.finish() is None


def test_a_line_is_bounded() -> None:
    """A line above the bound raises with the whole frames before it, in one chunk or in many."""
    with pytest.raises(EventTooLarge) as caught:
        NDJSONFramer(max_bytes=10).feed(b"{}\n" + b"x" * 11)
    assert [frame.data for frame in caught.value.frames] == [b"{}"]
    framer = NDJSONFramer(max_bytes=10)
    with pytest.raises(EventTooLarge):
        for _ in range(11):
            framer.feed(b"x")


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem[:40] if path else "none")
def test_recorded_lines_come_out_whole(path: Path) -> None:
    """Every recorded stream gives its JSON documents, byte by byte as in one chunk."""
    stream = path.read_bytes()
    documents = [json.loads(line) for line in stream.decode().split("\n") if line.strip()]
    whole = NDJSONFramer()
    single = NDJSONFramer()
    frames = whole.feed(stream)
    assert [f for i in range(len(stream)) for f in single.feed(stream[i : i + 1])] == frames
    tail = whole.finish()
    found = [json.loads(f.data) for f in [*frames, *([tail] if tail else [])] if f.data]
    assert found == documents
