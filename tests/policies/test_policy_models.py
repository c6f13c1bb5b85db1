"""Settings for some models: the first entry that fits is laid over the policy, once."""

import copy
import pickle
from pathlib import Path

import pytest

from midthought.policies import ModelOverride, Policy, PolicyError, load_policy, policy_digest

TEXT = """
extends = ["base"]
[[models]]
match = ["Claude-4-5*", "haiku?"]
limits.attempts = 4
continuation.strategies = ["prefill", "instruct"]
rules.change.cut.limit = 9
[[models]]
match = ["claude-*"]
limits.attempts = 5
"""


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A policy with two entries."""
    path = tmp_path / "mine.toml"
    path.write_text(TEXT, "utf-8")
    return load_policy(path)


@pytest.mark.parametrize(
    ("model", "attempts"),
    [
        ("claude-4-5-haiku", 4),
        ("CLAUDE-4-5", 4),
        ("haiku3", 4),
        ("haiku", 0),
        ("claude-5", 5),
        ("my-claude-5", 0),
        ("", 0),
    ],
)
def test_first_entry_that_fits(policy: Policy, model: str, attempts: int) -> None:
    """Patterns match whole names without case; the first entry wins, none leaves the policy."""
    expected = attempts or policy.limits.attempts

    assert expected == policy.for_model(model).limits.attempts
    assert () == policy.for_model(model).models


def test_entry_lies_over_the_policy(policy: Policy) -> None:
    """An entry merges like a file: what it does not say stays, and arrays can be edited."""
    one = policy.for_model("haiku3")
    changed = {rule.name: rule.limit for rule in one.rules}

    assert ("prefill", "instruct") == one.continuation.strategies
    assert policy.continuation.prefill == one.continuation.prefill
    assert 9 == changed.pop("cut")
    assert {rule.name: rule.limit for rule in policy.rules if rule.name != "cut"} == changed
    assert policy.machine == one.machine


def test_made_once(policy: Policy) -> None:
    """Asking again gives the same object, for any number of model names."""
    assert policy.for_model("claude-4-5-a") is policy.for_model("haiku1")
    assert policy.for_model("x") is policy.for_model("y")
    assert policy.for_model("x").for_model("claude-5") is policy.for_model("x")


def test_without_entries_it_is_itself() -> None:
    """A policy that says nothing of models is the policy for each of them."""
    base = load_policy("base")

    assert base is base.for_model("any")


def test_asking_leaves_no_trace(policy: Policy) -> None:
    """What was made for models is no part of a policy: not of its equality, copies or digest."""
    path_twin = pickle.loads(pickle.dumps(policy))
    digest = policy_digest(policy)
    policy.for_model("claude-5")

    assert path_twin == policy
    assert digest == policy_digest(policy)
    assert policy == copy.deepcopy(policy) == pickle.loads(pickle.dumps(policy))


def test_copies_forget(policy: Policy) -> None:
    """A changed copy answers by what it says, not by what its original said before."""
    policy.for_model("haiku3")
    entry = ModelOverride.model_validate({"match": ["haiku3"], "limits": {"attempts": 7}})
    changed = policy.model_copy(update={"models": (entry,)})

    assert (4, 7) == tuple(p.for_model("haiku3").limits.attempts for p in (policy, changed))


def test_policy_of_code_is_refused_when_asked() -> None:
    """An entry of a policy that no loader has seen is judged when it is used."""
    wrong = ModelOverride.model_validate({"match": ["a"], "limits": {"attemps": 7}, "name": "b"})
    policy = load_policy("base").model_copy(update={"models": (wrong,)})

    with pytest.raises(PolicyError) as refused:
        policy.for_model("a")
    assert ["name", "limits.attemps"] == [fault.path for fault in refused.value.faults]
    assert () == policy.for_model("b").models
