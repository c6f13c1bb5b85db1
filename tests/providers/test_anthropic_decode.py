"""The Anthropic decoder reads what the official SDK reads, and more of what is broken."""

import csv
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Policy, Stop
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    UsageReported,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
DIALECT = get_dialect("anthropic_messages")
POLICY = Policy.model_validate({"name": "test", "dialect": "anthropic_messages"})
SSE = [("content-type", "text/event-stream; charset=utf-8")]


def _streams() -> list[str]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        rows = csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["file"] for row in rows if row["wire"] == "anthropic"]


STREAMS = _streams()
recorded = pytest.mark.parametrize(
    "stream",
    STREAMS
    or [pytest.param("", marks=pytest.mark.skip(reason="no recorded streams at ../shared/corpus"))],
)


def read(chunks: Iterable[bytes], *, policy: Policy = POLICY) -> list[Event]:
    """Everything one attempt says about a stream that ends in an orderly way."""
    reader = AttemptReader(policy, DIALECT, 0)
    events = reader.response(200, SSE)
    for chunk in chunks:
        events += reader.feed(chunk)
    return events + reader.end()


def frame(data: Any, event: str | None = "") -> bytes:
    """One frame; ``event`` is the type in the data unless given, ``None`` leaves the line out."""
    text = data if isinstance(data, str) else json.dumps(data)
    if event == "":
        event = data["type"]
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
START = frame({"type": "message_start", "message": {**MESSAGE, "stop_reason": None}})
END = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}) + frame(
    {"type": "message_stop"}
)


def start(index: Any, block: Any) -> bytes:
    """A ``content_block_start`` frame."""
    return frame({"type": "content_block_start", "index": index, "content_block": block})


def delta(index: Any, kind: str, **value: Any) -> bytes:
    """A ``content_block_delta`` frame."""
    data = {"type": "content_block_delta", "index": index, "delta": {"type": kind, **value}}
    return frame(data)


def stop(index: Any) -> bytes:
    """A ``content_block_stop`` frame."""
    return frame({"type": "content_block_stop", "index": index})


TEXT = start(0, {"type": "text", "text": ""})


def only(events: list[Event], *kinds: type[Event]) -> list[Event]:
    """The events of these classes."""
    return [event for event in events if isinstance(event, kinds)]


def last(events: list[Event]) -> Finished:
    """The one ``Finished``, which is the last event."""
    (finished,) = only(events, Finished)
    assert finished is events[-1]
    assert isinstance(finished, Finished)
    return finished


def failed(events: list[Event]) -> FailureKind:
    """The kind of failure that ended the attempt."""
    failure = last(events).failure
    assert failure is not None
    return failure.kind


def text_of(events: list[Event]) -> str:
    """All visible text."""
    return "".join(e.text for e in events if isinstance(e, BlockDelta) and e.field == "text")


def built(events: list[Event]) -> list[Block]:
    """The blocks that these events build, as a host that only reads would."""
    blocks: dict[int, Block] = {}
    for event in events:
        if isinstance(event, Opened):
            blocks = {}
        elif isinstance(event, BlockStarted):
            assert event.index not in blocks
            blocks[event.index] = Block(
                event.index, event.kind, 0, event.id, event.name, event.data, parts=[]
            )
        elif isinstance(event, BlockDelta):
            block = blocks[event.index]
            assert not block.closed
            if event.field in ("text", "input"):
                block.parts.append(event.text)
            elif event.field == "signature":
                block.signature = (block.signature or "") + event.text
            else:
                kept = block.citations if event.field == "citation" else block.extra
                kept.append(event.text)
        elif isinstance(event, BlockClosed):
            assert not blocks[event.index].closed
            blocks[event.index].closed = True
    return list(blocks.values())


def usage_of(events: list[Event]) -> dict[str, int]:
    """Counters as they stand at the end; the last value of each wins."""
    counters: dict[str, int] = {}
    for event in events:
        if isinstance(event, UsageReported):
            for name in event.usage.__struct_fields__:
                if (value := getattr(event.usage, name)) is not None:
                    counters[name] = value
    return counters


# --- recorded streams ----------------------------------------------------------------------------


def _cuts(stream: str, data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield [data[i : i + 7] for i in range(0, len(data), 7)]
    sizes = (CORPUS / stream).with_suffix(".splits.json")
    if sizes.exists():
        chunks, position = [], 0
        for size in json.loads(sizes.read_text("utf-8"))["read_sizes"]:
            chunks.append(data[position : position + size])
            position += size
        yield [*chunks, data[position:]]


@recorded
def test_same_events_however_split(stream: str) -> None:
    """Whole, byte by byte or in the real reads: the same events and one ``Finished``, last."""
    data = (CORPUS / stream).read_bytes()
    whole, *others = [read(chunks) for chunks in _cuts(stream, data)]

    for events in others:
        assert whole == events
    last(whole)
    assert [] == only(whole, Unknown)


@recorded
def test_read_is_feed_frame_by_frame(stream: str) -> None:
    """``read`` tells the same events as ``feed`` and gives every byte back in its frames."""
    data = (CORPUS / stream).read_bytes()
    reader = AttemptReader(POLICY, DIALECT, 0)
    events, raw = reader.response(200, SSE), b""
    for chunk in (data[: len(data) // 3], data[len(data) // 3 :]):
        for one, made in reader.read(chunk):
            assert one is not None
            raw += one.raw
            events += made
    events += reader.end()
    raw += reader.tail.raw if reader.tail is not None else b""

    assert read([data]) == events
    assert raw == data[: len(raw)]
    assert b"" == data[len(raw) :].strip()


# Where we differ from what the official SDK accumulates, and why.
DIFFERENCES = {
    "anthropic/claude-3-7-sonnet-incomplete-partial-json-response-anthsdk.sse": (
        "half a tool call; the SDK repairs its arguments, we never keep it"
    ),
    "anthropic/claude-3-haiku-spliced-message-start-vercel.sse": (
        "a second message_start; the SDK glues the two replies, we start anew"
    ),
    "anthropic/claude-fable-5-anthropic-fallback-vercel.sse": (
        "a fallback seam is shown, but is no part of a history"
    ),
    "anthropic/claude-opus-4-7-fallback-response-anthsdk.sse": (
        "a fallback seam is shown, but is no part of a history"
    ),
    "anthropic/claude-opus-4-7-refusal-response-anthsdk.sse": (
        "an empty text block, which a history must not hold"
    ),
}


def _sdk(data: bytes) -> dict[str, Any]:
    """What the official SDK makes of these bytes, as JSON data."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=dict(SSE), content=data)
    )
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(
            api_key="none", http_client=http, max_retries=0, base_url="http://127.0.0.1"
        ) as client,
        client.beta.messages.stream(
            model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        ) as stream,
    ):
        message: dict[str, Any] = stream.get_final_message().to_dict()
        return message


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@recorded
def test_same_as_the_sdk(stream: str) -> None:
    """Text, calls, reasoning, signatures, citations, usage and stop are those the SDK reads."""
    data = (CORPUS / stream).read_bytes()
    events = read([data])
    try:
        theirs = _sdk(data)
    except anthropic.APIStatusError:
        assert last(events).failure is not None
        return
    ours = DIALECT.messages(built(events), POLICY)
    content = ours[0]["content"] if ours else []
    reported = theirs["usage"]
    counters = {
        "input": reported.get("input_tokens"),
        "output": reported.get("output_tokens"),
        "cache_read": reported.get("cache_read_input_tokens"),
        "cache_write": reported.get("cache_creation_input_tokens"),
        "reasoning": (reported.get("output_tokens_details") or {}).get("thinking_tokens"),
    }
    (known,) = only(events, StopKnown)
    assert isinstance(known, StopKnown)

    same = _without_nulls(theirs["content"]) == _without_nulls(content)
    assert same is (stream not in DIFFERENCES)
    assert _without_nulls(counters) == usage_of(events)
    assert theirs["stop_reason"] == known.reason


@recorded
def test_a_cut_never_raises_and_is_never_a_success(stream: str) -> None:
    """Cut anywhere: one ``Finished``, and it is a failure unless the stop reason had arrived."""
    data = (CORPUS / stream).read_bytes()
    step = max(1, len(data) // 150)
    for cut in range(0, len(data), step):
        events = read([data[:cut]])
        stopped = [e for e in only(events, StopKnown) if isinstance(e, StopKnown)]
        finished = last(events)
        if finished.failure is None:
            assert [finished.stop] == [event.stop for event in stopped][-1:]
        else:
            assert not stopped or b"event: error" in data


# --- the grammar ---------------------------------------------------------------------------------


def test_event_lines_may_be_missing_or_wrong() -> None:
    """The type in the data decides; a stream without ``event:`` lines, or with others, is whole."""
    frames = [START, TEXT, delta(0, "text_delta", text="Alpha"), stop(0), END]
    whole = read(frames)
    bare = b"".join(frames).replace(b"event: ", b": ")
    wrong = b"".join(frames).replace(b"event: content_block_delta", b"event: nonsense")

    assert [e for e in whole if not isinstance(e, Heartbeat)] == read([bare])
    assert whole == read([wrong])
    assert "Alpha" == text_of(whole)


@pytest.mark.parametrize("before", [[], [START], [START, TEXT, delta(0, "text_delta", text="A")]])
def test_error_event(before: list[bytes]) -> None:
    """An error event ends the attempt at any point, with its words and every code."""
    policy = Policy.model_validate(
        {
            "name": "test",
            "dialect": "anthropic_messages",
            "classify": [{"kind": "quota_exhausted", "code": ["spent"], "scope": "spend"}],
        }
    )
    error = {"type": "rate_limit_error", "message": "No more", "details": {"error_code": "spent"}}
    events = read([*before, frame({"type": "error", "error": error}), END], policy=policy)
    failure = last(events).failure

    assert failure is not None
    assert (FailureKind.quota_exhausted, "spent", "spend") == (
        failure.kind,
        failure.code,
        failure.scope,
    )
    assert ("No more", "stream") == (failure.message, failure.phase)


@pytest.mark.parametrize(
    "data",
    [
        '{"message":"gone"}',
        "gone",
        '{"type":"error","error":"gone"}',
        '{"error":{"message":"gone"}}',
    ],
)
def test_error_event_of_any_shape(data: str) -> None:
    """``event: error`` is an error whatever its data looks like (case D02, variant d)."""
    failure = last(read([START, frame(data, "error")])).failure

    assert failure is not None
    assert "gone" == failure.message


def test_error_after_the_stop_fact_wins() -> None:
    """An error frame is an error although the stop reason had come."""
    known = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    error = frame({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    assert Stop.error is last(read([START, known, error])).stop


def test_second_start_opens_again() -> None:
    """A second ``message_start`` is told, and block numbers begin anew."""
    events = read([START, TEXT, delta(0, "text_delta", text="A"), START, TEXT, stop(0), END])

    assert 2 == len(only(events, Opened))
    assert [0, 0] == [e.index for e in events if isinstance(e, BlockStarted)]


def test_kinds_ids_and_verbatim_data() -> None:
    """Every block kind is known; a server tool's use and result share an id; data is kept whole."""
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [{"a": None}]}
    call = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}
    blocks = [
        {"type": "redacted_thinking", "data": "xyz"},
        use,
        result,
        {"type": "mcp_tool_use", "id": "mcp_1", "name": "echo", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "mcp_1", "content": []},
        call,
        {**call, "caller": {"type": "direct"}},
        {"type": "brand_new", "x": 1},
    ]
    frames = [part for i, block in enumerate(blocks) for part in (start(i, block), stop(i))]
    started = [e for e in read([START, *frames, END]) if isinstance(e, BlockStarted)]

    assert [
        ("redacted_thinking", None, None),
        ("server_tool", "srv_1", "web_search"),
        ("server_tool", "srv_1", None),
        ("server_tool", "mcp_1", "echo"),
        ("server_tool", "mcp_1", None),
        ("tool_use", "toolu_1", "add"),
        ("tool_use", "toolu_1", "add"),
        ("other", None, None),
    ] == [(e.kind, e.id, e.name) for e in started]
    assert [*blocks[:5], None, *blocks[6:]] == [e.data for e in started]


def test_what_deltas_add_to() -> None:
    """Each delta goes to its field; one that does not fit its block is kept as JSON."""
    events = read(
        [
            START,
            start(0, {"type": "thinking", "thinking": ""}),
            delta(0, "thinking_delta", thinking="hm"),
            delta(0, "signature_delta", signature="sig"),
            stop(0),
            start(1, {"type": "text", "text": "al"}),
            delta(1, "text_delta", text="pha"),
            delta(1, "citations_delta", citation={"type": "page_location"}),
            stop(1),
            start(2, {"type": "tool_use", "id": "t", "name": "n", "input": {}}),
            delta(2, "input_json_delta", partial_json='{"a":1}'),
            delta(2, "text_delta", text="never tool input"),
            stop(2),
            start(3, {"type": "compaction", "content": None}),
            delta(3, "compaction_delta", content="s"),
            stop(3),
            END,
        ]
    )

    assert [
        (0, "hm", "text"),
        (0, "sig", "signature"),
        (1, "al", "text"),
        (1, "pha", "text"),
        (1, '{"type":"page_location"}', "citation"),
        (2, '{"a":1}', "input"),
        (2, '{"type":"text_delta","text":"never tool input"}', "other"),
        (3, '{"type":"compaction_delta","content":"s"}', "other"),
    ] == [(e.index, e.text, e.field) for e in events if isinstance(e, BlockDelta)]


def test_tool_input_in_the_start() -> None:
    """Input that came with the start counts at the block's end, unless deltas brought it."""
    begun = start(0, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}})
    empty = delta(0, "input_json_delta", partial_json="")
    more = delta(0, "input_json_delta", partial_json='{"a":2}')

    assert ['{"a":1}'] == [block.text for block in built(read([START, begun, stop(0), END]))]
    assert ['{"a":2}'] == [
        block.text for block in built(read([START, begun, empty, more, stop(0), END]))
    ]


def test_whole_message_in_the_start() -> None:
    """Blocks and a stop reason inside ``message_start`` are read like any others."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}
    message = {**MESSAGE, "content": [call], "stop_reason": "tool_use"}
    events = read(
        [frame({"type": "message_start", "message": message}), frame({"type": "message_stop"})]
    )

    assert (Stop.tool_use, None) == (last(events).stop, last(events).failure)
    assert ["t"] == [block.id for block in built(events) if block.closed]


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", Stop.end),
        ("stop_sequence", Stop.end),
        ("tool_use", Stop.tool_use),
        ("max_tokens", Stop.length),
        ("pause_turn", Stop.pause),
        ("refusal", Stop.safety),
        ("model_context_window_exceeded", Stop.context_full),
        ("a_reason_of_tomorrow", Stop.end),
    ],
)
def test_stop_reasons(reason: str, expected: Stop) -> None:
    """Stop reasons in the common set; an unknown one is an end, for the model did stop."""
    known = frame({"type": "message_delta", "delta": {"stop_reason": reason}})
    events = read([START, known, frame({"type": "message_stop"})])
    (fact,) = [e for e in events if isinstance(e, StopKnown)]

    assert (expected, reason, expected) == (fact.stop, fact.reason, last(events).stop)


def test_policy_says_what_a_stop_reason_means() -> None:
    """``[stream] stops`` and ``failures`` beat the dialect's own table."""
    policy = Policy.model_validate(
        {
            "name": "test",
            "dialect": "anthropic_messages",
            "stream": {"stops": {"end_turn": "pause"}, "failures": {"broken": "server_error"}},
        }
    )
    broken = frame({"type": "message_delta", "delta": {"stop_reason": "broken"}})
    events = read([START, TEXT, broken], policy=policy)

    assert Stop.pause is last(read([START, END], policy=policy)).stop
    assert FailureKind.server_error is failed(events)
    assert [] == only(events, StopKnown)


def test_stop_reason_null_is_none() -> None:
    """``message_delta`` without a reason only tells usage."""
    usage = {"output_tokens": 3, "input_tokens": None, "cache_read_input_tokens": True}
    nothing = frame({"type": "message_delta", "delta": {"stop_reason": None}, "usage": usage})
    events = read([START, nothing])

    assert {"output": 3} == usage_of(events)
    assert FailureKind.premature_end is failed(events)


@pytest.mark.parametrize("tail", [b"", b"event: message_stop\ndata: {", frame("[DONE]", None)])
def test_end_of_body_after_the_stop_fact_is_a_success(tail: bytes) -> None:
    """Once the stop reason is known, a missing or cut end marker costs nothing (case A09)."""
    known = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    events = read([START, TEXT, delta(0, "text_delta", text="A"), known, tail])

    assert (Stop.end, None) == (last(events).stop, last(events).failure)
    assert [True] == [block.closed for block in built(events)]


def test_open_tool_call_at_the_stop_stays_open() -> None:
    """A call that the provider did not close is not closed by us; the machine judges its input."""
    call = start(0, {"type": "tool_use", "id": "t", "name": "n", "input": {}})
    events = read([START, call, delta(0, "input_json_delta", partial_json='{"a"'), END])

    assert [False] == [block.closed for block in built(events)]


def test_end_marker_alone_is_a_cut() -> None:
    """``message_stop`` without a stop reason completes nothing."""
    events = read([START, TEXT, delta(0, "text_delta", text="A"), frame({"type": "message_stop"})])

    assert FailureKind.premature_end is failed(events)


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n"])
def test_whole_tail_counts(ending: bytes) -> None:
    """A last event without its blank line counts if its JSON is whole (case B04)."""
    known = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}).rstrip()

    assert Stop.end is last(read([START, known + ending])).stop


def test_half_tail_does_not_count() -> None:
    """A last event that is cut is dropped, and says nothing of its own (case M05)."""
    whole = delta(0, "text_delta", text="secret")
    events = read([START, TEXT, whole[:-8]])

    assert "" == text_of(events)
    assert FailureKind.premature_end is failed(events)


# --- upstream breaks its own grammar -------------------------------------------------------------


def test_repeats_and_strays_mean_nothing() -> None:
    """A repeated start, a repeated stop and a stop of a foreign block change nothing."""
    a = delta(0, "text_delta", text="A")
    odd = read([START, TEXT, a, TEXT, a, stop(0), stop(0), stop(7), END])

    assert ["AA"] == [block.text for block in built(odd)]
    assert Stop.end is last(odd).stop


def test_index_used_twice_is_two_blocks() -> None:
    """A new block under an old number gets a number of its own; the old one is not reopened."""
    call = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    given = delta(0, "input_json_delta", partial_json="{}")
    events = read([START, TEXT, delta(0, "text_delta", text="A"), start(0, call), given, stop(0)])

    assert [("text", True), ("tool_use", True)] == [(b.kind, b.closed) for b in built(events)]


def test_half_call_under_a_number_used_again_stays_open() -> None:
    """A tool call that another start cuts off is never closed."""
    calls = [{"type": "tool_use", "id": i, "name": "n", "input": {}} for i in "ab"]
    half = delta(0, "input_json_delta", partial_json='{"a"')
    events = read([START, start(0, calls[0]), half, start(0, calls[1]), stop(0), END])

    assert [("a", False), ("b", True)] == [(b.id, b.closed) for b in built(events)]


def test_text_without_a_start_starts_a_block() -> None:
    """Text and thinking for a block that is not open are kept, in a block of their own."""
    events = read(
        [
            START,
            delta(0, "thinking_delta", thinking="hm"),
            stop(0),
            delta(1, "text_delta", text="A"),
            stop(1),
            delta(1, "text_delta", text="B"),
            END,
        ]
    )

    assert [("thinking", "hm"), ("text", "A"), ("text", "B")] == [
        (b.kind, b.text) for b in built(events)
    ]


def test_tool_input_without_a_start_is_a_broken_stream() -> None:
    """Input of a call that never started is no call, and no success either."""
    given = delta(3, "input_json_delta", partial_json='{"a":1}')

    assert FailureKind.sse_parse is failed(read([START, given, END]))


def test_index_missing_or_no_number() -> None:
    """Without a usable index the block in hand is meant."""
    events = read(
        [
            START,
            frame({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}),
            delta("0", "text_delta", text="A"),
            delta(None, "text_delta", text="B"),
            frame({"type": "content_block_stop"}),
            frame({"type": "content_block_start", "content_block": {"type": "text", "text": "C"}}),
            END,
        ]
    )

    assert [(0, "AB"), (1, "C")] == [(b.index, b.text) for b in built(events)]


def test_unknown_events_pass_as_they_came() -> None:
    """What the dialect does not know is handed on with its raw bytes."""
    frames = [frame({"type": "tomorrow", "a": 1}), frame("[1]", "list"), frame("[DONE]", None)]
    unknown = [e for e in read([START, *frames, END]) if isinstance(e, Unknown)]

    assert ["tomorrow", "list", "[DONE]"] == [e.type for e in unknown]
    assert frames == [e.raw for e in unknown]


def test_pings_and_empty_deltas_are_signs_of_life() -> None:
    """Pings, comments and deltas without content are heartbeats and nothing else."""
    quiet = [
        frame({"type": "ping"}),
        b": comment\n\n",
        b"event: ping\n\n",
        b"data:\n\n",
        delta(0, "text_delta", text=""),
        frame({"type": "content_block_delta", "index": 0, "delta": None}),
    ]
    events = read([START, TEXT, *quiet, END])

    assert len(quiet) == len(only(events, Heartbeat))
    assert [] == only(events, BlockDelta, Unknown)


# --- bytes ---------------------------------------------------------------------------------------


def test_emoji_split_over_two_deltas() -> None:
    """Two escaped halves of one character join; nothing that cannot be encoded is handed out."""
    halves = [
        frame(json.dumps({"type": "content_block_delta", "index": 0, "delta": one}), None)
        for one in (
            {"type": "text_delta", "text": "a\ud83d"},
            {"type": "text_delta", "text": "\ude00b"},
        )
    ]
    alone = read([START, TEXT, halves[0], stop(0), END])
    mixed = read([START, TEXT, halves[0], delta(0, "text_delta", text="x"), END])

    assert "a😀b" == text_of(read([START, TEXT, *halves, END]))
    assert ("a\ufffd", "a\ufffdx") == (text_of(alone), text_of(mixed))


def test_split_utf8() -> None:
    """A character cut between two reads arrives whole, without a replacement (case I01)."""
    raw = delta(0, "text_delta", text="@").replace(b"@", "Zoë 🚀".encode())
    data = START + TEXT + raw + END

    assert "Zoë 🚀" == text_of(read([data[i : i + 1] for i in range(len(data))]))


@pytest.mark.parametrize(
    "bad",
    [
        delta(0, "text_delta", text="@").strip().replace(b"@", b"\xff"),
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_',
        b'data: {"type":"ping"',
        b'data: {"a": "\x00"}',
        b"data: " + b"[" * 200_000,
        b"event: \xff\ndata: {}",
    ],
    ids=["utf8", "glued", "half", "nul", "deep", "name"],
)
def test_unreadable_frame_is_a_cut(bad: bytes) -> None:
    """A frame nobody can read ends the attempt as ``sse_parse``; what came before stands."""
    events = read([START + TEXT + delta(0, "text_delta", text="A") + bad + b"\n\n" + END])

    assert "A" == text_of(events)
    assert FailureKind.sse_parse is failed(events)


def test_named_tolerances() -> None:
    """Two documents in one event, and a comment inside a data line, are read (case I09)."""
    a, b = (delta(0, "text_delta", text=one).split(b"\n")[1] for one in "AB")
    events = read([START + TEXT + a + b"\n" + b + b"\n\n" + b"data: : PROCESSING\n\n" + END])

    assert "AB" == text_of(events)
    assert Stop.end is last(events).stop


def test_error_beside_the_stream() -> None:
    """An error in bare JSON, or in an ``error:`` field, is an error and not an odd line."""
    body = '{\n  "error": {\n    "message": "overloaded",\n    "code": 503\n  }\n}'
    for odd in (body, body + "\n\n", 'error: {"detail": "overloaded"}\n\n', "error: overloaded"):
        failure = last(read([START, TEXT, delta(0, "text_delta", text="A"), odd.encode()])).failure
        assert failure is not None
        assert "overloaded" == failure.message


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
_types = st.sampled_from(
    "message_start content_block_start content_block_delta content_block_stop message_delta "
    "message_stop ping error text_delta input_json_delta thinking_delta text tool_use".split()
)
_odd = st.fixed_dictionaries(
    {"type": _types},
    optional={
        "index": _json,
        "message": _json | st.fixed_dictionaries({"content": _json, "usage": _json}),
        "content_block": st.fixed_dictionaries({"type": _types | _json}, optional={"input": _json}),
        "delta": _json | st.fixed_dictionaries({"type": _types}, optional={"text": _json}),
        "usage": _json,
        "error": _json,
    },
)


@given(st.lists(_odd.map(frame) | st.binary(max_size=40), max_size=12))
def test_nothing_upstream_sends_raises(frames: list[bytes]) -> None:
    """Any frames in any order: no exception, blocks that hold together, and one ``Finished``."""
    events = read([START, *frames])

    last(events)
    built(events)


def test_unary_message() -> None:
    """A whole message as one JSON body has the same blocks, usage and stop as its stream."""
    body = {
        **MESSAGE,
        "content": [{"type": "text", "text": "Alpha"}],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 5, "output_tokens": 2},
    }
    events = DIALECT.unary(body, POLICY, 0)

    assert events is not None
    assert ["Alpha"] == [block.text for block in built(events) if block.closed]
    assert {"input": 5, "output": 2} == usage_of(events)
    assert [Stop.length] == [e.stop for e in events if isinstance(e, StopKnown)]
    assert DIALECT.unary({"object": "chat.completion"}, POLICY, 0) is None
