"""``midthought policies``, ``show`` and ``schema``: what policies there are, and what they say."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from rich.text import Text

from midthought.policies import (
    Policy,
    PolicyInfo,
    dump_policy,
    list_policies,
    load_policy,
    policy_json_schema,
)

from ._terminal import Terminal

__all__ = ["policies", "schema", "show"]

_HEAD = ("POLICY", "DIALECT", "STRATEGIES", "FROM")


def policies(terminal: Terminal, *, as_json: bool) -> int:
    """List every policy on the search path."""
    found = list_policies()
    if as_json:
        for info in found:
            terminal.row(_as_row(info))
        return 0
    table = [_HEAD, *(_as_cells(info) for info in found)]
    for number, line in enumerate(_aligned(table)):
        terminal.out.print(Text(line, style="" if number else "bold"))
    for info in found:
        if info.problem:
            terminal.warning(f"policy {info.name!r} cannot be used: {info.problem}")
    return 0


def show(terminal: Terminal, name: str, model: str | None) -> int:
    """Write a resolved policy as TOML."""
    policy = load_policy(name)
    terminal.data(dump_policy(policy if model is None else policy.for_model(model)))
    return 0


def schema(terminal: Terminal) -> int:
    """Write the JSON Schema of policy files."""
    terminal.data(json.dumps(policy_json_schema(), indent=2, ensure_ascii=False) + "\n")
    return 0


def _as_row(info: PolicyInfo) -> dict[str, object]:
    policy = None if info.problem else load_policy(info.name)
    return {
        "name": info.name,
        "dialect": info.dialect,
        "strategies": [list(each) for each in _strategies(policy)] if policy else [],
        "title": info.title,
        "path": info.path,
        "built_in": _is_built_in(info),
        "problem": info.problem,
    }


def _as_cells(info: PolicyInfo) -> tuple[str, ...]:
    place = "built in" if _is_built_in(info) else _short(info.path)
    if info.problem:
        return info.name, "-", "-", place
    ways = " or ".join(" > ".join(each) for each in _strategies(load_policy(info.name)))
    return info.name, info.dialect, ways, place


def _strategies(policy: Policy) -> list[tuple[str, ...]]:
    """How replies go on: by default, and what entries for some models say instead."""
    each: list[tuple[str, ...]] = [policy.continuation.strategies]
    for entry in policy.models:
        own = (entry.model_extra or {}).get("continuation", {}).get("strategies", ())
        each += [tuple(own)] if own else []
    return list(dict.fromkeys(each))


def _is_built_in(info: PolicyInfo) -> bool:
    shipped = Path(str(resources.files("midthought.policies")))
    return Path(info.path).parent == shipped


def _short(path: str) -> str:
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
