"""What the real providers refuse, as strictly as any of them does.

From the facts of the providers' documentation and error texts, not from the project: it imports
nothing of it. ``faults`` of a request are the reasons for a 400; none: the request is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reply_parts import Reply

__all__ = ["StrictProvider", "can_prefill"]

Json = Mapping[str, Any]
THINKING = ("thinking", "redacted_thinking")
#: Keys that a block of a request may have; anything else is "extra inputs are not permitted".
KEYS: dict[str, frozenset[str]] = {
    "text": frozenset({"type", "text", "citations", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "cache_control", "caller"}),
    "mcp_tool_use": frozenset({"type", "id", "name", "server_name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "compaction": frozenset({"type", "content", "cache_control", "encrypted_content"}),
    "container_upload": frozenset({"type", "file_id", "cache_control"}),
}
CHAT_KEYS = {
    "assistant": frozenset(
        {"role", "content", "name", "refusal", "tool_calls", "function_call", "audio"}
    ),
    "user": frozenset({"role", "content", "name"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
    "function": frozenset({"role", "content", "name"}),
    "system": frozenset({"role", "content", "name"}),
}
#: Claude 4.5 and before; from 4.6 on the last message may not be the assistant's.
PREFILL_MODELS = ("claude-2", "claude-3", "claude-sonnet-4-5", "claude-haiku-4-5")
#: Servers of the Chat dialect that go on in a trailing assistant message.
PREFILL_SERVERS = ("llamacpp",)


def can_prefill(model: str) -> bool:
    """Whether this Claude goes on in a trailing assistant message."""
    return model.startswith(PREFILL_MODELS)


@dataclass
class StrictProvider:
    """Takes or refuses requests; ``reply`` is what it has said, for what must come back as it was.

    ``server``: ``anthropic``, or a server of the Chat dialect (``openai``, ``llamacpp``).
    """

    server: str
    reply: Reply | None = None
    invalid_input: frozenset[str] = field(default_factory=frozenset)
    """Tool input that the provider itself finished as invalid JSON."""

    def faults(self, request: Json) -> list[str]:
        """Why it would refuse this request."""
        check = self._anthropic if self.server == "anthropic" else self._chat
        return list(check(request))

    # --- Anthropic Messages ---------------------------------------------------------------------

    def _anthropic(self, request: Json) -> Iterator[str]:
        messages = request["messages"]
        if not messages or messages[0]["role"] != "user":
            yield "the first message must be the user's"
        if not request.get("stream"):
            yield "not a stream"
        yield from self._anthropic_caps(request)
        yield from _alternation(messages)
        for number, message in enumerate(messages):
            where = f"messages.{number}"
            yield from _content(message["content"], where)
            if message["role"] == "assistant":
                yield from self._assistant(message["content"], where)
            yield from _pairs(messages, number, where)
        if messages[-1]["role"] == "assistant":
            yield from self._trailing(request, messages[-1]["content"])

    def _anthropic_caps(self, request: Json) -> Iterator[str]:
        cap = request.get("max_tokens")
        if not isinstance(cap, int) or cap < 1:
            yield "max_tokens must be 1 or more"
            return
        thinking = request.get("thinking") or {}
        if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < cap:
            yield "budget_tokens must be at least 1024 and below max_tokens"

    def _assistant(self, content: Any, where: str) -> Iterator[str]:
        if isinstance(content, str):
            return
        kinds = [block["type"] for block in content]
        if any(kind in THINKING for kind in kinds) and kinds[0] not in THINKING:
            yield f"{where}: the first block must be thinking"
        for block in content:
            if block["type"] == "thinking":
                yield from self._signed(block, where)
            elif block["type"] in ("tool_use", "server_tool_use", "mcp_tool_use"):
                if not isinstance(block["input"], Mapping):
                    yield f"{where}: input of a tool call must be an object"
        yield from _server_pairs(content, where)
        yield from self._callers(content, where)

    def _callers(self, content: Any, where: str) -> Iterator[str]:
        """A tool that another tool of this reply called stands with it."""
        said = {part.id for part in self.reply.parts} if self.reply is not None else set()
        here = {block.get("id") for block in content}
        for block in content:
            caller = (block.get("caller") or {}).get("tool_id")
            if caller and caller in said and caller not in here:
                yield f"{where}: a {block['type']} whose caller {caller!r} is not there"

    def _signed(self, block: Json, where: str) -> Iterator[str]:
        if not block.get("signature"):
            yield f"{where}: thinking without a signature"
        elif self.reply is not None:
            said = {p.signature: p.text for p in self.reply.parts if p.kind == "thinking"}
            if said.get(block["signature"]) != block["thinking"]:
                yield f"{where}: a thinking block cannot be modified"

    def _trailing(self, request: Json, content: Any) -> Iterator[str]:
        if not can_prefill(request["model"]):
            yield "this model does not support assistant message prefill"
        if (request.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
            yield "thinking does not go with a prefill"
        if request.get("output_format"):
            yield "an output format does not go with a prefill"
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if blocks[-1]["type"] in THINKING:
            yield "the final block cannot be thinking"
        if blocks[-1]["type"] == "text" and blocks[-1]["text"] != blocks[-1]["text"].rstrip():
            yield "final assistant content cannot end with trailing whitespace"

    # --- Chat -------------------------------------------------------------------------------------

    def _chat(self, request: Json) -> Iterator[str]:
        messages = request["messages"]
        if not request.get("stream"):
            yield "not a stream"
        yield from _alternation(messages)
        for number, message in enumerate(messages):
            where = f"messages.{number}"
            if extra := set(message) - CHAT_KEYS[message["role"]]:
                yield f"{where}: extra keys {sorted(extra)}"
            yield from self._chat_content(message, where)
            yield from _chat_pairs(messages, number, where)
        last = messages[-1]
        continues = request.get("continue_final_message")
        if last["role"] == "assistant":
            yield from self._chat_trailing(request, last)
        elif continues:
            yield "continue_final_message needs a final assistant message"
        if continues and request.get("add_generation_prompt") is not False:
            yield "cannot set both add_generation_prompt and continue_final_message"
        for cap in ("max_tokens", "max_completion_tokens"):
            if cap in request and request[cap] < 1:
                yield f"{cap} must be 1 or more"

    def _chat_content(self, message: Json, where: str) -> Iterator[str]:
        content = message.get("content")
        calls = message.get("tool_calls") or ()
        beside = calls or any(message.get(k) for k in ("function_call", "refusal", "audio"))
        if not (isinstance(content, str) and content.strip()) and not (beside and content is None):
            yield f"{where}: content must not be blank"
        for call in calls:
            yield from self._arguments(call["function"]["arguments"], where)
            if not call.get("id") or not call["function"].get("name"):
                yield f"{where}: a tool call needs an id and a name"

    def _arguments(self, arguments: Any, where: str) -> Iterator[str]:
        try:
            whole = isinstance(json.loads(arguments), dict)
        except ValueError:
            whole = arguments in self.invalid_input
        if not whole:
            yield f"{where}: arguments must be one JSON object"

    def _chat_trailing(self, request: Json, last: Json) -> Iterator[str]:
        if self.server not in PREFILL_SERVERS:
            yield "the last message must not be the assistant's"
        if last.get("tool_calls"):
            yield "cannot continue an assistant message that contains tool calls"
        if request.get("tools") or request.get("response_format"):
            yield "prefill is incompatible with tools and formats"
        content = last.get("content") or ""
        if content != content.rstrip():
            yield "a prefill should not end with white space"


# --- what both ask, or one of them ---------------------------------------------------------------


def _alternation(messages: Any) -> Iterator[str]:
    for number in range(1, len(messages)):
        if messages[number]["role"] == messages[number - 1]["role"] == "assistant":
            yield f"messages.{number}: two assistant messages in a row"


def _content(content: Any, where: str) -> Iterator[str]:
    if isinstance(content, str):
        if not content.strip():
            yield f"{where}: content must not be blank"
        return
    if not content:
        yield f"{where}: content must not be empty"
    for at, block in enumerate(content):
        kind = block["type"]
        known = KEYS.get(kind)
        if known is None and not kind.endswith("_tool_result"):
            yield f"{where}.{at}: a block of type {kind!r} is not allowed"
        elif known is not None and (extra := set(block) - known):
            yield f"{where}.{at}: extra inputs are not permitted: {sorted(extra)}"
        if kind == "text" and not block["text"].strip():
            yield f"{where}.{at}: text must contain non-whitespace text"


def _pairs(messages: Any, number: int, where: str) -> Iterator[str]:
    """Every call of the caller's tools is answered by the very next message, and no other."""
    called = _ids(messages[number], "tool_use", "id")
    following = messages[number + 1] if number + 1 < len(messages) else None
    answered = _ids(following, "tool_result", "tool_use_id") if following else []
    if called and sorted(called) != sorted(answered):
        yield f"{where}: tool_use ids were found without tool_result blocks immediately after"
    if len(set(called)) != len(called):
        yield f"{where}: tool_use ids must be unique"
    if _ids(messages[number], "tool_result", "tool_use_id") and (
        number == 0 or not _ids(messages[number - 1], "tool_use", "id")
    ):
        yield f"{where}: a tool_result without its tool_use"


def _ids(message: Any, kind: str, key: str) -> list[str]:
    content = message["content"]
    if isinstance(content, str):
        return []
    return [block[key] for block in content if block["type"] == kind]


def _server_pairs(content: Any, where: str) -> Iterator[str]:
    """Use and result of the provider's own tools stand together; open only before a caller's."""
    used = {b["id"] for b in content if b["type"] in ("server_tool_use", "mcp_tool_use")}
    given = {b["tool_use_id"] for b in content if b["type"].endswith("_tool_result")}
    if given - used:
        yield f"{where}: the result of a server tool without its use"
    if used - given and content[-1]["type"] != "tool_use":
        yield f"{where}: a server tool without its result"


def _chat_pairs(messages: Any, number: int, where: str) -> Iterator[str]:
    calls = messages[number].get("tool_calls") or ()
    answered = []
    for message in messages[number + 1 :]:
        if message["role"] != "tool":
            break
        answered.append(message["tool_call_id"])
    if calls and sorted(c["id"] for c in calls) != sorted(answered):
        yield f"{where}: tool calls without their answers"
