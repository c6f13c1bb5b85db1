"""How long a provider asks us to wait, read from a response's headers, JSON body or message.

Rule: pure.  Where to look and in which order is data, the policy's ``[[retry_hints]]`` rows; this
module only reads values.  The clock is the response's own ``Date``, else the time handed in.
Imports no httpx, asyncio, time, random, socket or os.

A value that is not a positive, finite wait of at most a year counts as not given: servers send
``0``, negative numbers, dates of the past, ``NaN`` and timestamps where seconds belong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Protocol

__all__ = ["HintRow", "retry_after_s"]


class HintRow(Protocol):
    """One place where a wait may be told; those that do not apply are ``None``.

    ``header`` is a header's name in any case. ``json_path`` is dotted, and a list on the way means
    each of its items (``error.details[].retryDelay``; the ``[]`` is for the reader). ``message`` is
    a regular expression, searched without case, whose groups joined are the value.

    ``unit`` says what a bare number is: ``ms``, ``s``, ``epoch_s`` or ``epoch_ms`` (a point in
    time). ``s_or_date`` also takes an HTTP or RFC 3339 date; ``duration`` and ``suffix`` are
    numbers with their units (``39s``, ``1m30.5s``, ``20 ms``, ``3 seconds``). Whatever the unit, a
    value that names its own is read by that. ``None`` is ``s``.
    """

    @property
    def header(self) -> str | None: ...
    @property
    def json_path(self) -> str | None: ...
    @property
    def message(self) -> str | None: ...
    @property
    def unit(self) -> str | None: ...


_LONGEST_S: Final = 366 * 86400.0
_MESSAGE_CHARS: Final = 4096

# What a bare number is: its unit in seconds, and whether it counts from now or from the epoch.
_UNITS: Final = {
    "ms": (0.001, True),
    "s": (1.0, True),
    "s_or_date": (1.0, True),
    "duration": (1.0, True),
    "suffix": (1.0, True),
    "epoch_s": (1.0, False),
    "epoch_ms": (0.001, False),
}
_SUFFIXES: Final = {
    word: seconds
    for seconds, words in {
        0.001: "ms msec msecs millisecond milliseconds",
        1.0: "s sec secs second seconds",
        60.0: "m min mins minute minutes",
        3600.0: "h hr hrs hour hours",
        86400.0: "d day days",
    }.items()
    for word in words.split()
}
_NUMBER: Final = re.compile(r"\d{1,20}(?:\.\d{1,20})?|\.\d{1,20}", re.ASCII)
_PART: Final = re.compile(rf"({_NUMBER.pattern})\s*([a-z]+)[\s,]*", re.ASCII | re.IGNORECASE)


def retry_after_s(
    rows: Iterable[HintRow],
    headers: Mapping[str, str],
    body: Any = None,
    message: str = "",
    *,
    wall_now: float | None = None,
) -> float | None:
    """Return the wait in seconds that the first row with a usable value tells, else ``None``.

    ``body`` is the decoded JSON of the response, ``message`` the provider's error text (its first
    4,096 characters are searched), ``wall_now`` seconds since the epoch, used for dates when the
    response has no readable ``Date``. Never raises for what a server sent; ``ValueError`` for a
    row with a unit that does not exist.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    now = _date(lowered.get("date", ""))
    if now is None:
        now = wall_now
    for row in rows:
        unit = row.unit or "s"
        if unit not in _UNITS:
            known = ", ".join(_UNITS)
            raise ValueError(f"retry hint: unknown unit {unit!r}, expected one of: {known}")
        for value in _values(row, lowered, body, message[:_MESSAGE_CHARS]):
            wait_s = _wait(value, unit, now)
            if wait_s is not None and 0 < wait_s <= _LONGEST_S:
                return wait_s
    return None


def _values(row: HintRow, headers: Mapping[str, str], body: Any, message: str) -> Iterator[object]:
    if row.header is not None:
        yield headers.get(row.header.lower())
    if row.json_path is not None:
        yield from _at(body, row.json_path.replace("[]", "").split("."))
    if row.message is not None:
        for match in re.finditer(row.message, message, re.IGNORECASE):
            yield "".join(group or "" for group in match.groups())


def _at(node: Any, steps: list[str]) -> Iterator[object]:
    """Every value at the end of the path, in the order of the body."""
    if isinstance(node, list):
        for item in node:
            yield from _at(item, steps)
    elif not steps:
        yield node
    elif isinstance(node, dict) and steps[0] in node:
        yield from _at(node[steps[0]], steps[1:])


def _wait(value: object, unit: str, now: float | None) -> float | None:
    """The wait in seconds, perhaps not usable; ``None`` where the value cannot be read."""
    number = _number(value)
    if number is not None:
        seconds, from_now = _UNITS[unit]
        if from_now:
            return number * seconds
        return None if now is None else number * seconds - now
    if not isinstance(value, str):
        return None
    duration_s = _duration(value.strip())
    if duration_s is not None or unit != "s_or_date":
        return duration_s
    then = _date(value.strip())
    return None if then is None or now is None else then - now


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if _NUMBER.fullmatch(value.strip()) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _duration(text: str) -> float | None:
    """``1m30.5s`` as 90.5; ``None`` unless all of it is numbers with known units."""
    total_s, end = 0.0, 0
    while part := _PART.match(text, end):
        seconds = _SUFFIXES.get(part[2].lower())
        if seconds is None:
            return None
        total_s, end = total_s + float(part[1]) * seconds, part.end()
    return total_s if text and end == len(text) else None


def _date(text: str) -> float | None:
    """Seconds since the epoch of an HTTP date (all three forms) or an RFC 3339 one."""
    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            moment = read(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None
