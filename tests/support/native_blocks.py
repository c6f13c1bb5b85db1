"""Blocks as the engine keeps them, of every kind, for tests of what a dialect sends back."""

from typing import Any

from midthought.statemachine import Block

__all__ = ["call", "kept", "plain", "thought"]


def kept(kind: Any, text: str = "", **fields: Any) -> Block:
    """A closed block of attempt 0."""
    given = {"index": 0, "attempt": 0, "closed": True, **fields}
    return Block(kind=kind, parts=[text] if text else [], **given)


def plain(text: str, **fields: Any) -> Block:
    """A text block, open as a cut leaves it."""
    return kept("text", text, **{"closed": False, **fields})


def thought(text: str, signature: str | None = None, **fields: Any) -> Block:
    """A closed thinking block."""
    return kept("thinking", text, signature=signature, **fields)


def call(text: str = '{"a":1}', id: str | None = "c1", name: str = "f", **fields: Any) -> Block:
    """A closed tool call."""
    return kept("tool_use", text, id=id, name=name, **fields)
