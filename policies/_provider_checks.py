"""What can be wrong with the facts about a provider: rows, hints, patterns, templates.

Imports the schema, no world.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ._errors import listed, nearest
from ._lines import Path
from ._problem import Problem
from ._regex import regex_fault
from ._schema import Classify, Policy

__all__ = ["check_classify", "check_provider"]


def check_provider(policy: Policy) -> Iterator[Problem]:
    """Hints without a place or a number, expressions without a bound, slips in templates."""
    for check in (_hints, _patterns, _templates):
        yield from check(policy)


def check_classify(policy: Policy) -> Iterator[Problem]:
    """Rows that are never reached, because an earlier one takes all their failures."""
    seen: dict[frozenset[str], list[dict[str, Any]]] = {}
    for place, row in enumerate(policy.classify):
        facts = {key: value for key in _ASKED if (value := getattr(row, key))}
        earlier = (rows for keys, rows in seen.items() if keys <= facts.keys())
        if any(_takes(before, facts) for rows in earlier for before in rows):
            hint = "remove it, or move it before the row that takes its failures"
            found = "a row whose failures an earlier row takes"
            yield Problem(("classify", place), found, "a row that can be reached", hint)
        seen.setdefault(frozenset(facts), []).append(facts)


#: What a row asks for; the rest of it is what it sets on the failure.
_ASKED = tuple(Classify.model_fields.keys() - {"kind", "scope", "processed", "source"})


def _takes(earlier: dict[str, Any], later: dict[str, Any]) -> bool:
    """Whether every failure of the later row is one of the earlier: it asks for no less."""
    for key, asked in earlier.items():
        given = later[key]
        if isinstance(asked, tuple):
            if not set(given) <= set(asked):
                return False
        elif given != asked:
            return False
    return True


def _hints(policy: Policy) -> Iterator[Problem]:
    for place, row in enumerate(policy.retry_hints):
        given = [key for key in ("header", "json_path", "message") if getattr(row, key)]
        if len(given) != 1:
            hint = "split it into one row for each place"
            found, expected = listed(given), "one of header, json_path, message"
            yield Problem(("retry_hints", place), found, expected, hint)


def _patterns(policy: Policy) -> Iterator[Problem]:
    for table in ("classify", "retry_hints"):
        for place, row in enumerate(getattr(policy, table)):
            if row.message and (reason := regex_fault(row.message)):
                path: Path = (table, place, "message")
                yield Problem(path, reason.found, "a bounded regular expression", reason.hint)
    for place, hint_row in enumerate(policy.retry_hints):
        pattern = hint_row.message
        if pattern and regex_fault(pattern) is None and not re.compile(pattern).groups:
            hint = r"put brackets round it, as try again in (\d{1,6} ?(?:ms|s))"
            path = ("retry_hints", place, "message")
            yield Problem(path, "an expression without a group", "a group for the wait", hint)


def _templates(policy: Policy) -> Iterator[Problem]:
    """A slip in a field's name would be sent to the model as it stands."""
    known = ("tail", "seam")
    for name in re.findall(r"\{(\w{1,20})\}", policy.continuation.instruct.message):
        if name not in known and (close := nearest(name, known)):
            path: Path = ("continuation", "instruct", "message")
            yield Problem(path, f"{{{name}}}", "{tail} and {seam}", f"did you mean {{{close}}}?")
