"""What goes into a history: reasoning where the policy says so, whole calls, no empty message."""

import copy
import json

import pytest
from chat_requests import REQUEST, USER, block, call, check, continued, instruct, policy, prefill

from midthought.policies import Policy
from midthought.providers.openai_chat import dialect
from midthought.statemachine import Block

# --- reasoning ----------------------------------------------------------------------------------

THOUGHT = [block("thinking", "hm"), block("text", "Once")]


def reasoning_in(field: str | None, closed: str = "keep") -> Policy:
    """A policy that keeps reasoning in this field."""
    return policy(blocks={"thinking": {"closed": closed, "history_field": field}})


def test_reasoning_goes_back_only_where_the_policy_says() -> None:
    """Without a field, or where it is discarded, reasoning is nowhere in the request."""
    for rules in (policy(), reasoning_in(None), reasoning_in("reasoning_content", "discard")):
        assert dialect.messages(THOUGHT, rules) == [{"role": "assistant", "content": "Once"}]
    kept = reasoning_in("reasoning_content")
    message = {"role": "assistant", "content": "Once", "reasoning_content": "hm"}
    assert dialect.messages(THOUGHT, kept) == [message]
    assert continued(REQUEST, kept, prefill(*THOUGHT)).body["messages"][1] == message
    unfinished = [block("thinking", "hm", closed=False), block("text", "Once")]
    assert dialect.messages(unfinished, kept) == [{"role": "assistant", "content": "Once"}]


def test_reasoning_details_go_back_as_they_were() -> None:
    """Items that streaming cut are joined again; encrypted ones and signatures stay as they are."""
    pieces = [
        {"type": "reasoning.text", "text": "h", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "m", "index": 0, "format": "f"},
        {"type": "reasoning.text", "signature": "sig", "index": 0, "format": "f"},
    ]
    secret = {"type": "reasoning.encrypted", "data": "x", "index": 0}
    blocks = [
        block("thinking", "hm", extra=[json.dumps(piece) for piece in pieces]),
        block("text", "Once"),
        block("redacted_thinking", data={"reasoning_details": [secret]}),
        block("redacted_thinking", data={"reasoning_details": [secret]}),
    ]
    [message] = dialect.messages(blocks, reasoning_in("reasoning_details"))
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm", "index": 0, "format": "f", "signature": "sig"},
        secret,
        secret,
    ]


def test_strip_thinking_takes_this_turns_reasoning() -> None:
    """The last assistant message loses its reasoning, earlier ones only when asked for."""
    earlier = {"role": "assistant", "content": "A", "reasoning_content": "old"}
    request = {**REQUEST, "messages": [USER, earlier, USER]}
    sent = continued(request, reasoning_in("reasoning_content"), instruct(*THOUGHT))
    before = copy.deepcopy(sent.body)
    stripped = dialect.strip_thinking(sent, policy())
    assert sent.body == before
    assert stripped.body["messages"][1] == earlier
    assert stripped.body["messages"][3] == {"role": "assistant", "content": "Once"}
    everywhere = dialect.strip_thinking(sent, policy(), turn_only=False)
    assert "reasoning_content" not in json.dumps(everywhere.body)


# --- history messages ---------------------------------------------------------------------------


def test_whole_tool_calls_stand_in_the_history() -> None:
    """Closed calls and whole input; empty input is ``{}``; half a call is nowhere."""
    blocks = [
        block("text", "A"),
        call('{"x":1}'),
        call("", id="b"),
        call('{"y":2}', closed=False, id="c"),
        call('{"z', closed=False, id="d"),
        call("", closed=False, id="e"),
        call("{broken", id="f"),
    ]
    messages = dialect.messages(blocks, policy())
    check(messages)
    assert messages[0]["content"] == "A"
    assert [(one["id"], one["function"]["arguments"]) for one in messages[0]["tool_calls"]] == [
        ("a", '{"x":1}'),
        ("b", "{}"),
        ("c", '{"y":2}'),
        ("f", "{broken"),
    ]


def test_kinds_of_calls() -> None:
    """Custom and legacy calls go back in their own form, with the provider's own keys."""
    blocks = [
        call("grep x", name="grep", data={"type": "custom"}),
        call("{}", id="b", data={"extra_content": {"google": {"thought_signature": "s"}}}),
    ]
    messages = dialect.messages(blocks, policy())
    check(messages)
    custom, signed = messages[0]["tool_calls"]
    assert custom == {"id": "a", "type": "custom", "custom": {"name": "grep", "input": "grep x"}}
    assert signed["extra_content"] == {"google": {"thought_signature": "s"}}
    legacy = dialect.messages([call("{}", id=None, data={"type": "function_call"})], policy())
    check(legacy)
    assert legacy == [
        {
            "role": "assistant",
            "content": None,
            "function_call": {"name": "add", "arguments": "{}"},
        }
    ]


def test_refusal_and_audio() -> None:
    """A refusal and a whole audio answer stand in fields of their own."""
    messages = dialect.messages([block("refusal", "No."), block("media", id="audio_1")], policy())
    check(messages)
    assert messages == [
        {"role": "assistant", "content": None, "refusal": "No.", "audio": {"id": "audio_1"}}
    ]


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [block("text", " \n")],
        [block("thinking", "hm")],
        [call('{"x', closed=False)],
        [block("media", id="audio_1", closed=False), block("other", data={"type": "x"})],
        [block("text", "B", data={"choice": 1})],
    ],
)
def test_nothing_kept_is_no_message(blocks: list[Block]) -> None:
    """Blank text, reasoning alone, half a call, open media or another choice make no message."""
    assert dialect.messages(blocks, reasoning_in("reasoning_content")) == []


def test_instruction_is_a_user_message() -> None:
    """What recovery says stands in the history as the user's."""
    assert dialect.instruction("Go on.", policy()) == {"role": "user", "content": "Go on."}
