"""Facts of Cohere's chat API: stop reasons, usage, a whole reply as the events of a stream.

Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from midthought.policies import Stop
from midthought.statemachine import Usage

from ._json import Json, step

__all__ = ["STOPS", "as_stream", "token_usage"]

#: Stop reasons where the policy's ``[stream]`` says nothing about them.
STOPS: Final[dict[str, Stop]] = {
    "COMPLETE": Stop.end,
    "STOP_SEQUENCE": Stop.end,
    "MAX_TOKENS": Stop.length,
    "TOOL_CALL": Stop.tool_use,
    "ERROR": Stop.error,
    "TIMEOUT": Stop.error,
}


def token_usage(counters: Any) -> Usage | None:
    """The counters of ``usage``; ``None`` if it holds none. Cached tokens are part of the input."""
    if not isinstance(counters, Mapping):
        return None
    tokens = step(counters, "tokens") or step(counters, "billed_units")
    usage = Usage(
        input=_count(tokens.get("input_tokens")),
        output=_count(tokens.get("output_tokens")),
        cache_read=_count(counters.get("cached_tokens")),
        reasoning=_count(tokens.get("reasoning_tokens")),
    )
    return None if usage == Usage() else usage


def _count(value: Any) -> int | None:
    """Numbers may come as floats: the SDK's types say so."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        return None
    return int(value)


def as_stream(reply: Json) -> list[Json]:
    """The events a stream would have brought the same reply in."""
    message = reply["message"]
    events: list[Json] = [{"type": "message-start", "id": reply.get("id")}]
    if plan := message.get("tool_plan"):
        events.append({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": plan}}})
    for kind, key in (("content", "content"), ("tool-call", "tool_calls")):
        pieces = message.get(key)
        for index, piece in enumerate(pieces if isinstance(pieces, list) else ()):
            below = {"message": {key: piece}}
            events.append({"type": f"{kind}-start", "index": index, "delta": below})
            if kind == "content":
                continue
            events.append({"type": f"{kind}-end", "index": index})
    for citation in message.get("citations") or ():
        events.append({"type": "citation-start", "delta": {"message": {"citations": citation}}})
    delta = {"finish_reason": reply.get("finish_reason"), "usage": reply.get("usage")}
    return [*events, {"type": "message-end", "delta": delta}]
