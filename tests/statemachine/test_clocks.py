"""The clocks: which one runs in which phase, when the machine wants to be woken, what follows."""

from typing import Any

import pytest
from turns import Play, policy_of

from midthought.policies import FailureKind, Policy, Stop
from midthought.statemachine import (
    BlockDelta,
    BlockStarted,
    Cancelled,
    ClockJumped,
    Close,
    Finished,
    Heartbeat,
    Opened,
    Responded,
    StopKnown,
    TimePassed,
    Unknown,
    Usage,
    UsageReported,
)
from midthought.statemachine._clocks import StreamClocks

CLOCKS = {
    "headers_s": 10.0, "first_content_s": 50.0, "liveness_s": 20.0, "progress_s": 30.0,
    "finish_grace_s": 2.0, "growth": 2.0, "wall_jump_s": 30.0, "hook_s": 60.0,
}  # fmt: skip


def timed(**changes: Any) -> Policy:
    """The base policy with short clocks, each of another length."""
    return policy_of(clocks=CLOCKS | changes)


def left(play: Play) -> float:
    """Seconds until the machine wants to be woken."""
    return play.machine.next_deadline() - play.now


def failure(play: Play) -> tuple[FailureKind, str, str]:
    """What the failure that is being dealt with says."""
    found = play.machine.turn.failure
    assert found is not None
    return found.kind, found.phase, found.message


# --- which clock runs -----------------------------------------------------------------------------


def test_before_the_response() -> None:
    """Until the headers come the headers clock runs, from the moment of the request."""
    play = Play(timed())
    play.now += 4

    assert 6 == left(play)


def test_before_the_first_content() -> None:
    """After the headers any byte keeps the connection alive, but not beyond first_content_s."""
    play = Play(timed())
    play.now += 5
    play.feed(Responded(0))
    seen = [left(play)]
    for _ in range(3):
        play.now += 12
        play.feed(Heartbeat(0))
        seen.append(left(play))

    assert [20, 20, 20, 9] == seen


def test_after_the_first_content() -> None:
    """Once content flows, pings keep the liveness clock quiet but not the progress clock."""
    play = Play(timed())
    play.say("One two three four ")
    play.now += 15
    play.feed(Heartbeat(0))
    seen = [left(play)]
    play.now += 5
    play.delta("five ")
    seen.append(left(play))

    assert [15, 20] == seen


@pytest.mark.parametrize(
    ("event", "progress"),
    [
        (BlockDelta(0, 0, "five "), True),
        (BlockDelta(0, 1, "more"), True),
        (BlockStarted(0, 1, "thinking"), True),
        (UsageReported(0, Usage(output=7)), True),
        (UsageReported(0, Usage(output=5)), False),
        (Heartbeat(0), False),
        (Unknown(0, "ping", b""), False),
    ],
)
def test_what_counts_as_progress(event: Any, progress: bool) -> None:
    """Deltas, block starts and growing usage are progress; pings and repeated usage are not."""
    play = Play(timed(liveness_s=1000.0))
    play.say("One two three four ")
    play.feed(UsageReported(0, Usage(output=5)))
    play.now += 10
    play.feed(event)

    assert (30 if progress else 20) == left(play)


def test_another_attempts_events_keep_nothing_alive() -> None:
    """A late event of a closed attempt is no sign of life of the open one."""
    play = Play(timed())
    play.cut()
    play.sleep()
    play.now += 4
    play.feed(Heartbeat(0))

    assert 6 == left(play)


def test_after_the_stop_fact_only_the_grace_runs() -> None:
    """Once the stop fact is there the attempt is given finish_grace_s, whatever else arrives."""
    play = Play(timed())
    play.say("Done. ")
    play.feed(StopKnown(0, Stop.end, "end"))
    play.now += 1.5
    play.feed(UsageReported(0, Usage(output=5)))

    assert 0.5 == left(play)


def test_no_clock_runs_in_a_final_state() -> None:
    """After the end nothing wants to be woken."""
    play = Play(timed(deadline_s=100.0))
    play.feed(Cancelled())

    assert float("inf") == play.machine.next_deadline()


def test_backoff_wakes_at_the_end_of_the_wait() -> None:
    """In backoff the only time that counts is the end of the wait, or an earlier deadline."""
    play = Play(timed(deadline_s=100.0))
    play.say("One two three four five. ")
    play.cut()
    play.now += 0.25

    assert 0.75 == left(play)


# --- what a clock does ----------------------------------------------------------------------------


def test_too_early_does_nothing() -> None:
    """A wake-up before the time has come changes nothing."""
    play = Play(timed())

    assert [] == play.wait(9.99)


@pytest.mark.parametrize(
    ("events", "kind", "phase", "message"),
    [
        ([], "timeout", "response", "headers_s = 10 s ran out"),
        ([Responded(0)], "timeout", "stream", "liveness_s = 20 s ran out"),
        ([Responded(0), Opened(0)], "stalled", "stream", "liveness_s = 20 s ran out"),
        (
            [Opened(0), BlockStarted(0, 0, "text"), BlockDelta(0, 0, "One two three four. ")],
            "stalled", "stream", "liveness_s = 20 s ran out",
        ),
    ],
)  # fmt: skip
def test_a_clock_that_runs_out(events: list[Any], kind: str, phase: str, message: str) -> None:
    """Silence is a timeout before the first event and a stall after it, and says which clock."""
    play = Play(timed())
    play.feed(*events)
    play.sleep()

    assert (FailureKind(kind), phase, message) == failure(play)


def test_the_silent_attempt_is_closed_first() -> None:
    """Whoever was silent is closed before another request goes out."""
    play = Play(timed())
    play.sleep()
    play.sleep()
    names = [type(e).__name__ for e in play.effects if type(e).__name__ in ("Send", "Close")]

    assert ["Send", "Close", "Send"] == names


def test_progress_can_run_out_although_pings_come() -> None:
    """Pings alone do not keep a reply alive for ever."""
    play = Play(timed())
    play.say("One two three four ")
    for _ in range(2):
        play.now += 14
        play.feed(Heartbeat(0))
    play.wait(2)

    assert "progress_s = 30 s ran out" == failure(play)[2]


def test_growing_usage_counts_while_thinking_is_hidden() -> None:
    """A reply that shows nothing but grows is alive: omitted thinking may take minutes."""
    play = Play(timed())
    play.opened()
    play.start("thinking")
    for n in range(20):
        play.now += 15
        play.feed(UsageReported(0, Usage(output=100 * n)))

    assert "streaming" == play.machine.state


# --- growth ---------------------------------------------------------------------------------------


def test_clocks_grow_after_a_kill_without_content() -> None:
    """An attempt that a clock ended before any content gives the next one twice the time."""
    play = Play(timed())
    waits = []
    for _ in range(3):
        waits.append(left(play))
        play.sleep()
        play.sleep()

    assert [10, 20, 40] == waits


def test_the_host_can_ask_for_the_clocks() -> None:
    """A host's own time limits follow the clocks of the attempt, as they have grown."""
    play = Play(timed())
    seen = [(play.machine.headers_s, play.machine.liveness_s)]
    play.sleep()
    play.sleep()
    seen.append((play.machine.headers_s, play.machine.liveness_s))

    assert [(10.0, 20.0), (20.0, 40.0)] == seen


def test_clocks_do_not_grow_after_content() -> None:
    """A stall after content says nothing about slow starts: the next attempt's clocks are equal."""
    play = Play(timed())
    play.say("One two three four five. ")
    play.sleep()
    play.sleep()

    assert 10 == left(play)


def test_clocks_do_not_grow_by_other_failures() -> None:
    """Only our own clock's kill lengthens the clocks; an error of the server does not."""
    play = Play(timed())
    play.cut("server_error", phase="response")
    play.sleep()

    assert 10 == left(play)


# --- after the stop fact --------------------------------------------------------------------------


def test_the_grace_ends_a_whole_reply_well() -> None:
    """A reply whose end marker never comes is complete: closed, and completed."""
    play = Play(timed())
    play.say("Done. ")
    play.feed(StopKnown(0, Stop.end, "end"))
    play.sleep()

    assert ("completed", 1) == (play.machine.state, len(play.of(Close)))


def test_the_grace_ends_at_the_marker() -> None:
    """The end marker ends the attempt at once, and nothing has to be closed."""
    play = Play(timed())
    play.say("Done. ")
    play.stop()

    assert ("completed", 0) == (play.machine.state, len(play.of(Close)))


# --- the wall clock -------------------------------------------------------------------------------


@pytest.mark.parametrize(("seconds", "state"), [(30.0, "streaming"), (30.5, "backoff")])
def test_the_machine_slept(seconds: float, state: str) -> None:
    """A jump of the wall clock above wall_jump_s means a dead connection: a stall at once."""
    play = Play(timed())
    play.say("One two three four five. ")
    play.feed(ClockJumped(seconds))

    assert state == play.machine.state


def test_a_sleep_before_the_first_event_is_a_timeout() -> None:
    """Slept through the start: the same clock's word as for silence there."""
    play = Play(timed())
    play.feed(ClockJumped(3600.0))

    assert (FailureKind.timeout, "the machine slept for 3600 s") == failure(play)[::2]


def test_a_sleep_in_backoff_is_just_a_wait() -> None:
    """Nothing is open then, so nothing can be dead."""
    play = Play(timed())
    play.say("One two three four five. ")
    play.cut()

    assert [] == play.feed(ClockJumped(3600.0))


def test_a_sleep_after_the_stop_fact_changes_nothing() -> None:
    """The reply is whole already."""
    play = Play(timed())
    play.say("Done. ")
    play.feed(StopKnown(0, Stop.end, "end"))

    assert [] == play.feed(ClockJumped(3600.0))


# --- the deadline ---------------------------------------------------------------------------------


def test_the_deadline_ends_an_open_attempt() -> None:
    """Our time for the turn is over: closed, exhausted, what came is kept."""
    play = Play(timed(deadline_s=15.0))
    play.say("One two three four five. ")
    play.sleep()

    assert 1015 == play.now
    assert ("exhausted", "deadline") == (play.finished.outcome, play.finished.reason)
    assert (1, "One two three four five. ") == (len(play.of(Close)), play.text)


def test_the_deadline_beats_a_clock_of_the_same_moment() -> None:
    """Where both ran out there is no time for another attempt."""
    play = Play(timed(deadline_s=10.0))
    play.sleep()

    assert ["exhausted"] == play.path


def test_the_deadline_ends_a_wait() -> None:
    """A wait that was entered in time ends at once when the deadline passes in it."""
    play = Play(timed(deadline_s=10.0))
    play.say("One two three four five. ")
    play.cut()
    play.wait(20)

    assert ("exhausted", 1) == (play.machine.state, len(play.sent))


@pytest.mark.parametrize(("deadline_s", "state"), [(1.0, "exhausted"), (1.5, "backoff")])
def test_a_wait_that_does_not_fit_is_not_entered(deadline_s: float, state: str) -> None:
    """Nobody sleeps towards a deadline: a wait that ends at or after it ends the turn now."""
    play = Play(timed(deadline_s=deadline_s))
    play.say("One two three four five. ")
    play.cut()

    assert state == play.machine.state


def test_no_deadline_by_default() -> None:
    """Without deadline_s only the clocks of the stream run."""
    play = Play(timed())
    play.say("One two three four five. ")
    for _ in range(1000):
        play.now += 19
        play.delta("six ")
        play.feed(TimePassed())

    assert "streaming" == play.machine.state


# --- by themselves --------------------------------------------------------------------------------


def test_the_first_of_two_clocks_is_named() -> None:
    """When two have run out, the one that did so first is the cause."""
    clocks = StreamClocks(timed().clocks)
    clocks.send(0.0)
    clocks.responded = True
    expired = clocks.expired(500.0)

    assert expired is not None
    assert ("liveness_s", 20.0, True) == expired


def test_a_new_request_starts_every_clock_anew() -> None:
    """After `send` nothing of the attempt before is left but the growth."""
    clocks = StreamClocks(timed().clocks)
    clocks.responded = clocks.opened = clocks.content = True
    clocks.grace = 3.0
    clocks.send(100.0)

    assert (110.0, None) == (clocks.deadline(), clocks.expired(109.0))


def test_finished_by_itself_before_any_event() -> None:
    """An attempt that ends well without an event is completed; no clock is left running."""
    play = Play(timed())
    play.feed(Finished(0, Stop.end))

    assert (["completed"], float("inf")) == (play.path, play.machine.next_deadline())
