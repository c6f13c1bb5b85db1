"""The streams that are measured: plain text replies as two providers write them.

Frames carry the fields that real ones carry, since every reader has to get past them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["DIALECTS", "REQUESTS", "Json", "chunked", "events"]

Json = dict[str, Any]

#: What a reply is made of: about the lengths that tokens have in English prose.
_TOKENS = (
    " the", " state", " machine", " keeps", " a", " reply", " in", " one", " piece", ",", " even",
    " when", "ever", " it", " breaks", ".", "\n\n",
)  # fmt: skip

DIALECTS = ("openai-chat", "anthropic")
_ASKED = [{"role": "user", "content": "Why do streams break, and what can be done about it?"}]
REQUESTS: dict[str, Json] = {
    "openai-chat": {"model": "gpt-4.1-mini", "messages": _ASKED},
    "anthropic": {"model": "claude-opus-4-8", "max_tokens": 4096, "messages": _ASKED},
}


def _tokens(count: int) -> Iterator[str]:
    chance = random.Random(7)
    return (chance.choice(_TOKENS) for _ in range(count))


def _chat(count: int) -> Iterator[bytes]:
    base = {
        "id": "chatcmpl-D2lq0Qf7uXw3Zr5B9tYk1sVn8cMa4",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "gpt-4.1-mini-2025-04-14",
        "service_tier": "default",
        "system_fingerprint": "fp_6f2eabb9a5",
    }

    def chunk(delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return b"data: " + _compact({**base, "choices": [choice]}) + b"\n\n"

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for token in _tokens(count):
        yield chunk({"content": token})
    yield chunk({}, "stop")
    yield b"data: [DONE]\n\n"


def _anthropic(count: int) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _compact({"type": kind, **fields}))

    message: Json = {
        "id": "msg_01KqT4vYbN8sWfZc2RjXe7Gh",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5-20250929",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 21, "output_tokens": 1},
    }
    yield event("message_start", message=message)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for token in _tokens(count):
        delta = {"type": "text_delta", "text": token}
        yield event("content_block_delta", index=0, delta=delta)
    yield event("content_block_stop", index=0)
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield event("message_delta", delta=end, usage={"output_tokens": count})
    yield event("message_stop")


_WRITERS = {"openai-chat": _chat, "anthropic": _anthropic}


def _compact(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def events(dialect: str, tokens: int) -> list[bytes]:
    """The frames of a whole reply of so many text deltas."""
    return list(_WRITERS[dialect](tokens))


def chunked(frames: list[bytes], per_chunk: int) -> list[bytes]:
    """The same, so many frames to each piece that the network brings."""
    return [b"".join(frames[i : i + per_chunk]) for i in range(0, len(frames), per_chunk)]
