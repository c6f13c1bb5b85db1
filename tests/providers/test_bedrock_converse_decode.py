"""ConverseStream's grammar, message by message: what each becomes, and what broken ones do."""

import json
from typing import Any

import pytest
from anthropic_frames import built, failed, last, only, text_of, usage_of
from aws_messages import EVENT_STREAM, chunk, error, event, exception
from native_reading import calls_of, read, reply_of

from midthought.statemachine import Event, Opened, StopKnown, Unknown

pytest.importorskip("botocore")

START = event("messageStart", {"role": "assistant", "p": "abc"})


def began(index: int, **start: Any) -> bytes:
    """A ``contentBlockStart`` message."""
    return event("contentBlockStart", {"contentBlockIndex": index, "start": start})


def delta(index: int, **delta: Any) -> bytes:
    """A ``contentBlockDelta`` message."""
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": delta, "p": "abcd"})


def ended(index: int) -> bytes:
    """A ``contentBlockStop`` message."""
    return event("contentBlockStop", {"contentBlockIndex": index})


def stop(reason: str = "end_turn", **more: Any) -> bytes:
    """The ``messageStop`` message."""
    return event("messageStop", {"stopReason": reason, **more})


META = event("metadata", {"usage": {"inputTokens": 5, "outputTokens": 2}, "metrics": {}})
ALPHA = delta(0, text="Alpha ")


def events(*frames: bytes) -> list[Event]:
    """What the reader says about these messages."""
    return read("bedrock-converse", frames, EVENT_STREAM)


def test_a_reply() -> None:
    """Text without a start of its own, the stop fact, usage after it, one ``Finished``."""
    said = events(START, ALPHA, delta(0, text="beta"), ended(0), stop(), META)

    assert {
        "text": "Alpha beta",
        "thinking": "",
        "calls": [],
        "usage": {"input": 5, "output": 2},
        "stop": "end_turn",
    } == reply_of(said)
    assert 1 == len(only(said, Opened))
    assert all(block.closed for block in built(said))


def test_reasoning() -> None:
    """Reasoning has its signature, redacted reasoning goes back as it came."""
    said = events(
        START,
        delta(0, reasoningContent={"text": "hm"}),
        delta(0, reasoningContent={"text": " so"}),
        delta(0, reasoningContent={"signature": "sig"}),
        ended(0),
        delta(1, reasoningContent={"redactedContent": "c2VjcmV0"}),
        ended(1),
        delta(2, text="Alpha"),
        ended(2),
        stop(),
        META,
    )
    thinking, redacted, _ = built(said)

    assert ("thinking", "hm so", "sig") == (thinking.kind, thinking.text, thinking.signature)
    assert {"reasoningContent": {"redactedContent": "c2VjcmV0"}} == redacted.data
    assert "redacted_thinking" == redacted.kind


def test_calls() -> None:
    """Calls are announced, their input comes in pieces; server tools are told from the caller's."""
    said = events(
        START,
        began(0, toolUse={"toolUseId": "s", "name": "search", "type": "server_tool_use"}),
        delta(0, toolUse={"input": '{"q":"x"}'}),
        ended(0),
        began(1, toolResult={"toolUseId": "s", "status": "success", "type": "search_result"}),
        delta(1, toolResult=[{"text": "found"}]),
        ended(1),
        began(2, toolUse={"toolUseId": "a", "name": "f"}),
        delta(2, toolUse={"input": '{"x":'}),
        delta(2, toolUse={"input": "1}"}),
        ended(2),
        began(3, toolUse={"toolUseId": "b", "name": "g"}),
        ended(3),
        stop("tool_use"),
        META,
    )

    assert [("a", "f", {"x": 1}), ("b", "g", {})] == calls_of(said)
    assert [("s", "search", {"q": "x"})] == calls_of(said, "server_tool")
    assert "tool_use" == last(said).stop
    assert ["server_tool", "server_tool"] == [block.kind for block in built(said)[:2]]
    assert [None, None] == [block.data for block in built(said)[2:]]
    assert ["toolUse", "toolResult"] == [next(iter(b.data or {})) for b in built(said)[:2]]


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("end_turn", "end"),
        ("stop_sequence", "end"),
        ("tool_use", "tool_use"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "context_full"),
        ("guardrail_intervened", "safety"),
        ("content_filtered", "safety"),
        ("reason_of_tomorrow", "end"),
    ],
)
def test_stop_reasons(reason: str, stopped: str) -> None:
    """Each reason in the common set; one that nobody knows is an end."""
    finished = last(events(START, ALPHA, ended(0), stop(reason), META))
    assert (stopped, None) == (finished.stop, finished.failure)


@pytest.mark.parametrize(
    ("frames", "kind"),
    [
        ([stop("malformed_model_output")], "server_error"),
        ([stop("malformed_tool_use")], "malformed_tool_call"),
        ([META], "premature_end"),
        ([event("messageStop", {})], "premature_end"),
        ([exception("throttlingException", {"message": "slow down"})], "rate_limited"),
        (
            [exception("throttlingException", {"message": "Too many tokens per day, please wait"})],
            "quota_exhausted",
        ),
        ([exception("serviceUnavailableException")], "overloaded"),
        ([exception("modelStreamErrorException", {"message": "x"})], "server_error"),
        ([exception("validationException", {"message": "x"})], "invalid_request"),
        (
            [
                exception(
                    "validationException", {"message": "Input is too long for requested model"}
                )
            ],
            "context_overflow",
        ),
        ([error("InternalFailure", "oh")], "server_error"),
        ([stop(), exception("internalServerException")], "server_error"),
        ([delta(5, toolUse={"input": "{}"})], "sse_parse"),
        ([event("contentBlockDelta", 7)[:-1] + b"x"], "sse_parse"),
    ],
)
def test_failures(frames: list[bytes], kind: str) -> None:
    """An exception wins, also after the stop fact; without a stop fact the end is a cut."""
    said = events(START, ALPHA, *frames)

    assert (kind, "Alpha ") == (failed(said), text_of(said))


def test_end_without_metadata() -> None:
    """The stop fact is enough: what comes after it may be missing."""
    assert None is last(events(START, ALPHA, ended(0), stop())).failure
    assert "premature_end" == failed(events(START, ALPHA, ended(0)))
    assert "premature_end" == failed(events(START[:30]))


def test_odd_messages() -> None:
    """Empty deltas, foreign ends, announced text, unknown events and deltas lose no text."""
    said = events(
        START,
        event("eventOfTomorrow", {}),
        event("metadataOfTomorrow", [1]),
        began(0),
        delta(0),
        delta(0, text=""),
        ALPHA,
        ended(9),
        delta(0, image={"source": "x"}),
        ended(0),
        began(1, image={"format": "png"}),
        delta(1, image={"source": {"bytes": "aGk="}}),
        ended(1),
        began(2, thing={"a": 1}),
        ended(2),
        delta(3, thing={"a": 1}),
        ended(3),
        delta(4, text="beta"),
        ended(4),
        stop(additionalModelResponseFields={"stop_sequence": None}),
        META,
    )

    assert "Alpha beta" == text_of(said)
    kinds = ["text", "media", "other", "other", "text"]
    assert kinds == [block.kind for block in built(said)]
    assert 2 == len(only(said, Unknown))
    (known,) = (event for event in said if isinstance(event, StopKnown))
    assert {"additionalModelResponseFields": {"stop_sequence": None}} == known.details


def test_second_start() -> None:
    """A second ``messageStart`` begins anew."""
    said = events(START, ALPHA, START, delta(0, text="beta"), ended(0), stop(), META)
    assert ["beta"] == [block.text for block in built(said)]


def test_citations() -> None:
    """A citation of an open text belongs to it; one that stands alone is a block of its own."""
    where = {"location": {"web": {"url": "u"}}}
    said = events(START, ALPHA, delta(0, citation=where), ended(0), delta(1, citation=where),
                  ended(1), stop(), META)  # fmt: skip
    cited, alone = built(said)

    assert [where] == [json.loads(one) for one in cited.citations]
    assert ("other", [{"citation": where}]) == (
        alone.kind,
        [json.loads(one) for one in alone.extra],
    )


def test_emoji_in_two_halves() -> None:
    """Halves of an emoji in two deltas are one character."""
    halves = [delta(0, text="a\ud83d"), delta(0, text="\ude00b")]
    assert "a😀b" == text_of(events(START, *halves, ended(0), stop(), META))


def test_nova_over_invoke() -> None:
    """Pieces of text that Nova puts into blocks of their own are one block; calls end it."""

    def piece(index: int, text: str) -> list[bytes]:
        said = {"delta": {"text": text}, "contentBlockIndex": index}
        return [
            chunk({"contentBlockDelta": said}),
            chunk({"contentBlockStop": {"contentBlockIndex": index}}),
        ]

    use = {"start": {"toolUse": {"toolUseId": "a", "name": "f"}}, "contentBlockIndex": 2}
    given = {"delta": {"toolUse": {"input": "{}"}}, "contentBlockIndex": 2}
    said = events(
        chunk({"messageStart": {"role": "assistant"}}),
        *piece(0, "Al"),
        *piece(1, "pha"),
        chunk({"contentBlockStart": use}),
        chunk({"contentBlockDelta": given}),
        chunk({"contentBlockStop": {"contentBlockIndex": 2}}),
        chunk({"messageStop": {"stopReason": "tool_use"}}),
        chunk({"metadata": {"usage": {"inputTokens": 1}}, "amazon-bedrock-invocationMetrics": {}}),
    )

    assert ["Alpha", "{}"] == [block.text for block in built(said)]
    assert [("a", "f", {})] == calls_of(said)
    assert {"input": 1} == usage_of(said)
    assert "sse_parse" == failed(events(START, event("chunk", {"bytes": "?"})))
    assert 1 == len(only(events(START, chunk({"new": {}}), chunk([1])), Unknown)) - 1


def test_whole_reply() -> None:
    """A whole reply of Converse as JSON gives what a stream would have brought."""
    body = {
        "output": {
            "message": {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
                    {"text": "Alpha"},
                    {"citationsContent": {"content": [{"text": " beta"}], "citations": [{}]}},
                    {"toolUse": {"toolUseId": "a", "name": "f", "input": {"x": 1}}},
                ],
            }
        },
        "stopReason": "tool_use",
        "usage": {"inputTokens": 3, "outputTokens": 4, "cacheReadInputTokens": 1},
    }
    said = read("bedrock-converse", [json.dumps(body).encode()], "application/json")

    assert {
        "text": "Alpha beta",
        "thinking": "hm",
        "calls": [("a", "f", {"x": 1})],
        "usage": {"input": 3, "output": 4, "cache_read": 1},
        "stop": "tool_use",
    } == reply_of(said)
    others: list[Any] = [{"message": "oh"}, {"output": {}}, [1]]
    for other in others:
        said = read("bedrock-converse", [json.dumps(other).encode()], "application/json")
        assert "not_a_stream" == failed(said)


def test_one_stop_fact() -> None:
    """Only one stop fact is told."""
    assert 1 == len(only(events(START, ALPHA, ended(0), stop(), META), StopKnown))
