"""One file laid over another: tables key by key, arrays as a whole unless the file edits them.

The rules, as docs/policies.md states them: a table is merged key by key; any other value replaces
the one below; an array may be edited instead of replaced, by ``remove``, ``change`` (rows that have
a name), ``prepend`` and ``append``. Imports no world, and nothing of the schema.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._errors import Fault, listed, nearest
from ._marks import Mark, fault_at, pick, plain, shown
from ._shape import Shape, is_array, is_table, key_shapes, shape_at

__all__ = ["EDITS", "merge"]


def merge(below: Mark | None, over: Mark, shape: Shape | None, faults: list[Fault]) -> Mark:
    """Lay ``over`` on ``below``; what cannot be merged is added to ``faults``."""
    if shape is None or not isinstance(over.value, dict):
        return over
    if is_array(shape):
        return _edit(below, over, shape, faults)
    free = shape.type is Any  # JSON of the provider, which has no shape of its own
    if not free and not is_table(shape):
        return over
    merged = dict(below.value) if below is not None and isinstance(below.value, dict) else {}
    for key, inner in over.value.items():
        inner_shape = shape if free else shape_at(shape, key)
        merged[key] = merge(merged.get(key), inner, inner_shape, faults)
    return Mark(merged, over.layer, over.path)


def _edit(below: Mark | None, over: Mark, shape: Shape, faults: list[Fault]) -> Mark:
    """The array below, edited as the table ``over`` says."""
    rows = list(below.value) if below is not None and isinstance(below.value, list) else []
    item = shape_at(shape, 0) or Shape(Any)
    for key in sorted(over.value.keys() - EDITS.keys()):
        faults.append(_unknown_edit(over, key, item))
    for key, edit in EDITS.items():
        if key in over.value:
            rows = edit(rows, over.value[key], item, faults)
    return Mark(rows, over.layer, over.path)


def _unknown_edit(over: Mark, key: str, item: Shape) -> Fault:
    name = str(over.path[-1]) if over.path else ""
    if key in key_shapes(item):
        expected = f"an array, or a table that edits one ({listed(tuple(EDITS))})"
        hint = f"write [[{name}]] with two brackets for a row, or [[{name}.append]] to add one"
        return fault_at(over, (), "one table", expected, hint)
    close = nearest(key, EDITS)
    hint = f"did you mean {close}?" if close else f"remove it, or write {name} as an array"
    return fault_at(over, (key,), f"unknown key {key!r}", listed(tuple(EDITS)), hint)


def _name(row: Mark) -> Any:
    named = pick(row, "name")
    return named.value if named is not None else row.value


def _array(edit: Mark, faults: list[Fault]) -> list[Mark]:
    if isinstance(edit.value, list):
        return edit.value
    hint = f"write [[{edit.path[0]}.{edit.path[-1]}]] with two brackets"
    faults.append(fault_at(edit, (), shown(edit), "an array", hint))
    return []


def _remove(rows: list[Mark], edit: Mark, item: Shape, faults: list[Fault]) -> list[Mark]:
    for wanted in _array(edit, faults):
        if not _is_known(wanted, wanted.value, rows, item, faults):
            continue
        rows = [row for row in rows if _name(row) != wanted.value]
    return rows


def _change(rows: list[Mark], edit: Mark, item: Shape, faults: list[Fault]) -> list[Mark]:
    if not isinstance(edit.value, dict):
        hint = "write one table per row, as [rules.change.cut]"
        faults.append(fault_at(edit, (), shown(edit), "a table of tables", hint))
        return rows
    for name, over in edit.value.items():
        if _is_known(over, name, rows, item, faults):
            rows = [merge(row, over, item, faults) if _name(row) == name else row for row in rows]
    return rows


def _is_known(place: Mark, name: Any, rows: list[Mark], item: Shape, faults: list[Fault]) -> bool:
    """Whether a row has this name; rows without names can be neither removed nor changed."""
    if is_table(item) and "name" not in key_shapes(item):
        hint = "rows of this kind have no name: replace the array, or put a row before it"
        faults.append(fault_at(place, (), shown(place), "prepend or append", hint))
        return False
    names = [str(_name(row)) for row in rows]
    if str(name) in names:
        return True
    close = nearest(str(name), names)
    hint = f"did you mean {close!r}?" if close else "remove the line; nothing below has that name"
    faults.append(fault_at(place, (), f"unknown name {name!r}", listed(names), hint))
    return False


def _prepend(rows: list[Mark], edit: Mark, item: Shape, faults: list[Fault]) -> list[Mark]:
    added = _array(edit, faults)
    return [*added, *_without(rows, added, item)]


def _append(rows: list[Mark], edit: Mark, item: Shape, faults: list[Fault]) -> list[Mark]:
    added = _array(edit, faults)
    return [*rows, *_without(added, rows, item)]


def _without(rows: list[Mark], others: list[Mark], item: Shape) -> list[Mark]:
    """Words that stand in both arrays stand in the result once; rows that are tables all stay."""
    if is_table(item):
        return rows
    taken = [plain(other) for other in others]
    return [row for row in rows if plain(row) not in taken]


_Edit = Callable[[list[Mark], Mark, Shape, list[Fault]], list[Mark]]

#: What a table in the place of an array may hold, in the order in which it is carried out.
EDITS: dict[str, _Edit] = {
    "remove": _remove,
    "change": _change,
    "prepend": _prepend,
    "append": _append,
}
