"""What the policies of providers say, held against tables written by hand from the facts."""

from datetime import date
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import ACTIONS, Policy, PolicyError, list_policies, load_policy
from midthought.providers import get_dialect

PREFILL, INSTRUCT = ("prefill", "instruct"), ("instruct",)
#: How a reply goes on, by policy and model; models that nobody has heard of are instructed, except
#: where a server prefills whatever model it runs.
WAYS: dict[str, dict[str, tuple[str, ...]]] = {
    "mistral": {
        "mistral-large-latest": PREFILL,
        "codestral-2508": PREFILL,
        "magistral-medium-2507": INSTRUCT,
        "zai-glm-5-2": INSTRUCT,
    },
    "deepseek": {"deepseek-chat": PREFILL, "deepseek-reasoner": PREFILL, "deepseek-v5": PREFILL},
    "moonshot": {
        "kimi-k3": PREFILL,
        "moonshot-v1-8k": PREFILL,
        "kimi-k2.5": INSTRUCT,
        "kimi-k2.7-code-highspeed": INSTRUCT,
        "kimi-k2-thinking": INSTRUCT,
        "kimi-k4": INSTRUCT,
    },
    "qwen": {
        "qwen-plus": PREFILL,
        "qwen3-max": PREFILL,
        "qwen3-coder-plus": PREFILL,
        "qwen3-235b-a22b-instruct-2507": PREFILL,
        "qwen3-235b-a22b-thinking-2507": INSTRUCT,
        "qwen3.5-plus": INSTRUCT,
        "qwq-plus": INSTRUCT,
        "deepseek-v3.2": INSTRUCT,
    },
    "zai": {"glm-4.6": INSTRUCT, "": INSTRUCT},
    "xai": {"grok-4": INSTRUCT, "": INSTRUCT},
    "groq": {
        "llama-3.3-70b-versatile": PREFILL,
        "meta-llama/llama-4-scout-17b-16e-instruct": PREFILL,
        "openai/gpt-oss-20b": INSTRUCT,
        "qwen/qwen3-32b": INSTRUCT,
        "meta-llama/llama-guard-4-12b": INSTRUCT,
        "groq/compound-mini": INSTRUCT,
    },
    "together": {"meta-llama/Llama-3.3-70B-Instruct-Turbo": INSTRUCT, "": INSTRUCT},
    "fireworks": {"accounts/fireworks/models/llama-v3p1-8b-instruct": INSTRUCT, "": INSTRUCT},
    "cerebras": {"gpt-oss-120b": INSTRUCT, "": INSTRUCT},
    "openrouter": {
        "anthropic/claude-haiku-4.5": PREFILL,
        "anthropic/claude-sonnet-4:beta": PREFILL,
        "anthropic/claude-sonnet-4.6": INSTRUCT,
        "anthropic/claude-opus-5": INSTRUCT,
        "deepseek/deepseek-chat-v3-0324": PREFILL,
        "deepseek/deepseek-r1": INSTRUCT,
        "moonshotai/kimi-k2": PREFILL,
        "moonshotai/kimi-k2-thinking": INSTRUCT,
        "openai/gpt-5": INSTRUCT,
        "google/gemini-2.5-pro": INSTRUCT,
    },
    "vllm": {
        "meta-llama/Llama-3.1-8B-Instruct": PREFILL,
        "Qwen/Qwen2.5-7B-Instruct": PREFILL,
        "Qwen/Qwen3-32B": INSTRUCT,
        "openai/gpt-oss-20b": INSTRUCT,
    },
    "sglang": {"meta-llama/Llama-3.1-8B-Instruct": PREFILL, "deepseek-ai/DeepSeek-R1": INSTRUCT},
    "lmstudio": {"any": INSTRUCT},
    "tgi": {"tgi": PREFILL},
}
BOTH_FLAGS = {"continue_final_message": True, "add_generation_prompt": False}
#: What a prefill adds to the message, to the request, and to the address; whether it is echoed.
PREFILLS: dict[str, tuple[dict[str, Any], dict[str, Any], str, bool]] = {
    "mistral": ({"prefix": True}, {}, "", True),
    "deepseek": ({"prefix": True}, {}, "/beta", False),
    "moonshot": ({"partial": True}, {}, "", False),
    "qwen": ({"partial": True}, {}, "", False),
    "groq": ({}, {}, "", False),
    "openrouter": ({}, {}, "", False),
    "vllm": ({}, BOTH_FLAGS, "", False),
    "sglang": ({}, {"continue_final_message": True}, "", False),
    "tgi": ({}, {}, "", False),
}
#: Field of an assistant message in which reasoning goes back; none: refused, or not asked for.
REASONING = {
    "mistral": None,
    "deepseek": "reasoning_content",
    "moonshot": "reasoning_content",
    "qwen": None,
    "zai": "reasoning_content",
    "xai": None,
    "groq": None,
    "cerebras": None,
    "openrouter": "reasoning_details",
    "vllm": None,
    "sglang": None,
    "tgi": None,
}
ADDRESSES = {
    "mistral": ("https://api.mistral.ai/v1/chat/completions", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/chat/completions", "DEEPSEEK_API_KEY"),
    "moonshot": ("https://api.moonshot.ai/v1/chat/completions", "MOONSHOT_API_KEY"),
    "qwen": (
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions",
        "DASHSCOPE_API_KEY",
    ),
    "zai": ("https://api.z.ai/api/paas/v4/chat/completions", "ZAI_API_KEY"),
    "xai": ("https://api.x.ai/v1/chat/completions", "XAI_API_KEY"),
    "groq": ("https://api.groq.com/openai/v1/chat/completions", "GROQ_API_KEY"),
    "together": ("https://api.together.xyz/v1/chat/completions", "TOGETHER_API_KEY"),
    "fireworks": ("https://api.fireworks.ai/inference/v1/chat/completions", "FIREWORKS_API_KEY"),
    "cerebras": ("https://api.cerebras.ai/v1/chat/completions", "CEREBRAS_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1/chat/completions", "OPENROUTER_API_KEY"),
    "vllm": ("http://127.0.0.1:8000/v1/chat/completions", None),
    "sglang": ("http://127.0.0.1:30000/v1/chat/completions", None),
    "lmstudio": ("http://127.0.0.1:1234/v1/chat/completions", None),
    "tgi": ("http://127.0.0.1:8080/v1/chat/completions", None),
}
#: What each dialect can do, whatever a policy would like.
CAN = {
    "anthropic_messages": PREFILL,
    "anthropic_vertex": PREFILL,
    "bedrock_converse": PREFILL,
    "bedrock_invoke": PREFILL,
    "cohere_v2": INSTRUCT,
    "gemini": ("resume", *PREFILL),
    "ollama": PREFILL,
    "openai_chat": PREFILL,
    "openai_responses": ("resume", *INSTRUCT),
}

shipped = cache(load_policy)


def test_every_policy_that_ships_says_where_it_is_from() -> None:
    """Each loads, with a title, sources and the day they were read; none names a fallback."""
    found = list_policies()

    assert {info.name: "" for info in found} == {info.name: info.problem for info in found}
    assert {*WAYS, "base", "chat-base", "openai-compatible"} <= {info.name for info in found}
    for info in found:
        policy = shipped(info.name)
        assert policy.about.title, info.name
        assert () == policy.fallback, info.name
        if policy.provider:
            assert policy.about.source and date.fromisoformat(policy.about.checked), info.name


@pytest.mark.parametrize("name", WAYS)
def test_ways_to_go_on(name: str) -> None:
    """Which models are prefilled and which instructed is as the facts say."""
    found = {model: shipped(name).for_model(model).continuation.strategies for model in WAYS[name]}

    assert WAYS[name] == found


@pytest.mark.parametrize("name", PREFILLS)
def test_what_a_prefill_takes(name: str) -> None:
    """Each provider gets the mark that it wants on the message, the request or the address."""
    prefill = shipped(name).continuation.prefill

    found = (prefill.message, prefill.request, prefill.base_url_suffix, prefill.echoes)
    assert PREFILLS[name] == found
    assert {"n", "structured_output", "tool_calls_in_last"} <= {*prefill.forbidden_with}


def test_kimi_behind_a_router() -> None:
    """There the mark is for Kimi alone: other models' upstreams do not know it."""
    policy = shipped("openrouter")

    assert {"partial": True} == policy.for_model("moonshotai/kimi-k2").continuation.prefill.message
    assert {} == policy.for_model("deepseek/deepseek-chat").continuation.prefill.message


@pytest.mark.parametrize("name", REASONING)
def test_where_reasoning_goes_back(name: str) -> None:
    """Reasoning goes back in the field that the provider reads, and nowhere else."""
    thinking = shipped(name).blocks.thinking

    assert REASONING[name] == thinking.history_field
    assert ("keep" if REASONING[name] else "") == ("keep" if thinking.closed == "keep" else "")


@pytest.mark.parametrize("name", ADDRESSES)
def test_where_requests_go(name: str) -> None:
    """Address and key variable are the provider's own."""
    policy = shipped(name)
    url = policy.base_url + get_dialect(policy.dialect).url({}, policy)

    assert ADDRESSES[name] == (url, policy.auth.key_env)


def test_mistral_gets_no_field_that_it_does_not_know() -> None:
    """It refuses stream_options and max_completion_tokens with a 422; the others get them."""
    for name in WAYS:
        merged = shipped(name).stream.merge
        asks = {"stream": True, "stream_options": {"include_usage": True}}
        assert (name, {"stream": True} if name == "mistral" else asks) == (name, merged)
    assert ("max_tokens",) == shipped("mistral").cap.fields
    assert shipped("mistral").continuation.instruct.bridge


@pytest.mark.parametrize(
    ("name", "request_", "features"),
    [
        ("mistral", {"prompt_mode": "reasoning"}, {"thinking"}),
        ("mistral", {"reasoning_effort": "high"}, {"thinking"}),
        ("deepseek", {"thinking": {"type": "enabled"}}, {"thinking"}),
        ("deepseek", {"thinking": {"type": "disabled"}}, set()),
        ("moonshot", {"response_format": {"type": "json_object"}}, {"structured_output"}),
        ("qwen", {"enable_thinking": True}, {"thinking"}),
        ("qwen", {"enable_thinking": False}, set()),
        ("groq", {"reasoning_effort": "default"}, {"thinking"}),
        ("groq", {"reasoning_effort": "none"}, set()),
        ("openrouter", {"reasoning": {"effort": "low"}}, {"thinking"}),
        ("openrouter", {"reasoning": {"max_tokens": 2000}}, {"thinking"}),
        ("openrouter", {"reasoning": {"enabled": True}}, {"thinking"}),
        ("openrouter", {"reasoning": {"enabled": False}}, set()),
        ("vllm", {"chat_template_kwargs": {"thinking": True}}, {"thinking"}),
        ("vllm", {"chat_template_kwargs": {"enable_thinking": False}}, set()),
        ("vllm", {"top_k": 1}, {"deterministic"}),
        ("sglang", {"chat_template_kwargs": {"enable_thinking": True}}, {"thinking"}),
    ],
)
def test_features_of_requests(name: str, request_: dict[str, Any], features: set[str]) -> None:
    """What rules a prefill out is seen in the request, by each provider's own names."""
    policy = shipped(name)

    assert features == get_dialect(policy.dialect).features({"messages": [], **request_}, policy)


@pytest.mark.parametrize("name", WAYS)
def test_strict_lies_over_each(name: str) -> None:
    """The overlay that trusts no partial output can be laid over every provider."""
    policy = load_policy(f"{name}+strict")

    assert policy.turn.retract
    assert "continue" not in {ACTIONS[rule.action].how for rule in policy.rules}
    assert shipped(name).classify == policy.classify


@pytest.mark.parametrize("dialect", CAN)
def test_a_dialect_is_not_asked_for_what_it_cannot(dialect: str, tmp_path: Path) -> None:
    """A strategy that the dialect has not is refused at load, in the policy and for some models."""
    path = tmp_path / "asks.toml"
    for strategy, entry in product(("resume", "prefill", "instruct"), (False, True)):
        ways = f'continuation.strategies = ["{strategy}"]\n'
        text = f'[[models]]\nmatch = ["x*"]\n{ways}' if entry else ways
        path.write_text(f'extends = ["base"]\ndialect = "{dialect}"\n{text}')
        if strategy in CAN[dialect]:
            assert isinstance(load_policy(path), Policy)
            continue
        with pytest.raises(PolicyError) as raised:
            load_policy(path)
        (fault,) = raised.value.faults
        assert (str(path), 5 if entry else 3) == (fault.file, fault.line)
        assert f'"{strategy}", which dialect {dialect} has not' == fault.found
        assert ", ".join(CAN[dialect]) == fault.expected
