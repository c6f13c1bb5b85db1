"""What Ollama refuses, or its templates do not continue; from its types and the facts.

Imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["ollama_faults"]

Json = Mapping[str, Any]
KEYS = {"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"}


def ollama_faults(request: Json) -> list[str]:
    """Why it would refuse this request, or answer it from the beginning."""
    return list(_faults(request))


def _faults(request: Json) -> Iterator[str]:
    messages = request["messages"]
    if request.get("stream") is False or not request.get("model"):
        yield "not a stream of a model"
    for number, message in enumerate(messages):
        where, role = f"messages.{number}", message["role"]
        if extra := set(message) - KEYS:
            yield f"{where}: extra keys {sorted(extra)}"
        if role not in ("user", "assistant", "system", "tool"):
            yield f"{where}: role {role!r}"
        if number and role == messages[number - 1]["role"] == "assistant":
            yield f"{where}: two assistant messages in a row"
        if not isinstance(message.get("content"), str):
            yield f"{where}: content must be text"
        if not message["content"].strip() and not message.get("tool_calls"):
            yield f"{where}: nothing is said"
        yield from _calls(messages, number, where)
    last = messages[-1]
    if last["role"] == "assistant":
        if last.get("tool_calls") or request.get("tools") or request.get("format"):
            yield "tools and formats do not go with a prefill"
        if last["content"] != last["content"].rstrip():
            yield "a prefill should not end with white space"


def _calls(messages: Any, number: int, where: str) -> Iterator[str]:
    calls = messages[number].get("tool_calls") or []
    for call in calls:
        if not isinstance(call["function"]["arguments"], Mapping):
            yield f"{where}: arguments must be an object"
    following = messages[number + 1 : number + 1 + len(calls)]
    if [m["role"] for m in following] != ["tool"] * len(calls):
        yield f"{where}: tool calls without their answers"
