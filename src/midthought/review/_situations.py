"""Every situation that a rule can tell apart: the facts of an attempt that ended, exhaustively.

For each failure kind and each stop: the product of all facts that its rules ask for, one
representative for values that no rule tells apart. No situation of a real turn is missing; some
that no real turn reaches may be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from midthought.policies import ACTIONS, FailureKind, Policy, Rule, Stop
from midthought.statemachine import Facts, Failure

__all__ = ["Cause", "Situation", "causes", "rules_for", "situations"]

#: Values a fact of a failure can have besides those that rules name, the usual one first.
_FACTS: dict[str, tuple[Any, ...]] = {
    "phase": ("stream", "response", "connect"),
    "connection": ("unknown", "new", "reused"),
    "processed": ("unknown", "yes", "no"),
    "code": (None,),
    "status": (None,),
    "scope": (None,),
}
#: Facts of the turn, in the order in which they are combined.
_TURN = (
    "partial", "attempt_visible", "turn_visible", "attempt_partial", "continuing",
    "in_a_row", "strategies", "resumable", "hooks",
)  # fmt: skip
_HOOKED = frozenset({"compact", "drop_media"})


class Cause(NamedTuple):
    """What is dealt with: one of the two is set."""

    kind: FailureKind | None
    stop: Stop

    def __str__(self) -> str:
        """In one word or two."""
        return self.kind.value if self.kind is not None else f"stop {self.stop.value}"


class Situation(NamedTuple):
    """Facts of an attempt that ended."""

    facts: Facts
    paid: bool
    """It may have produced output that was paid for."""
    free: bool
    """Neither the request nor the server forbids what rules could do."""


def causes(policy: Policy) -> Iterator[Cause]:
    """Every failure kind, and every stop that an attempt can end with."""
    for kind in FailureKind:
        yield Cause(kind, Stop.error)
    for stop in Stop:
        if stop is not Stop.error:
            yield Cause(None, stop)


def rules_for(rules: Sequence[Rule], cause: Cause) -> tuple[Rule, ...]:
    """Rules that speak of a cause at all; whether they match is for the engine to say."""
    if cause.kind is None:
        return tuple(rule for rule in rules if cause.stop in rule.on.stop)
    return tuple(
        rule
        for rule in rules
        if cause.kind in rule.on.failure or not (rule.on.failure or rule.on.stop)
    )


def situations(policy: Policy, cause: Cause, rules: Sequence[Rule]) -> Iterator[Situation]:
    """All of them for one cause; ``rules`` are those that speak of it."""
    fixed: dict[str, Any] = {
        "stop": cause.stop,
        "refusing": False,  # a reply that refuses has no rule but those that stop
        "can_retract": policy.turn.retract,
        "attempts_left": policy.limits.attempts - 1,
        "longest_wait_s": policy.limits.max_retry_after_s,
        "input_left": True,
        "now": 0.0,
    }
    turns = list(_turn_facts(policy, rules))
    for failure in _failures(cause, rules):
        for facts in turns:
            paid = failure is None or failure.phase == "stream"
            allowed = failure is None or failure.should_retry is not False
            free = allowed and facts["strategies"] == turns[0]["strategies"]
            yield Situation(Facts(failure=failure, **fixed, **facts), paid, free)


def _failures(cause: Cause, rules: Sequence[Rule]) -> Iterator[Failure | None]:
    if cause.kind is None:
        yield None
        return
    named = [_classes(name, usual, rules) for name, usual in _FACTS.items()]
    said = (None, False, True) if _asks(rules, "should_retry") else (None, False)
    for values in product(*named, said):
        facts = dict(zip((*_FACTS, "should_retry"), values, strict=True))
        yield Failure(cause.kind, **facts)


def _classes(name: str, usual: tuple[Any, ...], rules: Sequence[Rule]) -> list[Any]:
    """One value for each set of rules that would take it."""
    asked = [getattr(rule.on, name) for rule in rules if getattr(rule.on, name)]
    values = dict.fromkeys([*usual, *(value for words in asked for value in words)])
    found: dict[tuple[bool, ...], Any] = {}
    for value in values:
        found.setdefault(tuple(value in words for words in asked), value)
    return list(found.values())


def _turn_facts(policy: Policy, rules: Sequence[Rule]) -> Iterator[dict[str, Any]]:
    hows = {ACTIONS[rule.action].how for rule in rules}
    edits = {edit for rule in rules for edit in (*ACTIONS[rule.action].edits, *rule.edits)}
    goes_on = bool(hows & {"continue", "again"}) or "next_strategy" in edits
    ways = _strategies(policy) if goes_on else [()]
    sides = (False, True)
    asked = [sides if _tells(name, rules) else None for name in _TURN[:5]]
    rows = [(None,) if values is None else values for values in asked]
    resumes = sides if "resume" in hows else (False,)
    hooks = ((), tuple(sorted(_HOOKED))) if edits & _HOOKED else ((),)
    for chosen in product(*rows, _in_a_row(policy, rules), ways, resumes, hooks):
        facts: dict[str, Any] = dict(zip(_TURN, chosen, strict=True))
        if facts["turn_visible"] is None:
            facts["turn_visible"] = facts["attempt_visible"]
        if facts["attempt_visible"] and not facts["turn_visible"]:
            continue
        yield {key: False if value is None else value for key, value in facts.items()}


def _tells(name: str, rules: Sequence[Rule]) -> bool:
    """Whether a rule's answer can depend on it."""
    if name in ("partial", "attempt_visible"):
        return True
    if name == "attempt_partial":  # asked by no condition, but by the legality of a retry
        return any(ACTIONS[rule.action].how in ("retry", "again") for rule in rules)
    return _asks(rules, name)


def _asks(rules: Sequence[Rule], name: str) -> bool:
    return any(getattr(rule.on, name) is not None for rule in rules)


def _in_a_row(policy: Policy, rules: Sequence[Rule]) -> list[int]:
    """Numbers that rules count to, as far as a turn can have so many requests."""
    asked = {rule.on.in_a_row for rule in rules if rule.on.in_a_row is not None}
    return sorted({1, *(number for number in asked if number <= policy.limits.attempts)})


def _strategies(policy: Policy) -> list[tuple[str, ...]]:
    """All of them, one that is left, none: a request may forbid any."""
    named: list[str] = []
    for name in policy.continuation.strategies:
        named += ["resume", "poll"] if name == "resume" else [name]
    return [*dict.fromkeys([tuple(named), tuple(named[:1]), ()])]
