"""Facts in Gemini's answers besides content: token counters, stop words, errors. Imports no IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Stop
from midthought.statemachine import Usage

from ._dialect import ErrorFacts
from ._http_errors import error_facts as read_error

__all__ = ["CUTTING", "STOPS", "Counters", "error_facts", "usage_of", "word"]

#: Stop words where the policy's ``[stream]`` says nothing about them; any other is an end.
STOPS: Final[dict[str, Stop]] = {
    "STOP": Stop.end,
    "MAX_TOKENS": Stop.length,
    "CONTINUATION": Stop.pause,
    "SAFETY": Stop.safety,
    "RECITATION": Stop.safety,
    "BLOCKLIST": Stop.safety,
    "PROHIBITED_CONTENT": Stop.safety,
    "SPII": Stop.safety,
}
#: Stops that may come inside of a function call.
CUTTING: Final = frozenset({Stop.length, Stop.context_full, Stop.safety, Stop.pause})
#: The unset value of the enumeration, by name and by number, is no reason.
_NO_REASON: Final = frozenset({"", "0", "FINISH_REASON_UNSPECIFIED"})
#: Quotas named in an error; more of them say nothing new.
_MOST_QUOTAS: Final = 8


class Counters(msgspec.Struct, gc=False):
    """``usageMetadata``, as far as it is read: a running total within one request."""

    promptTokenCount: int | None = None
    candidatesTokenCount: int | None = None
    thoughtsTokenCount: int | None = None
    cachedContentTokenCount: int | None = None
    toolUsePromptTokenCount: int | None = None


def usage_of(counters: Counters) -> Usage | None:
    """The counters in common words; ``None`` if there are none.

    ``input`` includes what was read from a cache and what the provider's own tools put into the
    prompt; ``output`` includes thoughts, which the output cap includes too.
    """
    prompt, candidates = counters.promptTokenCount, counters.candidatesTokenCount
    thoughts, tools = counters.thoughtsTokenCount, counters.toolUsePromptTokenCount
    cached = counters.cachedContentTokenCount
    if prompt is candidates is thoughts is tools is cached is None:
        return None
    return Usage(
        prompt if tools is None else (prompt or 0) + tools,
        candidates if thoughts is None else (candidates or 0) + thoughts,
        cached,
        None,
        thoughts,
    )


def word(reason: Any) -> str:
    """A reason as its word, or as the digits of its number; empty if it is none.

    Some servers give enumerations as numbers, and two APIs number them differently: what a number
    means is the policy's.
    """
    if isinstance(reason, int) and not isinstance(reason, bool):
        reason = str(reason)
    return reason.upper() if isinstance(reason, str) and reason.upper() not in _NO_REASON else ""


def error_facts(body: Any, status: int | None) -> ErrorFacts | None:
    """The error that a body states, with the quotas it names in its message.

    Whether it was a limit of a minute or of a day stands in their names alone. The numeric status
    among the codes is left out, since it stands in ``status``.
    """
    facts = read_error(body, status)
    if facts is None:
        return None
    codes = tuple(code for code in facts.codes if not code.isdigit())
    names = list(dict.fromkeys(_quotas(facts.body)))[:_MOST_QUOTAS]
    message = f"{facts.message} [{', '.join(names)}]".strip() if names else facts.message
    return msgspec.structs.replace(facts, message=message, codes=codes)


def _quotas(body: Any) -> Iterator[str]:
    """Names of quotas in ``error.details``: of a ``QuotaFailure`` and of an ``ErrorInfo``."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in _tables(details):
        for violation in _tables(detail.get("violations")):
            yield from _words(violation, "quotaId")
        for metadata in _tables([detail.get("metadata")]):
            yield from _words(metadata, "quota_limit", "quota_unit")


def _tables(values: Any) -> Iterator[Mapping[str, Any]]:
    return (
        (one for one in values if isinstance(one, Mapping))
        if isinstance(values, list)
        else iter(())
    )


def _words(table: Mapping[str, Any], *keys: str) -> Iterator[str]:
    for key in keys:
        value = table.get(key)
        if isinstance(value, str) and 0 < len(value) <= 100:
            yield value
