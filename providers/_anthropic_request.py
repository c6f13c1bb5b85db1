"""Requests of the Anthropic Messages dialect: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed, blocks of the provider go back verbatim or not at all.
What the API asks of an assistant message (provider facts, section 2.1):

    no empty or blank text block          blank text is left out
    thinking first, and never last        left out where the message starts otherwise
    thinking only with its signature      unless the policy keeps it unsigned
    tool input is an object               input that is not JSON goes back as {"INVALID_JSON": text}
    the last text without trailing space  the machine trims: it must match what comes against it

Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from midthought.policies import Policy
from midthought.statemachine import Block, Continue, Request

from ._json import decode_json, whole_object
from ._request import (
    NOT_EXECUTED,
    append_messages,
    assemble,
    base_request,
    ends_with_role,
    features_of,
    get_path,
    merge,
    model_of,
    own_cap,
    without_path,
)

__all__ = ["AnthropicRequests", "assistant_content"]

Json = dict[str, Any]

DEFAULT_PATH: Final = "/v1/messages"
THINKING: Final = frozenset({"thinking", "redacted_thinking"})
#: Blocks of kind ``other`` that a request may hold. A ``fallback`` seam and kinds we do not know
#: are shown to the caller but kept out of the history.
OTHER_IN_HISTORY: Final = frozenset({"compaction", "container_upload"})
#: A citation as it comes may hold more than it may hold when it goes back.
_ONLY_IN_REPLIES: Final = frozenset({"file_id"})


class AnthropicRequests:
    """Request side of the dialect."""

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body plus ``[stream] merge``."""
        return Request(base_request(request, policy))

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """Features by the policy's rows, and ``tool_calls_in_last`` by the grammar."""
        found = features_of(request, policy)
        last = get_path(request, "messages.-1.content")
        if ends_with_role(request.get("messages"), "assistant") and _has(last, "tool_use"):
            found |= {"tool_calls_in_last"}
        return found

    def model(self, request: Mapping[str, Any]) -> str:
        """Model name of the request, or an empty string."""
        return model_of(request)

    def choices(self, request: Mapping[str, Any]) -> int:
        """The Messages API answers once."""
        return 1

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The request's own output cap in tokens."""
        return own_cap(request, policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``prefill`` or ``instruct``.

        A request that itself ends with an assistant message (the caller's own prefill) goes on in
        that message. ``ValueError`` if no block of the order may be sent back and the policy has
        no bridge text: the machine must not order that.
        """
        content = assistant_content(order.blocks, policy)
        bridge = policy.continuation.instruct.bridge
        own: Mapping[str, Any] | None = None
        if ends_with_role(request.get("messages"), "assistant"):
            own = request["messages"][-1]
            content = _joined(own.get("content"), content)
        if not content and order.strategy == "instruct" and bridge:
            content = [{"type": "text", "text": bridge}]
        if not content:
            raise ValueError(
                "a continuation needs at least one committed block that may be sent back; "
                "retry the request instead"
            )
        assistant: Json = {**(own or {}), "role": "assistant", "content": content}
        if order.strategy == "prefill":
            messages = [merge(assistant, policy.continuation.prefill.message)]
        else:
            messages = [assistant, self.instruction(order.instruction or "", policy)]
        body = append_messages(
            base_request(request, policy), messages, replace_last=own is not None
        )
        body, suffix = assemble(body, policy, strategy=order.strategy, cap=order.cap)
        return Request(body, base_url_suffix=suffix)

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """The Messages API has no resume."""
        return None

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """Closing the connection is all there is."""
        return None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[dict[str, Any]]:
        """One user message with an error result per call."""
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "is_error": True,
                "content": NOT_EXECUTED,
            }
            for call in calls
        ]
        return [{"role": "user", "content": results}]

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without the reasoning of its last assistant message, or of all of them.

        Manual thinking demands a thinking block before open tool calls; where none is left, the
        request's own ``thinking`` parameter goes as well.
        """
        messages = list(request.body.get("messages") or ())
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, Mapping) and message.get("role") == "assistant":
                messages[place] = _without_thinking(message)
                if turn_only:
                    break
        body: Json = {**request.body, "messages": [m for m in messages if m is not None]}
        manual = get_path(body, "thinking.type") == "enabled"
        if manual and _open_tool_loop(body["messages"]):
            body = without_path(body, "thinking")
        return Request(body, request.headers, request.base_url_suffix)

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """The blocks as one assistant message; empty if nothing of them may stand in a history."""
        content = assistant_content(blocks, policy)
        return [{"role": "assistant", "content": content}] if content else []

    def instruction(self, text: str, policy: Policy) -> Json:
        """The recovery's user message."""
        return {"role": "user", "content": text}

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL."""
        return policy.path or DEFAULT_PATH

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; ``accept-encoding: identity`` so that a cut shows as a cut."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in policy.headers.items()},
        }
        if api_key:
            headers[policy.auth.header.lower()] = policy.auth.prefix + api_key
        return headers


def assistant_content(blocks: Sequence[Block], policy: Policy) -> list[Json]:
    """Content of the assistant message that these blocks make; valid for the API, maybe empty."""
    content: list[Json] = []
    attempts: list[int] = []
    for block in blocks:
        if block.kind == "other" and block.data and block.data.get("type") == "fallback":
            # Reasoning on both sides is checked against the seam, which does not go back.
            kept = [i for i, one in enumerate(content) if one["type"] not in THINKING]
            content, attempts = [content[i] for i in kept], [attempts[i] for i in kept]
        elif (one := _CONVERT.get(block.kind, _nothing)(block, policy)) is not None:
            content.append(one)
            attempts.append(block.attempt)
    leads = bool(content) and content[0]["type"] in THINKING
    content = [
        one
        for one, attempt in zip(content, attempts, strict=True)
        if one["type"] not in THINKING or (leads and attempt == attempts[0])
    ]
    while content and content[-1]["type"] in THINKING:
        content.pop()
    return content


# --- one block, by its kind; ``None`` where it may not stand in a history ------------------------


def _text(block: Block, policy: Policy) -> Json | None:
    text = block.text
    if not text.strip():
        return None
    out: Json = {**(block.data or {}), "type": "text", "text": text}
    out.pop("citations", None)
    if block.closed and block.citations:
        out["citations"] = [_citation(one) for one in block.citations]
    return out


def _citation(text: str) -> Any:
    citation = decode_json(text.encode())
    if isinstance(citation, dict):
        return {key: value for key, value in citation.items() if key not in _ONLY_IN_REPLIES}
    return citation


def _thinking(block: Block, policy: Policy) -> Json | None:
    rule = policy.blocks.thinking.closed
    if not block.closed or rule == "discard" or (rule == "keep_if_signed" and not block.signature):
        return None
    signature = {"signature": block.signature} if block.signature is not None else {}
    return {**(block.data or {}), "type": "thinking", "thinking": block.text, **signature}


def _verbatim(block: Block, policy: Policy) -> Json | None:
    return dict(block.data) if block.closed and block.data else None


def _tool_use(block: Block, policy: Policy) -> Json | None:
    value = whole_object(block.text)
    if value is None:
        if not block.closed:
            return None
        value = {"INVALID_JSON": block.text}
    data = block.data or {"type": "tool_use", "id": block.id, "name": block.name}
    return {**data, "input": value}


def _server_tool(block: Block, policy: Policy) -> Json | None:
    if block.data is None or not block.closed:
        return None
    if "tool_use_id" in block.data:
        return dict(block.data)
    return _tool_use(block, policy)


def _other(block: Block, policy: Policy) -> Json | None:
    if not block.closed or not block.data or str(block.data.get("type")) not in OTHER_IN_HISTORY:
        return None
    out = dict(block.data)
    for text in block.extra:
        delta = decode_json(text.encode())
        for key, value in delta.items() if isinstance(delta, dict) else ():
            if key != "type":
                before = out.get(key)
                both = isinstance(value, str) and isinstance(before, str)
                out[key] = before + value if both else value
    return None if out.get("content") == "" else out


def _nothing(block: Block, policy: Policy) -> Json | None:
    return None


_CONVERT: Final = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _verbatim,
    "tool_use": _tool_use,
    "server_tool": _server_tool,
    "other": _other,
}


# --- messages of the caller ---------------------------------------------------------------------


def _joined(own: Any, content: list[Json]) -> list[Json]:
    """The caller's own prefill and what the model wrote after it, as the content of one message."""
    first: list[Any] = [{"type": "text", "text": own}] if isinstance(own, str) else list(own or ())
    first = [
        block
        for block in first
        if not (
            isinstance(block, Mapping) and block.get("type") == "text" and not block.get("text")
        )
    ]
    if first and content and _plain_text(first[-1]) and _plain_text(content[0]):
        # One text: the model went on inside it, perhaps inside a word.
        text = first[-1]["text"] + content[0]["text"]
        return [*first[:-1], {**first[-1], "text": text}, *content[1:]]
    return [*first, *content]


def _plain_text(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and not block.get("citations")


def _has(content: Any, kind: str) -> bool:
    return isinstance(content, list | tuple) and any(
        isinstance(block, Mapping) and block.get("type") == kind for block in content
    )


def _without_thinking(message: Mapping[str, Any]) -> Json | None:
    """The message without reasoning; ``None`` if nothing else was in it."""
    content = message.get("content")
    if not isinstance(content, list | tuple):
        return dict(message)
    kept = [
        block
        for block in content
        if not (isinstance(block, Mapping) and block.get("type") in THINKING)
    ]
    return {**message, "content": kept} if kept else None


def _open_tool_loop(messages: Sequence[Any]) -> bool:
    """The last assistant message holds tool calls and has no reasoning before them."""
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            content = message.get("content")
            return _has(content, "tool_use") and not any(_has(content, kind) for kind in THINKING)
    return False
