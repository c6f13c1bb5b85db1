"""The provider's own resume: checkpoints, from where it is asked for, and how it is joined."""

from typing import Any

import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import FailureKind
from midthought.statemachine import Cancelled, Checkpoint, Send, StopUpstream, Yielded

TEXT = "One two three four five. "


def resuming(*resumable: str, strategies: Any = ("resume", "instruct"), **tables: Any) -> Play:
    """A turn whose provider can resume (and poll), with a checkpoint before the reply."""
    policy = policy_of(continuation={"strategies": strategies}, **tables)
    play = Play(policy, request=REQUEST | {"resumable": list(resumable)})
    mark(play, "start")
    return play


def mark(play: Play, id: str, **more: Any) -> None:
    """The provider sets a checkpoint."""
    play.feed(Checkpoint(play.attempt, {"id": id} | more))


def paths(play: Play) -> list[str | None]:
    """Where each request went."""
    return [send.request.path for send in play.of(Send)]


# --- from where -----------------------------------------------------------------------------------


def test_resumed_from_the_checkpoint() -> None:
    """The request after a cut is the provider's own, from the last checkpoint."""
    play = resuming("resume")
    play.say(TEXT)
    mark(play, "middle")
    play.delta("six ")
    play.cut()
    play.sleep()

    assert [None, "/resume/middle"] == paths(play)


def test_the_repeat_is_followed_silently() -> None:
    """What came after the checkpoint comes again: the caller sees it once, the rest is new."""
    play = resuming("resume")
    play.say(TEXT)
    mark(play, "middle")
    play.delta("six sev")
    play.cut()
    play.sleep()
    for piece in ("six ", "seven ", "eight."):
        play.say(piece) if piece == "six " else play.delta(piece)
    play.stop()

    assert TEXT + "six seven eight." == play.text
    assert [("resume", "proved", False)] == [
        (r["strategy"], r["quality"], r["mismatch"]) for r in play.records("llm_seam_joined")
    ]


def test_exact_events_are_not_touched() -> None:
    """Nothing is trimmed and nothing looked for: a text that repeats itself is shown so."""
    play = resuming("resume")
    play.say(TEXT)
    mark(play, "end")
    play.cut()
    play.sleep()
    play.say(TEXT)
    play.stop()

    assert (TEXT + TEXT, "exact") == (play.text, play.records("llm_seam_joined")[0]["quality"])


@pytest.mark.parametrize(
    ("on_mismatch", "state"), [("append", "streaming"), ("reject", "exhausted")]
)
def test_other_words_after_the_checkpoint(on_mismatch: str, state: str) -> None:
    """A provider that says it in other words does not join: appended, or refused."""
    play = resuming("resume", seam={"resume": {"on_mismatch": on_mismatch}})
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("One two THREE and on. ")

    assert (state, on_mismatch == "append") == (play.machine.state, "THREE" in play.text)


def test_without_a_checkpoint_the_next_strategy_is_used() -> None:
    """A reply that has no checkpoint is continued by other means."""
    policy = policy_of(continuation={"strategies": ["resume", "instruct"]})
    play = Play(policy, request=REQUEST | {"resumable": ["resume"]})
    play.say(TEXT)
    play.cut()
    play.sleep()

    assert "instruct" == play.sent[1]["strategy"]


def test_a_request_that_was_not_prepared() -> None:
    """Checkpoints of a request that cannot be resumed are of no use."""
    play = resuming()
    play.say(TEXT)
    play.cut()
    play.sleep()

    assert "instruct" == play.sent[1]["strategy"]


def test_a_refused_resume_is_polled_then_instructed() -> None:
    """What cannot be resumed any more is fetched whole, and then the next strategy is used.

    It is a fact about one reply: nothing is learned for others.
    """
    play = resuming("resume", "poll")
    play.say(TEXT)
    mark(play, "middle")
    play.cut()
    play.sleep()
    for _ in range(2):
        play.cut("prefill_rejected", phase="response")

    assert [None, "/resume/middle", "/poll/middle"] == paths(play)[:3]
    assert "instruct" == play.sent[3]["strategy"]
    assert frozenset() == play.machine.refused


def test_a_polled_reply_is_followed_from_its_start() -> None:
    """A poll brings the whole reply: what was shown is swallowed."""
    play = resuming("poll")
    play.say(TEXT)
    mark(play, "middle")
    play.cut()
    play.sleep()
    play.say(TEXT + "Six.")
    play.stop()

    assert ("/poll/middle", TEXT + "Six.") == (paths(play)[1], play.text)


def test_a_cut_resume_is_resumed() -> None:
    """Resuming counts as continuing: each cut again goes to the newest checkpoint."""
    play = resuming("resume")
    play.say(TEXT)
    mark(play, "one")
    for n in range(5):
        play.cut()
        play.sleep()
        play.say(f"{n} and ")
        mark(play, f"after {n}")
    play.cut()

    assert ["/resume/one", *[f"/resume/after {n}" for n in range(4)]] == paths(play)[1:]
    assert (TEXT + "0 and 1 and 2 and 3 and 4 and ", "exhausted") == (
        play.text, play.machine.state,
    )  # fmt: skip


def test_a_checkpoint_that_comes_while_the_repeat_is_followed() -> None:
    """Its place in the turn is not known yet: it is not used, and nothing is shown twice."""
    play = resuming("resume")
    play.say("Hello world, this is ")
    play.cut()
    play.sleep()
    play.say("Hello ")
    mark(play, "too early")
    play.cut()
    play.sleep()
    play.say("Hello world, this is all.")
    play.stop()

    assert ("/resume/start", "Hello world, this is all.") == (paths(play)[2], play.text)


def test_a_resume_that_is_busy() -> None:
    """A refused resume call is sent again as it was, out of the transient budget."""
    play = resuming("resume")
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.cut("overloaded", phase="response")
    play.sleep()

    assert [None, "/resume/start", "/resume/start"] == paths(play)


# --- which checkpoint is usable -------------------------------------------------------------------


def test_a_checkpoint_inside_a_dropped_block() -> None:
    """A checkpoint after something that is not kept is passed over for an earlier one."""
    play = resuming("resume")
    play.say(TEXT)
    play.close()
    mark(play, "before the call")
    play.call('{"a": ', 1, closed=False)
    mark(play, "inside the call")
    play.cut()
    play.sleep()

    assert "/resume/before the call" == paths(play)[1]


def test_a_checkpoint_before_a_kept_block() -> None:
    """A checkpoint from which a whole kept block would come again is not used."""
    play = resuming("resume")
    play.opened()
    play.think("hm", signature="sig")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()
    play.sleep()

    assert "instruct" == play.sent[1]["strategy"]


def test_a_checkpoint_inside_the_held_word() -> None:
    """Half a word that a checkpoint covers is shown: the provider goes on at the character."""
    play = resuming("resume", seam={"prefill": {"release": "word"}})
    play.say(TEXT)
    mark(play, "border")
    play.delta("six se")
    mark(play, "inside a word")
    play.cut()
    play.sleep()
    play.say("ven.")
    play.stop()

    assert TEXT + "six seven." == play.text


def test_many_checkpoints() -> None:
    """Of very many the newest are kept, and the first."""
    play = resuming("resume")
    play.opened()
    play.start()
    for n in range(1000):
        play.delta(f"{n} ")
        mark(play, str(n))
    play.cut()
    play.sleep()

    assert "/resume/999" == paths(play)[1]


def test_the_first_of_many_is_kept() -> None:
    """Where nothing is kept, only the checkpoint before everything will do."""
    rule = {"name": "r", "on": {"failure": ["sse_transport"]}, "action": "resume", "limit": 1}
    play = resuming("resume", rules=[rule])
    play.opened()
    play.start("thinking")
    for n in range(1000):
        play.delta(f"{n} ")
        mark(play, str(n))
    play.cut()

    assert "/resume/start" == paths(play)[1]


@pytest.mark.parametrize(("closed", "path"), [(True, "/resume/after"), (False, "/resume/start")])
def test_a_checkpoint_behind_thinking_that_is_dropped(closed: bool, path: str) -> None:
    """Thinking that was whole there does not come again; of half of it the rest would miss."""
    rule = {"name": "r", "on": {"failure": ["sse_transport"]}, "action": "resume", "limit": 1}
    play = resuming("resume", rules=[rule])
    play.opened()
    play.think("hm", closed=closed)
    mark(play, "after")
    play.cut()

    assert path == paths(play)[1]


def test_a_checkpoint_of_another_request() -> None:
    """A resume goes out with the caller's request: what an instructed attempt marks is not its."""
    play = resuming("resume", strategies=["instruct", "resume"])
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("Six. ")
    play.feed(Checkpoint(1, {"id": "of the instructed"}, of_request=True))
    play.cut("prefill_rejected")
    play.feed(Cancelled())
    other = resuming("resume")
    other.feed(Checkpoint(0, {"id": "of the original"}, of_request=True))
    other.say(TEXT)
    other.cut()
    other.sleep()

    assert "/resume/start" == paths(play)[-1]
    assert "/resume/of the original" == paths(other)[-1]


def test_a_resumed_stream_may_only_say_where_it_is() -> None:
    """A checkpoint of a resumed stream belongs to the reply that was resumed."""
    play = resuming("resume")
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say(TEXT + "Six. ")
    play.feed(Checkpoint(1, {"at": 7}))
    play.cut()
    play.sleep()

    assert "/resume/start/7" == paths(play)[2]


def test_text_before_a_checkpoint_in_the_middle_of_blocks() -> None:
    """Where several texts were kept, all characters before the checkpoint count."""
    play = resuming("resume")
    play.say(TEXT)
    play.close()
    play.start("text", 1)
    play.delta("Six ", 1)
    mark(play, "middle")
    play.delta("seven ", 1)
    play.cut()
    play.sleep()
    play.opened()
    play.start("text", 1)
    play.delta("seven eight.", 1)
    play.stop()

    assert ("/resume/middle", {0: TEXT, 1: "Six seven eight."}) == (paths(play)[1], play.shown)


# --- the action -----------------------------------------------------------------------------------


def test_the_action_resume_means_resume() -> None:
    """A rule that says `resume` is not answered by another strategy that stands before it."""
    rule = {"name": "r", "on": {"failure": ["sse_transport"]}, "action": "resume", "limit": 1}
    play = resuming("resume", strategies=["instruct", "resume"], rules=[rule])
    play.say(TEXT)
    play.cut()

    assert (["/resume/start"], ["resume"]) == (
        paths(play)[1:], [r["strategy"] for r in play.records("llm_stream_continuation_started")],
    )  # fmt: skip


def test_the_action_resume_without_a_checkpoint() -> None:
    """Where there is nothing to resume the rule is not legal, and the next one is tried."""
    rules = [
        {"name": "r", "on": {"failure": ["sse_transport"]}, "action": "resume", "limit": 1},
        {"name": "c", "on": {"failure": ["sse_transport"]}, "action": "continue", "limit": 1},
    ]
    play = resuming(rules=rules)
    play.say(TEXT)
    play.cut()

    assert "instruct" == play.sent[1]["strategy"]


def test_exhausted_after_resuming() -> None:
    """A turn that only resumed is recorded as an exhausted continuation too."""
    rule = {"name": "r", "on": {"failure": ["sse_transport"]}, "action": "resume", "limit": 1}
    play = resuming("resume", rules=[rule])
    play.say(TEXT)
    play.cut()
    play.cut()

    assert [{"attempts": 2, "final_reason": "sse_transport"}] == [
        {k: r[k] for k in ("attempts", "final_reason")}
        for r in play.records("llm_stream_continuation_exhausted")
    ]


# --- the stop call --------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [Cancelled(), Yielded(), None])
def test_the_provider_is_told_to_stop(end: Any) -> None:
    """A provider that goes on without its connection gets its stop call, after the close."""
    play = resuming("resume", clocks={"deadline_s": 50.0})
    mark(play, "here", stoppable=True)
    play.say(TEXT)
    play.feed(end) if end else play.wait(60)
    stops = play.of(StopUpstream)

    assert [(0, "/stop/here")] == [(stop.attempt, stop.request.path) for stop in stops]


def test_no_stop_call_without_need() -> None:
    """Nothing is called where the handle needs none."""
    play = resuming("resume")
    play.say(TEXT)
    play.feed(Cancelled())

    assert [] == play.of(StopUpstream)


def test_a_reply_that_is_given_up_is_stopped() -> None:
    """A reply that goes on without its connection is stopped when the turn gives up, once."""
    play = resuming("resume")
    mark(play, "here", stoppable=True)
    play.say(TEXT)
    play.cut("auth")

    assert FailureKind.auth == play.records("llm_stream_interrupted")[0]["error_kind"]
    assert 1 == len(play.of(StopUpstream))
