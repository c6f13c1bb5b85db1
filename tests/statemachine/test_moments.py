"""The moments of a turn: what the machine does at each kind of end, and what it never does."""

from typing import Any

import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import FailureKind, Policy, Stop
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    Cancelled,
    Close,
    Done,
    Emit,
    Finished,
    Heartbeat,
    Opened,
    Send,
    StopKnown,
    TimePassed,
    TurnFinished,
    Usage,
    UsageReported,
    Wait,
    Yielded,
)

TEXT = "One two three four five. "
CUTS = (
    "sse_transport", "sse_parse", "body_decode", "premature_end", "stalled", "overloaded",
    "server_error", "rate_limited",
)  # fmt: skip
CONTINUATION = [1.0, 2.0, 4.0, 8.0, 16.0]
TRANSIENT = [min(0.5 * 2**n, 32.0) for n in range(10)]


def one_rule(action: str, on: Any, **more: Any) -> Policy:
    """A policy with one rule, without waits."""
    return policy_of(rules=[{"name": "only", "action": action, "on": on, "limit": 9} | more])


def again(play: Play) -> None:
    """Wait out the backoff; the next attempt is sent."""
    if play.machine.state == "backoff":
        play.sleep()


# --- nothing breaks -------------------------------------------------------------------------------


def test_a_reply_that_does_not_break() -> None:
    """Opened, text, stop fact, end: one request, completed, nothing added and nothing held back."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.stop()

    assert ([REQUEST], TEXT, ["completed"]) == (play.sent, play.text, play.path)
    assert ("completed", Stop.end, None, "stop", False) == (
        play.finished.outcome, play.finished.stop, play.finished.failure, play.finished.reason,
        play.finished.incomplete,
    )  # fmt: skip


def test_the_end_comes_last() -> None:
    """TurnFinished is the caller's last event, Done the host's last order, and each comes once."""
    play = Play()
    play.say(TEXT)
    play.stop()

    assert [Done("completed")] == play.of(Done)
    assert (play.effects[-2], play.effects[-1]) == (Emit(play.finished), Done("completed"))


def test_the_stop_fact_reaches_the_caller_after_all_content() -> None:
    """The stop fact is shown once, when everything before it has been."""
    play = Play()
    play.say("Hello, dear wor")
    play.stop()
    kinds = [type(e).__name__ for e in play.events[-4:]]

    assert ["BlockDelta", "BlockClosed", "StopKnown", "TurnFinished"] == kinds


@pytest.mark.parametrize(
    ("stop", "incomplete"),
    [("end", False), ("length", True), ("context_full", True), ("safety", False), ("pause", False)],
)
def test_a_stop_that_no_rule_takes(stop: str, incomplete: bool) -> None:
    """Every stop of the model is an end of the turn; cap and window make it incomplete."""
    play = Play()
    play.say(TEXT)
    play.stop(stop)

    assert ("completed", Stop(stop), incomplete) == (
        play.finished.outcome, play.finished.stop, play.finished.incomplete,
    )  # fmt: skip


def test_an_empty_reply_passes_through() -> None:
    """A reply without content is no failure: it is completed, and says that it is empty."""
    play = Play()
    play.opened()
    play.stop()

    assert ("completed", "empty") == (play.finished.outcome, play.finished.reason)


def test_a_reply_with_calls_stops_for_them() -> None:
    """A dialect that says `end` after tool calls means `tool_use`."""
    play = Play()
    play.opened()
    play.call("{}")
    play.stop("end")

    assert Stop.tool_use == play.finished.stop


def test_usage_reaches_the_caller() -> None:
    """Reported usage is passed on and counted."""
    play = Play()
    play.say(TEXT)
    play.feed(UsageReported(0, Usage(input=10, output=6)))
    play.stop()

    assert UsageReported(0, Usage(input=10, output=6)) in play.events
    assert (10, 6, False) == (
        play.machine.usage.input, play.machine.usage.output, play.machine.usage.incomplete,
    )  # fmt: skip


# --- a cut with something to keep -----------------------------------------------------------------


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_is_continued(kind: str) -> None:
    """After a cut the partial goes back, the rest is asked for, and the caller sees one text."""
    play = Play()
    play.say(TEXT)
    play.cut(kind)
    play.sleep()
    play.say("Six seven.")
    play.stop()

    assert TEXT + "Six seven." == play.text
    assert [("text", TEXT.rstrip())] == play.sent[1]["kept"]
    assert ["interrupted", "committing", "backoff", "continuing", "streaming", "completed"] == (
        play.path
    )


@pytest.mark.parametrize("say", ["", "And on. "])
def test_five_continuations(say: str) -> None:
    """Five continuations wait 1, 2, 4, 8, 16 s, also when each is cut at the same place."""
    play = Play()
    play.say(TEXT)
    for _ in range(5):
        play.cut()
        play.sleep()
        play.say(say)
    play.cut()

    assert (CONTINUATION, 6) == (play.waits, len(play.sent))
    assert ("exhausted", "no_rule_left", Stop.error) == (
        play.finished.outcome, play.finished.reason, play.finished.stop,
    )  # fmt: skip
    assert play.finished.failure is not None
    assert FailureKind.sse_transport is play.finished.failure.kind


def test_the_partial_survives_exhaustion() -> None:
    """An exhausted turn keeps what came, closed for the caller and valid as history."""
    play = Play(policy_of(rules=[]))
    play.say(TEXT + "six")
    play.cut()

    assert (TEXT, True) == (play.text, play.finished.incomplete)
    assert [{"role": "assistant", "content": [("text", TEXT)]}] == play.machine.history.message
    assert BlockClosed(0, 0) in play.events


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded", "server_error", "timeout"])
def test_a_busy_server_does_not_use_up_continuations(kind: str) -> None:
    """A refused continuation is retried out of the transient budget, ten times in the turn."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    for _ in range(10):
        play.cut(kind, phase="response")
        play.sleep()
    decided = play.records("llm_recovery_decided")

    assert [1.0, *TRANSIENT] == play.waits
    assert [play.sent[1]] * 10 == play.sent[2:]
    assert ["cut"] + ["busy"] * 10 == [record["rule"] for record in decided]
    assert ({"cut": 1, "busy": 9}, {"transient": 9}) == (
        decided[-1]["uses"], decided[-1]["budgets"],
    )  # fmt: skip


def test_a_continuation_cut_before_its_first_event_counts() -> None:
    """A transport cut of the continuation itself is one of the five."""
    play = Play()
    play.say(TEXT)
    for _ in range(5):
        play.cut()
        play.sleep()
    play.cut()

    assert (CONTINUATION, "exhausted") == (play.waits, play.machine.state)


def test_budgets_add_and_do_not_multiply() -> None:
    """Cuts and refusals that alternate use up both budgets, and not their product."""
    play = Play(policy_of(limits={"wait_s": 10000.0}))
    play.say(TEXT)
    for _ in range(100):
        if play.machine.done:
            break
        play.cut()
        again(play)
        for _ in range(3):
            if not play.machine.done:
                play.cut("overloaded", phase="response")
                again(play)
        if not play.machine.done:
            play.say("And on. ")

    assert 1 + 5 + 10 == len(play.sent)


# --- a cut with nothing to keep -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sse_transport", "sse_parse", "premature_end", "stalled"])
def test_dead_before_output(kind: str) -> None:
    """With nothing to keep and nothing shown the same request goes out again, three times."""
    play = Play()
    for _ in range(4):
        play.opened()
        play.cut(kind)
        again(play)

    assert ([REQUEST] * 4, TRANSIENT[:3]) == (play.sent, play.waits)
    assert "exhausted" == play.machine.state


def test_a_retry_is_the_same_request() -> None:
    """What is sent again is the very body, on a new connection."""
    play = Play()
    play.cut("overloaded", phase="response")
    play.sleep()
    first, second = play.of(Send)

    assert first.request is second.request
    assert (False, True) == (first.fresh, second.fresh)


def test_nothing_is_retried_after_output() -> None:
    """A request whose own output was shown is never sent again, whatever the rule hopes for."""
    play = Play(one_rule("retry", {"failure": ["sse_transport"]}))
    play.say(TEXT)
    play.cut()

    assert (1, "exhausted") == (len(play.sent), play.machine.state)


def test_nothing_is_retried_that_is_worth_keeping() -> None:
    """A held partial is paid for as well: it is not thrown away for a retry."""
    retry = one_rule("retry", {"failure": ["sse_transport"]})
    held = policy_of(rules=retry.model_dump()["rules"], blocks={"text": {"release": "turn"}})
    play = Play(held)
    play.say(TEXT)
    play.cut()

    assert (1, "exhausted") == (len(play.sent), play.machine.state)


def test_blank_text_is_nothing() -> None:
    """White space alone is neither kept nor in the way of a retry."""
    play = Play()
    play.say("  \n")
    play.cut()
    play.sleep()

    assert [REQUEST, REQUEST] == play.sent


def test_a_fragment_too_short_to_keep() -> None:
    """A few characters that nobody saw are not worth a continuation: the request goes out again."""
    play = Play()
    play.say("Hel")
    play.cut()
    play.sleep()
    play.say("Hello, dear world.")
    play.stop()

    assert ([REQUEST, REQUEST], "Hello, dear world.") == (play.sent, play.text)


def test_a_long_first_word_is_kept() -> None:
    """Where dropping the fragment would leave nothing, it is kept and shown."""
    play = Play()
    play.say("Donaudampfschiff")
    play.cut()

    assert ("Donaudampfschiff", "backoff") == (play.text, play.machine.state)


def test_body_decode_is_retried_once() -> None:
    """A body that cannot be decoded is tried once more, and then it is fatal."""
    play = Play()
    for _ in range(2):
        play.cut("body_decode", phase="response")
        again(play)

    assert (2, "exhausted") == (len(play.sent), play.machine.state)


def test_offline_gives_up_after_two_minutes() -> None:
    """Connection failures are retried for 120 s since the first one."""
    play = Play()
    while not play.machine.done:
        play.cut("connect", phase="connect")
        again(play)

    assert 120 <= play.now - 1000 < 120 + 8 * 1.25
    assert 2 < len(play.sent) < 30


# --- tool calls -----------------------------------------------------------------------------------


def test_half_a_call_is_dropped() -> None:
    """Half a tool call goes neither into history nor to the caller; the text before it does."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.call('{"a": ', 1, closed=False)
    play.cut()

    assert {0: TEXT} == play.shown
    play.sleep()
    assert [("text", TEXT.rstrip())] == play.sent[1]["kept"]


def test_half_a_call_alone() -> None:
    """With nothing else to keep the request goes out again."""
    play = Play()
    play.opened()
    play.call('{"a": ', closed=False)
    play.cut()
    play.sleep()

    assert ([REQUEST, REQUEST], {}) == (play.sent, play.shown)


@pytest.mark.parametrize("behind", [None, "half call", "text", "thinking"])
def test_a_whole_call_completes_the_turn(behind: str | None) -> None:
    """A cut after a whole call ends the turn as `tool_use`: nothing is sent, what follows goes."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.call('{"a": 1}', 1)
    if behind == "half call":
        play.call('{"b": ', 2, closed=False)
    elif behind == "text":
        play.start("text", 2)
        play.delta("And now", 2)
    elif behind == "thinking":
        play.think("hm", 2, signature="sig")
    play.cut()

    assert (1, {0: TEXT, 1: '{"a": 1}'}) == (len(play.sent), play.shown)
    assert ("completed", Stop.tool_use, None, "tool_calls_whole", False) == (
        play.finished.outcome, play.finished.stop, play.finished.failure, play.finished.reason,
        play.finished.incomplete,
    )  # fmt: skip
    assert ["interrupted", "committing", "completed"] == play.path


@pytest.mark.parametrize("kind", ["auth", "invalid_request", "quota_exhausted", "unknown"])
def test_a_whole_call_beats_every_failure(kind: str) -> None:
    """Whatever the failure was, whole calls can be run."""
    play = Play()
    play.opened()
    play.call("{}")
    play.cut(kind)

    assert "completed" == play.machine.state


def test_a_call_that_parses_is_whole() -> None:
    """A call whose input is one JSON object is whole although nothing closed it."""
    play = Play()
    play.opened()
    play.call('{"a": 1}', closed=False)
    play.cut()

    assert ({0: '{"a": 1}'}, "completed") == (play.shown, play.machine.state)
    assert "tool_calls_whole" == play.finished.reason


def test_a_call_in_a_continuation() -> None:
    """A whole call that a continuation brought completes the turn too."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.opened()
    play.call("{}")
    play.cut()

    assert (2, {0: TEXT, 1: "{}"}) == (len(play.sent), play.shown)


def test_all_or_none_sends_again() -> None:
    """With all_or_none a cut between parallel calls runs none of them: the request goes again."""
    calls = {"tool_use": {"release": "turn", "parallel": "all_or_none"}}
    play = Play(policy_of(blocks=calls))
    play.opened()
    play.call("{}")
    play.call('{"b": ', 1, closed=False)
    play.cut()
    play.sleep()

    assert ([REQUEST, REQUEST], {}) == (play.sent, play.shown)


def test_half_a_call_under_length() -> None:
    """The cap cut a call: it is dropped and recorded, and the turn ends by `length`."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.call('{"a": ', 1, closed=False)
    play.stop("length")

    assert ({0: TEXT}, Stop.length, True) == (
        play.shown, play.finished.stop, play.finished.incomplete,
    )  # fmt: skip
    assert ["length"] == [r["reason"] for r in play.records("discarded_partial_tool_use")]


@pytest.mark.parametrize("known", [True, False])
def test_half_a_call_under_length_without_the_fact(known: bool) -> None:
    """It is dropped whether the cap is told by the stop fact or only by the attempt's end."""
    play = Play()
    play.opened()
    play.call('{"a": ', closed=False)
    play.stop("length", known=known)

    assert ({}, "completed", 1) == (
        play.shown, play.machine.state, len(play.records("discarded_partial_tool_use")),
    )  # fmt: skip


def test_whole_calls_under_length_stay() -> None:
    """Whole calls before the cap cut another one are kept."""
    play = Play()
    play.opened()
    play.call('{"a": 1}')
    play.call('{"b": ', 1, closed=False)
    play.stop("length")

    assert {0: '{"a": 1}'} == play.shown


def test_an_open_call_that_is_whole_at_the_end() -> None:
    """A reply that ends well closes a call whose input is whole."""
    play = Play()
    play.opened()
    play.call('{"a": 1}', closed=False)
    play.stop("tool_use")

    assert ({0: '{"a": 1}'}, ["completed"]) == (play.shown, play.path)
    assert ("stop", Stop.tool_use) == (play.finished.reason, play.finished.stop)


@pytest.mark.parametrize("text", ["", TEXT])
def test_a_malformed_call(text: str) -> None:
    """A reply that ends inside a call is tried again once: anew if nothing is kept, else on."""
    play = Play()
    sent = []
    for _ in range(2):
        play.say(text)
        play.close()
        play.call('{"a": ', 1, closed=False)
        play.stop("tool_use")
        again(play)
        sent = play.sent

    assert (2, "exhausted") == (len(sent), play.machine.state)
    assert (REQUEST == sent[1]) is (text == "")
    assert play.finished.failure is not None
    assert FailureKind.malformed_tool_call is play.finished.failure.kind


def test_a_broken_call_that_was_closed_is_the_answer() -> None:
    """Invalid JSON that the provider itself finished passes through."""
    play = Play()
    play.opened()
    play.call('{"a": ')
    play.stop("tool_use")

    assert ({0: '{"a": '}, Stop.tool_use) == (play.shown, play.finished.stop)


# --- thinking -------------------------------------------------------------------------------------


def test_open_thinking_is_dropped() -> None:
    """A cut inside thinking leaves nothing: it is taken back and the request goes out again."""
    play = Play()
    play.opened()
    play.think("hm, let me", closed=False)
    play.cut()
    play.sleep()

    assert ({}, [REQUEST, REQUEST]) == (play.shown, play.sent)


def test_signed_thinking_is_kept() -> None:
    """Signed thinking before text goes back with it."""
    play = Play()
    play.opened()
    play.think("hm", signature="sig")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()
    play.sleep()

    assert [("thinking", "hm"), ("text", TEXT.rstrip())] == play.sent[1]["kept"]


def test_unsigned_thinking_is_dropped() -> None:
    """Thinking without a signature does not go back; the text does."""
    play = Play()
    play.opened()
    play.think("hm")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()
    play.sleep()

    assert ([("text", TEXT.rstrip())], {1: TEXT}) == (play.sent[1]["kept"], play.shown)


def test_thinking_alone_is_nothing_to_continue_from() -> None:
    """A reply that has only thought when the cap ends it is not continued: nobody could read it."""
    play = Play(one_rule("continue", {"stop": ["length"]}))
    play.opened()
    play.think("hm", signature="sig")
    play.stop("length")

    assert (1, "completed") == (len(play.sent), play.machine.state)


def test_what_makes_no_message_is_not_continued() -> None:
    """A cut where all that is kept could not be sent back is a retry, not a broken request."""

    play = Play(policy_of(blocks={"redacted_thinking": {"release": "with_next"}}))
    play.opened()
    play.start("redacted_thinking")
    play.close()
    play.cut()
    play.sleep()

    assert [REQUEST, REQUEST] == play.sent


# --- safety ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CUTS)
def test_a_cut_inside_a_refusal(kind: str) -> None:
    """A model that was refusing is neither asked again nor continued."""
    play = Play()
    play.opened()
    play.start("refusal")
    play.delta("I cannot help with that, because ")
    play.cut(kind)

    assert (1, "exhausted") == (len(play.sent), play.machine.state)


def test_a_safety_stop_is_an_end() -> None:
    """A safety stop completes the turn with that stop."""
    play = Play(one_rule("continue", {"stop": ["length", "end", "pause"]}))
    play.say(TEXT)
    play.stop("safety")

    assert (1, Stop.safety) == (len(play.sent), play.finished.stop)


# --- cancel, yield --------------------------------------------------------------------------------


def playing(state: str) -> Play:
    """A turn in this state."""
    rules = [
        {"name": "ask", "on": {"failure": ["context_overflow"]}, "action": "compact", "limit": 1},
        *policy_of().model_dump(mode="json")["rules"],
    ]
    play = Play(policy_of(rules=rules), hooks=["compact"])
    if state == "sent":
        return play
    play.say(TEXT)
    if state == "committing":
        play.cut("context_overflow")
    elif state in ("backoff", "continuing"):
        play.cut()
    if state == "continuing":
        play.sleep()
    assert play.machine.state == state
    return play


STATES = ["sent", "streaming", "committing", "backoff", "continuing"]


@pytest.mark.parametrize("event", [Cancelled(), Cancelled("shutdown"), Yielded()])
@pytest.mark.parametrize("state", STATES)
def test_cancel_and_yield_win(state: str, event: Any) -> None:
    """In every state cancel and yield end the turn at once; nothing is sent after them."""
    play = playing(state)
    sent, closed = len(play.sent), len(play.of(Close))
    was_open = state in ("sent", "streaming", "continuing")
    play.feed(event)
    play.wait(10000)

    assert ("aborted", Stop.aborted, None) == (
        play.finished.outcome, play.finished.stop, play.finished.failure,
    )  # fmt: skip
    assert (sent, closed + was_open) == (len(play.sent), len(play.of(Close)))
    assert "aborted" == play.path[-1]


@pytest.mark.parametrize("state", STATES[1:])
def test_what_was_shown_survives_a_cancel(state: str) -> None:
    """The caller keeps what it has seen, and history says the same."""
    play = playing(state)
    play.feed(Cancelled())

    assert TEXT == play.text
    assert [{"role": "assistant", "content": [("text", TEXT)]}] == play.machine.history.message


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (Cancelled(), "caller"),
        (Cancelled("disconnect"), "disconnect"),
        (Cancelled("shutdown"), "shutdown"),
        (Cancelled("defect"), "defect"),
        (Yielded(), "yielded"),
    ],
)
def test_a_cancel_carries_its_cause(event: Any, reason: str) -> None:
    """Who ended the turn is told to the caller and recorded."""
    play = playing("streaming")
    play.feed(event)

    assert reason == play.finished.reason
    assert [reason] == [r["cause"] for r in play.records("llm_stream_aborted")]


@pytest.mark.parametrize(
    "event", [Cancelled(), Yielded(), TimePassed(), Opened(0), BlockDelta(0, 0, "x"), Heartbeat(0)]
)
def test_after_the_end_nothing_happens(event: Any) -> None:
    """A second cancel and whatever still arrives have no effect at all."""
    play = playing("streaming")
    play.feed(Cancelled())

    assert [] == play.feed(event)


def test_a_plan_is_withdrawn_before_it_is_sent() -> None:
    """A cancel at the very end of the wait still wins over the request that was planned."""
    play = playing("backoff")
    play.now = play.machine.next_deadline()
    play.feed(Cancelled(), TimePassed())

    assert (1, "aborted") == (len(play.sent), play.machine.state)


def test_a_cut_that_was_first() -> None:
    """Cut and cancel in one tick: the cut is taken, then the cancel ends the turn."""
    play = playing("streaming")
    play.cut()
    play.feed(Cancelled())

    assert ["interrupted", "committing", "backoff", "aborted"] == play.path


def test_whole_calls_are_dropped_by_a_cancel() -> None:
    """Calls that nobody will run are taken back, and recorded."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.call("{}", 1)
    play.start("text", 2)
    before = play.shown
    play.feed(Cancelled())

    assert ({0: TEXT, 1: "{}"}, {0: TEXT}) == (before, play.shown)
    assert ["caller_error"] == [r["reason"] for r in play.records("discarded_partial_tool_use")]


# --- Close, Send, Wait ----------------------------------------------------------------------------


def test_the_dead_attempt_is_closed_before_the_next() -> None:
    """Each attempt that broke is closed at once, and before any other request goes out."""
    play = Play()
    play.say(TEXT)
    for _ in range(3):
        play.cut()
        play.sleep()
        play.opened()
    orders = [e for e in play.effects if isinstance(e, Send | Close)]

    assert [0, 0, 1, 1, 2, 2, 3] == [order.attempt for order in orders]
    assert [Send, Close] * 3 + [Send] == [type(order) for order in orders]


def test_a_wait_says_until_when() -> None:
    """The host is told the time at which the wait ends, and why there is one."""
    play = Play()
    play.say(TEXT)
    play.cut()

    assert [Wait(1001.0, 1.0, "sse_transport")] == play.of(Wait)


def test_a_rule_without_backoff_sends_at_once() -> None:
    """No wait, no order to wait: the states are passed through in one step."""
    play = Play(one_rule("continue", {"failure": ["sse_transport"]}))
    play.say(TEXT)
    play.cut()

    assert ([], 2) == (play.waits, len(play.sent))
    assert ["interrupted", "committing", "backoff", "continuing"] == play.path


def test_time_that_passes_in_vain() -> None:
    """A wake-up in the middle of the wait is no end of it."""
    play = Play()
    play.say(TEXT)
    play.cut()

    assert ([], "backoff") == (play.wait(0.5), play.machine.state)


# --- hints ----------------------------------------------------------------------------------------


def test_a_hint_is_waited_for() -> None:
    """The provider's wait counts instead of the backoff, and is never shortened."""
    play = Play(rng=lambda: 0.5)
    play.cut("rate_limited", phase="response", retry_after_s=7.0)

    assert [7.125] == play.waits


def test_a_hint_that_is_too_long() -> None:
    """Nobody sleeps for hours: the turn ends at once and says when a retry makes sense."""
    play = Play()
    play.cut("rate_limited", phase="response", retry_after_s=3600.0)

    assert ("exhausted", "no_rule_left", 3600.0) == (
        play.finished.outcome, play.finished.reason, play.finished.retry_at_s,
    )  # fmt: skip


def test_a_hint_that_is_too_long_lets_others_try() -> None:
    """A rule that needs no such wait is still taken."""
    accept = {"name": "accept", "on": {"partial": True}, "action": "finish"}
    rules = [*policy_of().model_dump(mode="json")["rules"], accept]
    play = Play(policy_of(rules=rules))
    play.say(TEXT)
    play.cut("rate_limited", retry_after_s=3600.0)

    assert ("completed", "partial_accepted") == (play.finished.outcome, play.finished.reason)


def test_the_waits_of_a_turn_are_bounded() -> None:
    """All waits together stay within limits.wait_s; the one that would exceed it is not begun."""
    play = Play(policy_of(limits={"wait_s": 10.0}))
    play.say(TEXT)
    while not play.machine.done:
        play.cut()
        again(play)

    assert ([1.0, 2.0, 4.0], "wait_too_long") == (play.waits, play.finished.reason)
    assert 8.0 == play.finished.retry_at_s


@pytest.mark.parametrize(("should_retry", "sent"), [(True, 2), (False, 1), (None, 1)])
def test_what_the_server_says_about_a_retry(should_retry: bool | None, sent: int) -> None:
    """`should_retry = true` is obeyed once, for whatever kind; `false` forbids a plain retry."""
    play = Play()
    for _ in range(2):
        if not play.machine.done:
            play.cut("unknown", phase="response", should_retry=should_retry)
            again(play)

    assert (sent, "exhausted") == (len(play.sent), play.machine.state)


def test_a_busy_server_that_says_no() -> None:
    """A server that is overloaded and says not to retry is not retried."""
    play = Play()
    play.cut("overloaded", phase="response", should_retry=False)

    assert "exhausted" == play.machine.state


def test_a_cut_that_says_no_is_continued() -> None:
    """The continuation is another request: `should_retry = false` does not speak of it."""
    play = Play()
    play.say(TEXT)
    play.cut("server_error", should_retry=False)

    assert "backoff" == play.machine.state


# --- ladders --------------------------------------------------------------------------------------


def test_a_stale_connection_is_retried_at_once() -> None:
    """A kept-alive connection that died is no fault of anybody: once, without a wait."""
    play = Play()
    for _ in range(2):
        play.cut("sse_transport", phase="response", connection="reused")

    assert ([0.5], 2) == (play.waits, len(play.sent))


def test_fatal_failures_end_the_turn() -> None:
    """What a retry cannot help ends the turn at once, and gives back the provider's facts."""
    for kind in ("auth", "not_found", "invalid_request", "quota_exhausted", "blocked"):
        play = Play()
        play.cut(kind, phase="response", status=401, message="no")

        assert play.finished.failure is not None
        assert (kind, 401, "no") == (
            play.finished.failure.kind, play.finished.failure.status, play.finished.failure.message,
        )  # fmt: skip


def test_the_same_gateway_timeout_twice() -> None:
    """524 twice in a row ends the turn, with a hint for people."""
    play = Play()
    for _ in range(2):
        play.cut("server_error", phase="response", status=524)
        again(play)

    assert "exhausted" == play.machine.state
    assert play.machine.turn.hint is not None
    assert "timed out twice" in play.machine.turn.hint


@pytest.mark.parametrize("between", ["other kind", "output", "finished"])
def test_in_a_row(between: str) -> None:
    """A row of equal failures is broken by another kind, and by a delta that was shown."""
    third = {"name": "3", "on": {"failure": ["overloaded"], "in_a_row": 3}, "action": "stop"}
    more = {"name": "on", "on": {"stop": ["length"]}, "action": "continue", "limit": 1}
    rules = [third, more, *policy_of().model_dump(mode="json")["rules"]]
    play = Play(policy_of(rules=rules))
    for n in range(3):
        if n == 2 and between == "other kind":
            play.cut("server_error", phase="response")
            again(play)
        elif n == 2 and between == "output":
            play.say(TEXT)
        elif n == 2:
            play.say(TEXT)
            play.stop("length")
        play.cut("overloaded", phase="response")
        again(play)

    assert not play.machine.done


def test_three_in_a_row() -> None:
    """Without anything between them, the third of a row is the third."""
    third = {"name": "3", "on": {"failure": ["overloaded"], "in_a_row": 3}, "action": "stop"}
    play = Play(policy_of(rules=[third, *policy_of().model_dump(mode="json")["rules"]]))
    for _ in range(3):
        play.cut("overloaded", phase="response")
        again(play)

    assert "exhausted" == play.machine.state


def test_the_next_strategy() -> None:
    """A server that refuses a prefill is asked by the next strategy, at once, and remembered."""
    play = Play(policy_of(continuation={"strategies": ["prefill", "instruct"]}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.cut("prefill_rejected", phase="response")
    strategies = [body.get("strategy") for body in play.sent]

    assert ([None, "prefill", "instruct"], [1.0]) == (strategies, play.waits)
    assert frozenset({"prefill"}) == play.machine.refused


def test_no_next_strategy_left() -> None:
    """Where there is no other strategy the turn ends, with the partial."""
    play = Play(policy_of(continuation={"strategies": ["prefill"]}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.cut("prefill_rejected", phase="response")

    assert ("exhausted", TEXT) == (play.machine.state, play.text)


def test_a_strategy_known_to_be_refused() -> None:
    """What this server refused before is not tried again."""
    play = Play(
        policy_of(continuation={"strategies": ["prefill", "instruct"]}), refused=["prefill"]
    )
    play.say(TEXT)
    play.cut()
    play.sleep()

    assert "instruct" == play.sent[1]["strategy"]


def test_rejected_thinking_is_stripped_once() -> None:
    """A provider that does not take this turn's thinking back gets the request without it."""
    play = Play()
    play.opened()
    play.think("hm", signature="sig")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()
    play.sleep()
    for _ in range(2):
        play.cut("thinking_rejected", phase="response")

    assert [("text", TEXT.rstrip())] == play.sent[2]["kept"]
    assert (True, 3, "exhausted") == (
        play.sent[2]["stripped"], len(play.sent), play.machine.state,
    )  # fmt: skip


def test_accepting_the_partial() -> None:
    """`finish` takes the partial as the turn: completed, incomplete, nothing sent."""
    play = Play(one_rule("finish", {"failure": ["sse_transport"]}))
    play.say(TEXT)
    play.cut()

    assert (TEXT, 1) == (play.text, len(play.sent))
    assert ("completed", Stop.end, True, "partial_accepted") == (
        play.finished.outcome, play.finished.stop, play.finished.incomplete, play.finished.reason,
    )  # fmt: skip


def test_a_stop_rule_for_a_stop() -> None:
    """A rule that stops on a stop of the model changes nothing: it is the end anyway."""
    play = Play(one_rule("stop", {"stop": ["length"]}))
    play.say(TEXT)
    play.stop("length")

    assert ("completed", Stop.length) == (play.finished.outcome, play.finished.stop)


# --- going on after a stop ------------------------------------------------------------------------


def test_a_stop_that_a_rule_takes() -> None:
    """A rule for `length` continues the reply as if it had been cut."""
    play = Play(one_rule("continue", {"stop": ["length"]}, cap="fresh"))
    play.say(TEXT)
    play.stop("length")
    play.say("Six.")
    play.stop()

    assert (TEXT + "Six.", Stop.end, False) == (
        play.text, play.finished.stop, play.finished.incomplete,
    )  # fmt: skip
    assert ["interrupted", "committing", "backoff", "continuing", "streaming", "completed"] == (
        play.path
    )
    assert 1 == len([e for e in play.events if isinstance(e, StopKnown)])


def test_a_stop_rule_without_anything_to_continue() -> None:
    """Where the rule is not legal the stop is what it is: the turn is completed."""
    play = Play(one_rule("continue", {"stop": ["length"]}))
    play.opened()
    play.stop("length")

    assert ("completed", Stop.length) == (play.finished.outcome, play.finished.stop)


def test_an_unanswered_call_is_never_continued() -> None:
    """No continuation is built on a history with a call of this turn that nobody has answered."""
    play = Play(one_rule("continue", {"stop": ["length"]}))
    play.opened()
    play.call("{}")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.stop("length")

    assert (1, "completed") == (len(play.sent), play.machine.state)


def test_no_progress() -> None:
    """Two continuations in a row that end by themselves with nothing new end the turn."""
    play = Play(one_rule("continue", {"stop": ["length"]}))
    play.say(TEXT)
    for _ in range(3):
        play.stop("length")
        if not play.machine.done:
            play.opened()

    assert ("exhausted", "no_progress", 3) == (
        play.finished.outcome, play.finished.reason, len(play.sent),
    )  # fmt: skip


def test_progress_starts_the_count_anew() -> None:
    """One new character is progress."""
    play = Play(one_rule("continue", {"stop": ["length"]}))
    play.say(TEXT)
    play.stop("length")
    for n in range(6):
        play.say("Six. " if n % 2 else "")
        play.stop("length")

    assert (8, False) == (len(play.sent), play.machine.done)


def test_an_empty_continuation_is_a_success() -> None:
    """A model that has nothing to add has finished."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.feed(Finished(1, Stop.end))

    assert ("completed", TEXT) == (play.machine.state, play.text)


# --- bounds ---------------------------------------------------------------------------------------


def test_attempts_are_bounded() -> None:
    """limits.attempts counts every request, whatever the rules still allow."""
    play = Play(policy_of(limits={"attempts": 3}))
    play.say(TEXT)
    while not play.machine.done:
        play.cut()
        again(play)

    assert 3 == len(play.sent)


def test_input_tokens_are_bounded() -> None:
    """Recovery sends at most extra_input_tokens again, by what the provider reported."""
    play = Play(policy_of(limits={"extra_input_tokens": 250}))
    play.say(TEXT)
    while not play.machine.done:
        play.feed(UsageReported(play.attempt, Usage(input=100)))
        play.cut()
        again(play)

    assert 3 == len(play.sent)


def test_recovery_can_be_switched_off() -> None:
    """`enabled = false`: a cut ends the turn; the blocks stay safe all the same."""
    play = Play(policy_of(enabled=False))
    play.say(TEXT)
    play.close()
    play.call('{"a": ', 1, closed=False)
    play.cut()

    assert (1, {0: TEXT}, "exhausted") == (len(play.sent), play.shown, play.machine.state)


def test_switched_off_nothing_is_held_for_a_rule() -> None:
    """Without recovery no stop is kept waiting for a rule that could take it."""
    only = one_rule("continue", {"stop": ["length"]}).model_dump(mode="json")["rules"]
    play = Play(policy_of(enabled=False, rules=only))
    play.say(TEXT)
    play.stop("length")

    assert (1, "completed") == (len(play.sent), play.machine.state)


# --- seams in a turn ------------------------------------------------------------------------------


def test_a_mismatch_that_is_rejected() -> None:
    """`on_mismatch = "reject"`: an answer that does not join is a failure of its own."""
    play = Play(policy_of(seam={"instruct": {"on_mismatch": "reject"}}))
    play.say(TEXT + "Six seven eight nine. ")
    play.cut()
    play.sleep()
    play.say(TEXT + "But then something else")

    assert play.finished.failure is not None
    assert FailureKind.seam_mismatch is play.finished.failure.kind
    assert TEXT + "Six seven eight nine. " == play.text


def test_a_mismatch_found_at_the_end() -> None:
    """Also when it only shows when the reply has ended."""
    trim = {"prefill": {"trim": "last_word", "on_mismatch": "reject"}}
    play = Play(policy_of(seam=trim, continuation={"strategies": ["prefill"]}))
    play.say("The quick bro")
    play.cut()
    play.sleep()
    play.opened()
    play.start()
    play.feed(BlockDelta(1, 0, " red fox"))

    assert ("exhausted", "The quick bro") == (play.machine.state, play.text)


def test_the_fragment_of_a_word_is_written_again() -> None:
    """The word that was being written is left to the next attempt, which begins it anew."""
    play = Play()
    play.say("Hello, dear wor")
    play.cut()
    before = play.text
    play.sleep()
    play.say("world. And so on")
    play.stop()

    assert ("Hello, dear ", "Hello, dear world. And so on") == (before, play.text)


def test_a_fragment_is_forgotten_once_text_stands_there() -> None:
    """What an earlier cut lost is no part of the text that a later seam compares with."""
    play = Play()
    play.say("Hello, dear wor")
    play.cut()
    play.sleep()
    play.say("world. And so ")
    play.cut()
    first, second = play.machine.turn.attempts

    assert (15, 12) == (first.received_chars, first.kept_chars)
    assert (14, 14) == (second.received_chars, second.kept_chars)


# --- retraction -----------------------------------------------------------------------------------


def strict() -> Policy:
    """The overlay that trusts no partial output."""
    return policy_of("anthropic+strict", dialect="anthropic_messages")


def test_a_team_that_trusts_no_partial() -> None:
    """`strict`: what was shown is taken back, and the same request goes out again."""
    play = Play(strict())
    play.say(TEXT)
    shown = play.text
    play.cut()
    after = play.text
    play.sleep()
    play.say("Another reply.")
    play.stop()

    assert (TEXT, "", "Another reply.") == (shown, after, play.text)
    assert [REQUEST, REQUEST] == play.sent


def test_retraction_in_a_continuation() -> None:
    """A retry that takes back what a continuation showed begins the whole turn anew."""
    rules = [
        {"name": "c", "on": {"failure": ["sse_transport"]}, "action": "continue", "limit": 1},
        {"name": "r", "on": {"failure": ["server_error"]}, "action": "retry", "limit": 1},
    ]
    play = Play(policy_of(turn={"retract": True}, rules=rules))
    play.say(TEXT)
    play.cut()
    play.say("Six seven eight. ")
    play.cut("server_error")
    play.say(TEXT + "Seven!")
    play.stop()

    assert (TEXT + "Seven!", REQUEST) == (play.text, play.sent[2])


def test_retraction_of_what_was_kept_unseen() -> None:
    """A partial that was held is dropped with the rest, and not joined to the new reply."""
    rules = [{"name": "r", "on": {"failure": ["server_error"]}, "action": "retry", "limit": 1}]
    blocks = {"text": {"release": "turn"}}
    play = Play(policy_of(turn={"retract": True}, rules=rules, blocks=blocks))
    play.say(TEXT)
    play.cut("server_error")
    play.say("Another reply.")
    play.stop()

    assert "Another reply." == play.text


# --- usage of a turn ------------------------------------------------------------------------------


def test_the_cost_of_a_turn() -> None:
    """Attempts are summed; a cut attempt's output is estimated, what was dropped is counted."""
    play = Play(policy_of(cap={"chars_per_token": 5.0}))
    play.say(TEXT + "six")
    play.feed(UsageReported(0, Usage(input=100, output=1)))
    play.cut()
    play.sleep()
    play.say("seven.")
    play.feed(UsageReported(1, Usage(input=130, output=2)))
    play.stop()
    usage = play.machine.usage

    assert (230, 5 + 2, 100, True, 0) == (
        usage.input, usage.output, usage.shown_input, usage.incomplete, usage.discarded_output,
    )  # fmt: skip


def test_discarded_output_is_counted() -> None:
    """What was received and not kept is paid for in vain, and known."""
    play = Play(policy_of(cap={"chars_per_token": 5.0}))
    play.opened()
    play.think("x" * 50, closed=False)
    play.cut()

    assert 10 == play.machine.usage.discarded_output


# --- defects --------------------------------------------------------------------------------------


def test_an_event_that_is_none() -> None:
    """An event that no upstream can say is a defect of the host, and raises."""
    with pytest.raises(KeyError):
        Play().feed(TurnFinished(0, "completed", Stop.end, None, "x"))


def test_late_events_are_counted() -> None:
    """Events of an attempt that is over, or of none, change nothing and are counted."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.feed(BlockDelta(0, 0, "late"), Finished(0, Stop.end))
    play.sleep()
    play.feed(BlockDelta(0, 0, "late"), Finished(7, Stop.end), Heartbeat(0))

    assert (5, TEXT, "continuing") == (
        play.machine.turn.late_events, play.text, play.machine.state,
    )  # fmt: skip


@pytest.mark.parametrize("end", ["cut", "stop"])
def test_what_still_comes_of_a_reply_that_was_taken_back(end: str) -> None:
    """Late text of an attempt that was taken back reaches nobody, although it was being shown."""
    on = {"failure": ["sse_transport"]} if end == "cut" else {"stop": ["length"]}
    rule = {"name": "r", "on": on, "action": "retry", "limit": 1, "backoff": "transient"}
    play = Play(policy_of(turn={"retract": True}, rules=[rule]))
    play.say(TEXT)
    play.delta("six ")
    play.cut() if end == "cut" else play.stop("length")
    play.delta("late ")

    assert ("", 1) == (play.text, play.machine.turn.late_events)


def test_a_refusal_that_only_the_rule_knows() -> None:
    """Another strategy is tried, but not learned: what failed may not have been the strategy."""
    rule = {
        "name": "next", "on": {"failure": ["invalid_request"], "continuing": True},
        "action": "next_strategy", "limit": 1,
    }  # fmt: skip
    rules = [rule, *policy_of().model_dump(mode="json")["rules"]]
    play = Play(policy_of(rules=rules, continuation={"strategies": ["prefill", "instruct"]}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.cut("invalid_request", phase="response")

    assert ("instruct", frozenset()) == (play.sent[2]["strategy"], play.machine.refused)


def test_what_the_machine_knows() -> None:
    """Policy, model, request, state and tokens can be asked at any time."""
    play = Play()
    before = (play.machine.is_open, play.machine.done, play.machine.state)
    play.say(TEXT)
    play.feed(UsageReported(0, Usage(input=3)))
    play.stop()

    assert (True, False, "streaming") == before
    assert (False, True, "completed") == (
        play.machine.is_open, play.machine.done, play.machine.state,
    )  # fmt: skip
    assert ("base", "m-1", REQUEST, 3) == (
        play.machine.policy.name, play.machine.model, play.machine.request,
        play.machine.ledger.attempts[0].input,
    )  # fmt: skip
