"""Requests of Ollama's own chat API: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed. What an assistant message holds (provider facts,
section 2.22; types of the SDK, ``Message``):

    content      one string
    thinking     reasoning, where the policy keeps it and names the field
    tool_calls   whole ones, arguments as an object; results name the tool, ids are optional

An assistant message at the end is continued by the model's template. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midthought.policies import Policy
from midthought.statemachine import Block

from ._json import whole_object
from ._message_requests import Grammar, Json, MessageRequests
from ._request import NOT_EXECUTED, ends_with_role, get_path, is_set

__all__ = ["OllamaRequests"]


def _calls_in_last(request: Mapping[str, Any]) -> bool:
    own = ends_with_role(request.get("messages"), "assistant")
    return own and is_set(get_path(request, "messages.-1.tool_calls"))


class OllamaRequests(MessageRequests):
    """Request side of the dialect."""

    default_path = "/api/chat"
    accept = "application/x-ndjson"
    grammar: ClassVar[Grammar] = {
        "structured_output": lambda request: is_set(request.get("format")),
        "tool_calls_in_last": _calls_in_last,
        "tools": lambda request: is_set(request.get("tools")),
    }

    def assistant(
        self, own: Mapping[str, Any] | None, blocks: Sequence[Block], policy: Policy
    ) -> Json | None:
        """The assistant message that these blocks make; ``None`` if nothing is left of them."""
        text = "".join(block.text for block in blocks if block.kind == "text")
        before = (own or {}).get("content")
        content = (before if isinstance(before, str) else "") + (text if text.strip() else "")
        calls = [call for block in blocks if (call := _call(block)) is not None]
        if not content.strip() and not calls:
            return None
        message: Json = {**(own or {}), "role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = calls
        rule = policy.blocks.thinking
        if rule.closed == "keep" and rule.history_field:
            kept = (b.text for b in blocks if b.kind == "thinking" and b.closed)
            if thought := "".join(kept):
                message[rule.history_field] = thought
        return message

    def strip_message(self, message: Mapping[str, Any]) -> Json | None:
        """An assistant message without its reasoning; ``None`` if nothing else was in it."""
        kept = {key: value for key, value in message.items() if key != "thinking"}
        return kept if kept.get("content") or kept.get("tool_calls") else None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[Json]:
        """One tool message per call."""
        return [
            {
                "role": "tool",
                "tool_name": call.name or "",
                "content": NOT_EXECUTED,
                **({"tool_call_id": call.id} if call.id else {}),
            }
            for call in calls
        ]


def _call(block: Block) -> Json | None:
    """A whole call; there is no form for input that is no object."""
    if block.kind != "tool_use" or (arguments := whole_object(block.text)) is None:
        return None
    if not block.closed and not block.text.strip():
        return None
    function = {"name": block.name or "", "arguments": arguments}
    return {"function": function, **({"id": block.id} if block.id else {})}
