"""Claude behind Bedrock's InvokeModelWithResponseStream: Anthropic events in AWS messages.

Rule: this module only unwraps; what an event means is ``anthropic_messages``'s grammar. Imports no
IO.

    message                       becomes
    chunk {"bytes": base64}       the Anthropic event inside, whatever that means
    an exception or error         an error; its name is the code
    any other event               Unknown

Requests are Anthropic's, without ``model`` (it is in the path) and ``stream`` (the path says it),
and with ``anthropic_version`` in the body. Other makers' models have events of their own here:
those of Amazon's Nova are read by ``bedrock_converse``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Continue, Event, Request, Unknown

from . import _bedrock
from ._anthropic_request import AnthropicRequests
from ._dialect import Dialect, ErrorFacts, ErrorSeen, Malformed, Signal
from ._http_errors import error_facts
from ._json import REFUSED
from ._sse import Frame, Framer
from .anthropic_messages import AnthropicDecoder
from .anthropic_messages import dialect as _anthropic

__all__ = ["BedrockInvoke", "InvokeDecoder", "dialect"]

PATH: Final = "/model/{model}/invoke-with-response-stream"
VERSION: Final = "bedrock-2023-05-31"


class InvokeDecoder:
    """Reads the frames of one attempt; see the grammar above."""

    def __init__(self, policy: Policy, attempt: int) -> None:
        self._attempt = attempt
        self._inner = AnthropicDecoder(policy, attempt)

    def decode(self, frame: Frame, out: list[Event]) -> Signal:
        """Append the frame's events to ``out``; the frame has data."""
        if frame.fields is not None:
            return ErrorSeen(_bedrock.exception_facts(frame))
        if frame.event != "chunk":
            out.append(Unknown(self._attempt, frame.event or "", frame.raw))
            return None
        data = frame.data or b""
        try:
            event = _bedrock.chunk_bytes(data)
        except REFUSED:
            return Malformed(f"a chunk of {len(data)} bytes without readable bytes")
        return self._inner.decode(Frame(frame.raw, data=event), out)

    def ended(self, out: list[Event]) -> None:
        """Close what the provider left open."""
        self._inner.ended(out)


class BedrockInvoke(AnthropicRequests, Dialect):
    """Both sides of the dialect."""

    name = "bedrock_invoke"
    content_types = _bedrock.CONTENT_TYPES

    def framer(self, content_type: str, policy: Policy) -> Framer:
        """Messages of an AWS event stream."""
        return _bedrock.framer(policy)

    def decoder(self, policy: Policy, attempt: int, choices: int = 1) -> InvokeDecoder:
        """A new decoder for one attempt."""
        return InvokeDecoder(policy, attempt)

    def error_facts(self, body: Any, status: int | None) -> ErrorFacts | None:
        """The error that a decoded JSON body states, or ``None``."""
        return error_facts(body, status)

    def unary(self, body: Any, policy: Policy, attempt: int) -> list[Event] | None:
        """Events of a whole message that came as one JSON body, or ``None`` if it is none."""
        return _anthropic.unary(body, policy, attempt)

    def model(self, request: Mapping[str, Any]) -> str:
        """Model or inference profile of the request, or an empty string."""
        return _bedrock.model_of(request)

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body as Bedrock wants it."""
        return _sent(super().original(request, policy), policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks``."""
        return _sent(super().continuation(request, policy, order), policy)

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without reasoning."""
        stripped = super().strip_thinking(request, policy, turn_only)
        return msgspec.structs.replace(stripped, path=request.path)

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL, of a request that still names its model."""
        return _bedrock.with_model(dict(request), policy.path or PATH, "").path or ""

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; raises where no client could work (see ``_bedrock``)."""
        _bedrock.ready(api_key)
        headers = super().headers(policy, api_key)
        headers.pop("anthropic-version", None)  # it is in the body here
        return {**headers, "accept": _bedrock.EVENTS}


def _sent(request: Request, policy: Policy) -> Request:
    body = {"anthropic_version": VERSION, **request.body}
    return _bedrock.with_model(body, policy.path or PATH, request.base_url_suffix, ("stream",))


dialect: Final = BedrockInvoke()
