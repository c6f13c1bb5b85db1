"""Guards of the machine: registered yes/no questions about a turn.

A guard gets the turn's facts and must answer with a real ``bool``. Names a policy may use are
checked at load; that each has a function here is checked at import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from midthought.policies import GUARDS as NAMES
from midthought.policies import register_guard_name

__all__ = ["GUARDS", "Guard", "GuardFacts", "register_guard"]


class GuardFacts(Protocol):
    """What a guard may ask; all of it is settled before a trigger fires."""

    @property
    def failed(self) -> bool:
        """The attempt ended by a failure, not by a stop of the model."""

    @property
    def whole_tool_calls(self) -> int:
        """Whole tool calls that commit keeps."""

    @property
    def rule_taken(self) -> bool:
        """A rule was chosen whose action goes on with the turn."""

    @property
    def accepts_partial(self) -> bool:
        """The chosen action is ``finish``."""

    @property
    def idle_continuations(self) -> int:
        """Continuations in a row that released nothing."""

    @property
    def no_progress_limit(self) -> int:
        """The policy's bound on them; 0: none."""

    @property
    def wait_fits(self) -> bool:
        """The chosen wait is within ``max_retry_after_s`` and the deadline."""


Guard = Callable[[GuardFacts], bool]


def _turn_complete(turn: GuardFacts) -> bool:
    """Did the attempt fail after a whole tool call that is kept?"""
    return turn.failed and turn.whole_tool_calls > 0


def _rule_taken(turn: GuardFacts) -> bool:
    """Does a rule apply that is legal, has budget left and goes on with the turn?"""
    return turn.rule_taken


def _stopped_by_model(turn: GuardFacts) -> bool:
    """Did the model stop by itself, so that nothing failed?"""
    return not turn.failed


def _accepts_partial(turn: GuardFacts) -> bool:
    """Is the chosen action `finish`, which takes the partial reply as the turn?"""
    return turn.accepts_partial


def _no_progress(turn: GuardFacts) -> bool:
    """Did `limits.no_progress` continuations in a row end by themselves with nothing new?"""
    return 0 < turn.no_progress_limit <= turn.idle_continuations


def _wait_too_long(turn: GuardFacts) -> bool:
    """Would the waits come to more than `limits.wait_s`, or end after the deadline?"""
    return not turn.wait_fits


#: name -> question; the docstring puts it in words
GUARDS: dict[str, Guard] = {
    "turn_complete": _turn_complete,
    "recoverable": _rule_taken,
    "needs_recovery": _rule_taken,
    "stopped_by_model": _stopped_by_model,
    "accepts_partial": _accepts_partial,
    "no_progress": _no_progress,
    "wait_too_long": _wait_too_long,
}

if set(GUARDS) != set(NAMES):
    raise RuntimeError(f"guards without a function or a name: {sorted(set(GUARDS) ^ set(NAMES))}")


def register_guard(name: str, guard: Guard) -> None:
    """Add a host's guard; policies that name it must be loaded after this call.

    Raises ``ValueError`` if the name is taken or is no identifier.
    """
    if name in GUARDS or not name.isidentifier() or name.startswith("not_"):
        raise ValueError(
            f"guard name {name!r} cannot be used: taken, no identifier, or begins with 'not_'"
        )
    GUARDS[name] = guard
    register_guard_name(name)
