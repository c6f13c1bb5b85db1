"""Hooks: the host is asked, and answers, refuses, is late, or is not asked any more."""

from typing import Any

import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import Policy
from midthought.statemachine import (
    Answered,
    Ask,
    Cancelled,
    Emit,
    Heartbeat,
    Refused,
    Send,
    StateChanged,
    Withdraw,
    Yielded,
)

TEXT = "One two three four five. "
BIG = REQUEST | {"history": "x" * 1000}
SMALL = REQUEST | {"history": "x"}


def asking(*rules: Any, **tables: Any) -> Policy:
    """A policy that compacts after an overflow, with more rules behind."""
    compact = {
        "name": "compact", "on": {"failure": ["context_overflow"]}, "action": "compact", "limit": 2,
    }  # fmt: skip
    return policy_of(rules=[compact, *rules], **tables)


RETRY = {"name": "next", "on": {"failure": ["context_overflow"]}, "action": "retry", "limit": 1}


def asked(*rules: Any, hooks: Any = ("compact",), text: str = "", **tables: Any) -> Play:
    """A turn whose hook is asked."""
    play = Play(asking(*rules, **tables), request=BIG, hooks=hooks)
    if text:
        play.say(text)
    play.cut("context_overflow", phase="response")
    return play


def test_the_hook_is_asked() -> None:
    """The host is told which hook, for which plan, and what went wrong; nothing else happens."""
    play = asked()

    assert [Ask("compact", 1, {"kind": "context_overflow"})] == play.of(Ask)
    assert ("committing", 1, 60.0) == (
        play.machine.state, len(play.sent), play.machine.next_deadline() - play.now,
    )  # fmt: skip


def test_an_answer_is_the_callers_request_from_now_on() -> None:
    """The answer is sent, and every later request is made of it."""
    play = asked()
    play.feed(Answered(1, SMALL))
    play.say(TEXT)
    play.cut("context_overflow")
    play.feed(Answered(2, REQUEST))

    assert ([BIG, SMALL], "instruct") == (play.sent[:2], play.sent[2]["strategy"])
    assert "history" not in play.sent[2]
    assert REQUEST == play.machine.request


def test_an_answer_with_a_partial_is_continued() -> None:
    """With something to keep, the compacted request goes on from there."""
    play = asked(text=TEXT)
    play.feed(Answered(1, SMALL))

    assert ("x", [("text", TEXT.rstrip())]) == (play.sent[1]["history"], play.sent[1]["kept"])


def test_features_are_asked_again() -> None:
    """What the answer's request has decides about strategies, not what the old one had."""
    play = Play(
        asking(continuation={"strategies": ["prefill", "instruct"],
                             "prefill": {"forbidden_with": ["tools"]}}),
        request=BIG | {"features": ["tools"]}, hooks=["compact"],
    )  # fmt: skip
    play.say(TEXT)
    play.cut("context_overflow")
    play.feed(Answered(1, SMALL))

    assert "prefill" == play.sent[1]["strategy"]


@pytest.mark.parametrize("answer", [BIG, BIG | {"more": "x"}])
def test_an_answer_that_did_not_shrink(answer: Any) -> None:
    """Compaction that does not shrink the request is refused, and the request stays."""
    play = asked(RETRY)
    play.feed(Answered(1, answer))

    assert [BIG, BIG] == play.sent
    assert ["the request did not shrink"] == [r["reason"] for r in play.records("llm_hook_refused")]


def test_media_need_not_shrink() -> None:
    """Only compaction is measured."""
    rule = {
        "name": "media", "on": {"failure": ["media_rejected"]}, "action": "drop_media", "limit": 1,
    }  # fmt: skip
    play = Play(policy_of(rules=[rule]), hooks=["drop_media"])
    play.cut("media_rejected", phase="response")
    play.feed(Answered(1, BIG))

    assert [REQUEST, BIG] == play.sent


def test_an_answer_that_leaves_no_strategy() -> None:
    """A request with which the reply could not be continued is refused, and not used."""
    play = asked(text=TEXT)
    play.feed(Answered(1, {"model": "m-1", "features": ["n"]}))

    assert (1, BIG, "exhausted") == (len(play.sent), play.machine.request, play.machine.state)


def test_a_refusal_strikes_the_rule_out() -> None:
    """The next rule is tried; for this failure the host is not asked again."""
    play = asked(RETRY)
    play.feed(Refused(1, "no"))

    assert ([BIG, BIG], 1) == (play.sent, len(play.of(Ask)))
    assert [("compact", "refused by the host"), ("next", "taken")] == [
        (v["rule"], v["answer"]) for v in play.records("llm_recovery_decided")[-1]["looked_at"]
    ]


def test_a_refusal_without_another_rule() -> None:
    """Where no rule is left, the turn ends with the failure."""
    play = asked()
    play.feed(Refused(1, "no"))

    assert "exhausted" == play.machine.state
    assert ["interrupted", "committing", "interrupted", "exhausted"] == play.path


def test_another_failure_asks_again() -> None:
    """Struck out is the rule for one failure only."""
    play = asked(RETRY)
    play.feed(Refused(1, "no"))
    play.cut("context_overflow", phase="response")

    assert [1, 3] == [ask.plan for ask in play.of(Ask)]


def test_a_hook_that_takes_too_long() -> None:
    """After hook_s the question is withdrawn and counts as refused."""
    play = asked(RETRY)
    early = play.wait(59.9)
    play.wait(0.1)

    assert ([], [Withdraw(1)], [BIG, BIG]) == (early, play.of(Withdraw), play.sent)
    assert ["no answer in time"] == [r["reason"] for r in play.records("llm_hook_refused")]


@pytest.mark.parametrize("late", [Answered(1, SMALL), Refused(1)])
def test_a_late_answer(late: Any) -> None:
    """An answer to a question that is not open any more is counted and dropped."""
    play = asked(RETRY)
    play.wait(60)

    assert ([], 1) == (play.feed(late), play.machine.turn.late_events)
    assert BIG == play.machine.request


@pytest.mark.parametrize("wrong", [Answered(7, SMALL), Refused(7)])
def test_an_answer_to_another_question(wrong: Any) -> None:
    """An answer with another plan's number is not this one's."""
    play = asked()

    assert ([], "committing", 1) == (
        play.feed(wrong), play.machine.state, play.machine.turn.late_events,
    )  # fmt: skip


@pytest.mark.parametrize("unasked", [Answered(1, SMALL), Refused(1)])
def test_an_answer_that_nobody_asked_for(unasked: Any) -> None:
    """Without a question there is nothing to answer."""
    play = Play()

    assert ([], 1) == (play.feed(unasked), play.machine.turn.late_events)


@pytest.mark.parametrize("end", [Cancelled(), Yielded()])
def test_a_cancel_withdraws_the_question(end: Any) -> None:
    """A cancel does not wait for the hook; the host is told that its answer is not wanted."""
    play = asked()
    play.feed(end)

    assert ([Withdraw(1)], "aborted", 1) == (
        play.of(Withdraw), play.machine.state, len(play.sent),
    )  # fmt: skip


def test_the_deadline_withdraws_the_question() -> None:
    """Our time runs while the hook is asked."""
    play = asked(clocks={"deadline_s": 5.0})
    play.sleep()

    assert (1005.0, [Withdraw(1)], "exhausted") == (
        play.now, play.of(Withdraw), play.machine.state,
    )  # fmt: skip


def test_events_while_the_hook_is_asked() -> None:
    """The attempt is over; what still arrives of it is late."""
    play = asked()

    assert ([], 1) == (play.feed(Heartbeat(0)), play.machine.turn.late_events)


def test_no_hook_no_question() -> None:
    """A rule whose hook the host does not have is not legal."""
    play = asked(RETRY, hooks=())

    assert ([], [BIG, BIG]) == (play.of(Ask), play.sent)


def test_an_answer_is_no_change_of_state() -> None:
    """After an answer the plan goes on in the same state, and no change is shown."""
    play = asked()
    effects = play.feed(Answered(1, SMALL))
    moves = [e.event for e in effects if isinstance(e, Emit)]

    assert ["backoff", "continuing"] == [e.state for e in moves if isinstance(e, StateChanged)]


def test_two_hooks_of_one_rule() -> None:
    """A rule may need two answers; they are asked for one after the other."""
    rule = {
        "name": "both", "on": {"failure": ["request_too_large"]}, "action": "compact",
        "edits": ["drop_media"], "limit": 1,
    }  # fmt: skip
    play = Play(policy_of(rules=[rule]), request=BIG, hooks=["compact", "drop_media"])
    play.cut("request_too_large", phase="response")
    play.feed(Answered(1, SMALL))
    before = len(play.sent)
    play.feed(Answered(1, REQUEST))

    assert ["compact", "drop_media"] == [ask.hook for ask in play.of(Ask)]
    assert (1, [BIG, REQUEST]) == (before, play.sent)


def test_a_changed_request_inside_a_continuation() -> None:
    """A retry with a changed request goes on being the continuation it was."""
    rule = {
        "name": "small", "on": {"failure": ["request_too_large"]}, "action": "retry",
        "edits": ["compact"], "limit": 1,
    }  # fmt: skip
    rules = [rule, *policy_of().model_dump(mode="json")["rules"]]
    play = Play(policy_of(rules=rules), request=BIG, hooks=["compact"])
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.cut("request_too_large", phase="response")
    play.feed(Answered(2, SMALL))
    play.say("Six.")
    play.stop()

    assert (("x", "instruct"), TEXT + "Six.") == (
        (play.sent[2]["history"], play.sent[2]["strategy"]), play.text,
    )  # fmt: skip


def test_the_wait_comes_after_the_answer() -> None:
    """The backoff begins when the plan is whole."""
    rule = {
        "name": "slow", "on": {"failure": ["context_overflow"]}, "action": "compact", "limit": 1,
        "backoff": "continuation",
    }  # fmt: skip
    play = Play(policy_of(rules=[rule]), request=BIG, hooks=["compact"])
    play.cut("context_overflow", phase="response")
    play.now += 30
    play.feed(Answered(1, SMALL))

    assert 1031.0 == play.machine.next_deadline()
    play.sleep()
    assert [0, 1] == [send.attempt for send in play.of(Send)]
