"""The JSON Schema of a policy file, for editors: what one TOML file may hold, before it is merged.

Made from the pydantic models, so it cannot fall behind them. Imports the schema, no world.
"""

from __future__ import annotations

from typing import Any

from ._overrides import FIXED_KEYS
from ._schema import Policy

__all__ = ["policy_json_schema"]

Json = dict[str, Any]

_NAMES: Json = {"type": "array", "items": {"type": "string"}}


def policy_json_schema() -> Json:
    """JSON Schema (2020-12) of a policy file.

    No key is required, since a parent may have set it; arrays may be edited in place of being
    replaced; ``extends`` and ``machine.rename`` are known.
    """
    source = Policy.model_json_schema()
    shared = {name: entry for name, entry in source["$defs"].items() if "enum" in entry}
    root = _Inline(source["$defs"], shared).table(source, partial=True)
    keys = root["properties"]
    machine = keys["machine"]["properties"]
    for rows in ("states", "transitions"):  # merged by name and by cell, never edited
        machine[rows] = machine[rows]["anyOf"][0]
    machine["rename"] = {
        "description": "States of the parent that are called otherwise here: old = new.",
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    _let_entries_override(keys, shared)
    extends = {"description": "Policies this file lies over, the lowest first.", **_NAMES}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "midthought policy",
        "type": "object",
        "additionalProperties": False,
        "properties": {"extends": extends, **keys},
        "$defs": shared,
    }


def _let_entries_override(keys: Json, shared: Json) -> None:
    """Let a ``[[models]]`` entry hold every key of a policy that may differ between models."""
    rows, edits = keys["models"]["anyOf"]
    entry = rows["items"]
    for key in sorted(keys.keys() - FIXED_KEYS):
        shared[f"key_{key}"] = keys[key]
        keys[key] = {"$ref": f"#/$defs/key_{key}"}
        entry["properties"].setdefault(key, keys[key])
    shared["model_entry"] = {**entry, "additionalProperties": False}
    for form in (rows, edits["properties"]["prepend"], edits["properties"]["append"]):
        form["items"] = {"$ref": "#/$defs/model_entry"}


class _Inline:
    """Replaces references by what they lead to, for enumerations aside."""

    def __init__(self, definitions: Json, shared: Json) -> None:
        self._definitions = definitions
        self._shared = shared

    def table(self, node: Json, partial: bool) -> Json:
        """A table with the keys of ``node``; a partial one may leave out any and edit arrays."""
        properties = {key: self.node(value, partial) for key, value in node["properties"].items()}
        table = {"type": "object", "additionalProperties": False, "properties": properties}
        if "description" in node:
            table["description"] = node["description"]
        if not partial and "required" in node:
            table["required"] = node["required"]
        return table

    def node(self, node: Json, partial: bool) -> Json:
        """One value, without titles and without null, for which TOML has no word."""
        kept = {key: value for key, value in node.items() if key != "title"}
        if kept.get("default", 0) is None:
            del kept["default"]
        if "$ref" in kept:
            return self._reference(kept, partial)
        if "anyOf" in kept:
            return self._choice(kept, partial)
        if kept.get("type") == "array":
            return self._array(kept, partial)
        if isinstance(kept.get("additionalProperties"), dict):
            kept["additionalProperties"] = self.node(kept["additionalProperties"], partial)
        return kept

    def _reference(self, node: Json, partial: bool) -> Json:
        name = node["$ref"].rpartition("/")[2]
        if name in self._shared:
            return node
        inner = self.table(self._definitions[name], partial)
        own = {key: value for key, value in node.items() if key not in ("$ref", "default")}
        return {**inner, **own}

    def _choice(self, node: Json, partial: bool) -> Json:
        about = {key: value for key, value in node.items() if key != "anyOf"}
        parts = [part for part in node["anyOf"] if part.get("type") != "null"]
        if len(parts) == 1:
            return {**self.node(parts[0], partial), **about}
        return {**about, "anyOf": [self.node(part, partial=False) for part in parts]}

    def _array(self, node: Json, partial: bool) -> Json:
        about: Json = {key: node[key] for key in ("description", "default") if key in node}
        bounds = {key: node[key] for key in ("minItems",) if key in node}
        items = self.node(node["items"], partial=False)
        rows = {"type": "array", "items": items, **bounds}
        if not partial:
            return {**about, **rows}
        edits = {edit: self._rows(node) for edit in ("prepend", "append")}
        if not items.get("properties") or "name" in items["properties"]:
            edits["remove"] = _NAMES
        if "name" in items.get("properties", {}):
            change = self.node(node["items"], partial=True)
            edits["change"] = {"type": "object", "additionalProperties": change}
        form = {"type": "object", "additionalProperties": False, "properties": edits}
        return {**about, "anyOf": [rows, form]}

    def _rows(self, node: Json) -> Json:
        return {"type": "array", "items": self.node(node["items"], partial=False)}
