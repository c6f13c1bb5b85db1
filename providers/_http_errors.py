"""Errors as providers state them in JSON, read into ``ErrorFacts``; one reader for all dialects.

The shapes differ by server and gateway, not by dialect: an OpenAI-compatible server may answer with
FastAPI's ``detail``, an Anthropic relay with OpenAI's ``code``. What a code means is the policy's.
Imports no IO.

Read, most specific code first:

    {"error": {"message", "type", "code", "status", "details": {"error_code"} | [{"reason"}],
               "metadata": {"raw", "error_type"}, "innererror": {"code"}}}
    {"error": "text"}   {"type": "error", ...}   {"object": "error", "message", "type", "code"}
    {"code", "message"}   {"detail": "text" | [{"msg"}] | {...}}   {"message"}   [ {...} ]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ._dialect import ErrorFacts

__all__ = ["error_facts", "header_code", "request_id", "reset_at", "should_retry"]

_CODES: Final = ("error_code", "code", "error_type", "type", "status", "reason", "__type")
_STATUSES: Final = ("status_code", "http_status_code", "http_code", "status", "code")
_TEXTS: Final = ("message", "msg", "detail", "error", "error_message", "title")
#: Tables inside an error that say more about it.
_INNER: Final = ("details", "metadata", "innererror", "inner_error", "errors")
#: ``type`` words that only say that this is an error.
_NOT_A_CODE: Final = frozenset({"error", "none", "null", ""})

_REQUEST_IDS: Final = ("request-id", "x-request-id", "apim-request-id", "x-amzn-requestid")


def error_facts(body: Any, status: int | None = None) -> ErrorFacts | None:
    """The error that a decoded JSON body states, or ``None`` if it states none.

    ``status`` is that of the response. From 400 on any text or code of the body is the error;
    below, and in a stream, only a body that says itself that it is one.
    """
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, Mapping):
        if status is None or status < 400:
            return None
        return ErrorFacts(message=body if isinstance(body, str) else "", body=body)
    if not (_states_error(body) or (status is not None and status >= 400)):
        return None
    inner = body.get("error")
    layers = [inner, body] if isinstance(inner, Mapping) else [body]
    return ErrorFacts(
        message=_message(layers),
        codes=tuple(dict.fromkeys(_codes(layers))),
        status=next(_statuses(layers), None),
        body=body,
    )


def _states_error(body: Mapping[str, Any]) -> bool:
    if body.get("error") or "error" in (body.get("type"), body.get("object")):
        return True
    return "message" in body and "code" in body and "choices" not in body


def _message(layers: list[Mapping[str, Any]]) -> str:
    text = next((found for layer in layers for found in _texts(layer)), "")
    for layer in layers:
        metadata = layer.get("metadata")
        # OpenRouter: "Provider returned error", and the upstream's own words beside it.
        if isinstance(metadata, Mapping) and isinstance(raw := metadata.get("raw"), str):
            return f"{text}: {raw}" if text else raw
    return text


def _texts(layer: Mapping[str, Any]) -> Iterator[str]:
    for key in _TEXTS:
        value = layer.get(key)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, Mapping):
            yield from _texts(value)
        elif isinstance(value, str) and value:
            yield value


def _codes(layers: list[Mapping[str, Any]]) -> Iterator[str]:
    """Codes of the tables below first: they say which kind of the outer word it is."""
    for layer in layers:
        for key in _INNER:
            below = layer.get(key)
            tables = below if isinstance(below, list) else [below]
            yield from _codes([table for table in tables if isinstance(table, Mapping)])
        for key in _CODES:
            value = layer.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            if isinstance(value, str) and len(value) <= 100 and value.lower() not in _NOT_A_CODE:
                yield value


def _statuses(layers: list[Mapping[str, Any]]) -> Iterator[int]:
    for layer in layers:
        for key in _STATUSES:
            value = layer.get(key)
            if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
                value = int(value)
            if isinstance(value, int) and not isinstance(value, bool) and 400 <= value <= 599:
                yield value


def request_id(headers: Mapping[str, str], body: Any = None) -> str | None:
    """The provider's id of the request, from lower-case headers or the body."""
    for name in _REQUEST_IDS:
        if value := headers.get(name):
            return value[:200]
    value = body.get("request_id") if isinstance(body, Mapping) else None
    return value[:200] if isinstance(value, str) and value else None


def header_code(headers: Mapping[str, str]) -> str | None:
    """The error's name where it stands in a header: AWS says ``x-amzn-errortype: Name:address``."""
    name = headers.get("x-amzn-errortype", "").partition(":")[0].rpartition("#")[2].strip()
    return name[:100] or None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What the server says about sending this request again (``x-should-retry``)."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def reset_at(headers: Mapping[str, str], body: Any = None) -> str | None:
    """When the limit that was hit is reset, as the provider wrote it.

    From the error body, else the latest reset header of a limit whose remainder is 0.
    """
    error = body.get("error") if isinstance(body, Mapping) else None
    for table in (error, body):
        if isinstance(table, Mapping):
            for key in ("resets_at", "reset_at"):
                value = table.get(key)
                if isinstance(value, str | int | float) and not isinstance(value, bool):
                    return str(value)[:40]
    resets = [
        headers.get(name.replace("remaining", "reset"), "")
        for name, value in headers.items()
        if "ratelimit" in name and "remaining" in name and value.strip() == "0"
    ]
    return max(resets, default="")[:40] or None
