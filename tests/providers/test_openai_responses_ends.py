"""How a response begins and ends in the Responses dialect: stops, errors, bodies, checkpoints."""

import json
from typing import Any

import pytest
from responses_frames import (
    DIALECT,
    POLICY,
    Stream,
    done_item,
    frame,
    item,
    last,
    only,
    policy,
    read,
    stop_of,
    text_of,
)

from midthought.policies import FailureKind, Stop
from midthought.providers import AttemptReader
from midthought.statemachine import (
    BlockDelta,
    BlockStarted,
    Checkpoint,
    Finished,
    Heartbeat,
    Opened,
    StopKnown,
    Unknown,
    Usage,
    UsageReported,
)


def kinds(events: list[Any]) -> list[str]:
    """Kinds of the blocks, in order."""
    return [event.kind for event in only(events, BlockStarted)]


# --- the response as a whole ----------------------------------------------------------------------


def test_opened_with_id_and_model_once() -> None:
    """The first event of the response opens it; what repeats the response only shows life."""
    events = read(Stream().created().created().frames)

    assert [("resp_1", "gpt-5")] == [(e.id, e.model) for e in only(events, Opened)]
    assert 3 == len(only(events, Heartbeat))


def test_another_response_opens_again() -> None:
    """A relay that falls back in one stream starts a second response: its blocks begin anew."""
    first, second = Stream().created().message("A"), Stream(id="resp_2").created().message("B")
    events = read([*first.frames, *second.completed().frames])

    assert ["resp_1", "resp_2"] == [event.id for event in only(events, Opened)]
    assert [0, 0] == [event.index for event in only(events, BlockStarted)]


def test_a_stream_without_its_beginning_is_broken() -> None:
    """Attempt 0 cannot begin in the middle; a later attempt can, and so can a server that does not
    number or begins with an item."""
    middle = Stream(1466).add("output_text.delta", output_index=0, content_index=0, delta="x")
    failure = last(read(middle.completed().frames)).failure
    assert failure is not None
    assert FailureKind.sse_parse is failure.kind
    assert "1466" in failure.message

    early = Stream(2).add("output_text.delta", output_index=0, content_index=0, delta="x")
    assert Stop.error is last(read(early.completed().frames)).stop

    assert Stop.end is last(read(middle.frames, attempt=1)).stop
    assert Stop.end is last(read(Stream(1).message("Hi").completed().frames)).stop
    bare = frame({"type": "response.output_text.delta", "delta": "x"})
    assert "x" == text_of(read([bare]))


def test_usage() -> None:
    """Counters of the end, cached and reasoning tokens as parts of them."""
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    (told,) = only(read(Stream().created().completed(usage=usage).frames), UsageReported)

    assert Usage(9, 7, 4, 2, 5) == told.usage


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("max_output_tokens", "length"),
        ("content_filter", "safety"),
        ("steered", "pause"),
        ("max_messages", "pause"),
        ("of_tomorrow", "length"),
    ],
)
def test_incomplete_reasons(reason: str, stop: str) -> None:
    """Each reason has its stop; one that nobody knows is not a whole reply."""
    assert (stop, reason) == stop_of(
        read(Stream().created().message("Hi").incomplete(reason).frames)
    )


def test_incomplete_without_a_reason() -> None:
    """It is not a whole reply."""
    assert ("length", "incomplete") == stop_of(read(Stream().created().incomplete(None).frames))


def test_the_status_decides() -> None:
    """A response that says incomplete or failed is so, whatever the event is called."""
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    broken = {"status": "failed", "error": {"code": "server_error", "message": "gone"}}

    assert ("length", "max_output_tokens") == stop_of(
        read(Stream().created().completed(**cut).frames)
    )
    assert Stop.error is last(read(Stream().created().completed(**broken).frames)).stop


def test_the_policy_names_stops() -> None:
    """Words of a server are the policy's, failures too."""
    stops = policy(stream={"stops": {"tokens": "length"}, "failures": {"gpu_lost": "overloaded"}})
    failed = last(read(Stream().created().incomplete("gpu_lost").frames, used=stops)).failure

    assert ("length", "tokens") == stop_of(
        read(Stream().created().incomplete("tokens").frames, used=stops)
    )
    assert failed is not None
    assert FailureKind.overloaded is failed.kind


def test_end_of_the_stream_without_the_end_of_the_response() -> None:
    """Neither silence nor ``[DONE]`` is a success, unless the policy takes that marker for one."""
    begun = Stream().created().message("Hi").frames
    marked = [*begun, frame("[DONE]")]

    assert Stop.error is last(read(begun)).stop
    assert Stop.error is last(read(marked)).stop
    assert Stop.end is last(read(marked, used=policy(stream={"done_is_terminal": True}))).stop


def test_after_the_end_nothing_counts() -> None:
    """``[DONE]`` and errors after the end are not read."""
    end = Stream().created().message("Hi").completed().frames

    assert read(end) == read([*end, frame("[DONE]"), frame({"type": "error", "message": "x"})])


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "event"),
    [
        ({"type": "error", "code": "c", "message": "gone", "param": None}, ""),
        ({"type": "error", "error": {"type": "t", "code": "c", "message": "gone"}}, "error"),
        ({"error": {"type": "service_unavailable_error", "code": "c", "message": "gone"}}, ""),
        ({"type": "server_error", "code": "c", "message": "gone"}, "error"),
        ({"type": "response.error", "error": {"code": "c", "message": "gone"}}, ""),
        (
            {
                "type": "response.failed",
                "response": {"status": "failed", "error": {"code": "c", "message": "gone"}},
            },
            "",
        ),
    ],
)
def test_errors_of_every_shape(error: dict[str, Any], event: str) -> None:
    """Each ends the attempt, before and after text, with its code and words."""
    for begun in (Stream(), Stream().created(), Stream().created().message("Hi")):
        failure = last(
            read([*begun.frames, frame(error, event), *begun.completed().frames])
        ).failure
        assert failure is not None
        assert ("c", "gone", "stream") == (failure.code, failure.message, failure.phase)


@pytest.mark.parametrize("data", ["gone", '"gone"', "[]"])
def test_an_error_event_that_is_no_object(data: str) -> None:
    """``event: error`` with plain words or other data is an error, whatever comes after it."""
    end = Stream().created().completed().frames

    assert Stop.error is last(read([*end[:1], frame(data, "error"), *end[1:]])).stop


def test_failed_without_an_error() -> None:
    """It is a failure all the same, and says so; cancelled is its own code."""
    failed = last(read(Stream().created().failed().frames)).failure
    cancelled = Stream().created().add("cancelled", response={"status": "cancelled"})
    stopped = last(read(cancelled.frames)).failure

    assert failed is not None and "failed" in failed.message
    assert stopped is not None and stopped.code == "cancelled"


def test_an_error_of_a_tool_is_not_the_replys() -> None:
    """An event of the API that carries an error of its own (a refused steer) is passed on."""
    stream = Stream().created().add("steer.failed", error={"code": "x", "message": "no"})

    assert Stop.end is last(read(stream.message("Hi").completed().frames)).stop


def test_frames_nobody_can_read() -> None:
    """What is no JSON ends the attempt as a broken stream, described without its words."""
    failure = last(read([*Stream().created().frames, b'data: {"secret": \n\n'])).failure

    assert failure is not None
    assert FailureKind.sse_parse is failure.kind
    assert "secret" not in failure.message


def test_signs_of_life() -> None:
    """Keep-alives of every kind are no content."""
    events = read(
        [
            *Stream().created().frames,
            frame({"type": "keepalive", "sequence_number": 2}, "keepalive"),
            b": comment\n\n",
            frame({"type": "ping"}),
            frame({"type": "response.output_text.delta", "output_index": 7, "content_index": 0}),
        ]
    )

    assert 4 <= len(only(events, Heartbeat))
    assert "" == text_of(events)
    assert not only(events, Unknown)


@pytest.mark.parametrize("body", [5, "x", None, [], [1]])
def test_json_that_is_no_event(body: Any) -> None:
    """It is passed on, and the reply goes on."""
    stream = Stream().created()
    events = read([*stream.frames, frame(json.dumps(body)), *stream.message("Hi").frames[2:]])

    assert 1 == len(only(events, Unknown))
    assert "Hi" == text_of(events)


NONSENSE = [
    {"type": "response.output_item.added"},
    {"type": "response.output_item.added", "item": 5, "output_index": "x"},
    {"type": "response.output_item.done", "item": {}},
    {"type": "response.output_text.delta", "delta": {"stdout": "x"}},
    {"type": "response.output_text.done", "text": None},
    {"type": "response.content_part.added", "part": None},
    {"type": "response.content_part.done"},
    {"type": "response.output_text.annotation.added"},
    {"type": "response.created", "response": None},
    {"type": "response.in_progress"},
    {"type": "response.function_call_arguments.done", "output_index": None},
    {"type": 5},
    {},
]


@pytest.mark.parametrize("body", NONSENSE, ids=lambda body: json.dumps(body)[:50])
def test_nothing_upstream_sends_raises(body: dict[str, Any]) -> None:
    """Events with parts missing or of a wrong type mean little, and the reply stays whole."""
    stream = Stream().created()
    head = len(stream.frames)
    frames = stream.message("Hi", output=3).completed().frames

    alone = read([frame(body)])
    assert Stop.error is last(alone).stop
    events = read([*frames[:head], frame(body), *frames[head:]])
    assert Stop.end is last(events).stop
    assert text_of(events).endswith("Hi")


# --- whole bodies ---------------------------------------------------------------------------------


def whole(body: dict[str, Any], attempt: int = 0) -> list[Any]:
    """Events of a reply that came as one JSON body."""
    reader = AttemptReader(POLICY, DIALECT, attempt)
    events = reader.response(200, [("content-type", "application/json")])
    events += reader.feed(json.dumps(body).encode())
    return events if reader.finished else events + reader.end()


def test_a_whole_response_as_one_body() -> None:
    """It is as good as a stream, whichever attempt asked for it."""
    output = [
        done_item(item("reasoning"), summary=[{"text": "Hm"}], encrypted_content="enc"),
        done_item(item("message"), content=[{"type": "output_text", "text": "Hello"}]),
        done_item(item("function_call"), name="add", call_id="c", arguments="{}"),
    ]
    body = {"object": "response", "id": "r", "status": "completed", "output": output, "error": None}
    for attempt in (0, 3):
        events = whole(body, attempt)
        assert ["thinking", "text", "tool_use"] == kinds(events)
        assert ("tool_use", "completed") == stop_of(events)
        assert "HmHello" == text_of(events)


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_response_that_is_still_running(status: str) -> None:
    """It shows no part of its output and is no success."""
    part = item("message", content=[{"type": "output_text", "text": "Hel"}])
    events = whole({"object": "response", "id": "r", "status": status, "output": [part]})

    assert not only(events, BlockStarted, StopKnown)
    assert Stop.error is last(events).stop


def test_a_response_that_failed_as_one_body() -> None:
    """It is its error."""
    error = {"code": "server_error", "message": "gone"}
    for status in ("failed", "cancelled"):
        failure = last(whole({"object": "response", "status": status, "error": error})).failure
        assert failure is not None
        assert "server_error" == failure.code


# --- checkpoints ----------------------------------------------------------------------------------


def checkpoints(events: list[Any]) -> list[tuple[int, bool]]:
    """Number and ``poll`` of each checkpoint."""
    found = only(events, Checkpoint)
    assert all("resp_1" == one.handle["id"] for one in found)
    return [(one.handle["sequence_number"], one.handle["poll"]) for one in found]


@pytest.mark.parametrize(
    "response",
    [{}, {"background": False}, {"background": True, "store": False}, {"background": "yes"}],
)
def test_no_checkpoints_without_background(response: dict[str, Any]) -> None:
    """Only a stored response in the background can be taken up again."""
    stream = Stream(**response).created().message("Hi" * 900, output=0).completed()

    assert [] == checkpoints(read(stream.frames))


def numbers(stream: Stream, kind: str) -> list[int]:
    """Numbers of the events of this type."""
    found = [json.loads(one.split(b"data: ")[1]) for one in stream.frames]
    return [e["sequence_number"] for e in found if e["type"] == f"response.{kind}"]


def test_checkpoints_between_items_and_inside_long_texts() -> None:
    """One at the start, one around each item, and one for every thousand characters of a text; the
    whole reply can be asked for as long as nothing but reasoning is finished."""
    stream = Stream(background=True).created().reasoning("Hm")
    stream.message("a" * 600, "b" * 600, "c" * 100, output=1).message("later", output=2)
    events = read(stream.completed().frames)
    added, done = numbers(stream, "output_item.added"), numbers(stream, "output_item.done")

    assert [
        (0, True),
        (added[0] - 1, True),
        (done[0], True),
        (numbers(stream, "output_text.delta")[1], True),
        (done[1], False),
        (done[2], False),
    ] == checkpoints(events)
    assert Finished is type(events[-1])


def test_a_checkpoint_after_each_citation() -> None:
    """So that a resume does not bring it again."""
    stream = Stream(background=True).created().added(item("message")).text("Hi")
    stream.add("output_text.annotation.added", output_index=0, content_index=0, annotation={})

    assert (
        numbers(stream, "output_text.annotation.added")[0]
        == checkpoints(read(stream.frames))[-1][0]
    )


def test_a_checkpoint_stands_after_what_came_before_it() -> None:
    """The engine notes what stood when it came: text before, and no start of the next item."""
    stream = Stream(background=True).created().message("a" * 1200)
    events = read(stream.frames)
    at = [i for i, event in enumerate(events) if isinstance(event, Checkpoint)]

    assert isinstance(events[at[0] - 1], Opened)
    assert isinstance(events[at[2] - 1], BlockDelta)
    assert isinstance(events[at[1] + 1], Heartbeat | BlockStarted)
