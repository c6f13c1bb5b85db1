"""What the policies of Cohere, Ollama and Bedrock make of errors, and what they refuse to do."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import PolicyError, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Failure, Finished

ERRORS = Path(__file__).parents[3] / "shared" / "corpus" / "errors"
shipped = cache(load_policy)


def answered(policy: str, status: int, body: Any, headers: dict[str, str] | None = None) -> Failure:
    """The failure of a response with this status and JSON body."""
    used = shipped(policy)
    reader = AttemptReader(used, get_dialect(used.dialect), 0)
    given = {"content-type": "application/json", **(headers or {})}
    events = reader.response(status, given.items())
    events += reader.feed(json.dumps(body).encode()) + reader.end()
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.failure is not None
    return finished.failure


def aws(name: str) -> dict[str, str]:
    """The header in which AWS names an error."""
    return {"x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/"}


COHERE = [
    (400, {"message": "invalid request: message must be at least 1 token"}, "invalid_request"),
    (400, {"error_type": "TOO_MANY_TOKENS", "message": "x"}, "context_overflow"),
    (400, {"message": "too many tokens: size limit exceeded by 5 tokens."}, "context_overflow"),
    (401, {"message": "invalid api token"}, "auth"),
    (403, {"message": "forbidden"}, "auth"),
    (404, {"message": "model 'x' not found"}, "not_found"),
    (422, {"message": "unprocessable"}, "invalid_request"),
    (429, {"message": "limited to 20 API calls / minute"}, "rate_limited"),
    (429, {"message": "limited to 1000 API calls / month"}, "quota_exhausted"),
    (498, {"message": "invalid token"}, "auth"),
    (499, {"message": "closed"}, "server_error"),
    (500, {"message": "internal"}, "server_error"),
    (503, {"message": "busy"}, "overloaded"),
    (504, {"message": "late"}, "server_error"),
]
OLLAMA = [
    (400, {"error": "the input length exceeds the context length"}, "context_overflow"),
    (400, {"error": "invalid options"}, "invalid_request"),
    (404, {"error": "model 'x' not found"}, "not_found"),
    (429, {"error": "too many requests"}, "rate_limited"),
    (500, {"error": "llama runner process has terminated"}, "server_error"),
    (503, {"error": "server busy, please try again."}, "overloaded"),
]
PREFILL = "The model returned the following errors: This model does not support assistant message "
BEDROCK = [
    (400, "ValidationException", "Malformed input request", "invalid_request"),
    (400, "ValidationException", "Input is too long for requested model.", "context_overflow"),
    (400, "ValidationException", f"{PREFILL}prefill.", "prefill_rejected"),
    (
        400,
        "ValidationException",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`",
        "thinking_rejected",
    ),
    (400, "ServiceQuotaExceededException", "your quota", "quota_exhausted"),
    (403, "AccessDeniedException", "You don't have access to the model", "auth"),
    (404, "ResourceNotFoundException", "Could not resolve the model", "not_found"),
    (408, "ModelTimeoutException", "took too long", "server_error"),
    (424, "ModelErrorException", "unexpected", "server_error"),
    (429, "ThrottlingException", "Too many tokens, please wait before trying.", "rate_limited"),
    (429, "ThrottlingException", "Too many tokens per day, please wait.", "quota_exhausted"),
    (429, "ModelNotReadyException", "not ready", "overloaded"),
    (500, "InternalServerException", "oh", "server_error"),
    (503, "ServiceUnavailableException", "busy", "overloaded"),
]


@pytest.mark.parametrize(("status", "body", "kind"), COHERE)
def test_cohere_errors(status: int, body: Any, kind: str) -> None:
    """Each status and body of Cohere's is of the kind that it means."""
    assert kind == answered("cohere", status, body).kind


@pytest.mark.parametrize(("status", "body", "kind"), OLLAMA)
def test_ollama_errors(status: int, body: Any, kind: str) -> None:
    """Each error of Ollama's is of the kind that it means, over both of its APIs."""
    assert kind == answered("ollama", status, body).kind
    assert kind == answered("ollama-openai", status, {"error": {"message": body["error"]}}).kind


@pytest.mark.parametrize("policy", ["bedrock-converse", "anthropic-bedrock"])
@pytest.mark.parametrize(("status", "name", "words", "kind"), BEDROCK)
def test_bedrock_errors(policy: str, status: int, name: str, words: str, kind: str) -> None:
    """Each exception of Bedrock's is told by the name in its header, and by its words."""
    failure = answered(policy, status, {"message": words}, aws(name))

    assert (kind, name, words) == (failure.kind, failure.code, failure.message)
    assert "day" == failure.scope or "per day" not in words


RECORDED = {
    "bedrock-400-anthropic-images": ("anthropic-bedrock", "media_rejected"),
    "bedrock-400-context-overflow": ("bedrock-converse", "context_overflow"),
    "bedrock-400-invoke-model": ("anthropic-bedrock", "not_found"),
    "bedrock-403-": ("bedrock-converse", "auth"),
    "cohere-400-context-overflow": ("cohere", "context_overflow"),
    "cohere-401-": ("cohere", "auth"),
    "ollama-404-": ("ollama", "not_found"),
    "ollama-cloud-400-context-overflow": ("ollama-openai", "context_overflow"),
    "ollama-cloud-401-": ("ollama-openai", "auth"),
}


@pytest.mark.skipif(not ERRORS.is_dir(), reason="needs the recorded errors beside the project")
def test_recorded_errors() -> None:
    """Recorded errors land on the kind that a person read from their bodies."""
    for start, (policy, kind) in RECORDED.items():
        (path,) = ERRORS.glob(f"{start}*.json")
        record = json.loads(path.read_text("utf-8"))
        failure = answered(policy, record["status"], record["body"], record["headers"])
        assert (path.stem, kind) == (path.stem, failure.kind)


@pytest.mark.parametrize(
    ("policy", "strategy", "can"),
    [
        ("cohere", "prefill", "instruct"),
        ("cohere", "resume", "instruct"),
        ("ollama", "resume", "prefill, instruct"),
        ("bedrock-converse", "resume", "prefill, instruct"),
        ("anthropic-bedrock", "resume", "prefill, instruct"),
        ("anthropic", "resume", "prefill, instruct"),
    ],
)
def test_strategies_that_a_dialect_has_not(
    tmp_path: Path, policy: str, strategy: str, can: str
) -> None:
    """A policy that asks for a strategy its dialect cannot do is refused, also for one model."""
    path = tmp_path / "mine.toml"
    asked = f'continuation.strategies = ["instruct", "{strategy}"]'
    for text in (asked, f'[[models]]\nmatch = ["x"]\n{asked}'):
        path.write_text(f'extends = ["{policy}"]\nname = "mine"\n{text}\n')
        with pytest.raises(PolicyError) as caught:
            load_policy(path)
        fault = caught.value.faults[0]
        assert f'"{strategy}", which dialect {shipped(policy).dialect} has not' == fault.found
        assert can == fault.expected


def test_unsigned_thinking_is_refused_where_it_is_signed(tmp_path: Path) -> None:
    """Claude on Bedrock takes no unsigned thinking back, so a policy cannot keep it."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = ["anthropic-bedrock"]\n[blocks.thinking]\nclosed = "keep"\n')
    with pytest.raises(PolicyError, match="keep_if_signed"):
        load_policy(path)
