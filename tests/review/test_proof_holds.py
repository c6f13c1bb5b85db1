"""The proof is true: whatever happens, no turn does more than the report says.

Random policies that the loader takes, played with random events and a fake clock through the real
engine: states, rows, rules, requests and waits stay within what was proved.
"""

import itertools
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from turns import REQUEST, Play

from midthought.policies import (
    FailureKind,
    Policy,
    PolicyError,
    dump_policy,
    load_policy,
    load_source,
)
from midthought.review import Proof, prove_source, walk, worst_case
from midthought.review._answers import answers
from midthought.statemachine import Answered, InvalidTransition, Refused, StateChanged

Data = dict[str, Any]

KINDS = [
    "sse_transport", "premature_end", "overloaded", "rate_limited", "server_error", "timeout",
    "connect", "stalled", "malformed_tool_call", "prefill_rejected", "seam_mismatch", "auth",
    "context_overflow", "unknown",
]  # fmt: skip
SMALL = st.integers(0, 4)


@cache
def _base() -> str:
    return dump_policy(load_policy("base"))


@st.composite
def rules(draw: st.DrawFn, name: str) -> Data:
    """A rule; most of them are ones that the loader takes."""
    on: Data = {}
    if draw(st.integers(0, 4)):
        on["failure"] = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
        actions = ["retry", "continue", "finish", "next_strategy", "strip_thinking", "compact",
                   "fallback", "stop", "retry", "continue"]  # fmt: skip
    else:
        on["stop"] = draw(st.lists(st.sampled_from(["length", "pause", "end"]), min_size=1))
        actions = ["continue", "finish", "compact", "continue"]
    for fact in ("attempt_visible", "turn_visible", "continuing", "should_retry"):
        if not draw(st.integers(0, 4)):
            on[fact] = draw(st.booleans())
    if not draw(st.integers(0, 2)):
        on["in_a_row"] = draw(st.integers(1, 5))
    if not draw(st.integers(0, 3)):
        on["phase"] = draw(st.sampled_from([["stream"], ["connect", "response"]]))
    if not draw(st.integers(0, 3)):
        on["status"] = [529]
    action = draw(st.sampled_from(actions))
    on["partial"] = draw(st.sampled_from([None, True, False]))
    if on["partial"] is None or (action == "continue" and not on["partial"]):
        del on["partial"]
    if action == "retry":
        on.pop("attempt_visible", None)
    rule: Data = {"name": name, "on": on, "action": action, "limit": draw(SMALL)}
    if draw(st.booleans()):
        rule["budget"] = draw(st.sampled_from(["transient", "malformed"]))
        if draw(st.booleans()):
            del rule["limit"]
    if draw(st.booleans()):
        rule["backoff"] = draw(st.sampled_from(["continuation", "transient", "offline"]))
    if not draw(st.integers(0, 4)):
        rule["limit_s"] = draw(st.sampled_from([0.0, 3.0, 40.0]))
    return rule


@st.composite
def backoffs(draw: st.DrawFn) -> Data:
    """Delays of every shape."""
    jitters: list[Any] = ["none", "full", "equal", "decorrelated", {"up_to": 0.5}]
    return {
        "initial_s": draw(st.sampled_from([0.0, 0.5, 2.0])),
        "factor": draw(st.sampled_from([1.0, 2.0, 3.0])),
        "max_s": draw(st.sampled_from([2.0, 16.0])),
        "jitter": draw(st.sampled_from(jitters)),
    }


#: Changes of the machine, each a list of states and of rows put first in their cells.
MACHINES: list[tuple[list[Data], list[Data]]] = [
    ([], []),
    ([], []),
    (  # long waits are slept
        [{"name": "queued", "role": "wait"}],
        [
            {"trigger": "committed", "source": "committing", "dest": "queued",
             "when": ["wait_too_long"]},
            {"trigger": "waited", "source": "queued", "dest": "continuing"},
        ],
    ),
    (  # somebody is asked before the request goes out
        [{"name": "approval", "role": "ask"}],
        [
            {"trigger": "waited", "source": "backoff", "dest": "approval",
             "when": ["recoverable"]},
            {"trigger": "answered", "source": "approval", "dest": "continuing"},
            {"trigger": "refused", "source": "approval", "dest": "interrupted"},
        ],
    ),
    (  # a state that only looks as if it could be entered
        [{"name": "limbo", "role": "wait"}],
        [
            {"trigger": "finished", "source": "streaming", "dest": "limbo",
             "when": ["turn_complete"]},
            {"trigger": "waited", "source": "limbo", "dest": "continuing"},
        ],
    ),
]  # fmt: skip


@st.composite
def policies(draw: st.DrawFn) -> Data:
    """The base with much of it changed at random."""
    data = tomllib.loads(_base())
    shipped = draw(st.sampled_from([data["rules"], data["rules"], []]))
    own = [draw(rules(f"own{n}")) for n in range(draw(st.integers(0, 4)))]
    data["rules"] = draw(st.permutations([*own, *shipped])) if draw(SMALL) == 0 else own + shipped
    data["exhaust"] = sorted({*data["exhaust"], *_all_kinds()})
    data["enabled"] = draw(st.integers(0, 15)) > 0
    for name in data["backoff"]:
        if draw(st.booleans()):
            data["backoff"][name] = draw(backoffs())
    for name in data["budgets"]:
        data["budgets"][name]["limit"] = draw(SMALL)
    data["limits"] |= {
        "attempts": draw(st.sampled_from([1, 2, 3, 5, 8, 12])),
        "wait_s": draw(st.sampled_from([600.0, 600.0, 20.0, 1.0])),
        "max_retry_after_s": draw(st.sampled_from([60.0, 4.0, 0.0])),
        "no_progress": draw(st.integers(0, 2)),
    }
    if not draw(st.integers(0, 3)):
        data["clocks"]["deadline_s"] = 50.0
    data["continuation"]["strategies"] = draw(
        st.sampled_from([["instruct"], ["prefill", "instruct"], ["prefill"]])
    )
    data["turn"]["retract"] = draw(st.integers(0, 4)) == 0
    states, rows = draw(st.sampled_from(MACHINES))
    _lay(data["machine"], states, rows)
    if not draw(st.integers(0, 3)):
        _misled(draw, data["machine"])
    return data


def _all_kinds() -> list[str]:
    return [kind.value for kind in FailureKind]


def _lay(machine: Data, states: list[Data], rows: list[Data]) -> None:
    machine["states"] += [dict(state) for state in states]
    machine["transitions"][:0] = [dict(row) for row in rows]
    ends = {"cancelled": "aborted", "yielded": "aborted", "deadline_passed": "exhausted"}
    machine["transitions"] += [
        {"trigger": trigger, "source": state["name"], "dest": dest}
        for state in states
        for trigger, dest in ends.items()
    ]


def _misled(draw: st.DrawFn, machine: Data) -> None:
    """One row leads to another state: some of this is loaded, and must be found by the proof."""
    free = [row for row in machine["transitions"] if row["trigger"] not in
            ("cancelled", "yielded", "deadline_passed")]  # fmt: skip
    row = draw(st.sampled_from(free))
    row["dest"] = draw(st.sampled_from([state["name"] for state in machine["states"]]))


# --- what happens ---------------------------------------------------------------------------------

HAPPENS = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(["Hello ", "", "One two three four five six "])),
    st.tuples(st.just("call"), st.sampled_from(['{"a": 1}', '{"a"']), st.booleans()),
    st.tuples(st.just("think"), st.booleans()),
    st.tuples(
        st.just("cut"),
        st.sampled_from(KINDS),
        st.fixed_dictionaries(
            {
                "phase": st.sampled_from(["stream", "stream", "response", "connect"]),
                "retry_after_s": st.sampled_from([None, None, 0.5, 4.0, 60.0, 100.0]),
                "should_retry": st.sampled_from([None, None, True, False]),
                "status": st.sampled_from([None, 529, 524]),
                "connection": st.sampled_from(["unknown", "reused"]),
                "processed": st.sampled_from(["unknown", "no"]),
            }
        ),
    ),
    st.tuples(st.just("stop"), st.sampled_from(["end", "length", "pause", "tool_use", "safety"])),
    st.tuples(st.just("sleep")),
    st.tuples(st.just("answer")),
    st.tuples(st.just("refuse")),
)


class Turn(Play):
    """A turn that things happen to."""

    def __init__(self, policy: Policy, chance: float) -> None:
        hooks = ("compact", "drop_media", "approval")
        request = REQUEST | {"pad": "x" * 50}
        super().__init__(policy, request=request, hooks=hooks, rng=lambda: chance)

    def happen(self, what: tuple[Any, ...]) -> None:
        """One thing; what does not fit the moment is late, and dropped by the engine."""
        plan = self.machine.turn.plan
        match what:
            case ("say", text):
                self.say(text)
            case ("call", text, closed):
                self.call(text, 1, closed=closed)
            case ("think", signed):
                self.think("hm", 2, signature="s" if signed else None)
            case ("cut", kind, facts):
                self.cut(kind, **facts)
            case ("stop", stop):
                self.stop(stop)
            case ("sleep",):
                if self.machine.next_deadline() < float("inf"):
                    self.sleep()
            case ("answer",):
                self.feed(Answered(plan.number if plan else 0, dict(REQUEST)))
            case ("refuse",):
                self.feed(Refused(plan.number if plan else 0, "no"))

    def to_the_end(self, kinds: list[str]) -> None:
        """Break whatever is open, again and again; ends by itself or by a deadline."""
        for at in range(200):
            if self.machine.done:
                return
            if self.machine.state in ("streaming", "continuing"):
                self.cut(kinds[at % len(kinds)])
            elif self.machine.next_deadline() == float("inf"):
                raise AssertionError(f"nothing will ever happen in {self.machine.state}")
            else:
                self.sleep()
        raise AssertionError("the turn does not end")


STEPS = st.lists(HAPPENS, max_size=30)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    data=policies(),
    steps=STEPS,
    last=st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    chance=st.sampled_from([0.0, 0.5, 0.999]),
)
def test_no_turn_goes_beyond_the_proof(
    data: Data, steps: list[Any], last: list[str], chance: float, tmp_path: Path
) -> None:
    """Requests, waits, states, rows and rules of a random turn are within what was proved."""
    path = tmp_path / "random.toml"
    path.write_text(tomli_w.dumps(data), "utf-8")
    try:
        source = load_source(path)
    except PolicyError:
        assume(False)
    proof = prove_source(source)
    flawed = bool(walk(source.policy.machine).flaws)
    turn = Turn(source.policy, chance)
    try:
        for step in steps:
            turn.happen(step)
        turn.to_the_end(last)
    except (InvalidTransition, RuntimeError, AssertionError):
        assert flawed, "the engine raised, and the proof had found nothing"
    event("flawed machine" if flawed else "sound machine")
    if not flawed:
        _within(turn, source.policy, proof, chance)


def _within(turn: Turn, policy: Policy, proof: Proof, chance: float) -> None:
    worst, found = worst_case(policy), walk(policy.machine)
    assert worst == proof.worst
    assert len(turn.sent) <= worst.requests
    hinted = any(
        attempt.failure is not None and attempt.failure.retry_after_s is not None
        for attempt in turn.machine.turn.attempts
    )
    most = worst.hinted_wait_s if hinted else worst.wait_s if chance else worst.plain_wait_s
    assert sum(turn.waits) <= most + 1e-6
    moved = [e for e in turn.events if isinstance(e, StateChanged)]
    assert {e.state for e in moved} <= found.states
    assert {(e.source, e.trigger, e.state) for e in moved} <= found.edges
    seen = answers(policy).rules
    for decided in turn.records("llm_recovery_decided"):
        if decided["rule"] is not None:
            assert seen[decided["rule"]].taken, f"{decided['rule']} was proved to be dead"
    attempts = turn.machine.turn.attempts
    lost = [a for a in attempts[:-1] if a.received_chars > a.kept_chars]
    assert len(lost) <= worst.repeats
    # Dead rows and dead states of the report are those that were never seen.
    dead = {f.fault.found for f in proof.findings if f.kind == "unreachable-state"}
    assert not dead & {repr(e.state) for e in moved}


@pytest.mark.parametrize("name", ["base", "anthropic", "strict", "openai-responses", "llamacpp"])
def test_the_bound_on_requests_is_met(name: str) -> None:
    """The worst case is no guess from above: an upstream that tries comes to as many requests."""
    policy = load_policy(name).for_model("m-1")
    turn = Turn(policy, 0.0)
    kinds = itertools.chain(["overloaded"] * 10, itertools.repeat("connect"))
    while not turn.machine.done:
        if turn.machine.state in ("streaming", "continuing"):
            turn.cut(next(kinds), phase="response")
        else:
            turn.sleep()

    assert worst_case(policy).requests == len(turn.sent)


def test_the_bound_on_waits_is_met(tmp_path: Path) -> None:
    """Waits too: with and without jitter, and with hints of the provider."""
    path = tmp_path / "short.toml"
    path.write_text('extends = ["base"]\nrules.remove = ["offline", "cut", "malformed_on"]\n'
                    'exhaust.append = ["connect"]\nlimits.attempts = 4\n')  # fmt: skip
    policy = load_policy(path)
    worst = worst_case(policy)
    plain, jittered, hinted = Turn(policy, 0.0), Turn(policy, 1.0), Turn(policy, 1.0)
    for turn, hint in ((plain, None), (jittered, None), (hinted, 60.0)):
        while not turn.machine.done:
            if turn.machine.state in ("streaming", "continuing"):
                turn.cut("rate_limited", retry_after_s=hint, phase="response")
            else:
                turn.sleep()

    assert worst.hinted_wait_s == sum(hinted.waits) == 3 * 60.25
    assert worst.plain_wait_s >= sum(plain.waits) > 0
    assert worst.wait_s >= sum(jittered.waits) > sum(plain.waits)
