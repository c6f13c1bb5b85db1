"""Whether a machine can be run and keeps the promises: states, cells, ends, ways through.

What a whole proof takes (every path, worst cases) is not asked here, only what makes a table
unusable or breaks a promise by itself. Imports the schema and the vocabulary, no world.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ._errors import listed, nearest
from ._lines import Path
from ._machine import ALWAYS
from ._problem import Problem, unknown
from ._recovery import MachineTable, Transition
from ._schema import Policy
from ._vocabulary import TRIGGERS, known_guards

__all__ = ["check_machine"]

_OUTCOMES = ("completed", "exhausted", "aborted")

#: Roles that a machine has exactly one state for; ``wait`` needs one or more, ``ask`` none.
_SINGLE = ("stream", "assess", "commit", "resume")

#: What happens to a state of each role, whatever else a policy lets happen.
_CELLS = {
    "stream": ("opened", "finished", "failed"),
    "assess": ("assessed",),
    "commit": ("answered", "refused", "committed"),
    "wait": ("waited",),
    "resume": ("opened", "failed"),
    "ask": ("answered", "refused"),
}

#: Questions that the promises need to be asked: role, trigger, guard, and why.
_QUESTIONS = (
    ("stream", "finished", "needs_recovery", "rules for a stop would never be tried"),
    ("assess", "assessed", "turn_complete", "whole tool calls would be sent again"),
    ("assess", "assessed", "recoverable", "no rule would ever be tried"),
    ("assess", "assessed", "stopped_by_model", "a stop of the model would count as a failure"),
    ("commit", "committed", "turn_complete", "whole tool calls would be sent again"),
    ("commit", "committed", "accepts_partial", "the action finish could not end the turn"),
    ("commit", "committed", "no_progress", "a reply that stands still would go on being paid for"),
    ("commit", "committed", "wait_too_long", "a wait of hours would be slept"),
)


class _Row(NamedTuple):
    place: int
    row: Transition


class _View:
    """A machine by names and cells."""

    def __init__(self, machine: MachineTable) -> None:
        self.machine = machine
        self.roles: dict[str, str] = {state.name: state.role for state in machine.states}
        self.outcomes = {
            state.name: state.outcome or state.name
            for state in machine.states
            if state.role == "final"
        }
        self.cells: dict[tuple[str, str], list[_Row]] = defaultdict(list)
        for place, row in enumerate(machine.transitions):
            self.cells[row.source, row.trigger].append(_Row(place, row))


def check_machine(policy: Policy) -> Iterator[Problem]:
    """All that is wrong with the machine of a policy."""
    if not policy.machine.states:
        hint = 'add extends = ["base"], or write every state and row'
        yield Problem(("machine", "states"), "no states", "a machine", hint)
        return
    view = _View(policy.machine)
    named = [problem for check in _NAMES for problem in check(view)]
    yield from named
    if not named:  # the table can be walked
        for check in _WAYS:
            yield from check(view)


def _states(view: _View) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, state in enumerate(view.machine.states):
        path = ("machine", "states", place)
        if state.name in seen or state.name == "=":
            hint = "give it another name"
            yield Problem((*path, "name"), f"{state.name!r} again", "a name of its own", hint)
        seen.add(state.name)
        if state.role != "final" and state.outcome is not None:
            hint = 'remove outcome, or set role = "final"'
            yield Problem((*path, "outcome"), "an outcome", "one for final states only", hint)
        if state.role == "final" and view.outcomes[state.name] not in _OUTCOMES:
            hint = f"add outcome = one of {listed(_OUTCOMES)}"
            found = f"a final state {state.name!r} without outcome"
            yield Problem(path, found, "the outcome of the turn", hint)
    if view.machine.initial not in view.roles:
        yield unknown(("machine", "initial"), "state", view.machine.initial, view.roles)


def _roles(view: _View) -> Iterator[Problem]:
    path = ("machine", "states")
    for outcome in _OUTCOMES:
        count = list(view.outcomes.values()).count(outcome)
        if count != 1:
            found, hint = f"{count} final states for {outcome!r}", "keep exactly one"
            yield Problem(path, found, "one final state for each outcome", hint)
    for role in (*_SINGLE, "wait"):
        count = list(view.roles.values()).count(role)
        if count == 0 or (count > 1 and role in _SINGLE):
            expected = "at least one" if role == "wait" else "exactly one"
            hint = "add a state of this role" if count == 0 else "keep one of them"
            yield Problem(path, f"{count} states of role {role!r}", expected, hint)
    if view.roles.get(view.machine.initial, "stream") != "stream":
        hint = "let a turn begin in the state of role stream"
        found = f"a beginning in {view.machine.initial!r}"
        yield Problem(("machine", "initial"), found, "the state of role stream", hint)


def _rows(view: _View) -> Iterator[Problem]:
    guards = known_guards()
    for place, row in enumerate(view.machine.transitions):
        path = ("machine", "transitions", place)
        if row.trigger not in TRIGGERS:
            yield unknown((*path, "trigger"), "trigger", row.trigger, TRIGGERS)
        if row.source not in view.roles:
            yield unknown((*path, "source"), "state", row.source, view.roles)
        elif row.source in view.outcomes:
            hint = "remove the row: what comes after the end is dropped"
            expected = "a state that is not final"
            yield Problem((*path, "source"), f"a way out of {row.source!r}", expected, hint)
        if row.dest != "=" and row.dest not in view.roles:
            yield unknown((*path, "dest"), "state", row.dest, (*view.roles, "="))
        for at, guard in enumerate(row.when):
            if guard.removeprefix("not_") not in guards and guard not in guards:
                yield _unknown_guard((*path, "when", at), guard, guards)


def _unknown_guard(path: tuple[str | int, ...], guard: str, guards: tuple[str, ...]) -> Problem:
    problem = unknown(path, "guard", guard, guards)
    if nearest(guard.removeprefix("not_"), guards) is None:
        hint = "register a guard of your own by name before the policy is loaded"
        problem = problem._replace(hint=hint)
    return problem


def _cells(view: _View) -> Iterator[Problem]:
    """In each cell one row must always fit, and none may stand behind it."""
    for (source, trigger), rows in view.cells.items():
        cell = f"{trigger!r} in {source!r}"
        for at, (place, row) in enumerate(rows):
            if any(set(row.when) <= set(later.row.when) for later in rows[at + 1 :]):
                found = f"a row that keeps a later one from being reached: {cell}"
                hint = "move it behind that one, add guards, or replace = true to drop the parent's"
                path: Path = ("machine", "transitions", place)
                yield Problem(path, found, "guards that leave later rows a chance", hint)
                break
        if rows[-1].row.when and all(row.when for _, row in rows):
            found, hint = f"a last row with guards: {cell}", "add a row without when after it"
            path = ("machine", "transitions", rows[-1].place, "when")
            yield Problem(path, found, "a last row without guards", hint)


def _required(view: _View) -> Iterator[Problem]:
    """Cells that every state needs, and cells that its role needs."""
    for place, state in enumerate(view.machine.states):
        if state.role == "final":
            continue
        for trigger in (*_CELLS[state.role], *ALWAYS):
            if not view.cells.get((state.name, trigger)):
                found = f"no row for {trigger!r} in {state.name!r}"
                hint = f'add one: trigger = "{trigger}", source = "{state.name}", dest = …'
                expected = f"a row for {listed((*_CELLS[state.role], *ALWAYS))}"
                yield Problem(("machine", "states", place), found, expected, hint)


def _ends(view: _View) -> Iterator[Problem]:
    """Cancel, yield and deadline win in one step, whatever a policy adds."""
    for (_, trigger), rows in view.cells.items():
        if trigger not in ALWAYS:
            continue
        for place, row in rows:
            if view.outcomes.get(row.dest) != ALWAYS[trigger]:
                found = f"{trigger!r} leads to {row.dest!r}"
                expected = f"the final state for {ALWAYS[trigger]!r}"
                hint = "cancel, yield and the deadline end the turn: change dest"
                yield Problem(("machine", "transitions", place, "dest"), found, expected, hint)


def _questions(view: _View) -> Iterator[Problem]:
    """Guards that the promises need are still asked where they belong."""
    for (source, trigger), rows in view.cells.items():
        for role, when, guard, why in _QUESTIONS:
            if (view.roles.get(source), trigger) != (role, when):
                continue
            if not any(guard in row.when for _, row in rows):
                found = f"{trigger!r} in {source!r} without the guard {guard!r}"
                hint = f"add a row with it: without it {why}"
                path = ("machine", "transitions", rows[0].place)
                yield Problem(path, found, f"a row with when = [{guard!r}]", hint)


def _reachable(view: _View) -> Iterator[Problem]:
    reached, open_ends = set(), [view.machine.initial]
    while open_ends:
        state = open_ends.pop()
        if state not in reached:
            reached.add(state)
            rows = (row for row in view.machine.transitions if row.source == state)
            open_ends += [row.dest for row in rows if row.dest != "="]
    for place, known in enumerate(view.machine.states):
        if known.name not in reached:
            found = f"a state that is never reached: {known.name!r}"
            hint = f'add a row with dest = "{known.name}", or remove the state'
            yield Problem(("machine", "states", place), found, "a way to it", hint)


def _circles(view: _View) -> Iterator[Problem]:
    """Between two requests a turn may wait and ask, but never in a circle."""
    idle = {name for name, role in view.roles.items() if role in ("wait", "ask")}
    moves = [r for r in view.machine.transitions if r.trigger in ("waited", "answered", "refused")]
    for place, row in enumerate(view.machine.transitions):
        if row.source not in idle or row not in moves:
            continue
        reached, ends = set(), [row.source if row.dest == "=" else row.dest]
        while ends:
            state = ends.pop()
            if state in idle and state not in reached:
                reached.add(state)
                rows = (r for r in moves if r.source == state)
                ends += [r.source if r.dest == "=" else r.dest for r in rows]
        if row.source in reached:
            found = f"a circle of states that only wait or ask, through {row.source!r}"
            hint = "let it lead to the state of role resume, or to the end"
            path = ("machine", "transitions", place, "dest")
            yield Problem(path, found, "a way that goes on", hint)


def _cuts(view: _View) -> Iterator[Problem]:
    """A failure that nothing was committed for is never a success."""
    for place, row in enumerate(view.machine.transitions):
        if row.trigger == "failed" and view.outcomes.get(row.dest) == "completed":
            found = f"'failed' leads to {row.dest!r}"
            hint = "let it lead to the state of role assess"
            path = ("machine", "transitions", place, "dest")
            yield Problem(path, found, "a state in which the failure is assessed", hint)


_Ask = Callable[[_View], Iterator[Problem]]
_NAMES: tuple[_Ask, ...] = (_states, _roles, _rows)
_WAYS: tuple[_Ask, ...] = (_cells, _required, _ends, _questions, _circles, _cuts, _reachable)
