"""The independent checker: do the promises of recovery hold for this run?

It expects nothing that the project computed: what was said, what had arrived and what must follow
is read from the recording by the tests' own accumulator, and requests and events are held against
that. Numbers of the policies (waits, limits) stand here once more, by hand. What was shown and kept
is checked in ``promised_content``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from arrived import Arrived, is_whole
from caller_view import CallerView
from continuing import Continuing, Played
from lanes import Lane
from promised_content import BrokenPromise, hold, no_half_call, same_text, valid_history
from recordings import Recording
from reply_parts import Reply, State, decoded, read_reply
from strict_provider import StrictProvider
from twin import Sent, Waited

__all__ = ["BrokenPromise", "Ran", "Run", "check"]

#: Stop reasons of the recordings, in the common words.
STOPS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "stop": "end",
    "tool_use": "tool_use",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "max_tokens": "length",
    "length": "length",
    "refusal": "safety",
    "content_filter": "safety",
}
#: What each way to break off is called in records.
KINDS = {
    "eof": "premature_end",
    "fin": "sse_transport",
    "rst": "sse_transport",
    "stall": "stalled",
    "overloaded": "overloaded",
}
CONTINUATION_S = (1.0, 2.0, 4.0, 8.0, 16.0)
#: min(0.5 · 2^(n-1), 32), and up to a quarter more.
TRANSIENT_S = tuple(min(0.5 * 2**n, 32.0) for n in range(10))


class Ran(Protocol):
    """What the checker must know of a run, whoever ran it."""

    @property
    def view(self) -> CallerView: ...
    @property
    def sent(self) -> Sequence[Sent]: ...
    @property
    def waited(self) -> Sequence[Waited]: ...
    @property
    def attempts(self) -> Sequence[Any]: ...
    @property
    def messages(self) -> list[dict[str, Any]]: ...
    @property
    def message(self) -> dict[str, Any] | None: ...
    @property
    def took_s(self) -> float | None: ...
    def records_of(self, name: str) -> list[Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Run:
    """One run: attempt ``n`` was cut at byte ``cuts[n]`` of what was played, by ``fault``."""

    recording: Recording
    lane: Lane
    ran: Ran
    upstream: Continuing
    cuts: tuple[int, ...]
    fault: str
    request: Mapping[str, Any]
    punctual: bool = True
    """False where a slow machine may let a clock run out too early: then attempts, waits, records
    and what must have arrived are not held against the plan."""

    @cached_property
    def provider(self) -> StrictProvider:
        """Who judges the requests."""
        said = self.recording.reply
        inputs = [p.text for p in said.parts if p.kind == "tool_use" and p.close is not None]
        odd = frozenset(text for text in inputs if not isinstance(decoded(text), dict))
        return StrictProvider(self.lane.server, said, odd)

    @cached_property
    def arrived(self) -> Arrived:
        """What had arrived of the first attempt."""
        return self._cut(self.recording.reply, self.cuts[0])

    def _cut(self, reply: Reply, at: int) -> Arrived:
        arrived = Arrived.of(reply, at)
        return arrived.unstopped() if self.fault == "overloaded" else arrived

    @cached_property
    def last(self) -> Arrived | None:
        """What had arrived of the last attempt, if that was cut too."""
        number = len(self.ran.sent) - 1
        if number >= len(self.cuts):
            return None
        if number == 0:
            return self.arrived
        stream = self.upstream.played[number].stream
        return self._cut(read_reply(self.recording.wire, stream), self.cuts[number])

    @property
    def ended_by_calls(self) -> bool:
        """The turn ended with whole calls that had arrived, without the stop fact."""
        last = self.last
        if last is None or last.stopped or not last.whole_calls:
            return False
        return not (last.may_have_stopped and self.ran.view.stops)

    @property
    def takes_half_turns(self) -> bool:
        """Whole calls of a cut attempt end the turn; not so where it is all or none."""
        return "all_or_none" not in self.lane.laid_over


def check(run: Run) -> None:
    """Raise ``BrokenPromise`` for the first promise that does not hold."""
    no_half_call(run)
    _requests(run)
    valid_history(run)
    _outcome(run)
    same_text(run)
    if run.punctual:
        _bounded(run)
        _records(run)


# --- 4: never sent again, and what is worth keeping goes along ------------------------------------


def _requests(run: Run) -> None:
    sent, played = run.ran.sent, run.upstream.played
    for number, request in enumerate(sent):
        faults = run.provider.faults(request.body)
        hold(7, not faults, f"request {number} would be refused: {faults}")
        hold(4, request.fresh is (number > 0), f"request {number}: a used connection")
        if number == 0:
            hold(9, played[0].kind == "original", "the first request is not the caller's")
        elif played[number].kind == "original":
            _sent_again(run, number)
        else:
            _goes_on(run, sent[number - 1], request, played[number])


def _sent_again(run: Run, number: int) -> None:
    sent = run.ran.sent[number]
    hold(4, sent.body == run.ran.sent[0].body, "a retry is not the same request")
    shown = "".join(str(item) for item in sent.flat).strip()
    hold(4, not shown, f"request 0 is sent again after output: {shown[:60]!r}")
    if number == 1 and not run.lane.retracts and run.punctual:
        hold(4, not _worth_keeping(run), "what had arrived was not taken along")


def _worth_keeping(run: Run) -> bool:
    arrived = run.arrived
    if arrived.closed_calls and run.takes_half_turns:
        return True
    # The first twelve characters of a reply wait where the model can only be instructed.
    instructs = run.request.get("thinking") or run.request.get("tools")
    least = 12 if instructs else run.lane.hold_first
    if arrived.text.strip() and len(arrived.text) >= least:
        return True
    return arrived.paired_tools


def _goes_on(run: Run, before: Sent, sent: Sent, played: Played) -> None:
    carried = played.carried
    shown = sent.text if sent.text.startswith(carried) else sent.solid
    hold(4, bool(carried.strip() or played.carried_parts), "a continuation carries nothing")
    hold(4, shown.startswith(carried), "the request carries what was not shown")
    rest = shown[len(carried) :]
    # Greedy decoding: the last word is rolled back, so that it is written again.
    rolled_back = len(rest.split()) <= 1 and len(rest.strip()) <= 24
    allowed = not rest.strip() or (run.lane.greedy and rolled_back)
    hold(4, allowed, f"shown, but not carried: {rest!r}")
    kept = {part.id for part in played.carried_parts}
    for item in sent.flat:
        if item[0] in ("server_tool", "tool_use"):
            hold(4, item[1] in kept, f"a {item[0]} was shown, but is not carried")
    # Blank output counts for nothing, and a rolled-back word may have grown.
    grew = sent.text.rstrip() != before.text.rstrip() and not (run.lane.greedy and rolled_back)
    same = sent.body == before.body
    hold(4, not (same and grew), "output was shown, and the request is the same")


# --- 5: bounded -----------------------------------------------------------------------------------


def _bounded(run: Run) -> None:
    attempts = run.ran.attempts
    hold(5, len(attempts) == len(run.ran.sent) <= 20, f"{len(attempts)} attempts")
    for waited in run.ran.waited:
        budgets = (CONTINUATION_S, TRANSIENT_S)
        fits = any(s <= waited.delay_s <= s * 1.25 for budget in budgets for s in budget)
        hold(5, fits, f"waited {waited.delay_s} s, which no budget allows")
    if run.ran.took_s is None:
        return  # real time: not ours to judge
    cuts = [a.delay_s for a in attempts if a.rule in ("cut", "cut_again")]
    hold(5, tuple(cuts) == CONTINUATION_S[: len(cuts)], f"continuations after {cuts} s")
    if run.fault != "stall":
        pauses = sum(w.delay_s for w in run.ran.waited)
        took = run.ran.took_s
        hold(5, abs(took - pauses) < 1e-6, f"the turn took {took} s, {pauses} s were waited")


# --- 3: a cut is never a success ------------------------------------------------------------------


def _outcome(run: Run) -> None:
    view, reply, arrived = run.ran.view, run.recording.reply, run.arrived
    finished = view.finished
    hold(3, finished is not None, "the turn has no end")
    refused = run.last if run.last is not None and run.last.may_refuse else arrived
    gave_up = finished.outcome == "exhausted" and refused.may_refuse
    if (refused.refusing or gave_up) and not refused.may_have_stopped:
        hold(3, finished.outcome == "exhausted", "a cut refusal ended as " + finished.outcome)
        hold(4, refused is run.last, "a refusal was asked for again")
        return
    hold(3, finished.outcome == "completed", f"the turn is {finished.outcome}: {finished.reason}")
    hold(8, view.opened == 1, f"the reply was opened {view.opened} times")
    if run.ended_by_calls:
        hold(3, finished.stop.value == "tool_use", f"stop is {finished.stop.value}")
        return
    last = run.last
    hold(3, last is None or last.may_have_stopped, "completed without the stop fact")
    hold(4, not arrived.stopped or len(run.ran.sent) == 1, "asked again after the stop fact")
    stop = STOPS[reply.stop or ""]
    if stop == "end" and any(part.kind == "tool_use" for part in reply.parts):
        stop = "tool_use"
    hold(3, finished.stop.value == stop, f"stop is {finished.stop.value}, not {stop}")
    hold(3, finished.incomplete is (stop == "length"), f"incomplete is {finished.incomplete}")
    hold(8, len(view.stops) == 1, f"{len(view.stops)} stop facts were shown")


# --- evidence -------------------------------------------------------------------------------------


def _records(run: Run) -> None:
    ran = run.ran
    went_on = [played for played in run.upstream.played if played.kind != "original"]
    started = len(ran.records_of("llm_stream_continuation_started"))
    ended = len(ran.records_of("llm_stream_continuation_completed"))
    failed = len(ran.records_of("llm_stream_continuation_failed"))
    hold(12, started == len(went_on), f"{started} records of {len(went_on)} continuations")
    hold(12, ended + failed == started, f"{ended} completed and {failed} failed of {started}")
    if len(ran.sent) > 1:
        interrupted = ran.records_of("llm_stream_interrupted")
        hold(12, bool(interrupted), "no record of the interruption")
        silent = run.fault == "stall" and not _began(run)
        kind = "timeout" if silent else KINDS[run.fault]
        found = interrupted[0]["error_kind"]
        hold(12, found == kind, f"the cut is recorded as {found}, not {kind}")
    _discarded(run)


def _began(run: Run) -> bool:
    """An event of the reply had arrived; a chunk without choices and id is only a sign of life."""
    frames = run.recording.reply.frames[: run.arrived.frames]
    if run.recording.wire == "anthropic":
        return bool(frames)
    return any(frame.json.get("choices") or frame.json.get("id") for frame in frames)


def _discarded(run: Run) -> None:
    """Every half call is recorded, with its name, its bytes and the reason; nothing else is."""
    arrived = run.arrived
    if len(run.cuts) > 1 or arrived.may_have_stopped or not run.takes_half_turns:
        return
    if any(state.part.raw.get("input") for state in arrived.most):
        return  # input that came with the start of a call counts when the call is closed
    found = [
        (r["tool_name"], r["partial_input_bytes"], r["reason"])
        for r in run.ran.records_of("discarded_partial_tool_use")
    ]
    reason = f"{KINDS[run.fault]}_error"
    allowed = [
        [(s.part.name, len(s.text.encode()), reason) for s in states if _is_half(s)]
        for states in (arrived.least, arrived.most)
    ]
    hold(1, found in allowed, f"half calls are recorded as {found}, not {allowed[0]}")


def _is_half(state: State) -> bool:
    begun = state.part.id or state.text  # a name alone is not yet a call
    return state.part.kind == "tool_use" and bool(begun) and not is_whole(state)
