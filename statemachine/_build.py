"""What the machine needs from a dialect: a protocol, so that the arrow points one way.

Dialects in ``providers/`` implement it; the machine never sees a provider's JSON except through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from midthought.policies import Policy

from ._blocks import Block
from ._effects import Request

__all__ = ["Builder", "Continue"]


class Continue(msgspec.Struct, frozen=True):
    """The order for a continuation request."""

    strategy: str
    """``prefill``, ``instruct``, ``resume`` or ``poll`` (the whole reply, asked for again)."""
    blocks: Sequence[Block]
    """Committed blocks; texts are what goes back (already trimmed)."""
    instruction: str | None = None
    """The user message of ``instruct``."""
    cap: int | None = None
    """New output cap; ``None``: leave the request's own."""
    handle: Mapping[str, Any] | None = None
    """Of the checkpoint that ``resume`` starts from."""
    sent_chars: int | None = None
    """Characters of text before that checkpoint; ``None``: all text in ``blocks``."""


class Builder(Protocol):
    """Request side of a dialect; pure functions of the request and the (model-resolved) policy."""

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body plus the policy's ``stream.merge``; all else untouched."""

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """Features of this request, by ``[[features]]`` rows and the dialect's grammar."""

    def model(self, request: Mapping[str, Any]) -> str:
        """Model name of the request, or an empty string."""

    def choices(self, request: Mapping[str, Any]) -> int:
        """How many replies the request asks for; more than one is never continued."""

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The request's own output cap in tokens."""

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The continuation of the caller's request by the given strategy."""

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """The provider's own resume of a reply, or (``poll``) the call for the whole of it.

        ``None`` where the dialect has none, or request 0 was not prepared for it.
        """

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """The call that stops a reply which goes on without its connection, or ``None``."""

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[dict[str, Any]]:
        """Messages that answer these tool calls as interrupted and not executed."""

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without this turn's reasoning blocks (after ``thinking_rejected``)."""

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[dict[str, Any]]:
        """Committed blocks as assistant message(s) for the caller's history; empty if nothing is
        kept."""

    def instruction(self, text: str, policy: Policy) -> dict[str, Any]:
        """The recovery's user message as it stands in the history."""
