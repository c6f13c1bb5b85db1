"""A resolved policy as text: TOML to read, and a digest to name it by.

Imports tomli-w, the schema, and no world.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import tomli_w
from pydantic import BaseModel

from ._schema import Policy

__all__ = ["dump_policy", "policy_digest"]


def policy_digest(policy: Policy) -> str:
    """SHA-256 of a resolved policy, 64 hexadecimal digits; the first 12 are its short form.

    It is that of the canonical JSON (sorted keys, no spaces, ASCII) of every key with its default,
    so order, comments, files and platforms make no difference.
    """
    data = policy.model_dump(mode="json")
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def dump_policy(policy: Policy) -> str:
    """A resolved policy as one TOML file, without ``extends``, that loads to the same digest.

    Tables are written in full, so that a later version's defaults change nothing; rows of arrays
    without the keys that stand at their default, so that they can be read. A key that is ``None``
    is left out: TOML has no word for it.
    """
    return tomli_w.dumps(_table(policy), multiline_strings=False)


def _table(model: BaseModel) -> dict[str, Any]:
    return {
        key: _value(value)
        for key in type(model).model_fields
        if (value := getattr(model, key)) is not None
    }


def _value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _table(value)
    if isinstance(value, tuple):
        return [_row(item) for item in value]
    if isinstance(value, dict):
        return {key: _value(inner) for key, inner in value.items()}
    return value


def _row(item: Any) -> Any:
    if isinstance(item, BaseModel):
        return item.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    return _value(item)
