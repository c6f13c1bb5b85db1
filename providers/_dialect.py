"""What a wire dialect is: one object that decodes its frames and builds its requests.

A dialect module states its grammar in a table at its top and implements these protocols; everything
that all dialects share (framing, classification, the single ``Finished``) is in ``_reader``.
Nothing here does IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Builder, Event

from ._sse import Frame, Framer, SSEFramer

__all__ = ["Decoder", "Dialect", "ErrorFacts", "ErrorSeen", "Malformed", "Signal", "Terminal"]


class ErrorFacts(msgspec.Struct, frozen=True):
    """An error as the provider stated it, in a body or in the stream, before classification."""

    message: str = ""
    codes: tuple[str, ...] = ()
    """Every code, type and status word of the error object, in its order."""
    status: int | None = None
    body: Any = None
    """The decoded JSON, for retry hints; never recorded."""


class Terminal(msgspec.Struct, frozen=True):
    """The end marker of the dialect arrived (``message_stop``, ``[DONE]``)."""


class ErrorSeen(msgspec.Struct, frozen=True):
    """The frame is an error of the provider; it wins over any end marker."""

    error: ErrorFacts


class Malformed(msgspec.Struct, frozen=True):
    """The frame cannot be read; ``reason`` says why by type and length, never by content."""

    reason: str


#: What a frame means besides its events; ``None`` for nearly all frames.
Signal = Terminal | ErrorSeen | Malformed | None


class Decoder(Protocol):
    """Reads the frames of one attempt. Stateful, pure, never raises for what upstream sent."""

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out`` (hot path: no allocation besides the events)."""

    def ended(self, out: list[Event]) -> None:
        """The attempt is over and complete: append what the grammar still owes (closed blocks)."""


class Dialect(Builder, Protocol):
    """A wire dialect: its decoder, its request side, and how it states errors."""

    name: str
    content_types: tuple[str, ...]
    """Content types of a stream in this dialect."""

    def framer(self, content_type: str, policy: Policy) -> Framer:
        """What cuts a stream of this content type into frames; server-sent events by default.

        ``content_type`` in lower case and without parameters; empty where the response has none.
        """
        return SSEFramer(policy.limits.event_bytes)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> Decoder:
        """A new decoder for one attempt; ``choices``: how many replies the request asked for."""

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that this decoded JSON body states, or ``None`` if it states none."""

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole reply that came as one JSON body instead of a stream, or ``None``."""

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL for this request."""

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request: the policy's, the key, ``accept`` and ``accept-encoding``."""
