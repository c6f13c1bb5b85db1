"""The simulator is the real machine: a seed gives its figures, and the client does the same."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import get_args

import pytest
from fleet import by_client, by_simulator
from pydantic import BaseModel

from midthought.policies import Policy, load_policy
from midthought.review import (
    FaultError,
    Faults,
    Script,
    World,
    load_faults,
    play_turn,
    shipped_faults,
    simulate,
)
from midthought.review._faults import Reply, Window
from midthought.review._world import End, Ending

DOCS = Path(__file__).parents[2] / "docs" / "simulate.md"
POLICIES = ("anthropic", "openai-chat", "llamacpp", "anthropic+strict")


def drawn(seed: int) -> Faults:
    """A fault model in which everything can happen, often."""
    rng = random.Random(seed)

    def window(kind: str) -> Window:
        return Window(
            kind=kind,  # type: ignore[arg-type]
            first_s=rng.uniform(0, 30),
            length_s=rng.uniform(1, 20),
            every_s=rng.choice([None, rng.uniform(20, 90)]),
            share=rng.uniform(0.3, 1),
            retry_after_s=rng.choice([None, 0.5, 7]),
            breaks_streams=rng.random() < 0.4,
        )

    kinds = ("overloaded", "rate_limited", "server_error", "connect")
    return Faults(
        name=f"drawn {seed}",
        turns_per_s=rng.uniform(0.2, 2),
        reply=Reply(
            tokens=rng.randint(1, 50),
            spread=rng.uniform(0, 1),
            longest=150,
            tokens_per_s=rng.choice([0.02, 2, 30]),
            first_token_s=rng.choice([0, 0.5, 200]),
        ),
        cut_per_token=rng.uniform(0, 0.05),
        error_per_token=rng.uniform(0, 0.02),
        stall_per_token=rng.uniform(0, 0.02),
        refuse_share=rng.uniform(0, 0.2),
        refuse_retry_after_s=rng.choice([None, 0.01, 3]),
        connect_share=rng.uniform(0, 0.1),
        windows=tuple(window(kind) for kind in rng.sample(kinds, rng.randint(0, 3))),
    )


def with_a_deadline(policy: Policy) -> Policy:
    """A deadline within reach, so that some turns end by it."""
    clocks = policy.clocks.model_copy(update={"deadline_s": 40.0})
    return policy.model_copy(update={"clocks": clocks})


# --- the simulator is the client ----------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("part", range(2))
def test_equal_to_the_client(name: str, part: int) -> None:
    """The client's core, fed with bytes, gives the same events, records and times.

    125 random scripts in each case, 1,000 in all: the simulator hands on many tokens at once, the
    client gets each one as bytes of the provider's dialect at its own time.
    """
    policy = load_policy(name).for_model("simulated")
    if part:
        policy = with_a_deadline(policy)
    differ = []
    for seed in range(25):
        faults = drawn(1000 * part + seed)
        for turn in range(5):
            if by_simulator(policy, faults, seed, turn) != by_client(policy, faults, seed, turn):
                differ.append((seed, turn))

    assert [] == differ


def test_the_scripts_are_worth_comparing() -> None:
    """Every way to end an attempt is among the random scripts, and every outcome of a turn."""
    policy = load_policy("anthropic").for_model("simulated")
    ends, outcomes = set(), set()
    for seed in range(25):
        faults = drawn(seed)
        for turn in range(5):
            ends.add(World(faults, seed, turn).attempt(0.0, 0).ending.kind)
            seen = by_simulator(policy, faults, seed, turn)
            outcomes.add(seen.records[-1][0])

    assert set(get_args(End)) == ends
    assert {"llm_turn_finished", "llm_turn_exhausted"} == outcomes


def test_a_healed_text_is_the_whole_text() -> None:
    """Whatever broke on the way, a turn that completed has the words of the unbroken reply."""
    policy = load_policy("openai-chat").for_model("simulated")
    for turn in range(40):
        world = World(drawn(3), 3, turn)
        seen = by_simulator(policy, drawn(3), 3, turn)
        if seen.records[-1][0] == "llm_turn_finished":
            assert world.text(0, world.tokens) == seen.text


# --- figures ------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_figures() -> None:
    """Twice with one seed: equal; with another seed: not."""
    policy, faults = load_policy("anthropic"), load_faults("rough-day")
    first = simulate(policy, faults, turns=60, seed=7)

    assert first == simulate(policy, faults, turns=60, seed=7)
    assert first.figures != simulate(policy, faults, turns=60, seed=8).figures


def test_more_turns_do_not_change_a_turn() -> None:
    """A turn is the same whatever others run: each has a source of its own."""
    policy, faults = load_policy("anthropic"), load_faults("rough-day")

    assert play_turn(policy, faults, 1, 5) == play_turn(policy, faults, 1, 5)
    assert simulate(policy, faults, turns=5, seed=1) != simulate(policy, faults, turns=6, seed=1)


def test_rivals_play_the_same_turns() -> None:
    """All players meet the same breaks: who gives up at once heals none of what broke first."""
    report = simulate(load_policy("anthropic"), load_faults("rough-day"), turns=300, seed=0)
    policy, restart, giving_up = report.figures

    assert ["policy", "restart", "give up"] == [f.player for f in report.figures]
    assert policy.turns == restart.turns == giving_up.turns == 300
    assert policy.broken == restart.broken == giving_up.broken > 30
    assert 0.0 == giving_up.healed_share < restart.healed_share <= policy.healed_share
    assert policy.wasted_tokens < restart.wasted_tokens


def test_nothing_breaks_nothing_is_added() -> None:
    """Without faults every turn is one request, no token is wasted and no second added."""
    calm = Faults(name="none")
    for figures in simulate(load_policy("anthropic"), calm, turns=20, seed=0).figures:
        assert (20, 0, 1.0, 0) == (
            figures.whole, figures.broken, figures.requests_per_turn, figures.wasted_tokens
        )  # fmt: skip
        assert figures.added_p99_s == pytest.approx(0)


def test_a_long_reply_is_no_stall() -> None:
    """A reply that takes longer than every clock of silence, without a pause, breaks nothing."""
    slow = Faults(reply=Reply(tokens=4000, spread=0, tokens_per_s=4))
    outcome = play_turn(load_policy("anthropic").for_model("m"), slow, 0, 0)

    assert (True, False, 1) == (outcome.whole, outcome.broken, outcome.requests)
    assert outcome.took_s == pytest.approx(1000.8)


def test_a_pause_longer_than_the_clock_is_a_stall() -> None:
    """Tokens further apart than the clocks allow break the turn, as they would in life."""
    dripping = Faults(reply=Reply(tokens=3, spread=0, tokens_per_s=0.001))
    outcome = play_turn(load_policy("anthropic").for_model("m"), dripping, 0, 0)

    assert (False, True) == (outcome.whole, outcome.broken)


def test_times_of_tokens() -> None:
    """Tokens that have arrived before a time, not at it."""
    script = Script(10, 14, 1.0, 3.0, Ending("whole"), 2.0)

    assert [1.0, 1.5, 2.0, 2.5, 3.0] == [script.time_of(t) for t in range(10, 15)]
    assert [10, 10, 11, 13, 14] == [script.arrived(s) for s in (0.5, 1.5, 1.6, 2.6, 99.0)]


# --- fault models -------------------------------------------------------------------------------


def test_shipped_models_load() -> None:
    """Each shipped model can be named."""
    assert ("calm-day", "rough-day") == shipped_faults()
    assert ["calm day", "rough day"] == [load_faults(name).name for name in shipped_faults()]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"cut_per_token = 2\n", "cut_per_token: "),
        (b"cut_per_tokn = 0.1\n", "cut_per_tokn: "),
        (b"[[windows]]\nkind = 'bad'\n", "windows.0.kind: "),
        (b"[reply]\ntokens = 0\n", "reply.tokens: "),
        (b"turns_per_s = inf\n", "turns_per_s: "),
        (b"[reply]\ntokens_per_s = nan\n", "reply.tokens_per_s: "),
        (b"no toml", "not TOML"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_bad_model_says_what_is_wrong(tmp_path: Path, text: bytes, said: str) -> None:
    """A fault model that cannot be used names the file and the key."""
    path = tmp_path / "mine.toml"
    path.write_bytes(text)
    with pytest.raises(FaultError) as caught:
        load_faults(path)

    assert "mine.toml" in str(caught.value)
    assert said in str(caught.value)


def keys_of(model: type[BaseModel], prefix: str = "") -> dict[str, str]:
    """Key -> default, as the documentation writes them."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        if name == "reply":
            found |= keys_of(Reply, "reply.")
        elif name == "windows":
            found |= keys_of(Window, "windows.")
        else:
            default = field.default
            shown = "none" if default is None else f"`{json.dumps(default)}`"
            found[prefix + name] = shown
    return found


def test_every_key_is_documented() -> None:
    """docs/simulate.md lists each key of a fault model with its default, and no other."""
    rows = re.findall(r"^\| `([\w.]+)` \| (\S+) \|", DOCS.read_text("utf-8"), re.MULTILINE)

    assert keys_of(Faults) == dict(rows)
    assert len(rows) == len(dict(rows))


def test_the_documented_model_loads(tmp_path: Path) -> None:
    """The example of docs/simulate.md is a fault model."""
    (example,) = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    path = tmp_path / "evening.toml"
    path.write_text(example, "utf-8")

    assert "evening" == load_faults(path).name


def test_an_unknown_model_names_the_known_ones() -> None:
    """A name that is not there: the names that are."""
    with pytest.raises(FaultError, match="calm-day, rough-day"):
        load_faults("stormy-day")
