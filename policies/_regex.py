"""Whether a regular expression of a policy is safe to run on what a stranger's server sends.

It must compile, and its work must be bounded: no ``*``, ``+`` or ``{n,}``, no repetition of a group
that itself repeats or branches, and no more than so many ways to match at one place. Imports no
world.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = ["MOST_WAYS", "regex_fault"]

#: Product of the ranges of the repetitions in a row: ways in which one place can be tried.
MOST_WAYS = 2_000

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"  # an escape, a character class
    r"|\((?:\?(?:P?<?[=!:]|P<\w+>|P=\w+|[a-zA-Z-]+[:)])?)?"  # a group's beginning
    r"|\)\{\d*,?\d*\}|\)[?*+]?"  # its end, with the repetition of the group
    r"|\{\d*,?\d*\}|.",
    re.DOTALL,
)
_COUNT = re.compile(r"\{(\d*)(,?)(\d*)\}$")


class Reason(NamedTuple):
    """Why an expression is refused, and what to write in its place."""

    found: str
    hint: str


_UNBOUNDED = Reason("a repetition without an end", "write {0,n} or {1,n} in place of * and +")
_NESTED = Reason(
    "a repeated group that itself repeats or branches",
    "repeat single characters or classes only, or write the group out",
)
_FLAGS = Reason("inline flags", "leave them out; text is compared without case already")


@lru_cache(maxsize=1024)  # policies share most of their expressions
def regex_fault(pattern: str) -> Reason | None:
    """Why the expression may not be used, or ``None`` where it may."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return Reason(f"a regular expression that does not compile: {error}", "correct it")
    groups = [_Group()]
    for token in _TOKEN.findall(pattern):
        least, most = _repetition(token)
        if most is None:
            return _UNBOUNDED
        if token.startswith("(?") and token[2:3].isalpha() and token[2] != "P":
            return _FLAGS
        ways = most - least + 1
        if token.startswith("("):
            groups.append(_Group())
            continue
        if token.startswith(")"):
            inner = groups.pop()
            if inner.is_free and most > 1:
                return _NESTED
            groups[-1].is_free |= inner.is_free
            ways *= max(inner.ways, inner.best)
        groups[-1].add(token, ways)
    total = max(groups[-1].ways, groups[-1].best)
    if total > MOST_WAYS:
        hint = f"narrow the ranges until their product is at most {MOST_WAYS}"
        return Reason(f"repetitions with {total} ways to match at one place", hint)
    return None


class _Group:
    """An open group: the ways through its branch so far, and through the widest one before it."""

    def __init__(self) -> None:
        self.ways = 1
        self.best = 1
        self.is_free = False  # it repeats or branches

    def add(self, token: str, ways: int) -> None:
        if token == "|":
            self.best, self.ways = max(self.best, self.ways), 1
        self.ways *= ways
        self.is_free |= token == "|" or ways > 1


def _repetition(token: str) -> tuple[int, int | None]:
    """Least and most repeats that a token asks for; ``None``: no end. No repetition: (1, 1)."""
    if token.startswith(("\\", "[", "(")):
        return 1, 1
    if token[-1] in "*+":
        return 0, None
    if token[-1] == "?":
        return 0, 1
    if count := _COUNT.search(token):
        if count[2] and not count[3]:
            return 0, None
        return int(count[1] or 0), int(count[3] or count[1] or 0)
    return 1, 1
