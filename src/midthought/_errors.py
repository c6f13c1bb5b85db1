"""Every exception of the package.

    MidthoughtError
     ├─ PolicyError             your file          (midthought.policies, a ValueError)
     ├─ InvalidPreparedCall     your call: used twice, or of another client
     ├─ InvalidRequest          your call: cannot be streamed
     ├─ ClosedClient            your call: the client was closed
     ├─ InvalidHeader           your configuration: a key or header that HTTP cannot carry
     ├─ MissingKey              your configuration: no API key
     └─ RecoveryExhausted       the budget is spent: attempts, last failure, the partial turn
    InvalidTransition           a defect           (midthought.statemachine, a RuntimeError)

A provider's fault is not an exception while streaming: ``stream()`` ends with ``TurnFinished``.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from midthought.policies import PolicyError
from midthought.statemachine import Attempt, Failure, InvalidTransition

if TYPE_CHECKING:
    from ._reply import Reply

__all__ = [
    "ClosedClient",
    "InvalidHeader",
    "InvalidPreparedCall",
    "InvalidRequest",
    "InvalidTransition",
    "MidthoughtError",
    "MissingKey",
    "PolicyError",
    "RecoveryExhausted",
]


class MidthoughtError(Exception):
    """Base of the errors below; ``code`` is stable, the message is for people."""

    code = "MIDTHOUGHT"


class InvalidPreparedCall(MidthoughtError):
    """A prepared call runs once, on the client that prepared it."""

    code = "INVALID_PREPARED_CALL"


class InvalidRequest(MidthoughtError, ValueError):
    """The request cannot be run as a stream."""

    code = "INVALID_REQUEST"


class ClosedClient(MidthoughtError, RuntimeError):
    """The client was closed."""

    code = "CLOSED_CLIENT"


class InvalidHeader(MidthoughtError, ValueError):
    """A header value, often the key, holds what HTTP cannot carry; the value is not shown."""

    code = "INVALID_HEADER"


class MissingKey(MidthoughtError):
    """The policy's provider wants a key and there is none."""

    code = "MISSING_KEY"


class RecoveryExhausted(MidthoughtError):
    """The turn ended without a whole reply: exhausted, or aborted by the caller."""

    code = "RECOVERY_EXHAUSTED"

    def __init__(self, message: str, turn: Reply, retry_at: datetime | None) -> None:
        super().__init__(message)
        self.turn = turn
        """The partial turn: blocks that were kept, valid history, usage."""
        self.attempts: list[Attempt] = turn.attempts
        self.failure: Failure | None = turn.failure
        """The last failure."""
        self.retry_at = retry_at
        """When a retry makes sense, where the provider said so."""
