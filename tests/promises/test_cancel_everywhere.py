"""Cancel, yield and the deadline win at every point of a turn: between any two reads, while
waiting, while a request is on its way. Fake time, no sockets; the clients' own part is in
``tests/cases``.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from continuing import Continuing
from cutting import ODD, lanes_of
from lanes import Lane, overlay, request_of
from recordings import Recording, each_recording, recordings
from strict_provider import StrictProvider
from twin import Answer, Twin

from midthought.statemachine import Cancelled, HostEvent, Yielded

#: Some of each kind: text, reasoning, tools of both kinds, calls side by side.
WANTED = (
    "claude-haiku-4-5-streaming",
    "claude-haiku-4-5-anthropic-fetch-panel",
    "claude-sonnet-4-tool-use-response",
    "bedrock-claude-3-5-sonnet-invoke-model",
    "claude-3-7-sonnet-redacted-thinking",
    "deepseek-chat-stream-with-tools",
    "zai-glm-4.5-object",
    "gemma-3-27b-it",
    "openai-openai-gpt-4o-completions-async",
)
RECORDINGS = [
    r
    for r in recordings("anthropic", "openai-chat")
    if r.name.startswith(WANTED) and r.name not in ODD
]
CAUSES: dict[str, HostEvent] = {
    "caller": Cancelled("caller"),
    "disconnect": Cancelled("disconnect"),
    "shutdown": Cancelled("shutdown"),
    "yield": Yielded(),
}


@dataclass(frozen=True)
class Scene:
    """A turn with a rate limit, a stall, a cut and then the whole rest."""

    recording: Recording
    lane: Lane

    def run(self, told: Mapping[int, HostEvent]) -> Twin:
        """Tell the machine this, by the number of the read before which it is told."""
        upstream = Continuing(self.recording)
        size = max(1, len(self.recording.data) // 7)
        limited = Answer(b'{"error":{"type":"rate_limit_error","message":"slow"}}', status=429)

        def answer(body: Mapping[str, Any], number: int) -> Answer:
            if number == 0:
                return limited
            stream = upstream.play(body)
            cut = stream[: int(len(stream) * 0.7)]
            if number < 3:
                return Answer(cut, "stall" if number == 1 else "fin", chunk=size)
            return Answer(stream, chunk=size)

        request = request_of(self.lane, self.recording)
        return Twin(self.lane.policy, request, answer, told=told).run()


@each_recording(RECORDINGS)
def test_told_at_every_point(recording: Recording) -> None:
    """Whatever the machine is doing: nothing is sent after it, and the history stays valid."""
    for lane in lanes_of(recording, "prefill", "instruct", "chat", "llamacpp", "strict"):
        scene = Scene(recording, lane)
        whole = scene.run({})
        assert whole.steps > 10
        rng = random.Random(recording.name)
        for at in range(whole.steps):
            cause = rng.choice(list(CAUSES))
            twin = scene.run({at: CAUSES[cause], at + 1: Cancelled("caller")})
            if len(twin.sent) == len(whole.sent) and twin.view.finished.outcome != "aborted":
                assert at >= whole.steps - 2  # it came when the reply was complete
                continue
            _aborted(twin, whole, at)
            _kept_validly(twin, scene)


def _aborted(twin: Twin, whole: Twin, at: int) -> None:
    finished = twin.view.finished
    assert finished.outcome == "aborted", at
    assert finished.stop.value == "aborted", at
    assert finished.incomplete
    assert not twin.after_done, "effects after the end"
    assert len(twin.sent) <= len(whole.sent)
    assert twin.steps <= at + 3, "the machine went on"
    assert not twin.view.calls, "a call that nobody will run is still there"


def _kept_validly(twin: Twin, scene: Scene) -> None:
    first = twin.sent[0].body
    provider = StrictProvider(scene.lane.server, scene.recording.reply)
    for said in (twin.messages, [twin.message] if twin.message else []):
        messages = [*first["messages"], *said, {"role": "user", "content": "and then?"}]
        if not said:
            continue
        assert not provider.faults({**first, "messages": messages})


@each_recording(RECORDINGS)
def test_deadline_at_any_time(recording: Recording) -> None:
    """When the deadline passes, the turn is exhausted at once, in whatever state it was."""
    for lane in lanes_of(recording, "instruct", "chat"):
        for deadline in (0.3, 60.0, 91.0, 91.7, 400.0):
            policy = overlay(lane.policy_name, f"[clocks]\ndeadline_s = {deadline}")
            upstream = Continuing(recording)

            def answer(body: Mapping[str, Any], number: int, up: Continuing = upstream) -> Answer:
                stream = up.play(body)
                return Answer(stream[: int(len(stream) * 0.6)], "stall")

            twin = Twin(policy, request_of(lane, recording), answer).run()
            assert twin.view.finished.outcome in ("exhausted", "completed")
            assert twin.took_s is not None and twin.took_s <= deadline
            if twin.view.finished.outcome == "exhausted":
                assert not twin.view.calls


@pytest.mark.parametrize("first", ["cut", "cancel"])
def test_cut_and_cancel_in_one_tick(first: str) -> None:
    """Whichever is fed first counts first; the cancel is final either way, and nothing is sent."""
    found = [r for r in RECORDINGS if r.name.startswith("claude-haiku-4-5-streaming")]
    if not found:
        pytest.skip("the recorded streams are not beside the project")
    (recording,) = found
    lane = lanes_of(recording, "instruct")[0]
    half = recording.data[: len(recording.data) * 3 // 4]
    # Read 0 comes before the answer, 1 before its bytes, 2 before its end, 3 while waiting.
    told: dict[int, HostEvent] = {3 if first == "cut" else 2: Cancelled("caller")}
    twin = Twin(
        lane.policy, request_of(lane, recording), lambda _, n: Answer(half, "fin"), told=told
    ).run()
    assert twin.view.finished.outcome == "aborted"
    assert len(twin.sent) == 1
    assert recording.reply.text.startswith(twin.view.text)
    assert twin.view.text
