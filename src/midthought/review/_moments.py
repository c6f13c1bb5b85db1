"""Moments of a turn: what can happen next at each, what guards are told, which ends are true.

The facts of the walk, without the walk. Judges a step by the promises alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal, NamedTuple

from midthought.policies import Role, Transition

from ._guards import GuardFacts

__all__ = ["ANSWERS", "HOST", "Moment", "Step", "asked", "happens", "told", "wrong_end"]

#: What the caller or a deadline does; the loader has proved that it ends the turn at once.
HOST = ("cancelled", "yielded", "deadline_passed")

Answer = Literal["none", "stop", "go", "finish"]
#: What the rules may say: nothing, stop, a way on, or that the partial is the turn.
ANSWERS: tuple[Answer, ...] = ("none", "stop", "go", "finish")


class Moment(NamedTuple):
    """A turn at rest in a state, before the next thing happens."""

    state: str
    open: bool = False
    begun: bool = False
    """Its first event has arrived."""
    failed: bool = False
    whole: bool = False
    """Whole tool calls are kept."""
    answer: Answer = "none"
    """What the rules say."""
    plan: Answer = "none"
    """What was made of it."""
    fits: bool = True
    asked: bool = False
    """A hook was asked and has answered."""
    waited: bool = False
    """A state of role wait was entered with the plan."""


class Step(NamedTuple):
    """A trigger, the moment it fires in, and which row it takes."""

    trigger: str
    before: Moment
    place: int
    row: Transition
    facts: GuardFacts


def happens(moment: Moment, role: Role, answers: Sequence[Answer]) -> Iterator[tuple[str, Moment]]:
    """Triggers that can fire at a moment, each with the facts that are settled by then.

    ``answers``: what the rules may say.
    """
    if role == "final":
        return
    yield from ((name, moment) for name in HOST)
    if role in ("stream", "resume"):
        if moment.open:
            yield from _upstream(moment, answers)
    elif role == "assess":
        for answer in answers:
            yield "assessed", moment._replace(answer=answer, plan="none")
    elif role == "commit":
        yield from _committing(moment)
    elif role == "ask":
        yield "answered", moment
        yield "refused", moment._replace(plan="none")
    else:
        yield "waited", moment


def _upstream(moment: Moment, answers: Sequence[Answer]) -> Iterator[tuple[str, Moment]]:
    """What an open attempt can bring: its first event, a failure, a stop of the model."""
    if not moment.begun:
        yield "opened", moment._replace(begun=True)
    for whole in (False, True):
        ended = moment._replace(open=False, begun=False, whole=whole)
        yield "failed", ended._replace(failed=True)
        if moment.begun:
            for answer in answers:
                yield "finished", ended._replace(failed=False, answer=answer)


def _committing(moment: Moment) -> Iterator[tuple[str, Moment]]:
    """A plan is committed at once, or after a hook has answered for it."""
    yield "committed", moment
    if moment.plan == "go" and not moment.asked:
        yield "answered", moment._replace(asked=True)
        yield "refused", moment._replace(plan="none", answer="none")


def asked(moment: Moment, role: Role) -> Iterator[GuardFacts]:
    """What guards can be told at a moment; where no wait is planned it is none too long."""
    sides = (False, True)
    planned = moment.plan != "none" or role not in ("assess", "commit")
    for idle, fits in product(sides, sides if planned else (True,)):
        yield GuardFacts(
            failed=moment.failed,
            whole_tool_calls=int(moment.whole),
            rule_taken=moment.answer in ("go", "finish"),
            accepts_partial=moment.plan == "finish",
            idle_continuations=int(idle),
            no_progress_limit=1,
            wait_fits=fits,
        )


def wrong_end(step: Step, outcome: str) -> str:
    """What was expected where a final state does not tell the truth; empty where it does."""
    moment, facts = step.before, step.facts
    if outcome == "aborted":
        return "an outcome other than aborted: nobody cancelled"
    if moment.open:
        return "a way on: the reply is still coming"
    if outcome == "completed":
        told = not facts.failed or facts.whole_tool_calls or facts.accepts_partial
        if not told:
            return "exhausted: nothing whole is there"
        going = moment.plan == "go" or (step.trigger == "assessed" and moment.answer == "go")
        return "a way on: a rule goes on with it" if going and not _held(facts) else ""
    if step.trigger == "committed":
        if facts.failed and facts.whole_tool_calls:
            return "completed: whole tool calls are there"
        if facts.accepts_partial:
            return "completed: the partial is accepted"
        stuck = facts.idle_continuations or not facts.wait_fits
        return "" if stuck or moment.plan != "go" else "a way on: a rule goes on with it"
    if facts.failed and facts.whole_tool_calls:
        return "committing: whole tool calls are there"
    if facts.rule_taken:
        return "a way on: a rule was chosen"
    return "" if facts.failed else "completed: the reply is whole"


def _held(facts: GuardFacts) -> bool:
    return bool(facts.failed and facts.whole_tool_calls) or facts.accepts_partial


def told(step: Step) -> str:
    facts = step.facts
    parts = ["after a failure" if facts.failed else "after a stop of the model"]
    if facts.whole_tool_calls:
        parts.append("whole tool calls are kept")
    if facts.rule_taken:
        parts.append("a rule goes on with it")
    return f"({', '.join(parts)})"
