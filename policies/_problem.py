"""One thing that is wrong with a policy, by its path in the policy.

Imports no world.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ._errors import listed, nearest
from ._lines import Path

__all__ = ["Problem", "unknown"]


class Problem(NamedTuple):
    """A fault before its file and line are looked up."""

    path: Path
    found: str
    expected: str
    hint: str


def unknown(path: Path, kind: str, word: str, known: Iterable[str]) -> Problem:
    """A name that means nothing here: the known ones, and the nearest of them."""
    words = tuple(known)
    close = nearest(word, words)
    hint = f"did you mean {close!r}?" if close else f"use one of the known names for a {kind}"
    return Problem(path, f"unknown {kind} {word!r}", listed(words), hint)
