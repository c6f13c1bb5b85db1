"""The Cohere grammar, frame by frame: what each event becomes, and what broken ones do."""

import json
from typing import Any

import pytest
from anthropic_frames import built, failed, last, only, text_of, usage_of
from native_reading import calls_of, read, reply_of, text_of_kind

from midthought.statemachine import Event, Opened, StopKnown, Unknown

SSE = "text/event-stream"


def frame(type_: str | None, event: str | None = None, **body: Any) -> bytes:
    """One frame; the ``event:`` line repeats the type unless another is given."""
    data = json.dumps({**({"type": type_} if type_ else {}), **body})
    name = event if event is not None else type_ or ""
    return f"event: {name}\ndata: {data}\n\n".encode()


def content(kind: str, index: int, **item: Any) -> bytes:
    """A ``content-…`` event."""
    return frame(f"content-{kind}", index=index, delta={"message": {"content": item}})


def calls(kind: str, index: int, **call: Any) -> bytes:
    """A ``tool-call-…`` event."""
    return frame(f"tool-call-{kind}", index=index, delta={"message": {"tool_calls": call}})


def plan(text: str) -> bytes:
    """A piece of the tool plan."""
    return frame("tool-plan-delta", delta={"message": {"tool_plan": text}})


def end(reason: str | None = "COMPLETE", **delta: Any) -> bytes:
    """The ``message-end`` event."""
    return frame("message-end", delta={"finish_reason": reason, **delta})


START = frame("message-start", id="m1", delta={"message": {"role": "assistant"}})
TEXT = content("start", 0, type="text", text="")
ALPHA = content("delta", 0, text="Alpha ")
STOP = frame("content-end", index=0)


def events(*frames: bytes) -> list[Event]:
    """What the reader says about these frames."""
    return read("cohere", frames, SSE)


def test_a_reply() -> None:
    """Start, text, end: opened with its id, one text block, one stop, one ``Finished``."""
    usage = {"tokens": {"input_tokens": 5.0, "output_tokens": 2}, "cached_tokens": 1}
    said = events(START, TEXT, ALPHA, content("delta", 0, text="beta"), STOP, end(usage=usage))

    assert {
        "text": "Alpha beta",
        "thinking": "",
        "calls": [],
        "usage": {"input": 5, "output": 2, "cache_read": 1},
        "stop": "COMPLETE",
    } == reply_of(said)
    assert ["m1"] == [e.id for e in only(said, Opened) if isinstance(e, Opened)]


def test_calls_and_plan() -> None:
    """The plan is thinking that the first call ends; calls have their own numbers."""
    first = {"id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}
    second = {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"y"'}}
    said = events(
        START,
        plan("I will "),
        plan("call."),
        calls("start", 0, **first),
        calls("delta", 0, function={"arguments": '{"x":1}'}),
        frame("tool-call-end", index=0),
        calls("start", 1, **second),
        calls("delta", 1, function={"arguments": ":2}"}),
        frame("tool-call-end", index=1),
        end("TOOL_CALL"),
    )

    assert [("a", "f", {"x": 1}), ("b", "g", {"y": 2})] == calls_of(said)
    assert "I will call." == text_of_kind(said, "thinking")
    assert [0, 1, 2] == [block.index for block in built(said)]
    assert all(block.closed for block in built(said))


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("COMPLETE", "end"),
        ("STOP_SEQUENCE", "end"),
        ("MAX_TOKENS", "length"),
        ("TOOL_CALL", "tool_use"),
        ("REASON_OF_TOMORROW", "end"),
    ],
)
def test_stop_reasons(reason: str, stop: str) -> None:
    """Each reason in the common set; one that nobody knows is an end."""
    assert (stop, None) == (
        last(events(START, TEXT, ALPHA, STOP, end(reason))).stop,
        last(events(START, TEXT, ALPHA, STOP, end(reason))).failure,
    )


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([end("ERROR")], "server_error"),
        ([end("TIMEOUT")], "server_error"),
        ([end("ERROR", error="too many tokens: size limit exceeded by 5")], "context_overflow"),
        ([end("COMPLETE", error="it broke")], "server_error"),
        ([end(None, error="it broke")], "server_error"),
        ([end(None)], "premature_end"),
        ([b"data: [DONE]\n\n"], "premature_end"),
        ([frame("error", error={"message": "it broke"})], "server_error"),
        ([frame(None, id="x", message="it broke")], "server_error"),
        ([b"event: error\ndata: it broke\n\n"], "server_error"),
        ([b"data: {broken\n\n"], "sse_parse"),
        ([calls("delta", 0, function={"arguments": "{}"})], "sse_parse"),
    ],
)
def test_failures(frames: list[bytes], kind: str) -> None:
    """An error wins whatever the reason says; an end without a reason is a cut."""
    said = events(START, TEXT, ALPHA, *frames, end())

    assert (kind, "Alpha ") == (failed(said), text_of(said))
    assert "premature_end" == failed(events(START, TEXT, ALPHA))


def test_grammar_that_upstream_breaks() -> None:
    """Missing starts and ends, foreign ends, unknown events and empty deltas lose no text."""
    said = events(
        content("delta", 0, text="Alpha "),
        frame("content-end", index=7),
        content("delta", 0),
        frame("debug", prompt="x"),
        frame("event-of-tomorrow"),
        b"data: [1]\n\n",
        content("delta", 0, text="beta"),
        content("delta", 4),
        frame("citation-end", index=0),
        end(),
        b"data: [DONE]\n\n",
    )

    assert "Alpha beta" == text_of(said)
    assert None is last(said).failure
    assert 3 == len(only(said, Unknown))
    assert all(block.closed for block in built(said))


def test_what_a_start_says() -> None:
    """Type or field alone tells thinking from text; a start may hold text already."""
    said = events(
        START,
        content("start", 0, type="thinking"),
        content("delta", 0, thinking="hm"),
        frame("content-end", index=0),
        content("start", 1, thinking="so"),
        frame("content-end", index=1),
        content("start", 2, type="text", text="Alpha"),
        frame("content-end", index=2),
        plan("and"),
        end(),
    )

    assert [("thinking", "hm"), ("thinking", "so"), ("text", "Alpha"), ("thinking", "and")] == [
        (block.kind, block.text) for block in built(said)
    ]
    closed = [type(event).__name__ for event in said]
    assert closed.index("StopKnown") > max(i for i, n in enumerate(closed) if n == "BlockClosed")


def test_a_number_that_comes_again() -> None:
    """A second start under the number of an open block ends a text, and never a half call."""
    first = {"id": "a", "function": {"name": "f", "arguments": '{"x"'}}
    said = events(
        START,
        TEXT,
        ALPHA,
        TEXT,
        content("delta", 0, text="beta"),
        calls("start", 0, **first),
        calls("start", 0, **{**first, "id": "b"}),
        calls("delta", 0, function={"arguments": ":1}"}),
        frame("tool-call-end", index=0),
        end(),
    )

    assert [("Alpha ", True), ("beta", True), ('{"x"', False), ('{"x":1}', True)] == [
        (block.text, block.closed) for block in built(said)
    ]


def test_second_start() -> None:
    """A second ``message-start`` begins anew."""
    said = events(START, TEXT, ALPHA, START, TEXT, content("delta", 0, text="beta"), STOP, end())

    assert 2 == len(only(said, Opened))
    assert ["beta"] == [block.text for block in built(said)]


def test_emoji_in_two_halves() -> None:
    """Halves of an emoji in two deltas are one character; a lone half is replaced."""
    halves = [content("delta", 0, text=half) for half in ("a\ud83d", "\ude00b", "\ud83d")]
    assert "a😀b\ufffd" == text_of(events(START, TEXT, *halves, STOP, end()))


def test_citations() -> None:
    """A citation belongs to the open block that it counts; without one it is passed on."""

    def cited(**more: Any) -> bytes:
        citation = {"start": 0, "end": 5, "text": "Alpha", "sources": [], **more}
        return frame("citation-start", index=0, delta={"message": {"citations": citation}})

    said = events(
        START,
        content("start", 0, type="thinking", thinking="hm"),
        cited(type="THINKING_CONTENT"),
        STOP,
        content("start", 1, type="text", text="Alpha"),
        cited(type="TEXT_CONTENT"),
        frame("content-end", index=1),
        cited(),
        end(),
    )

    assert [1, 1] == [len(block.citations) for block in built(said)]
    assert 1 == len(only(said, Unknown))


def test_whole_reply() -> None:
    """A whole reply as JSON gives what a stream would have brought."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x":1}'}}
    body = {
        "id": "m1",
        "finish_reason": "TOOL_CALL",
        "message": {
            "role": "assistant",
            "tool_plan": "I will.",
            "content": [{"type": "text", "text": "Alpha"}],
            "tool_calls": [call],
        },
        "usage": {"billed_units": {"input_tokens": 3, "output_tokens": 4}},
    }
    said = read("cohere", [json.dumps(body).encode()], "application/json")

    assert {
        "text": "Alpha",
        "thinking": "I will.",
        "calls": [("a", "f", {"x": 1})],
        "usage": {"input": 3, "output": 4},
        "stop": "TOOL_CALL",
    } == reply_of(said)
    others: list[Any] = [{"message": "oh"}, [], {"id": "x"}]
    for broken in others:
        events = read("cohere", [json.dumps(broken).encode()], "application/json")
        assert "not_a_stream" == failed(events)


def test_usage_that_is_none() -> None:
    """Counters that are no numbers, or below zero, are not reported."""
    usage = {"tokens": {"input_tokens": True, "output_tokens": -1}, "cached_tokens": "x"}
    said = events(START, TEXT, ALPHA, STOP, end(usage=usage))

    assert {} == usage_of(said)
    assert 1 == len(only(said, StopKnown))
