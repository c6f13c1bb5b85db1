"""One ``[[models]]`` entry laid over its policy, by the same rules as one file over another.

Imports pydantic through ``_validate``, and nothing of the schema: the policy brings its own type.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from ._errors import Fault, PolicyError, listed
from ._marks import Layer, Mark, fault_at, mark
from ._merge import merge
from ._shape import Shape
from ._validate import validate

__all__ = ["OWN_KEYS", "lay_entry", "lay_over"]

P = TypeVar("P", bound=BaseModel)

#: Keys of the entry itself.
OWN_KEYS = frozenset({"match", "source"})

#: What one model cannot have otherwise: what the policy is, and the machine that is compiled once.
FIXED_KEYS = frozenset(
    {"about", "dialect", "extends", "machine", "models", "name", "provider", "schema_version"}
)


def lay_entry(policy: Mark, entry: Mark, shape: Shape, faults: list[Fault]) -> Mark:
    """The policy's tree, without its entries, under one of them; its faults are added."""
    own = {}
    for key, inner in entry.value.items():
        if key in FIXED_KEYS:
            hint = "remove it, or write a policy of its own for these models"
            expected = f"a key other than {listed(sorted(FIXED_KEYS))}"
            faults.append(fault_at(entry, (key,), f"{key!r} for some models only", expected, hint))
        elif key not in OWN_KEYS:
            own[key] = inner
    base = {key: inner for key, inner in policy.value.items() if key != "models"}
    under = Mark(base, policy.layer, policy.path)
    merged = merge(under, Mark(own, entry.layer, entry.path), shape, faults)
    return Mark(merged.value, policy.layer, policy.path)


def lay_over(policy: P, entry: BaseModel | None) -> P:
    """The policy for the models of one entry, or for those of none; without ``[[models]]``."""
    name = str(getattr(policy, "name", ""))
    layer = Layer(f"policy {name!r}")
    tree = mark(policy.model_dump(mode="json", exclude_none=True), layer)
    own = mark(entry.model_dump(mode="json", exclude_none=True) if entry else {}, layer)
    faults: list[Fault] = []
    merged = lay_entry(tree, own, Shape(type(policy)), faults)
    checked = validate(merged, type(policy))
    if faults or checked.faults or not isinstance(checked.model, type(policy)):
        raise PolicyError(name, [*faults, *checked.faults])
    return checked.model
