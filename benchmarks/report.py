"""The numbers as a page: tables, targets, and the machine in general terms."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version

import client_costs
import core_costs
from streams import DIALECTS
from timing import Cost

__all__ = ["page"]

CORE_US = 2.5
CLIENT_RATIO = 1.25
_SHOWN = ("httpx", "msgspec", "transitions", "anthropic", "openai")


def page(
    core: Mapping[core_costs.Case, Cost],
    start: Mapping[str, Cost],
    clients: Mapping[client_costs.Case, Cost],
    *,
    tokens: int,
    rounds: int,
) -> str:
    """The page in Markdown."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    versions = ", ".join(f"{name} {version(name)}" for name in _SHOWN)
    parts = [
        "# Results\n",
        "Written by `make bench`; how to read it: `docs/benchmarks.md`.\n",
        f"{platform.python_implementation()} {platform.python_version()} on {platform.system()} "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the end. {versions}. "
        f"Replies of {tokens} text deltas, {rounds} rounds.\n",
        "## The core, without IO\n",
        "µs per event: median of the rounds, and the spread (half the quartile distance).\n",
        *_core_tables(core),
        f"To start a turn: {_starts(start)}.\n",
        "## A client, over sockets\n",
        "µs per event, and the ratio to the floor of the same column.\n",
        *_client_tables(clients),
        "## Targets\n",
        *_targets(core, clients),
    ]
    return "\n".join(parts)


def _cell(cost: Cost) -> str:
    return f"{cost.median:.2f} ±{cost.spread:.0%}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose columns also line up as plain text."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    padded = (" | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines)
    return "\n".join(f"| {line} |" for line in padded) + "\n"


def _core_tables(core: Mapping[core_costs.Case, Cost]) -> Iterable[str]:
    columns = [(dialect, per_chunk) for dialect in DIALECTS for per_chunk in (1, 8)]
    head = ["stage", *(f"{dialect}, {per_chunk} per chunk" for dialect, per_chunk in columns)]
    yield _table(
        head,
        (
            [stage, *(_cell(core[core_costs.Case(d, n, stage)]) for d, n in columns)]
            for stage in core_costs.STAGES
        ),
    )


def _starts(start: Mapping[str, Cost]) -> str:
    return ", ".join(f"{cost.median:.0f} µs ({dialect})" for dialect, cost in start.items())


def _client_tables(clients: Mapping[client_costs.Case, Cost]) -> Iterable[str]:
    columns = [(dialect, reply) for dialect in DIALECTS for reply in ("1", "8")]
    for host in ("sync", "async"):
        head = [host, *(f"{dialect}, {reply} per chunk" for dialect, reply in columns)]
        yield _client_table(clients, host, head, columns, "{:.1f}")
    yield "A turn beside its events: µs for a whole reply of one token.\n"
    for host in ("sync", "async"):
        head = [host, *DIALECTS]
        yield _client_table(clients, host, head, [(d, "short") for d in DIALECTS], "{:.0f}")


def _client_table(
    clients: Mapping[client_costs.Case, Cost],
    host: str,
    head: Sequence[str],
    columns: Sequence[tuple[str, str]],
    form: str,
) -> str:
    def cell(client: str, dialect: str, reply: str) -> str:
        cost = clients[client_costs.Case(host, dialect, reply, client)]
        ratio = _ratio(clients, host, dialect, reply, client)
        return f"{form.format(cost.median)} ±{cost.spread:.0%} ×{ratio:.2f}"

    return _table(
        head, ([client, *(cell(client, *c) for c in columns)] for client in client_costs.CLIENTS)
    )


def _ratio(
    clients: Mapping[client_costs.Case, Cost], host: str, dialect: str, reply: str, client: str
) -> float:
    floor = clients[client_costs.Case(host, dialect, reply, client_costs.CLIENTS[0])]
    return clients[client_costs.Case(host, dialect, reply, client)].median / floor.median


def _targets(
    core: Mapping[core_costs.Case, Cost], clients: Mapping[client_costs.Case, Cost]
) -> Iterable[str]:
    cores = {
        f"core, {d}, {n} per chunk, {stage.partition(', ')[2]}": core[
            core_costs.Case(d, n, stage)
        ].median
        for stage in ("core, live", "core, word")
        for d in DIALECTS
        for n in (1, 8)
    }
    ratios = {
        f"client, {host}, {d}, {reply} per chunk": _ratio(clients, host, d, reply, "midthought")
        for host in ("sync", "async")
        for d in DIALECTS
        for reply in ("1", "8")
    }
    rows = [
        [what, f"≤ {limit}{unit}", f"{value:.2f}{unit}", "yes" if value <= limit else "no"]
        for measured, limit, unit in ((cores, CORE_US, " µs"), (ratios, CLIENT_RATIO, " × floor"))
        for what, value in measured.items()
    ]
    yield _table(["what", "target", "measured", "met"], rows)
