"""From a name or a path to a policy: find the files, lay them over each other, check the whole.

All that is wrong, in whichever of the files, is told at once. With ``_search`` the only module here
that knows files. How files merge is in ``_merge`` and ``_machine``, and told in docs/policies.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from . import _search
from ._checks import problems
from ._errors import Fault, PolicyError, listed, nearest
from ._lines import line_of
from ._machine import merge_machine
from ._marks import Layer, Mark, dotted, fault_at, mark, pick, shown
from ._merge import merge
from ._overrides import lay_entry
from ._schema import SCHEMA_VERSION, Policy
from ._shape import Shape
from ._validate import foreign_values, validate, without

__all__ = ["PolicyInfo", "PolicySource", "list_policies", "load_policy", "load_source"]

_SHAPE = Shape(Policy)

#: Stands for the file of values that no file writes.
_DEFAULTS = "the defaults"

#: What a file says of itself only; a child does not inherit it.
_OWN = ("about", "extends", "name", "schema_version")


class PolicyInfo(NamedTuple):
    """A policy on the search path."""

    name: str
    path: str
    """The file that the name leads to."""
    dialect: str
    """Wire dialect; empty where the file has faults."""
    title: str
    problem: str
    """Why it cannot be loaded; empty where it can."""


class PolicySource:
    """A policy that still knows from which file and line each of its values came."""

    def __init__(self, policy: Policy, tree: Mark, file: str, models: tuple[str, ...] = ()) -> None:
        self.policy = policy
        self.file = file
        """The file that was asked for; values may stand in those it builds on."""
        self.models = models
        """Patterns of the models it is for, where it is that of a ``[[models]]`` entry."""
        self._tree = tree

    def fault(self, path: tuple[str | int, ...], found: str, expected: str, hint: str) -> Fault:
        """A fault at a path of the policy, told by the file, line and path where it is written.

        What no file writes stands at the file that was asked for, without a line.
        """
        fault = fault_at(self._tree, path, found, expected, hint)
        if fault.file != _DEFAULTS:
            return fault
        return replace(fault, file=self.file, line=None, path=dotted(path))

    def entries(self) -> tuple[PolicySource, ...]:
        """The policy under each of its ``[[models]]`` entries."""
        models = pick(self._tree, "models")
        sources = []
        for entry in models.value if models is not None else ():
            checked = validate(lay_entry(self._tree, entry, _SHAPE, []), Policy)
            if isinstance(checked.model, Policy):
                match = pick(entry, "match")
                names = tuple(name.value for name in match.value) if match is not None else ()
                sources.append(PolicySource(checked.model, checked.tree, self.file, names))
        return tuple(sources)


def load_policy(source: str | os.PathLike[str]) -> Policy:
    """The policy of a name on the search path, of names joined by ``+``, or of a TOML file.

    A path is a ``PathLike``, or a string with a separator or the ending ``.toml``. In ``a+b`` the
    later lies over the earlier. Raises ``PolicyError`` with every fault of every file involved.
    """
    return load_source(source).policy


def load_source(source: str | os.PathLike[str]) -> PolicySource:
    """What ``load_policy`` gives, with the places of its values, for those who find more in it."""
    files = _Files()
    if isinstance(source, str) and not _is_path(source):
        name = source
        files.add_names(source)
    else:
        place = Path(source).expanduser()
        name = place.name.removesuffix(".toml")
        files.add(place, ())
    return _resolve(name, files)


def list_policies() -> tuple[PolicyInfo, ...]:
    """Every policy on the search path, by name; one with faults comes with the first of them."""
    return tuple(_info(name, place) for name, place in _search.known().items())


def _info(name: str, place: _search.Place) -> PolicyInfo:
    try:
        policy = load_policy(name)
    except PolicyError as error:
        return PolicyInfo(name, str(place), "", "", str(error.faults[0]))
    return PolicyInfo(name, str(place), policy.dialect, policy.about.title, "")


def _is_path(source: str) -> bool:
    separators = {"/", os.sep, os.altsep or "/"}
    return source.endswith(".toml") or not separators.isdisjoint(source)


class _Files:
    """The files of one policy, each once, parents before children."""

    def __init__(self) -> None:
        self.trees: dict[str, Mark] = {}
        self.top: Mark | None = None
        self.faults: list[Fault] = []
        self.is_whole = True

    def add_names(self, names: str) -> None:
        """Add the files that ``a`` or ``a+b`` names; where there are more, none is the top one."""
        parts = names.split("+")
        for name in parts:
            place = _search.find(name) if name else None
            if place is None:
                self._miss(_unknown_name(Fault("", None, "", "", "", ""), name))
            else:
                self.add(place, ())
        if len(parts) > 1:
            self.top = None

    def add(self, place: _search.Place, trail: tuple[_search.Place, ...]) -> None:
        """Add a file after its parents; ``trail`` leads from the first file to it."""
        try:
            tree, foreign = _tree(str(place), _search.content(place))
        except PolicyError as error:
            self._miss(*error.faults)
            return
        if (newer := _newer(tree)) is not None:
            self._miss(newer)
            return
        self.faults += foreign
        for at, parent in enumerate(self._parents(tree)):
            self._add_parent(tree, at, parent, (*trail, place))
        self.trees[_search.identity(place)] = self.top = tree

    def _miss(self, *faults: Fault) -> None:
        """A file that cannot be had: what it would have said is not asked for a second time."""
        self.is_whole = False
        self.faults += faults

    def _add_parent(self, tree: Mark, at: int, name: str, trail: tuple[_search.Place, ...]) -> None:
        child = trail[-1]
        folder = _search.folder_of(child)
        place = folder / name if _is_path(name) else _search.find(name, folder, child)
        if place is None and f"{name}.toml" != child.name:
            blank = fault_at(tree, ("extends", at), "", "", "")
            self._miss(_unknown_name(blank, name))
            return
        place = child if place is None else place
        seen = [_search.identity(other) for other in trail]
        if _search.identity(place) in seen:
            way = [other.name for other in trail[seen.index(_search.identity(place)) :]]
            found = f"a circle: {' -> '.join([*way, place.name])}"
            hint = "take one of the names out of its extends"
            path = ("extends", at)
            self._miss(fault_at(tree, path, found, "parents that end", hint))
        elif _search.identity(place) not in self.trees:
            self.add(place, trail)

    def _parents(self, tree: Mark) -> list[str]:
        extends = pick(tree, "extends")
        if extends is None:
            return []
        names = extends.value if isinstance(extends.value, list) else None
        if names is not None and all(isinstance(name.value, str) for name in names):
            return [name.value for name in names]
        hint = 'write extends = ["base"]'
        self._miss(fault_at(extends, (), shown(extends), "an array of names", hint))
        return []


@lru_cache(maxsize=128)
def _tree(file: str, content: bytes) -> tuple[Mark, tuple[Fault, ...]]:
    """A file's data, and what in it is no policy's: read once while its content stays the same.

    Trees are shared by all policies that build on the file, and never changed.
    """
    layer, data = _search.parse(file, content)
    tree = mark(data, layer)
    foreign = list(foreign_values(tree))
    faults = tuple(fault for _, fault in foreign)
    return without(tree, [path for path, _ in foreign]), faults


def _newer(tree: Mark) -> Fault | None:
    """A file of a newer version is refused as a whole: its keys may mean something else."""
    version = pick(tree, "schema_version")
    if version is None or not isinstance(version.value, int) or version.value <= SCHEMA_VERSION:
        return None
    hint = "install a newer midthought, or write the policy for this one"
    return fault_at(version, (), shown(version), f"schema version {SCHEMA_VERSION}", hint)


def _unknown_name(blank: Fault, name: str) -> Fault:
    names = tuple(_search.known())
    close = nearest(name, names)
    hint = f"did you mean {close!r}?" if close else "name one of these, or the path of a file"
    return replace(blank, found=f"no policy {name!r}", expected=listed(names), hint=hint)


@cache
def _defaults() -> Mark:
    """The schema's own defaults: the lowest layer, so that arrays of it can be edited too."""
    bare = Policy(name="?", dialect="?").model_dump(mode="json", exclude_none=True)
    del bare["name"], bare["dialect"]
    return mark(bare, Layer(_DEFAULTS))


def _merged(name: str, files: _Files, faults: list[Fault]) -> Mark:
    """All files as one tree."""
    whole = _defaults()
    for tree in files.trees.values():
        own = {
            key: inner
            for key, inner in tree.value.items()
            if key != "machine" and (key not in _OWN or (tree is files.top and key != "extends"))
        }
        machine = pick(whole, "machine")
        whole = merge(whole, Mark(own, tree.layer), _SHAPE, faults)
        if (over := pick(tree, "machine")) is not None:
            whole.value["machine"] = merge_machine(machine, over, faults)
    if files.top is None or "name" not in files.top.value:
        whole.value["name"] = mark(name, whole.layer, ("name",))
    return whole


def _resolve(name: str, files: _Files) -> PolicySource:
    faults = files.faults
    if not files.trees:
        raise PolicyError(name, faults)
    tree = _merged(name, files, faults)
    checked = validate(tree, Policy)
    faults += [fault for fault in checked.faults if files.is_whole or fault.found != "nothing"]
    if files.is_whole:
        if isinstance(checked.model, Policy):
            faults += _checked(checked.tree, checked.model, checked.lost)
        faults += _entries(tree, faults)
    if faults or not isinstance(checked.model, Policy):
        raise PolicyError(name, sorted(faults, key=lambda fault: (fault.file, fault.line or 0)))
    file = files.top.layer.file if files.top is not None else [*files.trees.values()][-1].layer.file
    return PolicySource(checked.model, checked.tree, file)


def _checked(tree: Mark, policy: Policy, lost: frozenset[str]) -> Iterator[Fault]:
    for path, found, expected, hint in problems(policy, lost):
        yield fault_at(tree, path, found, expected, hint)


def _entries(tree: Mark, known: Iterable[Fault]) -> list[Fault]:
    """Faults that a ``[[models]]`` entry brings in: those the policy does not have without it."""
    models = pick(tree, "models")
    told = {(fault.found, fault.expected, fault.hint) for fault in known}
    faults: list[Fault] = []
    for entry in models.value if models is not None and isinstance(models.value, list) else []:
        if not isinstance(entry.value, dict):
            continue
        mine: list[Fault] = []
        merged = lay_entry(tree, entry, _SHAPE, mine)
        checked = validate(merged, Policy)
        mine += checked.faults
        if isinstance(checked.model, Policy):
            mine += _checked(checked.tree, checked.model, checked.lost)
        faults += [
            _in_entry(fault, entry)
            for fault in mine
            if (fault.found, fault.expected, fault.hint) not in told
        ]
    return faults


def _in_entry(fault: Fault, entry: Mark) -> Fault:
    """The fault at its entry, also where what does not fit stands elsewhere."""
    there = dotted(entry.path)
    if fault.file == entry.layer.file and fault.path.startswith(there):
        return fault
    line = line_of(entry.path, entry.layer.lines)
    path = f"{there}.{fault.path}"
    return replace(fault, file=entry.layer.file, line=line, path=path)
