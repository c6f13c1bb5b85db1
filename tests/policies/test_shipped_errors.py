"""What the shipped policies make of each provider's errors, tried through the real reader."""

import json
from functools import cache
from typing import Any

import httpx
import httpx2
import pytest

from midthought.policies import Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Failure, Finished

JSON = ("content-type", "application/json")
DAY = "Tue, 01 Dec 2026"
SSE = ("content-type", "text/event-stream")


shipped = cache(load_policy)


def read(policy: Policy) -> AttemptReader:
    """A reader of one attempt under a policy."""
    return AttemptReader(policy, get_dialect(policy.dialect), 0)


def failure_of(events: list[Any]) -> Failure:
    """The failure that an attempt ended with."""
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.failure is not None
    return finished.failure


def answered(policy: str, status: int, body: Any, headers: Any = ()) -> Failure:
    """The failure of a response with this status and JSON body."""
    reader = read(shipped(policy))
    events = reader.response(status, [JSON, *headers])
    events += reader.feed(json.dumps(body).encode())
    return failure_of(events + reader.end())


def streamed(policy: str, data: str) -> Failure:
    """The failure of a stream that holds one frame."""
    reader = read(shipped(policy))
    events = reader.response(200, [SSE])
    events += reader.feed(data.encode())
    return failure_of(events + reader.end())


def claude(type_: str, message: str = "", **more: Any) -> dict[str, Any]:
    """An error body of Anthropic's."""
    return {"type": "error", "error": {"type": type_, "message": message, **more}}


def chat(message: str = "", type_: str | None = None, code: str | None = None) -> dict[str, Any]:
    """An error body of OpenAI's."""
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


INVALID = "invalid_request_error"
ANTHROPIC = [
    (400, claude(INVALID, "max_tokens: Field required"), "invalid_request"),
    (400, claude(INVALID, "prompt is too long: 2134 tokens > 2000 maximum"), "context_overflow"),
    (
        400,
        claude(INVALID, "input length and `max_tokens` exceed context limit: 199759 + 8192 >"),
        "context_overflow",
    ),
    (
        400,
        claude(INVALID, "This model does not support assistant message prefill. The conversation "),
        "prefill_rejected",
    ),
    (
        400,
        claude(
            INVALID,
            "Your API request included an `assistant` message in the final position, which would "
            "pre-fill the `assistant` response. When using output format, pre-filling the "
            "`assistant` response is not supported.",
        ),
        "prefill_rejected",
    ),
    (
        400,
        claude(
            INVALID,
            "messages.1.content.0: `thinking` or `redacted_thinking` blocks in the latest "
            "assistant message cannot be modified.",
        ),
        "thinking_rejected",
    ),
    (
        400,
        claude(
            INVALID,
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            "`text`.",
        ),
        "thinking_rejected",
    ),
    (400, claude(INVALID, "Invalid `signature` in `thinking` block"), "thinking_rejected"),
    (
        400,
        claude(INVALID, "The final block in an assistant message cannot be `thinking`."),
        "thinking_rejected",
    ),
    (400, claude(INVALID, "Your credit balance is too low to access the API."), "quota_exhausted"),
    (400, claude(INVALID, "Output blocked by content filtering policy"), "blocked"),
    (401, claude("authentication_error"), "auth"),
    (402, claude("billing_error"), "quota_exhausted"),
    (403, claude("permission_error"), "auth"),
    (404, claude("not_found_error"), "not_found"),
    (409, claude("conflict_error"), "server_error"),
    (413, claude("request_too_large"), "request_too_large"),
    (429, claude("rate_limit_error"), "rate_limited"),
    (
        429,
        claude("rate_limit_error", details={"error_code": "ramp_limit_exceeded"}),
        "rate_limited",
    ),
    (
        429,
        claude("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        "quota_exhausted",
    ),
    (500, claude("api_error"), "server_error"),
    (504, claude("timeout_error"), "server_error"),
    (529, claude("overloaded_error"), "overloaded"),
    (529, claude("api_error", details={"error_code": "compaction_unavailable"}), "overloaded"),
]  # fmt: skip
CHAT = [
    (400, chat("Invalid schema", INVALID, "invalid_function_parameters"), "invalid_request"),
    (400, chat("This model's maximum context length is 8192 tokens.", INVALID), "context_overflow"),
    (400, chat("", INVALID, "context_length_exceeded"), "context_overflow"),
    (400, chat("Input tokens exceed the configured limit of 272000 tokens."), "context_overflow"),
    (400, chat("The response was filtered", None, "content_filter"), "blocked"),
    (400, chat("", INVALID, "invalid_image_format"), "media_rejected"),
    (400, chat("Too many tokens, please wait before trying again."), "rate_limited"),
    (
        400,
        chat("Expected last role User or Tool (or Assistant with prefix True) for serving"),
        "prefill_rejected",
    ),
    (400, chat("Requests ending with a model turn are not supported."), "prefill_rejected"),
    (401, chat("Incorrect API key provided", INVALID, "invalid_api_key"), "auth"),
    (404, chat("The model does not exist", INVALID, "model_not_found"), "not_found"),
    (429, chat("Rate limit reached", "requests", "rate_limit_exceeded"), "rate_limited"),
    (429, chat("You exceeded your current quota", "insufficient_quota"), "quota_exhausted"),
    (429, chat("", "insufficient_quota", "credit_balance_exhausted"), "quota_exhausted"),
    (
        429,
        chat("Rate limit reached on requests per day (RPD)", "requests", "rate_limit_exceeded"),
        "quota_exhausted",
    ),
    (503, chat("", "service_unavailable_error", "server_is_overloaded"), "overloaded"),
    (500, chat("The server had an error", "server_error"), "server_error"),
]
LLAMACPP = [
    (400, chat("request (5 tokens) exceeds the available context size"), "context_overflow"),
    (400, chat("", "exceed_context_size_error"), "context_overflow"),
    (
        400,
        chat("Cannot set both add_generation_prompt and continue_final_message to true."),
        "prefill_rejected",
    ),
    (
        400,
        chat("Cannot continue an assistant message that contains tool calls."),
        "prefill_rejected",
    ),
    (501, chat("This feature is disabled", "not_supported_error"), "invalid_request"),
    (503, chat("Loading model", "unavailable_error"), "overloaded"),
]  # fmt: skip
BARE = {
    "auth": (401, 403, 407),
    "quota_exhausted": (402,),
    "not_found": (404, 410),
    "timeout": (408,),
    "request_too_large": (413,),
    "rate_limited": (429,),
    "overloaded": (503, 529),
    "server_error": (409, 425, 500, 502, 504, 520, 521, 522, 523, 524, 525, 526, 527, 530),
    "invalid_request": (400, 405, 415, 422, 501),
}


@pytest.mark.parametrize(("status", "body", "kind"), ANTHROPIC)
def test_anthropic_errors(status: int, body: Any, kind: str) -> None:
    """Each documented or reported error of Anthropic's is of the kind that it means."""
    assert kind == answered("anthropic", status, body).kind


@pytest.mark.parametrize(("status", "body", "kind"), CHAT)
def test_chat_errors(status: int, body: Any, kind: str) -> None:
    """Each error of OpenAI and of servers like it is of the kind that it means."""
    assert kind == answered("openai-chat", status, body).kind
    assert kind == answered("openai-compatible", status, body).kind


@pytest.mark.parametrize(("status", "body", "kind"), LLAMACPP)
def test_llamacpp_errors(status: int, body: Any, kind: str) -> None:
    """Each error of llama-server is of the kind that it means."""
    assert kind == answered("llamacpp", status, body).kind


@pytest.mark.parametrize("policy", ["anthropic", "openai-chat", "llamacpp", "base"])
def test_bare_statuses(policy: str) -> None:
    """A status says what it means where no body does."""
    for kind, statuses in BARE.items():
        for status in statuses:
            assert (status, kind) == (status, answered(policy, status, {}).kind)


@pytest.mark.parametrize(
    ("policy", "data", "kind"),
    [
        ("anthropic", claude("overloaded_error", "Overloaded"), "overloaded"),
        ("anthropic", claude("rate_limit_error", "slow"), "rate_limited"),
        ("anthropic", claude("api_error", "oh"), "server_error"),
        ("anthropic", claude("error_of_tomorrow", "oh"), "server_error"),
        ("anthropic", claude(INVALID, "oh"), "invalid_request"),
        ("openai-chat", chat("The server had an error", "server_error"), "server_error"),
        ("openai-chat", chat("oh"), "server_error"),
        ("openai-chat", chat("oh", "server_is_overloaded"), "overloaded"),
        ("openai-chat", chat("oh", INVALID), "invalid_request"),
        ("openai-compatible", {"error": {"code": 429, "message": "oh"}}, "rate_limited"),
    ],
)
def test_errors_in_a_stream(policy: str, data: Any, kind: str) -> None:
    """After a 200 an error says what it is, and one that nobody knows is the server's."""
    event = "event: error\n" if policy == "anthropic" else ""

    assert kind == streamed(policy, f"{event}data: {json.dumps(data)}\n\n").kind


KINDS_OF_EXCEPTIONS = {
    "ConnectError": ("connect", "connect"),
    "ConnectTimeout": ("connect", "connect"),
    "PoolTimeout": ("connect", "connect"),
    "ProxyError": ("connect", "connect"),
    "ReadTimeout": ("timeout", "stalled"),
    "WriteTimeout": ("timeout", "stalled"),
    "ReadError": ("sse_transport", "sse_transport"),
    "WriteError": ("sse_transport", "sse_transport"),
    "CloseError": ("sse_transport", "sse_transport"),
    "RemoteProtocolError": ("sse_transport", "sse_transport"),
    "LocalProtocolError": ("invalid_request", "sse_transport"),
    "UnsupportedProtocol": ("invalid_request", "invalid_request"),
    "TooManyRedirects": ("invalid_request", "invalid_request"),
    "DecodingError": ("body_decode", "body_decode"),
}


@pytest.mark.parametrize("library", [httpx, httpx2], ids=lambda library: library.__name__)
def test_every_exception_of_the_http_libraries(library: Any) -> None:
    """Both HTTP libraries' exceptions are known by name, and none of theirs is forgotten."""

    def leaves(cls: type[Exception]) -> set[str]:
        below = [leaf for sub in cls.__subclasses__() for leaf in leaves(sub)]
        return set(below) or {cls.__name__}

    of_transport = leaves(library.RequestError) - {"SSEError"}
    assert of_transport == set(KINDS_OF_EXCEPTIONS)
    for policy in (load_policy("anthropic"), load_policy("openai-chat")):
        for name, kinds in KINDS_OF_EXCEPTIONS.items():
            raised = getattr(library, name)("gone")
            early, late = read(policy), read(policy)
            events = late.response(200, [SSE]) + late.feed(b": ping\n\n")
            found = [
                failure_of(reader) for reader in (early.broke(raised), events + late.broke(raised))
            ]
            assert (name, *kinds) == (name, *(failure.kind for failure in found))


def test_scopes() -> None:
    """Which limit it was is a fact of the failure: money, or a day's allowance."""
    spend = claude("rate_limit_error", details={"error_code": "contract_spend_limit_reached"})
    daily = chat("Rate limit reached on tokens per day (TPD)", "tokens", "rate_limit_exceeded")

    assert "spend" == answered("anthropic", 429, spend).scope
    assert "spend" == answered("openai-chat", 429, chat("", "insufficient_quota")).scope
    assert "day" == answered("openai-chat", 429, daily).scope


def test_http2_codes() -> None:
    """A refused stream was not processed; what HTTP/2 itself refuses is not asked again."""
    for code, kind, processed in (
        (7, "sse_transport", "no"),
        (11, "rate_limited", "unknown"),
        (12, "invalid_request", "unknown"),
        (13, "invalid_request", "unknown"),
        (2, "sse_transport", "unknown"),
    ):
        raised = httpx.RemoteProtocolError(f"<StreamReset stream_id:1, error_code:{code}>")
        failure = failure_of(read(load_policy("base")).broke(raised))
        assert (code, kind, processed) == (code, failure.kind, failure.processed)


@pytest.mark.parametrize(
    ("headers", "body", "wait_s"),
    [
        ([("retry-after-ms", "1500"), ("retry-after", "3")], {}, 1.5),
        ([("retry-after", "3")], {}, 3.0),
        ([("retry-after", f"{DAY} 10:00:05 GMT"), ("date", f"{DAY} 10:00:00 GMT")], {}, 5.0),
        ([], chat("Rate limit reached. Please try again in 1.2s."), 1.2),
        ([], chat("Please try again in 20ms."), 0.02),
        ([], chat("Too busy, try again after 2 seconds"), 2.0),
        ([], chat("Please try again in 7m12s."), 432.0),
        ([("retry-after", "nonsense")], chat("try again"), None),
    ],
)  # fmt: skip
def test_waits_that_are_told(headers: Any, body: Any, wait_s: float | None) -> None:
    """A wait is read from the milliseconds, seconds, date or message, in this order."""
    assert wait_s == answered("openai-chat", 429, body, headers).retry_after_s
