"""One turn of the engine, played by hand: a plain dialect, policies in a line, time that we own.

The dialect is real but has no quirks of a provider, so that a test of the engine shows the engine:
a request is a flat dict, and a continuation says in plain keys what the engine ordered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, cast

from midthought.policies import FailureKind, Policy, Stop, load_policy
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockKind,
    BlockStarted,
    Continue,
    DeltaField,
    Effect,
    Emit,
    Event,
    Failure,
    Finished,
    HostEvent,
    Opened,
    Record,
    Recovery,
    Request,
    Responded,
    Retract,
    Retracted,
    Send,
    StateChanged,
    StopKnown,
    TimePassed,
    TurnFinished,
    Wait,
)

__all__ = ["REQUEST", "PlainBuilder", "Play", "policy_of"]

Json = dict[str, Any]
AnyEffect = TypeVar("AnyEffect", bound=Effect)

REQUEST: Json = {"model": "m-1", "max_tokens": 4000}
HIDDEN = ("thinking", "redacted_thinking")


class PlainBuilder:
    """The request side of a dialect that has nothing of its own."""

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """The caller's body."""
        return Request(dict(request))

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """What stands under ``features``."""
        return frozenset(request.get("features", ()))

    def model(self, request: Mapping[str, Any]) -> str:
        """The model's name."""
        return str(request.get("model", ""))

    def choices(self, request: Mapping[str, Any]) -> int:
        """One reply."""
        return 1

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The output cap."""
        return cast(int | None, request.get("max_tokens"))

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The order in plain keys; ``ValueError`` where no block could be sent back."""
        if not self.messages(order.blocks, policy):
            raise ValueError("a continuation without anything to continue")
        body = {**request, "strategy": order.strategy, "kept": _plain(order.blocks)}
        if order.instruction is not None:
            body["instruction"] = order.instruction
        if order.cap is not None:
            body["max_tokens"] = order.cap
        return Request(body)

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """A call for the handle, where the request names this way under ``resumable``."""
        how = "poll" if poll else "resume"
        if how not in request.get("resumable", ()):
            return None
        place = f"/{handle['at']}" if "at" in handle else ""
        return Request({}, method="GET", path=f"/{how}/{handle['id']}{place}")

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """A stop call, for handles that say so."""
        return Request({}, path=f"/stop/{handle['id']}") if handle.get("stoppable") else None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[Json]:
        """One answer for each call."""
        return [{"role": "tool", "id": call.id, "content": "not executed"} for call in calls]

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The request without reasoning."""
        kept = [part for part in request.body.get("kept", ()) if part[0] not in HIDDEN]
        return Request({**request.body, "kept": kept, "stripped": True})

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """One assistant message, or none where a provider would refuse it."""
        if not any(block.kind not in HIDDEN for block in _said(blocks)):
            return []
        return [{"role": "assistant", "content": _plain(blocks)}]

    def instruction(self, text: str, policy: Policy) -> Json:
        """The recovery's own message."""
        return {"role": "user", "content": text}


def _said(blocks: Sequence[Block]) -> list[Block]:
    """Without blank texts, which no provider takes."""
    return [block for block in blocks if block.kind != "text" or block.text.strip()]


def _plain(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in _said(blocks)]


def _merged(base: Json, over: Mapping[str, Any]) -> Json:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and value else value
    return merged


@functools.cache
def _dumped(base: str) -> Json:
    return load_policy(base).model_dump(mode="json")


def policy_of(base: str = "base", **changes: Any) -> Policy:
    """A shipped policy with some tables changed: dicts are merged (``{}`` empties), lists replaced.

    Nothing is checked but the structure, so that a test can ask what a strange policy does.
    """
    return Policy.model_validate(_merged(_dumped(base), changes))


class Play:
    """A turn and what came of it. Events without an attempt are the current attempt's."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        request: Mapping[str, Any] = REQUEST,
        hooks: Collection[str] = (),
        refused: Collection[str] = (),
        rng: Callable[[], float] = lambda: 0.0,
        now: float = 1000.0,
    ) -> None:
        self.machine = Recovery(
            policy or policy_of(),
            request,
            PlainBuilder(),
            rng=rng,
            hooks=hooks,
            refused=refused,
            turn_id="turn-1",
            run_id="run-1",
        )
        self.now = now
        self.effects: list[Effect] = []
        self._take(self.machine.start(now))

    def _take(self, effects: list[Effect]) -> list[Effect]:
        self.effects += effects
        return effects

    # --- what happens -----------------------------------------------------------------------------

    def feed(self, *events: Event | HostEvent) -> list[Effect]:
        """Feed events one by one; returns what followed."""
        return [e for event in events for e in self._take(self.machine.feed(event, self.now))]

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass and tell the machine."""
        self.now += seconds
        return self.feed(TimePassed())

    def sleep(self) -> list[Effect]:
        """Wait until the machine wants to be woken."""
        return self.wait(self.machine.next_deadline() - self.now)

    @property
    def attempt(self) -> int:
        """The attempt at hand."""
        return self.machine.attempt

    def opened(self) -> list[Effect]:
        """Headers and the first event of the attempt."""
        return self.feed(Responded(self.attempt), Opened(self.attempt))

    def start(
        self, kind: BlockKind = "text", index: int = 0, id: str | None = None, name: str = "f"
    ) -> list[Effect]:
        """A block begins."""
        name_or_none = name if kind in ("tool_use", "server_tool") else None
        return self.feed(BlockStarted(self.attempt, index, kind, id, name_or_none))

    def delta(self, text: str, index: int = 0, field: DeltaField = "text") -> list[Effect]:
        """More of a block."""
        return self.feed(BlockDelta(self.attempt, index, text, field))

    def close(self, index: int = 0) -> list[Effect]:
        """A block is whole."""
        return self.feed(BlockClosed(self.attempt, index))

    def say(self, text: str, index: int = 0) -> list[Effect]:
        """The attempt opens and writes text; the block stays open."""
        return [*self.opened(), *self.start(index=index), *self.delta(text, index)]

    def call(self, input: str, index: int = 0, *, closed: bool = True) -> list[Effect]:
        """A tool call with this input."""
        said = [*self.start("tool_use", index, f"call-{index}"), *self.delta(input, index, "input")]
        return [*said, *(self.close(index) if closed else ())]

    def think(
        self, text: str, index: int = 0, *, signature: str | None = None, closed: bool = True
    ) -> list[Effect]:
        """A thinking block."""
        said = [*self.start("thinking", index), *self.delta(text, index)]
        if signature is not None:
            said += self.delta(signature, index, "signature")
        return [*said, *(self.close(index) if closed else ())]

    def cut(self, kind: str = "sse_transport", **facts: Any) -> list[Effect]:
        """The attempt fails."""
        failure = Failure(FailureKind(kind), **facts)
        return self.feed(Finished(self.attempt, Stop.error, failure))

    def stop(self, stop: str = "end", *, known: bool = True) -> list[Effect]:
        """The model stops, with the stop fact or (``known = False``) without."""
        fact = [StopKnown(self.attempt, Stop(stop), stop)] if known else []
        return self.feed(*fact, Finished(self.attempt, Stop(stop)))

    # --- what came of it --------------------------------------------------------------------------

    def of(self, kind: type[AnyEffect]) -> list[AnyEffect]:
        """All effects of a kind so far."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def sent(self) -> list[Mapping[str, Any]]:
        """Bodies of the requests."""
        return [send.request.body for send in self.of(Send)]

    @property
    def waits(self) -> list[float]:
        """Delays in seconds."""
        return [wait.delay_s for wait in self.of(Wait)]

    @property
    def events(self) -> list[Event]:
        """What the caller got, with what was taken back."""
        return _events(self.effects, self.attempt)

    @property
    def shown(self) -> dict[int, str]:
        """Text and input of each block that the caller has now."""
        return _shown(self.events)

    @property
    def text(self) -> str:
        """All visible text that the caller has now."""
        return "".join(self.shown.values())

    @property
    def path(self) -> list[str]:
        """The states entered, in order."""
        return [e.state for e in self.events if isinstance(e, StateChanged)]

    @property
    def finished(self) -> TurnFinished:
        """The last event."""
        last = self.events[-1]
        assert isinstance(last, TurnFinished)
        return last

    def records(self, name: str) -> list[Mapping[str, Any]]:
        """Fields of the records of this name."""
        return [record.fields for record in self.of(Record) if record.name == name]

    @property
    def record_names(self) -> list[str]:
        """All records, by name."""
        return [record.name for record in self.of(Record)]


def _events(effects: Sequence[Effect], attempt: int) -> list[Event]:
    events: list[Event] = []
    for effect in effects:
        if isinstance(effect, Emit):
            events.append(effect.event)
        elif isinstance(effect, Retract):
            events.append(Retracted(attempt, effect.index))
    return events


def _shown(events: Sequence[Event]) -> dict[int, str]:
    shown: dict[int, str] = {}
    for event in events:
        if isinstance(event, BlockStarted):
            shown[event.index] = ""
        elif isinstance(event, BlockDelta) and event.field in ("text", "input"):
            shown[event.index] += event.text
        elif isinstance(event, Retracted):
            del shown[event.index]
    return shown
