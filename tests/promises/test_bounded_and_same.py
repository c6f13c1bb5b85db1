"""Bounds: five continuations, at the same place too. And determinism: the same in, the same out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from continuing import Continuing
from cutting import lanes_of, run_cut
from lanes import LANES, Lane, request_of
from promises import Run
from recordings import Recording, each_recording, recordings
from twin import Answer, Twin


def _inside_last_text(recording: Recording) -> int:
    """A byte behind most of the text: the event there ends inside the last text."""
    part = [p for p in recording.reply.parts if p.kind == "text" and len(p.text) > 20][-1]
    frame, _ = part.piece_at(len(part.text) - 2)
    return recording.reply.frames[frame].begin


def _has_enough(recording: Recording) -> bool:
    """Plain text, and enough of it before that byte to be worth keeping."""
    reply = recording.reply
    kinds = {part.kind for part in reply.parts}
    if reply.choices > 1 or kinds & {"tool_use", "refusal"} or len(reply.text) < 40:
        return False
    frames, _ = reply.arrived(_inside_last_text(recording))
    return sum(len(s.text) for s in reply.before(frames) if s.part.kind == "text") > 24


RECORDINGS = [r for r in recordings("anthropic", "openai-chat") if _has_enough(r)]


@each_recording(RECORDINGS)
def test_cut_at_the_same_place(recording: Recording) -> None:
    """Five continuations that each break before a new word: 1, 2, 4, 8, 16 s, then exhausted.

    The turn ends with the facts, and what there is of the reply is kept.
    """
    for lane in lanes_of(recording, "prefill", "instruct", "chat", "llamacpp"):
        upstream = Continuing(recording)
        at = _inside_last_text(recording)

        def answer(
            body: Mapping[str, Any], number: int, up: Continuing = upstream, place: int = at
        ) -> Answer:
            stream = up.play(body)
            return Answer(stream[:place] if number == 0 else stream[: _empty(up)], "fin")

        twin = Twin(lane.policy, request_of(lane, recording), answer).run()
        finished = twin.view.finished
        assert finished.outcome == "exhausted"
        assert [w.delay_s for w in twin.waited] == [1.0, 2.0, 4.0, 8.0, 16.0]
        assert [a.how for a in twin.attempts] == ["original"] + 5 * ["continue"]
        assert finished.failure.kind.value == "sse_transport"
        assert len({msgspec.json.encode(s.body) for s in twin.sent[1:]}) == 1
        (record,) = twin.records_of("llm_stream_continuation_exhausted")
        assert record["attempts"] == 6
        assert record["final_reason"] == "sse_transport"
        assert recording.reply.text.startswith(twin.view.text)
        assert twin.message is not None


def _empty(upstream: Continuing) -> int:
    """So much of the last answer is its start only: no content."""
    stream = upstream.played[-1].stream
    wire = b"content_block_start" if b"content_block_start" in stream else b'"delta"'
    second = stream.index(b"\n\n") + 2
    assert wire in stream
    return second


LIMITED = Answer(
    b'{"error":{"type":"rate_limit_error","message":"slow down"}}',
    status=429,
    headers=(("content-type", "application/json"),),
)


@pytest.mark.parametrize("name", ["prefill", "instruct", "chat", "llamacpp"])
def test_rate_limits_have_their_own_budget(name: str) -> None:
    """A 429 on a continuation is retried as it is, ten times at most; none of the five is used."""
    lane, recording = _lane_and_text(name)
    upstream = Continuing(recording)
    at = _inside_last_text(recording)

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.play(body)
        if number == 0:
            return Answer(stream[:at], "fin")
        return LIMITED if number <= 10 else Answer(stream)

    twin = Twin(lane.policy, request_of(lane, recording), answer).run()
    assert twin.view.finished.outcome == "completed"
    assert [a.how for a in twin.attempts] == ["original", "continue"] + 10 * ["retry"]
    assert [a.rule for a in twin.attempts[2:]] == 10 * ["busy"]
    assert len({msgspec.json.encode(s.body) for s in twin.sent[1:]}) == 1
    assert twin.view.text == recording.reply.text
    bases = [min(0.5 * 2**n, 32.0) for n in range(10)]
    for attempt, base in zip(twin.attempts[2:], bases, strict=True):
        assert base <= attempt.delay_s <= base * 1.25


@pytest.mark.parametrize("name", ["prefill", "chat"])
def test_rate_limits_are_bounded(name: str) -> None:
    """The eleventh 429 in one turn ends it, and the partial reply is kept."""
    lane, recording = _lane_and_text(name)
    upstream = Continuing(recording)
    at = _inside_last_text(recording)

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.play(body)
        return Answer(stream[:at], "fin") if number == 0 else LIMITED

    twin = Twin(lane.policy, request_of(lane, recording), answer).run()
    assert twin.view.finished.outcome == "exhausted"
    assert twin.view.finished.failure.kind.value == "rate_limited"
    # The budget of ten is spent; where something is kept, the five continuations are tried too.
    assert 12 <= len(twin.sent) <= 1 + 5 + 10 + 1
    assert twin.message is not None


def _lane_and_text(name: str) -> tuple[Lane, Recording]:
    lane = next(lane for lane in LANES if lane.name == name)
    wire = "anthropic" if lane.wire == "anthropic" else "openai-chat"
    plain = [
        r for r in RECORDINGS if r.wire == wire and {p.kind for p in r.reply.parts} == {"text"}
    ]
    if not plain:
        pytest.skip("the recorded streams are not beside the project")
    return lane, plain[0]


@each_recording(recordings("anthropic", "openai-chat")[::6])
def test_deterministic(recording: Recording) -> None:
    """The same bytes, times and random numbers give the same events, records and requests."""
    if recording.reply.choices > 1:
        return
    for lane in lanes_of(recording):
        runs = [_observe(run_cut(recording, lane, [0.55, 0.4], "stall")) for _ in range(2)]
        assert runs[0] == runs[1]


def _observe(run: Run) -> tuple[Any, ...]:
    twin = run.ran
    assert isinstance(twin, Twin)
    return twin.events, twin.records, twin.sent, twin.waited
