"""AWS event-stream messages: cut anywhere they are the same frames; damage ends the stream."""

import struct
import sys
from zlib import crc32

import pytest
from aws_messages import chunk, error, event, exception, message
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._aws_frames import (
    AWSFramer,
    CorruptFrame,
    MissingBotocore,
    message_type,
    parser,
)
from midthought.providers._sse import EventTooLarge, Frame

pytest.importorskip("botocore")

MESSAGES = [
    event("messageStart", {"role": "assistant"}),
    chunk({"type": "ping"}),
    exception("throttlingException", {"message": "slow down"}),
    error("InternalFailure", "oh"),
    exception("modelStreamErrorException"),
    message({":message-type": "event", ":event-type": "empty"}),
]


def frames(chunks: list[bytes]) -> list[Frame]:
    """All frames of these reads."""
    framer = AWSFramer()
    return [frame for chunk in chunks for frame in framer.feed(chunk)]


def test_what_a_frame_holds() -> None:
    """The event's name and payload; an exception or error says what it is, and always has data."""
    found = frames(MESSAGES)

    assert MESSAGES == [frame.raw for frame in found]
    assert ["messageStart", "chunk", "throttlingException", "InternalFailure"] == [
        frame.event for frame in found[:4]
    ]
    assert b'{"role": "assistant"}' == found[0].data
    assert ["event", "event", "exception", "error", "exception", "event"] == [
        message_type(frame) for frame in found
    ]
    assert [b'{"message": "slow down"}', b'{"message":"oh"}', b'{"message":""}', None] == [
        frame.data for frame in found[2:]
    ]


@given(st.data())
def test_split_anywhere(data: st.DataObject) -> None:
    """Any way to split the bytes gives the same frames; frames and tail are all the bytes."""
    body = b"".join(MESSAGES)
    end = data.draw(st.integers(0, len(body)))
    places = sorted(data.draw(st.lists(st.integers(0, end), max_size=8)))
    framer, found = AWSFramer(), list[Frame]()
    for start, stop in zip([0, *places], [*places, end], strict=True):
        found += framer.feed(body[start:stop])

    assert frames(MESSAGES)[: len(found)] == found
    assert body[:end] == b"".join(frame.raw for frame in found) + framer.tail
    assert framer.finish() is None


@pytest.mark.parametrize("place", [0, 2, 5, 9, 13, 30, -6, -1])
def test_damage(place: int) -> None:
    """One wrong byte in a message: what came whole before it counts, the rest is unreadable."""
    good, bad = MESSAGES[0], bytearray(MESSAGES[2])
    bad[place] ^= 0xFF
    framer = AWSFramer()

    with pytest.raises((CorruptFrame, EventTooLarge)) as caught:
        framer.feed(good + bytes(bad) + MESSAGES[1] * 5)
    assert [good] == [frame.raw for frame in caught.value.frames]


def test_damage_is_seen_at_once() -> None:
    """A damaged prelude is refused when it is there, not when its length has come."""
    broken = bytearray(MESSAGES[0])
    broken[8] ^= 1
    with pytest.raises(CorruptFrame, match="ChecksumMismatch"):
        AWSFramer().feed(bytes(broken[:12]))


@pytest.mark.parametrize(("size", "headers"), [(0, 0), (12, 0), (40, 30)])
def test_lengths_that_cannot_be(size: int, headers: int) -> None:
    """A message shorter than its own frame is refused although its prelude adds up."""
    prelude = struct.pack("!II", size, headers)
    with pytest.raises(CorruptFrame, match="lengths"):
        AWSFramer().feed(prelude + struct.pack("!I", crc32(prelude)))


def test_headers_that_cannot_be_read() -> None:
    """Right checksums around nonsense, or a header twice: damaged, and no other exception."""
    nonsense = [b"\xff\x01", b"\x01a\x63", b"\x01a\x07\x00\x02\xff\xfe", b"\x01a\x04\x00"]
    twice = message({":message-type": "event"}, raw_headers=b"\x0d:message-type\x00")
    for one in [message({}, raw_headers=raw) for raw in nonsense] + [twice]:
        try:
            found = AWSFramer().feed(one)
        except CorruptFrame:
            continue
        assert [one] == [frame.raw for frame in found]


def test_header_types() -> None:
    """Headers of every type are read past; one of ours that is no text counts as absent."""
    others = (
        b"\x01a\x00" b"\x01b\x01" b"\x01c\x02\x05" b"\x01d\x03\x00\x05" b"\x01e\x04\x00\x00\x00\x05"
    )  # fmt: skip
    more = b"\x01f\x05" + bytes(8) + b"\x01g\x06\x00\x01x" + b"\x01h\x08" + bytes(8)
    number = b"\x0b:event-type\x02\x05"
    one = message({":message-type": "event"}, b"{}", raw_headers=others + more + number)

    (frame,) = AWSFramer().feed(one)
    assert (None, b"{}") == (frame.event, frame.data)


def test_limits() -> None:
    """A message above the limit is refused by its prelude, before its bytes have come."""
    large = event("chunk", {"bytes": "x" * 5000})
    with pytest.raises(EventTooLarge, match="expected at most 1024"):
        AWSFramer(1024).feed(MESSAGES[0] + large[:12])
    assert [large] == [frame.raw for frame in AWSFramer(len(large)).feed(large)]


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where botocore is not installed, the error says what to install."""
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.delitem(sys.modules, "botocore.eventstream", raising=False)
    with pytest.raises(MissingBotocore, match=r"midthought\[bedrock\]"):
        parser()
