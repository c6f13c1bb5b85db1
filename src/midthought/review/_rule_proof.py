"""What is wrong with the rules of a policy, from every situation that they can meet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from midthought.policies import Policy, Rule
from midthought.statemachine import Facts, delay_s

from ._answers import Answers, Seen

__all__ = ["Lead", "rule_leads"]


class Lead(NamedTuple):
    """A finding before its place is looked up: its kind, and a path in the policy."""

    kind: str
    path: tuple[str | int, ...]
    found: str
    expected: str
    hint: str


#: Why a rule may be passed over for good without being wrong, and what it waits for.
_IDLE = {
    "no fallback target is set": "name models in fallback",
    "no other continuation strategy": "name a second strategy in continuation.strategies",
}


def rule_leads(policy: Policy, found: Answers) -> Iterator[Lead]:
    """Everything about rules, budgets and kinds."""
    if not policy.enabled or not policy.rules:
        return
    if policy.limits.attempts == 1:
        hint = "allow 2 or more, or write enabled = false"
        expected = "a second request for the rules"
        yield Lead("zero-limit", ("limits", "attempts"), "1 request", expected, hint)
        return
    yield from _zero(policy)
    for place, rule in enumerate(policy.rules):
        for lead in _rule(policy, rule, found.rules[rule.name]):
            yield lead._replace(path=("rules", place, *lead.path))
    yield from _kinds(policy, found)


def _zero(policy: Policy) -> Iterator[Lead]:
    for name, budget in policy.budgets.items():
        users = [rule.name for rule in policy.rules if rule.budget == name]
        if budget.limit == 0 and users:
            found = f"no use for {', '.join(users)}"
            hint = f"take the rules out: [rules] remove = [{', '.join(map(repr, users))}]"
            yield Lead("zero-limit", ("budgets", name, "limit"), found, "1 or more", hint)


def _rule(policy: Policy, rule: Rule, seen: Seen) -> Iterator[Lead]:
    zero = next((key for key in ("limit", "limit_s") if getattr(rule, key) == 0), None)
    empty = rule.budget is not None and policy.budgets[rule.budget].limit == 0
    if zero is not None:
        hint = f'take the rule out: [rules] remove = ["{rule.name}"]'
        yield Lead("zero-limit", (zero,), f"no use for {rule.name!r}", "more than 0", hint)
    elif not seen.taken and not empty:
        yield _never(rule, seen)
    elif seen.late:
        found = f"{rule.name!r} behind rules that are taken for all it asks for"
        hint = "move it before them: [rules] remove it, and [[rules.prepend]]"
        yield Lead("late-stop", (), found, "a rule that is asked first", hint)
    if seen.resends:
        found = f"{rule.name!r} after output was shown"
        hint = "ask for attempt_visible = false"
        yield Lead("resend-after-output", ("action",), found, "a continuation", hint)
    yield from _delay(policy, rule)


def _never(rule: Rule, seen: Seen) -> Lead:
    """Why a rule is never taken, though its counts are full."""
    if seen.refused:
        why = sorted(seen.refused)
        idle = [_IDLE[reason] for reason in why if reason in _IDLE]
        kind = "idle-rule" if idle else "illegal-rule"
        hint = idle[0] if idle else "take another action, or take the rule out"
        found = f"{rule.name!r} is passed over: {'; '.join(why)}"
        return Lead(kind, ("action",), found, f"{rule.action!r} to be possible", hint)
    before = sorted(seen.before - {"", rule.name})
    if not before:
        found = f"{rule.name!r} asks for facts that never come together"
        hint = "ask for fewer of them"
        return Lead("impossible-rule", ("on",), found, "facts that one failure can have", hint)
    found = f"{rule.name!r} behind {', '.join(before)}"
    hint = f"move it before {before[0]!r}, let that one ask for more, or take it out"
    return Lead("shadowed-rule", (), found, "a rule that is reached", hint)


def _delay(policy: Policy, rule: Rule) -> Iterator[Lead]:
    if rule.backoff is None or rule.action in ("stop", "finish"):
        return
    least = delay_s(policy.backoff[rule.backoff], 1, lambda: 0.0)
    bounds = {"limits.wait_s": policy.limits.wait_s}
    if policy.clocks.deadline_s is not None:
        bounds["clocks.deadline_s"] = policy.clocks.deadline_s
    for name, bound in bounds.items():
        if least > bound or (least == bound and name.startswith("clocks")):
            found = f"a first delay of {least:g} s, over {name} = {bound:g}"
            hint = f"shorten backoff.{rule.backoff}, or raise {name}"
            yield Lead("never-waits-out", ("backoff",), found, "a delay that fits", hint)


def _kinds(policy: Policy, found: Answers) -> Iterator[Lead]:
    gaps: dict[str, list[str]] = {}
    for cause, silent in found.silent.items():
        if cause.kind is None or cause.kind in policy.exhaust:
            continue
        mine = [rule for rule in policy.rules if cause.kind in rule.on.failure]
        if not any(cause in found.rules[rule.name].taken for rule in mine):
            hint = f'add a rule that can be taken, or exhaust.append = ["{cause.kind.value}"]'
            names = ", ".join(repr(rule.name) for rule in mine) or "none"
            text = f"no rule for {cause.kind.value} that is ever taken (named by: {names})"
            yield Lead("unanswered-kind", ("exhaust",), text, "a rule, or the kind here", hint)
        elif silent:
            gaps.setdefault(_where(silent), []).append(cause.kind.value)
    hint = "nothing to do if that is meant; else add a rule for it"
    for where, kinds in gaps.items():
        text = f"no answer to {', '.join(kinds)} where {where}"
        yield Lead("gap", ("rules",), text, "a rule, if it should be recovered", hint)


def _where(silent: Sequence[Facts]) -> str:
    """Situations that end the turn, told by what they have in common."""
    common = []
    for said, words in ((True, "something is kept"), (False, "nothing is kept")):
        if all(facts.partial is said for facts in silent):
            common.append(words)
    if all(facts.attempt_visible or facts.attempt_partial for facts in silent):
        common.append("output of this attempt came through")
    return " and ".join(common) or "no rule asks for what came together"
