"""The timeline: what the caller sees of each block, and when: nothing twice, all in order."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from turns import Play, policy_of

from midthought.policies import BLOCK_KINDS, FailureKind, Stop
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Checkpoint,
    Effect,
    Emit,
    Failure,
    Finished,
    Heartbeat,
    KeepAlive,
    Opened,
    Retract,
    StopKnown,
    Unknown,
)


def release(kind: str, how: str, **more: Any) -> Play:
    """A turn that has opened, where blocks of this kind are released so, and text live at once."""
    seam = {"instruct": {"release": "live", "hold_first": 0}}
    play = Play(policy_of(blocks={kind: {"release": how}}, seam=seam, **more))
    play.opened()
    return play


def names(effects: list[Effect]) -> list[str]:
    """What is shown, in short: +0 a start, its text, -0 a close, ~0 taken back."""
    found = []
    for effect in effects:
        match effect:
            case Emit(BlockStarted(index=index)):
                found.append(f"+{index}")
            case Emit(BlockDelta(text=text)):
                found.append(text)
            case Emit(BlockClosed(index=index)):
                found.append(f"-{index}")
            case Retract(index):
                found.append(f"~{index}")
    return found


# --- when a block is released ---------------------------------------------------------------------


def test_live() -> None:
    """Live text is shown delta by delta, as it comes."""
    play = release("text", "live")
    steps = [play.start(), play.delta("He"), play.delta("llo wor"), play.close()]

    assert [[], ["+0", "He"], ["llo wor"], ["-0"]] == [names(step) for step in steps]


def test_live_passes_the_very_events() -> None:
    """Where nothing is renumbered, the caller gets the event that came, not a copy."""
    play = release("text", "live")
    play.start()
    deltas = [BlockDelta(0, 0, text) for text in ("One ", "two ", "three")]
    play.feed(*deltas)

    assert deltas == [e for e in play.events if isinstance(e, BlockDelta)]
    assert all(a is b for a, b in zip(deltas, play.events[2:], strict=True))


def test_word() -> None:
    """By the word: the word being written waits for its end."""
    play = release("text", "word")
    play.start()
    steps = [play.delta(text) for text in ("Hel", "lo wor", "ld", ", th", "is\n")]

    assert [[], ["+0", "Hello "], [], ["world, "], ["this\n"]] == [names(s) for s in steps]
    assert ["-0"] == names(play.close())


def test_word_is_flushed_by_the_close() -> None:
    """The last word has no white space after it: the block's end shows it."""
    play = release("text", "word")
    play.start()
    play.delta("Hello wor")
    play.delta("ld")

    assert ["world", "-0"] == names(play.close())


def test_word_is_bounded() -> None:
    """A run longer than word_max_chars is no word, and is not held back."""
    play = release("text", "word")
    play.start()
    play.delta("a" * 20)

    assert ["+0", "a" * 25] == names(play.delta("a" * 5))


def test_word_of_an_instructed_model() -> None:
    """Where only `instruct` is left, live text goes by the word without being told."""
    play = Play(policy_of(continuation={"strategies": ["instruct"]}))
    play.say("Hello, dear wor")

    assert "Hello, dear " == play.text


def test_live_where_the_reply_can_be_prefilled() -> None:
    """Where the reply can be prefilled, text goes as the prefill seam says: live."""
    play = Play(policy_of(continuation={"strategies": ["prefill", "instruct"]}))
    play.say("Hello, dear wor")

    assert "Hello, dear wor" == play.text


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_use", "media", "other", "refusal"])
def test_closed(kind: Any) -> None:
    """A block that is released whole waits for its close, and then comes in one go."""
    play = release(kind, "closed")
    play.start(kind, 0)
    play.delta("{", 0, "input" if kind == "tool_use" else "text")
    before = names(play.delta("}", 0, "input" if kind == "tool_use" else "text"))
    after = [*names(play.close()), *names(play.start("text", 1))]

    assert ([], ["+0", "{", "}", "-0"]) == (before, after)


def test_a_call_waits_for_what_follows() -> None:
    """A closed call is released by the next block: only then is it known that it is whole."""
    play = release("tool_use", "closed")
    closed = names(play.call('{"a": 1}'))

    assert ([], ["+0", '{"a": 1}', "-0"]) == (closed, names(play.start("text", 1)))


def test_the_last_call_waits_for_the_stop_fact() -> None:
    """Where no block follows, the stop fact releases the call."""
    play = release("tool_use", "closed")
    play.call('{"a": 1}')
    play.call("", 1)

    assert ["+1", "", "-1"] == names(play.feed(StopKnown(0, Stop.tool_use, "tool_use")))


def test_an_open_call_is_never_shown() -> None:
    """Half a tool call reaches nobody, not even when the stop fact comes in the middle of it."""
    play = release("tool_use", "closed")
    play.call('{"a": ', closed=False)
    play.feed(StopKnown(0, Stop.tool_use, "tool_use"))

    assert [] == names(play.effects)


def test_a_broken_call_that_was_closed_waits_for_the_stop() -> None:
    """Broken JSON is only the provider's answer once it has said that it stopped."""
    play = release("tool_use", "closed")
    play.call('{"a": ')
    held = names(play.start("text", 1))

    assert [] == held
    assert ["+0", '{"a": ', "-0"] == names(play.feed(StopKnown(0, Stop.tool_use, "tool_use")))


def test_with_next() -> None:
    """A block that goes with the next one appears together with its first visible character."""
    play = release("thinking", "with_next")
    play.think("hm", signature="sig")
    steps = [play.start("text", 1), play.delta(" \n", 1), play.delta("Yes", 1)]

    assert [[], [], ["+0", "hm", "sig", "-0", "+1", " \nYes"]] == [names(s) for s in steps]


def test_with_next_goes_with_a_call() -> None:
    """A whole tool call is visible content too."""
    play = release("thinking", "with_next")
    play.think("hm", signature="sig")
    play.call("{}", 1)

    assert ["+0", "hm", "sig", "-0", "+1", "{}", "-1"] == names(play.start("text", 2))


def test_with_next_is_released_by_the_end() -> None:
    """A reply that ends behind it shows it all the same."""
    play = release("thinking", "with_next")
    play.think("hm", signature="sig")

    assert ["+0", "hm", "sig", "-0"] == names(play.stop())


def test_paired() -> None:
    """Use and result of a server tool are shown together, by their id, with what is between."""
    play = release("server_tool", "paired")
    play.start("server_tool", 0, "s")
    play.delta("{}", 0, "input")
    play.close(0)
    play.start("text", 1)
    held = names(play.delta("between", 1))
    play.start("server_tool", 2, "s")
    after = names(play.close(2))

    assert ([], ["+0", "{}", "-0", "+1", "between", "+2", "-2"]) == (held, after)


def test_paired_nested() -> None:
    """An inner pair does not release the outer use: first in, first out."""
    play = release("server_tool", "paired")
    for n, id in enumerate(["outer", "inner", "inner"]):
        play.start("server_tool", n, id)
        play.close(n)
    held = names(play.effects)
    play.start("server_tool", 3, "outer")
    play.close(3)

    assert ([], [f"{s}{n}" for n in range(4) for s in "+-"]) == (held, names(play.effects))


def test_unpaired_is_flushed_by_a_real_end() -> None:
    """A use without a result belongs to a reply that the model itself ended."""
    play = release("server_tool", "paired")
    play.start("server_tool", 0, "s")
    play.close()

    assert ["+0", "-0"] == names(play.stop("pause"))


def test_server_tools_released_whole() -> None:
    """With `closed` a server tool does not wait for its pair."""
    play = release("server_tool", "closed")
    play.start("server_tool", 0, "s")

    assert ["+0", "-0"] == names(play.close())


@pytest.mark.parametrize("kind", ["text", "thinking", "tool_use", "server_tool"])
def test_turn(kind: Any) -> None:
    """With `turn` nothing of a block is shown before the stop fact."""
    play = release(kind, "turn")
    play.start(kind, 0, "s")
    play.delta("{}", 0, "input" if kind == "tool_use" else "text")
    play.close()
    held = names(play.start("text", 1))

    assert ([], ["+0", "{}", "-0"]) == (
        held, names(play.feed(StopKnown(0, Stop.end, "end"))),
    )  # fmt: skip


def test_after_the_stop_fact_nothing_waits() -> None:
    """Late content after the stop fact is passed on at once."""
    play = release("text", "turn")
    play.feed(StopKnown(0, Stop.end, "end"))
    play.start()

    assert [["+0", "late "], ["text "]] == [names(play.delta(t)) for t in ("late ", "text ")]


# --- blank starts and first characters ------------------------------------------------------------


def test_a_blank_start_waits() -> None:
    """A block's start and its leading white space wait for its first other character."""
    play = release("text", "live")
    steps = [play.start(), play.delta(""), play.delta("\n "), play.delta(" Hi")]

    assert [[], [], [], ["+0", "\n  Hi"]] == [names(s) for s in steps]


@pytest.mark.parametrize("how", ["live", "word", "closed"])
def test_a_blank_block_goes_with_the_next(how: str) -> None:
    """A block that is closed blank is no visible content: it is shown when something else is."""
    play = release("text", how)
    play.start()
    play.delta(" \n")
    blank = names(play.close())
    play.start("text", 1)
    play.delta("Yes. ", 1)
    play.close(1)
    play.start("text", 2)
    play.delta("No. ", 2)
    after = names(play.close(2))

    assert ([], ["+0", " \n", "-0"]) == (blank, names(play.effects)[:3])
    assert "-2" == after[-1]


def test_citations_wait_with_their_text() -> None:
    """Citations that come before the first character wait for it."""
    play = release("text", "live")
    play.start()
    held = names(play.delta('{"at": 1}', 0, "citation"))

    assert ([], ["+0", '{"at": 1}', "Cited"]) == (held, names(play.delta("Cited")))


def test_omitted_thinking_goes_with_the_next() -> None:
    """Thinking without a visible word (its signature does not count) is shown with what follows."""
    play = release("thinking", "live")
    held = names([*play.start("thinking"), *play.delta("sig", 0, "signature"), *play.close()])
    play.start("text", 1)

    assert ([], ["+0", "sig", "-0", "+1", "Yes"]) == (held, names(play.delta("Yes", 1)))


def test_the_first_characters_wait() -> None:
    """The first `hold_first` characters of a reply wait, so that a restart can be recognised."""
    play = Play(policy_of(seam={"instruct": {"release": "live"}}))
    play.opened()
    play.start()
    steps = [play.delta(text) for text in ("Hello", " worl", "d!", " And")]

    assert [[], [], ["+0", "Hello world!"], [" And"]] == [names(s) for s in steps]


def test_the_first_characters_wait_only_once() -> None:
    """Later blocks of the reply do not wait again."""
    play = Play(policy_of(seam={"instruct": {"release": "live"}}))
    play.say("Hello, dear world!")
    play.close()
    play.start("text", 1)

    assert ["+1", "Hi"] == names(play.delta("Hi", 1))


def test_a_short_reply_is_shown_by_its_close() -> None:
    """A reply shorter than that is not swallowed."""
    play = Play(policy_of())
    play.say("Yes")

    assert ["+0", "Yes", "-0"] == names(play.close())


# --- one queue ------------------------------------------------------------------------------------


def test_first_in_first_out() -> None:
    """What is held keeps its place: nothing behind a held block is shown before it."""
    play = release("media", "closed")
    play.start("media")
    play.delta("0101")
    play.start("text", 1)
    play.delta("Caption", 1)
    play.close(1)
    held = names(play.effects)

    assert ([], ["+0", "0101", "+1", "Caption", "-1", "-0"]) == (held, names(play.close(0)))


def test_a_held_block_lets_nothing_pass() -> None:
    """Text behind an open tool call waits until the call is decided."""
    play = release("tool_use", "closed")
    play.call('{"a"', closed=False)
    play.start("text", 1)
    held = names(play.delta("behind", 1))
    play.delta(": 1}", 0, "input")
    play.close(0)

    assert [] == held
    assert ["+0", '{"a"', "+1", "behind", ": 1}", "-0"] == names(play.start("text", 2))


def count_steps(work: Callable[[], Any]) -> int:
    """Lines of the timeline that were run: a measure of work without a clock."""
    lines = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        if "_timeline" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize(
    ("kind", "how", "field"),
    [
        ("text", "live", "text"),
        ("text", "word", "text"),
        ("thinking", "with_next", "text"),
        ("other", "with_next", "other"),
        ("tool_use", "closed", "input"),
        ("text", "turn", "text"),
    ],
)
def test_nothing_is_rescanned(kind: Any, how: str, field: Any) -> None:
    """However much is held, one more delta costs the same: four times the deltas, four times."""

    def deltas(count: int) -> int:
        play = release(kind, how)
        play.start(kind)
        return count_steps(lambda: [play.delta("word ", 0, field) for _ in range(count)])

    assert deltas(400) < 6 * deltas(100)


def test_held_content_is_bounded() -> None:
    """More than limits.held_bytes is not held: the attempt ends as `event_too_large`."""
    play = release("tool_use", "closed", limits={"held_bytes": 1024})
    play.start("tool_use")
    for _ in range(1024):
        play.delta("x", 0, "input")
    before = play.machine.state
    play.delta("x", 0, "input")

    assert ("streaming", "exhausted") == (before, play.machine.state)
    assert "event_too_large" == play.records("llm_stream_interrupted")[0]["error_kind"]


def test_held_content_is_counted_in_bytes() -> None:
    """A character of three bytes counts three."""
    play = release("tool_use", "closed", limits={"held_bytes": 1200})
    play.start("tool_use")
    play.delta("你" * 399, 0, "input")
    before = play.machine.state
    play.delta("你" * 2, 0, "input")

    assert ("streaming", "exhausted") == (before, play.machine.state)


def test_what_was_released_or_dropped_is_held_no_more() -> None:
    """The bound is for what waits now: a released call and a dropped one count nothing."""
    play = release("tool_use", "closed", limits={"held_bytes": 1024})
    for n in range(3):
        play.call('{"a": "' + "x" * 500 + '"}', n)
    play.start("text", 3)
    play.call('{"a": "' + "x" * 900, 4, closed=False)
    play.cut("server_error")

    assert "completed" == play.machine.state
    play = release("tool_use", "closed", limits={"held_bytes": 1024})
    for _ in range(3):
        play.call('{"a": "' + "x" * 900, closed=False)
        play.cut("server_error")
        play.sleep()
        play.opened()

    assert "streaming" == play.machine.state


def test_a_heartbeat_while_something_is_held() -> None:
    """While content waits, an upstream ping becomes a sign of life for the caller."""
    play = release("tool_use", "closed")
    quiet = play.feed(Heartbeat(0))
    play.call('{"a"', closed=False)

    assert ([], [KeepAlive()]) == (quiet, play.feed(Heartbeat(0)))


def test_what_is_unknown_is_passed_on() -> None:
    """Events that the dialect does not know reach the caller as they came."""
    event = Unknown(0, "new_thing", b"data: {}")

    assert [Emit(event)] == release("text", "live").feed(event)


# --- grammar --------------------------------------------------------------------------------------


def test_a_repeated_start_is_no_new_block() -> None:
    """A second start of the same index changes nothing."""
    play = release("text", "live")
    play.start()
    play.delta("Hello ")
    play.start()

    assert (["world"], "Hello world") == (names(play.delta("world")), play.text)


def test_a_delta_without_a_start() -> None:
    """A delta of a block that never started is taken as text."""
    play = release("text", "live")

    assert ["+0", "Hello"] == names(play.delta("Hello", 7))


def test_nothing_follows_a_close() -> None:
    """Deltas of a closed block, a second close and a close of nothing are dropped."""
    play = release("text", "live")
    play.start()
    play.delta("Hello")
    play.close()

    assert [] == [*play.delta("more"), *play.close(), *play.close(5)]


def test_a_close_may_bring_the_whole_block() -> None:
    """Where the provider repeats the whole block at its end, that goes with it."""
    play = release("other", "live")
    play.feed(BlockStarted(0, 0, "other", data={"type": "new"}))
    play.feed(BlockClosed(0, 0, {"type": "new", "x": 1}))
    play.stop()

    assert {"type": "new", "x": 1} == play.machine.blocks[0].data


def test_all_fields_are_kept() -> None:
    """Signature, citations and foreign deltas are collected beside the text."""
    play = release("thinking", "live")
    play.start("thinking")
    for text, field in [("hm", "text"), ("si", "signature"), ("g", "signature"), ("{}", "other")]:
        play.delta(text, 0, field)  # type: ignore[arg-type]
    play.delta('{"c"}', 0, "citation")
    block = play.machine.blocks[0]

    assert ("hm", "sig", ["{}"], ['{"c"}']) == (
        block.text, block.signature, block.extra, block.citations,
    )  # fmt: skip


def test_blocks_are_numbered_in_the_callers_order() -> None:
    """Upstream's numbers may have gaps; the caller's have none."""
    play = release("text", "live")
    for index in (3, 9):
        play.start("text", index)
        play.delta("Hello", index)

    assert {0: "Hello", 1: "Hello"} == play.shown


def test_a_parent_is_passed_on() -> None:
    """A block that a server tool called says so."""
    play = release("tool_use", "closed")
    play.feed(BlockStarted(0, 0, "tool_use", "c", "f", None, "srv-1"))
    play.close()
    play.stop()
    started = [e for e in play.events if isinstance(e, BlockStarted)]

    assert (["srv-1"], "srv-1") == ([e.parent for e in started], play.machine.blocks[0].parent)


@pytest.mark.parametrize("kind", BLOCK_KINDS)
def test_every_kind_ends_closed(kind: Any) -> None:
    """Whatever is open when the reply ends well is closed for the caller."""
    play = Play()
    play.opened()
    play.start(kind, 0, "id")
    play.delta("{}", 0, "input" if kind == "tool_use" else "text")
    play.stop()

    assert "-0" == names(play.effects)[-1]
    assert "completed" == play.machine.state


# --- a restart in place ---------------------------------------------------------------------------


def test_a_restart_in_place() -> None:
    """A second start event while nothing was shown begins the attempt anew, unnoticed."""
    play = Play()
    play.say("Hello")
    play.say("Goodbye, dear world. ")
    play.stop()

    assert {0: "Goodbye, dear world. "} == play.shown
    assert (1, 1) == (len(play.sent), len([e for e in play.events if isinstance(e, Opened)]))


def test_a_restart_after_content_is_a_failure() -> None:
    """Once something was shown, a second start event means that the stream is broken."""
    play = Play()
    play.say("Hello, dear world. ")
    play.feed(Opened(0))

    assert "premature_end" == play.records("llm_stream_interrupted")[0]["error_kind"]
    assert "backoff" == play.machine.state


def test_a_restart_of_a_continuation() -> None:
    """A continuation that starts twice is joined once."""
    play = Play()
    play.say("Hello, dear world. ")
    play.cut()
    play.sleep()
    play.say(" ")
    play.say(" That is all. ")
    play.stop()

    assert {0: "Hello, dear world. That is all. "} == play.shown


# --- runaways -------------------------------------------------------------------------------------


def runaway(**rules: Any) -> Play:
    """A turn with blocks of 100 bytes at most."""
    play = Play(policy_of(limits={"block_bytes": 100}, **rules))
    play.opened()
    return play


def test_a_runaway_block_is_never_kept() -> None:
    """A block beyond limits.block_bytes ends the attempt, and is taken back."""
    play = runaway()
    play.start()
    play.delta("on and on " * 10)
    before = play.text
    play.delta("!")

    assert (100, {}, "exhausted") == (len(before), play.shown, play.machine.state)
    assert "runaway" == play.records("llm_stream_interrupted")[0]["error_kind"]


def test_a_runaway_call_is_recorded() -> None:
    """A tool call that ran away is a discarded call."""
    play = runaway()
    play.call("x" * 101, closed=False)

    assert ["runaway_error"] == [r["reason"] for r in play.records("discarded_partial_tool_use")]


def test_a_runaway_keeps_the_other_blocks() -> None:
    """Blocks before the runaway are kept."""
    play = runaway()
    play.start()
    play.delta("Before that. ")
    play.close()
    play.start("thinking", 1)
    play.delta("x" * 101, 1)

    assert {0: "Before that. "} == play.shown


def test_a_runaway_can_be_retried() -> None:
    """A policy may try again: the next attempt starts with a clean slate."""
    again = {"name": "again", "on": {"failure": ["runaway"]}, "action": "retry", "limit": 1}
    play = runaway(rules=[again])
    play.start("thinking")
    play.delta("x" * 101)
    play.say("Hello, dear world. ")
    play.stop()

    assert ({1: "Hello, dear world. "}, "completed") == (play.shown, play.machine.state)


def test_a_runaway_over_two_attempts() -> None:
    """A text that outgrows the bound after a continuation is the runaway, whole."""
    play = runaway()
    play.start()
    play.delta("on and on " * 9)
    play.cut()
    play.sleep()
    play.opened()
    play.start()
    play.delta("and so forth, and so forth ")

    assert ({}, "exhausted") == (play.shown, play.machine.state)


# --- joining --------------------------------------------------------------------------------------


def test_text_goes_on_in_its_block() -> None:
    """The caller sees one text block, although two attempts wrote it."""
    play = Play()
    play.say("Hello, dear wor")
    play.cut()
    play.sleep()
    play.say("world. And on")
    play.stop()

    assert ["+0", "Hello, dear ", "world. And ", "on", "-0"] == names(play.effects)


def test_a_cited_block_is_not_continued() -> None:
    """Citations count characters of their block: text goes on in a new one."""
    play = Play()
    play.say("Cited, dear world. ")
    play.delta("{}", 0, "citation")
    play.cut()
    play.sleep()
    play.say("And on. ")
    play.stop()

    assert {0: "Cited, dear world. ", 1: "And on. "} == {
        n: text.replace("{}", "") for n, text in play.shown.items()
    }


def test_a_closed_block_is_not_continued() -> None:
    """After a whole text block the next attempt's text is the next block."""
    play = Play()
    play.say("Hello, dear world. ")
    play.close()
    play.cut()
    play.sleep()
    play.say("And on. ")
    play.stop()

    assert {0: "Hello, dear world. ", 1: "And on. "} == play.shown


def test_thinking_may_come_before_the_rest() -> None:
    """A continuation that thinks first still goes on in the open text block."""
    play = Play()
    play.say("Hello, dear world. ")
    play.cut()
    play.sleep()
    play.opened()
    play.think("hm", 0, signature="sig")
    play.start("text", 1)
    play.delta("And on. ", 1)
    play.stop()

    assert {0: "Hello, dear world. And on. ", 1: "hm"} == play.shown


def test_a_call_closes_the_open_text() -> None:
    """A continuation that begins with a call leaves the text as it is, closed before the call."""
    play = Play()
    play.say("Hello, dear world. ")
    play.cut()
    play.sleep()
    play.opened()
    play.call("{}")
    play.stop("tool_use")

    assert ["+0", "Hello, dear world. ", "-0", "+1", "{}", "-1"] == names(play.effects)


def test_an_index_is_never_used_again() -> None:
    """What was shown and taken back keeps its number: a later block has another one."""
    play = release("thinking", "live")
    play.think("hm", closed=False)
    play.cut()
    play.sleep()
    play.opened()
    play.think("ah", closed=False)

    assert ["+0", "hm", "~0", "+1", "ah"] == names(play.effects)


def test_a_late_delta_is_not_shown() -> None:
    """Text of an attempt that has ended is late, also of the block that was being shown."""
    rule = {"name": "on", "on": {"stop": ["length"]}, "action": "continue", "limit": 1}
    play = Play(policy_of(rules=[{**rule, "backoff": "continuation"}]))
    play.say("Hello, dear world. ")
    play.delta("And on. ")
    play.stop("length")
    play.delta("late ")

    assert (1, "Hello, dear world. And on. ") == (play.machine.turn.late_events, play.text)


def test_events_of_a_batch_that_changes_the_attempt() -> None:
    """Events fed together are taken as if fed one by one, also across an attempt's end."""
    rule = {"name": "now", "on": {"failure": ["sse_transport"]}, "action": "retry", "limit": 1}
    play = Play(policy_of(rules=[rule], seam={"instruct": {"release": "live", "hold_first": 0}}))
    cut = [Finished(0, Stop.error, Failure(FailureKind.sse_transport))]
    told = [Opened(1), BlockStarted(1, 0, "text"), *[BlockDelta(1, 0, f"{n} ") for n in range(3)]]
    play.effects += play.machine.feed_all([*cut, *told, BlockDelta(0, 0, "late ")], play.now)

    assert ("0 1 2 ", 1) == (play.text, play.machine.turn.late_events)


def test_a_checkpoint_is_not_shown() -> None:
    """Checkpoints are ours; the caller sees nothing of them."""
    assert [] == release("text", "live").feed(Checkpoint(0, {"id": "c"}))


def test_what_still_comes_of_a_dropped_call() -> None:
    """Deltas and the close of a call that the cap dropped are dropped too; the rest is shown."""
    play = release("tool_use", "closed")
    play.call('{"a": ', closed=False)
    play.feed(StopKnown(0, Stop.length, "length"))
    play.delta("1}", 0, "input")
    play.close()
    play.start("text", 1)

    assert ["+0", "And so on"] == names(play.delta("And so on", 1))


def test_interleaved_calls_are_shown_whole() -> None:
    """A call whose end is held behind another one is not shown up to there: all of it waits."""
    play = release("tool_use", "closed")
    play.call('{"a": ', 0, closed=False)
    play.call('{"b": 2', 1, closed=False)
    play.delta("1}", 0, "input")
    play.close(0)
    held = names([*play.start("text", 2), *play.feed(StopKnown(0, Stop.tool_use, "tool_use"))])
    play.delta("}", 1, "input")

    assert [] == held
    assert ["+0", '{"a": ', "+1", '{"b": 2', "1}", "-0", "}", "-1"] == names(play.close(1))


def test_a_restart_of_a_held_continuation() -> None:
    """Text that went on in an earlier attempt's block cannot be taken out of it: a failure."""
    play = release("text", "closed")
    play.start()
    play.delta("Hello, dear world. ")
    play.cut()
    play.sleep()
    play.say("And on. ")
    play.feed(Opened(1))
    play.sleep()
    play.say("And so on.")
    play.stop()

    assert {0: "Hello, dear world. And on. And so on."} == play.shown
    assert "And on." in play.sent[2]["kept"][0][1]


# --- a seam over several blocks -------------------------------------------------------------------

SAID = "One two three four five. "


def continued(*, closed: bool) -> Play:
    """A turn that goes on after a cut behind this text."""
    play = Play()
    play.say(SAID)
    if closed:
        play.close()
    play.cut()
    play.sleep()
    play.opened()
    return play


@pytest.mark.parametrize("closed", [True, False])
def test_a_restart_in_two_blocks(closed: bool) -> None:
    """A reply that is repeated in other blocks than before is still followed to where it was."""
    play = continued(closed=closed)
    play.start("text", 0)
    play.delta(SAID[:14], 0)
    play.close(0)
    play.start("text", 1)
    play.delta(SAID[14:] + "Six.", 1)
    play.close(1)
    play.stop()

    assert ({0: SAID, 1: "Six."} if closed else {0: SAID + "Six."}) == play.shown


@pytest.mark.parametrize("closed", [True, False])
def test_a_short_answer_that_is_held_to_the_end(closed: bool) -> None:
    """An answer that might have been a repeat, and ends, is shown: in a block, and closed."""
    play = continued(closed=closed)
    play.start("text", 0)
    play.delta("One two", 0)
    play.close(0)
    play.stop()

    assert ({0: SAID, 1: "One two"} if closed else {0: SAID + "One two"}) == play.shown
    assert "completed" == play.machine.state


@pytest.mark.parametrize("closed", [True, False])
def test_a_repeat_that_is_held_to_the_end(closed: bool) -> None:
    """An answer that only repeats the beginning brings nothing, also where it was closed."""
    play = continued(closed=closed)
    play.start("text", 0)
    play.delta(SAID[:20], 0)
    play.close(0)
    play.stop()

    assert {0: SAID} == play.shown


def test_held_text_without_its_end() -> None:
    """Text that the seam holds in an open block is shown there when the reply ends."""
    play = continued(closed=True)
    play.start("text", 0)
    play.delta("One two", 0)
    play.stop()

    assert {0: SAID, 1: "One two"} == play.shown


def test_thinking_before_interleaved_calls() -> None:
    """What waits for the next visible content also waits for a call that is not shown yet."""
    play = release("thinking", "with_next")
    play.think("hm", signature="sig")
    play.call('{"a": ', 1, closed=False)
    play.call('{"b": 2', 2, closed=False)
    play.delta("1}", 1, "input")
    play.close(1)
    play.start("text", 3)
    held = names(play.effects)
    play.delta("}", 2, "input")
    play.close(2)
    play.start("text", 4)

    assert ([], "+0") == (held, names(play.effects)[0])


def test_a_call_is_dropped_while_text_is_held() -> None:
    """A call that the cap drops takes nothing of the text with it that still waits at the seam."""
    play = continued(closed=False)
    play.start("text", 0)
    play.delta("One two", 0)
    play.call('{"a": ', 1, closed=False)
    play.stop("length")

    assert {0: SAID + "One two"} == play.shown


def test_text_behind_a_held_call_waits_however_much_it_is() -> None:
    """More text of a block that was being shown waits behind an open call, each piece of it."""
    play = release("tool_use", "closed")
    play.start()
    play.delta("Before. ")
    play.call('{"a": ', 1, closed=False)
    held = [names(play.delta(text)) for text in ("After ", "that, ", "more. ")]
    play.delta("1}", 1, "input")
    play.close(1)

    assert [[], [], []] == held
    assert ["+1", '{"a": ', "After ", "that, ", "more. ", "1}", "-1"] == (
        names(play.start("text", 2))
    )
