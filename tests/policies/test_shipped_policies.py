"""What the shipped policies say of each provider: models, features, keys, and the overlay."""

from typing import Any

import pytest

from midthought.policies import ACTIONS, load_policy
from midthought.providers import get_dialect

PREFILL = (
    "claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-sonnet-4-5-20250929",
    "claude-opus-4-5-20251101", "claude-opus-4-1-20250805", "claude-opus-4-20250514",
    "claude-sonnet-4-20250514", "claude-sonnet-4-0", "claude-3-7-sonnet-20250219",
    "claude-3-5-haiku-latest", "claude-3-opus-20240229", "claude-2.1", "claude-instant-1.2",
    "us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-sonnet-4-5@20250929",
    "anthropic/claude-opus-4.5",
)  # fmt: skip
NO_PREFILL = (
    "claude-opus-4-6", "claude-opus-4-6-20260205", "claude-opus-4-7-20260416", "claude-opus-4-8",
    "claude-opus-5", "claude-opus-5-5", "claude-sonnet-4-6", "claude-sonnet-5",
    "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5", "claude-fable-5-1",
    "claude-mythos-5", "claude-mythos-preview", "anthropic/claude-opus-4.6", "claude-sonnet-6", "",
)  # fmt: skip


def test_which_claude_takes_a_prefill() -> None:
    """Models up to 4.5 do, later ones and those that nobody knows are instructed."""
    policy = load_policy("anthropic")

    for model in PREFILL:
        assert (model, ("prefill", "instruct")) == (
            model,
            policy.for_model(model).continuation.strategies,
        )
    for model in NO_PREFILL:
        assert (model, ("instruct",)) == (model, policy.for_model(model).continuation.strategies)


@pytest.mark.parametrize(
    ("request_", "features"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"thinking"}),
        ({"thinking": {"type": "adaptive"}}, {"thinking"}),
        ({"thinking": {"type": "disabled"}, "tools": []}, set()),
        ({"output_format": {"type": "json_schema"}}, {"structured_output"}),
        ({"output_config": {"format": {"type": "json_schema"}}}, {"structured_output"}),
        ({"output_config": {"effort": "low"}, "temperature": 1}, set()),
        ({"tools": [{"name": "x"}], "temperature": 0}, {"tools", "deterministic"}),
        ({"temperature": 0.0}, {"deterministic"}),
    ],
)
def test_features_of_claude_requests(request_: dict[str, Any], features: set[str]) -> None:
    """What forbids a prefill is recognised in the request."""
    dialect = get_dialect("anthropic_messages")

    assert features == dialect.features({"messages": [], **request_}, load_policy("anthropic"))


def test_local_server_needs_no_key() -> None:
    """A base for other servers carries no address and no key, so that none is sent by mistake."""
    for name in ("openai-compatible", "llamacpp", "base", "strict"):
        assert load_policy(name).auth.key_env is None
    assert "" == load_policy("openai-compatible").base_url


def test_llamacpp_proves_its_joins() -> None:
    """Greedy requests roll the last word back, and both flags that a continuation needs are set."""
    policy = load_policy("llamacpp")

    assert "last_word" == policy.seam.prefill.deterministic_trim
    assert {"continue_final_message": True, "add_generation_prompt": False} == (
        policy.continuation.prefill.request
    )
    assert ("prefill", "instruct") == policy.continuation.strategies


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "llamacpp", "base"])
def test_strict_never_continues(provider: str) -> None:
    """The overlay keeps no half text, takes shown text back, and asks for the whole reply again."""
    policy = load_policy(f"{provider}+strict")
    hows = {ACTIONS[rule.action].how for rule in policy.rules}

    assert policy.turn.retract
    assert {"discard"} == {policy.blocks.text.open, policy.blocks.refusal.open}
    assert "continue" not in hows
    assert load_policy(provider).dialect == policy.dialect
