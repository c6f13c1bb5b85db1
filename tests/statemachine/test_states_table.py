"""The table of the machine: every state, every trigger, every answer of the guards.

What must happen stands here by hand, from the design, and not in terms of the policy: a row that is
lost or leads elsewhere cannot hide. The generated page is the second, golden copy.
"""

import importlib.util
import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from midthought.policies import GUARDS, TRIGGERS, Policy, load_policy
from midthought.statemachine import InvalidTransition, compile_table, register_guard
from midthought.statemachine import _guards as guards_module

ROOT = Path(__file__).parents[2]


class Turn(NamedTuple):
    """Facts of a turn, as far as guards ask for them."""

    state: str
    failed: bool
    whole_tool_calls: int
    rule_taken: bool
    accepts_partial: bool
    idle_continuations: int
    no_progress_limit: int
    wait_fits: bool


#: What each guard means, once more and independent of the engine.
MEANING: dict[str, Callable[[Turn], bool]] = {
    "turn_complete": lambda t: t.failed and t.whole_tool_calls >= 1,
    "recoverable": lambda t: t.rule_taken,
    "needs_recovery": lambda t: t.rule_taken,
    "stopped_by_model": lambda t: not t.failed,
    "accepts_partial": lambda t: t.accepts_partial,
    "no_progress": lambda t: 0 < t.no_progress_limit <= t.idle_continuations,
    "wait_too_long": lambda t: not t.wait_fits,
    "": lambda t: True,
}
STAY = "(stays)"
#: state -> trigger -> (guard, where to), tried in order.
TABLE: dict[str, dict[str, list[tuple[str, str]]]] = {
    "streaming": {
        "opened": [("", STAY)],
        "finished": [("needs_recovery", "interrupted"), ("", "completed")],
        "failed": [("", "interrupted")],
    },
    "interrupted": {
        "assessed": [
            ("turn_complete", "committing"),
            ("recoverable", "committing"),
            ("stopped_by_model", "completed"),
            ("", "exhausted"),
        ],
    },
    "committing": {
        "answered": [("", STAY)],
        "refused": [("", "interrupted")],
        "committed": [
            ("turn_complete", "completed"),
            ("accepts_partial", "completed"),
            ("no_progress", "exhausted"),
            ("wait_too_long", "exhausted"),
            ("", "backoff"),
        ],
    },
    "backoff": {"waited": [("", "continuing")]},
    "continuing": {"opened": [("", "streaming")], "failed": [("", "interrupted")]},
    "completed": {},
    "exhausted": {},
    "aborted": {},
}
for _cells in list(TABLE.values())[:5]:
    _cells["cancelled"] = _cells["yielded"] = [("", "aborted")]
    _cells["deadline_passed"] = [("", "exhausted")]

#: Each combination of answers that the guards of the table can give.
SITUATIONS = [
    Turn("", failed, calls, taken, accepts, *progress, fits)
    for failed, calls, taken, accepts, progress, fits in itertools.product(
        (False, True), (0, 1, 2), (False, True), (False, True),
        [(0, 0), (3, 0), (1, 2), (2, 2), (3, 2)], (False, True),
    )
]  # fmt: skip


def after(policy: Policy, state: str, trigger: str, turn: Turn) -> str:
    """The state in which the compiled table leaves this turn."""
    model: Any = SimpleNamespace(**turn._replace(state=state)._asdict())
    compile_table(policy).fire(model, trigger)
    return str(model.state)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("state", TABLE)
def test_every_state_and_trigger(state: str, trigger: str) -> None:
    """Each trigger in each state, under each answer of the guards, goes where the design says."""
    base, cell = load_policy("base"), TABLE[state].get(trigger)
    for turn in SITUATIONS:
        if cell is None:
            with pytest.raises(InvalidTransition):
                after(base, state, trigger, turn)
            continue
        wanted = next(to for guard, to in cell if MEANING[guard](turn))

        assert after(base, state, trigger, turn) == (state if wanted == STAY else wanted)


def test_every_guard_matters() -> None:
    """The situations tell all guards apart: each says yes in some and no in others."""
    for name in GUARDS:
        answers = {bool(MEANING[name](turn)) for turn in SITUATIONS}

        assert answers == {False, True}


@pytest.mark.parametrize("name", ["anthropic", "openai-chat", "llamacpp", "anthropic+strict"])
def test_shipped_policies_use_this_table(name: str) -> None:
    """What ships runs on this very table: no provider changes a row or a state."""
    assert load_policy(name).machine == load_policy("base").machine


@pytest.mark.parametrize(
    ("state", "accepted"),
    [
        ("streaming", "opened, finished, failed, cancelled, yielded, deadline_passed"),
        ("interrupted", "assessed, cancelled, yielded, deadline_passed"),
        ("committing", "answered, refused, committed, cancelled, yielded, deadline_passed"),
        ("continuing", "opened, failed, cancelled, yielded, deadline_passed"),
        ("aborted", "nothing, it is final"),
    ],
)
def test_refusal_says_what_is_accepted(state: str, accepted: str) -> None:
    """A trigger without a row is refused with state, trigger, and what would have been taken."""
    with pytest.raises(InvalidTransition) as raised:
        after(load_policy("base"), state, "waited", SITUATIONS[0])

    assert f"cannot handle 'waited' in state {state!r} (accepted: {accepted})" == str(raised.value)


def test_a_refused_trigger_changes_nothing() -> None:
    """After a refusal the turn is where it was, and goes on."""
    turn: Any = SimpleNamespace(**SITUATIONS[0]._replace(state="backoff")._asdict())
    table = compile_table(load_policy("base"))
    with pytest.raises(InvalidTransition):
        table.fire(turn, "opened")
    table.fire(turn, "waited")

    assert turn.state == "continuing"


def test_an_unknown_trigger_is_refused() -> None:
    """A word that is no trigger at all gets the same answer, not an error from inside a library."""
    with pytest.raises(InvalidTransition, match="cannot handle 'opend' in state 'streaming'"):
        after(load_policy("base"), "streaming", "opend", SITUATIONS[0])


def test_a_policy_is_compiled_once() -> None:
    """One compiled table serves every turn of a policy; equal policies may share it too."""
    base = load_policy("base")

    assert compile_table(base) is compile_table(base)


# --- guards ---------------------------------------------------------------------------------------


def test_a_guard_without_a_function_stops_the_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard name that policies may use and nothing answers is found at import, not in a turn."""
    monkeypatch.setattr("midthought.policies.GUARDS", (*GUARDS, "is_monday"))
    spec = importlib.util.spec_from_file_location("guards_again", guards_module.__file__)
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    with pytest.raises(RuntimeError) as raised:
        spec.loader.exec_module(again)

    assert "guards without a function or a name: ['is_monday']" == str(raised.value)


@pytest.mark.parametrize("name", ["recoverable", "not_mine", "two words", ""])
def test_a_guard_name_that_cannot_be_used(name: str) -> None:
    """A host's guard may neither take a known name nor one that no policy could write."""
    with pytest.raises(ValueError, match="cannot be used: taken, no identifier, or begins"):
        register_guard(name, lambda turn: True)


# --- the page -------------------------------------------------------------------------------------


def states_page() -> Any:
    """The generator of the page, which is no part of the package."""
    script = ROOT / "docs" / "_generate_states.py"
    if not script.exists():
        pytest.skip("the docs are not here: this is not a checkout")
    spec = importlib.util.spec_from_file_location("states_page", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_the_golden_copy() -> None:
    """docs/states.md says what policy and code say; each change of the table shows in its diff."""
    page = states_page()

    assert page.states_page() == page.PAGE.read_text("utf-8")


def test_the_page_names_everything() -> None:
    """Every state, trigger, guard and its question stand on the page."""
    text = states_page().states_page()
    words = [*TABLE, *TRIGGERS, *GUARDS, *(guards_module.GUARDS[name].__doc__ for name in GUARDS)]

    assert [word for word in words if word is None or word not in text] == []


@pytest.mark.parametrize(("change", "status"), [("", 0), ("x", 1)])
def test_the_check_of_the_page(
    change: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--check` is silent about a current page, and fails for one that differs by one character."""
    page = states_page()
    copy = tmp_path / "states.md"
    copy.write_text(page.states_page() + change, "utf-8")
    monkeypatch.setattr(page, "PAGE", copy)

    assert status == page.main(["--check"])


def test_the_page_can_be_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments the page is written where it was missing."""
    page = states_page()
    monkeypatch.setattr(page, "PAGE", tmp_path / "states.md")
    status = page.main([])

    assert (0, 0) == (status, page.main(["--check"]))


def test_the_page_takes_no_other_argument(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong argument is told with a hint, and nothing is written."""
    status = states_page().main(["--chek"])

    assert (2, True) == (status, "hint: --check" in capsys.readouterr().err)
