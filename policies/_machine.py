"""The machine of one file laid over its parent's: states by name, rows by cell.

Unlike other arrays a file's states and rows never replace the parent's as a whole: what the
promises need would be lost. A cell is a (source, trigger). Imports no world, nothing of the schema.
"""

from __future__ import annotations

from typing import Any

from ._errors import Fault, listed, nearest
from ._marks import Mark, fault_at, mark, pick, shown

__all__ = ["ALWAYS", "merge_machine"]

#: Where these triggers lead from every state that is not final: the outcome of the turn.
ALWAYS = {"cancelled": "aborted", "yielded": "aborted", "deadline_passed": "exhausted"}

_BY_CELL = "rows in [[machine.transitions]]; they are merged by source and trigger"
_BY_NAME = "tables in [[machine.states]]; they are merged by name"


def merge_machine(below: Mark | None, over: Mark, faults: list[Fault]) -> Mark:
    """Lay a file's ``[machine]`` over its parent's, or clean it where it has none."""
    if not isinstance(over.value, dict):
        return over
    parent = dict(below.value) if below is not None and isinstance(below.value, dict) else {}
    own = dict(over.value)
    renames = own.pop("rename", None)
    if renames is not None:
        parent = _renamed(parent, renames, faults)
    old_states = _rows(parent.get("states"), faults, _BY_NAME)
    states = _merge_states(old_states, _rows(own.pop("states", None), faults, _BY_NAME))
    added = _rows(own.pop("transitions", None), faults, _BY_CELL)
    rows = _merge_rows(_rows(parent.get("transitions"), faults, _BY_CELL), added)
    if old_states:
        rows += _generated(states[len(old_states) :], states, rows)
    merged = {**parent, **own}
    if states:
        merged["states"] = Mark(states, over.layer, (*over.path, "states"))
    if rows:
        merged["transitions"] = Mark(rows, over.layer, (*over.path, "transitions"))
    return Mark(merged, over.layer, over.path)


def _rows(array: Mark | None, faults: list[Fault], expected: str) -> list[Mark]:
    if array is None:
        return []
    if isinstance(array.value, list):
        return array.value
    hint = "write one table with two brackets for each"
    faults.append(fault_at(array, (), shown(array), expected, hint))
    return []


def _text(row: Mark, key: str) -> str | None:
    inner = pick(row, key)
    return inner.value if inner is not None and isinstance(inner.value, str) else None


def _put(row: Mark, **values: Any) -> Mark:
    """The row with some values set, each of them standing where the row stands."""
    table = dict(row.value)
    for key, value in values.items():
        table[key] = mark(value, row.layer, (*row.path, key))
    return Mark(table, row.layer, row.path)


def _renamed(parent: dict[str, Mark], renames: Mark, faults: list[Fault]) -> dict[str, Mark]:
    """The parent's machine with some states called otherwise; outcomes stay as they were."""
    if not isinstance(renames.value, dict):
        hint = 'write it as [machine.rename] with lines like backoff = "waiting"'
        faults.append(fault_at(renames, (), shown(renames), "a table of names", hint))
        return parent
    states = _rows(parent.get("states"), [], _BY_NAME)
    names = {str(_text(state, "name")) for state in states}
    for old in sorted(renames.value.keys() - names):
        close = nearest(old, names)
        hint = f"did you mean {close!r}?" if close else "remove the line"
        found = f"unknown state {old!r}"
        faults.append(fault_at(renames, (old,), found, listed(sorted(names)), hint))
    for inner in renames.value.values():
        if not _is_text(inner):
            faults.append(fault_at(inner, (), shown(inner), "a state's name", "write a string"))
    new = {old: inner.value for old, inner in renames.value.items() if _is_text(inner)}
    renamed = dict(parent)
    if "initial" in parent and parent["initial"].value in new:
        renamed["initial"] = mark(new[parent["initial"].value], renames.layer, renames.path)
    if states:
        there = parent["states"]
        renamed["states"] = Mark(
            [_renamed_state(state, new) for state in states], there.layer, there.path
        )
    if rows := _rows(parent.get("transitions"), [], _BY_CELL):
        there = parent["transitions"]
        renamed["transitions"] = Mark(
            [_renamed_row(row, new) for row in rows], there.layer, there.path
        )
    return renamed


def _is_text(inner: Mark) -> bool:
    return isinstance(inner.value, str)


def _renamed_state(state: Mark, new: dict[str, str]) -> Mark:
    old = _text(state, "name")
    if old not in new:
        return state
    if _text(state, "role") == "final" and _text(state, "outcome") is None:
        state = _put(state, outcome=old)
    return _put(state, name=new[old])


def _renamed_row(row: Mark, new: dict[str, str]) -> Mark:
    ends = {end: new[old] for end in ("source", "dest") if (old := _text(row, end)) in new}
    return _put(row, **ends) if ends else row


def _merge_states(below: list[Mark], added: list[Mark]) -> list[Mark]:
    """States of a name the parent has change that state; others are added after them."""
    states = list(below)
    places = {_text(state, "name"): place for place, state in enumerate(below)}
    for state in added:
        place = places.get(_text(state, "name"))
        if place is None or not isinstance(state.value, dict):
            states.append(state)
        else:
            states[place] = Mark({**states[place].value, **state.value}, state.layer, state.path)
    return states


def _cell(row: Mark) -> tuple[str | None, str | None]:
    return _text(row, "source"), _text(row, "trigger")


def _merge_rows(below: list[Mark], added: list[Mark]) -> list[Mark]:
    """Added rows stand before the parent's of their cell, or replace them; new cells come last.

    A row of the parent that asks the guards of an added row, or more, falls away.
    """
    if not below:
        return [_without_order(row) for row in added]
    rows = list(below)
    replaced = {_cell(row) for row in added if _order(row) is True}
    own = [_without_order(row) for row in added]
    for cell in dict.fromkeys(_cell(row) for row in own):
        mine = [row for row in own if _cell(row) == cell]
        place = next((at for at, row in enumerate(rows) if _cell(row) == cell), len(rows))
        rows = [
            row
            for row in rows
            if _cell(row) != cell or not (cell in replaced or _is_taken(row, mine))
        ]
        rows[place:place] = mine
    return rows


def _guards(row: Mark) -> frozenset[str]:
    when = pick(row, "when")
    guards = when.value if when is not None and isinstance(when.value, list) else []
    return frozenset(str(guard.value) for guard in guards)


def _is_taken(row: Mark, before: list[Mark]) -> bool:
    """Whether one of the rows before it asks no more, so that it would never be reached.

    A row without guards takes nothing silently: that could be a forgotten ``when``.
    """
    return any(asked and asked <= _guards(row) for asked in map(_guards, before))


def _order(row: Mark) -> Any:
    inner = pick(row, "replace")
    return inner.value if inner is not None else None


def _without_order(row: Mark) -> Mark:
    """The row without a ``replace`` that has been carried out; a wrong one stays, to be refused."""
    if not isinstance(_order(row), bool):
        return row
    table = {key: inner for key, inner in row.value.items() if key != "replace"}
    return Mark(table, row.layer, row.path)


def _generated(added: list[Mark], states: list[Mark], rows: list[Mark]) -> list[Mark]:
    """Cancel, yield and deadline for each added state that does not say them itself."""
    ends = {}
    for state in states:
        if _text(state, "role") == "final":
            ends[_text(state, "outcome") or _text(state, "name")] = _text(state, "name")
    cells = {_cell(row) for row in rows}
    return [
        _put(Mark({}, state.layer, state.path), trigger=trigger, source=name, dest=ends[outcome])
        for state in added
        if isinstance(name := _text(state, "name"), str) and _text(state, "role") != "final"
        for trigger, outcome in ALWAYS.items()
        if (name, trigger) not in cells and outcome in ends
    ]
