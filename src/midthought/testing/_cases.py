"""Case files: one reported failure per line, with the script that reproduces it.

The format is that of a JSON Lines file whose records carry `id`, `kind`, `symptom` and
`repro` (`api`, `attempts`, `expect`, and `config`, `client`, `history` where the scene needs them).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ._errors import ScriptError, UnsupportedStep
from ._faults import unknown
from ._script import ENTRY_KEYS, Attempt, check


@dataclass(frozen=True)
class Case:
    """One case; `record` is the whole line, for what has no field here."""

    id: str
    kind: str
    dialect: str
    symptom: str
    expect: tuple[str, ...]
    record: Mapping[str, Any] = field(repr=False)

    @property
    def scene(self) -> Mapping[str, Any]:
        """`config`, `client` and `history` of the reproduction, those that it has."""
        repro = self.record["repro"]
        return {key: repro[key] for key in ("config", "client", "history") if key in repro}

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """The script. Raises UnsupportedStep where a loopback HTTP/1.1 server cannot play it,
        ScriptError where nothing could.
        """
        entries = self.record["repro"]["attempts"]
        strange = [
            f"attempts[{number}]: {unknown('key', key, ENTRY_KEYS)}"
            for number, entry in enumerate(entries)
            for key in sorted(entry.keys() - ENTRY_KEYS)
        ]
        if strange:
            raise ScriptError(strange)
        attempts = tuple(Attempt(**entry, dialect=self.dialect) for entry in entries)
        check(attempts)
        return attempts

    @property
    def needs(self) -> tuple[str, ...]:
        """What it takes that this server is not, without repetition; empty if it can be played."""
        try:
            _ = self.attempts
        except UnsupportedStep as error:
            return tuple(dict.fromkeys(need for _, need in error.needs))
        return ()


def load_cases(path: str | Path) -> list[Case]:
    """Every case of a JSON Lines file, in order; raises ScriptError naming each bad line."""
    cases: list[Case] = []
    faults: list[str] = []
    lines = Path(path).read_text("utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            cases.append(_case(json.loads(line)))
        except json.JSONDecodeError as error:
            faults.append(f"line {number}: not JSON: {error.msg} at column {error.colno}")
        except (KeyError, TypeError) as error:
            faults.append(f"line {number}: {_missing(error)}")
    if faults:
        raise ScriptError(faults)
    return cases


def _case(record: Mapping[str, Any]) -> Case:
    repro = record["repro"]
    attempts = repro["attempts"]
    if not _is_list_of_mappings(attempts) or not attempts:
        raise TypeError("repro.attempts must be a list of objects, one or more")
    return Case(
        id=record["id"],
        kind=record["kind"],
        dialect=repro["api"],
        symptom=record["symptom"],
        expect=tuple(repro["expect"]),
        record=record,
    )


def _is_list_of_mappings(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(entry, Mapping) for entry in value)


def _missing(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the key {error.args[0]!r} is missing"
    return str(error)
