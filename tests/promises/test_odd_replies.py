"""Recordings that break the grammar, or have no one reply: what is right is written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from caller_view import CallerView
from continuing import Continuing
from cutting import FAULTS, borders
from lanes import LANES, Lane, request_of
from recordings import Recording, each_recording, recording, recordings
from scripted import ANTHROPIC, CHAT
from strict_provider import StrictProvider
from twin import Answer, Twin

CUT_CALL = "claude-3-7-sonnet-incomplete-partial-json-response"
DUPLICATE = "claude-3-haiku-duplicate-message-start"
SPLICED = "claude-3-haiku-spliced-message-start"
#: Text of the recording with the cut call, and how its call begins.
ANNOUNCED = (
    "I'll create a comprehensive tax guide for someone with multiple W2s and save it in a file "
    "called taxes.txt. Let me do that for you now."
)


def _lane(name: str) -> Lane:
    return next(lane for lane in LANES if lane.name == name)


def _run(played: Recording, lane: Lane, at: int, end: Any = "fin") -> Twin:
    """Cut the first attempt, play the rest after it."""
    upstream = Continuing(played)

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.play(body)
        return Answer(stream[:at], end) if number == 0 else Answer(stream)

    request = request_of(lane, played)
    return Twin(lane.policy, request, answer, choices=played.reply.choices).run()


@pytest.mark.parametrize("lane", ["prefill", "instruct", "strict", "closed"])
def test_length_stop_inside_a_call(lane: str) -> None:
    """A call that the cap cut is never shown, kept or continued, wherever the stream broke before.

    The reply is its text, complete but cut by its cap, and the half call is recorded.
    """
    played = recording("anthropic", CUT_CALL)
    for number, at in enumerate([*borders(played), len(played.data)]):
        twin = _run(played, _lane(lane), at, FAULTS[number % len(FAULTS)])
        assert twin.view.flat == [("text", ANNOUNCED)], at
        assert twin.view.finished.outcome == "completed"
        assert twin.view.finished.stop.value == "length"
        assert twin.view.finished.incomplete
        assert twin.message == {
            "role": "assistant",
            "content": [{"type": "text", "text": ANNOUNCED}],
        }
        halves = twin.records_of("discarded_partial_tool_use")
        assert [h["tool_name"] for h in halves] == ["make_file"] * len(halves)
        assert halves[-1]["partial_input_bytes"] == 149
        assert halves[-1]["reason"].startswith("length")
        assert len(twin.sent) <= 2


def test_duplicate_start_event() -> None:
    """A second start event before any content is no second reply, wherever the stream is cut."""
    played = recording("anthropic", DUPLICATE)
    for at in [*borders(played), len(played.data)]:
        for name in ("prefill", "instruct"):
            twin = _run(played, _lane(name), at)
            assert twin.view.flat == [("text", "Hello, World!")], at
            assert twin.view.finished.outcome == "completed"
            assert twin.view.opened == 1
            assert twin.view.retracted == 0


def _second_reply(played: Recording) -> bytes:
    starts = [f for f in played.reply.frames if f.json["type"] == "message_start"]
    return played.data[starts[1].begin :]


CALL = ("tool_use", "toolu_second", "test-tool", {"value": "Sparkle Day"})


def test_spliced_start_event_after_output() -> None:
    """A relay starts a second reply after thinking was shown: the first one failed there.

    Its half call is never shown and its thinking is taken back; nothing of it is worth keeping, so
    the same request goes out again, and only the second reply is the turn.
    """
    played = recording("anthropic", SPLICED)
    answers = [Answer(played.data), Answer(_second_reply(played))]
    lane = _lane("instruct")
    twin = Twin(lane.policy, request_of(lane, played), lambda _, number: answers[number]).run()
    assert twin.view.flat == [CALL]
    assert twin.view.finished.stop.value == "tool_use"
    assert [block.joined("signature") for block in twin.view.valid] == ["sig-second", ""]
    assert [(h["tool_name"], h["partial_input_bytes"]) for h in _halves(twin)] == [
        ("test-tool", len('{"value":"Spark'))
    ]
    assert [s.body for s in twin.sent] == [twin.sent[0].body] * 2
    assert _valid(lane, twin, played)


def test_spliced_start_event_before_output() -> None:
    """Where thinking waits for visible content, nothing was shown: it starts anew in place."""
    played = recording("anthropic", SPLICED)
    lane = _lane("with-next")
    twin = Twin(lane.policy, request_of(lane, played), lambda _, number: Answer(played.data)).run()
    assert len(twin.sent) == 1
    assert twin.view.flat == [CALL]
    assert twin.view.retracted == 0
    assert [block.joined("signature") for block in twin.view.valid] == ["sig-second", ""]
    assert _valid(lane, twin, played)


def test_spliced_start_event_every_time() -> None:
    """A relay that does so each time is asked a bounded number of times, and told as it is."""
    played = recording("anthropic", SPLICED)
    lane = _lane("instruct")
    twin = Twin(lane.policy, request_of(lane, played), lambda _, number: Answer(played.data)).run()
    assert twin.view.finished.outcome == "exhausted"
    assert 2 <= len(twin.sent) <= 4
    assert twin.view.calls == []
    assert twin.messages == []


def _halves(twin: Twin) -> list[Mapping[str, Any]]:
    return twin.records_of("discarded_partial_tool_use")


def _valid(lane: Lane, twin: Twin, played: Recording) -> bool:
    message = twin.message
    assert message is not None
    calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
    answer = [{"type": "tool_result", "tool_use_id": call, "content": "ok"} for call in calls]
    first = twin.sent[0].body
    messages = [*first["messages"], message, {"role": "user", "content": answer or "go on"}]
    return not StrictProvider(lane.server, played.reply).faults({**first, "messages": messages})


# --- several choices ------------------------------------------------------------------------------


CHOICES = [r for r in recordings("openai-chat") if r.reply.choices > 1]


def _texts(twin: Twin) -> dict[int, str]:
    """Text of each choice, from the events."""
    choice_of: dict[int, int] = {}
    found: dict[int, str] = {}
    for event in twin.events:
        kind = type(event).__name__
        if kind == "BlockStarted":
            choice_of[event.index] = (event.data or {}).get("choice", 0)  # type: ignore[attr-defined]
        elif kind == "BlockDelta":
            choice = choice_of[event.index]  # type: ignore[attr-defined]
            found[choice] = found.get(choice, "") + event.text  # type: ignore[attr-defined]
    return found


def _said(played: Recording, frames: int | None = None) -> dict[int, str]:
    found: dict[int, str] = {}
    for frame in played.reply.frames[:frames]:
        for choice in (frame.json or {}).get("choices", ()):
            text = (choice.get("delta") or {}).get("content")
            if text:
                found[choice["index"]] = found.get(choice["index"], "") + text
    return found


@each_recording(CHOICES)
def test_choices_whole(recording: Recording) -> None:
    """Several choices pass through, each with its own text."""
    lane = _lane("chat")
    twin = Twin(
        lane.policy,
        request_of(lane, recording),
        lambda _, number: Answer(recording.data),
        choices=recording.reply.choices,
    ).run()
    assert _texts(twin) == _said(recording)
    assert twin.view.finished.outcome == "completed"
    assert len(twin.sent) == 1


@each_recording(CHOICES)
def test_choices_cut(recording: Recording) -> None:
    """A cut among several choices is never continued: nobody can say which of them goes on.

    It is asked for again only while nothing was shown; else it ends exhausted, with each choice's
    text as far as it came. After the last stop fact it is complete.
    """
    lane = _lane("chat")
    reasons = [
        number
        for number, frame in enumerate(recording.reply.frames)
        if any(c.get("finish_reason") for c in (frame.json or {}).get("choices", ()))
    ]
    for at in borders(recording):
        twin = _run(recording, lane, at, "rst")
        frames, _ = recording.reply.arrived(at)
        if frames > reasons[-1]:
            assert twin.view.finished.outcome == "completed", at
            assert len(twin.sent) == 1
        elif len(twin.sent) > 1:
            assert twin.sent[1].body == twin.sent[0].body
            assert not twin.sent[1].flat, "asked again after output"
            assert _texts(twin) == _said(recording)
        else:
            assert twin.view.finished.outcome == "exhausted", at
            told, said = _texts(twin), _said(recording, frames)
            assert all(said[choice].startswith(text) for choice, text in told.items()), at


# --- structured output ----------------------------------------------------------------------------


FORMATS: dict[str, dict[str, Any]] = {
    "prefill": {"output_format": {"type": "json_schema", "schema": {"type": "object"}}},
    "instruct": {"output_config": {"format": {"type": "json_schema", "schema": {}}}},
    "chat": {"response_format": {"type": "json_object"}},
    "llamacpp": {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
}
WRITTEN = '{"name": "Alexandra Chen", "age": 28, "occupation": "Software Engineer"}'


@pytest.mark.parametrize("name", FORMATS)
def test_structured_output(name: str) -> None:
    """Structured output is never glued: once shown, a cut ends the turn, and is no success."""
    lane = _lane(name)
    request = {
        "model": lane.model,
        "max_tokens": 500,
        "messages": [{"role": "user", "content": "go"}],
        **FORMATS[name],
    }
    wire = ANTHROPIC if lane.wire == "anthropic" else CHAT
    half = len(WRITTEN) // 2
    stream = wire.start + wire.text(WRITTEN[:half], WRITTEN[half:], closed=False)
    twin = Twin(lane.policy, request, lambda _, number: Answer(stream, "fin")).run()
    assert all(sent.body["messages"] == request["messages"] for sent in twin.sent)
    assert all(not sent.flat for sent in twin.sent), "asked again after output"
    assert twin.view.finished.outcome == "exhausted"
    assert WRITTEN.startswith(twin.view.text)


def test_views_refuse_what_is_no_stream() -> None:
    """The tests' own view can fail: a delta without its block, and a start that comes twice."""
    from midthought.statemachine import BlockDelta, BlockStarted

    with pytest.raises(AssertionError, match="never started"):
        CallerView().take(BlockDelta(0, 0, "x"))
    view = CallerView()
    view.take(BlockStarted(0, 0, "text"))
    with pytest.raises(AssertionError, match="starts twice"):
        view.take(BlockStarted(0, 0, "text"))
