"""Requests of the Cohere dialect: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed. What an assistant message holds (provider facts,
section 2.18; types of the SDK, ``AssistantChatMessageV2``):

    content      text and thinking items; no blank text
    tool_calls   whole ones, arguments as JSON text
    tool_plan    the plan before them, and only there
    citations    left out: they count characters of a text that may have been cut

An assistant message at the end is taken and not continued, so there is no prefill. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midthought.policies import Policy
from midthought.statemachine import Block

from ._json import whole_object
from ._message_requests import Grammar, Json, MessageRequests
from ._request import NOT_EXECUTED, get_path, is_set

__all__ = ["CohereRequests"]


class CohereRequests(MessageRequests):
    """Request side of the dialect."""

    default_path = "/v2/chat"
    accept = "text/event-stream"
    grammar: ClassVar[Grammar] = {
        "structured_output": lambda request: (
            get_path(request, "response_format.type") == "json_object"
        ),
        "tools": lambda request: is_set(request.get("tools")),
    }

    def assistant(
        self, own: Mapping[str, Any] | None, blocks: Sequence[Block], policy: Policy
    ) -> Json | None:
        """The assistant message that these blocks make; ``None`` if nothing is left of them."""
        content = _items((own or {}).get("content"))
        keeps = policy.blocks.thinking.closed == "keep"
        plans, calls = [], []
        for block in blocks:
            if block.kind == "text" and block.text.strip():
                content.append({"type": "text", "text": block.text})
            elif block.kind == "tool_use" and (call := _call(block)) is not None:
                calls.append(call)
            elif block.kind == "thinking" and block.closed and keeps and block.text.strip():
                if block.data is not None:
                    plans.append(block.text)
                else:
                    content.append({"type": "thinking", "thinking": block.text})
        if not calls and all(item.get("type") == "thinking" for item in content):
            return None
        message: Json = {**(own or {}), "role": "assistant"}
        if content:
            message["content"] = _joined(content)
        if calls:
            message["tool_calls"] = calls
            if plans:
                message["tool_plan"] = "".join(plans)
        return message

    def strip_message(self, message: Mapping[str, Any]) -> Json | None:
        """An assistant message without its reasoning; ``None`` if nothing else was in it."""
        kept = {key: value for key, value in message.items() if key != "tool_plan"}
        if isinstance(content := kept.get("content"), list | tuple):
            kept["content"] = [item for item in content if item.get("type") != "thinking"]
            if not kept["content"]:
                del kept["content"]
        return kept if kept.get("content") or kept.get("tool_calls") else None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[Json]:
        """One tool message per call."""
        return [
            {"role": "tool", "tool_call_id": call.id or "", "content": NOT_EXECUTED}
            for call in calls
        ]


def _items(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [dict(item) for item in content or () if isinstance(item, Mapping)]


def _joined(content: list[Json]) -> list[Json]:
    """Text that follows text is one item: the model may have been cut inside a word."""
    whole: list[Json] = []
    for item in content:
        last = whole[-1] if whole else {}
        if item.get("type") == last.get("type") == "text":
            whole[-1] = {**last, "text": last["text"] + item["text"]}
        else:
            whole.append(item)
    return whole


def _call(block: Block) -> Json | None:
    """A whole call; input that the provider itself ended as invalid JSON goes back as it came."""
    whole = whole_object(block.text)
    if not block.closed and (whole is None or not block.text.strip()):
        return None
    function = {"name": block.name or "", "arguments": block.text.strip() or "{}"}
    return {"id": block.id or "", "type": "function", "function": function}
