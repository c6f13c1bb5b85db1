"""What of a reply may stand in a history of the Anthropic API, and in which form."""

import csv
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from anthropic.types.beta import BetaContentBlockParam
from anthropic_frames import DIALECT, POLICY, built, policy, read
from kept_blocks import block, content, text, thinking
from pydantic import TypeAdapter

from midthought.statemachine import Block

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
CALL = block("tool_use", '{"a":1}', id="t1", name="add")
USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
PAIR = [
    block("server_tool", '{"q":"x"}', id="s1", name="web_search", data=USE),
    block("server_tool", id="s1", data=RESULT),
]


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
        for one in content(_kept(b"\n\n".join(frames[:count]))):
            _check(one)


def _kept(data: bytes) -> list[Block]:
    """What commit keeps of a cut reply: whole blocks, and text."""
    return [one for one in built(read([data])) if one.closed or one.kind == "text"]


def _check(one: dict[str, Any]) -> None:
    """The block is what the SDK would send: its types hold, and it has no field besides."""
    params = _PARAMS.get(one["type"])
    assert params is not None, one["type"]
    TypeAdapter(params).validate_python(one)
    assert set(one) <= set(get_type_hints(params)), one["type"]
