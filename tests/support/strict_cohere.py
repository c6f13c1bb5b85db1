"""What Cohere's chat API refuses, or does not continue, as strictly as its own types say.

From the SDK's types (cohere 7.3.1) and the facts; imports nothing of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["cohere_faults"]

Json = Mapping[str, Any]
KEYS = {
    "user": {"role", "content"},
    "system": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "tool_plan", "citations"},
    "tool": {"role", "tool_call_id", "content"},
}


def cohere_faults(request: Json) -> list[str]:
    """Why it would refuse this request, or answer it from the beginning."""
    return list(_faults(request))


def _faults(request: Json) -> Iterator[str]:
    messages = request["messages"]
    if not request.get("stream") or not request.get("model"):
        yield "not a stream of a model"
    if messages[-1]["role"] not in ("user", "tool"):
        yield "an assistant message at the end is not continued"
    if isinstance(request.get("max_tokens"), int) and request["max_tokens"] < 1:
        yield "max_tokens must be 1 or more"
    for number, message in enumerate(messages):
        where, role = f"messages.{number}", message["role"]
        if extra := set(message) - KEYS[role]:
            yield f"{where}: extra keys {sorted(extra)}"
        if number and role == messages[number - 1]["role"] == "assistant":
            yield f"{where}: two assistant messages in a row"
        if role == "assistant":
            yield from _assistant(messages, number, where)
        elif not message["content"]:
            yield f"{where}: empty content"


def _assistant(messages: Any, number: int, where: str) -> Iterator[str]:
    message = messages[number]
    calls, content = message.get("tool_calls") or [], message.get("content") or []
    if not calls and not content:
        yield f"{where}: neither content nor tool calls"
    for item in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        kind = item["type"]
        if kind not in ("text", "thinking") or set(item) != {"type", kind}:
            yield f"{where}: a content item is text or thinking"
        elif not item[kind].strip():
            yield f"{where}: blank {kind}"
    if message.get("tool_plan") and not calls:
        yield f"{where}: a plan without its calls"
    answered = []
    for following in messages[number + 1 :]:
        if following["role"] != "tool":
            break
        answered.append(following["tool_call_id"])
    if sorted(call["id"] for call in calls) != sorted(answered):
        yield f"{where}: tool calls without their answers"
    for call in calls:
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            yield f"{where}: arguments must be one JSON object"
        if call["type"] != "function" or not call["function"]["name"]:
            yield f"{where}: a call needs type and name"
