"""Rules: which one takes a failure or a stop, why the others do not, and how often."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import ACTIONS, Budget, FailureKind, Rule, Stop
from midthought.statemachine import Chooser, Facts, Failure

CUT = Failure(FailureKind.sse_transport)
FORBIDDEN = Failure(FailureKind.sse_transport, should_retry=False)
BUSY = Failure(FailureKind.overloaded, phase="response", status=529, code="overloaded_error")


def facts(**changes: Any) -> Facts:
    """A cut with nothing kept and nothing shown, where all is allowed."""
    plain: dict[str, Any] = {
        "failure": CUT, "stop": Stop.error, "partial": False, "attempt_partial": False,
        "attempt_visible": False, "turn_visible": False, "continuing": False, "in_a_row": 1,
        "refusing": False, "resumable": False, "strategies": ("prefill", "instruct"),
        "can_retract": False, "hooks": frozenset(), "attempts_left": 9, "longest_wait_s": 60.0,
        "input_left": True, "now": 0.0,
    }  # fmt: skip
    return Facts(**plain | changes)


KEPT = {"partial": True, "attempt_partial": True}


def rule(name: str = "r", action: str = "retry", on: Any = None, **changes: Any) -> Rule:
    """A rule for cuts."""
    on = {"failure": ["sse_transport"]} if on is None else on
    return Rule.model_validate({"name": name, "action": action, "on": on} | changes)


def chooser(rules: Sequence[Rule], **budgets: int) -> Chooser:
    """The rules of a turn, with budgets by name."""
    return Chooser(rules, {name: Budget(limit=limit) for name, limit in budgets.items()})


def answer(only: Rule, told: Facts, **budgets: int) -> str | None:
    """What is answered for one rule; ``None``: it does not match."""
    _, verdicts = chooser([only], **budgets).choose(told)
    return verdicts[0].answer if verdicts else None


# --- what a rule may ask --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "told", "matches"),
    [
        ({"failure": ["sse_transport", "stalled"]}, {}, True),
        ({"failure": ["stalled"]}, {}, False),
        ({"phase": ["response"]}, {"failure": BUSY}, True),
        ({"phase": ["connect", "stream"]}, {"failure": BUSY}, False),
        ({"code": ["overloaded_error"]}, {"failure": BUSY}, True),
        ({"code": ["rate_limit_error"]}, {"failure": BUSY}, False),
        ({"code": ["overloaded_error"]}, {"failure": CUT}, False),
        ({"status": [503, 529]}, {"failure": BUSY}, True),
        ({"status": [503]}, {"failure": BUSY}, False),
        ({"scope": ["day"]}, {"failure": Failure(FailureKind.rate_limited, scope="day")}, True),
        ({"scope": ["day"]}, {"failure": Failure(FailureKind.rate_limited)}, False),
        ({"processed": ["no"]}, {"failure": Failure(FailureKind.connect, processed="no")}, True),
        ({"processed": ["no"]}, {"failure": CUT}, False),
        ({"connection": ["reused"]}, {"failure": Failure(CUT.kind, connection="reused")}, True),
        ({"connection": ["reused", "new"]}, {"failure": CUT}, False),
        ({"should_retry": True}, {"failure": Failure(CUT.kind, should_retry=True)}, True),
        ({"should_retry": True}, {"failure": FORBIDDEN}, False),
        ({"should_retry": False}, {"failure": CUT}, False),
        ({"partial": True}, KEPT, True),
        ({"partial": True}, {}, False),
        ({"partial": False}, {}, True),
        ({"partial": False}, KEPT, False),
        ({"attempt_visible": False}, {}, True),
        ({"attempt_visible": False}, {"attempt_visible": True}, False),
        ({"attempt_visible": True}, {"attempt_visible": True}, True),
        ({"turn_visible": True}, {"turn_visible": True}, True),
        ({"turn_visible": True}, {}, False),
        ({"continuing": True}, {"continuing": True}, True),
        ({"continuing": True}, {}, False),
        ({"continuing": False}, {"continuing": True}, False),
        ({"in_a_row": 3}, {"in_a_row": 2}, False),
        ({"in_a_row": 3}, {"in_a_row": 3}, True),
        ({"in_a_row": 3}, {"in_a_row": 4}, True),
        ({"failure": ["sse_transport"], "partial": True, "in_a_row": 2}, {}, False),
        ({"failure": ["sse_transport"], "stop": ["length"]}, {}, True),
    ],
)
def test_facts_a_rule_may_ask(on: Any, told: Any, matches: bool) -> None:
    """A rule applies when every fact it asks for holds; a list means any of these."""
    assert matches is (answer(rule(action="stop", on=on), facts(**told)) is not None)


@pytest.mark.parametrize(
    ("on", "stop", "matches"),
    [
        ({"stop": ["length", "pause"]}, Stop.length, True),
        ({"stop": ["length"]}, Stop.end, False),
        ({"stop": ["length"], "partial": True}, Stop.length, False),
        ({"partial": False}, Stop.length, False),
        ({"failure": ["sse_transport"]}, Stop.length, False),
    ],
)
def test_rules_for_a_stop(on: Any, stop: Stop, matches: bool) -> None:
    """A stop of the model is taken by rules that name it, and by no others."""
    told = facts(failure=None, stop=stop)

    assert matches is (answer(rule(action="stop", on=on), told) is not None)


def test_a_rule_for_a_stop_takes_no_failure() -> None:
    """A failed attempt has the stop `error`, but rules for stops do not speak of failures."""
    assert answer(rule(action="stop", on={"stop": ["error", "length"]}), facts()) is None


# --- legality -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "told", "expected"),
    [
        ("retry", {}, "taken"),
        ("retry", {"attempt_visible": True}, "output of this attempt was released"),
        ("retry", {"turn_visible": True}, "taken"),
        ("retry", {"attempt_visible": True, "can_retract": True}, "taken"),
        ("retry", KEPT, "something of this attempt is worth keeping"),
        ("retry", KEPT | {"can_retract": True}, "taken"),
        ("retry", {"partial": True}, "taken"),
        (
            "retry",
            {"failure": FORBIDDEN},
            "the server said not to retry",
        ),
        ("retry", {"failure": Failure(CUT.kind, should_retry=True)}, "taken"),
        ("continue", {}, "nothing to continue from"),
        ("continue", KEPT, "taken"),
        ("continue", KEPT | {"attempt_visible": True}, "taken"),
        ("continue", KEPT | {"strategies": ()}, "no continuation strategy is allowed here"),
        ("continue", KEPT | {"failure": FORBIDDEN}, "taken"),
        ("resume", {}, "the provider has nothing to resume"),
        ("resume", {"resumable": True}, "taken"),
        ("finish", {}, "nothing to accept"),
        ("finish", KEPT, "taken"),
        ("stop", {"attempts_left": 0, "refusing": True}, "taken"),
        ("next_strategy", KEPT, "taken"),
        ("next_strategy", KEPT | {"strategies": ("instruct",)}, "no other continuation strategy"),
        ("next_strategy", {}, "taken"),
        ("strip_thinking", {}, "taken"),
        ("strip_thinking", {"attempt_visible": True}, "output of this attempt was released"),
        ("strip_thinking", {"failure": FORBIDDEN}, "taken"),
        ("compact", {}, "the host has no compact hook"),
        ("compact", {"hooks": {"compact"}}, "taken"),
        ("drop_media", {"hooks": {"compact"}}, "the host has no drop_media hook"),
        ("drop_media", {"hooks": {"drop_media"}}, "taken"),
        ("fallback", {}, "no fallback target is set"),
        ("escalate", {}, "the cap cannot be raised here"),
        ("replay", {}, "replay is not available here"),
        ("park", {}, "park is not available here"),
        ("retry", {"refusing": True}, "the model was refusing"),
        ("continue", KEPT | {"refusing": True}, "the model was refusing"),
        ("finish", KEPT | {"refusing": True}, "the model was refusing"),
    ],
)
def test_when_an_action_is_legal(action: str, told: Any, expected: str) -> None:
    """Each action has its conditions, and the verdict says in words which one does not hold."""
    assert expected == answer(rule(action=action), facts(**told))


def test_every_action_is_judged() -> None:
    """No action of the vocabulary makes the judge fail."""
    for action in ACTIONS:
        assert answer(rule(action=action), facts()) is not None


def test_edits_of_a_rule_are_judged_too() -> None:
    """Edits that a rule adds to its action need the same as those of the action's name."""
    assert "the host has no compact hook" == answer(rule(edits=["compact"]), facts())


def test_an_edited_request_may_go_out_although_the_server_said_not_to_retry() -> None:
    """`should_retry = false` speaks about this request; a changed one is another."""
    told = facts(failure=FORBIDDEN)

    assert "taken" == answer(rule(edits=["strip_thinking"]), told)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["retry", "continue"])
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"attempts_left": 1}, "taken"),
        ({"attempts_left": 0}, "limits.attempts is used up"),
        ({"input_left": False}, "limits.extra_input_tokens is used up"),
        ({"failure": Failure(CUT.kind, retry_after_s=60.0)}, "taken"),
        (
            {"failure": Failure(CUT.kind, retry_after_s=60.5)},
            "the provider asks for a longer wait than limits.max_retry_after_s",
        ),
    ],
)
def test_bounds_of_the_whole_turn(action: str, told: Any, expected: str) -> None:
    """No rule asks for a request beyond the limits of the turn."""
    kept = {"partial": True, "attempt_partial": action == "continue"}

    assert expected == answer(rule(action=action), facts(**kept | told))


def test_accepting_needs_no_attempt() -> None:
    """`finish` sends nothing, so the limits of requests and waits do not forbid it."""
    told = facts(
        **KEPT, attempts_left=0, input_left=False,
        failure=Failure(CUT.kind, retry_after_s=999.0),
    )  # fmt: skip

    assert "taken" == answer(rule(action="finish"), told)


def test_a_limit_is_counted_over_the_turn() -> None:
    """A rule is taken as often as its limit says, and then the next rule of the ladder."""
    first, second = rule("first", limit=2), rule("second", limit=1)
    ladder = chooser([first, second])
    taken = []
    for _ in range(4):
        chosen, verdicts = ladder.choose(facts())
        taken.append(chosen.name if chosen else None)
        if chosen:
            ladder.take(chosen, 0.0)

    assert ["first", "first", "second", None] == taken
    assert [("first", "its limit is used up"), ("second", "its limit is used up")] == verdicts


def test_a_budget_is_shared() -> None:
    """Rules that name one budget draw on the same count: together they get what it holds."""
    rules = [rule("cut", budget="b"), rule("busy", on={"failure": ["overloaded"]}, budget="b")]
    shared = chooser(rules, b=3)
    uses = [shared.take(rules[n % 2], 0.0) for n in range(3)]

    assert [1, 2, 3] == uses
    for told in (facts(), facts(failure=BUSY)):
        assert "budget b is used up" == shared.choose(told)[1][0].answer


def test_a_rule_with_limit_and_budget_has_the_smaller() -> None:
    """Own limit and shared budget both bind."""
    small = rule("small", limit=1, budget="b")
    both = chooser([small], b=5)

    assert 1 == both.left(small)
    both.take(small, 0.0)

    assert (0, "its limit is used up") == (both.left(small), both.choose(facts())[1][0].answer)


def test_what_is_left_is_told() -> None:
    """Records say how many uses a rule has left; without a bound of its own it is not known."""
    free, bound = rule("free"), rule("bound", budget="b")
    both = chooser([free, bound], b=5)
    both.take(bound, 0.0)

    assert (None, 4) == (both.left(free), both.left(bound))


def test_the_use_counts_for_the_backoff() -> None:
    """The n-th wait is counted over the budget where one is shared, else over the rule."""
    alone, shared = rule("alone"), rule("shared", budget="b")
    both = chooser([alone, shared], b=9)
    uses = [both.take(r, 0.0) for r in (alone, shared, alone, shared, shared)]

    assert [1, 1, 2, 2, 3] == uses


def test_limit_s_runs_from_the_first_use() -> None:
    """A rule with limit_s is not used later than that after its first use in the turn."""
    offline = rule("offline", limit=99, limit_s=120.0)
    timed = chooser([offline])

    assert timed.choose(facts(now=5000.0))[0] is offline
    timed.take(offline, 1000.0)
    timed.take(offline, 1100.0)

    assert timed.choose(facts(now=1119.0))[0] is offline
    assert "its limit_s has passed" == timed.choose(facts(now=1120.0))[1][0].answer


def test_a_rule_that_stops_needs_no_budget() -> None:
    """`stop` is taken whatever was used before: it is the end."""
    assert "taken" == answer(rule(action="stop", limit=0), facts())


# --- the ladder -----------------------------------------------------------------------------------


def test_the_first_that_fits_is_taken() -> None:
    """Rules are tried in order; what stands behind the taken one is not looked at."""
    rules = [
        rule("other", on={"failure": ["stalled"]}),
        rule("illegal", "continue"),
        rule("taken"),
        rule("behind"),
    ]
    chosen, verdicts = chooser(rules).choose(facts())

    assert chosen is rules[2]
    assert [("illegal", "nothing to continue from"), ("taken", "taken")] == verdicts


def test_no_rule_is_an_answer() -> None:
    """Where nothing matches there is no rule and nothing to tell."""
    assert (None, []) == chooser([]).choose(facts())


def test_a_rule_struck_out_is_passed_over() -> None:
    """A rule whose hook had no answer is not asked a second time; the next one is."""
    rules = [rule("asked", "compact"), rule("next")]
    ladder = chooser(rules)
    ladder.struck.add("asked")
    chosen, verdicts = ladder.choose(facts(hooks={"compact"}))

    assert (rules[1], ("asked", "refused by the host")) == (chosen, verdicts[0])


RULES = st.lists(
    st.builds(
        lambda action, kind, limit, budget: {
            "action": action, "on": {"failure": [kind]}, "limit": limit, "budget": budget,
        },
        st.sampled_from(["retry", "continue", "finish", "next_strategy", "compact"]),
        st.sampled_from(["sse_transport", "stalled", "overloaded"]),
        st.integers(0, 4),
        st.sampled_from([None, "a", "b"]),
    ),
    max_size=6,
)  # fmt: skip


@given(
    RULES,
    st.fixed_dictionaries({"a": st.integers(0, 4), "b": st.integers(0, 4)}),
    st.lists(st.tuples(st.sampled_from(["sse_transport", "stalled", "overloaded"]), st.booleans())),
)
def test_budgets_add_and_never_multiply(
    made: list[Any], budgets: Mapping[str, int], failures: list[tuple[str, bool]]
) -> None:
    """However failures alternate, no rule exceeds its limit, no budget its own, in sum."""
    rules = [Rule.model_validate({"name": f"r{n}", **row}) for n, row in enumerate(made)]
    turn = chooser(rules, **budgets)
    for kind, kept in failures:
        told = facts(
            failure=Failure(FailureKind(kind)), partial=kept, attempt_partial=kept,
            hooks={"compact"},
        )  # fmt: skip
        chosen, _ = turn.choose(told)
        if chosen is not None:
            turn.take(chosen, 0.0)
    limits = {r.name: r.limit or 0 for r in rules}
    drawn = {
        name: sum(turn.uses.get(r.name, 0) for r in rules if r.budget == name) for name in budgets
    }

    assert all(used <= limits[name] for name, used in turn.uses.items())
    assert all(drawn[name] <= limit for name, limit in budgets.items())
    assert drawn == {name: turn.drawn.get(name, 0) for name in budgets}
