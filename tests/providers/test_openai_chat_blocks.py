"""The blocks of a Chat stream: text, reasoning, refusals, media, several choices, a whole reply."""

import json
from itertools import pairwise
from typing import Any

import pytest
from chat_frames import DONE, blocks, chunk, failure, play, policy, sse, text
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Stop
from midthought.providers import Frame
from midthought.providers.openai_chat import CHOICE_STRIDE, dialect
from midthought.statemachine import (
    BlockDelta,
    BlockStarted,
    Event,
    StopKnown,
    Usage,
    UsageReported,
)

_CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
_DETAIL = {"type": "reasoning.encrypted", "data": "x"}


@pytest.mark.parametrize(
    ("delta", "trace"),
    [
        ({"content": "pha", "reasoning": "hm"}, "hm"),
        ({"content": "pha", "reasoning_content": "hm"}, "hm"),
        ({"content": "pha", "reasoning_details": [_DETAIL]}, "encrypted"),
        ({"content": "pha", "refusal": "No."}, "No."),
        ({"content": "pha", "tool_calls": [_CALL]}, "name='f'"),
        ({"content": "pha", "function_call": {"name": "f", "arguments": "{}"}}, "name='f'"),
        ({"content": "pha", "audio": {"id": "x"}}, "id='x'"),
        ({"content": "pha", "annotations": [{"type": "url_citation"}]}, "url_citation"),
        ({"content": "pha", "images": [{"type": "image_url"}]}, "image_url"),
    ],
)
@pytest.mark.parametrize("first", [{"content": "Al"}, {"reasoning": "Al"}])
def test_a_chunk_with_text_and_more_loses_nothing(
    first: dict[str, Any], delta: dict[str, Any], trace: str
) -> None:
    """Text in the open block is read on a short way, which sees everything else in the chunk."""
    events = play(chunk(first), chunk(delta), chunk(finish="stop"))
    assert trace in repr(events)
    assert "".join(value for name, value, _ in blocks(events) if name == "text").endswith("pha")


def test_two_choices_in_one_chunk() -> None:
    """A chunk may carry several choices, and usage beside its text."""
    both = [{"index": n, "delta": {"content": value}} for n, value in enumerate(("pha", "Be"))]
    usage = {"prompt_tokens": 3}
    events = play(text("Al"), sse({"id": "c1", "choices": both}), text("!", usage=usage))
    assert blocks(events) == [("text", "Alpha!", False), ("text", "Be", False)]
    assert UsageReported(0, Usage(input=3)) in events


# --- reasoning, refusals, media -------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_fields_are_thinking(field: str) -> None:
    """Reasoning in a field of its own is a thinking block, closed by the text after it."""
    events = play(chunk({field: "hm", "content": ""}), chunk({field: " ok"}), text("A", "stop"))
    assert blocks(events) == [("thinking", "hm ok", True), ("text", "A", True)]


def test_the_same_reasoning_in_three_fields_is_told_once() -> None:
    """A server that repeats its reasoning in several fields does not make it longer."""
    detail = {"type": "reasoning.text", "text": "hm", "format": "f", "index": 0}
    delta = {"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [detail]}
    events = play(chunk(delta), text("A", "stop"))
    assert blocks(events)[0] == ("thinking", "hm", True)
    kept = [e.text for e in events if isinstance(e, BlockDelta) and e.field == "other"]
    assert [json.loads(one) for one in kept] == [detail]


def test_reasoning_details_alone() -> None:
    """Details without another field give the text; a signature is told as one."""
    one = {"type": "reasoning.summary", "summary": "hm", "index": 0}
    two = {"type": "reasoning.text", "signature": "sig", "index": 0}
    events = play(chunk({"reasoning_details": [{"type": "reasoning.text", "index": 0}]}),
                  chunk({"reasoning_details": [one]}), chunk({"reasoning_details": [two]}),
                  text("A", "stop"))  # fmt: skip
    assert blocks(events) == [("thinking", "hm", True), ("text", "A", True)]
    assert BlockDelta(0, 0, "sig", "signature") in events


def test_encrypted_reasoning_does_not_part_the_text() -> None:
    """An encrypted detail between two pieces of text is a block of its own; the text stays one."""
    detail = {"type": "reasoning.encrypted", "data": "x", "index": 0}
    events = play(text("Al"), chunk({"reasoning_details": [detail]}), text("pha", "stop"))
    assert blocks(events) == [("text", "Alpha", True), ("redacted_thinking", "", True)]
    started = [e for e in events if isinstance(e, BlockStarted)]
    assert started[1].data == {"reasoning_details": [detail]}


def test_reasoning_after_text_is_a_new_block() -> None:
    """Blocks follow the order in which they came."""
    events = play(text("A"), chunk({"reasoning": "hm"}), text("B", "stop"))
    assert [kind for kind, _, _ in blocks(events)] == ["text", "thinking", "text"]


TAGGED = {"blocks": {"thinking": {"tags": ("<think>", "</think>")}}}


@given(st.lists(st.integers(0, 40), max_size=8))
def test_tagged_thinking_wherever_it_is_cut(cuts: list[int]) -> None:
    """Text between the policy's tags is thinking, also where a delta cuts a tag."""
    whole = "<think>a < b</thin k</think>\n\n1 </think < 2"
    places = sorted({0, len(whole), *(c for c in cuts if c < len(whole))})
    pieces = [whole[i:j] for i, j in pairwise(places)]
    events = play(*(text(piece) for piece in pieces), chunk(finish="stop"), **TAGGED)
    assert blocks(events) == [
        ("thinking", "a < b</thin k", True),
        ("text", "\n\n1 </think < 2", True),
    ]


def test_a_cut_inside_a_tag_shows_none_of_it() -> None:
    """Unfinished tagged thinking stays an open thinking block, and half a tag is not text."""
    assert blocks(play(text("<think>step"), **TAGGED)) == [("thinking", "step", False)]
    assert blocks(play(text("A<thi"), **TAGGED)) == [("text", "A", False)]
    assert blocks(play(text("A<thi", "stop"), **TAGGED)) == [("text", "A<thi", True)]
    assert blocks(play(text("<think>a</think>"), **TAGGED)) == [("thinking", "a", True)]


def test_tags_are_text_without_the_policy() -> None:
    """Only a policy that names the tags makes thinking of them."""
    assert blocks(play(text("<think>a</think>b", "stop"))) == [("text", "<think>a</think>b", True)]


def test_cumulative_text() -> None:
    """Where each delta repeats all text so far, only what is new is told."""
    tables = {"stream": {"cumulative_text": True}}
    events = play(text("Al"), text("Alpha"), text("Alpha"), text("Al"), text("Alpha b", "stop"),
                  **tables)  # fmt: skip
    assert blocks(events) == [("text", "Alpha b", True)]
    broken = play(text("Alpha"), text("Beta"), **tables)
    assert failure(broken)[0] is FailureKind.sse_parse


def test_refusal_is_a_block_of_its_own() -> None:
    """``delta.refusal`` is no text."""
    events = play(chunk({"refusal": "I'm sorry"}), chunk({"refusal": "."}), chunk(finish="stop"))
    assert blocks(events) == [("refusal", "I'm sorry.", True)]
    events = play(chunk({"refusal": "No."}), text("A"))
    assert blocks(events) == [("refusal", "No.", True), ("text", "A", False)]


def test_audio_and_images_are_media() -> None:
    """Audio is one block until the stop; an image is whole at once."""
    events = play(chunk({"audio": {"id": "audio_1", "transcript": "Hi"}}),
                  chunk({"audio": {"data": "QUJD"}}),
                  chunk({"images": [{"type": "image_url", "image_url": {"url": "data:x"}}]}),
                  chunk(finish="stop"))  # fmt: skip
    assert [(kind, closed) for kind, _, closed in blocks(events)] == [("media", True)] * 2
    assert BlockStarted(0, 0, "media", "audio_1", None, {"type": "audio"}) in events


def test_content_as_parts() -> None:
    """Content as a list of parts: text, thinking (closed by text), and others as whole blocks."""
    think = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    image = {"type": "image_url", "image_url": "u"}
    events = play(chunk({"content": [think]}),
                  chunk({"content": [think, {"type": "text", "text": "1"}]}),
                  text("44"),
                  chunk({"content": [image, {"type": "ref", "ids": [1]}]}, "stop"))  # fmt: skip
    assert blocks(events) == [
        ("thinking", "hmhm", True), ("text", "144", True), ("media", "", True), ("other", "", True),
    ]  # fmt: skip


def test_citations_belong_to_the_open_text() -> None:
    """``annotations`` of a delta are citations of the text block."""
    note = {"type": "url_citation", "url_citation": {"url": "u"}}
    events = play(text("A"), chunk({"annotations": [note]}), chunk(finish="stop"))
    cited = [e for e in events if isinstance(e, BlockDelta) and e.field == "citation"]
    assert [(e.index, json.loads(e.text)) for e in cited] == [(0, note)]
    events = play(chunk({"reasoning": "hm"}), chunk({"annotations": [note]}))
    assert not any(isinstance(e, BlockDelta) and e.field == "citation" for e in events)


# --- several choices ------------------------------------------------------------------------------


def test_choices_are_kept_apart() -> None:
    """Each choice has its own blocks, told apart by number and data; the stop waits for all."""
    events = play(text("Al"), text("Be", index=1), text("pha"), chunk(finish="stop"),
                  text("ta", index=1), chunk(finish="length", index=1), DONE)  # fmt: skip
    assert blocks(events) == [("text", "Alpha", True), ("text", "Beta", True)]
    started = [e for e in events if isinstance(e, BlockStarted)]
    assert [(e.index, e.data) for e in started] == [(0, None), (CHOICE_STRIDE, {"choice": 1})]
    stops = [e for e in events if isinstance(e, StopKnown)]
    assert stops == [StopKnown(0, Stop.end, "stop", {"choices": {"0": "stop", "1": "length"}})]


def test_one_choice_cut_is_no_success() -> None:
    """A choice that finished does not finish the other one."""
    events = play(text("Al"), text("Be", index=1), chunk(finish="stop"))
    assert blocks(events) == [("text", "Al", True), ("text", "Be", False)]
    assert failure(events)[0] is FailureKind.premature_end


def test_choices_one_after_the_other() -> None:
    """With the request's n the decoder waits for choices that have not begun."""
    decoder = dialect.decoder(policy(), 0, choices=2)
    out: list[Event] = []
    for frame in (text("Al", "stop"), text("Be", index=1)):
        decoder.decode(Frame(frame, data=frame[6:-2]), out)
    assert not any(isinstance(e, StopKnown) for e in out)


# --- a whole reply as one body --------------------------------------------------------------------


def test_unary_reply_gives_the_events_of_a_stream() -> None:
    """A ``chat.completion`` body becomes blocks, usage and the stop fact."""
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        for n in (1, 2)
    ]
    message = {"role": "assistant", "content": "A", "reasoning": "hm", "tool_calls": calls}
    body = {
        "id": "c1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2},
    }
    events = dialect.unary(body, policy(), 0)
    assert events is not None
    assert blocks(events) == [
        ("thinking", "hm", True), ("text", "A", True), ("tool_use", "{}", True),
        ("tool_use", "{}", True),
    ]  # fmt: skip
    assert StopKnown(0, Stop.tool_use, "tool_calls") in events
    assert UsageReported(0, Usage(input=1, output=2)) in events


@pytest.mark.parametrize("body", [{"error": {"message": "x"}}, {"choices": []}, [], "x", {"ok": 1}])
def test_other_bodies_are_no_reply(body: Any) -> None:
    """An error or anything else is not taken for a reply."""
    assert dialect.unary(body, policy(), 0) is None
