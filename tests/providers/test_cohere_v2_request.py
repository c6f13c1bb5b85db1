"""Requests of the Cohere dialect are valid, carry the partial, and touch no input."""

import copy
from typing import Any

import pytest
from native_blocks import call, kept, plain, thought
from native_reading import shipped
from pydantic import TypeAdapter
from strict_cohere import cohere_faults

from midthought.policies import Policy
from midthought.providers import get_dialect
from midthought.statemachine import Block, Continue, Request

DIALECT = get_dialect("cohere_v2")
POLICY = shipped("cohere")
REQUEST: dict[str, Any] = {
    "model": "command-a-03-2025",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "go"}],
    "of_tomorrow": 1,
}


def official(messages: list[dict[str, Any]]) -> None:
    """The SDK's own types take these messages."""
    cohere = pytest.importorskip("cohere")
    for message in messages:
        made = TypeAdapter(cohere.ChatMessageV2).validate_python(message)
        assert message["role"] == made.role


def go_on(
    blocks: list[Block], request: dict[str, Any] = REQUEST, policy: Policy = POLICY
) -> dict[str, Any]:
    """Body of the continuation, checked; the caller's request must come out of it untouched."""
    before = copy.deepcopy(request)
    order = Continue("instruct", blocks, "go on", 100)
    body = dict(DIALECT.continuation(request, policy, order).body)
    assert before == request
    official(body["messages"])
    assert [] == cohere_faults({**body, "stream": True})
    return body


def test_original() -> None:
    """Request 0 is the caller's, as a stream."""
    assert {**REQUEST, "stream": True} == DIALECT.original(REQUEST, POLICY).body
    assert 1 == DIALECT.choices(REQUEST)
    assert ("command-a-03-2025", 4096) == (DIALECT.model(REQUEST), DIALECT.cap(REQUEST, POLICY))
    assert "/v2/chat" == DIALECT.url(REQUEST, POLICY)


def test_instruct() -> None:
    """The partial as the assistant's message, the instruction after it, the new cap."""
    body = go_on([thought("hm"), plain("Alpha "), plain("beta")])

    assert [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                {"type": "text", "text": "Alpha beta"},
            ],
        },
        {"role": "user", "content": "go on"},
    ] == body["messages"]
    assert (100, True, 1) == (body["max_tokens"], body["stream"], body["of_tomorrow"])


def test_callers_own_last_message() -> None:
    """A request that ends with an assistant message goes on in it."""
    for own in ("It is (", [{"type": "text", "text": "It is ("}]):
        messages = [*REQUEST["messages"], {"role": "assistant", "content": own}]
        body = go_on([plain("B)")], {**REQUEST, "messages": messages})
        assert [{"type": "text", "text": "It is (B)"}] == body["messages"][1]["content"]


def test_nothing_to_go_on_from() -> None:
    """With nothing to send back the bridge stands in; without one it is refused."""
    for blocks in ([], [plain(" ")], [thought("hm")], [thought("p", data={"type": "tool_plan"})]):
        with pytest.raises(ValueError, match="retry the request instead"):
            go_on(blocks)
    bridged = POLICY.model_copy(
        update={
            "continuation": POLICY.continuation.model_copy(
                update={
                    "instruct": POLICY.continuation.instruct.model_copy(update={"bridge": "(…)"})
                }
            )
        }
    )
    assert "(…)" == go_on([], policy=bridged)["messages"][1]["content"]


def test_history() -> None:
    """Calls go back with their plan; half calls, open thoughts and blank text do not."""
    blocks = [
        thought("I will.", data={"type": "tool_plan"}),
        call('{"a":1}'),
        call("", id="c2"),
        call("{", id="c3", closed=False),
        call("", id="c4", closed=False),
        plain(" \n"),
        thought("open", closed=False),
        kept("other", data={"x": 1}),
    ]
    (message,) = DIALECT.messages(blocks, POLICY)
    answers = DIALECT.not_executed([blocks[1], blocks[2]], POLICY)

    assert {
        "role": "assistant",
        "tool_plan": "I will.",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    } == message
    history = [*REQUEST["messages"], message, *answers]
    official(history)
    assert [] == cohere_faults({**REQUEST, "stream": True, "messages": history})


def test_strip_thinking() -> None:
    """Thinking and plan of the last assistant message go, or of all."""
    blocks = [thought("hm"), plain("A"), thought("p", data={"type": "tool_plan"}), call()]
    messages = [
        *DIALECT.messages(blocks, POLICY),
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]},
        {"role": "user", "content": "go on"},
    ]
    request = Request({"messages": messages}, {"h": "v"})
    turn = DIALECT.strip_thinking(request, POLICY)
    everything = DIALECT.strip_thinking(request, POLICY, turn_only=False)

    assert [messages[0], messages[2]] == turn.body["messages"]
    assert [{"type": "text", "text": "A"}] == everything.body["messages"][0]["content"]
    assert "tool_plan" not in everything.body["messages"][0]
    assert {"h": "v"} == turn.headers


def test_features() -> None:
    """Features by rows and by grammar."""
    found: dict[str, dict[str, Any]] = {
        "thinking": {"thinking": {"type": "enabled", "token_budget": 5}},
        "structured_output": {"response_format": {"type": "json_object"}},
        "tools": {"tools": [{"type": "function"}]},
        "deterministic": {"temperature": 0},
    }
    for feature, request in found.items():
        assert {feature} == DIALECT.features(request, POLICY)
    assert frozenset() == DIALECT.features({"thinking": {"type": "disabled"}}, POLICY)


def test_headers() -> None:
    """The key is a bearer token; compressed streams are not asked for."""
    headers = DIALECT.headers(POLICY, "secret")
    assert ("Bearer secret", "identity", "text/event-stream") == (
        headers["authorization"],
        headers["accept-encoding"],
        headers["accept"],
    )
    assert "authorization" not in DIALECT.headers(POLICY, None)
    assert None is DIALECT.resume(REQUEST, POLICY, {}, poll=False)
    assert None is DIALECT.stop_call(POLICY, {})
