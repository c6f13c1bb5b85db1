"""Blocks as the engine keeps them, for tests of what a dialect sends back."""

from typing import Any

from anthropic_frames import DIALECT, POLICY

from midthought.policies import Policy
from midthought.statemachine import Block

__all__ = ["block", "content", "text", "thinking"]


def block(kind: Any, text: str = "", **fields: Any) -> Block:
    """A closed block of attempt 0."""
    given = {"index": 0, "attempt": 0, "closed": True, **fields}
    return Block(kind=kind, parts=[text] if text else [], **given)


def text(value: str, **fields: Any) -> Block:
    """A text block, open as a cut leaves it."""
    return block("text", value, **{"closed": False, **fields})


def thinking(value: str, signature: str | None = "sig", **fields: Any) -> Block:
    """A closed thinking block."""
    return block("thinking", value, signature=signature, **fields)


def content(blocks: list[Block], used: Policy = POLICY) -> list[dict[str, Any]]:
    """Content of the history message that the blocks make."""
    messages = DIALECT.messages(blocks, used)
    assert len(messages) <= 1
    found: list[dict[str, Any]] = messages[0]["content"] if messages else []
    return found
