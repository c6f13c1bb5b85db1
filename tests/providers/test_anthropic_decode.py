"""The grammar of the Anthropic dialect, event by event."""

import pytest
from anthropic_frames import (
    DIALECT,
    END,
    MESSAGE,
    POLICY,
    START,
    TEXT,
    built,
    delta,
    failed,
    frame,
    last,
    only,
    policy,
    read,
    start,
    stop,
    text_of,
    usage_of,
)

from midthought.policies import FailureKind, Stop
from midthought.statemachine import (
    BlockDelta,
    BlockStarted,
    Heartbeat,
    Opened,
    StopKnown,
)


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
    used = policy(classify=[{"kind": "quota_exhausted", "code": ["spent"], "scope": "spend"}])
    error = {"type": "rate_limit_error", "message": "No more", "details": {"error_code": "spent"}}
    events = read([*before, frame({"type": "error", "error": error}), END], used=used)
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
    used = policy(stream={"stops": {"end_turn": "pause"}, "failures": {"broken": "server_error"}})
    broken = frame({"type": "message_delta", "delta": {"stop_reason": "broken"}})
    events = read([START, TEXT, broken], used=used)

    assert Stop.pause is last(read([START, END], used=used)).stop
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
