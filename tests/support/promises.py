"""The independent checker: do the promises of recovery hold for this run?

It expects nothing that the project computed: what was said, what had arrived and what must follow
is read from the recording by the tests' own accumulator, and the requests and events are held
against that. Numbers of the policies (waits, limits) stand here once more, by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from continuing import Continuing, Played
from lanes import Lane
from recordings import Recording
from reply_parts import HIDDEN, Flat, State, decoded, flat_of
from strict_provider import StrictProvider
from twin import End, Sent, Twin

__all__ = ["BrokenPromise", "Run", "check"]

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
KINDS: dict[End, str] = {
    "eof": "premature_end",
    "fin": "sse_transport",
    "rst": "sse_transport",
    "stall": "stalled",
}
CONTINUATION_S = (1.0, 2.0, 4.0, 8.0, 16.0)
#: min(0.5 · 2^(n-1), 32), and up to a quarter more.
TRANSIENT_S = tuple(min(0.5 * 2**n, 32.0) for n in range(10))


class BrokenPromise(AssertionError):
    """A promise did not hold; the message begins with its number."""


@dataclass(frozen=True)
class Run:
    """One run: attempt ``n`` was cut at byte ``cuts[n]`` of what was played, by ``fault``."""

    recording: Recording
    lane: Lane
    twin: Twin
    upstream: Continuing
    cuts: tuple[int, ...]
    fault: End
    request: Mapping[str, Any]

    @property
    def provider(self) -> StrictProvider:
        """Who judges the requests."""
        said = self.recording.reply
        inputs = [p.text for p in said.parts if p.kind == "tool_use" and p.close is not None]
        odd = frozenset(text for text in inputs if not isinstance(decoded(text), dict))
        return StrictProvider(self.lane.server, said, odd)


def _hold(promise: int, holds: bool, message: str) -> None:
    if not holds:
        raise BrokenPromise(f"promise {promise}: {message}")


@dataclass(frozen=True)
class Arrived:
    """What of the recording had arrived at the first cut, read independently."""

    least: list[State]
    most: list[State]
    """With the tail that has no blank line, where it is whole."""
    stopped: bool
    """The stop fact was there for certain."""
    may_have_stopped: bool

    @classmethod
    def of(cls, recording: Recording, at: int) -> Arrived:
        """At a cut after ``at`` bytes."""
        reply = recording.reply
        sure, most = reply.arrived(at)
        stop = reply.stop_frame
        assert stop is not None
        return cls(reply.before(sure), reply.before(most), sure > stop, most > stop)

    def whole_calls(self, states: list[State]) -> list[State]:
        """Calls that may be run: closed, or their input is one JSON object already."""
        return [s for s in states if s.part.kind == "tool_use" and _is_whole(s)]

    @property
    def closed_calls(self) -> list[State]:
        """Calls that may certainly be run."""
        return [s for s in self.whole_calls(self.least) if s.closed]


def _is_whole(state: State) -> bool:
    if not state.text.strip():
        return state.closed
    return isinstance(decoded(state.text), dict) or state.closed


def check(run: Run) -> None:
    """Raise ``BrokenPromise`` for the first promise that does not hold."""
    arrived = Arrived.of(run.recording, run.cuts[0])
    _no_half_call(run)
    _requests(run, arrived)
    _bounded(run)
    _history(run)
    _outcome(run, arrived)
    _text(run, arrived)
    _records(run, arrived)


# --- 1: no half tool call -------------------------------------------------------------------------


def _no_half_call(run: Run) -> None:
    said = {
        (part.id, part.name, json.dumps(decoded(part.text), sort_keys=True))
        for part in run.recording.reply.parts
        if part.kind == "tool_use" and part.close is not None
    }
    for block in run.twin.view.blocks.values():
        if block.kind == "tool_use":
            text = json.dumps(decoded(block.joined("input")), sort_keys=True)
            _hold(1, block.closed or block.void, f"call {block.name!r} was shown in part")
            _hold(1, _was_said(said, block.id, block.name, text), f"call {block.name!r} is no call")
    for sent in run.twin.sent:
        for message in sent.body["messages"][1:]:
            for call in _calls(message):
                _hold(1, _was_said(said, *call), f"a request holds a call {call[1]!r}")


def _was_said(said: set[tuple[Any, ...]], call_id: Any, name: Any, text: str) -> bool:
    # An id that upstream left out is made up.
    return any((i == call_id or i is None) and (n, t) == (name, text) for i, n, t in said)


def _calls(message: Mapping[str, Any]) -> Iterator[tuple[Any, Any, str]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_use":
            yield block["id"], block["name"], json.dumps(block["input"], sort_keys=True)
    for call in message.get("tool_calls") or ():
        body = call["function"]
        text = json.dumps(decoded(body["arguments"]), sort_keys=True)
        yield call["id"], body["name"], text
    if legacy := message.get("function_call"):
        text = json.dumps(decoded(legacy["arguments"]), sort_keys=True)
        yield None, legacy["name"], text


# --- 4: never sent again, and what is worth keeping goes along ------------------------------------


def _requests(run: Run, arrived: Arrived) -> None:
    sent, played = run.twin.sent, run.upstream.played
    provider = run.provider
    for number, request in enumerate(sent):
        faults = provider.faults(request.body)
        _hold(7, not faults, f"request {number} would be refused: {faults}")
        _hold(4, request.fresh is (number > 0), f"request {number}: a used connection")
        if number == 0:
            _hold(9, played[0].kind == "original", "the first request is not the caller's")
        elif played[number].kind == "original":
            _sent_again(run, arrived, number)
        else:
            _goes_on(run, sent[number - 1], request, played[number])


def _sent_again(run: Run, arrived: Arrived, number: int) -> None:
    sent = run.twin.sent[number]
    _hold(4, sent.body == run.twin.sent[0].body, "a retry is not the same request")
    shown = "".join(str(item) for item in sent.flat).strip()
    _hold(4, not shown, f"request 0 is sent again after output: {shown[:60]!r}")
    if number == 1 and not run.lane.retracts:
        _hold(4, not _worth_keeping(run, arrived), "what had arrived was not taken along")


def _worth_keeping(run: Run, arrived: Arrived) -> bool:
    if arrived.closed_calls and "all_or_none" not in run.lane.laid_over:
        return True
    text = "".join(s.text for s in arrived.least if s.part.kind in ("text", "refusal"))
    instructs = run.request.get("thinking") or run.request.get("tools")
    if text.strip() and len(text) >= (12 if instructs else run.lane.hold_first):
        return True
    return bool(_paired([s for s in arrived.least if s.part.kind == "server_tool"]))


def _goes_on(run: Run, before: Sent, sent: Sent, played: Played) -> None:
    carried = played.carried
    shown = sent.text if sent.text.startswith(carried) else sent.solid
    _hold(4, bool(carried.strip() or played.carried_parts), "a continuation carries nothing")
    _hold(4, shown.startswith(carried), "the request carries what was not shown")
    rest = shown[len(carried) :]
    blank = not rest.strip()
    # Greedy decoding: the last word is rolled back, so that it is written again.
    _hold(4, blank or _is_last_word(run, rest), f"shown, but not carried: {rest!r}")
    kept = {part.id for part in played.carried_parts}
    for item in sent.flat:
        if item[0] in ("server_tool", "tool_use"):
            _hold(4, item[1] in kept, f"a {item[0]} was shown, but is not carried")
    brought = sent.flat != before.flat
    _hold(4, not (brought and sent.body == before.body), "output was shown, the request is the same")


def _is_last_word(run: Run, rest: str) -> bool:
    greedy = dict(run.lane.extra).get("temperature") == 0 or run.lane.server == "llamacpp"
    return greedy and len(rest.split()) == 1 and len(rest.strip()) <= 24


# --- 5: bounded -----------------------------------------------------------------------------------


def _bounded(run: Run) -> None:
    attempts = run.twin.machine.turn.attempts
    _hold(5, len(attempts) == len(run.twin.sent) <= 32, f"{len(attempts)} attempts")
    budgets = (CONTINUATION_S, TRANSIENT_S)
    for waited in run.twin.waited:
        fits = any(s <= waited.delay_s <= s * 1.25 for budget in budgets for s in budget)
        _hold(5, fits, f"waited {waited.delay_s} s, which no budget allows")
    pauses = [w.delay_s for w in run.twin.waited]
    went_on = [a for a in attempts if a.how == "continue"]
    cuts = [a.delay_s for a in went_on if a.rule == "cut"]
    _hold(5, tuple(cuts) == CONTINUATION_S[: len(cuts)], f"continuations after {cuts} s")
    if run.fault != "stall":
        took = run.twin.now - 100.0
        _hold(5, abs(took - sum(pauses)) < 1e-6, f"the turn took {took} s, {pauses} were waited")


# --- 7: history -----------------------------------------------------------------------------------


def _history(run: Run) -> None:
    machine, view = run.twin.machine, run.twin.view
    for said in (list(machine.history.messages), list(machine.history.message)):
        request = {
            **run.twin.sent[0].body,
            "messages": [*run.request["messages"], *said, *_answers(run, said)],
        }
        faults = run.provider.faults(request)
        _hold(7, not faults, f"the next request would be refused: {faults}")
        # Between two messages white space may be missing: no message may end with it.
        kept = "".join("".join(_texts(said)).split())
        _hold(7, kept == "".join(view.text.split()), "the history is not what was shown")
    clean = "".join(_texts(machine.history.message))
    _hold(7, clean in (view.text, view.solid), "the message is not what was shown")
    _hold(7, len(machine.history.message) <= 1, "more than one clean message")


def _answers(run: Run, said: list[Any]) -> list[dict[str, Any]]:
    """The caller's next turn: tools answered, then a user message where one may stand."""
    calls = [call for message in said for call in _calls(message)]
    if run.lane.wire == "anthropic":
        results = [{"type": "tool_result", "tool_use_id": c[0], "content": "ok"} for c in calls]
        return [{"role": "user", "content": results or "and then?"}]
    if said and said[-1].get("function_call"):
        return [{"role": "function", "name": calls[0][1], "content": "ok"}]
    tools = [{"role": "tool", "tool_call_id": call[0], "content": "ok"} for call in calls]
    return tools or [{"role": "user", "content": "and then?"}]


def _texts(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        if message["role"] != "assistant":
            continue
        content = message["content"]
        if isinstance(content, str):
            yield content
        for block in content if isinstance(content, list) else ():
            if block["type"] == "text":
                yield block["text"]


# --- 3: a cut is never a success ------------------------------------------------------------------


def _outcome(run: Run, arrived: Arrived) -> None:
    view, reply = run.twin.view, run.recording.reply
    finished = view.finished
    _hold(3, finished is not None, "the turn has no end")
    refusing = any(s.part.kind == "refusal" and s.text for s in arrived.least)
    if refusing and not arrived.may_have_stopped:
        _hold(3, finished.outcome == "exhausted", "a cut refusal ended as " + finished.outcome)
        _hold(4, len(run.twin.sent) == 1, "a refusal was asked for again")
        return
    _hold(3, finished.outcome == "completed", f"the turn is {finished.outcome}: {finished.reason}")
    if _ended_by_calls(run, arrived):
        _hold(3, finished.stop.value == "tool_use", f"stop is {finished.stop.value}")
        return
    once = len(run.twin.sent) == 1
    _hold(3, arrived.may_have_stopped or not once, "completed without the stop fact")
    _hold(4, not arrived.stopped or once, "asked again after the stop fact")
    stop = STOPS[reply.stop or ""]
    if stop == "end" and any(part.kind == "tool_use" for part in reply.parts):
        stop = "tool_use"
    _hold(3, finished.stop.value == stop, f"stop is {finished.stop.value}, not {stop}")
    _hold(3, finished.incomplete is (stop == "length"), f"incomplete is {finished.incomplete}")
    _hold(8, len(view.stops) == 1, f"{len(view.stops)} stop facts were shown")


def _ended_by_calls(run: Run, arrived: Arrived) -> bool:
    """The turn ended with the whole calls that had arrived, without the stop fact."""
    if arrived.stopped or len(run.twin.sent) > 1:
        return False
    if arrived.may_have_stopped and run.twin.view.stops:
        return False
    return bool(arrived.whole_calls(arrived.most))


# --- 2: no text twice, none lost ------------------------------------------------------------------


def _text(run: Run, arrived: Arrived) -> None:
    view, reply = run.twin.view, run.recording.reply
    if view.finished.outcome != "completed":
        _hold(2, reply.text.startswith(view.text), "text that was not said")
        return
    if _ended_by_calls(run, arrived):
        _hold(2, view.flat in _upto_calls(arrived), f"after a cut behind calls: {view.flat}")
        return
    if arrived.closed_calls and "all_or_none" not in run.lane.laid_over:
        _hold(4, len(run.twin.sent) == 1, "whole calls had arrived, but more was asked for")
    expected = _kept(flat_of(reply.whole), reply.stop)
    if len(run.twin.sent) == 1:  # the stop fact had arrived; content after it may have been cut
        seen = [_kept(flat_of(s), reply.stop) for s in (arrived.least, arrived.most)]
        _hold(2, view.flat in seen, _differ(view.flat, expected))
        return
    last = run.upstream.played[-1]
    if run.lane.variant == "no_leading_space" and last.kind == "instruct":
        _hold(2, _words(view.flat) == _words(expected), _differ(view.flat, expected))
        shown = run.twin.sent[-1].text
        rest = reply.text[last.begins_at :]
        _hold(2, view.text == shown + rest[_overlap(shown, rest) :], "the seam is not as played")
    else:
        _hold(2, view.flat == expected, _differ(view.flat, expected))
    _thoughts(run)


def _kept(flat: Flat, stop: str | None) -> Flat:
    if stop in ("max_tokens", "length"):
        return [i for i in flat if i[0] != "tool_use" or isinstance(i[3], dict)]
    return flat


def _overlap(shown: str, rest: str) -> int:
    blank = len(shown) - len(shown.rstrip())
    head = rest[: len(rest) - len(rest.lstrip())]
    return max(n for n in range(min(blank, len(head)) + 1) if shown.endswith(head[:n]))


def _upto_calls(arrived: Arrived) -> list[Flat]:
    """What may stand after a cut behind whole calls: all up to the last of them."""
    found = []
    for states in (arrived.least, arrived.most):
        for whole in (_is_whole, lambda s: s.closed and _is_whole(s)):
            kept = [s for s in states if s.part.kind != "tool_use" or whole(s)]
            last = max((i for i, s in enumerate(kept) if s.part.kind == "tool_use"), default=-1)
            found.append(flat_of(_paired(kept[: last + 1])))
    return found


def _paired(states: list[State]) -> list[State]:
    """Without server tools that have no result, and those that were called by one of these."""
    tools = [s.part for s in states if s.part.kind == "server_tool" and s.closed]
    ids = [part.id for part in tools]
    callers = {p.id: p.raw.get("caller", {}).get("tool_id") for p in tools if "caller" in p.raw}
    paired = {one for one in ids if ids.count(one) > 1}
    while gone := {one for one in paired if callers.get(one) and callers[one] not in paired}:
        paired -= gone
    return [s for s in states if s.part.kind != "server_tool" or s.part.id in paired]


def _words(flat: Flat) -> list[Any]:
    return [(i[0], i[1].split()) if i[0] == "text" else i for i in flat if str(i[1]).strip()]


def _differ(seen: Flat, expected: Flat) -> str:
    for one, other in zip(seen, expected, strict=False):
        if one != other and one[0] == other[0] == "text":
            at = next((i for i, (a, b) in enumerate(zip(one[1], other[1], strict=False)) if a != b),
                      min(len(one[1]), len(other[1])))
            return f"text differs at {at}: {one[1][at - 20 : at + 30]!r}, said was {other[1][at - 20 : at + 30]!r}"
        if one != other:
            return f"seen {str(one)[:120]}, said was {str(other)[:120]}"
    return f"{len(seen)} things were seen, {len(expected)} were said"


def _thoughts(run: Run) -> None:
    """Thinking that was not taken back is whole, and as it was said."""
    said = [p for p in run.recording.reply.parts if p.kind in HIDDEN]
    texts = {(p.kind, p.text, p.signature) for p in said}
    for block in run.twin.view.valid:
        if block.kind == "thinking" and run.recording.wire == "anthropic":
            thought = (block.kind, block.joined("text"), block.joined("signature"))
            _hold(2, thought in texts, "thinking that was not said so")


# --- evidence -------------------------------------------------------------------------------------


def _records(run: Run, arrived: Arrived) -> None:
    twin = run.twin
    attempts = [a for a in twin.machine.turn.attempts if a.number]
    went_on = [played for played in run.upstream.played if played.kind != "original"]
    started = len(twin.records_of("llm_stream_continuation_started"))
    ended = len(twin.records_of("llm_stream_continuation_completed"))
    failed = len(twin.records_of("llm_stream_continuation_failed"))
    _hold(9, started == len(went_on), f"{started} records of {len(went_on)} continuations")
    _hold(9, ended + failed == started, f"{ended} completed and {failed} failed of {started}")
    if attempts:
        interrupted = twin.records_of("llm_stream_interrupted")
        _hold(9, bool(interrupted), "no record of the interruption")
        if run.fault in KINDS:
            kind = interrupted[0]["error_kind"]
            silent = run.fault == "stall" and not _began(run)
            _hold(9, kind == ("timeout" if silent else KINDS[run.fault]), f"the cut is a {kind}")
    _discarded(run, arrived)


def _began(run: Run) -> bool:
    """An event of the reply had arrived; a chunk without choices and id is only a sign of life."""
    frames = run.recording.reply.frames
    sure, _ = run.recording.reply.arrived(run.cuts[0])
    chat = run.recording.wire != "anthropic"
    return any(f.json.get("choices") or f.json.get("id") if chat else True for f in frames[:sure])


def _discarded(run: Run, arrived: Arrived) -> None:
    if len(run.cuts) > 1 or run.fault not in KINDS or arrived.may_have_stopped:
        return
    found = [
        (r["tool_name"], r["partial_input_bytes"], r["reason"])
        for r in run.twin.records_of("discarded_partial_tool_use")
    ]
    reason = f"{KINDS[run.fault]}_error"
    allowed = [
        [(s.part.name, len(s.text.encode()), reason) for s in states if _is_half(s)]
        for states in (arrived.least, arrived.most)
    ]
    if any(s.part.raw.get("input") for s in arrived.most):
        return  # input that came with the start of a call counts when the call is closed
    if "all_or_none" not in run.lane.laid_over:
        _hold(1, found in allowed, f"half calls are recorded as {found}, expected {allowed[0]}")


def _is_half(state: State) -> bool:
    begun = state.part.id or state.text  # a name alone is not yet a call
    return state.part.kind == "tool_use" and bool(begun) and not _is_whole(state)


