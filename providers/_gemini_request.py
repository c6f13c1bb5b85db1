"""Requests of the Gemini dialect: the caller's, and how an interrupted reply goes on.

Rule: the caller's request is never changed, parts of the provider go back verbatim or not at all.
The model's name belongs in the URL: a request carries it as ``model``, and the dialect takes it out
of the body and puts it into the path (``[policy] path`` with ``{model}``), without the ``models/``
that some callers write before it. Every other key is the API's own (``contents``, ``tools``,
``generationConfig`` …).

What the API asks of a model turn (provider facts, section 2.4):

    no part without content               blank text is left out
    a signature stays with its part       a part that has one goes back as it came, or as bare text
    thoughts need not go back             only those that are signed do
    calls are answered                    the machine never continues over an open call

From its checkpoint a reply is asked for by the *same* request with ``continuationToken`` beside it,
never with the partial reply. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Block, Continue, Request

from ._google_url import path_of, without_model
from ._json import whole_object
from ._request import (
    NOT_EXECUTED,
    assemble,
    base_request,
    ends_with_role,
    features_of,
    get_path,
    merge,
    model_of,
    own_cap,
)

__all__ = ["GeminiRequests", "model_parts"]

Json = dict[str, Any]

DEFAULT_PATH: Final = "/v1beta/models/{model}:streamGenerateContent?alt=sse"
#: In place of a signature that was refused; the API does not check this one (facts 2.4, 6).
UNCHECKED: Final = "skip_thought_signature_validator"
_COUNTS: Final = ("generationConfig.candidateCount", "generation_config.candidate_count")
_CALLS: Final = ("functionCall", "function_call")
_SIGNED_TEXT: Final = frozenset({"text", "thoughtSignature"})


class GeminiRequests:
    """Request side of the dialect."""

    def original(self, request: Mapping[str, Any], policy: Policy) -> Request:
        """Request 0: the caller's body without ``model``, plus ``[stream] merge``."""
        return self._request(request, base_request(request, policy), policy)

    def features(self, request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
        """Features by the policy's rows, and ``tool_calls_in_last`` by the grammar."""
        found = features_of(request, policy)
        last = get_path(request, "contents.-1")
        if ends_with_role(request.get("contents"), "model") and _calls(last):
            found |= {"tool_calls_in_last"}
        return found

    def model(self, request: Mapping[str, Any]) -> str:
        """Model name of the request as the caller wrote it, or an empty string."""
        return model_of(request)

    def choices(self, request: Mapping[str, Any]) -> int:
        """The request's ``candidateCount``."""
        for path in _COUNTS:
            count = get_path(request, path)
            if isinstance(count, int) and count > 0:
                return int(count)
        return 1

    def cap(self, request: Mapping[str, Any], policy: Policy) -> int | None:
        """The request's own output cap in tokens, thoughts included."""
        return own_cap(request, policy)

    def continuation(self, request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
        """The request that goes on from ``order.blocks`` by ``prefill`` or ``instruct``.

        A request that itself ends with a model turn goes on in that turn. ``ValueError`` if no
        block of the order may be sent back and the policy has no bridge text.
        """
        parts = model_parts(order.blocks, policy)
        bridge = policy.continuation.instruct.bridge
        contents = list(request.get("contents") or ())
        own: Json = {}
        if ends_with_role(contents, "model"):
            own = dict(contents.pop())
            parts = _joined(own.get("parts"), parts)
        if not parts and order.strategy == "instruct" and bridge:
            parts = [{"text": bridge}]
        if not parts:
            raise ValueError(
                "a continuation needs at least one committed block that may be sent back; "
                "retry the request instead"
            )
        turn: Json = {**own, "role": "model", "parts": parts}
        if order.strategy == "prefill":
            contents.append(merge(turn, policy.continuation.prefill.message))
        else:
            contents += [turn, self.instruction(order.instruction or "", policy)]
        body = {**base_request(request, policy), "contents": contents}
        body, suffix = assemble(body, policy, strategy=order.strategy, cap=order.cap)
        return self._request(request, body, policy, suffix=suffix)

    def resume(
        self, request: Mapping[str, Any], policy: Policy, handle: Mapping[str, Any], *, poll: bool
    ) -> Request | None:
        """The same request with the checkpoint's token; there is no call for the whole reply.

        ``maxOutputTokens`` stays as it is: it counts over all requests of a reply.
        """
        token = handle.get("continuationToken")
        if poll or not token or self.choices(request) > 1:
            return None
        body = {**base_request(request, policy), "continuationToken": token}
        return self._request(request, body, policy)

    def stop_call(self, policy: Policy, handle: Mapping[str, Any]) -> Request | None:
        """Closing the connection is all there is."""
        return None

    def not_executed(self, calls: Sequence[Block], policy: Policy) -> list[Json]:
        """One user turn with a response per call."""
        parts = []
        for call in calls:
            function = (call.data or {}).get("functionCall") or {}
            named = {"id": function["id"]} if function.get("id") else {}
            answer = {**named, "name": call.name, "response": {"error": NOT_EXECUTED}}
            parts.append({"functionResponse": answer})
        return [{"role": "user", "parts": parts}]

    def strip_thinking(self, request: Request, policy: Policy, turn_only: bool = True) -> Request:
        """The same request without thoughts and signatures in its last model turn, or in all.

        A call has to have a signature: it gets the one that is not checked.
        """
        contents = list(request.body.get("contents") or ())
        for place in range(len(contents) - 1, -1, -1):
            if _is_turn(contents[place], "model"):
                contents[place] = _without_thoughts(contents[place])
                if turn_only:
                    break
        body = {**request.body, "contents": [one for one in contents if one is not None]}
        return msgspec.structs.replace(request, body=body)

    def messages(self, blocks: Sequence[Block], policy: Policy) -> list[Json]:
        """The blocks as one model turn; empty if nothing of them may stand in a history."""
        parts = model_parts(blocks, policy)
        return [{"role": "model", "parts": parts}] if parts else []

    def instruction(self, text: str, policy: Policy) -> Json:
        """The recovery's user turn."""
        return {"role": "user", "parts": [{"text": text}]}

    def url(self, request: Mapping[str, Any], policy: Policy) -> str:
        """Path and query below the base URL; ``ValueError`` where the request names no model."""
        return path_of(request, policy.path or DEFAULT_PATH)

    def headers(self, policy: Policy, api_key: str | None) -> dict[str, str]:
        """Headers of every request; ``accept-encoding: identity`` so that a cut shows as a cut."""
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream, application/json",
            "accept-encoding": "identity",
            **{name.lower(): value for name, value in policy.headers.items()},
        }
        if api_key:
            headers[policy.auth.header.lower()] = policy.auth.prefix + api_key
        return headers

    def _request(
        self, request: Mapping[str, Any], body: Json, policy: Policy, *, suffix: str = ""
    ) -> Request:
        path = self.url(request, policy)
        return Request(without_model(body), base_url_suffix=suffix, path=path)


def model_parts(blocks: Sequence[Block], policy: Policy) -> list[Json]:
    """Parts of the model turn that these blocks make; valid for the API, maybe empty.

    Thoughts and signatures by themselves say nothing, so they make no turn.
    """
    made = [
        _CONVERT[block.kind](block, policy)
        for block in blocks
        if not (block.data or {}).get("choice")
    ]
    parts = [part for part in made if part is not None]
    return parts if any(_says_something(part) for part in parts) else []


def _says_something(part: Json) -> bool:
    return not part.get("thought") and (bool(part.get("text")) or bool(part.keys() - _SIGNED_TEXT))


# --- one block, by its kind; ``None`` where it may not stand in a history ------------------------


def _text(block: Block, policy: Policy) -> Json | None:
    text = block.text
    if not text.strip():
        return None
    return _as_it_came(block, text) or {"text": text}


def _thinking(block: Block, policy: Policy) -> Json | None:
    rule = policy.blocks.thinking.closed
    return None if rule == "discard" else _as_it_came(block, block.text)


def _as_it_came(block: Block, text: str) -> Json | None:
    """The signed part, if the block still says what it said: nothing was cut off or joined."""
    data = block.data or {}
    signed = data.get("thoughtSignature") and data.get("text") == text
    return dict(data) if signed else None


def _call(block: Block, policy: Policy) -> Json | None:
    if block.closed and block.data and "functionCall" in block.data:
        return dict(block.data)
    args = whole_object(block.text)
    if args is None:
        return None
    return {"functionCall": {"name": block.name, "args": args}}


def _verbatim(block: Block, policy: Policy) -> Json | None:
    return dict(block.data) if block.closed and block.data else None


def _nothing(block: Block, policy: Policy) -> Json | None:
    return None


_CONVERT: Final = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _nothing,
    "tool_use": _call,
    "server_tool": _verbatim,
    "refusal": _nothing,
    "media": _verbatim,
    "other": _verbatim,
}


# --- turns of the caller --------------------------------------------------------------------------


def _joined(own: Any, parts: list[Json]) -> list[Json]:
    """The caller's own model turn and what came after it, as the parts of one turn."""
    first = list(own) if isinstance(own, list | tuple) else []
    if first and parts and _is_plain(first[-1]) and _is_plain(parts[0]):
        # One text: the model went on inside it, perhaps inside a word.
        joined = {**first[-1], "text": first[-1]["text"] + parts[0]["text"]}
        return [*first[:-1], joined, *parts[1:]]
    return [*first, *parts]


def _is_plain(part: Any) -> bool:
    return isinstance(part, Mapping) and set(part) == {"text"} and isinstance(part["text"], str)


def _is_turn(content: Any, role: str) -> bool:
    return isinstance(content, Mapping) and content.get("role") == role


def _calls(content: Any) -> bool:
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return isinstance(parts, list | tuple) and any(
        isinstance(part, Mapping) and any(key in part for key in _CALLS) for part in parts
    )


def _without_thoughts(content: Mapping[str, Any]) -> Json | None:
    """The turn without thoughts and signatures; ``None`` if nothing else was in it."""
    parts = content.get("parts")
    if not isinstance(parts, list | tuple):
        return dict(content)
    kept = [stripped for part in parts if (stripped := _stripped(part)) is not None]
    return {**content, "parts": kept} if kept else None


def _stripped(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    if part.get("thought") is True:
        return None
    signatures = [key for key in ("thoughtSignature", "thought_signature") if key in part]
    bare = {key: value for key, value in part.items() if key not in signatures}
    if signatures and any(key in part for key in _CALLS):
        return {**bare, signatures[0]: UNCHECKED}
    return None if signatures and not bare.get("text", True) else bare
