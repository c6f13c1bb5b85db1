"""Facts of Bedrock's Converse API: stop reasons, usage, a whole reply as the events of a stream.

Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from midthought.policies import Stop
from midthought.statemachine import Usage

from ._json import Json, encode_json, step

__all__ = ["STOPS", "as_stream", "token_usage"]

#: Stop reasons where the policy's ``[stream]`` says nothing about them.
STOPS: Final[dict[str, Stop]] = {
    "end_turn": Stop.end,
    "stop_sequence": Stop.end,
    "tool_use": Stop.tool_use,
    "max_tokens": Stop.length,
    "model_context_window_exceeded": Stop.context_full,
    "guardrail_intervened": Stop.safety,
    "content_filtered": Stop.safety,
    "malformed_model_output": Stop.error,
    "malformed_tool_use": Stop.error,
}


def token_usage(counters: Any) -> Usage | None:
    """The counters of ``usage``; ``None`` if it holds none. Cached tokens are not in the input."""
    if not isinstance(counters, Mapping):
        return None
    usage = Usage(
        input=_count(counters, "inputTokens"),
        output=_count(counters, "outputTokens"),
        cache_read=_count(counters, "cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_write=_count(counters, "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
    )
    return None if usage == Usage() else usage


def _count(counters: Json, *names: str) -> int | None:
    """The first of these that is there: Nova over InvokeModel says some of them differently."""
    for name in names:
        value = counters.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def as_stream(content: list[Any], body: Json) -> list[tuple[str, Json]]:
    """The events a stream would have brought the same reply in."""
    events: list[tuple[str, Json]] = [("messageStart", {})]
    for index, block in enumerate(content):
        at = {"contentBlockIndex": index}
        if not isinstance(block, Mapping):
            continue
        deltas: list[Json] = [block]
        if use := step(block, "toolUse"):
            start = {key: value for key, value in use.items() if key != "input"}
            events.append(("contentBlockStart", {**at, "start": {"toolUse": start}}))
            deltas = [{"toolUse": {"input": encode_json(use.get("input") or {})}}]
        elif reasoning := step(step(block, "reasoningContent"), "reasoningText"):
            deltas = [{"reasoningContent": reasoning}]
        elif cited := step(block, "citationsContent"):
            deltas = [one for one in cited.get("content") or () if isinstance(one, Mapping)]
            deltas += [{"citation": one} for one in cited.get("citations") or ()]
        events += [("contentBlockDelta", {**at, "delta": delta}) for delta in deltas]
        events.append(("contentBlockStop", at))
    events.append(("messageStop", {"stopReason": body.get("stopReason")}))
    return [*events, ("metadata", {"usage": body.get("usage")})]
