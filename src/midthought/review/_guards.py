"""What the engine's guards say, asked of the engine itself.

A small machine with one cell for each guard is compiled as every policy's is; where it goes is what
the guard says. So a guard means here what it means in a turn.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from midthought.policies import GUARDS, MachineTable, Policy, State, Transition
from midthought.statemachine import Table

__all__ = ["GuardFacts", "says"]


class GuardFacts(NamedTuple):
    """What guards may ask of a turn."""

    failed: bool
    whole_tool_calls: int
    rule_taken: bool
    accepts_partial: bool
    idle_continuations: int
    no_progress_limit: int
    wait_fits: bool


class _Model:
    """A turn in the state ``asked``."""

    def __init__(self, facts: GuardFacts) -> None:
        self.state = "asked"
        for name, value in facts._asdict().items():
            setattr(self, name, value)


@cache
def _table() -> Table:
    rows = [
        Transition(trigger=guard, source="asked", dest=dest, when=when)
        for guard in GUARDS
        for dest, when in (("yes", (guard,)), ("no", ()))
    ]
    states = (
        State(name="asked", role="stream"),
        State(name="yes", role="final", outcome="completed"),
        State(name="no", role="final", outcome="exhausted"),
    )
    machine = MachineTable(initial="asked", states=states, transitions=tuple(rows))
    return Table(Policy(name="guards", dialect="none", machine=machine))


@cache
def says(guard: str, facts: GuardFacts) -> bool:
    """The answer of a guard of the engine."""
    model = _Model(facts)
    _table().fire(model, guard)
    return model.state == "yes"
