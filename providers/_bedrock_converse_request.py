"""Requests of Bedrock's Converse API: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed. What an assistant message holds (provider facts,
section 2.5; botocore's model of the service, ``ContentBlock``):

    text              no blank text
    reasoningContent  with the signature as it came, first and never last; unsigned if the policy
                      keeps it
    toolUse           whole, input is an object; other input goes back as {"INVALID_JSON": text}
    toolResult        of the provider's own tools, after its use
    citations, media  left out

The model stands in the path, not in the body. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from midthought.policies import Policy
from midthought.statemachine import Block, Request

from . import _bedrock
from ._json import decode_json, whole_object
from ._message_requests import Grammar, Json, MessageRequests
from ._request import NOT_EXECUTED, ends_with_role, get_path, is_set

__all__ = ["ConverseRequests"]

REASONING = "reasoningContent"


def _calls_in_last(request: Mapping[str, Any]) -> bool:
    content = get_path(request, "messages.-1.content")
    own = ends_with_role(request.get("messages"), "assistant") and isinstance(content, list | tuple)
    return own and any(isinstance(one, Mapping) and "toolUse" in one for one in content)


class ConverseRequests(MessageRequests):
    """Request side of the dialect."""

    default_path = "/model/{model}/converse-stream"
    accept = _bedrock.EVENTS
    grammar: ClassVar[Grammar] = {
        "structured_output": lambda request: is_set(get_path(request, "outputConfig.textFormat")),
        "tool_calls_in_last": _calls_in_last,
        "tools": lambda request: is_set(get_path(request, "toolConfig.tools")),
    }

    def assistant(
        self, own: Mapping[str, Any] | None, blocks: Sequence[Block], policy: Policy
    ) -> Json | None:
        """The assistant message that these blocks make; ``None`` if nothing is left of them."""
        content = [dict(one) for one in (own or {}).get("content") or () if _is_said(one)]
        attempts = [-1] * len(content)
        for block in blocks:
            if (one := _converted(block, policy)) is None:
                continue
            last = content[-1] if content else {}
            if own is not None and set(one) == set(last) == {"text"} and attempts[-1] == -1:
                last["text"] += one["text"]  # the model went on inside the caller's own text
                continue
            content.append(one)
            attempts.append(block.attempt)
        content = _thinking_first(content, attempts)
        return {**(own or {}), "role": "assistant", "content": content} if content else None

    def speaks(self, text: str) -> Any:
        """The content of a message that says this text."""
        return [{"text": text}]

    def strip_message(self, message: Mapping[str, Any]) -> Json | None:
        """An assistant message without its reasoning; ``None`` if nothing else was in it."""
        kept = [one for one in message.get("content") or () if REASONING not in one]
        return {**message, "content": kept} if kept else None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[Json]:
        """One user message with an error result per call."""
        results = [
            {
                "toolResult": {
                    "toolUseId": call.id or "",
                    "content": [{"text": NOT_EXECUTED}],
                    "status": "error",
                }
            }
            for call in calls
        ]
        return [{"role": "user", "content": results}]

    def model(self, request: Mapping[str, Any]) -> str:
        """Model or inference profile of the request, or an empty string."""
        return _bedrock.model_of(request)

    def sent(self, body: Json, suffix: str, policy: Policy) -> Request:
        """The request with this body, its model in the path."""
        return _bedrock.with_model(body, policy.path or self.default_path, suffix, ("stream",))

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL, of a request that still names its model."""
        return self.sent(dict(request), "", policy).path or ""

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; raises where no client could work (see ``_bedrock``)."""
        _bedrock.ready(api_key)
        return super().headers(policy, api_key)


def _is_said(one: Any) -> bool:
    return isinstance(one, Mapping) and not (set(one) == {"text"} and not one["text"])


def _thinking_first(content: list[Json], attempts: list[int]) -> list[Json]:
    """Reasoning leads the message, and all of it is of one attempt; it is never the end of it."""
    leads = bool(content) and REASONING in content[0]
    kept = [
        one
        for one, attempt in zip(content, attempts, strict=True)
        if REASONING not in one or (leads and attempt == attempts[0])
    ]
    while kept and REASONING in kept[-1]:
        kept.pop()
    return kept


def _converted(block: Block, policy: Policy) -> Json | None:
    """One block as content; ``None`` where it may not stand in a history."""
    match block.kind:
        case "text":
            return {"text": block.text} if block.text.strip() else None
        case "thinking":
            return _thinking(block, policy)
        case "redacted_thinking":
            return dict(block.data) if block.closed and block.data and not block.extra else None
        case "tool_use":
            return _tool_use(block, {})
        case "server_tool" if block.closed and block.data:
            if "toolResult" in block.data:
                return _tool_result(block)
            return _tool_use(block, block.data["toolUse"])
    return None


def _thinking(block: Block, policy: Policy) -> Json | None:
    rule = policy.blocks.thinking.closed
    if not block.closed or rule == "discard" or (rule == "keep_if_signed" and not block.signature):
        return None
    signature = {"signature": block.signature} if block.signature else {}
    return {REASONING: {"reasoningText": {"text": block.text, **signature}}}


def _tool_use(block: Block, data: Mapping[str, Any]) -> Json | None:
    value = whole_object(block.text)
    if value is None:
        if not block.closed:
            return None
        value = {"INVALID_JSON": block.text}
    given = {**(block.data or {}).get("toolUse", {}), **data}
    return {"toolUse": {**given, "toolUseId": block.id, "name": block.name, "input": value}}


def _tool_result(block: Block) -> Json:
    """The start of the result, and what its deltas brought: lists of content."""
    content: list[Any] = []
    for text in block.extra:
        piece = decode_json(text.encode()).get("toolResult")
        content += piece if isinstance(piece, list) else [piece]
    return {"toolResult": {**(block.data or {})["toolResult"], "content": content}}
