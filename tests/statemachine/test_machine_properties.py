"""Whatever comes: bounds, order, safety and determinism, for random policies and random streams.

Streams are told in steps that fit any attempt; grammatical ones and nonsense are mixed. A watch
stands beside the machine and checks each order against what was fed, by the promises alone.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import REQUEST, Play, policy_of

from midthought.policies import BLOCK_KINDS, FailureKind, Policy, Stop
from midthought.statemachine import (
    Answered,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Cancelled,
    Checkpoint,
    ClockJumped,
    Close,
    Done,
    Effect,
    Emit,
    Event,
    Failure,
    Finished,
    Heartbeat,
    HostEvent,
    Opened,
    Refused,
    Responded,
    Retract,
    Send,
    StopKnown,
    TimePassed,
    TurnFinished,
    Unknown,
    Usage,
    UsageReported,
    Wait,
    Yielded,
)

# --- random policies ------------------------------------------------------------------------------

CUTS = ["sse_transport", "premature_end", "overloaded", "rate_limited", "stalled", "timeout"]
OTHERS = [
    "malformed_tool_call", "prefill_rejected", "thinking_rejected", "context_overflow",
    "seam_mismatch", "runaway", "event_too_large", "auth",
]  # fmt: skip
KINDS = st.sampled_from(CUTS + OTHERS)
RELEASES = st.sampled_from(["live", "word", "closed", "with_next", "turn"])


@st.composite
def rules(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A rule that the loader would take."""
    on: dict[str, Any] = {"partial": draw(st.none() | st.booleans())}
    if draw(st.integers(0, 3)):
        on["failure"] = draw(st.lists(KINDS, min_size=1, max_size=5))
        actions = ["retry", "continue", "finish", "next_strategy", "strip_thinking", "compact",
                   "resume", "stop"]  # fmt: skip
    else:
        on["stop"] = draw(st.lists(st.sampled_from(["length", "pause", "end"]), min_size=1))
        actions = ["retry", "continue", "finish", "compact"]
    on["in_a_row"] = draw(st.none() | st.integers(1, 3))
    return {
        "name": name, "on": on, "action": draw(st.sampled_from(actions)),
        "limit": draw(st.integers(0, 3)), "budget": draw(st.sampled_from([None, "transient"])),
        "backoff": draw(st.sampled_from([None, "continuation", "transient"])),
        "cap": draw(st.sampled_from(["fresh", "remaining", 100])),
    }  # fmt: skip


@st.composite
def seams(draw: st.DrawFn) -> dict[str, Any]:
    """Settings of a text seam."""
    return {
        "release": draw(st.sampled_from(["live", "word"])),
        "trim": draw(st.sampled_from(["none", "trailing_whitespace", "last_word"])),
        "hold_first": draw(st.sampled_from([0, 12])),
        "window": draw(st.sampled_from([0, 40, 200])),
        "min_overlap": draw(st.sampled_from([4, 12])),
        "restart": draw(st.booleans()),
        "fences": draw(st.booleans()),
        "on_mismatch": draw(st.sampled_from(["append", "reject"])),
    }


Said = dict[str, Any]
STRATEGIES = [
    ["instruct"], ["prefill"], ["prefill", "instruct"], ["resume", "instruct"],
    ["resume", "prefill"], ["instruct", "prefill", "resume"], ["resume"],
]  # fmt: skip


@st.composite
def policies(draw: st.DrawFn) -> Said:
    """What a policy says: most of what it can, drawn at random."""
    often = st.sampled_from([True, True, True, False])
    own = [draw(rules(f"own{n}")) for n in range(draw(st.integers(0, 3)))]
    strategies = draw(st.sampled_from(STRATEGIES))
    parallel = not draw(often)
    return {
        "enabled": draw(st.sampled_from([True] * 15 + [False])),
        "rules": own,
        "base_rules": draw(often),
        "limits": {
            "attempts": draw(st.sampled_from([6, 6, 6, 5, 4, 3, 2, 1])),
            "wait_s": draw(st.sampled_from([600.0] * 6 + [5.0, 0.0])),
            "no_progress": draw(st.integers(0, 2)),
            "held_bytes": draw(st.sampled_from([1 << 23, 1 << 23, 1024])),
            "block_bytes": draw(st.sampled_from([0, 0, 0, 60])),
            "extra_input_tokens": draw(st.sampled_from([None, None, None, 50])),
        },
        "blocks": {
            "text": {"release": draw(RELEASES), "open": "keep" if draw(often) else "discard"},
            "thinking": {
                "release": draw(RELEASES),
                "closed": draw(st.sampled_from(["keep", "keep_if_signed", "discard"])),
            },
            "tool_use": {
                "release": "turn" if parallel else draw(st.sampled_from(["closed", "turn"])),
                "parallel": "all_or_none" if parallel else "keep_whole",
                "whole_json": draw(st.booleans()),
                "on_abort": draw(st.sampled_from(["drop", "pair"])),
            },
            "server_tool": {"release": draw(st.sampled_from(["paired", "closed", "turn"]))},
        },
        "continuation": {
            "strategies": strategies,
            "prefill": {"echoes": draw(st.booleans())},
        },
        "seam": {"prefill": draw(seams()), "instruct": draw(seams())},
        "turn": {"retract": not draw(often)},
        "clocks": {"deadline_s": draw(st.sampled_from([None, None, None, 20.0])), "hook_s": 10.0},
    }


def made(said: Said) -> Policy:
    """The policy, with the rules of the base behind its own where it wants them."""
    tables = {key: value for key, value in said.items() if key != "base_rules"}
    shipped = policy_of().model_dump(mode="json")["rules"] if said["base_rules"] else []
    return policy_of(**tables | {"rules": [*said["rules"], *shipped]})


# --- random streams -------------------------------------------------------------------------------

Step = tuple[Any, ...]
INDEX = range(4)
TEXTS = ["", " ", "\n", "Hello", " world", "One two three four ", "five", ". ", "a" * 40, "```py\n"]
INPUTS = ["", "{}", '{"a": 1}', '{"a"', ": 2}", "[1]"]
STOP_NAMES = ["end", "tool_use", "length", "context_full", "pause", "safety"]


def step(name: str, *values: Sequence[Any]) -> st.SearchStrategy[Step]:
    """A step by its name, with any of these values."""
    return st.sampled_from([(name, *chosen) for chosen in itertools.product(*values)])


UPSTREAM = (
    step("opened"),
    step("say", TEXTS, TEXTS),
    step("start", BLOCK_KINDS, INDEX, [None, "s", "t"]),
    step("delta", INDEX, TEXTS),
    step("field", INDEX, ["signature", "citation", "other"]),
    step("input", INDEX, INPUTS),
    step("close", INDEX),
    step("call", INDEX, INPUTS, [True, False]),
    step("think", INDEX, [True, False], [True, False]),
    step("known", STOP_NAMES),
    step("stop", STOP_NAMES, [True, False]),
    step("cut", CUTS + OTHERS, ["connect", "response", "stream"], [None, None, 1.0, 100.0],
         [None, None, True, False]),
    step("usage", [0, 20, 60], [0, 20, 60]),
    step("quiet", ["ping", "unknown", "mark", "stoppable mark"]),
    step("late", [-1, 1]),
    step("break", CUTS),
    step("break", CUTS),
    step("break", OTHERS),
)  # fmt: skip
HOST = (
    step("sleep"),
    step("wait", [0.1, 3.0, 50.0, 500.0]),
    step("jump", [5.0, 500.0]),
    step("answer", [True, False]),
    step("refuse"),
)
ENDS = step("cancel") | step("yield")
NOISE = st.one_of(*UPSTREAM, *HOST)

PARTS = st.sampled_from(
    ["One two three ", "four", " five. ", "\n\n", "six and seven ", " ", "eight"]
)
#: A block of a grammatical reply, without its index: kind, id, texts, closed.
BLOCKS = st.one_of(
    st.tuples(st.just("text"), st.none(), st.lists(PARTS, min_size=1, max_size=4), st.booleans()),
    st.tuples(
        st.sampled_from(["text", "thinking", "refusal", "media", "other", "redacted_thinking"]),
        st.none(), st.lists(PARTS, max_size=3), st.booleans(),
    ),
    st.tuples(
        st.sampled_from(["tool_use", "server_tool"]), st.sampled_from(["s", "t"]),
        st.sampled_from([[], ["{}"], ['{"a": ', "1}"], ['{"a": ']]), st.booleans(),
    ),
)  # fmt: skip
CUT = step("break", CUTS)
REPLIES = st.lists(
    st.tuples(
        st.lists(BLOCKS, min_size=1, max_size=4), CUT | CUT | CUT | step("break", OTHERS)
        | step("stop", STOP_NAMES, [True, False]),
    ), min_size=1, max_size=6,
)  # fmt: skip


def told(replies: Sequence[tuple[Sequence[Step], Step]]) -> list[Step]:
    """Replies as steps."""
    steps: list[Step] = []
    for blocks, end in replies:
        steps.append(("opened",))
        for index, (kind, id, texts, closed) in enumerate(blocks):
            steps.append(("start", kind, index, id))
            name = "input" if kind in ("tool_use", "server_tool") else "delta"
            steps += [(name, index, text) for text in texts]
            if kind == "thinking" and closed:
                steps.append(("field", index, "signature"))
            steps += [("close", index)] if closed else []
        steps.append(end)
    return steps


def disturbed(steps: list[Step], noise: Sequence[tuple[int, Step]]) -> list[Step]:
    """Steps with others put between them."""
    for place, other in noise:
        steps.insert(place, other)
    return steps


#: Nonsense; replies as a provider tells them; and those with nonsense in between.
STEPS = st.one_of(
    st.lists(NOISE, max_size=40),
    REPLIES.map(told),
    st.builds(
        disturbed,
        REPLIES.map(told),
        st.lists(st.tuples(st.integers(0, 40), NOISE), max_size=4),
    ),
)


class Watched(Play):
    """A play beside which the promises are held, after each step."""

    def __init__(self, policy: Policy) -> None:
        self.fed: list[tuple[float, Event | HostEvent]] = []
        self.cancelled = False
        self.ended_well: set[int] = set()
        self.open_calls: set[int] = set()
        self.started: dict[int, str] = {}
        self.gone: set[int] = set()
        self.shut: set[int] = set()
        self.view_at_send: dict[int, str] = {}
        self.view: dict[int, str] = {}
        self.policy = policy
        self.is_done = False
        request = REQUEST | {"resumable": ["resume", "poll"], "pad": "x" * 50}
        super().__init__(policy, request=request, hooks=["compact"], rng=lambda: 0.5)

    def feed(self, *events: Event | HostEvent) -> list[Effect]:
        """Feed and remember."""
        found: list[Effect] = []
        for event in events:
            self.fed.append((self.now, event))
            if isinstance(event, Finished) and event.failure is None:
                self.ended_well.add(event.attempt)
            if isinstance(event, StopKnown):
                self.ended_well.add(event.attempt)
            self.cancelled |= isinstance(event, Cancelled | Yielded)
            found += super().feed(event)
        return found

    def do(self, step: Step) -> None:
        """Carry out a step for the attempt at hand."""
        n = self.attempt
        match step:
            case ("opened",):
                self.opened()
            case ("say", first, second):
                self.say(first)
                self.delta(second)
            case ("start", kind, index, id):
                self.start(kind, index, id)
            case ("delta", index, text):
                self.delta(text, index)
            case ("field", index, field):
                self.delta("{}", index, field)
            case ("input", index, text):
                self.delta(text, index, "input")
            case ("close", index):
                self.close(index)
            case ("call", index, text, closed):
                self.call(text, index, closed=closed)
            case ("think", index, signed, closed):
                self.think("hm", index, signature="s" if signed else None, closed=closed)
            case ("known", stop):
                self.feed(StopKnown(n, Stop(stop), stop))
            case ("stop", stop, known):
                self.stop(stop, known=known)
            case ("cut", kind, phase, hint, should_retry):
                self.cut(kind, phase=phase, retry_after_s=hint, should_retry=should_retry)
            case ("break", kind):
                self.cut(kind)
                self.rest()
            case ("usage", input, output):
                self.feed(UsageReported(n, Usage(input=input, output=output)))
            case ("quiet", "ping"):
                self.feed(Heartbeat(n))
            case ("quiet", "unknown"):
                self.feed(Unknown(n, "x", b""))
            case ("quiet", mark):
                self.feed(Checkpoint(n, {"id": len(self.fed), "stoppable": mark != "mark"}))
            case ("late", offset):
                self.feed(BlockDelta(n + offset, 0, "late"), Finished(n + offset, Stop.end))
            case _:
                self._host(step)

    def _host(self, step: Step) -> None:
        plan = self.machine.turn.plan
        match step:
            case ("sleep",):
                self.rest()
            case ("wait", seconds):
                self.wait(seconds)
            case ("jump", seconds):
                self.feed(ClockJumped(seconds))
            case ("answer", smaller):
                request = dict(REQUEST) if smaller else {**REQUEST, "pad": "x" * 99}
                self.feed(Answered(plan.number if plan else 0, request))
            case ("refuse",):
                self.feed(Refused(plan.number if plan else 0, "no"))
            case ("cancel",):
                self.feed(Cancelled())
            case ("yield",):
                self.feed(Yielded())

    def rest(self) -> None:
        """Let time pass until the machine wants to be woken."""
        if self.machine.next_deadline() < float("inf"):
            self.sleep()

    def to_the_end(self) -> None:
        """Cut whatever is open until the turn is over: it must end."""
        for _ in range(60):
            if self.is_done:
                return
            if self.machine.state in ("streaming", "continuing"):
                self.cut()
            else:
                self.rest()
        raise AssertionError(f"the turn does not end: {self.path[-9:]}")

    # --- the watch --------------------------------------------------------------------------------

    def _take(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            assert not self.is_done, f"{effect} after Done"
            self.effects.append(effect)
            match effect:
                case Send():
                    self._sent(effect)
                case Emit(event):
                    self._seen(event)
                case Retract(index):
                    assert index in self.started and index not in self.gone
                    self.gone.add(index)
                    self.open_calls.discard(index)
                    del self.view[index]
                case Wait(until, delay):
                    assert until == self.now + delay > self.now
                case Done():
                    self.is_done = True
        assert not self.open_calls, "half a tool call is shown"
        return effects

    def _sent(self, send: Send) -> None:
        earlier = [e for e in self.effects if isinstance(e, Send)][:-1]
        assert not self.cancelled, "a request after a cancel"
        assert send.attempt == len(earlier)
        if earlier:
            last = earlier[-1]
            closed = {e.attempt for e in self.effects if isinstance(e, Close)}
            assert last.attempt in closed | self.ended_well, "not closed before the next request"
            plain = "strategy" not in send.request.body and send.request.path is None
            same = last.request is send.request or (plain and last.request == send.request)
            if same and not self.policy.turn.retract:
                for index, text in self.view.items():
                    before = self.view_at_send.get(index, "")
                    assert text.split() == before.split(), "sent again after output"
        self.view_at_send = dict(self.view)

    def _seen(self, event: Event) -> None:
        match event:
            case BlockStarted(index=index, kind=kind):
                assert index not in self.started, "an index is used twice"
                self.started[index] = kind
                self.view[index] = ""
                if kind == "tool_use":
                    self.open_calls.add(index)
            case BlockDelta(index=index):
                assert index in self.started and index not in self.gone | self.shut
                if event.field in ("text", "input"):
                    self.view[index] += event.text
            case BlockClosed(index=index):
                assert index in self.started and index not in self.gone | self.shut
                self.shut.add(index)
                self.open_calls.discard(index)
            case TurnFinished():
                assert set(self.started) == self.gone | self.shut, "a block is left open"

    # --- at the end -------------------------------------------------------------------------------

    def check_bounds(self) -> None:
        """Requests, waits and the end itself."""
        limits = self.policy.limits
        assert 1 <= len(self.of(Send)) <= limits.attempts
        assert sum(self.waits) <= limits.wait_s
        assert 1 == len(self.of(Done)) == len(self.of_event(TurnFinished))
        assert self.of_event(TurnFinished)[0] == self.events[-1]
        assert len(self.of_event(Opened)) <= 1 and len(self.of_event(StopKnown)) <= 1

    def check_end(self) -> None:
        """The outcome is true, and what is kept is what the caller has."""
        machine, end = self.machine, self.finished
        kept = {block.index: block.text for block in machine.blocks}
        calls = [block for block in machine.blocks if block.kind == "tool_use"]
        if end.outcome == "completed":
            whole = end.reason == "tool_calls_whole" and calls
            accepted = end.reason == "partial_accepted" and end.incomplete
            assert whole or accepted or self.attempt in self.ended_well, "a cut is a success"
        elif self.policy.blocks.tool_use.on_abort == "drop":
            assert not calls
        assert kept == self.view, "history and the caller's view differ"
        assert [] == [b for b in machine.blocks if b.pending]

    def check_history(self) -> None:
        """Valid for a provider: whole blocks, signed thinking, our own messages marked."""
        history = self.machine.history
        assert [b.index for b in history.kept] == sorted(b.index for b in history.kept)
        for block in history.kept:
            assert block.closed
            rule = self.policy.blocks.thinking.closed
            if block.kind == "thinking":
                assert rule == "keep" or (rule == "keep_if_signed" and block.signature)
        roles = [message["role"] for message in history.messages]
        assert roles[:1] in ([], ["assistant"])
        assert all(roles[i] == "user" for i in history.recovery_indexes if roles[i] != "tool")

    @property
    def opened_now(self) -> bool:
        """Whether events of the attempt are wanted."""
        return self.machine.state in ("streaming", "continuing")

    def of_event(self, kind: type[Event]) -> list[Event]:
        """Events of a kind that the caller got."""
        return [event for event in self.events if isinstance(event, kind)]


def played(policy: Policy, steps: Sequence[Step]) -> Watched:
    """A whole turn."""
    turn = Watched(policy)
    for each in steps:
        turn.do(each)
    turn.to_the_end()
    return turn


#: For the two that matter most: three times the examples of the profile that runs.
often = settings(max_examples=3 * settings().max_examples)

# --- what must hold -------------------------------------------------------------------------------


@often
@given(policies(), STEPS)
def test_any_turn(said: Said, steps: Sequence[Step]) -> None:
    """Any turn ends, within its bounds, truthfully, with one valid view and history."""
    turn = played(made(said), steps)
    turn.check_bounds()
    turn.check_end()
    turn.check_history()


@given(policies(), STEPS, ENDS, STEPS)
def test_cancel_is_final(
    said: Said, steps: Sequence[Step], end: Step, late: Sequence[Step]
) -> None:
    """Wherever a cancel or yield comes, the turn is over at once, and nothing follows it."""
    turn = Watched(made(said))
    for each in steps:
        turn.do(each)
    was_done = turn.is_done
    turn.do(end)

    assert turn.is_done
    assert was_done or "aborted" == turn.finished.outcome
    for each in late:
        turn.do(each)
    turn.check_bounds()
    turn.check_end()
    turn.check_history()


@given(policies(), STEPS)
def test_late_and_foreign_events_are_counted(said: Said, steps: Sequence[Step]) -> None:
    """Every event that is not the open attempt's is counted, and has no effect at all."""
    turn = Watched(made(said))
    for each in steps:
        turn.do(each)
        before = turn.machine.turn.late_events
        foreign = [BlockDelta(turn.attempt + 1, 0, "x"), Opened(turn.attempt + 7)]

        assert [] == turn.feed(*foreign)
        assert before + 2 == turn.machine.turn.late_events


@given(policies(), STEPS)
def test_the_same_turn_twice(said: Said, steps: Sequence[Step]) -> None:
    """The same events at the same times give the same orders, to the letter."""
    turn = played(made(said), steps)
    again = Play(turn.policy, request=turn.sent[0], hooks=["compact"], rng=lambda: 0.5)
    for now, event in turn.fed:
        again.now = now
        again.feed(event)

    assert turn.effects == again.effects


@given(policies(), STEPS)
def test_one_by_one_or_all_at_once(said: Said, steps: Sequence[Step]) -> None:
    """Events of one read may be fed together: the orders are the same."""
    turn = played(made(said), steps)
    again = Play(turn.policy, request=turn.sent[0], hooks=["compact"], rng=lambda: 0.5)
    batch: list[Event] = []
    at = 0.0

    def flush() -> None:
        again.effects += again.machine.feed_all(batch, at)
        batch.clear()

    for now, event in turn.fed:
        if batch and (now != at or isinstance(event, HostEvent)):
            flush()
        if isinstance(event, HostEvent):
            again.effects += again.machine.feed(event, now)
        else:
            at = now
            batch.append(event)
    flush()

    assert turn.effects == again.effects


@given(policies(), STEPS)
def test_the_next_deadline_is_never_missed(said: Said, steps: Sequence[Step]) -> None:
    """A wake-up before it does nothing; one at it always does something."""
    turn = Watched(made(said))
    for each in steps:
        turn.do(each)
        due = turn.machine.next_deadline()
        if turn.is_done:
            assert due == float("inf")
            return
        if due > turn.now + 1e-6:
            assert [] == turn.feed(TimePassed())
    if not turn.is_done and turn.machine.next_deadline() < float("inf"):
        turn.now = max(turn.now, turn.machine.next_deadline())

        assert turn.feed(TimePassed())


@given(policies(), STEPS)
def test_all_orders_are_plain_data(said: Said, steps: Sequence[Step]) -> None:
    """Every order can be written as JSON: nothing of the machine's own leaks out."""
    for effect in played(made(said), steps).effects:
        assert msgspec.json.encode(effect, enc_hook=_bytes_ok)


def _bytes_ok(value: Any) -> Any:
    return repr(value)


# --- no text twice, none lost ---------------------------------------------------------------------

#: No twelve characters stand in it twice.
STORY = " ".join(f"{n}w{n * 37 % 71}" for n in range(71)) + ". The end."
PIECES = st.lists(st.integers(1, 30), min_size=1, max_size=400)


def model(turn: Watched, said: str, pieces: list[int], upto: int) -> bool:
    """Write ``said`` in pieces, up to a place; True: all of it."""
    turn.opened()
    turn.start()
    at = 0
    while at < min(len(said), upto):
        size = pieces[at % len(pieces)]
        turn.delta(said[at : min(at + size, upto)])
        at += size
    return upto >= len(said)


@often
@given(
    seams(),
    st.sampled_from(["prefill", "instruct"]),
    st.sampled_from(["exact", "echo", "restart", "repeat"]),
    st.lists(st.integers(0, len(STORY)), min_size=1, max_size=5),
    PIECES,
    st.sampled_from(["live", "word", "closed", "turn"]),
)
def test_one_unbroken_text(
    seam: dict[str, Any],
    strategy: str,
    variant: str,
    cuts: list[int],
    pieces: list[int],
    release: str,
) -> None:
    """Cut anywhere and as often as the rules allow, the caller reads the uncut text, once."""
    seam |= {"min_overlap": 12, "window": 200, "restart": True}
    policy = policy_of(
        seam={strategy: seam},
        blocks={"text": {"release": release}},
        continuation={"strategies": [strategy], "prefill": {"echoes": variant == "echo"}},
    )
    turn = Watched(policy)
    said = STORY
    for cut in [*cuts, len(STORY)]:
        if model(turn, said, pieces, cut):
            break
        turn.cut()
        turn.rest()
        said = _rest(turn, variant, strategy)
    if turn.is_done:  # the budgets were used up
        return
    turn.stop()
    turn.check_end()

    assert STORY == turn.text


def _rest(turn: Watched, variant: str, strategy: str) -> str:
    body = turn.sent[-1]
    carried = "".join(text for _, text in body.get("kept", ()))
    assert STORY.startswith(carried), "history is not what was said"
    if not carried or (variant == "restart" and len(carried) >= 24):
        return STORY
    if variant == "echo" and strategy == "prefill":
        return STORY
    if variant == "repeat" and len(carried) >= 40:
        return STORY[len(carried) - 20 :]
    return STORY[len(carried) :]


@given(st.integers(0, len(STORY)), PIECES)
def test_an_unbroken_reply_is_the_same_with_and_without_recovery(
    cut: int, pieces: list[int]
) -> None:
    """While nothing breaks, `enabled = false` and true show the same, event by event."""
    shown = []
    for enabled in (True, False):
        turn = Watched(policy_of(enabled=enabled))
        model(turn, STORY, pieces, len(STORY))
        turn.stop()
        shown.append(turn.events)

    assert shown[0] == shown[1]


# --- whole calls ----------------------------------------------------------------------------------


@given(
    policies(),
    st.lists(st.sampled_from(['{"a": 1}', "{}", '{"a": {"b": [1, 2]}}']), min_size=1, max_size=3),
    st.data(),
)
def test_a_cut_anywhere_in_calls(said: Said, inputs: list[str], data: st.DataObject) -> None:
    """Cut after any character of parallel calls, the caller has whole ones only."""
    turn = Watched(made(said))
    turn.opened()
    total = sum(len(text) for text in inputs)
    left = data.draw(st.integers(0, total))
    for n, text in enumerate(inputs):
        turn.start("tool_use", n, f"call-{n}")
        for letter in text[:left]:
            turn.delta(letter, n, "input")
        left -= len(text)
        if left < 0:
            break
        turn.close(n)
    turn.cut()
    shown = [
        turn.view[i] for i, kind in turn.started.items() if kind == "tool_use" and i in turn.view
    ]

    assert shown == inputs[: len(shown)]
    assert all(isinstance(msgspec.json.decode(text), dict) for text in shown)


# --- nonsense -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
def test_a_second_start_of_the_turn_is_no_secret(count: int) -> None:
    """Any number of second start events before content are one start to the caller."""
    turn = Watched(policy_of())
    for _ in range(count):
        turn.feed(Responded(0), Opened(0))

    assert 1 == len(turn.of_event(Opened))
    assert turn.machine.next_deadline() > turn.now


def test_failures_of_every_kind_have_an_end() -> None:
    """Each kind of failure, in each phase, again and again: the turn ends."""
    for kind in FailureKind:
        for phase in ("connect", "response", "stream"):
            turn = Watched(policy_of())
            turn.feed(Finished(0, Stop.error, Failure(kind, phase=phase)))
            for _ in range(60):
                turn.rest()
                if not turn.is_done:
                    turn.cut(kind.value, phase=phase)

            assert turn.is_done
            turn.check_bounds()
