"""Requests of Ollama's own API are valid, carry the partial, and touch no input."""

import copy
from typing import Any

import pytest
from native_blocks import call, kept, plain, thought
from native_reading import shipped
from strict_ollama import ollama_faults

from midthought.providers import get_dialect
from midthought.statemachine import Block, Continue, Request

DIALECT = get_dialect("ollama")
POLICY = shipped("ollama")
REQUEST: dict[str, Any] = {
    "model": "qwen3",
    "options": {"num_predict": 4096, "seed": 1},
    "messages": [{"role": "user", "content": "go"}],
    "keep_alive": "5m",
}


def official(body: dict[str, Any]) -> None:
    """The SDK's own request type takes this body."""
    types = pytest.importorskip("ollama._types")
    made = types.ChatRequest(**body)
    assert len(body["messages"]) == len(made.messages)


def go_on(
    blocks: list[Block], strategy: str = "prefill", request: dict[str, Any] = REQUEST
) -> dict[str, Any]:
    """Body of the continuation, checked; the caller's request must come out of it untouched."""
    before = copy.deepcopy(request)
    order = Continue(strategy, blocks, "go on", 100)
    body = dict(DIALECT.continuation(request, POLICY, order).body)
    assert before == request
    official(body)
    assert [] == ollama_faults(body)
    return body


def test_original() -> None:
    """Request 0 is the caller's, as a stream."""
    assert {**REQUEST, "stream": True} == DIALECT.original(REQUEST, POLICY).body
    assert ("qwen3", 4096) == (DIALECT.model(REQUEST), DIALECT.cap(REQUEST, POLICY))
    assert "/api/chat" == DIALECT.url(REQUEST, POLICY)
    assert "application/x-ndjson" == DIALECT.headers(POLICY, None)["accept"]
    assert "Bearer k" == DIALECT.headers(POLICY, "k")["authorization"]


def test_continuations() -> None:
    """Prefill ends with the partial, instruct with the instruction; thinking goes along."""
    blocks = [thought("hm"), plain("Alpha "), plain("beta")]
    partial = {"role": "assistant", "content": "Alpha beta", "thinking": "hm"}
    prefill, instruct = go_on(blocks), go_on(blocks, "instruct")

    assert [*REQUEST["messages"], partial] == prefill["messages"]
    assert {"num_predict": 100, "seed": 1} == prefill["options"]
    assert [partial, {"role": "user", "content": "go on"}] == instruct["messages"][1:]


def test_callers_own_last_message() -> None:
    """A request that ends with an assistant message goes on in it."""
    messages = [*REQUEST["messages"], {"role": "assistant", "content": "It is ("}]
    body = go_on([plain("B)")], request={**REQUEST, "messages": messages})
    assert "It is (B)" == body["messages"][-1]["content"]


def test_nothing_to_go_on_from() -> None:
    """With nothing to send back it is refused."""
    for blocks in ([], [plain(" ")], [thought("hm")]):
        with pytest.raises(ValueError, match="retry the request instead"):
            go_on(blocks)


def test_history() -> None:
    """Calls go back as objects, with their id if they have one; half calls do not."""
    blocks = [
        call('{"a":1}', id=None),
        call("", id="c2", name="g"),
        call("{", id="c3", closed=False),
        call("[1]", id="c5"),
        call("", id="c4", closed=False),
        kept("media", data={"images": ["x"]}),
    ]
    (message,) = DIALECT.messages(blocks, POLICY)
    answers = DIALECT.not_executed(blocks[:2], POLICY)

    assert {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"function": {"name": "f", "arguments": {"a": 1}}},
            {"function": {"name": "g", "arguments": {}}, "id": "c2"},
        ],
    } == message
    assert ["f", "g"] == [answer["tool_name"] for answer in answers]
    body = {**REQUEST, "messages": [*REQUEST["messages"], message, *answers]}
    official(body)
    assert [] == ollama_faults(body)


def test_strip_thinking() -> None:
    """The thinking of the last assistant message goes; a message of nothing else too."""
    calls = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}
    messages: list[dict[str, Any]] = [
        {"role": "assistant", "content": "A", "thinking": "x"},
        {"role": "assistant", "content": "", "thinking": "y"},
    ]
    request = Request({"messages": messages})
    everything = DIALECT.strip_thinking(request, POLICY, turn_only=False)

    assert messages[:1] == DIALECT.strip_thinking(request, POLICY).body["messages"]
    assert [{"role": "assistant", "content": "A"}] == everything.body["messages"]
    called = Request({"messages": [{**calls, "thinking": "z"}]})
    assert [calls] == DIALECT.strip_thinking(called, POLICY).body["messages"]


def test_features() -> None:
    """Features by rows and by grammar; what forbids a prefill is found."""
    calls = [{"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}]
    found: dict[str, dict[str, Any]] = {
        "thinking": {"think": "low"},
        "structured_output": {"format": "json"},
        "tools": {"tools": [{"type": "function"}]},
        "deterministic": {"options": {"temperature": 0}},
        "tool_calls_in_last": {"messages": calls},
    }
    for feature, request in found.items():
        assert {feature} == DIALECT.features(request, POLICY)
    assert frozenset() == DIALECT.features({"think": False, "tools": []}, POLICY)
    assert {"structured_output", "tools", "tool_calls_in_last"} == set(
        POLICY.continuation.prefill.forbidden_with
    )
