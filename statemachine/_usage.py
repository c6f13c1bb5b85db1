"""The usage ledger: counters per attempt, then summed over the turn.

Within an attempt the last value of each counter wins (they are cumulative, and input can shrink). A
cut attempt's output is estimated from what arrived and marked; nothing is invented as exact.
"""

from __future__ import annotations

import msgspec

from ._events import Usage

__all__ = ["AttemptUsage", "Ledger", "TurnUsage"]


class AttemptUsage(msgspec.Struct):
    """Counters of one attempt."""

    attempt: int
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    estimated_output: bool = False
    """``output`` is an estimate that does not overstate."""
    final: bool = False
    """The provider's last word: the attempt ended with its stop."""


class TurnUsage(msgspec.Struct, frozen=True):
    """Sums over the attempts of a turn. ``incomplete``: something was not reported or estimated."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    incomplete: bool
    shown_input: int
    """Input of the first attempt: what the caller's own request cost without recovery."""
    discarded_output: int
    """Output tokens that were paid for and not kept."""


class Ledger:
    """Collects usage; one entry per attempt."""

    def __init__(self) -> None:
        self.attempts: list[AttemptUsage] = []
        self._discarded = 0

    def begin(self, attempt: int) -> None:
        """Open the entry of an attempt."""
        self.attempts.append(AttemptUsage(attempt))

    def report(self, usage: Usage) -> bool:
        """Take the attempt's counters as of now; True if one of them grew."""
        entry, grew = self.attempts[-1], False
        for name in usage.__struct_fields__:
            value = getattr(usage, name)
            if value is not None:
                grew = grew or value > (getattr(entry, name) or 0)
                setattr(entry, name, value)
        return grew

    def end(self, *, complete: bool, estimate: int) -> None:
        """The attempt is over; ``estimate`` is its output in tokens if it has to be estimated."""
        entry = self.attempts[-1]
        entry.final = complete
        # A cut attempt's last report is often the first one (one or two tokens): take the larger.
        if not complete and estimate > (entry.output or 0):
            entry.output, entry.estimated_output = estimate, True

    def discard(self, tokens: int) -> None:
        """Count output that was paid for and not kept."""
        self._discarded += tokens

    def total(self) -> TurnUsage:
        """Sum of all attempts so far."""

        def summed(name: str) -> int:
            return sum(getattr(a, name) or 0 for a in self.attempts)

        first = self.attempts[0].input if self.attempts else 0
        return TurnUsage(
            input=summed("input"),
            output=summed("output"),
            cache_read=summed("cache_read"),
            cache_write=summed("cache_write"),
            reasoning=summed("reasoning"),
            incomplete=any(
                not a.final or a.input is None or a.output is None for a in self.attempts
            ),
            shown_input=first or 0,
            discarded_output=self._discarded,
        )
