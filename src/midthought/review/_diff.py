"""What changed in meaning between two policies: rows, rules, limits, worst case; not in text.

Compares resolved policies, so that moving a key to a parent file changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from midthought.policies import Policy

from ._view import Edge, view_of
from ._worst import WorstCase, worst_case

__all__ = ["Change", "Difference", "compare"]

#: Compared piece by piece below; names and facts for people have no meaning for a turn.
_APART = frozenset({"name", "about", "machine", "rules", "classify", "models", "schema_version"})


class Change(NamedTuple):
    """One change of meaning."""

    path: str
    before: Any
    """``None``: it was not there."""
    after: Any
    """``None``: it is gone."""

    def __str__(self) -> str:
        if self.before is None:
            return f"+ {self.path} = {self.after}"
        if self.after is None:
            return f"- {self.path} (was {self.before})"
        return f"~ {self.path}: {self.before} → {self.after}"


class Difference(NamedTuple):
    """Everything that changed."""

    added: tuple[Edge, ...]
    removed: tuple[Edge, ...]
    rules: tuple[Change, ...]
    settings: tuple[Change, ...]
    before: WorstCase
    after: WorstCase

    @property
    def empty(self) -> bool:
        """The policies mean the same."""
        return not (self.added or self.removed or self.rules or self.settings)


def compare(before: Policy, after: Policy) -> Difference:
    """Compare two resolved policies."""
    old, new = view_of(before), view_of(after)
    return Difference(
        added=tuple(e for e in new.edges if _bare(e) not in {_bare(o) for o in old.edges}),
        removed=tuple(e for e in old.edges if _bare(e) not in {_bare(n) for n in new.edges}),
        rules=tuple(_rules(before, after)),
        settings=tuple(_settings(before, after)),
        before=worst_case(before),
        after=worst_case(after),
    )


def _bare(edge: Edge) -> Edge:
    return edge._replace(note="")


def _rules(before: Policy, after: Policy) -> Iterator[Change]:
    old = {rule.name: rule for rule in before.rules}
    new = {rule.name: rule for rule in after.rules}
    for name in old.keys() - new.keys():
        yield Change(f"rules.{name}", old[name].action, None)
    for name, rule in new.items():
        if name not in old:
            yield Change(f"rules.{name}", None, rule.action)
            continue
        was, now = old[name].model_dump(mode="json"), rule.model_dump(mode="json")
        yield from _values(f"rules.{name}", was, now)
    shared_old = [name for name in old if name in new]
    shared_new = [name for name in new if name in old]
    if shared_old != shared_new:
        yield Change("rules (order)", " > ".join(shared_old), " > ".join(shared_new))
    yield from _list("classify", before, after)
    yield from _list("models", before, after)


def _list(name: str, before: Policy, after: Policy) -> Iterator[Change]:
    def rows(policy: Policy) -> list[str]:
        found = getattr(policy, name)
        dumped = [row.model_dump(mode="json", exclude_defaults=True) for row in found]
        return [str({k: v for k, v in row.items() if k != "source"}) for row in dumped]

    old, new = rows(before), rows(after)
    yield from (Change(name, row, None) for row in old if row not in new)
    yield from (Change(name, None, row) for row in new if row not in old)
    if sorted(old) == sorted(new) and old != new:
        yield Change(f"{name} (order)", "as before", "another order")


def _settings(before: Policy, after: Policy) -> Iterator[Change]:
    was, now = before.model_dump(mode="json"), after.model_dump(mode="json")
    for key in (*was, *(k for k in now if k not in was)):
        if key not in _APART:
            yield from _values(key, was.get(key), now.get(key))


def _values(path: str, was: Any, now: Any) -> Iterator[Change]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for key in (*was, *(k for k in now if k not in was)):
            yield from _values(f"{path}.{key}", was.get(key), now.get(key))
    elif was != now:
        yield Change(path, was, now)
