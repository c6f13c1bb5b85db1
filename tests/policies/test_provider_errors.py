"""What each provider of the Chat dialect means by its errors: documented or reported, by hand.

``tests/data/provider_errors.jsonl`` is the table: a response (``status``, ``body``) or a ``frame``
of a stream, and the kind that the provider means. Which of the 429s pass is the point: a rate limit
waits, an empty account does not. Recorded errors are in tests/providers.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Failure, Finished

TABLE = Path(__file__).parents[1] / "data" / "provider_errors.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in TABLE.read_text("utf-8").splitlines()]
BEGUN = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"Once"}}]}\n\n'

shipped = cache(load_policy)


def failure_of(policy_name: str, status: int, data: bytes, content_type: str) -> Failure:
    """The failure that a response is."""
    policy = shipped(policy_name)
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0)
    events = reader.response(status, [("content-type", content_type)])
    events += reader.feed(data)
    events += reader.end()
    (finished,) = [event for event in events if isinstance(event, Finished)]
    assert finished.failure is not None
    return finished.failure


def answered(policy_name: str, status: int, body: Any) -> Failure:
    """The failure of a JSON body."""
    return failure_of(policy_name, status, json.dumps(body).encode(), "application/json")


def coded(code: str, message: str = "") -> dict[str, Any]:
    """An error body with a code."""
    return {"error": {"message": message, "code": code}}


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "body" in row], ids=lambda row: row["policy"]
)
def test_error_of_a_provider(row: dict[str, Any]) -> None:
    """An error is of the kind that the provider means by it."""
    assert row["kind"] == answered(row["policy"], row["status"], row["body"]).kind


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "frame" in row], ids=lambda row: row["policy"]
)
def test_error_in_a_stream(row: dict[str, Any]) -> None:
    """After a 200, an error frame or a failing finish reason is what the provider means by it.

    Whatever comes after it, and be it the end marker.
    """
    stream = BEGUN + row["frame"].encode() + b"\n\ndata: [DONE]\n\n"

    assert row["kind"] == failure_of(row["policy"], 200, stream, "text/event-stream").kind


@pytest.mark.parametrize(
    ("policy", "code", "message", "wait_s"),
    [
        ("groq", "rate_limit_exceeded", "Please try again in 4.77s.", 4.77),
        ("groq", "rate_limit_exceeded", "Please try again in 7m12.5s.", 432.5),
        ("moonshot", "rate_limit_reached_error", "please try again after 3 seconds", 3.0),
        # A time of day without a zone is no wait.
        ("zai", "1308", "Your limit will reset at 2026-08-27 21:31:39", None),
    ],
)
def test_waits_in_words(policy: str, code: str, message: str, wait_s: float | None) -> None:
    """A wait that the provider tells in its message is read from it."""
    assert wait_s == answered(policy, 429, coded(code, message)).retry_after_s


@pytest.mark.parametrize(
    ("policy", "status", "body", "scope"),
    [
        ("deepseek", 402, coded("", "Insufficient Balance"), None),
        ("moonshot", 429, coded("exceeded_current_quota_error"), "spend"),
        ("qwen", 400, coded("Arrearage"), "spend"),
        ("zai", 429, coded("1304"), "day"),
        ("zai", 429, coded("1308"), "plan"),
        ("groq", 429, coded("rate_limit_exceeded", "on tokens per day (TPD)"), "day"),
    ],
)
def test_which_limit_it_was(policy: str, status: int, body: Any, scope: str | None) -> None:
    """Where the provider says which limit it was, the failure says it too."""
    failure = answered(policy, status, body)

    assert ("quota_exhausted", scope) == (failure.kind, failure.scope)
