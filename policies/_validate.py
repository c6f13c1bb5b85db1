"""A merged tree against the schema: every fault told in our words, at its place in its file.

Strict: TOML has types, so ``"5"`` is no number. Where the structure is wrong in places, the rest is
still built, so that names are checked in the same run. Imports pydantic and no world.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from datetime import date, time
from typing import Any, NamedTuple, TypeVar, get_origin

from pydantic import BaseModel, ValidationError

from ._errors import Fault, listed, nearest
from ._lines import Path
from ._marks import Layer, Mark, fault_at, pick, plain, shown
from ._shape import Shape, choices, describe, is_array, is_table, key_shapes, shape_at

__all__ = ["Validated", "foreign_values", "validate", "without"]

M = TypeVar("M", bound=BaseModel)

#: Stands for a required key that is missing, while the rest of the file is checked.
_PLACEHOLDER = Mark("?", Layer(""))


class Validated(NamedTuple):
    """What became of a tree."""

    model: BaseModel | None
    """The model, without the parts that are wrong; ``None`` where too much of it is."""
    tree: Mark
    """The tree that ``model`` was built from; paths of later checks are paths in it."""
    faults: list[Fault]
    lost: frozenset[str]
    """Top-level keys from which something had to be left out."""


def validate(tree: Mark, model: type[BaseModel]) -> Validated:
    """Build ``model`` from a tree, or say all that is wrong and build it from what is right."""
    shape = Shape(model)
    faults: list[Fault] = []
    lost: set[str] = set()
    for attempt in range(4):
        built, slips = _build(tree, model)
        if built is not None:
            return Validated(built, tree, faults, frozenset(lost))
        if attempt == 0:
            faults += _faults(tree, shape, slips)
        cuts = [(slip, _removable(_place(slip, shape)[0], shape)) for slip in slips]
        lost |= {str(path[0]) for slip, path in cuts if slip.type != "extra_forbidden"}
        tree = without(tree, {path for _, path in cuts})
    return Validated(None, tree, faults, frozenset(lost))


class _Slip(NamedTuple):
    type: str
    loc: Path


def _build(tree: Mark, model: type[M]) -> tuple[M | None, list[_Slip]]:
    try:
        return model.model_validate_json(json.dumps(plain(tree)), strict=True), []
    except ValidationError as error:
        slips = error.errors(include_url=False, include_context=False, include_input=False)
        return None, [_Slip(slip["type"], slip["loc"]) for slip in slips]


def _place(slip: _Slip, shape: Shape) -> tuple[Path, Shape]:
    """Where a slip is, without pydantic's names for the branches of a union, and what it holds."""
    path: Path = ()
    for key in slip.loc:
        inner = shape_at(shape, key)
        if inner is None:
            unknown = slip.type == "extra_forbidden"
            return ((*path, key) if unknown else path), shape
        path, shape = (*path, key), inner
    return path, shape


def _faults(tree: Mark, shape: Shape, slips: Iterable[_Slip]) -> Iterator[Fault]:
    seen: set[Path] = set()
    for slip in slips:
        path, at = _place(slip, shape)
        if path in seen:
            continue  # one slip for each branch of a union
        seen.add(path)
        if slip.type == "extra_forbidden":
            yield _unknown_key(tree, path, at)
        elif slip.type == "missing":
            hint = f"add the key {path[-1]}"
            if path == ("dialect",):
                hint = 'add it, or extends = ["base"] to build on what is there'
            yield fault_at(tree, path, "nothing", describe(at), hint)
        else:
            there = pick(tree, *path)
            yield fault_at(tree, path, shown(there), describe(at), _hint(there, at))


def _unknown_key(tree: Mark, path: Path, table: Shape) -> Fault:
    known = sorted(key_shapes(table))
    close = nearest(str(path[-1]), known)
    hint = f"did you mean {close}?" if close else "remove it"
    return fault_at(tree, path, f"unknown key {str(path[-1])!r}", listed(known), hint)


def _hint(there: Mark | None, shape: Shape) -> str:
    value = there.value if there is not None else None
    if isinstance(value, str):
        close = nearest(value, choices(shape))
        if is_array(shape):
            return f"write it in brackets: [{json.dumps(close or value[:40])}]"
        if close:
            return f'did you mean "{close}"?'
        if value.replace(".", "", 1).isdigit():
            return "write it without quotes"
    if is_table(shape):
        return "write a table in its place"
    return "change the value"


def _removable(path: Path, shape: Shape) -> Path:
    """The smallest part around a wrong place that the schema can do without."""
    while len(path) > 1:
        parent = shape
        for key in path[:-1]:
            parent = shape_at(parent, key) or Shape(Any)
        if not _needs(parent, path[-1]):
            return path
        path = path[:-1]
    return path


def _needs(table: Shape, key: str | int) -> bool:
    if is_array(table) or get_origin(table.type) is dict or not is_table(table):
        return False
    field = table.type.model_fields.get(key)
    return field is not None and field.is_required()


def without(tree: Mark, wrong: Iterable[Path]) -> Mark:
    """The tree without the wrong places; a required key of the root gets a placeholder."""
    for path in sorted(wrong, key=lambda path: [str(key).zfill(8) for key in path], reverse=True):
        tree = _cut(tree, path)
    return tree


def _cut(tree: Mark, path: Path) -> Mark:
    key, rest = path[0], path[1:]
    if isinstance(tree.value, list) and isinstance(key, int):
        rows = list(tree.value)
        rows[key : key + 1] = [_cut(rows[key], rest)] if rest else []
        return Mark(rows, tree.layer, tree.path)
    if not isinstance(tree.value, dict):
        return tree
    table = dict(tree.value)
    if rest and key in table:
        table[key] = _cut(table[key], rest)
    else:
        table.pop(key, None)
        if key in ("dialect", "name") and not tree.path:
            table[key] = _PLACEHOLDER
    return Mark(table, tree.layer, tree.path)


def foreign_values(tree: Mark) -> Iterator[tuple[Path, Fault]]:
    """TOML can say what JSON cannot: dates, and numbers that are none. Nothing here needs them."""
    if isinstance(tree.value, dict):
        for inner in tree.value.values():
            yield from foreign_values(inner)
    elif isinstance(tree.value, list):
        for inner in tree.value:
            yield from foreign_values(inner)
    elif isinstance(tree.value, date | time):
        hint = "put it in quotes"
        yield tree.path, fault_at(tree, (), "a date or time", "a value that JSON has too", hint)
    elif isinstance(tree.value, float) and not math.isfinite(tree.value):
        found, hint = str(tree.value), "write a finite number, or leave the key out for no bound"
        yield tree.path, fault_at(tree, (), found, "a finite number", hint)
