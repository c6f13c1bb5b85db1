"""Requests of the Anthropic dialect are valid, carry the partial, and touch no input."""

import copy
from typing import Any

import pytest
from anthropic.types import MessageParam
from anthropic_frames import DIALECT
from kept_blocks import content, text, thinking
from pydantic import TypeAdapter

from midthought.policies import Policy
from midthought.statemachine import Block, Continue, Request

REQUEST: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 4096,
    "messages": [{"role": "user", "content": "go"}],
    "of_tomorrow": {"kept": True},
}


def policy(**tables: Any) -> Policy:
    """A policy of this dialect with some tables of its own."""
    base: dict[str, Any] = {
        "name": "test",
        "dialect": "anthropic_messages",
        "cap": {"fields": ["max_tokens"], "thinking_budget": "thinking.budget_tokens"},
        "stream": {"merge": {"stream": True}},
    }
    return Policy.model_validate({**base, **tables})


POLICY = policy()


def go_on(
    blocks: list[Block],
    strategy: str = "instruct",
    request: dict[str, Any] = REQUEST,
    used: Policy = POLICY,
    cap: int | None = None,
) -> dict[str, Any]:
    """Body of the continuation; the caller's request must come out of it untouched."""
    before = copy.deepcopy(request)
    made = DIALECT.continuation(request, used, Continue(strategy, blocks, "go on", cap))
    assert before == request
    body = dict(made.body)
    TypeAdapter(list[MessageParam]).validate_python(body["messages"])
    return body


# --- request 0 -----------------------------------------------------------------------------------


def test_original_adds_only_what_is_not_set() -> None:
    """Request 0 is the caller's with the policy's additions; keys we do not know stay."""
    ours = DIALECT.original(REQUEST, POLICY).body
    own = DIALECT.original({**REQUEST, "stream": None}, POLICY).body

    assert {**REQUEST, "stream": True} == ours
    assert own["stream"] is None
    assert "stream" not in REQUEST


def test_features() -> None:
    """Rows of the policy tell features; calls in a final assistant message are the grammar's."""
    used = policy(
        features=[
            {"feature": "tools", "path": "tools"},
            {"feature": "thinking", "path": "thinking.type", "equals": ["enabled", "adaptive"]},
            {"feature": "deterministic", "path": "temperature", "equals": [0]},
            {"feature": "n", "path": "n", "above": 1},
        ]
    )
    calls = [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n"}]}]

    assert frozenset() == DIALECT.features({**REQUEST, "tools": [], "n": 1}, used)
    assert {"tools", "thinking", "deterministic", "n"} == DIALECT.features(
        {"tools": [{}], "thinking": {"type": "enabled"}, "temperature": 0.0, "n": 2}, used
    )
    assert frozenset() == DIALECT.features({"temperature": False, "n": True}, used)
    assert {"tool_calls_in_last"} == DIALECT.features({"messages": calls}, used)


def test_model_and_cap() -> None:
    """Model and cap are read from the request, and absent where they are no name or number."""
    assert ("claude-haiku-4-5", 4096) == (DIALECT.model(REQUEST), DIALECT.cap(REQUEST, POLICY))
    assert ("", None) == (DIALECT.model({"model": 3}), DIALECT.cap({"max_tokens": True}, POLICY))


def test_headers_and_url() -> None:
    """The key goes where the policy says; compressed streams are not asked for."""
    used = policy(headers={"Anthropic-Version": "v"}, auth={"header": "X-Api-Key", "prefix": ""})
    headers = DIALECT.headers(used, "secret")

    assert ("secret", "v") == (headers["x-api-key"], headers["anthropic-version"])
    assert ("identity", "text/event-stream") == (headers["accept-encoding"], headers["accept"])
    assert "x-api-key" not in DIALECT.headers(used, None)
    assert "/v1/messages" == DIALECT.url(REQUEST, used)
    assert "/own" == DIALECT.url(REQUEST, policy(path="/own"))


# --- continuations -------------------------------------------------------------------------------


def test_prefill_ends_with_the_partial() -> None:
    """Prefill: the partial is the last message, and the policy's fields are merged in."""
    used = policy(
        continuation={
            "prefill": {
                "message": {"prefix": True},
                "request": {"continue_final_message": True},
                "base_url_suffix": "/beta",
            }
        }
    )
    made = DIALECT.continuation(REQUEST, used, Continue("prefill", [text("Alpha")]))
    partial = {"role": "assistant", "content": [{"type": "text", "text": "Alpha"}], "prefix": True}

    assert [*REQUEST["messages"], partial] == made.body["messages"]
    assert made.body["continue_final_message"] is True
    assert made.body["stream"] is True
    assert "/beta" == made.base_url_suffix


def test_instruct_ends_with_the_instruction() -> None:
    """Instruct: the partial, then the instruction as a user message."""
    messages = go_on([text("Alpha")])["messages"]

    assert [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "text", "text": "Alpha"}]},
        {"role": "user", "content": "go on"},
    ] == messages
    assert messages[-1] == DIALECT.instruction("go on", POLICY)


@pytest.mark.parametrize("strategy", ["prefill", "instruct"])
@pytest.mark.parametrize("own", ["The answer is (", [{"type": "text", "text": "The answer is ("}]])
def test_callers_own_prefill_goes_on_in_one_message(strategy: str, own: Any) -> None:
    """A request that ends with an assistant message goes on in it: one message, one text."""
    messages = [*REQUEST["messages"], {"role": "assistant", "content": own}]
    body = go_on([text("B) because")], strategy, {**REQUEST, "messages": messages})

    assert {
        "role": "assistant",
        "content": [{"type": "text", "text": "The answer is (B) because"}],
    } == body["messages"][1]
    assert (2 if strategy == "prefill" else 3) == len(body["messages"])


def test_nothing_to_go_on_from() -> None:
    """With nothing to send back the policy's bridge stands in; without one it is refused."""
    used = policy(continuation={"instruct": {"bridge": "(interrupted)"}})

    with pytest.raises(ValueError, match="retry the request instead"):
        go_on([text("  "), thinking("hm")])
    with pytest.raises(ValueError, match="at least one committed block"):
        go_on([], "prefill", used=used)
    assert "(interrupted)" == go_on([], used=used)["messages"][1]["content"][0]["text"]


@pytest.mark.parametrize(
    ("own", "budget", "cap", "expected"),
    [
        (4096, None, 1000, (1000, None)),
        (4096, 2048, 3000, (3000, 2048)),
        (4096, 2048, 1000, (2304, 2048)),
        (2200, 2048, 256, (1280, 1024)),
        (2200, 2048, 1800, (1800, 1544)),
        (1200, 1024, 256, (1200, 1024)),
        (2200, 2048, 9000, (9000, 2048)),
    ],
)
def test_cap_and_thinking_budget(
    own: int, budget: int | None, cap: int, expected: tuple[int, int | None]
) -> None:
    """The cap stays above the thinking budget; else the budget falls, to 1024 at least."""
    manual = {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget else {}
    body = go_on([text("A")], request={**REQUEST, "max_tokens": own, **manual}, cap=cap)

    assert expected == (body["max_tokens"], body.get("thinking", {}).get("budget_tokens"))


def test_strip_thinking() -> None:
    """This turn's reasoning goes, an earlier turn's stays unless all is asked for."""
    messages = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": "s"}]},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [*content([thinking("b"), text("A")])]},
        {"role": "user", "content": "go on"},
    ]
    request = Request({"messages": messages, "thinking": {"type": "enabled"}}, {"h": "v"}, "/beta")
    before = copy.deepcopy(messages)
    turn = DIALECT.strip_thinking(request, POLICY)
    everything = DIALECT.strip_thinking(request, POLICY, turn_only=False)

    assert [{"type": "text", "text": "A"}] == turn.body["messages"][3]["content"]
    assert messages[:3] == turn.body["messages"][:3]
    assert ["user", "user", "assistant", "user"] == [m["role"] for m in everything.body["messages"]]
    assert {"type": "enabled"} == turn.body["thinking"]
    assert ({"h": "v"}, "/beta") == (turn.headers, turn.base_url_suffix)
    assert before == messages


def test_strip_thinking_in_a_tool_loop() -> None:
    """Manual thinking needs reasoning before open calls: without it the parameter goes as well."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    signed = {"type": "thinking", "thinking": "b", "signature": "s"}
    messages = [{"role": "assistant", "content": [signed, call]}, {"role": "user", "content": []}]
    for mode, left in (("enabled", False), ("adaptive", True)):
        request = Request({"messages": messages, "thinking": {"type": mode}})
        assert left is ("thinking" in DIALECT.strip_thinking(request, POLICY).body)
