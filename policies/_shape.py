"""What a key of the schema holds: read from the type annotations, so that nothing repeats them.

The loader merges by it, errors say what was expected by it, and the docs list keys by it. Imports
pydantic only.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, TypeGuard, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

__all__ = ["Shape", "choices", "describe", "is_array", "is_table", "key_shapes", "shape_at"]


class Shape(NamedTuple):
    """A type annotation without ``Annotated`` and ``| None``, and the bounds that were on it."""

    type: Any
    bounds: tuple[Any, ...] = ()


def shape_of(annotation: Any, bounds: Iterable[Any] = ()) -> Shape:
    """Take ``Annotated`` and ``| None`` off a type annotation."""
    bounds = tuple(bounds)
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return shape_of(inner, (*bounds, *_flat(more)))
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        if len(kinds) == 1:
            return shape_of(kinds[0], bounds)
    return Shape(annotation, bounds)


def _flat(metadata: Iterable[Any]) -> Iterable[Any]:
    for item in metadata:
        yield from item.metadata if isinstance(item, FieldInfo) else (item,)


def _is_model(kind: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_table(shape: Shape) -> bool:
    """Whether a TOML table stands here, merged key by key."""
    return _is_model(shape.type) or get_origin(shape.type) is dict


def is_array(shape: Shape) -> bool:
    """Whether a TOML array stands here."""
    return get_origin(shape.type) is tuple


def key_shapes(shape: Shape) -> dict[str, Shape]:
    """The keys that a table of fixed keys may hold; empty for any other shape."""
    return _key_shapes(shape.type) if _is_model(shape.type) else {}


@cache
def _key_shapes(model: type[BaseModel]) -> dict[str, Shape]:
    fields = model.model_fields
    return {key: shape_of(field.annotation, field.metadata) for key, field in fields.items()}


def shape_at(shape: Shape, key: str | int) -> Shape | None:
    """What stands below ``key``: a key of a table or a place in an array; ``None``: no such key."""
    if isinstance(key, int):
        return shape_of(get_args(shape.type)[0]) if is_array(shape) else None
    if get_origin(shape.type) is dict:
        return shape_of(get_args(shape.type)[1])
    return key_shapes(shape).get(key)


def choices(shape: Shape) -> tuple[str, ...]:
    """The words that may stand here, where only certain words may."""
    kind = shape.type
    if is_array(shape):
        return choices(shape_of(get_args(kind)[0]))
    if get_origin(kind) is Literal:
        return tuple(str(value) for value in get_args(kind) if isinstance(value, str))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(member.value) for member in kind)
    if get_origin(kind) in (Union, types.UnionType):
        return tuple(word for part in get_args(kind) for word in choices(shape_of(part)))
    return ()


_PLAIN = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    Any: "any value",
}


def describe(shape: Shape) -> str:
    """What may stand here, in a few words."""
    kind, origin = shape.type, get_origin(shape.type)
    if is_array(shape):
        item = shape_of(get_args(kind)[0])
        if _is_model(item.type):
            return "an array of tables"
        some = "a non-empty array" if _least(shape) else "an array"
        return f"{some} of {_plural(describe(item))}"
    if words := choices(shape):
        quoted = [f'"{word}"' for word in words]
        other = [describe(part) for part in _parts(kind) if not choices(part)]
        return " or ".join([*([", ".join(quoted)] if quoted else []), *other])
    if origin is Literal:
        return " or ".join(str(value) for value in get_args(kind))
    if _is_model(kind) and len(kind.model_fields) == 1:
        ((key, inner),) = key_shapes(shape).items()
        return f"a table {{ {key} = {describe(inner)} }}"
    if is_table(shape):
        return "a table"
    return _PLAIN.get(kind, "another value") + _range(shape)


def _parts(kind: Any) -> list[Shape]:
    union = get_origin(kind) in (Union, types.UnionType)
    return [shape_of(part) for part in get_args(kind)] if union else []


def _plural(words: str) -> str:
    for one, many in (("a string", "strings"), ("a whole number", "whole numbers")):
        if words.startswith(one):
            return many + words[len(one) :]
    return "any values" if words == "any value" else words


def _least(shape: Shape) -> int:
    return next((bound.min_length for bound in shape.bounds if isinstance(bound, MinLen)), 0)


def _range(shape: Shape) -> str:
    words = []
    for bound in shape.bounds:
        match bound:
            case Ge():
                words.append(f"at least {bound.ge}")
            case Gt():
                words.append(f"above {bound.gt}")
            case Le():
                words.append(f"at most {bound.le}")
            case Lt():
                words.append(f"below {bound.lt}")
            case MinLen():
                words.append("not empty")
            case MaxLen():
                words.append(f"at most {bound.max_length} characters")
    return f" ({', '.join(words)})" if words else ""
