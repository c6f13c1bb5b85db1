"""What single providers of the Chat dialect refuse, each by its own habit.

From their documentation, SDKs and error texts, by hand (provider facts 2.7 to 2.24, and the issues
that the policies name); it imports nothing of the project. ``StrictChatServer`` checks what is this
provider's own, takes that out, and asks ``StrictProvider`` for what all of them refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from reply_parts import Reply
from strict_provider import StrictProvider

__all__ = ["SERVERS", "Server", "StrictChatServer"]

Json = Mapping[str, Any]
REASONING = ("reasoning", "reasoning_content", "reasoning_details")
#: mistralai 3.7.0, ChatCompletionStreamRequest: a body with another key is a 422.
MISTRAL_BODY = frozenset(
    "model messages temperature top_p max_tokens stream stop random_seed metadata response_format "
    "tools tool_choice presence_penalty frequency_penalty min_tokens repetition_penalty top_k "
    "logprobs top_logprobs prompt_logprobs top_prompt_logprobs n prediction parallel_tool_calls "
    "reasoning_effort prompt_mode guardrails prompt_cache_key service_tier safe_prompt".split()
)


@dataclass(frozen=True)
class Server:
    """What one provider asks of a request."""

    prefills: tuple[str, ...] = ()
    """Models whose trailing assistant message is continued; all others refuse it, or begin anew."""
    reasoners: tuple[str, ...] = ()
    """Those of them that reason by themselves, and would reason anew."""
    mark: str | None = None
    """Key that the trailing message must have as ``true``."""
    marked_models: tuple[str, ...] = ("*",)
    """Models for which that is so."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Fields of the request without which the trailing message is closed."""
    suffix: str = ""
    """Path below the base address where a marked message is taken."""
    echoes: bool = False
    """The answer begins with the prefix."""
    reasoning: str | None = None
    """Field of an assistant message in which reasoning may come back."""
    needs_reasoning: bool = False
    """Where the reply reasoned and made calls, the history must have it."""
    body: frozenset[str] | None = None
    """All keys that a request may have."""
    user_after_tool: bool = True
    """A user message may follow a tool's."""
    forbidden: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a request with which no message is continued, and the values that count."""

    def continues(self, model: str) -> bool:
        """Whether this model goes on in a trailing assistant message."""
        return _fits(model, self.prefills) and not _fits(model, self.reasoners)

    def wants_mark(self, model: str) -> bool:
        """Whether the trailing message of this model needs the mark."""
        return self.mark is not None and _fits(model, self.marked_models)


def _fits(model: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(model.lower(), pattern) for pattern in patterns)


ALL = ("*",)
THINKERS = ("*gpt-oss*", "*qwen3*", "*qwq*", "*deepseek-r1*", "*-thinking*", "*magistral*")
FLAGS = {"continue_final_message": True, "add_generation_prompt": False}
SERVERS: dict[str, Server] = {
    "mistral": Server(
        prefills=("mistral-*", "codestral-*", "ministral-*", "devstral-*", "open-mi*"),
        mark="prefix",
        echoes=True,
        body=MISTRAL_BODY,
        user_after_tool=False,
        forbidden={"prompt_mode": ("reasoning",)},
    ),
    "deepseek": Server(
        prefills=ALL,
        mark="prefix",
        suffix="/beta",
        reasoning="reasoning_content",
        needs_reasoning=True,
    ),
    "moonshot": Server(
        prefills=("kimi-k3*", "moonshot-v1*"),
        mark="partial",
        reasoning="reasoning_content",
        needs_reasoning=True,
    ),
    "qwen": Server(
        prefills=("qwen-*", "qwen3-*"), mark="partial", forbidden={"enable_thinking": (True,)}
    ),
    "zai": Server(reasoning="reasoning_content"),
    "xai": Server(),
    "groq": Server(prefills=("llama*", "gemma*", "meta-llama/llama-4*")),
    "together": Server(),
    "fireworks": Server(reasoning="reasoning_content"),
    "cerebras": Server(),
    "openrouter": Server(
        prefills=(
            "anthropic/claude-3*",
            "anthropic/claude-haiku-4.5*",
            "anthropic/claude-sonnet-4.5*",
            "deepseek/deepseek-chat*",
            "moonshotai/kimi-k2",
        ),
        mark="partial",
        marked_models=("moonshotai/*",),
        reasoning="reasoning_details",
        forbidden={"reasoning": ({"effort": "high"},)},
    ),
    "vllm": Server(prefills=ALL, reasoners=THINKERS, flags=FLAGS),
    "sglang": Server(prefills=ALL, reasoners=THINKERS, flags={"continue_final_message": True}),
    "llamacpp": Server(prefills=ALL, flags=FLAGS),
    "tgi": Server(prefills=ALL),
    "ollama-openai": Server(prefills=ALL),
    "lmstudio": Server(),
    "azure-openai": Server(),
    "openai-chat": Server(),
    "openai-compatible": Server(),
}


@dataclass
class StrictChatServer:
    """Takes or refuses requests of one provider; ``reply`` is what it has said."""

    name: str
    reply: Reply | None = None
    invalid_input: frozenset[str] = frozenset()

    @property
    def server(self) -> Server:
        """Its habits."""
        return SERVERS[self.name]

    def faults(self, request: Json, suffix: str | None = None) -> list[str]:
        """Why it would refuse this request; ``suffix``: what was added to the base address."""
        own = list(self._own(request, suffix))
        common = "llamacpp" if self.server.continues(request.get("model") or "") else "openai"
        judge = StrictProvider(common, self.reply, self.invalid_input)
        return own + judge.faults(self._plain(request))

    # --- what is its own ------------------------------------------------------------------------

    def _own(self, request: Json, suffix: str | None) -> Iterator[str]:
        server, messages = self.server, request["messages"]
        if server.body is not None and (extra := set(request) - server.body):
            yield f"extra inputs are not permitted: {sorted(extra)}"
        if server.needs_reasoning and self._lacks_reasoning(messages):
            yield f"the {server.reasoning} must be passed back"
        for number, message in enumerate(messages):
            yield from self._reasoning(message, f"messages.{number}")
            after_tool = number and messages[number - 1]["role"] == "tool"
            if after_tool and message["role"] == "user" and not server.user_after_tool:
                yield f"messages.{number}: unexpected role 'user' after role 'tool'"
        trailing = messages[-1] if messages[-1]["role"] == "assistant" else None
        yield from self._trailing(request, trailing, suffix)

    def _trailing(self, request: Json, last: Json | None, suffix: str | None) -> Iterator[str]:
        server = self.server
        wanted = server.wants_mark(request.get("model") or "")
        for message in request["messages"]:
            if message is not last and {"prefix", "partial"} & set(message):
                yield "only the last message may be a prefix"
        for key, value in server.flags.items():
            if last is not None and request.get(key) is not value:
                yield f"the message is closed and a new one begins: {key} is not {value}"
        if last is None:
            return
        marks = {"prefix", "partial"} & set(last)
        if wanted and last.get(server.mark or "") is not True:
            yield f"the last message must be the user's, or have {server.mark}"
        if marks - ({server.mark} if wanted else set()):
            yield f"unknown marks {sorted(marks)}"
        if suffix is not None and suffix != server.suffix:
            yield f"a prefix is only taken at {server.suffix!r}, not at {suffix!r}"
        if not isinstance(last.get("content"), str):
            yield "only a message whose content is a string is continued"
        for key, values in server.forbidden.items():
            if request.get(key) in values:
                yield f"a message is not continued with {key}"

    def _reasoning(self, message: Json, where: str) -> Iterator[str]:
        server = self.server
        for key in REASONING:
            if key in message and key != server.reasoning:
                yield f"{where}: property {key!r} is unsupported"
        if self.reply is None or message["role"] != "assistant" or server.reasoning is None:
            return
        thoughts, given = self._thoughts, message.get(server.reasoning)
        if isinstance(given, str) and given not in ("".join(thoughts), *thoughts):
            yield f"{where}: reasoning that was not said so"
        if isinstance(given, Sequence) and not isinstance(given, str):
            yield from self._details(given, where)

    @property
    def _thoughts(self) -> list[str]:
        parts = self.reply.parts if self.reply is not None else []
        return [part.text for part in parts if part.kind == "thinking"]

    def _lacks_reasoning(self, messages: Sequence[Json]) -> bool:
        calls = any(message.get("tool_calls") for message in messages)
        given = any(message.get(self.server.reasoning or "") for message in messages)
        return bool(calls and self._thoughts and not given)

    def _details(self, given: Sequence[Json], where: str) -> Iterator[str]:
        """Items go back as they came: texts whole, signatures and encrypted data unchanged."""
        assert self.reply is not None
        said: dict[Any, str] = {}
        sealed = set()
        for frame in self.reply.frames:
            for choice in (frame.json or {}).get("choices") or ():
                for item in (choice.get("delta") or {}).get("reasoning_details") or ():
                    key = (item.get("type"), item.get("index"))
                    said[key] = said.get(key, "") + (item.get("text") or item.get("summary") or "")
                    sealed |= {item.get("data"), item.get("signature")}
        for item in given:
            text = item.get("text") or item.get("summary") or ""
            if text != said.get((item.get("type"), item.get("index"))):
                yield f"{where}: reasoning details that were not said so"
            if not {item.get("data"), item.get("signature")} - {None} <= sealed:
                yield f"{where}: reasoning data that was changed"

    # --- what all of them ask ---------------------------------------------------------------------

    def _plain(self, request: Json) -> Json:
        """The request without what is this provider's own."""
        own = {"prefix", "partial", self.server.reasoning}
        messages = [{k: v for k, v in m.items() if k not in own} for m in request["messages"]]
        for message in messages:
            if isinstance(content := message.get("content"), list):
                message["content"] = "".join(part.get("text") or "" for part in content)
        return {k: v for k, v in request.items() if k not in FLAGS} | {"messages": messages}
