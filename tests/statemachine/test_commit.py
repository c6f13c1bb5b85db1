"""Commit: which blocks of a partial reply are kept: each kind, open and closed, by each rule."""

from collections.abc import Sequence
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import BLOCK_KINDS, Blocks
from midthought.statemachine import Block, BlockKind, commit
from midthought.statemachine._commit import is_whole_call

BASE = Blocks()


def block(kind: BlockKind, text: str = "x", *, closed: bool = True, **facts: Any) -> Block:
    """A block of attempt 0."""
    return Block(0, kind, 0, parts=[text] if text else [], closed=closed, **facts)


def call(text: str = "{}", *, closed: bool = True, **facts: Any) -> Block:
    """A tool call."""
    return block("tool_use", text, closed=closed, name="f", **facts)


def signed(text: str = "hm", *, closed: bool = True) -> Block:
    """A thinking block with its signature."""
    return block("thinking", text, closed=closed, signature="sig")


def rules(**kinds: Any) -> Blocks:
    """The base rules with some changed."""
    return Blocks.model_validate(kinds)


def decided(
    *blocks: Block, by: Blocks = BASE, finished: bool = False
) -> tuple[list[str], list[tuple[str, str]]]:
    """(kinds kept, (kind, reason) of the dropped)."""
    numbered = [msgspec.structs.replace(b, index=n) for n, b in enumerate(blocks)]
    found = commit(numbered, by, finished=finished)
    return [b.kind for b in found.kept], [(d.block.kind, d.reason) for d in found.dropped]


TEXT = block("text", "Said. ")
DISCARD = {"closed": "discard"}


@pytest.mark.parametrize(
    ("given", "by", "reason"),
    [
        (block("text"), {}, None),
        (block("text", closed=False), {}, None),
        (block("text"), {"text": DISCARD}, "rule"),
        (block("text", closed=False), {"text": DISCARD}, None),
        (block("text", closed=False), {"text": {"open": "discard"}}, "open"),
        (block("text"), {"text": {"open": "discard"}}, None),
        (block("text", " \n"), {}, "blank"),
        (block("text", " ", closed=False), {}, "blank"),
        (block("text", " ", citations=["{}"]), {}, None),
        (block("refusal"), {}, None),
        (block("refusal", closed=False), {}, None),
        (block("refusal", closed=False), {"refusal": {"open": "discard"}}, "open"),
        (block("refusal", ""), {}, "blank"),
        (call(), {}, None),
        (call(""), {}, None),
        (call("  "), {}, None),
        (call("", closed=False), {}, "open"),
        (call('{"a": 1', closed=False), {}, "open"),
        (call('{"a": 1}', closed=False), {}, None),
        (call('{"a": 1}', closed=False), {"tool_use": {"whole_json": False}}, "open"),
        (call('{"a": 1'), {}, "open"),
        (call("[1]"), {}, "open"),
        (call('"{}"'), {}, "open"),
        (call("{} {}"), {}, "open"),
        (call(), {"tool_use": DISCARD}, "rule"),
        (block("server_tool", id="s"), {}, "unpaired"),
        (block("server_tool", id="s", closed=False), {}, "open"),
        (block("server_tool"), {"server_tool": DISCARD}, "rule"),
        (block("media"), {}, None),
        (block("media", closed=False), {}, "open"),
        (block("media"), {"media": DISCARD}, "rule"),
        (block("other"), {}, None),
        (block("other", closed=False), {}, "open"),
        (block("other"), {"other": DISCARD}, "rule"),
    ],
)
def test_a_block_alone(given: Block, by: dict[str, Any], reason: str | None) -> None:
    """Each kind, open and closed, is kept or dropped as its rule says, with the reason."""
    kept = ([given.kind], []) if reason is None else ([], [(given.kind, reason)])

    assert kept == decided(given, by=rules(**by))


@pytest.mark.parametrize(
    ("given", "by", "reason"),
    [
        (signed(), {}, None),
        (signed(closed=False), {}, "open"),
        (block("thinking"), {}, "unsigned"),
        (block("thinking"), {"thinking": {"closed": "keep"}}, None),
        (signed(), {"thinking": DISCARD}, "rule"),
        (block("thinking", closed=False), {"thinking": {"closed": "keep"}}, "open"),
        (block("redacted_thinking"), {}, None),
        (block("redacted_thinking", closed=False), {}, "open"),
        (block("redacted_thinking"), {"redacted_thinking": DISCARD}, "rule"),
    ],
)
def test_thinking_before_text(given: Block, by: dict[str, Any], reason: str | None) -> None:
    """Thinking that could go back to the provider is kept in front of what it led to."""
    kept, dropped = decided(given, TEXT, by=rules(**by))

    assert [*([given.kind] if reason is None else []), "text"] == kept
    assert ([] if reason is None else [(given.kind, reason)]) == dropped


def test_every_kind_is_judged() -> None:
    """No kind of block is without an answer."""
    for kind in BLOCK_KINDS:
        for closed in (True, False):
            kept, dropped = decided(block(cast(BlockKind, kind), closed=closed))

            assert 1 == len(kept) + len(dropped)


# --- together -------------------------------------------------------------------------------------


def test_thinking_at_the_end_is_dropped() -> None:
    """A message may not end with thinking, and thinking alone says nothing."""
    gone = [("thinking", "last_thinking"), ("redacted_thinking", "last_thinking")]

    assert (["text"], gone) == decided(TEXT, block("redacted_thinking"), signed())
    assert ([], gone[:1]) == decided(signed())


def test_what_follows_a_whole_call_is_dropped() -> None:
    """The turn ends with its last whole call: text and thinking after it go."""
    kept, dropped = decided(TEXT, call(), signed(), TEXT)

    assert ["text", "tool_use"] == kept
    assert [("thinking", "after_tool_call"), ("text", "after_tool_call")] == dropped


def test_the_whole_calls_are_kept_and_half_of_the_last_is_not() -> None:
    """Of parallel calls those that are whole stay, with thinking before them."""
    found = decided(signed(), call(), call('{"b": 2}'), call('{"c', closed=False))

    assert (["thinking", "tool_use", "tool_use"], [("tool_use", "open")]) == found


def test_all_or_none() -> None:
    """With all_or_none a cut drops the whole ones too: more may have been coming."""
    by = rules(tool_use={"parallel": "all_or_none", "release": "turn"})
    kept, dropped = decided(TEXT, call(), call('{"c', closed=False), by=by)

    assert ["text"] == kept
    assert [("tool_use", "open"), ("tool_use", "rule")] == dropped


def test_all_or_none_of_a_finished_reply() -> None:
    """Where the model stopped by itself, all calls are known, and kept."""
    by = rules(tool_use={"parallel": "all_or_none", "release": "turn"})

    assert (["text", "tool_use"], []) == decided(TEXT, call(), by=by, finished=True)


def test_a_pair_is_kept() -> None:
    """A server tool's use and result belong together, by id."""
    use, result = block("server_tool", id="s"), block("server_tool", id="s")

    assert (["server_tool", "server_tool"], []) == decided(use, result)


@pytest.mark.parametrize(
    "other",
    [
        block("server_tool", id="t"),
        block("server_tool", id="s", closed=False),
        block("server_tool"),
    ],
)
def test_no_pair(other: Block) -> None:
    """Another id, an open result or no id make no pair."""
    kept, dropped = decided(TEXT, block("server_tool", id="s"), other)

    assert (["text"], 2) == (kept, len(dropped))


def test_a_pair_may_hold_others() -> None:
    """Pairs may nest and need not stand side by side."""
    order = ["s", "t", "t", "s"]

    assert 4 == len(decided(*(block("server_tool", id=id) for id in order))[0])


def test_a_tool_goes_with_the_tool_that_called_it() -> None:
    """A pair inside a use that has no result goes with it, however deep they nest."""
    outer = block("server_tool", id="outer")
    inner = [block("server_tool", id="inner", parent="outer") for _ in range(2)]
    deep = [block("server_tool", id="deep", parent="inner") for _ in range(2)]

    assert ["text"] == decided(TEXT, outer, *inner, *deep)[0]
    assert ["server_tool"] * 6 == decided(outer, *inner, *deep, outer)[0]


def test_a_tool_that_waits_for_a_call_of_ours() -> None:
    """A server tool that called a tool of the caller has no result yet, and stays with the call."""
    waiting = block("server_tool", id="outer")
    kinds, _ = decided(waiting, call(parent="outer"))

    assert ["server_tool", "tool_use"] == kinds


# --- a finished reply -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (call('{"a": 1'), True),
        (call('{"a": 1', closed=False), False),
        (block("server_tool", id="s"), True),
        (block("thinking"), False),
        (signed(), True),
        (block("text", " "), False),
        (block("text", closed=False), True),
        (block("other", closed=False), False),
    ],
)
def test_a_finished_reply(given: Block, kept: bool) -> None:
    """A reply that the model ended is its answer: broken JSON and unpaired tools belong to it."""
    assert kept is bool(decided(given, finished=True)[0])


def test_text_after_a_call_stays_in_a_finished_reply() -> None:
    """Nothing is cut off behind the last call when nothing was cut."""
    assert ["tool_use", "text", "thinking"] == decided(call(), TEXT, signed(), finished=True)[0]


# --- whole calls ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "closed", "whole_json", "whole"),
    [
        ("", True, False, True),
        ("", False, True, False),
        (" \n", True, True, True),
        ('{"a": {"b": [1, "}"]}}', False, True, True),
        ('{"a": 1}', False, False, False),
        ('{"a": 1}', True, False, True),
        ('{"a": 1', True, True, False),
        ("null", True, True, False),
        ("7", True, True, False),
        ('{"a": 1} x', True, True, False),
        ('{"a": "\ud83d"}', True, True, False),
    ],
)
def test_whole_call(text: str, closed: bool, whole_json: bool, whole: bool) -> None:
    """A call is whole when it counts as closed and its input is nothing or one JSON object."""
    assert whole is is_whole_call(call(text, closed=closed), whole_json=whole_json)


# --- any reply ------------------------------------------------------------------------------------

KINDS = st.sampled_from(list(BLOCK_KINDS))
BLOCKS = st.lists(
    st.builds(
        lambda kind, text, closed, sign, id: Block(
            0, kind, 0, id=id, parts=[text], closed=closed, signature="s" if sign else None
        ),
        KINDS,
        st.sampled_from(["", " ", "x", "{}", '{"a', '{"a": 1}', "[]"]),
        st.booleans(),
        st.booleans(),
        st.sampled_from([None, "s", "t"]),
    ),
    max_size=7,
).map(lambda found: [msgspec.structs.replace(b, index=n) for n, b in enumerate(found)])


def is_object(text: str) -> bool:
    """One JSON object."""
    return text in ("{}", '{"a": 1}')


@given(BLOCKS, st.booleans())
def test_any_reply(blocks: Sequence[Block], finished: bool) -> None:
    """Nothing is lost or made up, order stays, and no half call is ever kept."""
    found = commit(blocks, BASE, finished=finished)
    kept = [b.index for b in found.kept]

    assert sorted(kept) == kept
    assert sorted([*kept, *(d.block.index for d in found.dropped)]) == [b.index for b in blocks]
    for b in found.kept:
        if b.kind == "tool_use" and not finished:
            assert is_object(b.text) or (b.closed and not b.text.strip())
        if b.kind == "thinking":
            assert b.closed and b.signature


@given(BLOCKS)
def test_a_cut_reply_can_go_back(blocks: Sequence[Block]) -> None:
    """What is kept of a cut reply ends neither with thinking nor with text after a call."""
    kinds = [b.kind for b in commit(blocks, BASE).kept]
    calls = [n for n, kind in enumerate(kinds) if kind == "tool_use"]

    assert not kinds or kinds[-1] not in ("thinking", "redacted_thinking")
    assert not calls or calls[-1] == len(kinds) - 1


@given(BLOCKS, st.booleans())
def test_commit_changes_nothing_and_is_stable(blocks: Sequence[Block], finished: bool) -> None:
    """Commit is a pure question: the blocks stay as they are, and what is kept is kept again."""
    before = msgspec.json.encode(list(blocks))
    found = commit(blocks, BASE, finished=finished)

    assert before == msgspec.json.encode(list(blocks))
    assert found.kept == commit(found.kept, BASE, finished=finished).kept


@given(BLOCKS)
def test_the_calls_that_are_kept_are_counted(blocks: Sequence[Block]) -> None:
    """`whole_calls` is the number of kept tool calls."""
    found = commit(blocks, BASE)

    assert sum(b.kind == "tool_use" for b in found.kept) == found.whole_calls
