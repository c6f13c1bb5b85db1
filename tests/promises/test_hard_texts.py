"""Texts that are hard to cut and to join, cut between all events and again; no corpus needed."""

from __future__ import annotations

import random

import pytest
from cutting import FAULTS, borders, cut_once, lanes_of, run_cut
from made import HARD, REPEATING, made
from recordings import Recording

HARD_ONES = made(HARD)
REPEATING_ONES = made(REPEATING)
#: Where the provider goes on in the same text, nothing may be taken for a repeat.
EXACT = ("prefill", "prefill-greedy", "prefill-word", "llamacpp", "llamacpp-greedy")


@pytest.mark.parametrize("recording", HARD_ONES, ids=str)
def test_hard_text(recording: Recording) -> None:
    """Scripts without spaces, joined emoji, long words, odd white space: in every lane."""
    rng = random.Random(recording.name)
    lanes = lanes_of(recording)
    for number, at in enumerate(borders(recording)):
        for step in (0, 5, 10):
            lane = lanes[(number + step) % len(lanes)]
            run_cut(recording, lane, [at], rng.choice(FAULTS), repeat=rng.randrange(20, 61))
    for lane in lanes:
        run_cut(recording, lane, [rng.random(), rng.random()], rng.choice(FAULTS))


@pytest.mark.parametrize("recording", REPEATING_ONES, ids=str)
def test_repeating_text(recording: Recording) -> None:
    """Rows and verses that repeat are not repeats: where the model goes on exactly, so do we."""
    rng = random.Random(recording.name)
    for lane in lanes_of(recording, *EXACT):
        for at in borders(recording):
            run_cut(recording, lane, [at], rng.choice(FAULTS))
        for _ in range(5):
            run_cut(recording, lane, [rng.random(), rng.random()], rng.choice(FAULTS))


@pytest.mark.parametrize("recording", REPEATING_ONES, ids=str)
def test_repeating_text_instructed(recording: Recording) -> None:
    """Nobody can tell a repeat from the next row: then the join is not called proved.

    Either the text is as it was said, or the record of the seam says that it is uncertain.
    """
    for lane in lanes_of(recording, "instruct", "chat"):
        for at in borders(recording):
            run = cut_once(recording, lane, at, "fin")
            qualities = [r["quality"] for r in run.ran.records_of("llm_seam_joined")]
            assert run.ran.view.text == recording.reply.text or "uncertain" in qualities, at
