"""The fakes that judge continuation requests: each refuses what its provider refuses."""

from typing import Any

import pytest
from strict_chat_providers import SERVERS, StrictChatServer

USER = {"role": "user", "content": "go"}
TOOL = [
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c", "content": "ok"},
]  # fmt: skip
PREFIX: dict[str, Any] = {"prefix": True}
PARTIAL: dict[str, Any] = {"partial": True}
FLAGS: dict[str, Any] = {"continue_final_message": True, "add_generation_prompt": False}


def request(model: str, *messages: Any, **more: Any) -> dict[str, Any]:
    """A streamed request."""
    return {"model": model, "stream": True, "messages": [USER, *messages], **more}


def partial(text: str = "Once", **more: Any) -> dict[str, Any]:
    """An assistant message."""
    return {"role": "assistant", "content": text, **more}


TAKEN = [
    ("mistral", request("mistral-large-latest", partial(**PREFIX), max_tokens=9), ""),
    ("mistral", request("mistral-large-latest", partial(), USER), ""),
    ("deepseek", request("deepseek-chat", partial(**PREFIX)), "/beta"),
    ("moonshot", request("kimi-k3", partial(**PARTIAL)), ""),
    ("qwen", request("qwen-plus", partial(**PARTIAL)), ""),
    ("groq", request("llama-3.1-8b-instant", partial()), ""),
    ("openrouter", request("anthropic/claude-haiku-4.5", partial()), ""),
    ("openrouter", request("moonshotai/kimi-k2", partial(**PARTIAL)), ""),
    ("vllm", request("m", partial(), **FLAGS), ""),
    ("sglang", request("m", partial(), continue_final_message=True), ""),
    ("tgi", request("tgi", partial()), ""),
    ("zai", request("glm-4.6", partial(reasoning_content="hm"), USER), ""),
    ("xai", request("grok-4", *TOOL, USER), ""),
]
REFUSED = [
    ("mistral", request("mistral-large-latest", partial()), "", "prefix"),
    ("mistral", request("magistral-medium", partial(**PREFIX)), "", "must not be the assistant's"),
    ("mistral", request("mistral-small", partial(**PREFIX), stream_options={}), "", "extra inputs"),
    ("mistral", request("mistral-small", max_completion_tokens=5), "", "extra inputs"),
    ("mistral", request("mistral-small", *TOOL, USER), "", "after role 'tool'"),
    ("mistral", request("mistral-small", partial(reasoning_content="x"), USER), "", "unsupported"),
    ("mistral", request("mistral-small", partial(**PREFIX), prompt_mode="reasoning"), "", "not"),
    ("mistral", request("mistral-small", partial(**PREFIX), USER), "", "only the last message"),
    ("deepseek", request("deepseek-chat", partial(**PREFIX)), "", "only taken at '/beta'"),
    ("deepseek", request("deepseek-chat", partial()), "/beta", "have prefix"),
    ("moonshot", request("kimi-k3", partial()), "", "have partial"),
    ("moonshot", request("kimi-k3", partial(**PREFIX)), "", "unknown marks"),
    ("moonshot", request("kimi-k2.5", partial(**PARTIAL)), "", "must not be the assistant's"),
    ("qwen", request("qwen-plus", partial(**PARTIAL), enable_thinking=True), "", "enable_thinking"),
    ("qwen", request("qwen-plus", partial("Once ", **PARTIAL)), "", "white space"),
    ("zai", request("glm-4.6", partial()), "", "must not be the assistant's"),
    ("xai", request("grok-4", partial(reasoning_content="x"), USER), "", "unsupported"),
    ("groq", request("openai/gpt-oss-20b", partial()), "", "must not be the assistant's"),
    ("groq", request("llama-3.1-8b", partial(), tools=[{}]), "", "incompatible with tools"),
    ("cerebras", request("m", partial(reasoning_content="x"), USER), "", "unsupported"),
    ("openrouter", request("openai/gpt-5", partial()), "", "must not be the assistant's"),
    ("openrouter", request("moonshotai/kimi-k2", partial()), "", "have partial"),
    ("vllm", request("m", partial()), "", "a new one begins"),
    ("vllm", request("m", partial(), continue_final_message=True), "", "add_generation_prompt"),
    ("vllm", request("qwen3-32b", partial(), **FLAGS), "", "must not be the assistant's"),
    ("sglang", request("m", partial()), "", "a new one begins"),
    (
        "sglang",
        request("m", {"role": "assistant", "content": [{"type": "text", "text": "Once"}]},
                continue_final_message=True),
        "",
        "string",
    ),
    ("lmstudio", request("m", partial()), "", "must not be the assistant's"),
    ("fireworks", request("m", partial(), partial(), USER), "", "two assistant messages"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body", "suffix"), TAKEN)
def test_taken(name: str, body: dict[str, Any], suffix: str) -> None:
    """A request as the provider's documentation shows it is taken."""
    assert [] == StrictChatServer(name).faults(body, suffix)


@pytest.mark.parametrize(("name", "body", "suffix", "why"), REFUSED)
def test_refused(name: str, body: dict[str, Any], suffix: str, why: str) -> None:
    """One that it refuses, or silently answers anew, is refused, and the fault says why."""
    assert [fault for fault in StrictChatServer(name).faults(body, suffix) if why in fault]


def test_every_fake_is_tried() -> None:
    """No fake that judges is itself unjudged, but those that have no habit of their own."""
    plain = {"together", "azure-openai", "openai-chat", "openai-compatible"}
    tried = {name for name, *_ in [*TAKEN, *REFUSED]}

    assert {*SERVERS} - plain - {"llamacpp", "ollama-openai"} == tried
