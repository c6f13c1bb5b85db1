"""The proof of a policy: all that is wrong with it, its worst case, and what was looked at.

A proof and no sample: every way through the machine, every situation that a rule can tell apart,
every count left or used up. Errors that the loader finds by itself are findings like others.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from midthought.policies import ACTIONS, Fault, PolicyError, PolicySource, load_source

from ._answers import answers
from ._content_proof import content_leads
from ._finding import Finding
from ._rule_proof import Lead, rule_leads
from ._walk import Walk, walk
from ._worst import WorstCase, worst_case

__all__ = ["Proof", "is_unreadable", "prove", "prove_source"]


class Proof(NamedTuple):
    """What was found out about one policy."""

    policy: str
    file: str
    findings: tuple[Finding, ...]
    worst: WorstCase | None
    """Of its models without an entry of their own; ``None`` where it cannot be loaded."""
    by_models: tuple[tuple[tuple[str, ...], WorstCase], ...] = ()
    """Worst cases of entries of ``[[models]]`` that differ, by their patterns."""
    states: int = 0
    rows: int = 0
    rules: int = 0
    situations: int = 0

    @property
    def is_safe(self) -> bool:
        """No finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)


def prove(source: str | os.PathLike[str]) -> Proof:
    """Load and prove a policy; faults of the loader are findings too."""
    try:
        found = load_source(source)
    except PolicyError as error:
        faults = tuple(Finding("load", fault, error.name) for fault in error.faults)
        return Proof(error.name, str(source), faults, None)
    return prove_source(found)


def is_unreadable(proof: Proof) -> bool:
    """What was named is no policy file at all: nothing in it could be looked at."""
    whole = [finding.fault for finding in proof.findings if finding.kind == "load"]
    return bool(whole) and all(_of_a_file(fault) for fault in whole)


def _of_a_file(fault: Fault) -> bool:
    return fault.path in ("", "schema_version")


def prove_source(source: PolicySource) -> Proof:
    """Prove a policy that is loaded, by itself and under each of its ``[[models]]`` entries."""
    policy = source.policy
    worst = worst_case(policy)
    findings = [_placed(source, lead) for lead in _leads(source)]
    told = {finding.fault for finding in findings}
    by_models: list[tuple[tuple[str, ...], WorstCase]] = []
    for entry in source.entries():
        mine = [_placed(entry, lead)._replace(policy=policy.name) for lead in _leads(entry)]
        findings += [finding for finding in mine if finding.fault not in told]
        if (other := worst_case(entry.policy)) != worst:
            by_models.append((entry.models, other))
    return Proof(
        policy=policy.name,
        file=source.file,
        findings=tuple(dict.fromkeys(findings)),
        worst=worst,
        by_models=tuple(by_models),
        states=len(policy.machine.states),
        rows=len(policy.machine.transitions),
        rules=len(policy.rules),
        situations=sum(answers(policy).counted.values()),
    )


def _leads(source: PolicySource) -> Iterator[Lead]:
    yield from _machine_leads(source)
    yield from rule_leads(source.policy, answers(source.policy))
    yield from content_leads(source.policy)


def _machine_leads(source: PolicySource) -> Iterator[Lead]:
    policy = source.policy
    finishes = any(ACTIONS[rule.action].how == "finish" for rule in policy.rules)
    whole, found = walk(policy.machine), walk(policy.machine, finishes=finishes)
    real = {(flaw.kind, flaw.place) for flaw in found.flaws}
    for flaw in whole.flaws:
        kind = flaw.kind if (flaw.kind, flaw.place) in real else "sleeping-flaw"
        hint = f"{flaw.hint} (way: {flaw.way})"
        yield Lead(kind, flaw.place, flaw.found, flaw.expected, hint)
    if found.flaws:
        return  # what is not reached behind a flaw says nothing
    yield from _unreached(source, whole)
    if found.long_waits:
        place = next(at for at in sorted(found.rows) if _is_wait(source, at))
        hint = "nothing to do if that is meant"
        text = f"a state of role wait for waits over limits.wait_s = {policy.limits.wait_s:g}"
        path = ("machine", "transitions", place, "dest")
        yield Lead("slow-wait", path, text, "an end of the turn", hint)


def _is_wait(source: PolicySource, place: int) -> bool:
    row = source.policy.machine.transitions[place]
    roles = {state.name: state.role for state in source.policy.machine.states}
    return row.trigger == "committed" and roles.get(row.dest) == "wait"


def _unreached(source: PolicySource, found: Walk) -> Iterator[Lead]:
    machine = source.policy.machine
    for place, state in enumerate(machine.states):
        if state.name not in found.states:
            hint = "lead a row there whose guards can hold, or take the state out"
            path = ("machine", "states", place)
            yield Lead("unreachable-state", path, f"{state.name!r}", "a way to it", hint)
    for place, row in enumerate(machine.transitions):
        if row.when and place not in found.rows and row.source in found.states:
            text = f"{row.trigger!r} in {row.source!r} when {' and '.join(row.when)}"
            hint = "ask for less, put it first in its cell, or take it out"
            path = ("machine", "transitions", place)
            own = source.fault(path, "", "", "").file == source.file
            kind = "unreachable-row" if own else "overridden-row"
            yield Lead(kind, path, text, "guards that can all say yes", hint)


def _placed(source: PolicySource, lead: Lead) -> Finding:
    fault = source.fault(lead.path, lead.found, lead.expected, lead.hint)
    return Finding(lead.kind, fault, source.policy.name, source.models)
