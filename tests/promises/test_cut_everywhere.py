"""Every recorded reply, cut anywhere, and gone on with by an upstream that plays the rest.

Promises 1 to 5 and 7 to 9 of the design are checked for each run by ``promises.check``, which reads
the recordings by itself. No sockets and no real time: ``test_cut_on_sockets`` runs a sample on the
clients.
"""

from __future__ import annotations

import random

import pytest
from cutting import FAULTS, ODD, borders, lanes_of, run_cut
from recordings import Recording, each_recording, recordings

RECORDINGS = [
    r
    for r in recordings("anthropic", "openai-chat")
    if r.reply.choices == 1 and r.name not in ODD  # test_odd_replies has these
]
MAIN_LANES = ("prefill", "instruct", "chat", "llamacpp")
RANDOM_BYTES = 200


def _rng(recording: Recording, what: str) -> random.Random:
    """The same numbers in every run."""
    return random.Random(f"{what} {recording.name}")


@each_recording(RECORDINGS)
def test_every_event_border(recording: Recording) -> None:
    """Cut between any two events, the reply is healed and every promise holds."""
    rng = _rng(recording, "borders")
    lanes = lanes_of(recording, *MAIN_LANES)
    for number, at in enumerate(borders(recording)):
        # The few long recordings take the lanes in turn.
        for lane in lanes if number < 100 else [lanes[number % len(lanes)]]:
            run_cut(recording, lane, [at], rng.choice(FAULTS), repeat=rng.randrange(20, 61))


@each_recording(RECORDINGS)
def test_random_bytes(recording: Recording) -> None:
    """Cut at 200 random bytes, under every policy and for every kind of model in turn."""
    rng = _rng(recording, "bytes")
    lanes = lanes_of(recording)
    for number in range(RANDOM_BYTES):
        at = rng.randrange(len(recording.data))
        lane = lanes[number % len(lanes)]
        run_cut(recording, lane, [at], rng.choice(FAULTS), repeat=rng.randrange(20, 61))


@each_recording(RECORDINGS)
def test_cut_again(recording: Recording) -> None:
    """The continuation is cut too, and the one after it: the promises hold for the whole turn."""
    rng = _rng(recording, "again")
    for lane in lanes_of(recording):
        for cuts in (2, 3):
            places = [rng.random() for _ in range(cuts)]
            run_cut(recording, lane, places, rng.choice(FAULTS), repeat=rng.randrange(20, 61))


@each_recording(RECORDINGS)
def test_error_event(recording: Recording) -> None:
    """An ``overloaded`` event after any event is a cut, and wins over a stop fact before it."""
    rng = _rng(recording, "error")
    lanes = lanes_of(recording)
    places = borders(recording)
    for number, at in enumerate(rng.sample(places, min(len(places), 2 * len(lanes)))):
        run_cut(recording, lanes[number % len(lanes)], [at], "overloaded")


@each_recording(RECORDINGS)
def test_small_reads(recording: Recording) -> None:
    """What a network does to the bytes of an attempt changes nothing: reads of 1 to 40 bytes."""
    rng = _rng(recording, "reads")
    for lane in lanes_of(recording, *MAIN_LANES):
        at = rng.randrange(len(recording.data))
        chunk = 1 if len(recording.data) < 20_000 else 40
        whole = run_cut(recording, lane, [at], "fin")
        small = run_cut(recording, lane, [at], "fin", chunk=chunk)
        assert small.ran.view.flat == whole.ran.view.flat
        assert [s.body for s in small.ran.sent] == [s.body for s in whole.ran.sent]


@pytest.mark.torture
@each_recording(RECORDINGS)
def test_every_byte(recording: Recording) -> None:
    """The long run: every byte, under every policy and for every kind of model in turn."""
    rng = _rng(recording, "torture")
    lanes = lanes_of(recording)
    for at in range(len(recording.data)):
        lane = lanes[at % len(lanes)]
        run_cut(recording, lane, [at], rng.choice(FAULTS), repeat=rng.randrange(20, 61))
