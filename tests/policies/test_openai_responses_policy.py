"""What the Responses and Azure policies make of errors, requests and models, by hand."""

import json
from functools import cache
from typing import Any

import pytest

from midthought.policies import Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Failure, Finished

JSON = ("content-type", "application/json")
SSE = ("content-type", "text/event-stream")
RESPONSES = ("openai-responses", "azure-openai-responses")

shipped = cache(load_policy)


def reader(policy: Policy) -> AttemptReader:
    """A reader of one attempt."""
    return AttemptReader(policy, get_dialect(policy.dialect), 0)


def failure_of(events: list[Any]) -> Failure:
    """The failure that an attempt ended with."""
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.failure is not None
    return finished.failure


def answered(policy: str, status: int, body: Any, *headers: tuple[str, str]) -> Failure:
    """The failure of a response with this status and JSON body."""
    one = reader(shipped(policy))
    events = one.response(status, [JSON, *headers])
    events += one.feed(json.dumps(body).encode())
    return failure_of(events + one.end())


def streamed(policy: str, event: dict[str, Any]) -> Failure:
    """The failure of a stream that holds one event."""
    one = reader(shipped(policy))
    events = one.response(200, [SSE])
    events += one.feed(f"data: {json.dumps(event)}\n\n".encode())
    return failure_of(events if one.finished else events + one.end())


def stated(code: str | None, message: str = "", type_: str = "invalid_request_error") -> Any:
    """An error body of OpenAI's."""
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


FOLLOWING = "Item 'rs_1' of type 'reasoning' was provided without its required following item."
REQUIRED = "Item 'fc_1' of type 'function_call' was provided without its required 'reasoning' item"
NOT_FOUND = "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
ENCRYPTED = "The encrypted content for item rs_1 could not be verified."
WINDOW = "Your input exceeds the context window of this model. Please adjust your input."
LIMIT = "Input tokens exceed the configured limit of 272000 tokens."
ASKED = [
    (400, stated(None, FOLLOWING), "thinking_rejected"),
    (400, stated(None, REQUIRED), "thinking_rejected"),
    (404, stated(None, NOT_FOUND), "thinking_rejected"),
    (400, stated("invalid_encrypted_content", ENCRYPTED), "thinking_rejected"),
    (400, stated("context_length_exceeded", WINDOW), "context_overflow"),
    (400, stated(None, LIMIT), "context_overflow"),
    (400, stated("invalid_prompt", "flagged"), "blocked"),
    (400, stated("invalid_image_url"), "media_rejected"),
    (400, stated("model_not_found"), "not_found"),
    (400, stated("previous_response_not_found"), "not_found"),
    (400, stated(None, "This response can no longer be streamed because"), "invalid_request"),
    (400, stated("unknown_parameter", "Unknown parameter"), "invalid_request"),
    (401, stated("invalid_api_key"), "auth"),
    (403, stated(None), "auth"),
    (404, stated(None), "not_found"),
    (429, stated("rate_limit_exceeded", "Please try again in 1.2s"), "rate_limited"),
    (429, stated("slow_down"), "rate_limited"),
    (429, stated("insufficient_quota"), "quota_exhausted"),
    (429, stated(None, "Limit reached on requests per day (RPD)"), "quota_exhausted"),
    (500, stated("server_error"), "server_error"),
    (503, stated("server_is_overloaded", "", "service_unavailable_error"), "overloaded"),
]
IN_STREAM = [
    ("server_error", "", "server_error"),
    ("rate_limit_exceeded", "Rate limit reached. Please try again in 20ms", "rate_limited"),
    ("context_length_exceeded", WINDOW, "context_overflow"),
    ("insufficient_quota", "", "quota_exhausted"),
    ("vector_store_timeout", "", "server_error"),
    ("bio_policy", "", "blocked"),
    ("misalignment_policy_violation", "", "blocked"),
    ("data_residency_mismatch", "", "invalid_request"),
    ("image_too_large", "", "media_rejected"),
    ("of_tomorrow", "", "server_error"),
]


@pytest.mark.parametrize("policy", RESPONSES)
@pytest.mark.parametrize(("status", "body", "kind"), ASKED)
def test_errors_of_requests(policy: str, status: int, body: Any, kind: str) -> None:
    """Each error of the API is of its kind, at Azure too."""
    assert kind == answered(policy, status, body).kind


@pytest.mark.parametrize("policy", RESPONSES)
@pytest.mark.parametrize(("code", "message", "kind"), IN_STREAM)
def test_errors_in_streams(policy: str, code: str, message: str, kind: str) -> None:
    """Error events and failed responses with the same code are of the same kind."""
    error = {"code": code, "message": message}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}

    assert kind == streamed(policy, failed).kind
    assert kind == streamed(policy, {"type": "error", **error}).kind
    assert kind == streamed(policy, {"error": {**error, "type": "x"}}).kind


def test_a_request_that_no_wait_makes_smaller() -> None:
    """Over the limit of a minute by itself: it comes as a rate limit, and is none."""
    message = (
        "Request too large for gpt-4o in project proj_X organization org-X on tokens per min "
        "(TPM): Limit 30000, Requested 51481. The input or output tokens must be reduced."
    )
    failure = streamed(
        "openai-responses", {"type": "error", **stated("rate_limit_exceeded", message)}
    )

    assert "request_too_large" == failure.kind


def test_a_cancelled_response_is_not_brought_back() -> None:
    """Somebody stopped it on purpose: no rule takes it."""
    event = {"type": "response.cancelled", "response": {"status": "cancelled", "error": None}}
    failure = streamed("openai-responses", event)

    assert "unknown" == failure.kind
    assert not any(failure.kind in rule.on.failure for rule in shipped("openai-responses").rules)


@pytest.mark.parametrize(
    ("message", "headers", "wait_s"),
    [
        ("Please try again in 1.5s", (), 1.5),
        ("Please try again in 20ms", (), 0.02),
        ("Please try again in 1m2.5s", (), 62.5),
        ("Please try again in 20ms", (("retry-after", "7"),), 7.0),
        ("", (("retry-after", "7"), ("retry-after-ms", "1500")), 1.5),
    ],
)
def test_how_long_to_wait(
    message: str, headers: tuple[tuple[str, str], ...], wait_s: float
) -> None:
    """By the headers, else by the words."""
    failure = answered("openai-responses", 429, stated("rate_limit_exceeded", message), *headers)

    assert wait_s == failure.retry_after_s


@pytest.mark.parametrize("policy", ["azure-openai", "azure-openai-responses"])
def test_errors_of_azure(policy: str) -> None:
    """Its filter, its demand and its limits, as far as they differ from OpenAI's."""
    filtered = {
        "error": {
            "message": "The response was filtered due to the prompt triggering a policy.",
            "type": None,
            "param": "prompt",
            "code": "content_filter",
            "status": 400,
            "innererror": {"code": "ResponsibleAIPolicyViolation"},
        }
    }

    assert "blocked" == answered(policy, 400, filtered).kind
    assert (
        "overloaded"
        == answered(policy, 429, stated("429", "System is experiencing high demand")).kind
    )
    assert "rate_limited" == answered(policy, 429, stated("429", "Rate limit is exceeded.")).kind


@pytest.mark.parametrize("policy", ["azure-openai", "azure-openai-responses"])
def test_azure_has_no_address_of_its_own(policy: str) -> None:
    """The resource's address and key are the user's; the key goes where Azure looks for it."""
    loaded = shipped(policy)

    assert ("", "api-key", "", "AZURE_OPENAI_API_KEY") == (
        loaded.base_url,
        loaded.auth.header,
        loaded.auth.prefix,
        loaded.auth.key_env,
    )


def test_models_that_think_for_long() -> None:
    """They are silent for longer than others before their connection counts as dead."""
    policy = shipped("openai-responses")

    assert policy.for_model("gpt-5").clocks.liveness_s < 600
    for model in ("gpt-5-pro", "o3-pro-2025-06-10", "o4-mini-deep-research"):
        assert policy.for_model(model).clocks.liveness_s >= 1800
    assert policy.for_model("gpt-5-professional").clocks.liveness_s < 600


def test_output_cap() -> None:
    """It counts hidden reasoning, so a continuation is left a quarter of it at least."""
    cap = shipped("openai-responses").cap

    assert (("max_output_tokens",), 256, 0.25) == (cap.fields, cap.floor, cap.floor_share)


def test_strategies() -> None:
    """A resume where there is one, else instruct; never a prefill; nothing is switched on."""
    for name in RESPONSES:
        policy = shipped(name)
        assert ("resume", "instruct") == policy.continuation.strategies
        assert {} == policy.continuation.resume.prepare
        assert {"stream": True} == policy.stream.merge
        assert "conversation" in policy.continuation.instruct.forbidden_with


@pytest.mark.parametrize("name", [*RESPONSES, "azure-openai"])
def test_strict_over_it(name: str) -> None:
    """The overlay that trusts no partial output lies over it."""
    assert load_policy(f"{name}+strict").turn.retract
