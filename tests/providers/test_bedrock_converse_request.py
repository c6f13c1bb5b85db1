"""Requests of the Converse dialect are valid, carry the partial, and touch no input."""

import copy
from typing import Any

import pytest
from native_blocks import call, kept, plain, thought
from native_reading import shipped
from strict_bedrock import converse_faults

from midthought.providers import get_dialect
from midthought.statemachine import Block, Continue, Request

pytest.importorskip("botocore")

DIALECT = get_dialect("bedrock_converse")
POLICY = shipped("bedrock-converse")
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REQUEST: dict[str, Any] = {
    "modelId": MODEL,
    "inferenceConfig": {"maxTokens": 4096},
    "messages": [{"role": "user", "content": [{"text": "go"}]}],
}


def go_on(
    blocks: list[Block], strategy: str = "prefill", request: dict[str, Any] = REQUEST
) -> list[dict[str, Any]]:
    """Messages of the continuation, checked; the caller's request must come out untouched."""
    before = copy.deepcopy(request)
    made = DIALECT.continuation(request, POLICY, Continue(strategy, blocks, "go on", 2048))
    assert before == request
    assert [] == converse_faults(made.body, MODEL)
    assert "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/converse-stream" == made.path
    assert 2048 == made.body["inferenceConfig"]["maxTokens"]
    return list(made.body["messages"])


def test_original() -> None:
    """Request 0 is the caller's; the model goes into the path, under either name."""
    body = {key: value for key, value in REQUEST.items() if key != "modelId"}
    for key in ("modelId", "model"):
        made = DIALECT.original({**body, key: MODEL, "stream": True}, POLICY)
        assert body == made.body
        assert f"/model/{MODEL}/converse-stream" == made.path
    assert (MODEL, 4096) == (DIALECT.model(REQUEST), DIALECT.cap(REQUEST, POLICY))
    assert f"/model/{MODEL}/converse-stream" == DIALECT.url(REQUEST, POLICY)
    with pytest.raises(ValueError, match="names no model"):
        DIALECT.original({"messages": []}, POLICY)


def test_continuations() -> None:
    """Prefill ends with the partial, instruct with the instruction; signed thinking goes along."""
    blocks = [thought("hm", "sig"), kept("redacted_thinking", data=REDACTED), plain("Alpha")]
    partial = {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "sig"}}},
            REDACTED,
            {"text": "Alpha"},
        ],
    }

    assert [*REQUEST["messages"], partial] == go_on(blocks)
    assert [partial, {"role": "user", "content": [{"text": "go on"}]}] == go_on(blocks, "instruct")[
        1:
    ]


REDACTED = {"reasoningContent": {"redactedContent": "c2VjcmV0"}}


def test_what_stays_out() -> None:
    """Unsigned, late and foreign thinking, blank text, half calls and citations stay out."""
    blocks = [
        plain("Alpha"),
        thought("late", "sig"),
        thought("unsigned"),
        plain(" "),
        call("{", closed=False),
        kept("other", data=None, extra=['{"citation":{}}']),
        kept("media", data={"image": {"format": "png"}}),
        plain(" beta", attempt=1),
    ]
    assert [{"text": "Alpha"}, {"text": " beta"}] == go_on(blocks)[-1]["content"]
    leading = [thought("a", "s"), thought("b", "t", attempt=1), plain("A"), thought("c", "u")]
    assert 2 == len(go_on(leading)[-1]["content"])


def test_server_tools() -> None:
    """Use and result of the provider's own tool go back as they came."""
    use = {"toolUse": {"toolUseId": "s", "name": "search", "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "s", "status": "success", "type": "search_result"}}
    blocks = [
        kept("server_tool", '{"q":"x"}', id="s", name="search", data=use),
        kept("server_tool", id="s", data=result, extra=['{"toolResult":[{"text":"found"}]}']),
        plain("Alpha"),
    ]
    content = go_on(blocks, "instruct")[1]["content"]

    assert {"q": "x"} == content[0]["toolUse"]["input"]
    assert {**result["toolResult"], "content": [{"text": "found"}]} == content[1]["toolResult"]
    half = [kept("server_tool", id="s", data=result, closed=False), plain("Alpha")]
    assert [{"text": "Alpha"}] == go_on(half)[-1]["content"]


def test_callers_own_last_message() -> None:
    """A request that ends with an assistant message goes on in it."""
    own = {"role": "assistant", "content": [{"text": "It is ("}]}
    request = {**REQUEST, "messages": [*REQUEST["messages"], own]}
    assert [{"text": "It is (B)"}] == go_on([plain("B)")], request=request)[-1]["content"]


def test_nothing_to_go_on_from() -> None:
    """With nothing to send back it is refused."""
    for blocks in ([], [plain(" ")], [thought("hm", "sig")]):
        with pytest.raises(ValueError, match="retry the request instead"):
            go_on(blocks)


def test_history() -> None:
    """Calls go back with their input as an object, and are answered in one user message."""
    blocks = [call('{"a":1}'), call("", id="c2"), call("[1]", id="c3")]
    (message,) = DIALECT.messages(blocks, POLICY)
    answers = DIALECT.not_executed(blocks, POLICY)
    inputs = [block["toolUse"]["input"] for block in message["content"]]

    assert [{"a": 1}, {}, {"INVALID_JSON": "[1]"}] == inputs
    history = [*REQUEST["messages"], message, *answers]
    assert [] == converse_faults({"messages": history}, MODEL)


def test_strip_thinking() -> None:
    """This turn's reasoning goes; the request goes where it went."""
    messages = [*REQUEST["messages"], *DIALECT.messages([thought("a", "s"), plain("A")], POLICY)]
    request = Request({"messages": messages}, path="/model/m/converse-stream")
    stripped = DIALECT.strip_thinking(request, POLICY)

    assert [{"text": "A"}] == stripped.body["messages"][-1]["content"]
    assert request.path == stripped.path
    alone = Request({"messages": [{"role": "assistant", "content": [REDACTED]}]})
    assert [] == DIALECT.strip_thinking(alone, POLICY).body["messages"]


def test_features() -> None:
    """Features by rows and by grammar."""
    thinking = {"type": "enabled", "budget_tokens": 2000}
    calls = [{"role": "assistant", "content": [{"toolUse": {"toolUseId": "a"}}]}]
    found: dict[str, dict[str, Any]] = {
        "thinking": {"additionalModelRequestFields": {"thinking": thinking}},
        "structured_output": {"outputConfig": {"textFormat": {"type": "json_schema"}}},
        "tools": {"toolConfig": {"tools": [{}]}},
        "deterministic": {"inferenceConfig": {"temperature": 0}},
        "tool_calls_in_last": {"messages": calls},
    }
    for feature, request in found.items():
        assert {feature} == DIALECT.features(request, POLICY)
    assert frozenset() == DIALECT.features(REQUEST, POLICY)


def test_strategies() -> None:
    """Claude up to 4.5 is prefilled under Bedrock's names, every other model instructed."""
    for model in (MODEL, "anthropic.claude-3-haiku-20240307-v1:0", "anthropic.claude-v2:1"):
        assert ("prefill", "instruct") == POLICY.for_model(model).continuation.strategies
    for model in ("us.anthropic.claude-opus-4-8", "us.amazon.nova-2-lite-v1:0", "deepseek.r1-v1:0"):
        assert ("instruct",) == POLICY.for_model(model).continuation.strategies


def test_headers() -> None:
    """The key is a bearer token, the stream AWS's; an IAM key is refused."""
    headers = DIALECT.headers(POLICY, "secret")
    assert ("Bearer secret", "application/vnd.amazon.eventstream") == (
        headers["authorization"],
        headers["accept"],
    )
    with pytest.raises(ValueError, match="signs requests"):
        DIALECT.headers(POLICY, "AKIAIOSFODNN7EXAMPLE")
