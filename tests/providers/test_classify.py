"""Errors that providers and transports really produced mean what the shipped policies say."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from midthought.policies import FailureKind, Policy, load_policy
from midthought.providers import AttemptReader, ErrorFacts, classify, get_dialect
from midthought.statemachine import Event, Failure, Finished

ERRORS = Path(__file__).parents[3] / "shared" / "corpus" / "errors"
BARE = Policy.model_validate({"name": "bare", "dialect": "anthropic_messages"})

# Written by hand from the bodies. By file name: policy, kind.
RECORDED = {
    "anthropic-400-anthropic-handles-empty-string-content": ("anthropic", "invalid_request"),
    "anthropic-400-context-overflow": ("anthropic", "context_overflow"),
    "anthropic-401-test-authentication-error-stream-anthropic-beta-claude-sonne": (
        "anthropic",
        "auth",
    ),
    "anthropic-404-anthropic-wraps-api-errors-on-stream-call": ("anthropic", "not_found"),
    "anthropic-404-test-model-not-found-stream-anthropic-beta-claude-sonnet-4-0": (
        "anthropic",
        "not_found",
    ),
    "reported-anthropic-400-prefill-rejected": ("anthropic", "prefill_rejected"),
    "reported-anthropic-529-overloaded-2026": ("anthropic", "overloaded"),
    "openai-400-cassettes-model-call-with-tools": ("openai-chat", "invalid_request"),
    "openai-400-encodes-thoughts-as-text-for-model-consumption": (
        "openai-chat",
        "invalid_request",
    ),
    "openai-400-image-edit-functionality-with-remote-urls-rejects-edits-with": (
        "openai-chat",
        "invalid_request",
    ),
    "openai-400-object-streaming": ("openai-chat", "invalid_request"),
    "openai-400-object-streaming-2": ("openai-chat", "invalid_request"),
    "openai-400-object-streaming-3": ("openai-chat", "invalid_request"),
    "openai-400-openai-completions-wraps-api-errors-on-stream-call": ("openai-chat", "not_found"),
    "openai-400-streaming": ("openai-chat", "not_found"),
    "openai-400-test-call-with-params-openai-gpt-5-mini-completions": (
        "openai-chat",
        "invalid_request",
    ),
    "openai-400-test-model-not-found-stream-openai-gpt-4o-responses": ("openai-chat", "not_found"),
    "openai-401-error-handles-invalid-api-keys-gracefully": ("openai-chat", "auth"),
    "openai-401-test-authentication-error-stream-openai-gpt-4o-responses": ("openai-chat", "auth"),
    "openai-404-test-model-not-found-stream-openai-gpt-4o-completions": (
        "openai-chat",
        "not_found",
    ),
    "openai-codex-401-stop-sequence": ("openai-chat", "auth"),
    # Other servers that speak Chat Completions, or errors that say the same.
    "azure-429-real-error-scenarios-azure-grok-4-1-fast-non-reasoning-handl": (
        "openai-compatible",
        "rate_limited",
    ),
    "deepseek-400-context-overflow": ("openai-compatible", "context_overflow"),
    "deepseek-401-error-handling-with-deepseek-deepseek-chat-raises-appropriat": (
        "openai-compatible",
        "auth",
    ),
    "groq-400-streaming": ("openai-compatible", "not_found"),
    "groq-401-streaming": ("openai-compatible", "auth"),
    "ollama-cloud-400-context-overflow": ("openai-compatible", "context_overflow"),
    "ollama-cloud-401-error-handling-with-ollama-cloud-gpt-oss-120b-raises-appropr": (
        "openai-compatible",
        "auth",
    ),
    "openrouter-400-context-overflow": ("openai-compatible", "context_overflow"),
    "openrouter-429-streaming": ("openai-compatible", "rate_limited"),
    "perplexity-400-context-overflow": ("openai-compatible", "context_overflow"),
    "together-401-openai-compatibility-makes-successful-api-call": ("openai-compatible", "auth"),
}
OWN = ("anthropic-", "openai-", "reported-")


def failure_of(events: list[Event]) -> Failure:
    """The failure of the one ``Finished``, which is last."""
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished is events[-1]
    assert finished.failure is not None
    return finished.failure


def recorded(name: str) -> dict[str, Any]:
    """A recorded error: ``status``, ``headers``, ``body``."""
    if not ERRORS.is_dir():
        pytest.skip("no recorded errors at ../shared/corpus/errors")
    found: dict[str, Any] = json.loads((ERRORS / f"{name}.json").read_text("utf-8"))
    return found


def answered(policy: Policy, error: dict[str, Any]) -> Failure:
    """The failure that a reader makes of a recorded answer."""
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0)
    reader.response(error["status"], error["headers"].items())
    raw = error.get("body_raw") or json.dumps(error["body"])
    return failure_of(reader.feed(raw.encode()) + reader.end())


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_errors(name: str) -> None:
    """Every recorded HTTP error is the kind that its body says."""
    policy, kind = RECORDED[name]
    error = recorded(name)
    found = answered(load_policy(policy), error)

    assert (FailureKind(kind), error["status"], "response") == (
        found.kind,
        found.status,
        found.phase,
    )
    assert found.message


def test_no_recorded_error_is_left_out() -> None:
    """Each recorded error of the two providers stands in the table."""
    if not ERRORS.is_dir():
        pytest.skip("no recorded errors at ../shared/corpus/errors")
    names = {path.stem for path in ERRORS.glob("*.json")}

    assert {name for name in names if name.startswith(OWN)} <= RECORDED.keys() <= names


# An answer of this shape comes over HTTP only.
_NOT_IN_STREAMS = "openai-codex-401-stop-sequence"


@pytest.mark.parametrize(
    "name", [n for n in RECORDED if n.startswith(OWN) and n != _NOT_IN_STREAMS]
)
def test_the_same_error_inside_a_stream(name: str) -> None:
    """Case D04: in a stream after a 200 an error is the same kind, by words and codes alone."""
    policy_name, kind = RECORDED[name]
    policy, body = load_policy(policy_name), recorded(name)["body"]
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    events += reader.feed(f"event: error\ndata: {json.dumps(body)}\n\n".encode())
    found = failure_of(events)

    assert (FailureKind(kind), "stream") == (found.kind, found.phase)


def test_headers_of_a_recorded_error() -> None:
    """Request id and the word on retrying come from the headers."""
    found = answered(load_policy("anthropic"), recorded("anthropic-400-context-overflow"))

    assert found.should_retry is False
    assert "invalid_request_error" == found.code
    assert "prompt is too long: 3333404 tokens > 200000 maximum" == found.message


# --- rows ----------------------------------------------------------------------------------------


def rows(*given: dict[str, Any], **tables: Any) -> Policy:
    """A policy with these ``[[classify]]`` rows alone."""
    return Policy.model_validate(
        {"name": "test", "dialect": "anthropic_messages", "classify": given, **tables}
    )


class Odd(ConnectionResetError):
    """A transport's own class."""


FACTS = ErrorFacts("No More Tokens for you", ("Insufficient_Quota", "rate"), 429)
HOLDS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"status": [503]}, {"status": 503}),
    ({"status": [429]}, {"facts": FACTS, "status": 200}),
    ({"code": ["insufficient_quota"]}, {"facts": FACTS}),
    ({"code": ["RATE"]}, {"facts": FACTS}),
    ({"message": "no more tokens?"}, {"facts": FACTS}),
    ({"exception": ["Odd"]}, {"exc": Odd()}),
    ({"exception": ["ConnectionResetError"]}, {"exc": Odd()}),
    ({"exception": ["builtins.OSError"]}, {"exc": Odd()}),
    ({"exception": ["httpx.ReadError"]}, {"exc": httpx.ReadError("")}),
    ({"message": "reset by peer"}, {"exc": httpx.ReadError("reset by peer")}),
    ({"content_type": ["Text/H"]}, {"content_type": "text/html"}),
    ({"phase": ["connect", "stream"]}, {"phase": "stream"}),
    ({}, {}),
]


@pytest.mark.parametrize(("row", "facts"), HOLDS)
def test_a_row_holds(row: dict[str, Any], facts: dict[str, Any]) -> None:
    """Each fact that a row may ask for is found, and its absence is too."""
    policy = rows({"kind": "blocked", **row})
    given: dict[str, Any] = {"phase": "stream", **facts}
    other = {"phase": "response", "status": 418, "content_type": "text/plain"}

    assert FailureKind.blocked is classify(policy, **given).kind
    if row:
        assert FailureKind.unknown is classify(policy, **other).kind  # type: ignore[arg-type]


def test_every_fact_of_a_row_must_hold_and_the_first_row_wins() -> None:
    """A row with two facts needs both; of two rows that hold the first is taken."""
    policy = rows(
        {"kind": "blocked", "status": [400], "code": ["rate"]},
        {"kind": "rate_limited", "status": [429], "scope": "day", "processed": "no"},
        {"kind": "overloaded", "status": [429]},
    )
    found = classify(policy, phase="response", status=429, facts=FACTS)

    assert (FailureKind.rate_limited, "day", "no") == (found.kind, found.scope, found.processed)
    assert "Insufficient_Quota" == found.code
    assert "unknown" == classify(policy, phase="response", status=418).processed


def test_causes_count() -> None:
    """What an HTTP library's error was caused by is a fact too; a loop of causes ends."""
    policy = rows({"kind": "connect", "exception": ["ConnectionRefusedError"]})
    wrapped = httpx.ConnectError("no")
    wrapped.__cause__ = ConnectionRefusedError()
    loop = httpx.ReadError("no")
    loop.__cause__ = loop

    assert FailureKind.connect is classify(policy, phase="connect", exc=wrapped).kind
    assert FailureKind.unknown is classify(policy, phase="connect", exc=loop).kind


class Reset:
    """As h2's event behind an httpcore error."""

    def __init__(self, error_code: int) -> None:
        self.error_code = error_code


@pytest.mark.parametrize(
    "error",
    [
        httpx.RemoteProtocolError(
            "<StreamReset stream_id:1, error_code:ErrorCodes.REFUSED_STREAM, remote_reset:True>"
        ),
        httpx.RemoteProtocolError("<StreamReset stream_id:1, error_code:7, remote_reset:True>"),
        Odd(Reset(7)),
    ],
)
def test_http2_codes(error: Exception) -> None:
    """Case A04: the HTTP/2 code of an exception is a fact; a refused stream is unprocessed."""
    found = classify(load_policy("anthropic"), phase="stream", exc=error)

    assert ("REFUSED_STREAM", "no", FailureKind.sse_transport) == (
        found.code,
        found.processed,
        found.kind,
    )
    assert classify(BARE, phase="stream", exc=Odd("error_code:99")).code == "Odd"


def test_waits_resets_and_ids() -> None:
    """Hints by the policy's rows, the reset time of the limit that is used up, the request's id."""
    policy = rows(
        retry_hints=[
            {"header": "Retry-After-Ms", "unit": "ms"},
            {"json_path": "error.retry_in", "unit": "s"},
        ]
    )
    headers = {
        "x-request-id": "r",
        "anthropic-ratelimit-requests-remaining": "3",
        "anthropic-ratelimit-requests-reset": "2027-01-01T00:00:00Z",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2026-12-01T00:00:09Z",
    }
    facts = ErrorFacts("m", body={"error": {"retry_in": 4, "resets_at": 1800000000}})
    waited = classify(policy, phase="response", headers={**headers, "retry-after-ms": "1500"})
    stated = classify(policy, phase="response", facts=facts)

    assert (1.5, "r", "2026-12-01T00:00:09Z") == (
        waited.retry_after_s,
        waited.request_id,
        waited.reset_at,
    )
    assert (4.0, "1800000000") == (stated.retry_after_s, stated.reset_at)


# --- words ---------------------------------------------------------------------------------------

SECRETS = [
    "Authorization: Bearer abcdef123456.secret",
    "Incorrect API key provided: my-secret-key. You can find it.",
    "Your api key: ****secret is invalid",
    "sk-ant-api03-secretsecretsecret",
    "x-api-key=secretsecret",
    '{"api_key": "secretsecret"}',
    "AKIASECRETSECRET1234",
    "basic c2VjcmV0c2VjcmV0Og==secret",
    "eyJsecretsecret.eyJzZWNyZXQ.c2VjcmV0",
    "https://user:secret@host/path",
    "https://host/path?key=secret&alt=sse",
    "AIzasecretsecretsecretsecretsecret",
]


@pytest.mark.parametrize("text", SECRETS)
def test_no_credential_in_a_message(text: str) -> None:
    """Whatever looks like a key is replaced, wherever the words come from."""
    for facts, error in ((ErrorFacts(f"a {text} z"), None), (None, httpx.ReadError(f"a {text} z"))):
        message = classify(BARE, phase="stream", facts=facts, exc=error).message
        assert "secret" not in message.lower()
        assert message.startswith("a ")
        assert "[redacted]" in message


def test_ordinary_words_stay() -> None:
    """Redaction leaves an error's own words alone."""
    for text in (
        "invalid x-api-key",
        "prompt is too long: 3333404 tokens > 200000 maximum",
        "The api_key client option must be set",
        'Bearer realm="OpenAI API"',
        "task-specific models do not support basic authentication",
    ):
        assert text == classify(BARE, phase="stream", facts=ErrorFacts(text)).message


def test_messages_are_bounded() -> None:
    """At most 500 characters on one line, and a key is not cut in half to survive."""
    long = "x" * 488 + " sk-ant-" + "secret" * 20
    message = classify(BARE, phase="stream", facts=ErrorFacts(long)).message
    lines = classify(BARE, phase="stream", facts=ErrorFacts("a\n\n b\t\ud83d c")).message

    assert len(message) <= 500
    assert "sk-ant" not in message
    assert "a b ? c" == lines


def test_a_pattern_is_searched_in_a_bounded_text() -> None:
    """A pattern looks at the first 2,000 characters only."""
    policy = rows({"kind": "blocked", "message": "needle"})
    near, far = ("x" * count + "needle" for count in (1990, 2000))

    assert FailureKind.blocked is classify(policy, phase="stream", facts=ErrorFacts(near)).kind
    assert FailureKind.unknown is classify(policy, phase="stream", facts=ErrorFacts(far)).kind
