"""Normalised stream events: facts from upstream, in the past tense.

Dialects make them, the machine eats them, hosts get them back in the caller's view (block indexes
of the turn instead of the attempt). Structs, because one is made per delta. Imports no IO.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from midthought.policies import Stop

from ._failure import Failure

__all__ = [
    "Answered",
    "BlockClosed",
    "BlockDelta",
    "BlockKind",
    "BlockStarted",
    "Cancelled",
    "Checkpoint",
    "ClockJumped",
    "DeltaField",
    "Event",
    "Finished",
    "Heartbeat",
    "HostEvent",
    "Opened",
    "Refused",
    "Responded",
    "Retracted",
    "StateChanged",
    "StopKnown",
    "TimePassed",
    "TurnFinished",
    "Unknown",
    "Usage",
    "UsageReported",
    "Yielded",
]

BlockKind = Literal[
    "text", "thinking", "redacted_thinking", "tool_use", "server_tool", "refusal", "media", "other"
]
#: What a delta adds to: visible text (of text, refusal and thinking blocks), tool input JSON,
#: a thinking signature, a citation, or something only the same provider understands.
DeltaField = Literal["text", "input", "signature", "citation", "other"]


class Event(msgspec.Struct, frozen=True, gc=False):
    """Every event names the attempt it belongs to: 0 is the original request."""

    attempt: int


class Responded(Event, frozen=True, gc=False):
    """Response headers of a stream arrived; nothing of the reply yet."""

    request_id: str | None = None


class Opened(Event, frozen=True, gc=False):
    """The first event of an attempt."""

    id: str | None = None
    model: str | None = None


class BlockStarted(Event, frozen=True):
    """A content block begins; ``index`` is the dialect's number within the attempt."""

    index: int
    kind: BlockKind
    id: str | None = None
    """Of a tool call; pairs a server tool's use and result."""
    name: str | None = None
    data: dict[str, Any] | None = None
    """The provider's own block, for blocks that must go back verbatim."""
    parent: str | None = None
    """Id of the block that this one may not be without: the server tool that called it, say."""
    free_input: bool = False
    """A tool call whose input is free text, not JSON: whole as soon as it is closed."""


class BlockDelta(Event, frozen=True, gc=False):
    """More of a block."""

    index: int
    text: str
    field: DeltaField = "text"


class BlockClosed(Event, frozen=True):
    """The block is whole, said by the provider or implied by its grammar."""

    index: int
    data: dict[str, Any] | None = None
    """Set where the provider repeats the whole block at its end."""


class Checkpoint(Event, frozen=True):
    """From here on the provider can send the reply again: what its resume call needs for that."""

    handle: dict[str, Any]
    of_request: bool = False
    """Only good together with the very request of its attempt."""


class StopKnown(Event, frozen=True):
    """The stop fact: why the model stopped. From here on the reply is complete."""

    stop: Stop
    reason: str
    """The provider's own word."""
    details: dict[str, Any] | None = None


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Token counters of one attempt, cumulative; ``None`` where not reported."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class UsageReported(Event, frozen=True, gc=False):
    """Counters as of now; within an attempt the last value of each wins."""

    usage: Usage


class Heartbeat(Event, frozen=True, gc=False):
    """A sign of life without content: ping, comment, empty chunk."""


class Unknown(Event, frozen=True):
    """Something the dialect does not know, passed on as it came."""

    type: str
    raw: bytes


class Finished(Event, frozen=True):
    """The one way an attempt ends: by a stop of the model, or by a failure (``stop = error``)."""

    stop: Stop
    failure: Failure | None = None


class StateChanged(Event, frozen=True):
    """The machine moved; made by the machine, for callers that want to show what goes on."""

    source: str
    trigger: str
    state: str
    detail: dict[str, Any]
    """Plain facts: ``error_kind``, ``rule``, ``delay_s``, ``uses_left``, ``strategy``."""


class Retracted(Event, frozen=True):
    """Shown content is taken back: the whole block ``index`` is void."""

    index: int


class HostEvent(msgspec.Struct, frozen=True):
    """A fact from the host; belongs to the turn, not to an attempt."""


class TimePassed(HostEvent, frozen=True):
    """Nothing happened, but ``now`` has moved on; fed when ``next_deadline()`` is reached."""


class Cancelled(HostEvent, frozen=True):
    """The turn is not wanted any more."""

    cause: Literal["caller", "disconnect", "shutdown", "defect"] = "caller"


class Yielded(HostEvent, frozen=True):
    """The caller takes over with what there is."""


class ClockJumped(HostEvent, frozen=True):
    """The wall clock moved by so many seconds more than the host's: the machine was asleep."""

    seconds: float


class Answered(HostEvent, frozen=True):
    """A hook answered: the caller's request as it shall be from now on."""

    plan: int
    request: dict[str, Any]


class Refused(HostEvent, frozen=True):
    """A hook has no answer."""

    plan: int
    reason: str = ""


class TurnFinished(Event, frozen=True):
    """The last event of a turn, made by the machine."""

    outcome: Literal["completed", "exhausted", "aborted"]
    stop: Stop
    failure: Failure | None
    reason: str
    """Why, in one word or short phrase."""
    incomplete: bool = False
    """The model was cut by a cap or window, or the partial was accepted as it is."""
    retry_at_s: float | None = None
    """Seconds from now until a retry makes sense, where the provider said so."""
