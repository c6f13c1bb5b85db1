"""A policy as a graph: states and edges of its machine, and its ladder of rules.

Plain data that ``check``, ``diagram`` and ``diff`` share; knows no drawing and judges nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from midthought.policies import ACTIONS, Backoff, Policy, Role, Rule

__all__ = ["ALWAYS", "Edge", "Ladder", "Node", "Rung", "View", "ladder_of", "view_of"]

#: Triggers that lead out of every state that is not final; drawn as one note, not as edges.
ALWAYS = ("cancelled", "yielded", "deadline_passed")


class Node(NamedTuple):
    """A state."""

    name: str
    role: Role
    outcome: str | None
    """Of a final state."""
    initial: bool


class Edge(NamedTuple):
    """A row of the table; ``order`` counts the rows of its cell."""

    source: str
    dest: str
    trigger: str
    guards: tuple[str, ...]
    order: int
    note: str = ""
    """Limits and delays that belong to it."""


class View(NamedTuple):
    """The machine of a policy."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    always: tuple[tuple[str, str], ...]
    """(trigger, final state) that every live state has."""


class Rung(NamedTuple):
    """A rule as the ladder shows it."""

    rule: str
    when: str
    """Facts it asks for besides the kind, in words."""
    does: str
    """Action with its edits."""
    bound: str
    """Limit or budget, and the delays."""


class Ladder(NamedTuple):
    """For each failure kind or stop: the rules that can take it, in order."""

    title: str
    rows: tuple[tuple[str, tuple[Rung, ...]], ...]


def view_of(policy: Policy) -> View:
    """The machine with its limits on the edges."""
    machine = policy.machine
    final = {s.name for s in machine.states if s.role == "final"}
    nodes = tuple(
        Node(
            s.name,
            s.role,
            (s.outcome or s.name) if s.role == "final" else None,
            s.name == machine.initial,
        )
        for s in machine.states
    )
    edges: list[Edge] = []
    always: dict[tuple[str, str], None] = {}
    seen: dict[tuple[str, str], int] = {}
    roles = {s.name: s.role for s in machine.states}
    for row in machine.transitions:
        dest = row.source if row.dest == "=" else row.dest
        if row.trigger in ALWAYS and not row.when and dest in final:
            always[row.trigger, dest] = None
            continue
        cell = (row.source, row.trigger)
        seen[cell] = order = seen.get(cell, 0) + 1
        note = _note(policy, row.trigger, row.when, roles.get(dest, "final"))
        edges.append(Edge(row.source, dest, row.trigger, row.when, order, note))
    return View(policy.name, nodes, tuple(edges), tuple(always))


def _note(policy: Policy, trigger: str, guards: tuple[str, ...], to: Role) -> str:
    limits = policy.limits
    if "no_progress" in guards:
        return f"{limits.no_progress} in a row" if limits.no_progress else "off"
    if "wait_too_long" in guards:
        return f"over {limits.wait_s:g} s of waiting, or the deadline"
    if trigger == "committed" and to == "wait":
        return f"at most {limits.attempts} requests"
    return ""


def ladder_of(policy: Policy) -> Ladder:
    """Which rules answer what, with their budgets and delays."""
    rows: dict[str, list[Rung]] = {}
    for rule in policy.rules:
        rung = Rung(rule.name, _when(rule), _does(rule), _bound(policy, rule))
        kinds = [kind.value for kind in rule.on.failure] + [f"stop {s.value}" for s in rule.on.stop]
        for kind in kinds or ["any failure"]:
            rows.setdefault(kind, []).append(rung)
    for kind in policy.exhaust:
        rows.setdefault(kind.value, []).append(Rung("", "", "exhausted", "left so on purpose"))
    return Ladder(policy.name, tuple((kind, tuple(rungs)) for kind, rungs in rows.items()))


def _when(rule: Rule) -> str:
    on = rule.on
    facts: list[str] = []
    for name in ("partial", "attempt_visible", "turn_visible", "continuing", "should_retry"):
        wanted = getattr(on, name)
        if wanted is not None:
            facts.append(name if wanted else f"not {name}")
    for name in ("phase", "code", "status", "scope", "processed", "connection"):
        values = getattr(on, name)
        if values:
            facts.append(f"{name} {' or '.join(map(str, values))}")
    if on.in_a_row is not None:
        facts.append(f"{on.in_a_row} in a row")
    return ", ".join(facts)


def _does(rule: Rule) -> str:
    edits = [edit for edit in rule.edits if edit not in ACTIONS[rule.action].edits]
    return " + ".join([rule.action, *edits])


def _bound(policy: Policy, rule: Rule) -> str:
    parts: list[str] = []
    if rule.action == "stop":
        return ""
    if rule.budget is not None:
        parts.append(f"{policy.budgets[rule.budget].limit} of budget {rule.budget}")
    if rule.limit is not None:
        parts.append(f"at most {rule.limit}")
    if rule.limit_s is not None:
        parts.append(f"within {rule.limit_s:g} s")
    if rule.backoff is not None:
        parts.append(_delays(policy.backoff[rule.backoff]))
    return ", ".join(parts)


def _delays(spec: Backoff) -> str:
    first = [min(spec.initial_s * spec.factor**n, spec.max_s) for n in range(3)]
    shown = ", ".join(f"{s:g}" for s in first)
    jitter = {"none": "", "full": " (full jitter)", "equal": " (equal jitter)"}
    extra = jitter.get(str(spec.jitter), " (jitter)")
    return f"waits {shown} … {spec.max_s:g} s{extra}"
