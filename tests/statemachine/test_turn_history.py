"""The turn as messages: one clean message, and what was really sent and answered."""

from typing import Any

import pytest
from turns import Play, policy_of

from midthought.statemachine import BlockDelta, BlockStarted, Cancelled

TEXT = "One two three four five. "
PREFILL = {"continuation": {"strategies": ["prefill"]}}


def assistant(*blocks: tuple[str, str]) -> dict[str, Any]:
    """An assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def cut_once(text: str, rest: str, **tables: Any) -> Play:
    """A turn that was cut once and then finished."""
    play = Play(policy_of(**tables))
    play.say(text)
    play.cut()
    play.sleep()
    play.say(rest)
    play.stop()
    return play


def test_nothing_before_the_end() -> None:
    """A turn that still runs has no history."""
    play = Play()
    play.say(TEXT)

    assert ([], []) == (play.machine.history.message, play.machine.history.messages)


def test_a_reply_that_did_not_break() -> None:
    """Both views are the one message."""
    play = Play()
    play.say(TEXT)
    play.stop()
    history = play.machine.history

    assert [assistant(("text", TEXT))] == history.message == history.messages
    assert () == history.recovery_indexes


def test_one_clean_message() -> None:
    """`message` is the reply as if nothing had broken."""
    play = cut_once(TEXT, "Six.")

    assert [assistant(("text", TEXT + "Six."))] == play.machine.history.message


def test_what_was_really_sent_and_answered() -> None:
    """`messages` shows the partial as it went back, our instruction, and the answer to it."""
    play = cut_once(TEXT, "Six.")
    history = play.machine.history
    instruction = {"role": "user", "content": play.sent[1]["instruction"]}

    assert history.messages == [
        assistant(("text", TEXT.rstrip())), instruction, assistant(("text", " Six.")),
    ]  # fmt: skip
    assert (1,) == history.recovery_indexes


def test_a_prefill_leaves_no_trace() -> None:
    """Without a message of ours there is nothing to show: both views are one."""
    history = cut_once(TEXT, "Six.", **PREFILL).machine.history

    assert [assistant(("text", TEXT + "Six."))] == history.message == history.messages


def test_an_unanswered_message_of_ours_is_in_neither() -> None:
    """An instruction that brought nothing is forgotten."""
    play = Play(policy_of(limits={"attempts": 2}))
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.opened()
    play.cut()
    history = play.machine.history

    assert [assistant(("text", TEXT))] == history.message == history.messages
    assert () == history.recovery_indexes


def test_a_short_answer_is_an_answer() -> None:
    """An answer of one word, which waits for its end until the reply's, is one all the same."""
    assert (1,) == cut_once(TEXT, "six").machine.history.recovery_indexes


def test_instructions_of_a_reply_that_was_taken_back() -> None:
    """A turn that began anew has no message of ours from before in its history."""
    rules = [
        {"name": "c", "on": {"failure": ["sse_transport"]}, "action": "continue", "limit": 1},
        {"name": "r", "on": {"failure": ["server_error"]}, "action": "retry", "limit": 1},
    ]
    play = Play(policy_of(turn={"retract": True}, rules=rules))
    play.say(TEXT)
    play.cut()
    play.say("Six seven eight. ")
    play.cut("server_error")
    play.say("Another reply.")
    play.stop()

    assert [assistant(("text", "Another reply."))] == play.machine.history.messages


def test_two_instructions() -> None:
    """After several, the last answered one stands there: it carried all that came before it."""
    play = Play()
    play.say(TEXT)
    for rest in ("Six seven. ", "Eight nine. "):
        play.cut()
        play.sleep()
        play.say(rest)
    play.stop()
    messages = play.machine.history.messages

    assert [
        assistant(("text", TEXT + "Six seven.")), assistant(("text", " Eight nine. ")),
    ] == [messages[0], messages[2]]  # fmt: skip
    assert 3 == len(messages)


def test_thinking_and_a_call_after_an_instruction() -> None:
    """`messages` keeps later thinking and calls where they came; `message` has thinking first."""
    play = Play()
    play.opened()
    play.think("hm", signature="sig")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.cut()
    play.sleep()
    play.opened()
    play.think("ah", signature="sig")
    play.start("text", 1)
    play.delta("Six.", 1)
    play.close(1)
    play.call("{}", 2)
    play.stop("tool_use")
    history = play.machine.history

    assert [
        assistant(("thinking", "hm"), ("text", TEXT + "Six."), ("tool_use", "{}")),
    ] == history.message  # fmt: skip
    assert [
        assistant(("thinking", "hm"), ("text", TEXT.rstrip())),
        assistant(("thinking", "ah"), ("text", " Six."), ("tool_use", "{}")),
    ] == history.messages[::2]


def test_thinking_that_came_after_the_rest() -> None:
    """Thinking that an answer had behind its text stays behind it."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("Six.")
    play.close()
    play.think("ah", 1, signature="sig")
    play.call("{}", 2)
    play.stop("tool_use")

    assert (
        assistant(("text", " Six."), ("thinking", "ah"), ("tool_use", "{}"))
        == (play.machine.history.messages[2])
    )


def test_thinking_of_the_first_attempt_that_is_kept() -> None:
    """Where nothing was kept of attempt 0, the thinking of attempt 1 is the first."""
    play = Play()
    play.cut()
    play.sleep()
    play.opened()
    play.think("hm", signature="sig")
    play.start("text", 1)
    play.delta(TEXT, 1)
    play.stop()

    assert [assistant(("thinking", "hm"), ("text", TEXT))] == play.machine.history.message


def test_text_in_a_new_block_after_an_instruction() -> None:
    """Where the text could not go on in its block, the new block is the answer."""
    play = Play()
    play.say(TEXT)
    play.close()
    play.cut()
    play.sleep()
    play.say("Six.")
    play.stop()

    assert [assistant(("text", TEXT.rstrip())), assistant(("text", "Six."))] == (
        play.machine.history.messages[::2]
    )


def test_an_answer_of_white_space_is_none() -> None:
    """An instruction answered with nothing but white space leaves no message of ours."""
    history = cut_once(TEXT, " \n\n").machine.history

    assert history.message == history.messages


def test_nothing_kept_no_message() -> None:
    """A turn that brought nothing has no messages, rather than an empty one."""
    play = Play()
    play.opened()
    play.think("hm", closed=False)
    play.feed(Cancelled())

    assert ([], []) == (play.machine.history.message, play.machine.history.messages)
    assert [] == list(play.machine.history.kept)


@pytest.mark.parametrize("end", ["cancel", "exhausted"])
@pytest.mark.parametrize("at", ["open text", "open thinking", "half call", "whole call", "pair"])
def test_history_is_valid_after_every_outcome(at: str, end: str) -> None:
    """However the turn ends, history has no half call, no open thinking and no lonely use."""
    play = Play(policy_of(rules=[]))
    play.say(TEXT)
    play.close()
    match at:
        case "open text":
            play.feed(BlockStarted(0, 1, "text"), BlockDelta(0, 1, "And"))
        case "open thinking":
            play.think("hm", 1, closed=False)
        case "half call":
            play.call('{"a', 1, closed=False)
        case "whole call" if end == "cancel":
            play.call("{}", 1)
        case "pair":
            play.start("server_tool", 1, "s")
            play.close(1)
    play.feed(Cancelled()) if end == "cancel" else play.cut()
    kinds = [block.kind for block in play.machine.history.kept]

    assert ["text"] * (2 if at == "open text" else 1) == kinds
    assert play.machine.blocks == list(play.machine.history.kept)


def test_whole_calls_can_be_answered_instead_of_dropped() -> None:
    """`on_abort = "pair"`: calls that nobody will run stay, answered as not executed."""
    play = Play(policy_of(blocks={"tool_use": {"on_abort": "pair"}}))
    play.say(TEXT)
    play.close()
    play.call("{}", 1)
    play.call("{}", 2)
    play.start("text", 3)
    play.feed(Cancelled())
    history = play.machine.history
    answers = [{"role": "tool", "id": f"call-{n}", "content": "not executed"} for n in (1, 2)]

    assert [assistant(("text", TEXT), ("tool_use", "{}"), ("tool_use", "{}"))] == history.message
    assert [*history.message, *answers] == history.messages
    assert (1, 2) == history.recovery_indexes


def test_no_calls_nothing_to_answer() -> None:
    """`on_abort = "pair"` adds nothing where there was no call."""
    play = Play(policy_of(blocks={"tool_use": {"on_abort": "pair"}}))
    play.say(TEXT)
    play.feed(Cancelled())

    assert [assistant(("text", TEXT))] == play.machine.history.messages


def test_calls_of_a_finished_turn_are_the_callers() -> None:
    """Calls that the caller is going to run are not answered by us."""
    play = Play(policy_of(blocks={"tool_use": {"on_abort": "pair"}}))
    play.opened()
    play.call("{}")
    play.stop("tool_use")

    assert [assistant(("tool_use", "{}"))] == play.machine.history.messages
