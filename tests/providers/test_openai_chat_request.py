"""Chat requests: the caller's own, and continuations as the providers want them.

What a provider wants is written out by hand from the provider facts; the official SDK's request
types check the shape.
"""

import copy
from typing import Any

import pytest
from chat_requests import REQUEST, USER, block, call, continued, instruct, policy, prefill

from midthought.policies import load_policy
from midthought.providers.openai_chat import dialect

# --- the caller's request ---------------------------------------------------------------------


def test_original_fills_in_what_the_caller_left_out() -> None:
    """``merge`` is put in at every depth, the caller's keys win, nothing is changed."""
    merge = {"stream": True, "stream_options": {"include_usage": True, "x": 1}}
    request = {**REQUEST, "stream_options": {"include_usage": False}}
    before = copy.deepcopy(request)
    made = dialect.original(request, policy(stream={"merge": merge}))
    assert made.body == {
        **REQUEST,
        "stream": True,
        "stream_options": {"include_usage": False, "x": 1},
    }
    assert (request, made.base_url_suffix, dict(made.headers)) == (before, "", {})


@pytest.mark.parametrize(
    ("changes", "feature"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        ({"functions": [{"name": "f"}]}, "tools"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "structured_output"),
        ({"response_format": {"type": "json_object"}}, "structured_output"),
        ({"n": 2}, "n"),
        (
            {"messages": [USER, {"role": "assistant", "tool_calls": [{"id": "a"}]}]},
            "tool_calls_in_last",
        ),
        (
            {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "A"}]}]},
            "multipart_content",
        ),
    ],
)
def test_features_by_the_grammar(changes: dict[str, Any], feature: str) -> None:
    """The dialect itself sees what forbids a strategy, without a row in the policy."""
    assert dialect.features({**REQUEST, **changes}, policy()) == {feature}


@pytest.mark.parametrize(
    "changes",
    [
        {"tools": []},
        {"n": 1},
        {"n": True},
        {"response_format": {"type": "text"}},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}, USER]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "A"}]}]},
    ],
)
def test_what_is_no_feature(changes: dict[str, Any]) -> None:
    """Empty tools, one choice, plain text, and what stands further up forbid nothing."""
    assert dialect.features({**REQUEST, **changes}, policy()) == frozenset()


def test_features_by_the_policys_rows() -> None:
    """Rows of the policy add to the grammar."""
    rows = [{"feature": "deterministic", "path": "temperature", "equals": [0]}]
    found = dialect.features({**REQUEST, "temperature": 0, "n": 3}, policy(features=rows))
    assert found == {"deterministic", "n"}


def test_model_and_cap() -> None:
    """The cap is read from the first of the policy's fields that the request uses."""
    rules = policy(cap={"fields": ["max_completion_tokens", "max_tokens"]})
    assert dialect.model(REQUEST) == "m"
    assert dialect.cap(REQUEST, rules) is None
    assert dialect.cap({**REQUEST, "max_tokens": 50}, rules) == 50


# --- continuations ------------------------------------------------------------------------------


def test_prefill_as_llamacpp_wants_it() -> None:
    """Facts 2.21: trailing assistant, and both flags, or the server refuses or begins anew."""
    rules = load_policy("llamacpp")
    request = {**REQUEST, "max_tokens": 500, "temperature": 0}
    made = continued(request, rules, prefill(block("text", "Once upon", closed=False), cap=400))
    assert made.body == {
        "model": "m",
        "messages": [USER, {"role": "assistant", "content": "Once upon"}],
        "x_unknown": {"kept": [1]},
        "max_tokens": 400,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "continue_final_message": True,
        "add_generation_prompt": False,
    }
    assert made.base_url_suffix == ""


def test_prefill_as_deepseek_and_mistral_want_it() -> None:
    """Facts 2.7, 2.8: ``prefix`` in the message, and the other path where the policy names one."""
    table = {"prefill": {"message": {"prefix": True}, "base_url_suffix": "/beta"}}
    made = continued(REQUEST, policy(continuation=table), prefill(block("text", "Once")))
    last = {"role": "assistant", "content": "Once", "prefix": True}
    assert made.body["messages"] == [USER, last]
    assert made.base_url_suffix == "/beta"


def test_instruct_as_openai_wants_it() -> None:
    """Facts 2.2: the partial as an assistant message, then a user message; no prefill field."""
    rules = load_policy("openai-chat")
    made = continued(REQUEST, rules, instruct(block("text", "Once upon", closed=False), cap=300))
    assert made.body["messages"] == [
        USER,
        {"role": "assistant", "content": "Once upon"},
        {"role": "user", "content": "Go on."},
    ]
    assert made.body["max_completion_tokens"] == 300
    assert not {"continue_final_message", "prefix", "max_tokens"} & made.body.keys()
    assert made.base_url_suffix == ""


def test_text_of_all_blocks_is_one_content() -> None:
    """Text of several blocks and attempts is one string, without what is no text."""
    blocks = (block("text", "Once "), block("thinking", "hm"), block("text", "upon"))
    made = continued(REQUEST, policy(), instruct(*blocks))
    assert made.body["messages"][1] == {"role": "assistant", "content": "Once upon"}


@pytest.mark.parametrize(
    ("own", "joined"),
    [
        ("He said: ", "He said: Once"),
        ("", "Once"),
        (None, "Once"),
        (
            [{"type": "text", "text": "He said: "}],
            [{"type": "text", "text": "He said: Once"}],
        ),
        (
            [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
            [
                {"type": "text", "text": "a"},
                {"type": "refusal", "refusal": "b"},
                {"type": "text", "text": "Once"},
            ],
        ),
    ],
)
@pytest.mark.parametrize("order", [prefill, instruct])
def test_the_callers_own_prefill_is_continued(own: Any, joined: Any, order: Any) -> None:
    """A request that ends with an assistant message goes on in it: never two of them in a row."""
    message = {"role": "assistant", "content": own, "name": "narrator"}
    request = {**REQUEST, "messages": [USER, message]}
    made = continued(request, policy(), order(block("text", "Once")))
    roles = [one["role"] for one in made.body["messages"]]
    assert roles == ["user", "assistant"] + (["user"] if order is instruct else [])
    assert made.body["messages"][1] == {**message, "content": joined}


def test_nothing_to_go_on_from_is_refused() -> None:
    """No empty or blank assistant message is ever built; bridge text stands in for it."""
    for blocks in ((), (block("text", " \n"),), (block("thinking", "hm"),)):
        for order in (prefill(*blocks), instruct(*blocks)):
            with pytest.raises(ValueError, match="retry the request instead"):
                dialect.continuation(REQUEST, policy(), order)
    bridge = policy(continuation={"instruct": {"bridge": "(interrupted)"}})
    with pytest.raises(ValueError, match="retry the request instead"):
        dialect.continuation(REQUEST, bridge, prefill())
    made = continued(REQUEST, bridge, instruct())
    assert made.body["messages"][1] == {"role": "assistant", "content": "(interrupted)"}


def test_no_tool_call_in_a_continuation() -> None:
    """An unanswered call may not be followed by anything, so none is sent back."""
    for order in (prefill, instruct):
        made = continued(REQUEST, policy(), order(block("text", "Once"), call("{}")))
        assert "tool_calls" not in made.body["messages"][1]


@pytest.mark.parametrize(
    ("request_cap", "field"),
    [({}, "max_completion_tokens"), ({"max_tokens": 900}, "max_tokens")],
)
def test_cap_goes_into_the_field_the_request_uses(request_cap: Any, field: str) -> None:
    """The caller's own field is lowered; without one the policy's first is set."""
    rules = policy(cap={"fields": ["max_completion_tokens", "max_tokens"]})
    made = continued({**REQUEST, **request_cap}, rules, prefill(block("text", "A"), cap=700))
    caps = {
        key: made.body[key] for key in ("max_completion_tokens", "max_tokens") if key in made.body
    }
    assert caps == {field: 700}
    unchanged = continued({**REQUEST, **request_cap}, rules, prefill(block("text", "A")))
    assert {key: unchanged.body[key] for key in request_cap} == request_cap


# --- where it is sent, and what comes back wrong ------------------------------------------------


def test_url_and_headers() -> None:
    """Path and headers are the policy's; a key is sent as the policy says, or not at all."""
    assert dialect.url(REQUEST, policy()) == "/chat/completions"
    assert dialect.url(REQUEST, policy(path="/v1/chat")) == "/v1/chat"
    rules = policy(headers={"X-Title": "t"}, auth={"header": "API-Key", "prefix": ""})
    assert dialect.headers(rules, "secret") == {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "accept-encoding": "identity",
        "x-title": "t",
        "api-key": "secret",
    }
    assert "authorization" not in dialect.headers(policy(), None)
    assert dialect.headers(policy(), "k")["authorization"] == "Bearer k"


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        ({"error": {"message": "boom", "type": "server_error", "code": "x"}}, "boom", "x"),
        (
            {"error": {"message": "boom", "type": "server_error", "code": None}},
            "boom",
            "server_error",
        ),
        ({"code": "Client error", "error": "boom"}, "boom", "Client error"),
        ({"object": "error", "message": "boom", "type": "t", "code": "3230"}, "boom", "3230"),
        ({"error": {"message": "boom"}, "message": "boom"}, "boom", None),
        ({"detail": "boom"}, "boom", None),
        ({"detail": [{"loc": ["body"], "msg": "boom", "type": "missing"}]}, "boom", None),
        ([{"error": {"code": 400, "message": "boom", "status": "INVALID"}}], "boom", "INVALID"),
        ({"error": "boom", "error_type": "overloaded"}, "boom", "overloaded"),
        (
            {"error": {"message": "wrapped", "code": 429, "metadata": {"raw": "boom"}}},
            "wrapped: boom",
            "429",
        ),
    ],
)
def test_error_bodies(body: Any, words: str, code: str | None) -> None:
    """Every shape in which Chat servers state an error gives its words and codes."""
    facts = dialect.error_facts(body, 400)
    assert facts is not None
    assert facts.message == words
    assert code is None or code in facts.codes


def test_a_reply_is_no_error() -> None:
    """A whole reply states no error."""
    body = {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}]}
    assert dialect.error_facts(body, 200) is None
