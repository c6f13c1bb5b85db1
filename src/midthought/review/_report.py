"""A proof as a report: text for people, plain data for programs, SARIF for code review.

Writes nothing itself. SARIF is version 2.1.0 (OASIS Standard, 27 March 2020).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from midthought import __version__, policies

from ._finding import KINDS, Finding
from ._prove import Proof
from ._worst import WorstCase

__all__ = ["as_row", "as_sarif", "as_text", "summary"]

_LEVELS = ("error", "warning", "note")


def _place(finding: Finding) -> str:
    fault = finding.fault
    file = _near(fault.file)
    if os.path.isabs(file) and Path(file).parent == Path(str(resources.files(policies))):
        file = f"midthought/policies/{Path(file).name}"  # where it is installed says nothing
    return f"{file}:{fault.line}" if fault.line else file


def _near(file: str) -> str:
    """The file from here where it is below here, else as it is."""
    if not file:
        return file
    path = os.path.abspath(file)
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


# --- text -----------------------------------------------------------------------------------------


def as_text(proof: Proof, *, notes: bool = False) -> str:
    """A report for people; notes are counted unless they are asked for."""
    lines = [f"{proof.policy}: {'ok' if proof.is_safe else 'not proved'}"]
    if proof.worst is not None:
        lines += _looked_at(proof)
        lines += [f"  {line}" for line in _worst(proof.worst)]
    for models, worst in proof.by_models:
        lines.append(f"  for {_models(models)}")
        lines += [f"    {line}" for line in _worst(worst)]
    shown = [f for f in proof.findings if notes or f.severity != "note"]
    for finding in sorted(shown, key=lambda f: _LEVELS.index(f.severity)):
        lines += _finding(finding)
    hidden = len(proof.findings) - len(shown)
    if hidden:
        lines.append(f"  {_count(hidden, 'note')} (--notes shows them)")
    return "\n".join(lines) + "\n"


def _looked_at(proof: Proof) -> Iterator[str]:
    yield (
        f"  looked at   {_count(proof.states, 'state')}, {_count(proof.rows, 'row')}, "
        f"{_count(proof.rules, 'rule')}, {_count(proof.situations, 'situation')}"
    )


def _worst(worst: WorstCase) -> Iterator[str]:
    yield f"requests    at most {worst.requests} in one turn"
    yield (
        f"waits       at most {_seconds(worst.wait_s)}, {_seconds(worst.plain_wait_s)} without "
        f"jitter, {_seconds(worst.hinted_wait_s)} with hints of the provider"
    )
    yield (
        f"paid twice  at most {_count(worst.repeats, 'time')} the output tokens of one request"
        if worst.repeats
        else "paid twice  nothing"
    )


def _finding(finding: Finding) -> Iterator[str]:
    fault, kind = finding.fault, KINDS[finding.kind]
    where = ": ".join(part for part in (_place(finding), fault.path) if part)
    yield f"  {finding.severity}: {where}: {kind.title.lower()} [{finding.kind}]"
    yield f"    found {fault.found}, expected {fault.expected}"
    if finding.models:
        yield f"    only for {_models(finding.models)}"
    yield f"    why: {kind.why}"
    yield f"    fix: {fault.hint}"


def _models(models: Sequence[str]) -> str:
    more = len(models) - 3
    return ", ".join(models[:3]) + (f" and {more} more" if more > 0 else "")


def _seconds(seconds: float) -> str:
    return f"{seconds:.4g} s" if seconds < 10_000 else f"{seconds:.0f} s"


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def summary(proofs: Sequence[Proof]) -> str:
    """One line about all of them."""
    counts = [
        _count(n, level)
        for level in _LEVELS
        if (n := sum(f.severity == level for proof in proofs for f in proof.findings))
    ]
    good = sum(proof.is_safe for proof in proofs)
    found = ", ".join(counts) or "nothing found"
    word = "policy" if len(proofs) == 1 else "policies"
    return f"{good} of {len(proofs)} {word} proved; {found}"


# --- plain data -----------------------------------------------------------------------------------


def as_row(proof: Proof) -> dict[str, Any]:
    """A proof as JSON data."""
    return {
        "policy": proof.policy,
        "file": proof.file,
        "proved": proof.is_safe,
        "worst": _worst_row(proof.worst) if proof.worst is not None else None,
        "worst_by_models": [
            {"models": list(models), **_worst_row(worst)} for models, worst in proof.by_models
        ],
        "looked_at": {
            "states": proof.states,
            "rows": proof.rows,
            "rules": proof.rules,
            "situations": proof.situations,
        },
        "findings": [_finding_row(finding) for finding in proof.findings],
    }


def _worst_row(worst: WorstCase) -> dict[str, Any]:
    """Without a bound is ``null``: JSON has no infinity."""
    endless = float("inf")
    return {name: None if value == endless else value for name, value in worst._asdict().items()}


def _finding_row(finding: Finding) -> dict[str, Any]:
    fault = finding.fault
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "file": fault.file,
        "line": fault.line,
        "path": fault.path,
        "found": fault.found,
        "expected": fault.expected,
        "why": KINDS[finding.kind].why,
        "fix": fault.hint,
        "models": list(finding.models),
    }


# --- SARIF ----------------------------------------------------------------------------------------


def as_sarif(proofs: Sequence[Proof]) -> dict[str, Any]:
    """All proofs as one SARIF log; a finding that several policies inherit is told once."""
    told: dict[tuple[Any, ...], Finding] = {}
    for proof in proofs:
        for finding in proof.findings:
            told.setdefault((finding.kind, finding.fault), finding)
    driver = {
        "name": "midthought",
        "version": __version__,
        "semanticVersion": __version__,
        "rules": [_sarif_rule(name) for name in KINDS],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding) for finding in told.values()],
    }
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }


def _sarif_rule(name: str) -> dict[str, Any]:
    kind = KINDS[name]
    return {
        "id": name,
        "name": "".join(word.capitalize() for word in name.split("-")),
        "shortDescription": {"text": f"{kind.title}."},
        "fullDescription": {"text": kind.why},
        "defaultConfiguration": {"level": kind.severity},
    }


def _sarif_result(finding: Finding) -> dict[str, Any]:
    fault = finding.fault
    title = KINDS[finding.kind].title
    text = f"{title}: found {fault.found}, expected {fault.expected}; {fault.hint}"
    place: dict[str, Any] = {"artifactLocation": {"uri": _uri(fault.file)}}
    if fault.line:
        place["region"] = {"startLine": fault.line}
    location: dict[str, Any] = {"physicalLocation": place} if fault.file else {}
    if fault.path:
        location["logicalLocations"] = [{"fullyQualifiedName": fault.path, "kind": "member"}]
    return {
        "ruleId": finding.kind,
        "ruleIndex": list(KINDS).index(finding.kind),
        "level": finding.severity,
        "message": {"text": text},
        "locations": [location] if location else [],
    }


def _uri(file: str) -> str:
    """Relative to here where it is below here, so that a code review finds it in the checkout."""
    near = _near(file)
    if os.path.isabs(near):
        return Path(near).as_uri()
    return quote(near.replace(os.sep, "/"))
