"""The worst case of a policy: how many requests, how long the waits, whatever upstream does.

Upper bounds by exact dynamic programming over counters: a counter is a rule's own limit or a budget
that rules share. Adversary: each use of a counter waits as long as its backoff can, or as long as a
hint may. Rules that can never be taken (see ``_answers``) count for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from midthought.policies import ACTIONS, Policy, Rule
from midthought.statemachine import longest_delay_s

from ._answers import Answers, answers
from ._walk import walk

__all__ = ["Counter", "WorstCase", "counters", "worst_case"]

#: Stands for "no bound of its own" in a counter; ``limits.attempts`` bounds every turn.
UNBOUNDED = 1_000_000


class Counter(NamedTuple):
    """Uses of one budget, or of one rule without a budget."""

    name: str
    limit: int
    rules: tuple[Rule, ...]
    limit_s: float | None


class WorstCase(NamedTuple):
    """Bounds of a turn."""

    requests: int
    wait_s: float
    """All waits, without hints of the provider, jitter at its most."""
    plain_wait_s: float
    """The same without jitter."""
    hinted_wait_s: float
    """With a hint of ``limits.max_retry_after_s`` at each use."""
    repeats: int
    """Requests that may pay again for output that was paid and dropped."""


def counters(policy: Policy, found: Answers | None = None) -> tuple[Counter, ...]:
    """Every counter that bounds the requests of a turn."""
    seen = (found or answers(policy)).rules
    budgets: dict[str, list[Rule]] = {}
    counts: list[Counter] = []
    for rule in policy.rules:
        if rule.name not in seen or not seen[rule.name].taken:
            continue
        if ACTIONS[rule.action].how in ("stop", "finish"):
            continue
        if rule.budget is not None:
            budgets.setdefault(rule.budget, []).append(rule)
        else:
            limit = UNBOUNDED if rule.limit is None else rule.limit
            counts.append(Counter(rule.name, limit, (rule,), rule.limit_s))
    for name, rules in budgets.items():
        limits = [rule.limit for rule in rules]
        own = sum(n for n in limits if n is not None) if None not in limits else UNBOUNDED
        limit = min(policy.budgets[name].limit, own)
        counts.append(Counter(f"budget {name}", limit, tuple(rules), None))
    return tuple(counts)


def worst_case(policy: Policy) -> WorstCase:
    """The bounds; the engine's own checks of ``limits`` are taken into account."""
    most = policy.limits.attempts - 1
    if not policy.enabled:
        return WorstCase(1, 0.0, 0.0, 0.0, 0)
    seen = answers(policy)
    found = counters(policy, seen)
    hint = policy.limits.max_retry_after_s
    hint += policy.limits.retry_after_jitter * min(hint, 1.0)
    paid = [c.limit for c in found if any(seen.rules[rule.name].paid for rule in c.rules)]
    cap = _cap(policy)
    return WorstCase(
        requests=1 + min(most, sum(counter.limit for counter in found)),
        wait_s=min(cap, _longest(policy, found, most, None, jitter=True)),
        plain_wait_s=min(cap, _longest(policy, found, most, None, jitter=False)),
        hinted_wait_s=min(cap, _longest(policy, found, most, hint, jitter=True)),
        repeats=min(most, sum(paid)),
    )


def _cap(policy: Policy) -> float:
    """What ends a turn that waits; a machine may send waits that are too long elsewhere."""
    if policy.machine.states and walk(policy.machine).long_waits:
        return float("inf")
    deadline = policy.clocks.deadline_s
    return policy.limits.wait_s if deadline is None else min(policy.limits.wait_s, deadline)


def _longest(
    policy: Policy, found: Sequence[Counter], most: int, hint: float | None, *, jitter: bool
) -> float:
    """``best[n]``: the longest that n uses of the counters so far can wait together."""
    best = [0.0] * (most + 1)
    for counter in found:
        waits = _waits(policy, counter, min(most, counter.limit), hint, jitter=jitter)
        best = [
            max(best[total - n] + waits[n] for n in range(min(total, len(waits) - 1) + 1))
            for total in range(most + 1)
        ]
    return best[most]


def _waits(
    policy: Policy, counter: Counter, limit: int, hint: float | None, *, jitter: bool
) -> list[float]:
    """``[k]``: the longest that k uses of this counter can wait together."""
    sums = [0.0]
    for use in range(1, limit + 1):
        longest = max(_wait(policy, rule, use, jitter=jitter) for rule in counter.rules)
        sums.append(sums[-1] + max(longest, hint or 0.0))
    if counter.limit_s is None:
        return sums
    # No use begins later than limit_s after the first: only the last wait reaches beyond it.
    last = max((b - a for a, b in pairwise(sums)), default=0.0)
    return [min(total, counter.limit_s + last) for total in sums]


def _wait(policy: Policy, rule: Rule, use: int, *, jitter: bool) -> float:
    if rule.backoff is None:
        return 0.0
    spec = policy.backoff[rule.backoff]
    if spec.jitter == "decorrelated" and jitter:
        return spec.max_s  # grows from the delay before, which another rule may have made
    return longest_delay_s(spec if jitter else spec.model_copy(update={"jitter": "none"}), use)
