"""What is wrong with a policy file: every fault with its place, and what to do about it.

Imports nothing of midthought.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

__all__ = ["Fault", "PolicyError", "listed", "nearest"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a policy."""

    file: str
    """The file, or an empty string where none was found."""
    line: int | None
    """Line in it, counted from 1, where it is known."""
    path: str
    """Where in the file, as ``rules[3].backoff``; rows count from 0. Empty: the file as a whole."""
    found: str
    """What stands there."""
    expected: str
    """What may stand there."""
    hint: str
    """What to do next."""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line and self.file else self.file
        where = ": ".join(part for part in (place, self.path) if part)
        fault = f"found {self.found}, expected {self.expected}"
        return f"{where}: {fault}; {self.hint}" if where else f"{fault}; {self.hint}"


class PolicyError(ValueError):
    """A policy cannot be used; ``faults`` holds everything that is wrong with it, in file order."""

    def __init__(self, name: str, faults: Iterable[Fault]) -> None:
        """Collect the faults of the policy ``name``, each of them once."""
        self.name = name
        self.faults: tuple[Fault, ...] = tuple(dict.fromkeys(faults))
        count = "1 fault" if len(self.faults) == 1 else f"{len(self.faults)} faults"
        lines = [f"{count} in policy {name!r}", *(f"  {fault}" for fault in self.faults)]
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[PolicyError], tuple[str, tuple[Fault, ...]]]:
        """Pickle by name and faults, so that a worker process can hand it on."""
        return type(self), (self.name, self.faults)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that ``word`` is most likely a slip of."""
    matches = get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def listed(words: Sequence[str]) -> str:
    """Known words as an error shows them."""
    return ", ".join(words) if words else "nothing (none is defined)"
