"""What the Anthropic dialect makes of streams that break their grammar, or are no text at all."""

import json

import pytest
from anthropic_frames import (
    END,
    START,
    TEXT,
    built,
    delta,
    failed,
    frame,
    last,
    only,
    read,
    start,
    stop,
    text_of,
)
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Stop
from midthought.statemachine import BlockDelta, Heartbeat, Unknown


def test_repeats_and_strays_mean_nothing() -> None:
    """A repeated start, a repeated stop and a stop of a foreign block change nothing."""
    a = delta(0, "text_delta", text="A")
    odd = read([START, TEXT, a, TEXT, a, stop(0), stop(0), stop(7), END])

    assert ["AA"] == [block.text for block in built(odd)]
    assert Stop.end is last(odd).stop


def test_index_used_twice_is_two_blocks() -> None:
    """A new block under an old number gets a number of its own; the old one is not reopened."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    given = delta(0, "input_json_delta", partial_json="{}")
    events = read([START, TEXT, delta(0, "text_delta", text="A"), start(0, call), given, stop(0)])

    assert [("text", True), ("tool_use", True)] == [(b.kind, b.closed) for b in built(events)]


def test_half_call_under_a_number_used_again_stays_open() -> None:
    """A tool call that another start cuts off is never closed."""
    calls = [{"type": "tool_use", "id": i, "name": "n", "input": {}} for i in "ab"]
    half = delta(0, "input_json_delta", partial_json='{"a"')
    events = read([START, start(0, calls[0]), half, start(0, calls[1]), stop(0), END])

    assert [("a", False), ("b", True)] == [(b.id, b.closed) for b in built(events)]


def test_text_without_a_start_starts_a_block() -> None:
    """Text and thinking for a block that is not open are kept, in a block of their own."""
    events = read(
        [
            START,
            delta(0, "thinking_delta", thinking="hm"),
            stop(0),
            delta(1, "text_delta", text="A"),
            stop(1),
            delta(1, "text_delta", text="B"),
            END,
        ]
    )

    assert [("thinking", "hm"), ("text", "A"), ("text", "B")] == [
        (b.kind, b.text) for b in built(events)
    ]


def test_tool_input_without_a_start_is_a_broken_stream() -> None:
    """Input of a call that never started is no call, and no success either."""
    given = delta(3, "input_json_delta", partial_json='{"a":1}')

    assert FailureKind.sse_parse is failed(read([START, given, END]))


def test_index_missing_or_no_number() -> None:
    """Without a usable index the block in hand is meant."""
    events = read(
        [
            START,
            frame({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
            delta("0", "text_delta", text="A"),
            delta(None, "text_delta", text="B"),
            frame({"type": "content_block_stop"}),
            frame({"type": "content_block_start", "content_block": {"type": "text", "text": "C"}}),
            END,
        ]
    )

    assert [(0, "AB"), (1, "C")] == [(b.index, b.text) for b in built(events)]


def test_unknown_events_pass_as_they_came() -> None:
    """What the dialect does not know is handed on with its raw bytes."""
    frames = [frame({"type": "tomorrow", "a": 1}), frame("[1]", "list"), frame("[DONE]", None)]
    unknown = [e for e in read([START, *frames, END]) if isinstance(e, Unknown)]

    assert ["tomorrow", "list", "[DONE]"] == [e.type for e in unknown]
    assert frames == [e.raw for e in unknown]


def test_pings_and_empty_deltas_are_signs_of_life() -> None:
    """Pings, comments and deltas without content are heartbeats and nothing else."""
    quiet = [
        frame({"type": "ping"}),
        b": comment\n\n",
        b"event: ping\n\n",
        b"data:\n\n",
        delta(0, "text_delta", text=""),
        frame({"type": "content_block_delta", "index": 0, "delta": None}),
    ]
    events = read([START, TEXT, *quiet, END])

    assert len(quiet) == len(only(events, Heartbeat))
    assert [] == only(events, BlockDelta, Unknown)


# --- bytes ---------------------------------------------------------------------------------------


def test_emoji_split_over_two_deltas() -> None:
    """Two escaped halves of one character join; nothing that cannot be encoded is handed out."""
    halves = [
        frame(json.dumps({"type": "content_block_delta", "index": 0, "delta": one}), None)
        for one in (
            {"type": "text_delta", "text": "a\ud83d"},
            {"type": "text_delta", "text": "\ude00b"},
        )
    ]
    alone = read([START, TEXT, halves[0], stop(0), END])
    mixed = read([START, TEXT, halves[0], delta(0, "text_delta", text="x"), END])

    assert "a😀b" == text_of(read([START, TEXT, *halves, END]))
    assert ("a\ufffd", "a\ufffdx") == (text_of(alone), text_of(mixed))


def test_split_utf8() -> None:
    """A character cut between two reads arrives whole, without a replacement (case I01)."""
    raw = delta(0, "text_delta", text="@").replace(b"@", "Zoë 🚀".encode())
    data = START + TEXT + raw + END

    assert "Zoë 🚀" == text_of(read([data[i : i + 1] for i in range(len(data))]))


@pytest.mark.parametrize(
    "bad",
    [
        delta(0, "text_delta", text="@").strip().replace(b"@", b"\xff"),
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_',
        b'data: {"type":"ping"',
        b'data: {"a": "\x00"}',
        b"data: " + b"[" * 200_000,
        b"event: \xff\ndata: {}",
    ],
    ids=["utf8", "glued", "half", "nul", "deep", "name"],
)
def test_unreadable_frame_is_a_cut(bad: bytes) -> None:
    """A frame nobody can read ends the attempt as ``sse_parse``; what came before stands."""
    events = read([START + TEXT + delta(0, "text_delta", text="A") + bad + b"\n\n" + END])

    assert "A" == text_of(events)
    assert FailureKind.sse_parse is failed(events)


def test_named_tolerances() -> None:
    """Two documents in one event, and a comment inside a data line, are read (case I09)."""
    a, b = (delta(0, "text_delta", text=one).split(b"\n")[1] for one in "AB")
    events = read([START + TEXT + a + b"\n" + b + b"\n\n" + b"data: : PROCESSING\n\n" + END])

    assert "AB" == text_of(events)
    assert Stop.end is last(events).stop


def test_error_beside_the_stream() -> None:
    """An error in bare JSON, or in an ``error:`` field, is an error and not an odd line."""
    body = '{\n  "error": {\n    "message": "overloaded",\n    "code": 503\n  }\n}'
    for odd in (body, body + "\n\n", 'error: {"detail": "overloaded"}\n\n', "error: overloaded"):
        failure = last(read([START, TEXT, delta(0, "text_delta", text="A"), odd.encode()])).failure
        assert failure is not None
        assert "overloaded" == failure.message


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_types = st.sampled_from(
    "message_start content_block_start content_block_delta content_block_stop message_delta "
    "message_stop ping error text_delta input_json_delta thinking_delta text tool_use".split()
)
_odd = st.fixed_dictionaries(
    {"type": _types},
    optional={
        "index": _json,
        "message": _json | st.fixed_dictionaries({"content": _json, "usage": _json}),
        "content_block": st.fixed_dictionaries({"type": _types | _json}, optional={"input": _json}),
        "delta": _json | st.fixed_dictionaries({"type": _types}, optional={"text": _json}),
        "usage": _json,
        "error": _json,
    },
)


@given(st.lists(_odd.map(frame) | st.binary(max_size=40), max_size=12))
def test_nothing_upstream_sends_raises(frames: list[bytes]) -> None:
    """Any frames in any order: no exception, blocks that hold together, and one ``Finished``."""
    events = read([START, *frames])

    last(events)
    built(events)
