"""Requests of the Anthropic dialect are valid, carry the partial, and touch no input."""

import copy
import csv
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types import MessageParam
from anthropic.types.beta import BetaContentBlockParam
from pydantic import TypeAdapter

from midthought.policies import Policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Continue,
    Opened,
    Request,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
DIALECT = get_dialect("anthropic_messages")
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


def block(kind: Any, text: str = "", **fields: Any) -> Block:
    """A closed block of attempt 0."""
    given = {"index": 0, "attempt": 0, "closed": True, **fields}
    return Block(kind=kind, parts=[text] if text else [], **given)


def text(value: str, **fields: Any) -> Block:
    """A text block, open as a cut leaves it."""
    return block("text", value, **{"closed": False, **fields})


def thinking(value: str, signature: str | None = "sig", **fields: Any) -> Block:
    """A closed thinking block."""
    return block("thinking", value, signature=signature, **fields)


CALL = block("tool_use", '{"a":1}', id="t1", name="add")
USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
PAIR = [
    block("server_tool", '{"q":"x"}', id="s1", name="web_search", data=USE),
    block("server_tool", id="s1", data=RESULT),
]


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


def content(blocks: list[Block], used: Policy = POLICY) -> list[dict[str, Any]]:
    """Content of the history message that the blocks make."""
    messages = DIALECT.messages(blocks, used)
    assert len(messages) <= 1
    found: list[dict[str, Any]] = messages[0]["content"] if messages else []
    return found


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


# --- blocks in a history -------------------------------------------------------------------------


def test_every_kind_goes_back_verbatim() -> None:
    """Signed thinking, redacted data, text, server tool pairs, calls and compaction."""
    data = {"type": "compaction", "content": None}
    made = content(
        [
            thinking("hm"),
            block("redacted_thinking", data={"type": "redacted_thinking", "data": "xyz"}),
            *PAIR,
            block("other", data=data, extra=['{"type":"compaction_delta","content":"s"}']),
            text("Alpha"),
            CALL,
        ]
    )

    assert [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {**USE, "input": {"q": "x"}},
        RESULT,
        {"type": "compaction", "content": "s"},
        {"type": "text", "text": "Alpha"},
        {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
    ] == made
    assert {"type": "compaction", "content": None} == data


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_no_blank_text(blank: str) -> None:
    """A history never holds an empty or blank text block, and never an empty message."""
    assert ["Alpha"] == [one["text"] for one in content([text(blank), text("Alpha"), text(blank)])]
    assert [] == DIALECT.messages([text(blank)], POLICY)


def test_thinking_rules() -> None:
    """Unsigned or open thinking is dropped; kept unsigned or never, where the policy says so."""
    keep, discard = (policy(blocks={"thinking": {"closed": how}}) for how in ("keep", "discard"))
    answer = text("A")

    assert ["text"] == [one["type"] for one in content([thinking("hm", None), answer])]
    assert ["text"] == [one["type"] for one in content([thinking("hm", closed=False), answer])]
    assert {"type": "thinking", "thinking": "hm"} == content([thinking("hm", None), answer], keep)[
        0
    ]
    assert ["text"] == [one["type"] for one in content([thinking("hm"), answer], discard)]


def test_thinking_is_never_last_and_always_first() -> None:
    """Thinking at the end, or in a message that starts otherwise, is refused: it is left out."""
    later = [text("A"), thinking("hm"), text("B")]
    merged = [thinking("hm"), text("A"), thinking("again", attempt=1), text("B", attempt=1)]
    tools = [thinking("hm"), *PAIR, thinking("more"), text("A")]

    assert [] == content([thinking("hm")])
    assert ["text"] == [one["type"] for one in content([text("A"), thinking("hm")])]
    assert ["text", "text"] == [one["type"] for one in content(later)]
    assert ["thinking", "text", "text"] == [one["type"] for one in content(merged)]
    assert ["thinking", "text"] == [one["type"] for one in content(merged[2:])]
    assert "thinking" == content(tools)[3]["type"]


def test_tool_input() -> None:
    """No input is ``{}``; invalid JSON that the provider finished is wrapped; half is dropped."""
    for given, expected in (("", {}), ("  ", {}), ("[1]", {"INVALID_JSON": "[1]"})):
        (call,) = content([block("tool_use", given, id="t", name="n")])
        assert expected == call["input"]
    assert [] == content([block("tool_use", '{"a"', id="t", name="n", closed=False)])


def test_a_call_keeps_what_came_with_it() -> None:
    """Fields of a call that we do not know go back with it."""
    data = {"type": "tool_use", "id": "t", "name": "n", "input": {}, "caller": {"type": "direct"}}
    (call,) = content([block("tool_use", '{"a":1}', id="t", name="n", data=data)])

    assert {**data, "input": {"a": 1}} == call


def test_citations_only_on_closed_text() -> None:
    """Citations go back with a whole text, without fields that only replies may hold."""
    cited = {"citations": ['{"type":"char_location","cited_text":"x","file_id":null}']}

    assert [{"type": "char_location", "cited_text": "x"}] == content([block("text", "A", **cited)])[
        0
    ]["citations"]
    assert "citations" not in content([text("A", **cited)])[0]


def test_what_is_shown_but_not_kept() -> None:
    """Unknown kinds, refusals, media and fallback seams stand in no history."""
    seam = block("other", data={"type": "fallback", "to": {}})
    odd = [block("other", data={"type": "tomorrow"}), block("media"), block("refusal", "no"), seam]

    assert ["text"] == [one["type"] for one in content([*odd, text("A")])]
    assert ["text", "text"] == [
        one["type"] for one in content([thinking("of the other model"), text("A"), seam, text("B")])
    ]
    assert [] == content([block("server_tool", id="s1", data=USE, closed=False)])


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


# --- recorded replies go back --------------------------------------------------------------------


def _streams() -> list[str]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        rows = csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["file"] for row in rows if row["wire"] == "anthropic"]


STREAMS = _streams()


def _type_word(params: Any) -> str:
    """The block type that a ``TypedDict`` of the SDK is for."""
    (word,) = get_args(get_type_hints(params)["type"])
    assert isinstance(word, str)
    return word


# The last member of the union is the reply's own models.
_PARAMS = {
    _type_word(one): one for one in get_args(BetaContentBlockParam) if hasattr(one, "__total__")
}


@pytest.mark.parametrize(
    "stream",
    STREAMS
    or [pytest.param("", marks=pytest.mark.skip(reason="no recorded streams at ../shared/corpus"))],
)
def test_recorded_replies_are_valid_history(stream: str) -> None:
    """Every recorded reply, whole or cut at any event, is a history the SDK's types allow."""
    data = (CORPUS / stream).read_bytes()
    frames = data.split(b"\n\n")
    for count in range(0, len(frames) + 1, max(1, len(frames) // 40)):
        for one in content(_built(b"\n\n".join(frames[:count]))):
            _check(one)


def _built(data: bytes) -> list[Block]:
    reader = AttemptReader(POLICY, DIALECT, 0)
    blocks: dict[int, Block] = {}
    for event in reader.response(200, [("content-type", "text/event-stream")]) + reader.feed(data):
        if isinstance(event, Opened):
            blocks = {}
        elif isinstance(event, BlockStarted):
            blocks[event.index] = block(
                event.kind, id=event.id, name=event.name, data=event.data, closed=False
            )
        elif isinstance(event, BlockClosed):
            blocks[event.index].closed = True
        elif isinstance(event, BlockDelta):
            one = blocks[event.index]
            if event.field == "signature":
                one.signature = (one.signature or "") + event.text
            else:
                {"citation": one.citations, "other": one.extra}.get(event.field, one.parts).append(
                    event.text
                )
    return [one for one in blocks.values() if one.closed or one.kind == "text"]


def _check(one: dict[str, Any]) -> None:
    """The block is what the SDK would send: its types hold, and it has no field besides."""
    params = _PARAMS.get(one["type"])
    assert params is not None, one["type"]
    TypeAdapter(params).validate_python(one)
    assert set(one) <= set(get_type_hints(params)), one["type"]
