"""What is known of one response, and the failures told with it.

Everything of a ``Failure`` that does not depend on what went wrong stands here once. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from midthought.policies import FailureKind, Policy
from midthought.statemachine import Failure

from ._classify import Connection, Phase, classify
from ._dialect import ErrorFacts
from ._http_errors import request_id
from ._redact import bounded

__all__ = ["Response"]


class Response(msgspec.Struct):
    """One attempt's answer as far as it has come; ``status`` is ``None`` before its headers."""

    policy: Policy
    model: str = ""
    phase: Phase = "connect"
    status: int | None = None
    headers: Mapping[str, str] = {}
    """Names in lower case."""
    content_type: str = ""
    """Without parameters, in lower case."""
    request_id: str | None = None
    connection: Connection = "unknown"
    elapsed_s: float | None = None
    """Since the request was sent."""
    wall_now: float | None = None
    """Seconds since the epoch, when the headers came."""

    @property
    def ok(self) -> bool:
        """The status is a success."""
        return self.status is not None and 200 <= self.status < 300

    def arrived(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Take the status line and the headers."""
        self.status = status
        self.headers = {name.lower(): value for name, value in headers}
        self.content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.request_id = request_id(self.headers)
        self.phase = "response"

    def failure(self, kind: FailureKind, message: str, code: str | None = None) -> Failure:
        """A failure whose kind is a fact of the reading itself."""
        return Failure(
            kind=kind,
            phase=self.phase,
            message=bounded(message),
            provider=self.policy.provider or self.policy.name,
            model=self.model,
            status=self.status,
            code=code,
            connection=self.connection,
            request_id=self.request_id,
            elapsed_s=self.elapsed_s,
        )

    def classified(
        self,
        facts: ErrorFacts | None = None,
        *,
        exc: BaseException | None = None,
        message: str | None = None,
        content_type: str | None = None,
        default: FailureKind = FailureKind.unknown,
    ) -> Failure:
        """The failure that the policy's rows make of the facts; ``message`` replaces their words.

        In a stream the response's status and hints say nothing: they were those of a success.
        """
        streaming = self.phase == "stream"
        date = {name: value for name, value in self.headers.items() if name == "date"}
        return classify(
            self.policy,
            phase=self.phase,
            status=None if streaming else self.status,
            facts=facts,
            exc=exc,
            content_type=content_type or self.content_type,
            headers=date if streaming else self.headers,
            message=message,
            connection=self.connection,
            elapsed_s=self.elapsed_s,
            request_id=self.request_id,
            model=self.model,
            wall_now=self.wall_now,
            default=default,
        )

    def stopped(self, reason: str) -> Failure:
        """The failure behind a stop reason that is one: as the policy says, else by its rows."""
        message = f"the provider ended the stream with reason {reason!r}"
        if (kind := self.policy.stream.failures.get(reason)) is not None:
            return self.failure(kind, message, code=bounded(reason))
        default = FailureKind.server_error
        return self.classified(ErrorFacts(codes=(reason,)), message=message, default=default)
