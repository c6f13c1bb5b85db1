"""What the schema cannot see: names that must exist, bounds that must agree, rules that could bite.

Each check is a question about a whole policy and yields problems by their path in it; the loader
tells them by file and line. Imports the schema and the vocabulary, no world.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ._errors import listed
from ._lines import Path
from ._machine_checks import check_machine
from ._problem import Problem, unknown
from ._provider_checks import check_classify, check_provider
from ._schema import Policy, Rule
from ._vocabulary import (
    ACTIONS,
    DIALECT_STRATEGIES,
    FEATURES,
    MENDS,
    SIGNING_DIALECTS,
    STRATEGIES,
    Action,
    FailureKind,
    Stop,
    known_dialects,
)

__all__ = ["problems"]

#: Hows after which no request goes out, so that they need no limit.
_ENDING = frozenset({"finish", "stop"})


def problems(policy: Policy, lost: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """All that is wrong with a policy whose structure is right.

    ``lost`` names top-level keys from which wrong parts were left out: what needs the whole of
    those is not asked, so that one slip is not told twice.
    """
    for check in _CHECKS:
        if not lost.intersection(check.needs):
            yield from check.ask(policy)


def _dialect(policy: Policy) -> Iterator[Problem]:
    if policy.dialect not in known_dialects():
        yield unknown(("dialect",), "dialect", policy.dialect, known_dialects())


def _names(policy: Policy) -> Iterator[Problem]:
    for place, mend in enumerate(policy.wire.mend):
        if mend not in MENDS:
            yield unknown(("wire", "mend", place), "mend row", mend, MENDS)
    for place, row in enumerate(policy.features):
        if row.feature not in FEATURES:
            yield unknown(("features", place, "feature"), "feature", row.feature, FEATURES)
    for strategy in ("prefill", "instruct"):
        table = getattr(policy.continuation, strategy)
        for place, feature in enumerate(table.forbidden_with):
            if feature not in FEATURES:
                path: Path = ("continuation", strategy, "forbidden_with", place)
                yield unknown(path, "feature", feature, FEATURES)


def _rule_names(policy: Policy) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, rule in enumerate(policy.rules):
        if rule.name in seen:
            hint = "give it another name; to alter a parent's rule use [rules.change.NAME]"
            found = f"a second rule {rule.name!r}"
            yield Problem(("rules", place, "name"), found, "one rule of each name", hint)
        seen.add(rule.name)
        if rule.action not in ACTIONS:
            yield unknown(("rules", place, "action"), "action", rule.action, tuple(ACTIONS))


def _rule_references(policy: Policy) -> Iterator[Problem]:
    for place, rule in enumerate(policy.rules):
        for key, known in (("budget", policy.budgets), ("backoff", policy.backoff)):
            word = getattr(rule, key)
            if word is not None and word not in known:
                yield unknown(("rules", place, key), key, word, tuple(known))


def _rules(policy: Policy) -> Iterator[Problem]:
    for place, rule in enumerate(policy.rules):
        action = ACTIONS.get(rule.action)
        if action is not None:
            for problem in _rule(policy, rule, action):
                yield problem._replace(path=("rules", place, *problem.path))


def _conditions(policy: Policy) -> Iterator[Problem]:
    for place, rule in enumerate(policy.rules):
        if not rule.on.model_dump(exclude_defaults=True):
            hint = 'say when, as on = { failure = ["overloaded"] }'
            yield Problem(("rules", place, "on"), "no condition", "at least one fact", hint)


def _rule(policy: Policy, rule: Rule, action: Action) -> Iterator[Problem]:
    if rule.on.failure and rule.on.stop:
        hint = "an attempt ends by one of the two: write two rules"
        yield Problem(("on",), "failure and stop", "one of them", hint)
    if action.how not in _ENDING and rule.limit is None and rule.budget is None:
        hint = "add limit = N or budget = NAME, so that the turn ends"
        yield Problem((), "no limit", f"a limit or a budget for {rule.action!r}", hint)
    if action.how not in _ENDING and Stop.safety in rule.on.stop:
        hint = "take safety out: a refusal is neither retried nor continued"
        yield Problem(("on", "stop"), '"safety"', "stops that may be recovered", hint)
    yield from _legality(policy, rule, action)


def _legality(policy: Policy, rule: Rule, action: Action) -> Iterator[Problem]:
    """Rules whose action is never legal under their own condition."""
    on = rule.on
    if action.how == "retry" and on.attempt_visible and not policy.turn.retract:
        hint = "use continue, or ask for attempt_visible = false"
        yield Problem(("action",), f"{rule.action!r} after output", "continue", hint)
    if action.how == "continue" and on.partial is False:
        hint = "use retry, or ask for partial = true"
        yield Problem(("action",), "'continue' with partial = false", "retry", hint)
    if action.how == "resume" and "resume" not in policy.continuation.strategies:
        hint = 'put "resume" into continuation.strategies, or use continue'
        yield Problem(("action",), "'resume'", "a strategy that this policy has", hint)


def _coverage(policy: Policy) -> Iterator[Problem]:
    covered = set(policy.exhaust).union(*(rule.on.failure for rule in policy.rules))
    missing = [kind.value for kind in FailureKind if kind not in covered]
    if missing:
        hint = f"add a rule, or exhaust.append = {_array(missing)}"
        found = f"no rule for {listed(missing)}"
        yield Problem(("exhaust",), found, "a rule for every kind, or the kind in exhaust", hint)


def _array(words: Iterable[str]) -> str:
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"


def _bounds(policy: Policy) -> Iterator[Problem]:
    for name, backoff in policy.backoff.items():
        if backoff.initial_s > backoff.max_s:
            found = f"initial_s = {backoff.initial_s:g} above max_s = {backoff.max_s:g}"
            hint = "raise max_s or lower initial_s"
            yield Problem(("backoff", name, "initial_s"), found, "at most max_s", hint)
    for strategy in ("prefill", "instruct"):
        seam = getattr(policy.seam, strategy)
        if 0 < seam.window < seam.min_overlap:
            found = f"window = {seam.window} below min_overlap = {seam.min_overlap}"
            hint = "raise window, or set it to 0 to look for no repeats"
            yield Problem(("seam", strategy, "window"), found, "0, or min_overlap and more", hint)


def _strategies(policy: Policy) -> Iterator[Problem]:
    repeated = len(policy.continuation.strategies) - len(set(policy.continuation.strategies))
    if repeated or not policy.continuation.strategies:
        found = "a strategy twice" if repeated else "no strategy"
        hint = 'name each once, as strategies = ["prefill", "instruct"]'
        yield Problem(("continuation", "strategies"), found, "one or more strategies", hint)
    can = DIALECT_STRATEGIES.get(policy.dialect, STRATEGIES)
    for place, strategy in enumerate(policy.continuation.strategies):
        if strategy not in can:
            path: Path = ("continuation", "strategies", place)
            found = f'"{strategy}", which dialect {policy.dialect} has not'
            yield Problem(path, found, listed(can), "leave it out")


def _blocks(policy: Policy) -> Iterator[Problem]:
    thinking, tool = policy.blocks.thinking, policy.blocks.tool_use
    if len(thinking.tags) not in (0, 2):
        hint = 'write both, as tags = ["<think>", "</think>"], or none'
        found = f"{len(thinking.tags)} tags"
        yield Problem(("blocks", "thinking", "tags"), found, "no tag or two", hint)
    if tool.parallel == "all_or_none" and tool.release != "turn":
        hint = 'set release = "turn": what was shown cannot be taken back'
        found = f'release = "{tool.release}" with all_or_none'
        yield Problem(("blocks", "tool_use", "parallel"), found, 'release = "turn"', hint)
    if policy.dialect in SIGNING_DIALECTS and thinking.closed == "keep":
        hint = "use keep_if_signed: the provider refuses a history with unsigned thinking"
        expected = '"keep_if_signed" or "discard"'
        yield Problem(("blocks", "thinking", "closed"), '"keep"', expected, hint)


class _Check(NamedTuple):
    ask: Callable[[Policy], Iterator[Problem]]
    needs: frozenset[str] = frozenset()
    """Top-level keys that must be whole for an answer that is worth something."""


_CHECKS = (
    _Check(_dialect, frozenset({"dialect"})),
    _Check(_names),
    _Check(check_machine, frozenset({"machine"})),
    _Check(_rule_names),
    _Check(_rule_references, frozenset({"budgets", "backoff"})),
    _Check(_conditions, frozenset({"rules"})),
    _Check(_rules),
    _Check(_coverage, frozenset({"rules", "exhaust"})),
    _Check(_bounds),
    _Check(_strategies, frozenset({"continuation", "dialect"})),
    _Check(_blocks),
    _Check(check_classify, frozenset({"classify"})),
    _Check(check_provider),
)
