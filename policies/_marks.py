"""A policy as plain data that remembers which file and which place each value came from.

Files are merged as trees of marks, so that an error in the merged policy still names the file and
the line that a person has to change. Imports no world.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ._errors import Fault
from ._lines import Path, line_of, lines_of

__all__ = [
    "DEEPEST",
    "Layer",
    "Mark",
    "depth",
    "dotted",
    "fault_at",
    "find",
    "mark",
    "pick",
    "plain",
    "shown",
]

#: Tables and arrays nested deeper than this are no policy, and would exhaust the stack.
DEEPEST = 32

#: Tables whose values may be secrets by mistake: errors name their type only.
_PRIVATE = frozenset({"auth", "headers", "prepare", "request", "merge"})


@dataclass(frozen=True, eq=False)
class Layer:
    """One file of a policy, or the schema's own defaults."""

    file: str
    text: str = field(default="", repr=False)

    @cached_property
    def lines(self) -> dict[Path, int]:
        """Line of each key, for errors."""
        return lines_of(self.text)


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A value, the file it came from and its place there; tables and arrays hold marks."""

    value: Any
    layer: Layer
    path: Path = ()


def depth(data: Any) -> int:
    """How deep tables and arrays are nested; without recursion, so that any depth can be told."""
    level, layer = 0, [data]
    while layer := [
        inner
        for outer in layer
        if isinstance(outer, dict | list)
        for inner in (outer.values() if isinstance(outer, dict) else outer)
    ]:
        level += 1
    return level


def mark(value: Any, layer: Layer, path: Path = ()) -> Mark:
    """The tree of marks of one file's data."""
    if isinstance(value, dict):
        value = {key: mark(inner, layer, (*path, key)) for key, inner in value.items()}
    elif isinstance(value, list | tuple):
        value = [mark(inner, layer, (*path, row)) for row, inner in enumerate(value)]
    return Mark(value, layer, path)


def plain(tree: Mark) -> Any:
    """The data of a tree without its marks."""
    if isinstance(tree.value, dict):
        return {key: plain(inner) for key, inner in tree.value.items()}
    if isinstance(tree.value, list):
        return [plain(inner) for inner in tree.value]
    return tree.value


def pick(tree: Mark | None, *path: str | int) -> Mark | None:
    """The mark at exactly this path, if there is one."""
    for key in path:
        match tree:
            case Mark(value=dict() as table) if key in table:
                tree = table[key]
            case Mark(value=list() as rows) if isinstance(key, int) and key < len(rows):
                tree = rows[key]
            case _:
                return None
    return tree


def find(tree: Mark, path: Iterable[str | int]) -> tuple[Layer, Path]:
    """The file that a place in the merged data came from, and the place in that file."""
    rest = list(path)
    while rest and (inner := pick(tree, rest[0])) is not None:
        tree = inner
        rest.pop(0)
    return tree.layer, (*tree.path, *rest)


def fault_at(tree: Mark, path: Iterable[str | int], found: str, expected: str, hint: str) -> Fault:
    """A fault at a place of the merged data, told by file, line and place in that file."""
    layer, place = find(tree, path)
    return Fault(layer.file, line_of(place, layer.lines), dotted(place), found, expected, hint)


def dotted(path: Path) -> str:
    """A path as errors show it: ``rules[3].backoff``."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def shown(tree: Mark | None) -> str:
    """What stands at a mark, short, and by its type only where it may be a secret."""
    if tree is None:
        return "nothing"
    value = tree.value
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if _PRIVATE.intersection(tree.path):
        return f"a value of type {type(value).__name__}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f'{text[:40]}…" ({len(str(value))} characters)'
