"""The transition table, read from the policy and run by ``transitions``; compiled once per policy.

One compiled machine serves every turn and thread: the turn is passed to ``trigger`` as the model
and never added to the machine (``add_model`` would keep it alive). Only changes of state fire
triggers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, cast

from transitions import EventData, Machine

from midthought.policies import Final, Policy, Role, Transition, policy_digest

from ._guards import GUARDS, Guard, GuardFacts

__all__ = ["InvalidTransition", "Table", "compile_table"]

# Each step of the library logs two INFO lines; our evidence is the records.
logging.getLogger("transitions").setLevel(logging.WARNING)


class InvalidTransition(RuntimeError):
    """A trigger that the table does not know in this state: a defect of the host or the policy."""


class _Model(Protocol):
    state: str


class Table:
    """The compiled machine of one policy."""

    def __init__(self, policy: Policy) -> None:
        table = policy.machine
        self.initial = table.initial
        self.digest = policy_digest(policy)[:12]
        self.roles: dict[str, Role] = {s.name: s.role for s in table.states}
        self.outcomes: dict[str, Final] = {
            s.name: cast(Final, s.outcome or s.name) for s in table.states if s.role == "final"
        }
        self.state_of = {s.role: s.name for s in reversed(table.states)}
        self._accepted: dict[str, tuple[str, ...]] = {}
        for row in table.transitions:
            known = self._accepted.get(row.source, ())
            if row.trigger not in known:
                self._accepted[row.source] = (*known, row.trigger)
        machine = Machine(
            model=None,
            states=list(self.roles),
            initial=None,
            transitions=[_row(row) for row in table.transitions],
            auto_transitions=False,
            send_event=True,
        )
        self._fire = {name: event.trigger for name, event in machine.events.items()}

    def accepts(self, state: str) -> tuple[str, ...]:
        """Triggers that have a row in ``state``, in the order of the table."""
        return self._accepted.get(state, ())

    def fire(self, turn: _Model, trigger: str) -> None:
        """Move ``turn`` by ``trigger``; raises ``InvalidTransition`` where there is no row."""
        if trigger not in self.accepts(turn.state):
            raise InvalidTransition(
                f"cannot handle {trigger!r} in state {turn.state!r} "
                f"(accepted: {', '.join(self.accepts(turn.state)) or 'nothing, it is final'})"
            )
        self._fire[trigger](turn)


def _row(row: Transition) -> dict[str, Any]:
    return {
        "trigger": row.trigger,
        "source": row.source,
        "dest": row.source if row.dest == "=" else row.dest,
        "conditions": [_condition(name) for name in row.when],
    }


def _condition(name: str) -> Callable[[EventData], bool]:
    wanted = not name.startswith("not_")
    guard: Guard = GUARDS[name.removeprefix("not_")]
    # The library takes any truthy answer for a yes; a guard that returns None is a defect.
    return lambda event: bool(guard(cast(GuardFacts, event.model))) is wanted


_MOST_COMPILED = 256
_compiled: dict[int, tuple[Policy, Table]] = {}


def compile_table(policy: Policy) -> Table:
    """The table of ``policy``; the same object for the same policy object."""
    found = _compiled.get(id(policy))
    if found is None or found[0] is not policy:
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()  # a host that makes a policy per call must not grow
        found = (policy, Table(policy))
        _compiled[id(policy)] = found
    return found[1]
