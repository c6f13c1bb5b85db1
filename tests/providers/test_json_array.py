"""The framer of JSON arrays: every object a frame, every byte accounted for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._json_array import JSONArrayFramer
from midthought.providers._sse import EventTooLarge


def _frames(chunks: list[bytes]) -> tuple[list[Any], bytes, bytes]:
    """Decoded objects, all raw bytes, and the tail."""
    framer, objects, raw = JSONArrayFramer(), [], b""
    for chunk in chunks:
        for frame in framer.feed(chunk):
            assert frame.data is not None
            assert frame.data in frame.raw
            objects.append(json.loads(frame.data))
            raw += frame.raw
    return objects, raw, framer.tail


_TEXT = st.text(alphabet='ab"\\{}[],: \u00e9\U0001f600', max_size=8)
_VALUE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=6,
)


@given(
    st.lists(st.dictionaries(_TEXT, _VALUE, max_size=3), max_size=5),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(1, 9),
)
def test_objects_come_out_as_they_went_in(
    objects: list[Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    """Whatever the strings hold and however the bytes are split, each object comes out once."""
    body = json.dumps(objects, indent=indent, ensure_ascii=ascii_only).encode() + b"\r\n"
    whole = _frames([body])
    split = _frames([body[at : at + size] for at in range(0, len(body), size)])

    assert objects == whole[0] == split[0]
    for _, raw, tail in (whole, split):
        assert body == raw + tail


def test_a_frame_as_soon_as_its_last_bracket_is_there() -> None:
    """An object is handed out with its last byte, not with the comma after it."""
    framer = JSONArrayFramer()

    assert [] == framer.feed(b'[{"a": {"b": 1}')
    (frame,) = framer.feed(b"}")
    assert b'{"a": {"b": 1}}' == frame.data
    (frame,) = framer.feed(b',\r\n{"c": 2}\n]')
    assert (b',\r\n{"c": 2}', b'{"c": 2}') == (frame.raw, frame.data)
    assert b"\n]" == framer.tail
    assert framer.finish() is None


@pytest.mark.parametrize("body", [b"[", b"[]", b"[ \r\n ]", b"[null, 1, true]", b"  "])
def test_nothing_in_it_is_no_frame(body: bytes) -> None:
    """An array without objects has no frames."""
    assert [] == JSONArrayFramer().feed(body)


def test_half_an_object_is_none() -> None:
    """What was cut is never handed out, nor counted at the end."""
    framer = JSONArrayFramer()

    assert [] == framer.feed(b'[{"a": "}')
    assert framer.finish() is None


def test_what_stands_beside_the_objects() -> None:
    """Strings beside them are strings, whatever they hold; a stray bracket means nothing."""
    assert [{"a": 1}] == _frames([b'["{", "x}", {"a": 1}]'])[0]
    assert [{"a": 1}] == _frames([b'} {"a": 1} }'])[0]


def test_objects_without_an_array_are_read_too() -> None:
    """One object alone, several without commas, and server-sent events under a wrong name."""
    for body in (b'{"a": 1}', b'\xef\xbb\xbf{"a": 1}\n', b'data: {"a": 1}\r\n\r\n'):
        assert [{"a": 1}] == _frames([body])[0]
    assert [{"a": 1}, {"b": 2}] == _frames([b'{"a": 1} {"b": 2}'])[0]


def test_what_may_begin_such_a_body() -> None:
    """A page of HTML may not, brackets and events may, and what is too short to tell."""
    may_begin = JSONArrayFramer().may_begin

    assert all(map(may_begin, (b"", b" \r\n", b"[", b'{"a"', b"\xef\xbb\xbf[", b"data: {")))
    assert not may_begin(b"<html>")


def test_an_object_over_the_bound() -> None:
    """A larger object than allowed is an error, whole or not, and the ones before it are kept."""
    framer = JSONArrayFramer(20)
    with pytest.raises(EventTooLarge) as caught:
        framer.feed(b'[{"a": 1}, {"b": "' + b"x" * 30)
    assert [b'{"a": 1}'] == [frame.data for frame in caught.value.frames]
    framer = JSONArrayFramer(20)
    framer.feed(b"[{")
    with pytest.raises(EventTooLarge):
        framer.feed(b'"b": "' + b"x" * 30)


def test_a_long_string_is_read_once() -> None:
    """A string of half a megabyte that comes in small pieces takes no time to speak of."""
    body = json.dumps([{"a": 'x"' * 250_000}]).encode()

    # Read anew with each piece, this would look at 18 gigabytes.
    objects, _, _ = _frames([body[at : at + 16] for at in range(0, len(body), 16)])
    assert 500_000 == len(objects[0]["a"])
