"""Where a Chat stream ends, its errors, and frames that are odd or broken; one test each."""

import json
from typing import Any

import pytest
from chat_frames import DONE, blocks, chunk, end, failure, play, policy, sse, text
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Stop
from midthought.providers import Frame
from midthought.providers.openai_chat import dialect
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    Usage,
    UsageReported,
)

# --- where a stream ends --------------------------------------------------------------------------


def test_plain_text_stream() -> None:
    """Text in three chunks is one block, whole at the finish reason, and usage comes after it."""
    usage = sse({"id": "c1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}})
    events = play(chunk({"role": "assistant", "content": ""}), text("Al"), text("pha"),
                  chunk(finish="stop"), usage, DONE)  # fmt: skip
    assert events[1:] == [
        Opened(0, "c1", "m"),
        BlockStarted(0, 0, "text"),
        BlockDelta(0, 0, "Al"),
        BlockDelta(0, 0, "pha"),
        BlockClosed(0, 0),
        StopKnown(0, Stop.end, "stop"),
        UsageReported(0, Usage(input=5, output=3)),
        Finished(0, Stop.end),
    ]


def test_a_message_instead_of_a_delta() -> None:
    """A server that streams one whole message, not a delta, is read."""
    frame = sse({"choices": [{"index": 0, "message": {"content": "A"}, "finish_reason": "stop"}]})
    assert blocks(play(frame)) == [("text", "A", True)]


def test_done_missing_after_a_finish_reason_is_no_failure() -> None:
    """A stream that ends after its finish reason is complete without the end marker."""
    assert end(play(text("Alpha"), chunk(finish="stop"))) == Finished(0, Stop.end)


def test_done_without_a_finish_reason_is_no_success() -> None:
    """The end marker alone completes nothing, unless the policy says that it does."""
    assert failure(play(text("Alpha"), DONE))[0] is FailureKind.premature_end
    events = play(text("Alpha"), DONE, stream={"done_is_terminal": True})
    assert StopKnown(0, Stop.end, "[DONE]") in events
    assert blocks(events) == [("text", "Alpha", True)]
    assert end(events).stop is Stop.end


def test_extra_done_is_nothing() -> None:
    """A second end marker, and one with a space after it, change nothing."""
    assert end(play(text("A", "stop"), b"data: [DONE] \n\n", DONE)).stop is Stop.end


@pytest.mark.parametrize("nothing", ["", "null", None, 0, False])
def test_words_that_are_no_finish_reason(nothing: Any) -> None:
    """Empty, ``"null"``, null and zero are no finish reason: the stream goes on."""
    events = play(text("Al", nothing), text("pha", nothing))
    assert blocks(events) == [("text", "Alpha", False)]
    assert failure(events)[0] is FailureKind.premature_end


def test_numeric_finish_reason() -> None:
    """A number is a reason like any other word; the policy may say what it means."""
    events = play(text("A", 2), stream={"stops": {"2": "length"}})
    assert StopKnown(0, Stop.length, "2") in events
    assert StopKnown(0, Stop.end, "7") in play(text("A", 7))


def test_unknown_finish_reason_is_an_end() -> None:
    """A word nobody knows is an end of the model's own, with the word kept."""
    assert StopKnown(0, Stop.end, "moon") in play(text("A", "moon"))


def test_known_finish_reasons_are_read_without_case() -> None:
    """Gateways to other providers write the words in capitals."""
    events = play(text("A", "MAX_TOKENS"), stream={"stops": {"max_tokens": "length"}})
    assert StopKnown(0, Stop.length, "MAX_TOKENS") in events


@pytest.mark.parametrize(
    "word", ["error", "network_error", "insufficient_system_resource", "abort"]
)
def test_finish_reasons_that_are_failures(word: str) -> None:
    """They end no reply: the attempt fails, with the kind that the policy names."""
    tables = {"stream": {"failures": {word: "overloaded"}}}
    events = play(text("A"), chunk(finish=word), DONE, **tables)
    assert failure(events)[:2] == (FailureKind.overloaded, word)
    assert blocks(events) == [("text", "A", False)]


def test_the_word_error_is_a_failure_without_a_policy() -> None:
    """``error`` is never a stop of the model's own."""
    assert failure(play(text("A"), chunk(finish="error")))[:2] == (
        FailureKind.server_error,
        "error",
    )


def test_one_failed_choice_fails_the_stream() -> None:
    """With several choices the first failure ends the attempt."""
    events = play(text("A"), text("B", index=1), chunk(finish="error", index=1))
    assert failure(events)[1] == "error"


def test_content_in_the_finishing_chunk_comes_before_the_stop() -> None:
    """The last text of a chunk that also stops is part of the reply."""
    events = play(text("Al"), text("pha", "stop"))
    assert blocks(events) == [("text", "Alpha", True)]
    assert events.index(StopKnown(0, Stop.end, "stop")) > events.index(BlockDelta(0, 0, "pha"))


def test_content_after_the_finish_reason_is_delivered() -> None:
    """Late text is a block of its own, and is closed when the attempt is over."""
    events = play(text("Alpha", "stop"), text("beta"), DONE)
    assert blocks(events) == [("text", "Alpha", True), ("text", "beta", True)]
    assert end(events).stop is Stop.end


def test_finish_reason_twice_is_told_once() -> None:
    """A repeated reason is no second stop; one that means something else is."""
    again = play(text("A", "stop"), chunk(finish="stop"), DONE)
    assert sum(isinstance(e, StopKnown) for e in again) == 1
    other = play(text("A", "stop"), chunk(finish="length"), DONE)
    assert end(other).stop is Stop.length


# --- errors in the stream -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        sse({"error": {"message": "boom", "code": 502}}),
        sse({"id": "c1", "choices": [], "error": {"message": "boom", "code": 502}}),
        sse({"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "boom"}}),
        sse({"error": "boom"}),
        sse({"code": "Throttling", "message": "boom"}),
        sse({"object": "error", "message": "boom", "type": "x", "code": "3230"}),
        sse({"error": {"message": "boom"}, "status_code": 503}),
        sse([{"error": {"message": "boom", "status": "UNAVAILABLE"}}]),
        sse({"message": "boom"}, "error"),
        b"event: error\ndata: boom\n\n",
        b'error: {"detail":"x","error":{"message":"boom"}}\n\n',
        b"error: boom\n\n",
        b'data: {"choices":[]}\nerror: boom\n\n',
        sse({"choices": [{"index": 0, "delta": {}, "error": {"message": "boom"}}]}),
        sse({"choices": [{"delta": {"content": "A"}, "error": {"message": "boom"}}]}),
        text("A", error={"message": "boom"}),
        sse({"choices": [{"delta": {"content": ""}}], "x_groq": {"id": "r", "error": "boom"}}),
    ],
)
def test_errors_win_over_the_end_marker(frame: bytes) -> None:
    """An error, wherever it stands, ends the attempt as a failure with its words."""
    assert failure(play(text("Alpha"), frame, DONE))[2] == "boom"
    assert failure(play(text("Alpha", "stop"), frame, DONE))[2] == "boom"


def test_null_error_is_no_error() -> None:
    """Servers that put ``"error": null`` into every chunk are read as usual."""
    assert end(play(text("A", error=None), text("B", "stop", error=None))).stop is Stop.end


# --- frames with nothing in them ------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        sse({"id": "", "model": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}),
        sse({"id": "c1", "choices": None}),
        sse({"choices": [{"index": 0, "delta": None, "finish_reason": None}]}),
        sse({"choices": [{"index": 0, "content_filter_offsets": {"check_offset": 4}}]}),
        chunk({"content": None}),
        b"data: : OPENROUTER PROCESSING\n\n",
        b": keep-alive\n\n",
    ],
)
def test_chunks_without_content_are_signs_of_life(frame: bytes) -> None:
    """Empty or null choices, a null or missing delta, filter results and comments: a heartbeat."""
    events = play(text("Al"), frame, text("pha", "stop"))
    assert sum(isinstance(e, Heartbeat) for e in events) == 1
    assert blocks(events) == [("text", "Alpha", True)]


def test_opened_waits_for_the_stream_to_say_who_it_is() -> None:
    """A first frame with an empty id and no choice (filter results) does not open the attempt."""
    events = play(sse({"id": "", "choices": [], "prompt_filter_results": []}), text("A", "stop"))
    assert [e for e in events if isinstance(e, Opened)] == [Opened(0, "c1", "m")]


def test_an_object_that_is_no_chunk_is_passed_on() -> None:
    """What the dialect does not know comes out as it came."""
    frame = sse({"type": "telemetry", "ms": 3})
    assert Unknown(0, "telemetry", frame) in play(text("A"), frame, chunk(finish="stop"))


def test_usage_under_many_names() -> None:
    """Counters are read under the names that servers use, and told again only when they change."""
    first = {"prompt_tokens": 9, "completion_tokens": 1, "prompt_cache_hit_tokens": 4}
    groq = {"prompt_tokens": 9, "completion_tokens": 2, "completion_tokens_details": None}
    details = {
        "prompt_tokens": 9,
        "completion_tokens": 3.0,
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }
    events = play(
        text("A", usage=first), text("B", usage=first), text("C", x_groq={"usage": groq}),
        text("D", "stop", usage={"prompt_tokens": None}), sse({"choices": [], "usage": details}),
    )  # fmt: skip
    assert [e.usage for e in events if isinstance(e, UsageReported)] == [
        Usage(input=9, output=1, cache_read=4),
        Usage(input=9, output=2),
        Usage(input=9, output=3, cache_read=8, cache_write=1, reasoning=2),
    ]


# --- frames that are not one JSON document --------------------------------------------------------


def test_two_whole_documents_in_one_event_are_two_chunks() -> None:
    """A lost blank line glues two documents, or one and the end marker: both are read."""
    one, two = text("Al")[:-1], text("pha", "stop")[:-1]
    events = play(one + two + b"data: [DONE]\n\n")
    assert blocks(events) == [("text", "Alpha", True)]
    assert end(events).stop is Stop.end
    same_line = play(one[:-1] + two.removeprefix(b"data: ") + b"\n")
    assert blocks(same_line) == [("text", "Alpha", True)]


@pytest.mark.parametrize(
    "frame",
    [
        b'data: {"choices":[{"delta":{"content":"xdata: {"choices":[]}\n\n',
        text("Al")[:-1] + b'data: {"choices":[{"de\n\n',
        b'data: {"choices":[{"delta":{"content":"a\x00b"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
        b"data: 17\n\n",
        b"data: [1, 2]\n\n",
        b"data: " + b'{"a":' * 100_000 + b"\n\n",
        chunk({"content": 3}),
        chunk({"tool_calls": ["x"]}),
    ],
)
def test_half_documents_are_malformed(frame: bytes) -> None:
    """Half JSON, wrong types and bad bytes break the stream; nothing is guessed, nothing quoted."""
    kind, _, message = failure(play(text("Al"), frame, DONE))
    assert kind is FailureKind.sse_parse
    assert "content" not in message or "content is a int" in message


def test_halves_of_an_emoji_in_two_deltas() -> None:
    """A surrogate pair escaped over two deltas becomes its character, a lone half U+FFFD."""
    high = b'data: {"id":"c","choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n'
    low = b'data: {"id":"c","choices":[{"delta":{"content":"\\ude00b"}}]}\n\n'
    assert blocks(play(high, low, chunk(finish="stop"))) == [("text", "a\U0001f600b", True)]
    assert blocks(play(high, text("b"), chunk(finish="stop"))) == [("text", "a\ufffdb", True)]
    assert blocks(play(high, chunk(finish="stop"))) == [("text", "a\ufffd", True)]


_KEYS = (
    "id model choices index delta content role finish_reason usage error x_groq type text thinking "
    "tool_calls function name arguments reasoning reasoning_details refusal audio function_call "
    "annotations images message prompt_tokens completion_tokens_details"
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_KEYS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.lists(_JSON, max_size=4), _JSON, st.booleans())
def test_no_frame_raises(deltas: list[Any], document: Any, tags: bool) -> None:
    """Whatever JSON a server sends, the decoder answers with events or a signal."""
    tables = {"blocks": {"thinking": {"tags": ("<think>", "</think>")}}} if tags else {}
    decoder = dialect.decoder(policy(**tables), 0)
    out: list[Event] = []
    frames = [{"choices": [{"delta": d, "finish_reason": None, "index": 0}]} for d in deltas]
    for value in [*frames, {"choices": document}, document]:
        decoder.decode(Frame(b"", data=json.dumps(value).encode()), out)
    decoder.ended(out)
    blocks(out)
