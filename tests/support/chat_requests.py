"""Blocks, orders and checks for tests of the request side of the dialect ``openai_chat``."""

import copy
import json
from collections.abc import Mapping
from typing import Any

import pytest

from midthought.policies import Policy
from midthought.providers.openai_chat import dialect
from midthought.statemachine import Block, Continue, Request

__all__ = [
    "REQUEST",
    "USER",
    "block",
    "call",
    "check",
    "continued",
    "instruct",
    "policy",
    "prefill",
]

USER = {"role": "user", "content": "Tell me a story"}
REQUEST: dict[str, Any] = {"model": "m", "messages": [USER], "x_unknown": {"kept": [1]}}


def policy(**tables: Any) -> Policy:
    """A policy with nothing but these tables set."""
    return Policy(name="test", dialect="openai_chat", **tables)


def block(kind: Any, text: str = "", closed: bool = True, **more: Any) -> Block:
    """A block of the timeline."""
    return Block(index=0, kind=kind, attempt=0, parts=[text], closed=closed, **more)


def call(text: str, closed: bool = True, **more: Any) -> Block:
    """A tool call."""
    return block("tool_use", text, closed, **({"id": "a", "name": "add"} | more))


def prefill(*blocks: Block, cap: int | None = None) -> Continue:
    """An order to continue by prefill."""
    return Continue("prefill", blocks, None, cap)


def instruct(*blocks: Block, cap: int | None = None) -> Continue:
    """An order to continue by instruction."""
    return Continue("instruct", blocks, "Go on.", cap)


def continued(request: Mapping[str, Any], policy: Policy, order: Continue) -> Request:
    """The continuation; the caller's request was not changed, and the SDK knows its shape."""
    before = copy.deepcopy(request)
    made = dialect.continuation(request, policy, order)
    assert request == before
    check(made.body["messages"])
    return made


def check(messages: Any) -> None:
    """Validate messages against the official SDK's own request types."""
    pytest.importorskip("openai")
    from openai.types.chat import ChatCompletionMessageParam
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
    adapter.validate_json(json.dumps(messages), strict=True)
