"""What the Gemini dialect makes of errors, of broken frames, and of things that are no reply."""

import json
from typing import Any

import pytest
from gemini_frames import (
    JSON,
    built,
    failed,
    failure,
    frame,
    last,
    only,
    read,
    says,
    stop,
    text_of,
)
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Stop
from midthought.statemachine import Finished, Heartbeat, StopKnown, Unknown

ERROR = {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}
PRETTY = json.dumps(ERROR, indent=2).replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    "error",
    [
        frame(ERROR),
        frame([ERROR]),
        PRETTY,
        PRETTY + b"\r\n\r\n",
        b"[" + PRETTY + b"]\r\n",
        b"event: error\r\n" + frame(ERROR),
        b"event: error\r\n" + frame(ERROR["error"]),
        b"error: " + json.dumps(ERROR["error"]).encode() + b"\r\n\r\n",
        frame({**ERROR, "candidates": [{"finishReason": "STOP"}]}),
    ],
)
@pytest.mark.parametrize("before", [[], [says("A")], [says("A"), stop()]])
def test_an_error_in_the_stream(error: bytes, before: list[bytes]) -> None:
    """However it is written, an error ends the attempt, also after a finish reason (case D02)."""
    found = failure(read([*before, error]))

    assert (FailureKind.overloaded, "Overloaded", "UNAVAILABLE", 503) == (
        found.kind,
        found.message,
        found.code,
        found.status,
    )


@pytest.mark.parametrize("size", [1, 9, 9999])
def test_an_error_in_a_json_array(size: int) -> None:
    """Without ``alt=sse`` the error is an element of the array, or all there is."""
    good = {"candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"}]}
    for body in ([good, ERROR], [ERROR], ERROR):
        data = json.dumps(body, indent=2).encode()
        chunks = [data[at : at + size] for at in range(0, len(data), size)]
        assert FailureKind.overloaded is failed(read(chunks, headers=JSON))


def test_words_of_an_error_event_that_is_no_json() -> None:
    """``event: error`` is an error whatever its data looks like."""
    found = failure(read([says("A"), b"event: error\r\n" + frame("gone")]))

    assert ("gone", "stream") == (found.message, found.phase)


@pytest.mark.parametrize(
    "odd", [{"this": [{"is": 1}]}, ["x"], '"word"', 1, None, {"error": None}, {"responseid": 1}]
)
def test_what_is_no_response_is_passed_on(odd: Any) -> None:
    """Another object in the stream is handed on as it came, and is no reply by itself."""
    events = read([says("A"), frame(odd), stop()])

    assert [frame(odd)] == [e.raw for e in only(events, Unknown)]
    assert Stop.end is last(events).stop
    assert last(read([frame(odd)])).failure is not None


def test_an_end_marker_of_a_relay() -> None:
    """``[DONE]`` is not of this API: it is passed on, and proves nothing."""
    done = frame("[DONE]")

    assert ["[DONE]"] == [e.type for e in only(read([says("A"), stop(), done]), Unknown)]
    assert FailureKind.premature_end is failed(read([says("A"), done]))


def test_a_frame_that_cannot_be_read() -> None:
    """Broken JSON is a broken stream, but in the last frame it is a cut (case A10)."""
    half = b'data: {"candidates":[{"content":{"parts":[{"te'

    assert FailureKind.sse_parse is failed(read([says("Alpha "), half + b"\r\n\r\n", stop()]))
    assert FailureKind.premature_end is failed(read([says("Alpha "), half]))


def test_a_last_frame_without_its_blank_line_counts() -> None:
    """A frame whose JSON is whole counts although the body ended there (case B04)."""
    assert Stop.end is last(read([says("A"), stop().rstrip()])).stop


def test_comments_are_signs_of_life() -> None:
    """Comments between the events are heartbeats."""
    events = read([says("A"), b": keep-alive\r\n\r\n", stop()])

    assert 1 == len(only(events, Heartbeat))
    assert "A" == text_of(events)


@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_line_ends(newline: str) -> None:
    """CRLF as the API sends it, and what relays make of it."""
    body = (says("A") + says("B") + stop()).replace(b"\r\n", newline.encode())

    assert "AB" == text_of(read([body]))
    assert read([body]) == read([body[at : at + 1] for at in range(len(body))])


@pytest.mark.parametrize(
    "body",
    [
        {"candidates": {}},
        {"candidates": [1, None, "x"]},
        {"candidates": [{"content": []}]},
        {"candidates": [{"content": {"parts": {}}}]},
        {"candidates": [{"content": {"parts": [1, "x", None]}}]},
        {"candidates": [{"content": {"parts": [{"text": 1}]}}]},
        {"candidates": [{"content": {"parts": [{"thought": True}]}}]},
        {"candidates": [{"citationMetadata": {"citations": 1}}]},
        {"candidates": [{"citationMetadata": 1, "index": "x"}]},
        {"candidates": [], "usageMetadata": 1, "promptFeedback": 1},
        {"candidates": [], "responseId": 1, "modelVersion": []},
        {"candidates": [{"content": {"parts": [{"executableCode": 1}]}}]},
    ],
)
def test_wrong_types_say_nothing(body: Any) -> None:
    """A value of another type than the API's is no reason to lose the rest."""
    events = read([says("A"), frame(body), stop("STOP", "B")])

    assert "AB" == text_of(events)
    assert Stop.end is last(events).stop


_JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(
            st.sampled_from(
                "text thought thoughtSignature functionCall name partialArgs willContinue "
                "jsonPath stringValue inlineData executableCode".split()
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)
_CANDIDATES = st.fixed_dictionaries(
    {},
    optional={
        "content": st.fixed_dictionaries({"parts": st.lists(_JUNK, max_size=3)}),
        "finishReason": st.sampled_from(["STOP", "MAX_TOKENS", "OTHER", 1, None]),
        "index": st.sampled_from([0, 1, -1, "x"]),
        "citationMetadata": st.fixed_dictionaries({"citations": st.lists(_JUNK, max_size=2)}),
        "continuationToken": _JUNK,
    },
)


@given(st.lists(st.lists(_CANDIDATES, max_size=2), max_size=6), st.integers(1, 40))
def test_nothing_raises_and_the_events_are_valid(replies: list[Any], size: int) -> None:
    """Whatever is in a response: one ``Finished``, blocks in order, and the same however split."""
    body = b"".join(frame({"candidates": one}) for one in replies)
    events = read([body])

    assert events == read([body[at : at + size] for at in range(0, len(body), size)])
    assert [last(events)] == only(events, Finished)
    built(events)
    if last(events).failure is None:
        assert only(events, StopKnown)
