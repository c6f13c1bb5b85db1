"""Tool calls of a Chat stream: which delta belongs to which call, and when a call is whole."""

import json
from typing import Any

import pytest

from midthought.policies import FailureKind, Policy, Stop
from midthought.providers import AttemptReader
from midthought.providers.openai_chat import dialect
from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event, Finished

Call = tuple[str | None, str | None, str, bool]
_NONE: Any = object()


def piece(
    args: Any = "", *, index: Any = 0, id: Any = _NONE, name: Any = _NONE, **more: Any
) -> dict[str, Any]:
    """One entry of ``tool_calls``; what is not given is missing."""
    function = {"arguments": args} | ({} if name is _NONE else {"name": name})
    entry: dict[str, Any] = {"function": function, **more}
    if index is not None:
        entry["index"] = index
    if id is not _NONE:
        entry["id"] = id
    return entry


def frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """A chunk."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode()


def play(*pieces: dict[str, Any], finish: str | None = "tool_calls", **tables: Any) -> list[Event]:
    """The events of a stream with these entries, one a chunk, and a finish reason."""
    policy = Policy(name="test", dialect="openai_chat", **tables)
    reader = AttemptReader(policy, dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    frames = [frame({"tool_calls": [one]}) for one in pieces]
    for data in [*frames, *([frame({}, finish)] if finish else [])]:
        events += reader.feed(data)
    return events if reader.finished else events + reader.end()


def calls(events: list[Event]) -> list[Call]:
    """Id, name, input and whether it was closed, of each tool block in order."""
    found: dict[int, list[Any]] = {}
    for event in events:
        if isinstance(event, BlockStarted) and event.kind == "tool_use":
            found[event.index] = [event.id, event.name, "", False]
        elif isinstance(event, BlockDelta) and event.field == "input":
            assert not found[event.index][3], "input after the call was closed"
            found[event.index][2] += event.text
        elif isinstance(event, BlockClosed) and event.index in found:
            found[event.index][3] = True
    return [tuple(one) for one in found.values()]


def stop(events: list[Event]) -> Stop:
    """How the attempt ended."""
    assert isinstance(events[-1], Finished)
    return events[-1].stop


TWO = [("a", "add", '{"x":1}', True), ("b", "mul", '{"y":2}', True)]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [piece(id="a", name="add"), piece('{"x"'), piece(":1}"),
             piece(id="b", name="mul", index=1), piece('{"y":2}', index=1)],
            id="as the specification says",
        ),
        pytest.param(
            [piece(id="a", name="add"), piece('{"x"'), piece(":1}"),
             piece(id="b", name="mul"), piece('{"y":2}')],
            id="the same index for both",
        ),
        pytest.param(
            [piece('{"x"', id="a", name="add", index=None), piece(":1}", index=None),
             piece('{"y":2}', id="b", name="mul", index=None)],
            id="no index",
        ),
        pytest.param(
            [piece('{"x"', id="a", name="add"), piece(":1}", index=1),
             piece('{"y"', id="b", name="mul", index=2), piece(":2}", index=3)],
            id="index counted up with each delta",
        ),
        pytest.param(
            [piece('{"x"', id="a", name="add"), piece(":1}", id="z"),
             piece('{"y"', id="b", name="mul", index=1), piece(":2}", id="zz", index=1)],
            id="a new id with each delta",
        ),
        pytest.param(
            [piece('{"x"', id="a", name="add"), piece(":1}", id="a", name="add"),
             piece("", id="a", name="add"),
             piece('{"y"', id="b", name="mul", index=1), piece(":2}", id="b", name="", index=1)],
            id="id and name repeated in each delta",
        ),
        pytest.param(
            [piece(id="a", name="add"), piece(id="b", name="mul", index=1), piece('{"x"'),
             piece('{"y":2}', index=1), piece(":1}")],
            id="both announced first, then filled by turns",
        ),
        pytest.param(
            [piece('{"x"', id="a", name="add"), piece('{"y"', id="b", name="mul"),
             piece(":1}", id="a"), piece(":2}", id="b")],
            id="filled by turns, told apart by id only",
        ),
        pytest.param(
            [piece({"x": 1}, id="a", name="add"), piece({"y": 2}, id="b", name="mul", index=1)],
            id="input as an object",
        ),
        pytest.param(
            [piece('{"x":1}', id="a", name="add"),
             piece('{"y":2}', id="b", name="mul", index=1), piece("\n", index=0)],
            id="white space after the input",
        ),
    ],
)  # fmt: skip
def test_two_calls_however_they_are_keyed(pieces: list[dict[str, Any]]) -> None:
    """Two calls come out whole and apart, whatever the server does with indexes, ids and names."""
    events = play(*pieces)
    assert calls(events) == TWO
    assert stop(events) is Stop.tool_use


@pytest.mark.parametrize("index", [0, None])
def test_two_calls_without_ids(index: Any) -> None:
    """Without ids, and the same index or none, a whole object ends a call; ids are made up."""
    events = play(piece('{"x":1}', name="add", index=index), piece('{"x"', name="add", index=index),
                  piece(":2}", index=index))  # fmt: skip
    assert calls(events) == [
        ("call_0_0", "add", '{"x":1}', True), ("call_0_1", "add", '{"x":2}', True),
    ]  # fmt: skip


@pytest.mark.parametrize("second", [1, None])
def test_announced_and_filled_without_ids(second: Any) -> None:
    """A name alone begins a call at a new index, or after whole input where there is none."""
    first = None if second is None else 0
    events = play(piece('{"x":1}', name="add", index=first), piece("", name="mul", index=second),
                  piece('{"y":2}', index=second))  # fmt: skip
    assert [c[1:] for c in calls(events)] == [c[1:] for c in TWO]
    broken = play(piece("{bad", name="add", index=None), piece("x", name="mul", index=None))
    assert [c[1:3] for c in calls(broken)] == [("add", "{bad"), ("mul", "x")]


def test_halves_of_an_emoji_in_the_input() -> None:
    """Input is mended like text, also where its half waits while plain input comes."""
    halves = play(piece('{"x":"\ud83d', id="a", name="add"), piece('\ude00"}'))
    assert calls(halves) == [("a", "add", '{"x":"\U0001f600"}', True)]
    lone = play(piece('{"x":"', id="a", name="add"), piece("\ud83d"), piece('"}'))
    assert calls(lone) == [("a", "add", '{"x":"\ufffd"}', True)]


def test_a_call_with_a_name_only() -> None:
    """Without id and input it starts at the stop, or not at all."""
    assert calls(play(piece(name="now"))) == [("call_0_0", "now", "", True)]
    assert calls(play(piece(name="now"), finish="length")) == []


def test_a_call_announced_again_after_its_input_is_the_next() -> None:
    """A repeated name after whole input is no second call by itself, but what follows it is."""
    same = [piece('{"x":1}', name="add"), piece("", name="add")]
    assert [c[2] for c in calls(play(*same))] == ['{"x":1}']
    assert [c[1:3] for c in calls(play(*same, piece('{"x":2}')))] == [
        ("add", '{"x":1}'), ("add", '{"x":2}'),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", '{"y":2}'])
def test_equal_ids_of_two_calls(text: str) -> None:
    """Two calls under one id, at different indexes, are two calls, also if announced first."""
    events = play(piece('{"x":1}', id="a", name="add"), piece(text, id="a", name="mul", index=1),
                  piece("" if text else '{"y":2}', index=1))  # fmt: skip
    assert [c[1:] for c in calls(events)] == [c[1:] for c in TWO]


def test_first_name_and_id_win() -> None:
    """Another name or id for the same call changes nothing."""
    events = play(piece('{"x"', id="a", name="add"), piece(":1}", id="a", name="sub"))
    assert calls(events) == [("a", "add", '{"x":1}', True)]


def test_the_word_null_is_no_id() -> None:
    """``"null"`` stands for a missing id."""
    assert calls(play(piece("{}", id="null", name="add")))[0][0] == "call_0_0"


def test_name_after_the_id() -> None:
    """A call starts once its name is known, with what came before."""
    events = play(piece('{"x"', id="a"), piece(":1}", name="add"))
    assert calls(events) == [("a", "add", '{"x":1}', True)]


def test_a_call_closes_when_the_next_begins() -> None:
    """Cut after a whole call: that one is closed, the half one is open."""
    events = play(piece('{"x":1}', id="a", name="add"), piece('{"y', id="b", name="mul", index=1),
                  finish=None)  # fmt: skip
    assert calls(events) == [TWO[0], ("b", "mul", '{"y', False)]
    assert stop(events) is Stop.error


def test_an_empty_input_is_not_closed_by_the_next_call() -> None:
    """Its input may still come; only the stop says that there is none."""
    pieces = [piece(id="a", name="now"), piece('{"y":2}', id="b", name="mul", index=1)]
    assert [c[3] for c in calls(play(*pieces, finish=None))] == [False, False]
    assert [c[3] for c in calls(play(*pieces))] == [True, True]


@pytest.mark.parametrize("word", ["length", "content_filter", "model_context_window_exceeded"])
def test_a_cutting_stop_leaves_half_a_call_open(word: str) -> None:
    """Half a call under a cap, a filter or a full window is never closed; a whole one is."""
    words = {"stops": {"model_context_window_exceeded": "context_full"}}
    events = play(piece('{"x":1}', id="a", name="add"), piece('{"y', id="b", name="mul", index=1),
                  finish=word, stream=words)  # fmt: skip
    assert calls(events) == [TWO[0], ("b", "mul", '{"y', False)]
    whole = play(piece('{"x":1}', id="a", name="add"), finish=word, stream=words)
    assert calls(whole) == [TWO[0]]
    strict = play(piece('{"x":1}', id="a", name="add"), finish=word, stream=words,
                  blocks={"tool_use": {"whole_json": False}})  # fmt: skip
    assert calls(strict)[0][3] is False


@pytest.mark.parametrize("word", ["stop", "tool_calls", "eos", "surprise"])
def test_a_stop_with_calls_is_tool_use(word: str) -> None:
    """Servers say ``stop`` after tool calls; what was sent decides."""
    events = play(piece('{"x":1}', id="a", name="add"), finish=word)
    assert stop(events) is Stop.tool_use
    assert calls(events)[0][3] is True


def test_invalid_input_that_the_provider_finished_passes() -> None:
    """A finished call whose input is no JSON is the provider's answer, closed as it came."""
    assert calls(play(piece("arg-1", id="a", name="f"), piece("arg-2"))) == [
        ("a", "f", "arg-1arg-2", True)
    ]


def test_input_for_a_closed_call_breaks_the_stream() -> None:
    """What was handed out as whole cannot grow: the stream is broken, not the call."""
    events = play(piece('{"x":1}', id="a", name="add"), piece("{", id="b", name="mul", index=1),
                  piece("}", index=0))  # fmt: skip
    assert isinstance(events[-1], Finished)
    assert events[-1].failure is not None
    assert events[-1].failure.kind is FailureKind.sse_parse
    reader = AttemptReader(Policy(name="test", dialect="openai_chat"), dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    for delta in ({"tool_calls": [piece('{"x":1}', id="a", name="add")]}, {"content": "A"},
                  {"tool_calls": [piece("}")]}):  # fmt: skip
        events += reader.feed(frame(delta))
    assert stop(events) is Stop.error


def test_a_call_after_the_stop_makes_it_tool_use() -> None:
    """A late call still counts: the stop is told again as ``tool_use``."""
    events = play(finish="stop")
    assert stop(events) is Stop.end
    policy = Policy(name="test", dialect="openai_chat")
    reader = AttemptReader(policy, dialect, 0)
    late = reader.response(200, [("content-type", "text/event-stream")])
    late += reader.feed(frame({"content": "A"}, "stop"))
    late += reader.feed(frame({"tool_calls": [piece("{}", id="a", name="now")]}))
    late += reader.end()
    assert calls(late) == [("a", "now", "{}", True)]
    assert stop(late) is Stop.tool_use


def test_text_around_calls() -> None:
    """Text before a call is closed by it, text after it is a new block, and the call is closed."""
    policy = Policy(name="test", dialect="openai_chat")
    reader = AttemptReader(policy, dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    for delta in ({"content": "A"}, {"tool_calls": [piece('{"x":1}', id="a", name="add")]},
                  {"content": "B"}):  # fmt: skip
        events += reader.feed(frame(delta))
    order = [type(e).__name__ for e in events if isinstance(e, BlockStarted | BlockClosed)]
    assert order == ["BlockStarted", "BlockClosed", "BlockStarted", "BlockClosed", "BlockStarted"]
    assert calls(events) == [TWO[0]]


def test_legacy_function_call() -> None:
    """``delta.function_call`` is a tool call without an id."""
    reader = AttemptReader(Policy(name="test", dialect="openai_chat"), dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    events += reader.feed(frame({"function_call": {"name": "add", "arguments": ""}}))
    events += reader.feed(frame({"function_call": {"arguments": '{"x":1}'}}))
    events += reader.feed(frame({}, "function_call")) + reader.end()
    assert calls(events) == [(None, "add", '{"x":1}', True)]
    assert stop(events) is Stop.tool_use


def test_custom_tool_call() -> None:
    """A custom call's input is free text; what it is stands in the block's data."""
    entry = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "grep", "input": "x"}}
    more = {"index": 0, "custom": {"input": "y"}}
    events = play(entry, more)
    assert calls(events) == [("a", "grep", "xy", True)]
    started = next(e for e in events if isinstance(e, BlockStarted))
    assert started.data == {"type": "custom"}


def test_a_providers_own_keys_stay_with_the_call() -> None:
    """A thought signature beside a call must go back with it."""
    extra = {"google": {"thought_signature": "sig"}}
    events = play(piece("{}", id="a", name="add", extra_content=extra))
    started = next(e for e in events if isinstance(e, BlockStarted))
    assert started.data == {"extra_content": extra}


def test_cumulative_input() -> None:
    """Where each delta repeats the whole input, only what is new is told."""
    events = play(piece('{"x"', id="a", name="add"), piece('{"x":1', id="a"), piece('{"x":1}'),
                  stream={"cumulative_text": True})  # fmt: skip
    assert calls(events) == [TWO[0]]
    events = play(piece("arg", id="a", name="f"), piece("arg-1"), stream={"cumulative_text": True})
    assert calls(events) == [("a", "f", "arg-1", True)]
