"""Requests of the Chat dialect: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed. What servers ask of an assistant message (provider
facts, sections 2.2 to 2.24):

    content                a string that is not empty, or absent beside calls, a refusal or audio
    one assistant message  the reply goes on in the caller's own last assistant message, if any
    tool calls             whole ones only; never in a continuation, where nobody has answered them
    reasoning              in ``[blocks.thinking] history_field`` where the policy names one, else
                           nowhere: a field a server does not know is refused by some
    trailing white space   the machine trims: it must match what comes against it

Imports no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
    is_set,
    merge,
    model_of,
    own_cap,
)

__all__ = ["ChatRequests", "assistant_message"]

Json = dict[str, Any]

DEFAULT_PATH: Final = "/chat/completions"
#: Fields of an assistant message that servers read reasoning from.
REASONING_FIELDS: Final = frozenset({"reasoning", "reasoning_content", "reasoning_details"})


def _last(request: Mapping[str, Any], key: str) -> Any:
    """``key`` of the caller's own last message, if that is the assistant's."""
    own = ends_with_role(request.get("messages"), "assistant")
    return get_path(request, f"messages.-1.{key}") if own else None


#: Features that the grammar of a request shows, whatever the policy's rows say.
GRAMMAR: Final[dict[str, Callable[[Mapping[str, Any]], bool]]] = {
    "multipart_content": lambda request: isinstance(_last(request, "content"), list | tuple),
    "n": lambda request: isinstance(request.get("n"), int) and request["n"] > 1,
    "structured_output": lambda request: (
        get_path(request, "response_format.type") in ("json_object", "json_schema")
    ),
    "tool_calls_in_last": lambda request: is_set(_last(request, "tool_calls")),
    "tools": lambda request: is_set(request.get("tools")) or is_set(request.get("functions")),
}


class ChatRequests:
    """Request side of the dialect."""

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body plus ``[stream] merge``."""
        return Request(base_request(request, policy))

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """Features by the policy's rows and by the grammar."""
        grammar = (name for name, holds in GRAMMAR.items() if holds(request))
        return features_of(request, policy).union(grammar)

    def model(self, request: Mapping[str, Any]) -> str:
        """Model name of the request, or an empty string."""
        return model_of(request)

    def choices(self, request: Mapping[str, Any]) -> int:
        """The request's ``n``."""
        n = request.get("n")
        return n if isinstance(n, int) and n > 0 else 1

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The request's own output cap in tokens."""
        return own_cap(request, policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``prefill`` or ``instruct``.

        ``ValueError`` if there is nothing to go on from: no text in the blocks, none of the
        caller's own, and no bridge text; the machine must not order that.
        """
        own: Mapping[str, Any] | None = None
        if ends_with_role(request.get("messages"), "assistant"):
            own = request["messages"][-1]
        assistant = _gone_on(own, order.blocks, policy)
        bridge = policy.continuation.instruct.bridge
        if not is_set(assistant.get("content")) and order.strategy == "instruct" and bridge:
            assistant["content"] = bridge
        if not is_set(assistant.get("content")):
            raise ValueError(
                "a continuation needs committed text or the caller's own last assistant message; "
                "retry the request instead"
            )
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
        """Chat Completions have no resume."""
        return None

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """Closing the connection is all there is."""
        return None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[dict[str, Any]]:
        """One tool message per call."""
        return [
            {"role": "tool", "tool_call_id": call.id, "content": NOT_EXECUTED} for call in calls
        ]

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without the reasoning of its last assistant message, or of all."""
        named = policy.blocks.thinking.history_field
        fields = REASONING_FIELDS | {named} if named else REASONING_FIELDS
        messages = list(request.body.get("messages") or ())
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, Mapping) and message.get("role") == "assistant":
                messages[place] = {k: v for k, v in message.items() if k not in fields}
                if turn_only:
                    break
        body = {**request.body, "messages": messages}
        return Request(body, request.headers, request.base_url_suffix)

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """The blocks as one assistant message; empty if nothing of them may stand in a history."""
        message = assistant_message(blocks, policy)
        return [message] if message is not None else []

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


def assistant_message(blocks: Iterable[Block], policy: Policy) -> Json | None:
    """The assistant message that these blocks make, valid for the API, or ``None``.

    Of several choices, the first one's. Media and parts that only a reply may hold are left out.
    """
    mine = [block for block in blocks if not (block.data or {}).get("choice")]
    message: Json = {"role": "assistant", "content": None}
    if (text := _text(mine, "text")).strip():
        message["content"] = text
    if (refusal := _text(mine, "refusal")).strip():
        message["refusal"] = refusal
    for block in mine:
        _add_call(message, block)
        if block.kind == "media" and block.closed and block.id:
            message["audio"] = {"id": block.id}
    if message["content"] is None and len(message) == 2:
        return None  # reasoning alone is no message
    return {**message, **_reasoning(mine, policy)}


def _text(blocks: Sequence[Block], kind: str) -> str:
    return "".join(block.text for block in blocks if block.kind == kind)


def _add_call(message: Json, block: Block) -> None:
    """A whole call; input that the provider itself ended as invalid JSON goes back as it came."""
    if block.kind != "tool_use":
        return
    # An open call without input is not whole; one with the input {} is.
    if not block.closed and (not block.text.strip() or whole_object(block.text) is None):
        return
    data = {k: v for k, v in (block.data or {}).items() if k != "choice"}
    kind = data.pop("type", "function")
    if kind == "custom":
        body = {"name": block.name or "", "input": block.text}
    else:
        body = {"name": block.name or "", "arguments": block.text.strip() or "{}"}
    if kind == "function_call":
        message["function_call"] = body
        return
    call = {"id": block.id or "", "type": kind, kind: body, **data}
    message.setdefault("tool_calls", []).append(call)


def _reasoning(blocks: Sequence[Block], policy: Policy) -> Json:
    """Kept reasoning in the field that the policy names; nothing without one."""
    field = policy.blocks.thinking.history_field
    if not field or policy.blocks.thinking.closed == "discard":
        return {}
    if field == "reasoning_details":
        details = _joined_details(list(_details(blocks)))
        return {field: details} if details else {}
    text = "".join(block.text for block in blocks if block.kind == "thinking" and block.closed)
    return {field: text} if text else {}


def _details(blocks: Sequence[Block]) -> Iterable[Json]:
    for block in blocks:
        if block.kind == "thinking" and block.closed:
            for text in block.extra:
                yield decode_json(text.encode())
        elif block.kind == "redacted_thinking" and block.data:
            yield from block.data.get("reasoning_details") or ()


def _joined_details(details: list[Json]) -> list[Json]:
    """Items as they were before streaming cut them: text is joined, other fields are kept once."""
    whole: list[Json] = []
    for detail in details:
        last = whole[-1] if whole else None
        key = (detail.get("type"), detail.get("index"))
        if last is None or "data" in detail or (last.get("type"), last.get("index")) != key:
            whole.append(dict(detail))
            continue
        for name, value in detail.items():
            if name in ("text", "summary") and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value
    return whole


def _gone_on(own: Mapping[str, Any] | None, blocks: Sequence[Block], policy: Policy) -> Json:
    """The assistant message of a continuation: the caller's own last one, and what came then."""
    mine = [block for block in blocks if not (block.data or {}).get("choice")]
    text = _text(mine, "text")
    message: Json = {**(own or {}), "role": "assistant"}
    message["content"] = _joined(message.get("content"), text if text.strip() else "")
    return {**message, **_reasoning(mine, policy)}


def _joined(own: Any, text: str) -> Any:
    """The caller's content with the text after it, inside its last text part if it has parts."""
    if not isinstance(own, list | tuple):
        return (own or "") + text
    if not text:
        return list(own)
    last = own[-1] if own else None
    if isinstance(last, Mapping) and last.get("type") == "text":
        return [*own[:-1], {**last, "text": (last.get("text") or "") + text}]
    return [*own, {"type": "text", "text": text}]
