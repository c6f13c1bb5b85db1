"""Which rule answers a failure or a stop: the first that matches, is legal and has budget left.

Counts over one turn. Every rule that is looked at leaves a verdict, so that a record can say why.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from midthought.policies import ACTIONS, Action, Budget, Edit, How, Rule, Stop

from ._failure import Failure

__all__ = ["Chooser", "Facts", "Verdict", "rule_action"]

#: Edits that need a host's hook of the same name; without it a rule with them is not legal.
_HOOKED: dict[Edit, str] = {"compact": "compact", "drop_media": "drop_media"}
#: Edits that nothing in this engine can make yet, with what the record says about it.
_UNAVAILABLE: dict[Edit, str] = {
    "next_target": "no fallback target is set",
    "raise_cap": "the cap cannot be raised here",
}


class Facts(msgspec.Struct, frozen=True):
    """What rules may ask about the attempt that ended."""

    failure: Failure | None
    stop: Stop
    partial: bool
    attempt_partial: bool
    """Some of what is kept came with this attempt."""
    attempt_visible: bool
    turn_visible: bool
    continuing: bool
    in_a_row: int
    refusing: bool
    """The cut came inside a refusal."""
    resumable: bool
    """The provider can take the reply up itself."""
    strategies: tuple[str, ...]
    """Continuation strategies that this request allows now."""
    can_retract: bool
    hooks: Collection[str]
    attempts_left: int
    longest_wait_s: float
    """A hint above this is not waited for."""
    input_left: bool
    """One more request fits the bound on input tokens."""
    now: float


class Verdict(NamedTuple):
    """What became of one rule: ``taken``, or why not."""

    rule: str
    answer: str


def rule_action(rule: Rule) -> Action:
    """The rule's action with its own edits added."""
    action = ACTIONS[rule.action]
    return Action(action.how, (*action.edits, *rule.edits))


class Chooser:
    """The rules of a policy and what this turn has used of them."""

    def __init__(self, rules: Sequence[Rule], budgets: Mapping[str, Budget]) -> None:
        self._rules = rules
        self._budgets = budgets
        self.uses: dict[str, int] = {}
        self.drawn: dict[str, int] = {}
        self._first_use: dict[str, float] = {}
        self.struck: set[str] = set()
        """Rules a host hook refused for the failure at hand."""

    def choose(self, facts: Facts) -> tuple[Rule | None, list[Verdict]]:
        """The rule to take (which may be one that stops), and a verdict for each looked at."""
        verdicts: list[Verdict] = []
        for rule in self._rules:
            if not _matches(rule, facts):
                continue
            why_not = self._why_not(rule, facts)
            verdicts.append(Verdict(rule.name, why_not or "taken"))
            if why_not is None:
                return rule, verdicts
        return None, verdicts

    def _why_not(self, rule: Rule, facts: Facts) -> str | None:
        if rule.name in self.struck:
            return "refused by the host"
        return _illegal(rule, facts) or self._spent(rule, facts)

    def _spent(self, rule: Rule, facts: Facts) -> str | None:
        if rule.action == "stop":
            return None
        if rule.action != "finish":
            if facts.attempts_left <= 0:
                return "limits.attempts is used up"
            if not facts.input_left:
                return "limits.extra_input_tokens is used up"
            hint = facts.failure.retry_after_s if facts.failure is not None else None
            if hint is not None and hint > facts.longest_wait_s:
                return "the provider asks for a longer wait than limits.max_retry_after_s"
        if rule.limit is not None and self.uses.get(rule.name, 0) >= rule.limit:
            return "its limit is used up"
        if rule.budget is not None:
            if self.drawn.get(rule.budget, 0) >= self._budgets[rule.budget].limit:
                return f"budget {rule.budget} is used up"
        if rule.limit_s is not None:
            first = self._first_use.get(rule.name, facts.now)
            if facts.now - first >= rule.limit_s:
                return "its limit_s has passed"
        return None

    def left(self, rule: Rule) -> int | None:
        """Uses of this rule that are left; ``None``: no bound of its own."""
        bounds = []
        if rule.limit is not None:
            bounds.append(rule.limit - self.uses.get(rule.name, 0))
        if rule.budget is not None:
            bounds.append(self._budgets[rule.budget].limit - self.drawn.get(rule.budget, 0))
        return min(bounds, default=None)

    def take(self, rule: Rule, now: float) -> int:
        """Count a use; returns which use of the rule's budget (else of the rule) it is, from 1."""
        self._first_use.setdefault(rule.name, now)
        self.uses[rule.name] = self.uses.get(rule.name, 0) + 1
        if rule.budget is None:
            return self.uses[rule.name]
        self.drawn[rule.budget] = self.drawn.get(rule.budget, 0) + 1
        return self.drawn[rule.budget]


def _matches(rule: Rule, facts: Facts) -> bool:
    on, failure = rule.on, facts.failure
    if failure is None:
        # A rule without a stop speaks of failures only.
        if facts.stop not in on.stop:
            return False
    elif (on.stop and not on.failure) or not _matches_failure(rule, failure):
        return False
    return (
        _is(on.partial, facts.partial)
        and _is(on.attempt_visible, facts.attempt_visible)
        and _is(on.turn_visible, facts.turn_visible)
        and _is(on.continuing, facts.continuing)
        and (on.in_a_row is None or facts.in_a_row >= on.in_a_row)
    )


def _matches_failure(rule: Rule, failure: Failure) -> bool:
    on = rule.on
    return (
        (not on.failure or failure.kind in on.failure)
        and (not on.phase or failure.phase in on.phase)
        and (not on.code or failure.code in on.code)
        and (not on.status or failure.status in on.status)
        and (not on.scope or failure.scope in on.scope)
        and (not on.processed or failure.processed in on.processed)
        and (not on.connection or failure.connection in on.connection)
        and (on.should_retry is None or failure.should_retry is on.should_retry)
    )


def _is(wanted: bool | None, fact: bool) -> bool:
    return wanted is None or wanted is fact


def _illegal(rule: Rule, facts: Facts) -> str | None:
    if rule.action == "stop":
        return None
    if facts.refusing:
        return "the model was refusing"
    how, edits = rule_action(rule)
    for edit in edits:
        why = _edit_illegal(edit, facts)
        if why:
            return why
    if how == "again":
        how = "continue" if facts.partial else "retry"
    return _how_illegal(how, facts, changed=bool(edits))


def _how_illegal(how: How, facts: Facts, *, changed: bool) -> str | None:
    match how:
        case "retry":
            if facts.attempt_visible and not facts.can_retract:
                return "output of this attempt was released"
            if facts.attempt_partial and not facts.can_retract:
                return "something of this attempt is worth keeping"
            if facts.failure is not None and facts.failure.should_retry is False and not changed:
                return "the server said not to retry"
            return None
        case "continue":
            if not facts.partial:
                return "nothing to continue from"
            return None if facts.strategies else "no continuation strategy is allowed here"
        case "resume":
            return None if facts.resumable else "the provider has nothing to resume"
        case "finish":
            return None if facts.partial else "nothing to accept"
        case _:
            return f"{how} is not available here"


def _edit_illegal(edit: Edit, facts: Facts) -> str | None:
    if edit in _HOOKED and _HOOKED[edit] not in facts.hooks:
        return f"the host has no {_HOOKED[edit]} hook"
    if edit in _UNAVAILABLE:
        return _UNAVAILABLE[edit]
    if edit == "next_strategy" and len(facts.strategies) < 2:
        return "no other continuation strategy"
    return None
