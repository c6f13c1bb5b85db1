"""One scripted turn twice, in fake time: by the simulator, and by the client's own core from bytes.

Both meet the same ``World`` (same seed, same turn). What is written down of each is what a caller
and a run file get: events with their indexes and joined text, and records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from midthought._clock import PausingClock
from midthought._core import TurnCore
from midthought.policies import Policy
from midthought.providers import get_dialect
from midthought.review import Faults, Script, World
from midthought.review._simulate import Clockwork
from midthought.review._world import CHARS_PER_TOKEN
from midthought.statemachine import (
    BlockDelta,
    Effect,
    Emit,
    Event,
    Record,
    Retract,
    Retracted,
    UsageReported,
)

__all__ = ["Seen", "by_client", "by_simulator"]

Json = dict[str, Any]
REQUEST: Json = {
    "model": "simulated",
    "max_tokens": 100_000,
    "messages": [{"role": "user", "content": "simulated"}],
}
#: Facts of a failure that the script knows; words and ids are the wire's own.
FACTS = ("kind", "phase", "status", "retry_after_s", "processed", "connection")
#: The simulator does not know them: how a dialect counts while it streams.
COUNTED = ("output_tokens", "discarded_output_tokens", "error_message", "late_events")


class Seen(NamedTuple):
    """What a turn gave."""

    events: list[tuple[Any, ...]]
    """Kind, then what it says; deltas in a row of one block are one."""
    records: list[tuple[str, Json]]
    text: str


class Book:
    """Writes a turn down."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.records: list[tuple[str, Json]] = []

    def event(self, event: Event) -> None:
        """An event for the caller."""
        if isinstance(event, UsageReported):
            return
        if isinstance(event, BlockDelta):
            if self.events and self.events[-1][:2] == ("BlockDelta", event.index):
                self.events[-1] = (*self.events[-1][:2], self.events[-1][2] + event.text)
            else:
                self.events.append(("BlockDelta", event.index, event.text))
            return
        facts = [
            getattr(event, n)
            for n in ("index", "trigger", "state", "outcome", "stop", "how")
            if hasattr(event, n)
        ]
        self.events.append((type(event).__name__, event.attempt, *facts))

    def record(self, name: str, fields: Mapping[str, Any]) -> None:
        """A record; without what only the wire knows."""
        kept = {k: v for k, v in fields.items() if k not in COUNTED}
        if kept.get("failure") is not None:
            kept["failure"] = {k: v for k, v in kept["failure"].items() if k in FACTS}
        kept["at_s"] = round(kept["at_s"], 6)
        self.records.append((name, kept))

    def seen(self, machine: Any) -> Seen:
        """The turn is over."""
        return Seen(self.events, self.records, "".join(b.text for b in machine.blocks))


# --- the simulator ------------------------------------------------------------------------------


class _Watched(Clockwork):
    book: Book

    def carry_out(self, effects: Sequence[Effect]) -> None:
        super().carry_out(effects)
        for effect in effects:
            if isinstance(effect, Emit):
                self.book.event(effect.event)
            elif isinstance(effect, Retract):
                self.book.event(Retracted(self.machine.attempt, effect.index))
            elif isinstance(effect, Record):
                self.book.record(effect.name, effect.fields)


def by_simulator(policy: Policy, faults: Faults, seed: int, turn: int) -> Seen:
    """The turn as the simulator plays it."""
    clockwork = _Watched(policy, World(faults, seed, turn))
    clockwork.book = Book()
    clockwork.run(faults.reply.prompt_tokens)
    return clockwork.book.seen(clockwork.machine)


# --- the client's core --------------------------------------------------------------------------


class _Host:
    """A client without a transport: its clock is a number, its bytes come from the script."""

    def __init__(self, policy: Policy, faults: Faults, seed: int, turn: int) -> None:
        self.now = 0.0
        self.faults = faults
        self.world = World(faults, seed, turn)
        self.book = Book()
        self.wire = _WIRES[policy.dialect]
        self.core = TurnCore(
            policy,
            get_dialect(policy.dialect),
            REQUEST,
            rng=self.world.random.random,
            sink=self.book.record,
            clock=PausingClock(self._time),
        )

    def _time(self) -> float:
        return self.now

    def take(self, events: list[Event]) -> None:
        for event in events:
            self.book.event(event)

    def run(self) -> None:
        self.take(self.core.begin())
        while not self.core.done:
            if self.core.send is not None:
                self._attempt()
            else:
                self._tick()

    def _tick(self) -> None:
        self.now = self.core.deadline
        self.take(self.core.tick())

    def _over(self) -> bool:
        core = self.core
        return core.done or core.send is not None or core.wait_until is not None

    def _attempt(self) -> None:
        self.core.take_send()
        continues = self.core.machine.turn.attempts[-1].strategy is not None
        shown = sum(len(b.text) for b in self.core.machine.blocks) if continues else 0
        script = self.world.attempt(self.now, -(-shown // CHARS_PER_TOKEN))
        sent = self.now
        for at, act in self._acts(script):
            while not self._over() and self.core.deadline <= sent + at:
                self._tick()
            if self._over():
                return
            self.now = sent + at
            self.take(act())
        while not self._over():
            self._tick()

    def _acts(self, script: Script) -> Iterator[tuple[float, Callable[[], list[Event]]]]:
        core, wire, ending = self.core, self.wire, script.ending
        if ending.kind == "connect":
            error = httpx.ConnectError("simulated")
            yield script.ended_s, lambda: core.broke(error, phase="connect", connection="new")
            return
        if ending.status is not None:
            yield script.ended_s, lambda: self._refused(script)
            return
        head = [("content-type", "text/event-stream")]
        used = self.faults.reply.prompt_tokens + script.first
        yield script.opened_s, lambda: core.headers(200, head, "new") + core.data(wire.start(used))
        for token in range(script.first, script.last):
            word = self.world.text(token, token + 1)
            piece = wire.text(word, begins=token == script.first)
            yield script.time_of(token + 1), lambda piece=piece: core.data(piece)  # type: ignore[misc]
        if ending.kind == "cut":
            reset = httpx.ReadError("simulated")
            yield script.ended_s, lambda: core.broke(reset, connection="new")
        elif ending.kind == "overloaded":
            yield script.ended_s, lambda: core.data(wire.overloaded)
        elif ending.kind == "whole":
            yield script.ended_s, lambda: core.data(wire.end(used, script.last - script.first))

    def _refused(self, script: Script) -> list[Event]:
        ending = script.ending
        headers = [("content-type", "application/json")]
        if ending.retry_after_s is not None:
            headers.append(("retry-after", str(ending.retry_after_s)))
        assert ending.status is not None
        events = self.core.headers(ending.status, headers, "new")
        events += self.core.data(self.wire.error(ending.kind))
        return events + self.core.ended()


def by_client(policy: Policy, faults: Faults, seed: int, turn: int) -> Seen:
    """The turn as the client plays it, byte by byte."""
    host = _Host(policy, faults, seed, turn)
    host.run()
    return host.book.seen(host.core.machine)


# --- bytes --------------------------------------------------------------------------------------


class _Messages:
    """The Messages dialect."""

    overloaded = (
        b'event: error\ndata: {"type":"error","error":'
        b'{"type":"overloaded_error","message":"simulated"}}\n\n'
    )

    def start(self, used: int) -> bytes:
        usage = {"input_tokens": used, "output_tokens": 1}
        message = {"id": "m", "role": "assistant", "model": "m", "content": [], "usage": usage}
        return _event("message_start", message=message)

    def text(self, text: str, *, begins: bool) -> bytes:
        block = {"type": "text", "text": ""}
        begun = _event("content_block_start", index=0, content_block=block) if begins else b""
        return begun + _event(
            "content_block_delta", index=0, delta={"type": "text_delta", "text": text}
        )

    def end(self, used: int, made: int) -> bytes:
        stop = {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": made}}
        closed = _event("content_block_stop", index=0) if made else b""
        return closed + _event("message_delta", **stop) + _event("message_stop")

    def error(self, kind: str) -> bytes:
        names = {
            "overloaded": "overloaded_error",
            "rate_limited": "rate_limit_error",
            "server_error": "api_error",
        }
        error = {"type": names[kind], "message": "simulated"}
        return json.dumps({"type": "error", "error": error}).encode()


class _Chat:
    """The Chat Completions dialect."""

    overloaded = (
        b'data: {"error":{"message":"simulated","type":"server_error",'
        b'"code":"server_is_overloaded"}}\n\n'
    )

    def start(self, used: int) -> bytes:
        return self._chunk({"role": "assistant", "content": ""})

    def text(self, text: str, *, begins: bool) -> bytes:
        return self._chunk({"content": text})

    def end(self, used: int, made: int) -> bytes:
        usage = {"prompt_tokens": used, "completion_tokens": made, "total_tokens": used + made}
        counted = json.dumps({"id": "c", "choices": [], "usage": usage})
        return self._chunk({}, "stop") + f"data: {counted}\n\ndata: [DONE]\n\n".encode()

    def error(self, kind: str) -> bytes:
        return json.dumps({"error": {"message": "simulated", "type": "server_error"}}).encode()

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [choice]})}\n\n".encode()


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


_WIRES: dict[str, Any] = {"anthropic_messages": _Messages(), "openai_chat": _Chat()}
