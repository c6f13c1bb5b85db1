"""Requests of the Responses dialect: the caller's, how an interrupted reply goes on, its resume.

Rule: the caller's request is never changed; its ``previous_response_id`` and ``store`` are kept,
and the id of a response that broke is never named (provider facts 2.3, decisions "Providers", 4).

    instruct   the caller's input, the reply's items, a user message; there is no prefill
    resume     GET /responses/{id}?stream=true&starting_after=N, and (poll) without a stream, for
               requests with background = true that are stored
    stop       POST /responses/{id}/cancel

A request with ``conversation`` cannot be continued: what the API itself keeps there would be said
twice. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote, urlencode

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Block, Continue, Request

from ._message_requests import Json, MessageRequests
from ._openai_responses_history import answer, history_items, without_reasoning
from ._request import assemble, base_request, get_path, is_set

__all__ = ["ResponsesRequests"]

DEFAULT_PATH: Final = "/responses"


class ResponsesRequests(MessageRequests):
    """Request side of the dialect."""

    default_path = DEFAULT_PATH
    accept = "text/event-stream"
    grammar: ClassVar[dict[str, Callable[[Mapping[str, Any]], bool]]] = {
        "conversation": lambda request: is_set(request.get("conversation")),
        "structured_output": lambda request: (
            get_path(request, "text.format.type") in ("json_object", "json_schema")
        ),
        "tools": lambda request: is_set(request.get("tools")),
    }

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``instruct``.

        ``ValueError`` for another strategy, and if no block of the order may be sent back and the
        policy has no bridge text: the machine must not order that.
        """
        if order.strategy != "instruct":
            raise ValueError(
                f"the Responses API cannot continue by {order.strategy!r}: use instruct"
            )
        items = history_items(order.blocks, policy)
        if not items and (bridge := policy.continuation.instruct.bridge):
            part = {"type": "output_text", "text": bridge, "annotations": []}
            items = [{"type": "message", "role": "assistant", "content": [part]}]
        if not items:
            raise ValueError(
                "a continuation needs at least one committed block that may be sent back; "
                "retry the request instead"
            )
        told = self.instruction(order.instruction or "", policy)
        body = base_request(request, policy)
        body["input"] = [*_input_items(request.get("input")), *items, told]
        body, suffix = assemble(body, policy, strategy=order.strategy, cap=order.cap)
        return Request(body, base_url_suffix=suffix)

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """The rest of a background response as a stream, or (``poll``) the whole of it.

        Asking for the whole is only offered where nothing but reasoning stands finished before the
        checkpoint: everything else would come twice.
        """
        stored = request.get("background") is True and request.get("store") is not False
        if not stored or not isinstance(handle.get("id"), str):
            return None
        include = request.get("include")
        query = [("include[]", str(one)) for one in include] if isinstance(include, list) else []
        if poll:
            whole = Request({}, method="GET", path=_path(policy, handle, "", query))
            return whole if handle.get("poll") is True else None
        if get_path(request, "stream_options.include_obfuscation") is False:
            query.append(("include_obfuscation", "false"))
        after = str(handle.get("sequence_number", 0))
        query = [("stream", "true"), ("starting_after", after), *query]
        return Request({}, method="GET", path=_path(policy, handle, "", query))

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """Cancel a background response."""
        if not isinstance(handle.get("id"), str):
            return None
        return Request({}, path=_path(policy, handle, "/cancel", []))

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[dict[str, Any]]:
        """One output item per call, of the kind that its call asks for."""
        return [answer(call) for call in calls]

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without reasoning after the last user message but ours, or without any.

        Ids that bind other items to that reasoning go as well.
        """
        items = _input_items(request.body.get("input"))
        begin = _turn_begins(items) if turn_only else 0
        items = [*items[:begin], *without_reasoning(items[begin:])]
        return msgspec.structs.replace(request, body={**request.body, "input": items})

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """The blocks as input items; empty if nothing of them may stand in a history."""
        return history_items(blocks, policy)

    def instruction(self, text: str, policy: Policy) -> Json:
        """The recovery's user message."""
        return _asked(text)


def _asked(text: str) -> Json:
    return {"type": "message", "role": "user", "content": text}


def _input_items(given: Any) -> list[Any]:
    """The caller's input as items; a text is a user message."""
    if isinstance(given, str):
        return [_asked(given)]
    return list(given) if isinstance(given, list | tuple) else []


def _turn_begins(items: Sequence[Any]) -> int:
    """Where the last turn begins: after the last user message that is not the very last item."""
    for place in range(len(items) - 2, -1, -1):
        item = items[place]
        if isinstance(item, Mapping) and item.get("role") not in (None, "assistant"):
            return place + 1
    return 0


def _path(
    policy: Policy, handle: Mapping[str, Any], below: str, query: Sequence[tuple[str, str]]
) -> str:
    """Path and query of a stored response; a query in the policy's path (``api-version``) stays."""
    path, _, own = (policy.path or DEFAULT_PATH).partition("?")
    asked = "&".join(part for part in (own, urlencode(query)) if part)
    response = quote(str(handle["id"]), safe="")
    return f"{path}/{response}{below}" + (f"?{asked}" if asked else "")
