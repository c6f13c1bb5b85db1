"""What recovery saved in a turn, in tokens.

rescued    output of attempts that broke, and that is part of the reply all the same
discarded  output that was paid for and is not part of it
restart    what the same breaks cost where each one starts the reply again from nothing: the output
           of this turn, plus at each break all that was kept by then; the input, once per request

A cut attempt reports no output, so it is estimated from its characters, and never overstated. Input
that a provider tells at the end only is unknown where an attempt was cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

from midthought import Reply

__all__ = ["Tally", "tally", "total"]


@dataclass(frozen=True)
class Tally:
    """Counts of one turn or several."""

    requests: int = 0
    breaks: int = 0
    input_tokens: int | None = 0
    output_tokens: int = 0
    rescued_tokens: int = 0
    discarded_tokens: int = 0
    restart_input_tokens: int | None = 0
    restart_output_tokens: int = 0


def tally(reply: Reply, chars_per_token: float) -> Tally:
    """The counts of a turn that has ended."""
    broken = [attempt for attempt in reply.attempts if attempt.failure is not None]
    usage, kept, again = reply.usage, 0.0, 0.0
    for attempt in broken:
        kept += attempt.kept_chars / chars_per_token
        again += kept
    known = all(entry.input is not None for entry in reply.usage_per_attempt)
    return Tally(
        requests=len(reply.attempts),
        breaks=len(broken),
        input_tokens=usage.input if known else None,
        output_tokens=usage.output,
        rescued_tokens=int(kept),
        discarded_tokens=usage.discarded_output,
        restart_input_tokens=usage.shown_input * (len(broken) + 1) if known else None,
        restart_output_tokens=usage.output + int(again),
    )


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum over turns; what is unknown in one is unknown in all."""
    rows = [asdict(row) for row in tallies]
    names = [field.name for field in fields(Tally)]
    sums: dict[str, Any] = {
        name: None if any(row[name] is None for row in rows) else sum(row[name] for row in rows)
        for name in names
    }
    return Tally(**sums)
