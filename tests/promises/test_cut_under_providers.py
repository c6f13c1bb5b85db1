"""Every recorded Chat reply cut and gone on with under its own provider's policy.

As ``test_cut_everywhere``, but the requests are judged by that provider's own fake: a prefill has
the mark that it wants, at the address where it is taken, and none goes to a model that has none.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from continuing import Variant
from cutting import FAULTS, borders
from provider_lanes import policy_of, provider_lane, run_under_provider
from recordings import Recording, each_recording, recordings
from strict_chat_providers import SERVERS

RECORDINGS = [r for r in recordings("openai-chat") if r.reply.choices == 1]
MODELS_SAY: tuple[Variant, ...] = ("no_leading_space", "repeats", "restarts", "rethinks")
#: Policies with no recording, or with few that prefill: they go on with other servers' replies.
OTHERS = (
    ("mistral", "mistral-large-latest"),
    ("deepseek", "deepseek-chat"),
    ("moonshot", "kimi-k3"),
    ("qwen", "qwen-plus"),
    ("groq", "llama-3.3-70b-versatile"),
    ("openrouter", "anthropic/claude-haiku-4.5"),
    ("openrouter", "moonshotai/kimi-k2"),
    ("vllm", "llama-3.1-8b"),
    ("sglang", "llama-3.1-8b"),
    ("tgi", "tgi"),
    ("lmstudio", "any"),
    ("fireworks", "any"),
    ("together", "any"),
)
GREEDY = (("temperature", 0),)


def _rng(recording: Recording, what: str) -> random.Random:
    """The same numbers in every run."""
    return random.Random(f"{what} {recording.name}")


@each_recording(RECORDINGS)
def test_every_event_border(recording: Recording) -> None:
    """Cut between any two events, the reply is healed and every promise holds."""
    rng, lane = _rng(recording, "borders"), provider_lane(recording)
    for at in borders(recording):
        run_under_provider(recording, lane, [at], rng.choice(FAULTS))


@each_recording(RECORDINGS)
def test_cut_again(recording: Recording) -> None:
    """Cut at any byte, and again in the continuation, whatever an instructed model says there."""
    rng = _rng(recording, "again")
    for variant in ("exact", *MODELS_SAY):
        lane = provider_lane(recording, variant=variant)
        for cuts in (1, 2, 3):
            places = [rng.random() for _ in range(cuts)]
            repeat = rng.randrange(20, 61)
            run_under_provider(recording, lane, places, rng.choice(FAULTS), repeat=repeat)


@each_recording(RECORDINGS)
def test_an_error_frame(recording: Recording) -> None:
    """An error frame between two events is a cut, though a finish reason came before it."""
    rng, lane, places = _rng(recording, "error"), provider_lane(recording), borders(recording)
    for at in [*rng.sample(places, min(len(places), 6)), places[-1]]:
        run_under_provider(recording, lane, [at], "overloaded")


@each_recording(RECORDINGS)
def test_under_other_providers(recording: Recording) -> None:
    """Replies of one server, had another one made them: every way to mark a prefill is tried."""
    rng = _rng(recording, "others")
    for policy, model in OTHERS:
        for extra in ((), GREEDY):
            lane = provider_lane(recording, policy, model=model, extra=extra)
            run_under_provider(recording, lane, [rng.random()], rng.choice(FAULTS))


TEXTS = [r for r in RECORDINGS if {p.kind for p in r.reply.parts} == {"text"}][::4]


@pytest.mark.parametrize(("policy", "model"), OTHERS)
def test_how_it_goes_on(policy: str, model: str) -> None:
    """In the middle of plain text a server that prefills is prefilled, and no other."""
    if not TEXTS:
        pytest.skip("the recorded streams are not beside the project")
    kinds: Counter[str] = Counter()
    for recording in TEXTS:
        lane = provider_lane(recording, policy, model=model)
        run = run_under_provider(recording, lane, [0.6])
        kinds.update(played.kind for played in run.upstream.played[1:])

    wanted = "prefill" if SERVERS[policy].continues(model) else "instruct"
    assert {"original", wanted} >= {*kinds}
    assert kinds[wanted] > kinds["original"]


@pytest.mark.torture
@each_recording(RECORDINGS)
def test_bytes_under_its_provider(recording: Recording) -> None:
    """The long run: bytes through the whole stream, with each kind of model in turn."""
    rng = _rng(recording, "torture")
    lanes = [provider_lane(recording, variant=variant) for variant in ("exact", *MODELS_SAY)]
    for number, at in enumerate(range(0, len(recording.data), 7)):
        run_under_provider(recording, lanes[number % len(lanes)], [at], rng.choice(FAULTS))


def test_every_recording_has_a_policy() -> None:
    """No provider of the corpus is read under somebody else's words by oversight."""
    for recording in RECORDINGS:
        assert policy_of(recording) in SERVERS
