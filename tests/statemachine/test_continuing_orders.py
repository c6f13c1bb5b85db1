"""What a continuation asks for: strategy, what goes back, the words of the instruction, the cap."""

from typing import Any

import pytest
from turns import REQUEST, Play, policy_of

from midthought.policies import Policy
from midthought.statemachine import Usage, UsageReported

TEXT = "One two three four five. "
BOTH = {"strategies": ["prefill", "instruct"]}


def continued(
    policy: Policy | None = None, text: str = TEXT, *, used: int | None = None, **request: Any
) -> Any:
    """The body of the continuation after a cut behind this text; ``None`` if there is none."""
    play = Play(policy, request=REQUEST | request)
    play.say(text)
    if used is not None:
        play.feed(UsageReported(0, Usage(input=10, output=used)))
    play.cut()
    if not play.machine.done:
        play.sleep()
    return play.sent[1] if len(play.sent) > 1 else None


# --- the strategy ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("continuation", "features", "strategy"),
    [
        (BOTH, [], "prefill"),
        ({"strategies": ["instruct", "prefill"]}, [], "instruct"),
        (BOTH | {"prefill": {"forbidden_with": ["tools"]}}, ["tools"], "instruct"),
        (BOTH | {"prefill": {"forbidden_with": ["tools"]}}, ["thinking"], "prefill"),
        (BOTH, ["structured_output"], "prefill"),
        ({"strategies": ["instruct"]}, ["structured_output"], None),
        ({"strategies": ["instruct"]}, ["n"], None),
        (BOTH | {"instruct": {"forbidden_with": []}}, ["n"], "prefill"),
        ({"strategies": ["instruct"], "instruct": {"forbidden_with": []}}, ["n"], "instruct"),
        ({"strategies": ["resume"]}, [], None),
    ],
)
def test_the_first_strategy_that_is_allowed(
    continuation: Any, features: list[str], strategy: str | None
) -> None:
    """The policy's order counts; what the request has may forbid a strategy, or all of them."""
    body = continued(policy_of(continuation=continuation), features=features)

    assert strategy == (body and body["strategy"])


def test_server_tools_in_what_goes_back() -> None:
    """A reply with a server tool in it may be no prefill: the policy says so by a feature."""
    forbidden = {"prefill": {"forbidden_with": ["tool_calls_in_last"]}}
    play = Play(policy_of(continuation=BOTH | forbidden))
    play.opened()
    for n in (0, 1):
        play.start("server_tool", n, "s")
        play.close(n)
    play.start("text", 2)
    play.delta(TEXT, 2)
    play.cut()
    play.sleep()

    assert "instruct" == play.sent[1]["strategy"]


def test_a_model_has_its_own_settings() -> None:
    """The first `[[models]]` entry that fits the request's model is laid over the policy."""
    models = [{"match": ["m-1*"], "continuation": {"strategies": ["prefill"]}}]
    policy = policy_of(models=models)

    assert "prefill" == continued(policy, model="m-1-large")["strategy"]
    assert "instruct" == continued(policy, model="m-2")["strategy"]


# --- what goes back -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seam", "features", "kept"),
    [
        ({}, [], "One two thr"),
        ({"trim": "last_word"}, [], "One two"),
        ({"deterministic_trim": "last_word"}, ["deterministic"], "One two"),
        ({"deterministic_trim": "last_word"}, [], "One two thr"),
        ({"deterministic_trim": None}, ["deterministic"], "One two thr"),
        ({"trim": "none"}, ["deterministic"], "One two thr"),
    ],
)
def test_what_is_sent_back_of_the_text(seam: Any, features: list[str], kept: str) -> None:
    """C is trimmed as the strategy's seam says, with a setting of its own for greedy requests."""
    policy = policy_of(continuation={"strategies": ["prefill"]}, seam={"prefill": seam})
    body = continued(policy, "One two thr", features=features)

    assert [("text", kept)] == body["kept"]


def test_a_cited_text_goes_back_whole() -> None:
    """Citations count characters: their text is not trimmed."""
    play = Play(policy_of(continuation={"strategies": ["prefill"]}))
    play.say(TEXT)
    play.delta("{}", 0, "citation")
    play.cut()
    play.sleep()

    assert [("text", TEXT)] == play.sent[1]["kept"]


def test_only_the_last_text_is_trimmed() -> None:
    """Texts before the last block go back as they were shown."""
    play = Play()
    play.say(TEXT)
    play.close()
    for n in (1, 2):
        play.start("server_tool", n, "s")
        play.close(n)
    play.cut()
    play.sleep()

    assert ("text", TEXT) == play.sent[1]["kept"][0]


def test_nothing_is_trimmed_for_the_caller() -> None:
    """What the trimmed request leaves out was shown, and stays in the caller's view."""
    play = Play()
    play.say(TEXT)
    play.cut()
    play.sleep()
    play.say("And on.")

    assert TEXT + "And " == play.text


# --- the words ------------------------------------------------------------------------------------


def instructed(**instruct: Any) -> Policy:
    """A policy that instructs, with these words."""
    return policy_of(continuation={"strategies": ["instruct"], "instruct": instruct})


def test_the_tail_is_quoted_and_bounded() -> None:
    """`{tail}` is the end of what was shown, as a JSON string, of so many characters."""
    policy = instructed(message="It ended with {tail}.", tail_chars=12)
    body = continued(policy, 'He said: "Good\nday"\t')

    assert r'It ended with " \"Good\nday\"\t".' == body["instruction"]


@pytest.mark.parametrize(
    ("text", "said"), [(TEXT, "[space]"), (TEXT + "a" * 30, "[no space]"), (TEXT + "\n", "[space]")]
)
def test_the_model_is_told_whether_to_begin_with_a_space(text: str, said: str) -> None:
    """`{seam}` says whether the text that the caller has ends with white space."""
    policy = instructed(message="Go on.{seam}", seam_space="[space]", seam_no_space="[no space]")

    assert "Go on." + said == continued(policy, text)["instruction"]


def test_braces_of_the_reply_stay_as_they_are() -> None:
    """A reply that holds `{seam}` does not become part of the template."""
    policy = instructed(message="{tail}{seam}", seam_space="!", tail_chars=18)
    body = continued(policy, "And so x {seam} {tail} y ")

    assert '"x {seam} {tail} y "!' == body["instruction"]


def test_a_prefill_says_nothing() -> None:
    """Only `instruct` adds words."""
    assert "instruction" not in continued(policy_of(continuation={"strategies": ["prefill"]}))


# --- the cap --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "used", "cap", "expected"),
    [
        (4000, 1000, {}, 3000),
        (4000, None, {}, 3995),
        (4000, 3900, {}, 256),
        (100, 90, {}, 100),
        (4000, 3900, {"floor": 512}, 512),
        (4000, 3900, {"floor_share": 0.25}, 1000),
        (4000, 1000, {"floor_share": 0.25}, 3000),
        (4000, 5000, {}, 256),
    ],
)
def test_the_cap_after_a_cut(own: int, used: int | None, cap: Any, expected: int) -> None:
    """The caller's cap less what was produced, not below the floor, never above the caller's."""
    policy = policy_of(cap={"chars_per_token": 5.0} | cap)

    assert expected == continued(policy, used=used, max_tokens=own)["max_tokens"]


def test_no_cap_is_made_up() -> None:
    """A request without a cap gets none."""
    assert continued(max_tokens=None)["max_tokens"] is None


@pytest.mark.parametrize(("cap", "expected"), [("fresh", 4000), ("remaining", 3000), (77, 77)])
def test_the_cap_that_a_rule_names(cap: Any, expected: int) -> None:
    """A rule may give the whole cap again, what is left of it, or a number."""
    rule = {
        "name": "on", "on": {"stop": ["length"]}, "action": "continue", "limit": 1, "cap": cap,
    }  # fmt: skip
    play = Play(policy_of(rules=[rule]))
    play.say(TEXT)
    play.feed(UsageReported(0, Usage(output=1000)))
    play.stop("length")

    assert expected == play.sent[1]["max_tokens"]


def test_what_was_thrown_away_does_not_count_against_the_cap() -> None:
    """Only attempts of which something is kept have used up the cap."""
    play = Play()
    play.opened()
    play.think("hm", closed=False)
    play.feed(UsageReported(0, Usage(output=1000)))
    play.cut()
    play.sleep()
    play.say(TEXT)
    play.feed(UsageReported(1, Usage(output=500)))
    play.cut()
    play.sleep()

    assert 3500 == play.sent[2]["max_tokens"]
