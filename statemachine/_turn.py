"""What a turn knows about itself: the model the transition table moves, and the list of attempts.

Plain state without behaviour of its own; ``_recovery`` is the only writer. Guards read it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from midthought.policies import Final, How, Rule, Stop

from ._commit import Commit
from ._effects import Request
from ._failure import Failure

__all__ = ["Attempt", "Plan", "Turn"]


class Attempt(msgspec.Struct):
    """One upstream request of a turn."""

    number: int
    how: How | Literal["original"]
    strategy: str | None = None
    rule: str | None = None
    """The rule that asked for it."""
    delay_s: float = 0.0
    """How long was waited before it."""
    failure: Failure | None = None
    stop: Stop | None = None
    received_chars: int = 0
    kept_chars: int = 0


class Plan(msgspec.Struct):
    """What a rule's action comes to: made while committing, carried out after the wait."""

    number: int
    rule: Rule
    how: How
    uses: int
    asks: list[str] = []
    """Hooks that still have to answer."""
    asked_at: float = 0.0
    request: Request | None = None
    strategy: str | None = None
    delay_s: float = 0.0
    waited: bool = False
    anew: bool = False
    """What was shown is taken back first."""


class Turn:
    """Facts of the turn as of now; satisfies ``GuardFacts``."""

    def __init__(self, state: str, no_progress_limit: int) -> None:
        self.state = state
        self.no_progress_limit = no_progress_limit
        self.attempts: list[Attempt] = []
        self.failure: Failure | None = None
        """The failure that is being dealt with, or that ended the turn."""
        self.stop: Stop = Stop.end
        self.reason = ""
        self.outcome: Final | None = None
        self.incomplete = False
        self.decided = Commit()
        self.rule: Rule | None = None
        self.plan: Plan | None = None
        self.idle_continuations = 0
        self.in_a_row = 0
        self.wait_fits = True
        self.retry_at_s: float | None = None
        self.late_events = 0
        self.hint: str | None = None

    @property
    def failed(self) -> bool:
        """The attempt ended by a failure, not by a stop of the model."""
        return self.failure is not None

    @property
    def whole_tool_calls(self) -> int:
        """Whole tool calls that commit keeps."""
        return self.decided.whole_calls

    @property
    def rule_taken(self) -> bool:
        """A rule was chosen whose action goes on with the turn."""
        return self.rule is not None and self.rule.action != "stop"

    @property
    def accepts_partial(self) -> bool:
        """The chosen action is ``finish``."""
        return self.plan is not None and self.plan.how == "finish"
