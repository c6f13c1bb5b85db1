"""Every recorded HTTP error under its provider's policy, against a table that a person wrote.

The kinds were read from the bodies, not from the classifier. Names are beginnings of the files'; of
two that fit, the longer one counts.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import Stop, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Failure, Finished

ERRORS = Path(__file__).parents[3] / "shared" / "corpus" / "errors"

#: What the files of a beginning are: the policy that they belong to, and the kind.
TABLE = {
    "anthropic-400-anthropic-handles-empty": ("anthropic", "invalid_request"),
    "anthropic-400-context-overflow": ("anthropic", "context_overflow"),
    "anthropic-401-": ("anthropic", "auth"),
    "anthropic-404-": ("anthropic", "not_found"),
    "azure-429-": ("azure-openai", "rate_limited"),
    "bedrock-400-anthropic-images": ("anthropic-bedrock", "media_rejected"),
    "bedrock-400-context-overflow": ("bedrock-converse", "context_overflow"),
    "bedrock-400-invoke-model": ("anthropic-bedrock", "not_found"),
    "bedrock-403-": ("bedrock-converse", "auth"),
    "cohere-400-context-overflow": ("cohere", "context_overflow"),
    "cohere-401-": ("cohere", "auth"),
    "deepseek-400-context-overflow": ("deepseek", "context_overflow"),
    "deepseek-401-": ("deepseek", "auth"),
    "google-400-object-streaming": ("gemini", "invalid_request"),
    # A wrong key is a 400 there; the reason in the details says so.
    "google-400-streaming": ("gemini", "auth"),
    "google-400-test-authentication": ("gemini", "auth"),
    "google-404-": ("gemini", "not_found"),
    # "exceeded your current quota", but of input tokens, and "Please retry in 48.9s".
    "google-429-": ("gemini", "rate_limited"),
    "groq-400-": ("groq", "not_found"),
    "groq-401-": ("groq", "auth"),
    "ollama-404-": ("ollama", "not_found"),
    "ollama-cloud-400-context-overflow": ("ollama-openai", "context_overflow"),
    "ollama-cloud-401-": ("ollama-openai", "auth"),
    "openai-400-cassettes": ("openai-responses", "invalid_request"),
    "openai-400-encodes": ("openai-responses", "invalid_request"),
    "openai-400-image-edit": ("openai-chat", "invalid_request"),
    "openai-400-object-streaming": ("openai-chat", "invalid_request"),
    "openai-400-object-streaming-2": ("openai-responses", "invalid_request"),
    "openai-400-object-streaming-3": ("openai-responses", "invalid_request"),
    "openai-400-openai-completions": ("openai-responses", "not_found"),
    "openai-400-streaming": ("openai-responses", "not_found"),
    "openai-400-test-call": ("openai-chat", "invalid_request"),
    "openai-400-test-model-not-found": ("openai-responses", "not_found"),
    "openai-401-": ("openai-responses", "auth"),
    "openai-404-": ("openai-chat", "not_found"),
    "openai-codex-401-": ("openai-responses", "auth"),
    "openrouter-400-": ("openrouter", "invalid_request"),
    "openrouter-400-context-overflow": ("openrouter", "context_overflow"),
    "openrouter-401-": ("openrouter", "auth"),
    # "Content violates usage guidelines", relayed with a 403.
    "openrouter-403-": ("openrouter", "blocked"),
    "openrouter-404-": ("openrouter", "not_found"),
    "openrouter-429-": ("openrouter", "rate_limited"),
    "perplexity-400-context-overflow": ("openai-compatible", "context_overflow"),
    "perplexity-401-": ("openai-compatible", "auth"),
    "reported-anthropic-400-prefill-rejected": ("anthropic", "prefill_rejected"),
    "reported-anthropic-529-": ("anthropic", "overloaded"),
    "together-401-": ("together", "auth"),
    "vertex-400-context-overflow": ("vertex", "context_overflow"),
    "vertex-400-generate-content": ("vertex", "invalid_request"),
    "vertex-404-": ("vertex", "not_found"),
    "xai-400-": ("xai", "invalid_request"),
    "xai-404-": ("xai", "not_found"),
}
#: Waits that the errors tell, in seconds; all others tell none.
WAITS = {
    "azure-429-": 1.0,  # retry-after
    "google-429-": 48.939935699,  # "Please retry in 48.939935699s."
    "openrouter-429-streaming": 5.0,  # a limit's reset, five seconds after the response's date
    "openrouter-429-streaming-2": None,
}

shipped = cache(load_policy)
FILES = sorted(ERRORS.glob("*.json"))
pytestmark = pytest.mark.skipif(not FILES, reason="the recorded errors are not beside the project")


def entry_of(stem: str, table: dict[str, Any]) -> Any:
    """The entry whose beginning fits best; ``None``: none fits."""
    fitting = [start for start in table if stem.startswith(start)]
    return table[max(fitting, key=len)] if fitting else None


def failure_of(record: dict[str, Any], policy_name: str) -> Failure:
    """The failure that the recorded response is, read as it came: status, headers, body."""
    policy = shipped(policy_name)
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0)
    events = reader.response(record["status"], list(record["headers"].items()))
    events += reader.feed(json.dumps(record["body"]).encode())
    events += reader.end()
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.stop is Stop.error and finished.failure is not None
    return finished.failure


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_recorded_error(path: Path) -> None:
    """The error is of the kind, and tells the wait, that a person read from it."""
    record = json.loads(path.read_text("utf-8"))
    policy_name, kind = entry_of(path.stem, TABLE)

    failure = failure_of(record, policy_name)

    assert kind == failure.kind
    assert record["status"] == failure.status
    assert entry_of(path.stem, WAITS) == failure.retry_after_s


def test_the_table_is_about_recordings() -> None:
    """Every recording has an entry, and every entry is about some recording."""
    stems = [path.stem for path in FILES]

    assert [] == [stem for stem in stems if entry_of(stem, TABLE) is None]
    assert [] == [start for start in TABLE if not any(stem.startswith(start) for stem in stems)]
