"""Reported failures of Chat servers, played under the policy of every provider of the dialect.

The cases are handed to the project; what is right stands here by hand. Bytes only: the clients play
cases over sockets in tests/cases.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from provider_lanes import WAITS_FIRST
from strict_chat_providers import SERVERS
from twin import Answer, End, Twin

from midthought.policies import load_policy

CASES = Path(__file__).parents[3] / "shared" / "cases" / "cases.jsonl"
FAULTS: dict[str, End] = {"eof_clean": "eof", "fin": "fin", "rst": "rst", "stall": "stall"}
#: Models that prefill, where only some do; all others are asked for one that nobody has heard of.
MODELS = {"mistral": "mistral-large-latest", "groq": "llama-3.3-70b-versatile"}
ONE = [("tool_use", "call_1", "add", {"x": 1})]
#: The second answer of a case, and what came of the first, where that is gone on from.
REST, JOINED = "beta gamma", "Alpha beta gamma"


class Right(NamedTuple):
    """What is right."""

    requests: int = 1
    flat: Sequence[Any] = ()
    """What is seen, but reasoning; ``JOINED``: by how the server goes on."""
    stop: str = "end"
    kind: str | None = None
    """The failure that the turn ends with."""


ALPHA = [("text", "Alpha")]
RIGHT = {
    "A09-cut-after-finish": Right(flat=ALPHA),
    "B01-chat-no-finish": Right(2, JOINED),
    "B04-last-event-no-blank-line": Right(flat=ALPHA),
    "C05-hang-after-finish": Right(flat=ALPHA),
    "D02-error-chunk-as-empty": Right(2, JOINED),
    "E05-quota-as-retryable": Right(stop="error", kind="quota_exhausted"),
    "F02-bad-args-persisted": Right(2, [("tool_use", "call_2", "add", {"x": "hello"})], "tool_use"),
    "I01-utf8-split": Right(flat=[("text", "Zoë 🚀")]),
    "I03-no-space-after-colon": Right(flat=ALPHA),
    "I05-meta-only-events": Right(flat=ALPHA),
    "I08-bom": Right(flat=ALPHA),
    "I09-glued-half-event": Right(2, JOINED),
    "J01-stop-with-tools": Right(flat=ONE, stop="tool_use"),
    "J02-empty-or-null-choices": Right(flat=ALPHA),
    "J04-repeated-id-name": Right(flat=[("tool_use", "call_a", "add", {"x": 1})], stop="tool_use"),
    "J05-null-delta": Right(flat=ALPHA),
}
#: There the code of an empty account means tokens per minute, so that it is worth a wait.
OTHERWISE = {("E05-quota-as-retryable", "qwen"): "rate_limited"}


def _cases() -> dict[str, Any]:
    if not CASES.is_file():
        return {}
    lines = CASES.read_text("utf-8").splitlines()
    return {case["id"]: case["repro"] for case in map(json.loads, lines)}


REPROS = _cases()
pytestmark = pytest.mark.skipif(not REPROS, reason="the cases are not beside the project")


def answer_of(attempt: Mapping[str, Any]) -> Answer:
    """One scripted answer as bytes and the way it ends."""
    if "body" in attempt:
        headers = [("content-type", "application/json"), *attempt["headers"].items()]
        return Answer(attempt["body"].encode(), status=attempt["status"], headers=headers)
    body, end = b"", "eof"
    for step in attempt["steps"]:
        if isinstance(step, str):
            body += step.encode()
        elif "b64" in step:
            body += base64.b64decode(step["b64"])
        elif "fault" in step:
            end = step["fault"]
    return Answer(body, FAULTS.get(end, "eof"), chunk=3)


def model_of(policy: str) -> str:
    """The model that is asked."""
    return MODELS.get(policy, "some-model")


def played(case: str, policy: str, *, n: int = 1) -> Twin:
    """The turn, all its answers from the case; the last one repeats."""
    answers = [answer_of(attempt) for attempt in REPROS[case]["attempts"]]

    def upstream(body: Mapping[str, Any], number: int) -> Answer:
        return answers[min(number, len(answers) - 1)]

    messages = [{"role": "user", "content": "go"}]
    request: dict[str, Any] = {"model": model_of(policy), "messages": messages}
    request |= {"n": n} if n > 1 else {}
    return Twin(load_policy(policy), request, upstream, choices=n).run()


@pytest.mark.parametrize("policy", SERVERS)
@pytest.mark.parametrize("case", RIGHT)
def test_case(case: str, policy: str) -> None:
    """What people reported as broken is right under every provider's policy."""
    right = RIGHT[case]
    twin = played(case, policy)
    finished = twin.view.finished

    flat = right.flat
    if flat == JOINED:
        # Fewer than twelve first characters are not yet shown where a restart must be recognised.
        goes_on = SERVERS[policy].continues(model_of(policy)) and policy not in WAITS_FIRST
        flat = [("text", JOINED if goes_on else REST)]
    if kind := OTHERWISE.get((case, policy)):
        assert kind == finished.failure.kind.value
        assert len(twin.sent) == 11  # the first and ten more, each after a wait
        return
    assert right.kind == (finished.failure and finished.failure.kind.value)
    assert (right.requests, right.stop) == (len(twin.sent), finished.stop.value)
    assert [*flat] == twin.view.flat


@pytest.mark.parametrize("policy", SERVERS)
def test_usage_after_the_finish_reason(policy: str) -> None:
    """Tokens that are counted after the reply has stopped are counted (A09, J02)."""
    for case in ("A09-cut-after-finish", "J02-empty-or-null-choices"):
        usage = played(case, policy).machine.usage
        assert (5, 3) == (usage.input, usage.output)


@pytest.mark.parametrize("policy", SERVERS)
def test_choices_are_not_mixed(policy: str) -> None:
    """A cut with two choices is neither continued nor asked again; they stay apart (J08)."""
    twin = played("J08-n-choices", policy, n=2)

    assert 1 == len(twin.sent)
    assert "exhausted" == twin.view.finished.outcome
    texts = [block.joined("text") for block in twin.view.valid]
    assert {"Alpha", "Be"} >= {*texts}
    assert "Alpha" in texts


def test_tags_are_not_shown(tmp_path: Path) -> None:
    """Half a thought in tags is not text, and goes neither to the caller nor back (H10)."""
    for policy in SERVERS:
        path = tmp_path / f"{policy}-tags.toml"
        path.write_text(
            f'extends = ["{policy}"]\n[blocks.thinking]\ntags = ["<think>", "</think>"]'
        )
        twin = played("H10-think-tag-leak", str(path))

        assert (policy, [("text", "Alpha")]) == (policy, twin.view.flat)
        assert "<think>" not in json.dumps(twin.sent[-1].body)
