"""Which rule can answer what: every situation, and every way in which budgets can be used up.

Asks the engine's own ``Chooser``; there is no second opinion here on what a rule means. A count is
either left or used up: how many are left changes no answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from midthought.policies import ACTIONS, Budget, Policy, Rule
from midthought.statemachine import Chooser, Facts

from ._situations import Cause, Situation, causes, rules_for, situations

__all__ = ["Answers", "Seen", "answers"]

#: More than any limit: a count that is used up.
_SPENT = 1 << 40


@dataclass
class Seen:
    """What was seen of one rule."""

    taken: set[Cause] = field(default_factory=set)
    first: set[Cause] = field(default_factory=set)
    """Taken while no count was used up."""
    paid: bool = False
    """Taken after an attempt that may have produced output."""
    refused: set[str] = field(default_factory=set)
    """Why it was passed over while no count was used up."""
    before: set[str] = field(default_factory=set)
    """Rules that were taken where it would have matched; filled for rules never taken."""
    late: bool = False
    """It stops special cases, but where rules of the same kinds go on they are asked before it."""
    resends: bool = False
    """It sent a request again whose output was shown and cannot be taken back."""


@dataclass
class Answers:
    """What was found for all causes."""

    rules: dict[str, Seen]
    silent: dict[Cause, list[Facts]]
    """Situations that no rule answers though nothing is used up and nothing stands in the way."""
    counted: dict[Cause, int]
    """Situations of each cause."""


class _Step(NamedTuple):
    rule: Rule | None
    fresh: bool


_known: dict[str, Answers] = {}


def answers(policy: Policy) -> Answers:
    """Look at every situation; found once for policies that differ in nothing of this."""
    limits = policy.limits
    asked = (
        [rule.model_dump_json(exclude_defaults=True) for rule in policy.rules],
        {name: budget.limit for name, budget in policy.budgets.items()},
        (limits.attempts, limits.max_retry_after_s, policy.turn.retract, policy.enabled),
        policy.continuation.strategies,
    )
    key = repr(asked)
    if key not in _known:
        if len(_known) >= 64:
            _known.clear()
        _known[key] = _answers(policy)
    return _known[key]


def _answers(policy: Policy) -> Answers:
    rules = policy.rules if policy.enabled else ()
    found = Answers({rule.name: Seen() for rule in rules}, {}, {})
    for cause in causes(policy):
        mine = rules_for(rules, cause)
        silent: list[Facts] = []
        count = 0
        for situation in situations(policy, cause, mine):
            count += 1
            if not _look(found, policy, mine, cause, situation) and situation.free:
                silent.append(situation.facts)
        found.silent[cause], found.counted[cause] = silent, count
    for name, seen in found.rules.items():
        if not seen.taken:
            seen.before = _blockers(policy, rules, name)
    for rule in rules:
        if rule.action == "stop" and _is_special(rule):
            found.rules[rule.name].late = _is_late(policy, rules, rule)
    return found


def _look(
    found: Answers, policy: Policy, rules: Sequence[Rule], cause: Cause, situation: Situation
) -> bool:
    """Take one situation in; whether a rule answers it at first."""
    answered = False
    for rule, fresh in _steps(rules, policy.budgets, situation.facts, found):
        if rule is None:
            continue
        answered |= fresh
        seen = found.rules[rule.name]
        seen.taken.add(cause)
        seen.paid |= situation.paid
        if fresh:
            seen.first.add(cause)
        seen.resends |= _resends(rule, situation.facts)
    return answered


def _steps(
    rules: Sequence[Rule], budgets: dict[str, Budget], facts: Facts, found: Answers
) -> Iterator[_Step]:
    """Every answer to a situation, over all counts that may be used up by then."""
    chooser = Chooser(rules, budgets)
    todo: list[frozenset[str]] = [frozenset()]
    done: set[frozenset[str]] = set()
    while todo:
        spent = todo.pop()
        if spent in done:
            continue
        done.add(spent)
        chooser.struck = {name[1:] for name in spent if name[0] == "r"}
        chooser.drawn = {name[1:]: _SPENT for name in spent if name[0] == "b"}
        rule, verdicts = chooser.choose(facts)
        if not spent:
            for verdict in verdicts:
                if verdict.answer != "taken":
                    found.rules[verdict.rule].refused.add(verdict.answer)
        yield _Step(rule, not spent)
        if rule is not None and rule.action != "stop":
            todo += [spent | {count} for count in _counts(rule, budgets)]


def _counts(rule: Rule, budgets: dict[str, Budget]) -> Iterator[str]:
    """What can be used up so that this rule is passed over."""
    budget = budgets[rule.budget].limit if rule.budget is not None else None
    own = rule.limit is not None and (budget is None or rule.limit < budget)
    if own or rule.limit_s is not None or rule.action in ("compact", "drop_media"):
        yield f"r{rule.name}"
    if rule.budget is not None:
        yield f"b{rule.budget}"


def _resends(rule: Rule, facts: Facts) -> bool:
    how = ACTIONS[rule.action].how
    if how == "again":
        how = "continue" if facts.partial else "retry"
    return how == "retry" and facts.attempt_visible and not facts.can_retract


def _blockers(policy: Policy, rules: Sequence[Rule], name: str) -> set[str]:
    """Rules that are taken in situations that this one would match if it stood alone."""
    found: set[str] = set()
    for cause in causes(policy):
        mine = rules_for(rules, cause)
        alone = Chooser([rule for rule in mine if rule.name == name], policy.budgets)
        before = Chooser(mine, policy.budgets)
        for facts, *_ in situations(policy, cause, mine):
            if alone.choose(facts)[1]:
                rule, _ = before.choose(facts)
                found.add(rule.name if rule is not None else "")
    return found


def _is_special(rule: Rule) -> bool:
    """It asks for more than a kind: an exception to what others do, not what is left of a kind."""
    asked = rule.on.model_dump(exclude_defaults=True)
    return bool((rule.on.failure or rule.on.stop) and asked.keys() - {"failure", "stop"})


def _is_late(policy: Policy, rules: Sequence[Rule], rule: Rule) -> bool:
    """Whether the rule only ever stops what others have tried, or what nobody answers."""
    behind = False
    for cause in causes(policy):
        mine = rules_for(rules, cause)
        naming = [r for r in mine if r.name != rule.name and (r.on.failure or r.on.stop)]
        if rule not in mine or not any(r.action != "stop" for r in naming):
            continue
        whole, others = Chooser(mine, policy.budgets), Chooser(naming, policy.budgets)
        alone = Chooser([rule], policy.budgets)
        for facts, *_ in situations(policy, cause, mine):
            if alone.choose(facts)[0] is None:
                continue
            first, other = whole.choose(facts)[0], others.choose(facts)[0]
            if other is not None and other.action != "stop":
                if first is not None and first.name == rule.name:
                    return False
                behind |= first is not None and first.name == other.name
    return behind
