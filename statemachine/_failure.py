"""The facts of what went wrong: one frozen record, never an exception object.

Adapters fill it in, rules ask about it. Imports nothing of the world.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from midthought.policies import FailureKind

__all__ = ["Connection", "Failure", "Phase"]

Phase = Literal["connect", "response", "stream"]
Connection = Literal["new", "reused", "unknown"]


class Failure(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Immutable facts of a failed attempt."""

    kind: FailureKind
    phase: Phase = "stream"
    message: str = ""
    """The provider's or the transport's words, at most 500 characters, credentials redacted."""
    provider: str = ""
    model: str = ""
    status: int | None = None
    code: str | None = None
    """The provider's own error code or type, or the class name of the transport's exception."""
    retry_after_s: float | None = None
    reset_at: str | None = None
    scope: str | None = None
    should_retry: bool | None = None
    processed: Literal["yes", "no", "unknown"] = "unknown"
    connection: Connection = "unknown"
    request_id: str | None = None
    elapsed_s: float | None = None
