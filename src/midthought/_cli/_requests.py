"""From a prompt to a request of the policy's dialect: its JSON body, before recovery sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from midthought.policies import Policy

from ._errors import CommandError

__all__ = ["Prompt", "request_body"]

#: Where the provider wants a cap and the caller gave none.
DEFAULT_MAX_TOKENS = 4096


@dataclass(frozen=True, repr=False)
class Prompt:
    """What the caller wants to ask."""

    text: str
    model: str | None = None
    system: str | None = None
    max_tokens: int | None = None


def request_body(prompt: Prompt, policy: Policy) -> dict[str, Any]:
    """The request; ``CommandError`` where the dialect or the provider wants what is not there."""
    write = _WRITERS.get(policy.dialect)
    if write is None:
        raise CommandError(
            f"run cannot write requests of the dialect {policy.dialect!r}",
            f"name a policy of one of these dialects: {', '.join(_WRITERS)}",
        )
    if prompt.model is None and policy.auth.key_env is not None:
        raise CommandError(
            f"policy {policy.name!r} needs the name of a model", "name one with --model"
        )
    body: dict[str, Any] = {} if prompt.model is None else {"model": prompt.model}
    return {**body, **write(prompt, policy)}


def _anthropic(prompt: Prompt, policy: Policy) -> Mapping[str, Any]:
    body: dict[str, Any] = {"max_tokens": prompt.max_tokens or DEFAULT_MAX_TOKENS}
    if prompt.system is not None:
        body["system"] = prompt.system
    return {**body, "messages": [{"role": "user", "content": prompt.text}]}


def _chat(prompt: Prompt, policy: Policy) -> Mapping[str, Any]:
    body: dict[str, Any] = {}
    if prompt.max_tokens is not None:
        fields = policy.for_model(prompt.model or "").cap.fields
        body[fields[0] if fields else "max_tokens"] = prompt.max_tokens
    said = [("system", prompt.system), ("user", prompt.text)]
    return {**body, "messages": [{"role": r, "content": t} for r, t in said if t is not None]}


def _responses(prompt: Prompt, policy: Policy) -> Mapping[str, Any]:
    body: dict[str, Any] = {"input": [{"role": "user", "content": prompt.text}]}
    if prompt.system is not None:
        body["instructions"] = prompt.system
    if prompt.max_tokens is not None:
        body["max_output_tokens"] = prompt.max_tokens
    return body


_WRITERS: Mapping[str, Callable[[Prompt, Policy], Mapping[str, Any]]] = {
    "anthropic_messages": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
}
