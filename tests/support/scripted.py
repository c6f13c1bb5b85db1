"""Small streams made by hand, in both dialects from the same words.

Imports nothing of the project.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["ANTHROPIC", "CHAT", "WIRES", "Wire"]

Json = dict[str, Any]


def _chat(delta: Json | None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return f"data: {json.dumps({**head, 'choices': [choice], **more})}\n\n".encode()


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


@dataclass(frozen=True)
class Wire:
    """One dialect; every method gives the bytes of an event or a few."""

    name: str
    policy: str
    model: str
    """Can only be instructed."""

    @property
    def request(self) -> Json:
        """A small request of the caller's."""
        return {
            "model": self.model,
            "max_tokens": 1000,
            "messages": [{"role": "user", "content": "go"}],
        }

    @property
    def start(self) -> bytes:
        """How a stream begins."""
        if self.name == "chat":
            return _chat({"role": "assistant", "content": ""})
        usage = {"input_tokens": 5, "output_tokens": 1}
        message = {"id": "m1", "type": "message", "role": "assistant", "model": "m"}
        rest: Json = {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        return _event("message_start", message={**message, **rest})

    def text(self, *pieces: str, index: int = 0, closed: bool = True) -> bytes:
        """A text block in these pieces."""
        if self.name == "chat":
            return b"".join(_chat({"content": piece}) for piece in pieces)
        return self.block({"type": "text", "text": ""}, index, "text_delta", "text", pieces, closed)

    def call(
        self, call_id: str, name: str, *pieces: str, index: int = 0, closed: bool = True
    ) -> bytes:
        """A tool call with its input in these pieces; Chat has no end of a call."""
        if self.name == "chat":
            first = {"id": call_id, "type": "function"}
            out = []
            for number, piece in enumerate(pieces):
                body = {"name": name, "arguments": piece} if not number else {"arguments": piece}
                entry = {"index": index, **(first if not number else {}), "function": body}
                out.append(_chat({"tool_calls": [entry]}))
            return b"".join(out)
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        return self.block(block, index, "input_json_delta", "partial_json", pieces, closed)

    def thinking(
        self, *pieces: str, signature: str | None = None, index: int = 0, closed: bool = True
    ) -> bytes:
        """A thinking block."""
        if self.name == "chat":
            return b"".join(_chat({"reasoning_content": piece}) for piece in pieces)
        block = {"type": "thinking", "thinking": "", "signature": ""}
        out = self.block(block, index, "thinking_delta", "thinking", pieces, closed=False)
        if signature is not None:
            delta = {"type": "signature_delta", "signature": signature}
            out += _event("content_block_delta", index=index, delta=delta)
        return out + (_event("content_block_stop", index=index) if closed else b"")

    def block(
        self, block: Json, index: int, kind: str, key: str, pieces: tuple[str, ...], closed: bool
    ) -> bytes:
        """A block of the Messages dialect."""
        out = _event("content_block_start", index=index, content_block=block)
        for piece in pieces:
            out += _event("content_block_delta", index=index, delta={"type": kind, key: piece})
        return out + (_event("content_block_stop", index=index) if closed else b"")

    def end(self, reason: str = "end") -> bytes:
        """The stop fact and the end marker; ``reason``: end, tool_use, length, safety."""
        words = _REASONS[reason]
        if self.name == "chat":
            usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
            counted = json.dumps({"id": "c1", "choices": [], "usage": usage})
            return _chat({}, words[1]) + f"data: {counted}\n\ndata: [DONE]\n\n".encode()
        delta = {"stop_reason": words[0], "stop_sequence": None}
        stop = _event("message_delta", delta=delta, usage={"output_tokens": 9})
        return stop + _event("message_stop")

    def reply(self, *pieces: str) -> bytes:
        """A whole reply of text."""
        return self.start + self.text(*pieces) + self.end()

    @property
    def overloaded(self) -> bytes:
        """An error event: the server is overloaded."""
        if self.name == "chat":
            error = {"message": "busy", "type": "server_error", "code": "server_is_overloaded"}
            return f"data: {json.dumps({'error': error})}\n\n".encode()
        return _event("error", error={"type": "overloaded_error", "message": "Overloaded"})


_REASONS = {
    "end": ("end_turn", "stop"),
    "tool_use": ("tool_use", "tool_calls"),
    "length": ("max_tokens", "length"),
    "safety": ("refusal", "content_filter"),
}
ANTHROPIC = Wire("anthropic", "anthropic", "claude-opus-4-8")
CHAT = Wire("chat", "openai-chat", "some-model")
WIRES = (ANTHROPIC, CHAT)
