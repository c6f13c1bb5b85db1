"""The promises in the dialects of Cohere, Ollama and Bedrock: every border of every recording."""

import itertools
from typing import Any

import pytest
from native_cuts import LANES, Lane, NativeRun
from native_reading import shipped
from native_streams import WIRES, Stream, streams
from twin import End

from midthought.statemachine import Cancelled

pytest.importorskip("botocore")

ENDS: list[End] = ["eof", "fin", "rst", "stall"]


def _pairs() -> list[Any]:
    found = [(lane, stream) for lane in LANES for stream in streams(lane.wire)]
    absent = pytest.param(None, None, marks=pytest.mark.skip(reason="no ../shared/corpus"))
    return list(found) or [absent]


def _id(value: Any) -> str:
    return str(value)


each = pytest.mark.parametrize(("lane", "stream"), _pairs(), ids=_id)


def _run(lane: Lane, stream: Stream, cuts: list[int], end: End, **more: Any) -> NativeRun:
    policy = shipped(WIRES[lane.wire][0]).for_model(lane.model)
    return NativeRun(stream, lane, policy, cuts, end, **more)


def _borders(stream: Stream) -> list[int]:
    """Ends of frames, and the middle of each; of long recordings a sample."""
    ends = list(itertools.accumulate(map(len, stream.frames), initial=0))
    places = sorted({*ends, *((a + b) // 2 for a, b in itertools.pairwise(ends))})
    return places[:: max(1, len(places) // 120)]


@each
def test_every_border(lane: Lane, stream: Stream) -> None:
    """Cut anywhere and healed: the same text and calls, valid requests, one end."""
    for place, end in zip(_borders(stream), itertools.cycle(ENDS), strict=False):
        _run(lane, stream, [place], end).check()


@each
def test_cut_again(lane: Lane, stream: Stream) -> None:
    """The continuation is cut too, early and late."""
    for number, place in enumerate(_borders(stream)[::9]):
        for second in (150, 700):
            _run(lane, stream, [place, second], ENDS[number % 3]).check()


@each
def test_no_way_on(lane: Lane, stream: Stream) -> None:
    """Cut every time at the same place: it ends, and never as a success without the stop fact."""
    for place in (len(stream.data) // 3, len(stream.data) // 2):
        run = _run(lane, stream, [place] + [200] * 30, "rst")
        run.check_always()
        finished = run.twin.view.finished
        assert finished.outcome == "exhausted" or run.twin.view.calls or run.twin.view.stops


@each
def test_cancel_wins(lane: Lane, stream: Stream) -> None:
    """After a cancel nothing is sent, at whatever moment it comes."""
    place = len(stream.data) // 2
    for step in range(5):
        run = _run(lane, stream, [place], "fin", told={step: Cancelled()})
        run.check_always()
        finished, sent = run.twin.view.finished, len(run.twin.sent)
        assert finished.outcome == "aborted" or sent == 2 or run.twin.view.calls
