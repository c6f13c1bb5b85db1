"""Facts of a failed attempt to a ``Failure``: the policy's first ``[[classify]]`` row that holds.

Nothing is decided here that a row could say: which status, code, words or exception mean what
is data. The words of the failure are bounded and redacted. Imports no HTTP library (exceptions are
known by the names of their classes) and no IO.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final, Literal, Protocol

import msgspec

from midthought.policies import FailureKind, Policy
from midthought.statemachine import Failure

from ._dialect import ErrorFacts
from ._http_errors import header_code, reset_at, should_retry
from ._http_errors import request_id as id_of
from ._redact import SEARCH_CHARS, bounded
from ._retry_after import retry_after_s

__all__ = ["Connection", "Phase", "classify", "exception_names", "h2_code"]

Connection = Literal["new", "reused", "unknown"]
Phase = Literal["connect", "response", "stream"]

#: RFC 9113, section 7.
_H2_CODES: Final = (
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
)
_H2_IN_TEXT: Final = re.compile(r"error_code[:=]\s*(?:ErrorCodes\.)?<?(\w{1,30})")


class ClassifyRow(Protocol):
    """What is read of a policy's ``[[classify]]`` row; what is not given asks nothing."""

    @property
    def kind(self) -> FailureKind: ...
    @property
    def status(self) -> tuple[int, ...]: ...
    @property
    def code(self) -> tuple[str, ...]: ...
    @property
    def message(self) -> str | None: ...
    @property
    def exception(self) -> tuple[str, ...]: ...
    @property
    def h2_code(self) -> tuple[str, ...]: ...
    @property
    def content_type(self) -> tuple[str, ...]: ...
    @property
    def phase(self) -> tuple[Phase, ...]: ...
    @property
    def scope(self) -> str | None: ...
    @property
    def processed(self) -> Literal["yes", "no", "unknown"] | None: ...


class _Row(msgspec.Struct, frozen=True):
    """A compiled row; an empty set asks nothing."""

    row: ClassifyRow
    status: frozenset[int]
    codes: frozenset[str]
    message: re.Pattern[str] | None
    exceptions: frozenset[str]
    h2_codes: frozenset[str]
    content_types: tuple[str, ...]


class _Facts(msgspec.Struct, frozen=True):
    phase: Phase
    status: frozenset[int]
    codes: frozenset[str]
    text: str
    exceptions: frozenset[str]
    h2_codes: frozenset[str]
    content_type: str


def classify(
    policy: Policy,
    *,
    phase: Phase,
    status: int | None = None,
    facts: ErrorFacts | None = None,
    exc: BaseException | None = None,
    content_type: str | None = None,
    headers: Mapping[str, str] | None = None,
    message: str | None = None,
    connection: Connection = "unknown",
    elapsed_s: float | None = None,
    request_id: str | None = None,
    model: str = "",
    wall_now: float | None = None,
    default: FailureKind = FailureKind.unknown,
) -> Failure:
    """The failure that these facts mean by the policy, or of kind ``default`` if no row holds.

    ``headers`` in lower case. ``message`` is said instead of the provider's words where those are
    no words (a page of HTML). ``elapsed_s`` seconds since the request was sent, ``wall_now``
    seconds since the epoch. The exception is read, never kept.
    """
    headers = headers or {}
    text = facts.message if facts is not None else _exception_text(exc)
    named = header_code(headers)
    codes = (*((named,) if named else ()), *(facts.codes if facts is not None else ()))
    stated = facts.status if facts is not None else None
    code = h2_code(exc) if exc is not None else None
    row = _first_row(
        policy,
        _Facts(
            phase=phase,
            status=frozenset(value for value in (status, stated) if value is not None),
            codes=frozenset(value.lower() for value in codes),
            text=text[:SEARCH_CHARS],
            exceptions=frozenset(exception_names(exc)),
            h2_codes=frozenset((code,) if code else ()),
            content_type=(content_type or "").lower(),
        ),
    )
    body = facts.body if facts is not None else None
    return Failure(
        kind=row.kind if row is not None else default,
        phase=phase,
        message=bounded(text if message is None else message),
        provider=policy.provider or policy.name,
        model=model,
        status=status if status is not None and status >= 400 else stated or status,
        code=bounded(codes[0]) if codes else code or (type(exc).__name__ if exc else None),
        retry_after_s=retry_after_s(policy.retry_hints, headers, body, text, wall_now=wall_now),
        reset_at=reset_at(headers, body),
        scope=row.scope if row is not None else None,
        should_retry=should_retry(headers),
        processed=(row.processed if row is not None else None) or "unknown",
        connection=connection,
        request_id=request_id or id_of(headers, body),
        elapsed_s=elapsed_s,
    )


def _first_row(policy: Policy, facts: _Facts) -> ClassifyRow | None:
    return next((row.row for row in _compiled(policy.classify) if _holds(row, facts)), None)


def _holds(row: _Row, facts: _Facts) -> bool:
    """Every fact that the row asks for is there; a list means any of these."""
    return (
        (not row.status or not row.status.isdisjoint(facts.status))
        and (not row.codes or not row.codes.isdisjoint(facts.codes))
        and (not row.exceptions or not row.exceptions.isdisjoint(facts.exceptions))
        and (not row.h2_codes or not row.h2_codes.isdisjoint(facts.h2_codes))
        and (not row.row.phase or facts.phase in row.row.phase)
        and (not row.content_types or facts.content_type.startswith(row.content_types))
        and (row.message is None or row.message.search(facts.text) is not None)
    )


@lru_cache(maxsize=64)
def _compiled(rows: tuple[ClassifyRow, ...]) -> tuple[_Row, ...]:
    """Compiled once per set of rows: policies resolved for different models share it."""
    return tuple(
        _Row(
            row=row,
            status=frozenset(row.status),
            codes=frozenset(code.lower() for code in row.code),
            message=re.compile(row.message, re.IGNORECASE) if row.message else None,
            exceptions=frozenset(row.exception),
            h2_codes=frozenset(code.upper() for code in row.h2_code),
            content_types=tuple(prefix.lower() for prefix in row.content_type),
        )
        for row in rows
    )


def _chain(exc: BaseException | None) -> Iterator[BaseException]:
    """The exception and what caused it; HTTP libraries wrap each other's."""
    for _ in range(10):
        if exc is None:
            return
        yield exc
        exc = exc.__cause__


def exception_names(exc: BaseException | None) -> Iterator[str]:
    """Every name a row may call this exception by: ``ReadError``, ``httpx.ReadError``."""
    for link in _chain(exc):
        for cls in type(link).__mro__:
            yield cls.__name__
            yield f"{cls.__module__.partition('.')[0]}.{cls.__name__}"
            yield f"{cls.__module__}.{cls.__name__}"


def h2_code(exc: BaseException) -> str | None:
    """The HTTP/2 error code behind an exception, by its name in RFC 9113."""
    for link in _chain(exc):
        for source in (link, *link.args):
            number = getattr(source, "error_code", None)
            if isinstance(number, int) and 0 <= number < len(_H2_CODES):
                return _H2_CODES[number]
        if (found := _H2_IN_TEXT.search(str(link)[:SEARCH_CHARS])) is not None:
            word = found[1]
            if word.isdigit():
                return _H2_CODES[int(word)] if int(word) < len(_H2_CODES) else None
            return word.upper() if word.upper() in _H2_CODES else None
    return None


def _exception_text(exc: BaseException | None) -> str:
    """The first words in the chain; some transports raise without any: then the class says it."""
    unnamed = type(exc).__name__ if exc is not None else ""
    return next((text for link in _chain(exc) if (text := str(link))), unnamed)
