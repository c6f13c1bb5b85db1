"""What the errors of Gemini and Vertex AI mean, over HTTP and in the stream, made and recorded."""

import json
from pathlib import Path
from typing import Any

import pytest
from gemini_frames import POLICY, SSE, VERTEX, call, failure, frame, last, read, says

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


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


# --- recorded errors ------------------------------------------------------------------------------

# By hand, from the bodies.
RECORDED = {
    "google-400-object-streaming": "invalid_request",
    "google-400-streaming": "auth",
    "google-400-test-authentication-error-stream-google-gemini-2-5-flash": "auth",
    "google-404-google-wraps-api-errors-on-stream-call": "not_found",
    "google-404-test-model-not-found-stream-google-gemini-2-5-flash": "not_found",
    "google-429-real-error-scenarios-gemini-gemini-2-5-flash-handles-context": "rate_limited",
    "vertex-400-context-overflow": "context_overflow",
    "vertex-400-generate-content-invalid-role": "invalid_request",
    "vertex-400-generate-content-invalid-temperature": "invalid_request",
    "vertex-404-generate-content-missing-model": "not_found",
}


@pytest.mark.skipif(not CORPUS.is_dir(), reason="no recorded errors at ../shared/corpus")
def test_recorded_errors() -> None:
    """Each recorded error of the two providers is what its body says; all of them are here."""
    names = sorted(p.stem for p in (CORPUS / "errors").glob("*.json"))
    assert sorted(RECORDED) == [n for n in names if n.startswith(("google-", "vertex-"))]

    for name, kind in RECORDED.items():
        answer = json.loads((CORPUS / "errors" / f"{name}.json").read_text("utf-8"))
        used = VERTEX if name.startswith("vertex") else POLICY
        body = answer.get("body_raw") or json.dumps(answer["body"])
        events = read(
            [body.encode()],
            status=answer["status"],
            headers=list(answer["headers"].items()),
            used=used,
        )
        found = last(events).failure
        assert found is not None
        assert (kind, answer["status"]) == (found.kind.value, found.status), name
        wait = 48.939935699 if kind == "rate_limited" else None
        assert wait == found.retry_after_s
