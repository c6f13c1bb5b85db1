"""What the Gemini dialect makes of errors, of broken frames, and of things that are no reply."""

import json
from typing import Any

import pytest
from gemini_frames import (
    JSON,
    POLICY,
    SSE,
    VERTEX,
    built,
    call,
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


# --- errors over HTTP -----------------------------------------------------------------------------


def _answered(status: int, body: Any, used: Any = POLICY) -> Any:
    data = json.dumps(body).encode()
    return failure(read([data], status=status, headers=SSE, used=used))


def _error(code: int, status: str, message: str = "m", *details: Any) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    return {"error": {**error, "details": list(details)} if details else error}


def _quota(*ids: str) -> dict[str, Any]:
    violations = [{"quotaId": name, "quotaMetric": "m"} for name in ids]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": violations}


# By hand, from the API's list of errors.
ERRORS = [
    (400, _error(400, "INVALID_ARGUMENT"), "invalid_request"),
    (400, _error(400, "FAILED_PRECONDITION"), "invalid_request"),
    (
        400,
        _error(400, "INVALID_ARGUMENT", "key", {"reason": "API_KEY_INVALID"}),
        "auth",
    ),
    (401, _error(401, "UNAUTHENTICATED"), "auth"),
    (402, _error(402, "RESOURCE_EXHAUSTED"), "quota_exhausted"),
    (403, _error(403, "PERMISSION_DENIED"), "auth"),
    (404, _error(404, "NOT_FOUND"), "not_found"),
    (429, _error(429, "RESOURCE_EXHAUSTED"), "rate_limited"),
    (499, _error(499, "CANCELLED"), "server_error"),
    (500, _error(500, "INTERNAL"), "server_error"),
    (503, _error(503, "UNAVAILABLE"), "overloaded"),
    (504, _error(504, "DEADLINE_EXCEEDED"), "server_error"),
    (
        400,
        _error(400, "INVALID_ARGUMENT", "Requests ending with a model turn are not supported."),
        "prefill_rejected",
    ),
    (
        400,
        _error(
            400,
            "INVALID_ARGUMENT",
            "Requests ending with a model turn are not supported unless the last part is a "
            "function response.",
        ),
        "prefill_rejected",
    ),
    (400, _error(400, "INVALID_ARGUMENT", "Invalid continuation_token."), "prefill_rejected"),
    (400, _error(400, "INVALID_ARGUMENT", "Corrupted thought signature."), "thinking_rejected"),
    (
        400,
        _error(
            400,
            "INVALID_ARGUMENT",
            "Unable to submit request because Thought signature is not valid.. Learn more: x",
        ),
        "thinking_rejected",
    ),
    (
        400,
        _error(
            400,
            "INVALID_ARGUMENT",
            "Function call is missing a thought_signature in functionCall parts. x",
        ),
        "invalid_request",
    ),
    (
        400,
        _error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1196265) exceeds the maximum number of tokens allowed "
            "(1048575).",
        ),
        "context_overflow",
    ),
    (
        400,
        _error(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."),
        "request_too_large",
    ),
    (
        400,
        _error(400, "INVALID_ARGUMENT", "Unable to process input image. Please retry"),
        "media_rejected",
    ),
    (
        429,
        _error(
            429,
            "RESOURCE_EXHAUSTED",
            "Resource exhausted. Please try again later. Please refer to https://x for more.",
        ),
        "rate_limited",
    ),
]


@pytest.mark.parametrize(("status", "body", "expected"), ERRORS)
@pytest.mark.parametrize("used", [POLICY, VERTEX], ids=["gemini", "vertex"])
def test_errors(status: int, body: Any, expected: str, used: Any) -> None:
    """What each error of the API means, alone or in an array, over HTTP or in the stream."""
    for form in (body, [body]):
        assert expected == _answered(status, form, used).kind
    in_stream = failure(read([frame(body)], used=used))
    assert expected == in_stream.kind
    assert status == in_stream.status


def test_a_quota_of_a_day_and_one_of_a_minute() -> None:
    """A limit of a day is not a rate limit, though the reason says so and a wait is told
    (case E06); one of a minute is."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "metadata": {"quota_limit": "RequestsPerDayPerUser"},
    }
    wait = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "5s"}
    minute, day = (f"GenerateRequestsPer{unit}PerProjectPerModel" for unit in ("Minute", "Day"))
    kinds = {
        name: _answered(429, _error(429, "RESOURCE_EXHAUSTED", "q", *details))
        for name, details in {
            "case": [info],
            "day": [_quota(day), wait],
            "both": [_quota(minute, day), wait],
            "minute": [_quota(minute), wait],
            "metadata": [{"metadata": {"quota_unit": "1/d/{project}"}}],
        }.items()
    }

    for name in ("case", "day", "both", "metadata"):
        assert ("quota_exhausted", "day") == (kinds[name].kind, kinds[name].scope)
    assert ("rate_limited", None) == (kinds["minute"].kind, kinds["minute"].scope)
    assert f"q [{minute}]" == kinds["minute"].message
    assert "RATE_LIMIT_EXCEEDED" == kinds["case"].code


def test_a_tier_without_this_model() -> None:
    """A limit of 0 does not become more by waiting."""
    message = "Quota exceeded for metric: x/free_tier_requests, limit: %d, model: m\nPlease retry"
    kinds = [
        _answered(429, _error(429, "RESOURCE_EXHAUSTED", message % limit)).kind for limit in (0, 20)
    ]

    assert ["quota_exhausted", "rate_limited"] == kinds


@pytest.mark.parametrize(
    ("message", "delay", "expected"),
    [
        ("Please retry in 48.939935699s.", "48s", 48.939935699),
        ("Please retry in 913.205146ms.", None, 0.913205146),
        ("Please retry in 5h41m23.5s.", None, 20483.5),
        ("q", "39s", 39.0),
        ("q", "0.5s", 0.5),
        ("q", None, None),
    ],
)
def test_how_long_to_wait(message: str, delay: str | None, expected: float | None) -> None:
    """The text is exact, the details are whole seconds cut off: the text goes first."""
    details = [] if delay is None else [{"@type": "RetryInfo", "retryDelay": delay}]
    body = _error(429, "RESOURCE_EXHAUSTED", message, *details)

    assert expected == pytest.approx(_answered(429, body).retry_after_s)
    assert expected == pytest.approx(failure(read([says(call()), frame(body)])).retry_after_s)
