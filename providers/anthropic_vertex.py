"""Claude on Vertex AI: the Anthropic Messages dialect at an address of Google's.

The stream of ``:streamRawPredict`` is Anthropic's own, event for event (``anthropic_messages``). A
request is a Messages request; its ``model`` is taken out of the body and put into the path, and the
version of the API is in the body instead of a header (anthropic 2.14.0, ``lib/vertex/_client.py``).
Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Continue, Request

from ._google_url import path_of, without_model
from .anthropic_messages import AnthropicMessages

__all__ = ["AnthropicVertex", "dialect"]

PATH: Final = "/publishers/anthropic/models/{model}:streamRawPredict"


class AnthropicVertex(AnthropicMessages):
    """Both sides of the dialect: Anthropic's, but for where a request goes."""

    name = "anthropic_vertex"

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body without ``model``, plus ``[stream] merge``."""
        return self._sent(super().original(request, policy), request, policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``prefill`` or ``instruct``."""
        return self._sent(super().continuation(request, policy, order), request, policy)

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without reasoning."""
        stripped = super().strip_thinking(request, policy, turn_only)
        return msgspec.structs.replace(stripped, path=request.path)

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path below the base URL; ``ValueError`` where the request names no model."""
        return path_of(request, policy.path or PATH)

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; the version is in the body."""
        headers = super().headers(policy, api_key)
        headers.pop("anthropic-version", None)
        return headers

    def _sent(self, made: Request, request: Mapping[str, Any], policy: Policy) -> Request:
        path = self.url(request, policy)
        return msgspec.structs.replace(made, body=without_model(made.body), path=path)


dialect: Final = AnthropicVertex()
