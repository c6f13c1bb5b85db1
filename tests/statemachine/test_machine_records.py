"""Records: the names and fields are fixed, each moment has its own, and none holds content."""

from typing import Any

import msgspec
import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import load_policy, policy_digest
from midthought.statemachine import Answered, Cancelled, Record

TEXT = "One two three four five. "
COMMON = {
    "run_id", "turn_id", "attempt", "provider", "model", "policy", "policy_digest", "at_s",
}  # fmt: skip
SUMS = {"attempts", "blocks", "output_tokens", "discarded_output_tokens", "late_events"}
#: What stands in a record besides the common fields.
FIELDS = {
    "llm_turn_started": {"features"},
    "llm_state_changed": {"source", "trigger", "state"},
    "llm_attempt_ended": {
        "how", "strategy", "stop", "failure", "received", "received_chars", "kept_chars",
    },
    "llm_turn_finished": {"stop", "reason"} | SUMS,
    "llm_turn_exhausted": {"reason"} | SUMS,
    "llm_stream_interrupted": {
        "original_attempt", "continuation_attempt", "error_kind", "error_message",
        "committed_text_blocks", "committed_partial_text", "discarded_partial_tool_use",
        "discarded_thinking", "usage_flushed",
    },
    "llm_recovery_decided": {"state", "rule", "action", "looked_at", "uses", "budgets"},
    "llm_stream_continuation_started": {
        "backoff_s", "strategy", "committed_blocks", "committed_chars",
    },
    "llm_stream_continuation_completed": {"completion_reason"},
    "llm_stream_continuation_failed": {"error_kind", "error_message"},
    "llm_stream_continuation_exhausted": {"attempts", "final_reason"},
    "llm_stream_aborted": {"cause", "state"},
    "llm_request_retried": {"backoff_s", "rule", "error_kind"},
    "llm_seam_joined": {"strategy", "quality", "dropped_chars", "mismatch"},
    "llm_hook_refused": {"rule", "reason"},
    "discarded_partial_tool_use": {"tool_name", "partial_input_bytes", "reason"},
    "discarded_partial_thinking": {"thinking_chars", "reason", "rule"},
}  # fmt: skip


def own(play: Play, name: str) -> list[dict[str, Any]]:
    """Records of a name, without the common fields."""
    return [{k: v for k, v in r.items() if k not in COMMON} for r in play.records(name)]


def eventful() -> Play:
    """A turn in which about everything happens."""
    rules = [
        {"name": "ask", "on": {"failure": ["context_overflow"]}, "action": "compact", "limit": 9},
        *policy_of().model_dump(mode="json")["rules"],
    ]
    play = Play(policy_of(rules=rules), hooks=["compact"])
    play.cut("overloaded", phase="response")
    play.sleep()
    play.opened()
    play.think("secret thought", closed=False)
    play.cut()
    play.sleep()
    play.say("secret text, and more. ")
    play.close()
    play.call('{"secret": ', 1, closed=False)
    play.cut()
    play.sleep()
    play.cut("context_overflow", phase="response")
    play.feed(Answered(play.machine.turn.plan.number if play.machine.turn.plan else 0, REQUEST))
    play.sleep() if play.machine.state == "backoff" else None
    while not play.machine.done:
        play.opened()
        play.start()
        play.delta("secret again. ")
        play.cut()
        if not play.machine.done:
            play.sleep()
    return play


def test_names_and_fields() -> None:
    """Every record has the common fields and exactly its own; no other name appears."""
    plays = [eventful(), Play(), Play()]
    plays[1].say(TEXT)
    plays[1].feed(Cancelled())
    plays[2].say(TEXT)
    plays[2].cut()
    plays[2].sleep()
    plays[2].say("Six.")
    plays[2].stop()
    seen = set()
    for play in plays:
        for record in play.of(Record):
            seen.add(record.name)

            assert COMMON | FIELDS[record.name] == set(record.fields)
    assert set(FIELDS) == seen


def test_no_record_holds_content() -> None:
    """Lengths and counts, never a prompt, a completion or an input; and all is plain JSON."""
    text = "".join(msgspec.json.encode(r.fields).decode() for r in eventful().of(Record))

    assert "secret" not in text
    assert len(text) > 1000


def test_the_common_fields() -> None:
    """A record says which run, turn, attempt, provider, model and policy, and when."""
    play = Play(load_policy("anthropic"), now=50.0)
    policy = play.machine.policy

    assert [{
        "run_id": "run-1", "turn_id": "turn-1", "attempt": 0, "provider": "anthropic",
        "model": "m-1", "policy": "anthropic", "policy_digest": policy_digest(policy)[:12],
        "at_s": 50.0, "features": [],
    }] == [dict(r) for r in play.records("llm_turn_started")]  # fmt: skip


# --- a cut and its continuation -------------------------------------------------------------------


def test_the_five_records_of_a_continuation() -> None:
    """Interrupted, started, failed, completed and exhausted, each with its facts."""
    play = Play(policy_of(limits={"attempts": 3}))
    play.say(TEXT)
    play.cut("sse_transport", message="peer closed")
    play.sleep()
    play.cut("premature_end", message="no end")
    play.sleep()
    play.cut("stalled")

    assert ["sse_transport", "premature_end", "stalled"] == [
        r["error_kind"] for r in own(play, "llm_stream_interrupted")
    ]
    assert {
        "original_attempt": 0, "continuation_attempt": 0, "error_kind": "sse_transport",
        "error_message": "peer closed", "committed_text_blocks": 1, "committed_partial_text": 25,
        "discarded_partial_tool_use": 0, "discarded_thinking": 0, "usage_flushed": True,
    } == own(play, "llm_stream_interrupted")[0]  # fmt: skip
    assert [
        {"backoff_s": delay, "strategy": "instruct", "committed_blocks": ["text"],
         "committed_chars": 24}
        for delay in (1.0, 2.0)
    ] == own(play, "llm_stream_continuation_started")  # fmt: skip
    assert [
        {"error_kind": "premature_end", "error_message": "no end"},
        {"error_kind": "stalled", "error_message": ""},
    ] == own(play, "llm_stream_continuation_failed")
    assert [{"attempts": 3, "final_reason": "stalled"}] == (
        own(play, "llm_stream_continuation_exhausted")
    )


def test_a_completed_continuation() -> None:
    """A continuation that ended well says by which stop."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("Six.")
    play.stop("length")

    assert [{"completion_reason": "length"}] == own(play, "llm_stream_continuation_completed")
    assert [] == own(play, "llm_stream_continuation_failed")


@pytest.mark.parametrize("end", ["cut", "cancel", "deadline", "stop"])
def test_every_continuation_ends_once(end: str) -> None:
    """Each started continuation has exactly one record of its end, however that came."""
    play = Play(policy_of(clocks={"deadline_s": 100.0}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("Six. ")
    match end:
        case "cut":
            play.cut()
        case "cancel":
            play.feed(Cancelled())
        case "deadline":
            play.wait(200)
        case "stop":
            play.stop()
    ends = [name for name in play.record_names if name.endswith(("_completed", "_failed"))]

    assert (1, 1) == (len(own(play, "llm_stream_continuation_started")), len(ends))
    assert (end == "stop") is (ends == ["llm_stream_continuation_completed"])


def test_attempt_zero_is_no_continuation() -> None:
    """The end of an original request has no record of a continuation."""
    play = Play()
    play.cut("overloaded", phase="response")
    play.sleep()
    play.say(TEXT)
    play.stop()

    assert [] == [name for name in play.record_names if "continuation" in name]
    assert [{"backoff_s": 0.5, "rule": "busy", "error_kind": "overloaded"}] == (
        own(play, "llm_request_retried")
    )


def test_exhausted_without_a_continuation() -> None:
    """`…_continuation_exhausted` is only said where there was one."""
    play = Play()
    play.cut("auth", phase="response")

    assert [
        "llm_turn_started", "llm_attempt_ended", "llm_state_changed", "llm_recovery_decided",
        "llm_state_changed", "llm_turn_exhausted",
    ] == play.record_names  # fmt: skip


@pytest.mark.parametrize(
    ("deadline_s", "why"), [(None, "sse_transport"), (1.5, "wait_too_long"), (20.0, "deadline")]
)
def test_the_final_reason(deadline_s: float | None, why: str) -> None:
    """The final reason is the failure that no rule took, or the bound that was reached."""
    play = Play(policy_of(clocks={"deadline_s": deadline_s}, limits={"attempts": 2}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    if deadline_s == 20.0:
        play.wait(100)
    elif deadline_s == 1.5:
        play.now += 0.4
        play = Play(policy_of(clocks={"deadline_s": 2.5}))
        play.say(TEXT)
        play.cut()
        play.sleep()
        play.cut()
    else:
        play.cut()

    assert [why] == [r["final_reason"] for r in own(play, "llm_stream_continuation_exhausted")]


def test_interrupted_is_about_streams() -> None:
    """A failure before the stream is decided about, but it did not interrupt one."""
    play = Play()
    play.cut("overloaded", phase="response")

    assert [] == own(play, "llm_stream_interrupted")
    assert ["busy"] == [r["rule"] for r in own(play, "llm_recovery_decided")]


def test_a_decision_shows_what_was_looked_at() -> None:
    """Each rule that matched stands there with its answer, and with what had been used."""
    play = Play()
    play.say(TEXT)
    play.cut("overloaded")
    decided = own(play, "llm_recovery_decided")[0]

    assert [{"rule": "cut", "answer": "taken"}] == decided["looked_at"]
    assert ("interrupted", "cut", "continue", {}, {}) == (
        decided["state"], decided["rule"], decided["action"], decided["uses"], decided["budgets"],
    )  # fmt: skip


def test_no_rule_is_a_decision_too() -> None:
    """Where no rule is taken, that stands there."""
    play = Play()
    play.cut("unknown", phase="response")
    decided = own(play, "llm_recovery_decided")[0]

    assert (None, None, []) == (decided["rule"], decided["action"], decided["looked_at"])


# --- what is dropped ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "kind"), [(None, "sse_transport"), ([], "sse_transport"), (None, "overloaded")]
)
def test_half_a_call(rules: Any, kind: str) -> None:
    """Name, bytes and reason of half a call, whether the turn goes on or not."""
    play = Play(policy_of() if rules is None else policy_of(rules=rules))
    play.say(TEXT)
    play.close()
    play.call('{"city": "Zürich', 1, closed=False)
    play.cut(kind)

    assert [{"tool_name": "f", "partial_input_bytes": 17, "reason": f"{kind}_error"}] == (
        own(play, "discarded_partial_tool_use")
    )
    assert 1 == own(play, "llm_stream_interrupted")[0]["discarded_partial_tool_use"]


@pytest.mark.parametrize(
    ("signature", "closed", "rule"), [("s", False, "open"), (None, True, "unsigned")]
)
@pytest.mark.parametrize("rules", [None, []])
def test_thinking(signature: str | None, closed: bool, rule: str, rules: Any) -> None:
    """Characters, reason, and the rule by which thinking was dropped."""
    play = Play(policy_of() if rules is None else policy_of(rules=rules))
    play.opened()
    play.think("hm hm", signature=signature, closed=closed)
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()

    assert [{"thinking_chars": 5, "reason": "sse_transport_error", "rule": rule}] == (
        own(play, "discarded_partial_thinking")
    )
    assert 1 == own(play, "llm_stream_interrupted")[0]["discarded_thinking"]


def test_what_a_cancel_drops() -> None:
    """A cancel in the middle of a call says that it was the caller."""
    play = Play()
    play.opened()
    play.call('{"a', closed=False)
    play.feed(Cancelled())

    assert ["caller_error"] == [r["reason"] for r in own(play, "discarded_partial_tool_use")]


def test_what_a_cut_left_while_a_hook_was_asked() -> None:
    """A cancel while the hook is asked records what the cut had dropped, with the cut's reason."""
    rules = [{"name": "ask", "on": {"failure": ["sse_transport"]}, "action": "compact", "limit": 1}]
    play = Play(policy_of(rules=rules), hooks=["compact"])
    play.say(TEXT)
    play.close()
    play.call('{"a', 1, closed=False)
    play.cut()
    play.feed(Cancelled())

    assert ["sse_transport_error"] == [r["reason"] for r in own(play, "discarded_partial_tool_use")]


def test_thinking_that_a_dropped_call_leaves_alone() -> None:
    """Thinking whose call is dropped by a cancel goes too, and that is recorded."""
    play = Play()
    play.opened()
    play.think("hm", signature="sig")
    play.call("{}", 1)
    play.start("text", 2)
    play.feed(Cancelled())

    assert [{"thinking_chars": 2, "reason": "caller_error", "rule": "last_thinking"}] == (
        own(play, "discarded_partial_thinking")
    )


def test_a_call_behind_a_whole_call() -> None:
    """The half of a second call is recorded when the first completes the turn."""
    play = Play()
    play.opened()
    play.call("{}")
    play.call('{"b', 1, closed=False)
    play.cut()

    assert [3] == [r["partial_input_bytes"] for r in own(play, "discarded_partial_tool_use")]


# --- seams, ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rest", "joint"),
    [
        ("Six.", {"quality": "uncertain", "dropped_chars": 0, "mismatch": False}),
        (" Six.", {"quality": "uncertain", "dropped_chars": 1, "mismatch": False}),
        (TEXT[-12:] + "Six.", {"quality": "uncertain", "dropped_chars": 12, "mismatch": False}),
        (TEXT + "Six.", {"quality": "proved", "dropped_chars": 25, "mismatch": False}),
        (TEXT[:15] + "Six.", {"quality": "uncertain", "dropped_chars": 0, "mismatch": True}),
    ],
)
def test_a_seam_is_recorded(rest: str, joint: dict[str, Any]) -> None:
    """Each join is recorded once: how sure it is, and what was dropped."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say(rest)
    play.stop()

    assert [{"strategy": "instruct"} | joint] == own(play, "llm_seam_joined")


def test_a_seam_is_recorded_once() -> None:
    """However much text and however many blocks follow, one join is one record."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("Six. ")
    for text in ("Seven. ", "Eight. "):
        play.delta(text)
    play.close()
    play.call("{}", 1)
    play.stop()

    assert 1 == len(own(play, "llm_seam_joined"))


@pytest.mark.parametrize("closed", [True, False])
def test_the_seam_of_an_answer_that_only_ends(closed: bool) -> None:
    """Where the join is only known at the end of the text or the reply, it is recorded then."""
    trim = {"prefill": {"trim": "last_word"}}
    play = Play(policy_of(seam=trim, continuation={"strategies": ["prefill"]}))
    play.say("The quick bro")
    play.cut()
    play.sleep()
    play.say(" br")
    early = own(play, "llm_seam_joined")
    if closed:
        play.close()
    play.stop()
    joined = {"strategy": "prefill", "quality": "uncertain", "dropped_chars": 3, "mismatch": False}

    assert ([], [joined], "The quick bro") == (early, own(play, "llm_seam_joined"), play.text)


def test_the_end_of_a_turn() -> None:
    """The last record counts attempts, blocks and tokens."""
    play = Play(policy_of(cap={"chars_per_token": 5.0}))
    play.opened()
    play.think("x" * 50, closed=False)
    play.cut()
    play.sleep()
    play.say(TEXT)
    play.stop()

    assert {
        "stop": "end", "reason": "stop", "attempts": 2, "blocks": ["text"], "output_tokens": 10,
        "discarded_output_tokens": 10, "late_events": 0,
    } == own(play, "llm_turn_finished")[0]  # fmt: skip
    assert "llm_turn_finished" == play.record_names[-1]


def test_an_aborted_turn_is_finished_too() -> None:
    """A cancel is recorded with its state, and the turn's end with its sums."""
    play = Play()
    play.say(TEXT)
    play.feed(Cancelled("shutdown"))

    assert [{"cause": "shutdown", "state": "streaming"}] == own(play, "llm_stream_aborted")
    assert ("aborted", "shutdown") == (
        own(play, "llm_turn_finished")[0]["stop"], own(play, "llm_turn_finished")[0]["reason"],
    )  # fmt: skip
