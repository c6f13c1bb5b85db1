"""Gemini replies of several candidates, and the other bodies that a reply may come in."""

import json
from typing import Any

import pytest
from gemini_frames import (
    JSON,
    built,
    call,
    failed,
    frame,
    last,
    only,
    read,
    says,
    stop,
    text_of,
    thinks,
)

from midthought.policies import FailureKind, Stop
from midthought.statemachine import BlockStarted, StopKnown

# --- several candidates ---------------------------------------------------------------------------


def test_candidates_have_their_own_blocks() -> None:
    """Blocks of another candidate say so; the stop fact waits for all of them."""

    def at(index: int, *parts: str, **more: Any) -> dict[str, Any]:
        return {"index": index, "content": {"parts": [{"text": p} for p in parts]}, **more}

    events = read(
        [
            frame({"candidates": [at(0, "A"), at(1, "B")]}),
            frame({"candidates": [at(1, "b", finishReason="MAX_TOKENS")]}),
            frame({"candidates": [at(0, "a", finishReason="STOP")]}),
        ],
        choices=2,
    )
    (known,) = only(events, StopKnown)

    assert [("Aa", None), ("Bb", {"choice": 1})] == [(b.text, b.data) for b in built(events)]
    assert (Stop.end, {"candidates": {"0": "STOP", "1": "MAX_TOKENS"}}) == (
        known.stop,
        known.details,
    )


def test_a_second_candidate_that_comes_late() -> None:
    """Its first text is not taken for more of the first one's."""
    late = {"candidates": [{"index": 1, "content": {"parts": [{"text": "B"}]}}]}
    events = read([says("A"), says("a"), frame(late), says("a")])

    assert [("Aaa", None), ("B", {"choice": 1})] == [(b.text, b.data) for b in built(events)]


def test_one_candidate_after_the_other() -> None:
    """With the request's number known, the first one's end is not the reply's."""
    first = says("A", finishReason="STOP")
    second = frame({"candidates": [{"index": 1, "content": {"parts": [{"text": "B"}]}}]})

    assert FailureKind.premature_end is failed(read([first, second], choices=2))
    assert [Stop.end] == [e.stop for e in only(read([first], choices=1), StopKnown)]


# --- other bodies ---------------------------------------------------------------------------------

REPLY = [
    {"candidates": [{"content": {"parts": [thinks("hm")]}}], "responseId": "r"},
    {"candidates": [{"content": {"parts": [{"text": "Alpha"}]}}]},
    {"candidates": [{"content": {"parts": [call(args={"a": "}]"})]}, "finishReason": "STOP"}]},
]


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_json_array_is_the_same_reply(size: int, indent: int | None) -> None:
    """Without ``alt=sse`` the same responses come in one array, and mean the same."""
    body = json.dumps(REPLY, indent=indent).encode()
    chunks = [body[at : at + size] for at in range(0, len(body), size)]

    assert read([frame(one) for one in REPLY]) == read(chunks, headers=JSON)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
def test_one_json_body_is_a_reply_too(kind: str) -> None:
    """A whole response, or an array of them, under any content type (case M07)."""
    whole = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"}]}
    for body in (whole, [whole]):
        events = read([json.dumps(body).encode()], headers=[("content-type", kind)])
        assert ("A", Stop.end) == (text_of(events), last(events).stop)


@pytest.mark.parametrize("body", ["[]", "[", '[{"candidates": [{"content": {"parts": [{"text": "A'])
def test_a_cut_array_is_a_cut(body: str) -> None:
    """An array that ends early, or empty, is no reply."""
    assert FailureKind.premature_end is failed(read([body.encode()], headers=JSON))


def test_events_are_told_the_same_in_one_read_or_many() -> None:
    """Blocks start once and in order, whatever was hot before."""
    frames = [says("A"), says(thinks("hm")), says("B", thinks("so")), says("C"), stop()]
    frames[1:1] = [says("a", thinks("h"))]
    events = read(frames)

    assert events == read([b"".join(frames)])
    assert ["text", "thinking", "text", "thinking", "text"] == [
        e.kind for e in only(events, BlockStarted)
    ]
    assert ("AaBC", "hhmso") == (text_of(events), text_of(events, "thinking"))
