"""Machines of one's own: renamed states, guards of the host, added states that wait or ask."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import Policy, load_policy
from midthought.statemachine import (
    Answered,
    Ask,
    Cancelled,
    InvalidTransition,
    Refused,
    Withdraw,
    _table,
    compile_table,
    register_guard,
)

TEXT = "One two three four five. "
_names = (f"mine_{n}" for n in itertools.count())


@pytest.fixture
def guard_name() -> str:
    """A guard name that is not taken: what is registered stays registered."""
    return next(_names)


def written(folder: Path, text: str) -> Policy:
    """A policy file of one's own over the base, loaded with all its checks."""
    path = folder / "own.toml"
    path.write_text('extends = ["base"]\n' + text, "utf-8")
    return load_policy(path)


# --- guards ---------------------------------------------------------------------------------------


def test_a_guard_of_the_host(tmp_path: Path, guard_name: str) -> None:
    """A registered guard may stand in a policy's row, and is asked with the facts of the turn."""
    asked: list[bool] = []

    def guard(turn: Any) -> bool:
        asked.append(turn.failed)
        return True

    register_guard(guard_name, guard)
    policy = written(
        tmp_path,
        f"""
        [[machine.transitions]]
        trigger = "committed"
        source = "committing"
        dest = "exhausted"
        when = ["{guard_name}"]
        """,
    )
    play = Play(policy)
    play.say(TEXT)
    play.cut()

    assert ([True], ["interrupted", "committing", "exhausted"]) == (asked, play.path)


def test_a_guard_turned_round(tmp_path: Path, guard_name: str) -> None:
    """`not_` before a name asks for a no, also of a guard that answers without a bool."""
    register_guard(guard_name, lambda turn: None)  # type: ignore[arg-type,return-value]
    policy = written(
        tmp_path,
        f"""
        [[machine.transitions]]
        trigger = "committed"
        source = "committing"
        dest = "exhausted"
        when = ["not_{guard_name}"]
        """,
    )
    play = Play(policy)
    play.say(TEXT)
    play.cut()

    assert "exhausted" == play.machine.state


def test_a_guard_that_raises(tmp_path: Path, guard_name: str) -> None:
    """A guard that raises is a defect of the host: what it raised comes out."""

    def guard(turn: Any) -> bool:
        raise ZeroDivisionError("in a guard")

    register_guard(guard_name, guard)
    policy = written(
        tmp_path,
        f"""
        [[machine.transitions]]
        trigger = "failed"
        source = "streaming"
        dest = "interrupted"
        when = ["{guard_name}"]
        """,
    )
    with pytest.raises(ZeroDivisionError, match="in a guard"):
        Play(policy).cut()


# --- names ----------------------------------------------------------------------------------------


def test_renamed_states(tmp_path: Path) -> None:
    """States may have any names: the engine knows them by their roles, outcomes stay."""
    policy = written(
        tmp_path,
        """
        [machine.rename]
        streaming = "reading"
        backoff = "pause"
        completed = "fine"
        aborted = "stopped"
        exhausted = "given up"
        """,
    )
    done, cancelled, failed = Play(policy), Play(policy), Play(policy)
    done.say(TEXT)
    done.cut()
    done.sleep()
    done.say("Six.")
    done.stop()
    cancelled.feed(Cancelled())
    failed.cut("auth")

    assert ["interrupted", "committing", "pause", "continuing", "reading", "fine"] == done.path
    assert ["completed", "aborted", "exhausted"] == [
        play.finished.outcome for play in (done, cancelled, failed)
    ]
    assert ["fine", "stopped", "given up"] == [
        play.machine.state for play in (done, cancelled, failed)
    ]


def test_a_trigger_in_a_renamed_state(tmp_path: Path) -> None:
    """Refusals speak of states by the policy's names."""
    policy = written(tmp_path, '[machine.rename]\nstreaming = "reading"\n')
    with pytest.raises(InvalidTransition, match="cannot handle 'waited' in state 'reading'"):
        compile_table(policy).fire(Play(policy).machine.turn, "waited")


# --- a state that waits ---------------------------------------------------------------------------

COOLING = """
[[machine.states]]
name = "cooling"
role = "wait"

[[machine.transitions]]
trigger = "committed"
source = "committing"
dest = "cooling"
when = ["not_no_progress", "not_wait_too_long", "not_turn_complete", "not_accepts_partial"]

[[machine.transitions]]
trigger = "waited"
source = "cooling"
dest = "backoff"
"""


def test_an_added_state_waits(tmp_path: Path) -> None:
    """Of two wait states in a row the first one waits; the wait of the plan is not doubled."""
    play = Play(written(tmp_path, COOLING))
    play.say(TEXT)
    play.cut()
    before = play.machine.state
    play.sleep()

    assert ("cooling", [1.0]) == (before, play.waits)
    assert ["interrupted", "committing", "cooling", "backoff", "continuing"] == play.path


@pytest.mark.parametrize(("event", "end"), [(Cancelled(), "aborted"), (None, "exhausted")])
def test_an_added_state_can_be_left(tmp_path: Path, event: Any, end: str) -> None:
    """Cancel and deadline end it like any other, without a row of the policy's own."""
    play = Play(written(tmp_path, COOLING + "[clocks]\ndeadline_s = 5.0\n"))
    play.say(TEXT)
    play.cut()
    play.feed(event) if event else play.wait(10)

    assert (end, 1) == (play.machine.state, len(play.sent))


# --- a state that asks ----------------------------------------------------------------------------

CONFIRM = """
[[machine.states]]
name = "confirm"
role = "ask"

[[machine.transitions]]
trigger = "committed"
source = "committing"
dest = "confirm"
when = ["not_no_progress", "not_wait_too_long", "not_turn_complete", "not_accepts_partial"]

[[machine.transitions]]
trigger = "answered"
source = "confirm"
dest = "backoff"
[[machine.transitions]]
trigger = "refused"
source = "confirm"
dest = "interrupted"
"""


def confirming(folder: Path, hooks: Any = ("confirm",)) -> Play:
    """A turn that asks the host before each recovery."""
    play = Play(written(folder, CONFIRM), hooks=hooks)
    play.say(TEXT)
    play.cut()
    return play


def test_an_added_state_asks(tmp_path: Path) -> None:
    """The hook of the state's name is asked; nothing is sent before it has answered."""
    play = confirming(tmp_path)

    assert ("confirm", 1) == (play.machine.state, len(play.sent))
    assert [Ask("confirm", 1, {"kind": "sse_transport"})] == play.of(Ask)
    play.feed(Answered(1, {}))
    play.sleep()
    assert (2, REQUEST) == (len(play.sent), play.machine.request)


def test_the_host_says_no(tmp_path: Path) -> None:
    """A refusal strikes the rule out, as any hook's does."""
    play = confirming(tmp_path)
    play.feed(Refused(1, "too dear"))

    assert ("exhausted", 1) == (play.machine.state, len(play.sent))
    assert ["too dear"] == [r["reason"] for r in play.records("llm_hook_refused")]


def test_the_host_has_no_such_hook(tmp_path: Path) -> None:
    """Where nobody can be asked, nothing waits for ever: it counts as refused."""
    play = confirming(tmp_path, hooks=())

    assert ([], "exhausted") == (play.of(Ask), play.machine.state)


def test_the_host_takes_too_long(tmp_path: Path) -> None:
    """hook_s binds here too."""
    play = confirming(tmp_path)
    play.sleep()

    assert (1060.0, [Withdraw(1)], "exhausted") == (
        play.now, play.of(Withdraw), play.machine.state,
    )  # fmt: skip


def test_a_cancel_while_asking(tmp_path: Path) -> None:
    """A cancel does not wait for the answer."""
    play = confirming(tmp_path)
    play.feed(Cancelled(), Answered(1, {}))

    assert ("aborted", [Withdraw(1)], 1) == (
        play.machine.state, play.of(Withdraw), len(play.sent),
    )  # fmt: skip


# --- machines that make no sense ------------------------------------------------------------------


def with_row(**row: Any) -> Policy:
    """The base machine with one row before all others."""
    machine = policy_of().machine.model_dump(mode="json")
    return policy_of(machine={"transitions": [row, *machine["transitions"]]})


@pytest.mark.parametrize("dest", ["backoff", "committing"])
def test_a_request_that_nobody_planned(dest: str) -> None:
    """A row that leads to the next request without a rule is told as a fault of the policy."""
    policy = with_row(trigger="assessed", source="interrupted", dest=dest, when=[])
    play = Play(policy)
    with pytest.raises(RuntimeError, match="was entered without a plan: check the policy"):
        play.cut("unknown", phase="response")


def test_a_question_that_nobody_planned() -> None:
    """So is a row that asks the host before anything was planned."""
    machine = policy_of().machine.model_dump(mode="json")
    states = [*machine["states"], {"name": "confirm", "role": "ask"}]
    row = {"trigger": "assessed", "source": "interrupted", "dest": "confirm", "when": []}
    policy = policy_of(machine={"states": states, "transitions": [row, *machine["transitions"]]})
    with pytest.raises(RuntimeError, match="'confirm' was entered without a plan"):
        Play(policy).cut()


# --- many policies --------------------------------------------------------------------------------


def test_tables_are_not_collected_for_ever() -> None:
    """A host that makes a policy per call does not grow: old tables are let go."""
    base = policy_of()
    for _ in range(300):
        compile_table(base.model_copy())

    assert len(_table._compiled) <= 256
    assert compile_table(base) is compile_table(base)
