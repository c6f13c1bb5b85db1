"""Effects: orders of the machine to its host. The host carries them out in the order given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ._events import Event

__all__ = [
    "Ask",
    "Close",
    "Done",
    "Effect",
    "Emit",
    "KeepAlive",
    "Record",
    "Request",
    "Retract",
    "Send",
    "StopUpstream",
    "Wait",
    "Withdraw",
]


class Request(msgspec.Struct, frozen=True):
    """One upstream request: the body as JSON data, and what differs from the policy's endpoint."""

    body: Mapping[str, Any]
    headers: Mapping[str, str] = {}
    base_url_suffix: str = ""
    method: str = "POST"
    """Only ``POST`` carries the body."""
    path: str | None = None
    """Path and query below the base URL, where it is not the dialect's own."""


class Effect(msgspec.Struct, frozen=True):
    """Base of all orders."""


class Send(Effect, frozen=True):
    """Open this request as attempt ``attempt``; the previous one has been closed."""

    attempt: int
    request: Request
    fresh: bool
    """Use a new connection: every request after attempt 0."""


class Close(Effect, frozen=True):
    """Close the response of this attempt now; its late events are not wanted."""

    attempt: int


class Wait(Effect, frozen=True):
    """Nothing to do before ``until`` (host's clock, seconds): the pause before a request."""

    until: float
    delay_s: float
    reason: str


class Emit(Effect, frozen=True):
    """Hand this event to the caller."""

    event: Event


class Retract(Effect, frozen=True):
    """Take back from the caller: block ``index``, from character ``keep`` on, or all of it."""

    index: int
    keep: int = 0


class KeepAlive(Effect, frozen=True):
    """Content is held back: show the caller a sign of life, where the dialect has one."""


class Ask(Effect, frozen=True):
    """Ask a host hook; answer with ``answered`` or ``refused``."""

    hook: str
    plan: int
    """Which plan asks; an answer for another plan is late and dropped."""
    question: Mapping[str, Any] = {}


class Withdraw(Effect, frozen=True):
    """The question of this plan is not wanted any more."""

    plan: int


class StopUpstream(Effect, frozen=True):
    """Send the provider's own stop call for this attempt: it goes on generating without it."""

    attempt: int
    request: Request


class Record(Effect, frozen=True):
    """Evidence: a fixed name and plain fields, never content."""

    name: str
    fields: Mapping[str, Any]


class Done(Effect, frozen=True):
    """The turn is over; no effect follows."""

    outcome: Literal["completed", "exhausted", "aborted"]
