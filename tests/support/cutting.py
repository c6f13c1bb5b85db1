"""Run one recorded reply that is cut, once or more, and hold the promises against it."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from continuing import Continuing
from lanes import LANES, Lane, request_of
from promises import Run, check
from recordings import Recording
from twin import Answer, End, Twin

__all__ = ["FAULTS", "ODD", "Cut", "borders", "cut_once", "lanes_of", "run_cut"]

#: A place in the stream: a byte, or a share of what is played.
Cut = int | float

#: Transport ways to break off; ``overloaded`` is an error event and needs an event border.
FAULTS: tuple[str, ...] = ("eof", "fin", "rst", "stall")
#: Recordings whose expectations are written by hand (see decisions): a length stop inside a call,
#: and a second start event in the stream.
ODD = (
    "claude-3-7-sonnet-incomplete-partial-json-response-anthsdk",
    "claude-3-haiku-duplicate-message-start-vercel",
    "claude-3-haiku-spliced-message-start-vercel",
)
ERROR_EVENTS = {
    "anthropic": b"event: error\ndata: "
    b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
    "openai-chat": b'data: {"error":{"message":"busy","code":"server_is_overloaded"}}\n\n',
}


def lanes_of(recording: Recording, *names: str) -> list[Lane]:
    """The lanes for this wire, or those of them that are named."""
    return [
        lane for lane in LANES if lane.wire == recording.wire and (not names or lane.name in names)
    ]


def borders(recording: Recording) -> list[int]:
    """Offsets between two events, but the end."""
    frames = recording.reply.frames
    return [0, *(frame.end for frame in frames if frame.end < len(recording.data))]


def run_cut(
    recording: Recording,
    lane: Lane,
    cuts: Sequence[Cut],
    fault: str = "fin",
    *,
    repeat: int = 20,
    chunk: int = 0,
) -> Run:
    """Play it, cut attempt ``n`` at ``cuts[n]``, let it go on, and check every promise."""
    run = _play(recording, lane, cuts, fault, repeat, chunk)
    check(run)
    return run


def cut_once(recording: Recording, lane: Lane, at: int, fault: str) -> Run:
    """Cut once and go on, and check nothing."""
    return _play(recording, lane, [at], fault, 20, 0)


def _play(
    recording: Recording, lane: Lane, cuts: Sequence[Cut], fault: str, repeat: int, chunk: int
) -> Run:
    upstream = Continuing(recording, variant=lane.variant, repeat=repeat)
    places: list[int] = []

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.play(body)
        if number >= len(cuts):
            return Answer(stream, chunk=chunk)
        cut = cuts[number]
        at = cut if isinstance(cut, int) else int(cut * len(stream))
        places.append(at)
        if fault == "overloaded":
            return Answer(stream[:at] + ERROR_EVENTS[recording.wire], chunk=chunk)
        end: End = fault  # type: ignore[assignment]
        return Answer(stream[:at], end, chunk=chunk)

    request = request_of(lane, recording)
    rng = random.Random(len(recording.data)).random
    twin = Twin(lane.policy, request, answer, rng=rng, choices=recording.reply.choices)
    return Run(recording, lane, twin.run(), upstream, tuple(places), fault, request)
