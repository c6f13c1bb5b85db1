"""The request side that dialects with a plain list of messages share: one method is theirs.

A dialect says what its assistant message looks like (``assistant``); how a continuation is put
together from that is the same for all. The caller's request is never changed. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Block, Continue, Request

from ._request import (
    append_messages,
    assemble,
    base_request,
    ends_with_role,
    features_of,
    merge,
    model_of,
    own_cap,
)

__all__ = ["Grammar", "Json", "MessageRequests"]

Json = dict[str, Any]
#: Per feature: whether a request has it.
Grammar = Mapping[str, Callable[[Mapping[str, Any]], bool]]


class MessageRequests:
    """Request side of a dialect whose history is ``messages``."""

    default_path: ClassVar[str]
    """Path below the base URL, where the policy has none."""
    accept: ClassVar[str]
    """Content type of a stream."""
    grammar: ClassVar[Grammar] = {}
    """Features that the grammar of a request shows, whatever the policy's rows say."""

    def assistant(
        self, own: Mapping[str, Any] | None, blocks: Sequence[Block], policy: Policy
    ) -> Json | None:
        """The assistant message of these blocks, valid for the API; ``None`` if nothing is left.

        ``own``: the caller's own last message, which the blocks go on in.
        """
        raise NotImplementedError

    def speaks(self, text: str) -> Any:
        """The content of a message that says this text."""
        return text

    def strip_message(self, message: Mapping[str, Any]) -> Json | None:
        """An assistant message without its reasoning; ``None`` if nothing else was in it."""
        raise NotImplementedError

    def sent(self, body: Json, suffix: str, policy: Policy) -> Request:
        """The request with this body."""
        return Request(body, base_url_suffix=suffix)

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body plus ``[stream] merge``."""
        return self.sent(base_request(request, policy), "", policy)

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """Features by the policy's rows and by the grammar."""
        shown = (name for name, holds in self.grammar.items() if holds(request))
        return features_of(request, policy).union(shown)

    def model(self, request: Mapping[str, Any]) -> str:
        """Model name of the request, or an empty string."""
        return model_of(request)

    def choices(self, request: Mapping[str, Any]) -> int:
        """There is one answer."""
        return 1

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The request's own output cap in tokens."""
        return own_cap(request, policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``prefill`` or ``instruct``.

        ``ValueError`` if no block of the order may be sent back and the policy has no bridge text:
        the machine must not order that.
        """
        own: Mapping[str, Any] | None = None
        if ends_with_role(request.get("messages"), "assistant"):
            own = request["messages"][-1]
        assistant = self.assistant(own, order.blocks, policy)
        bridge = policy.continuation.instruct.bridge
        if assistant is None and order.strategy == "instruct" and bridge:
            assistant = {"role": "assistant", "content": self.speaks(bridge)}
        if assistant is None:
            raise ValueError(
                "a continuation needs at least one committed block that may be sent back; "
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
        return self.sent(body, suffix, policy)

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """There is no resume."""
        return None

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """Closing the connection is all there is."""
        return None

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without the reasoning of its last assistant message, or of all."""
        messages = list(request.body.get("messages") or ())
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if isinstance(message, Mapping) and message.get("role") == "assistant":
                messages[place] = self.strip_message(message)
                if turn_only:
                    break
        kept = [message for message in messages if message is not None]
        return msgspec.structs.replace(request, body={**request.body, "messages": kept})

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """The blocks as one assistant message; empty if nothing of them may stand in a history."""
        message = self.assistant(None, blocks, policy)
        return [message] if message is not None else []

    def instruction(self, text: str, policy: Policy) -> Json:
        """The recovery's user message."""
        return {"role": "user", "content": self.speaks(text)}

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL."""
        return policy.path or self.default_path

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; ``accept-encoding: identity`` so that a cut shows as a cut."""
        headers = {
            "content-type": "application/json",
            "accept": self.accept,
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in policy.headers.items()},
        }
        if api_key:
            headers[policy.auth.header.lower()] = policy.auth.prefix + api_key
        return headers
