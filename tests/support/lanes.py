"""Lanes: a policy, a model and a way to go on, each a way to run the same cut.

The policies are the shipped ones, as they are, or with a small overlay written here.
"""

from __future__ import annotations

import functools
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from continuing import Variant
from recordings import Recording

from midthought.policies import Policy, load_policy

__all__ = ["HURRY", "LANES", "Lane", "overlay", "request_of"]

#: Waits of real time are a thousandth of what the base policy says.
HURRY = """
[backoff.continuation]
initial_s = 0.001
factor = 2.0
max_s = 0.016
jitter = "none"
[backoff.transient]
initial_s = 0.0005
factor = 2.0
max_s = 0.032
jitter = { up_to = 0.25 }
[backoff.offline]
initial_s = 0.02
factor = 2.0
max_s = 0.04
jitter = "none"
"""

PREFILL_MODEL = "claude-sonnet-4-5-20250929"
INSTRUCT_MODEL = "claude-opus-4-8"


@functools.cache
def overlay(name: str, text: str = "") -> Policy:
    """The shipped policy ``name`` with a few lines of TOML laid over it."""
    if not text:
        return load_policy(name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "laid-over.toml"
        path.write_text(f'extends = ["{name}"]\nname = "laid-over"\n{text}\n')
        return load_policy(path)


@dataclass(frozen=True)
class Lane:
    """How a cut is run."""

    name: str
    wire: str
    policy_name: str
    model: str
    server: str
    """Who judges the requests: see ``strict_provider``."""
    variant: Variant = "exact"
    laid_over: str = ""
    extra: tuple[tuple[str, Any], ...] = ()
    """More of the request."""
    retracts: bool = False
    """Shown text may be taken back (the strict overlay)."""
    hold_first: int = 12
    """So many first characters are worth nothing yet; for lanes that prefill, one is enough."""

    @property
    def policy(self) -> Policy:
        """The policy, resolved once."""
        return overlay(self.policy_name, self.laid_over)

    @property
    def greedy(self) -> bool:
        """The request asks for greedy decoding."""
        return dict(self.extra).get("temperature") == 0

    def __str__(self) -> str:
        return self.name


def _anthropic(name: str, model: str, variant: Variant = "exact", **settings: Any) -> Lane:
    policy = settings.pop("policy", "anthropic")
    return Lane(name, "anthropic", policy, model, "anthropic", variant, **settings)


def _chat(name: str, policy: str, variant: Variant = "exact", **settings: Any) -> Lane:
    server = "llamacpp" if policy.startswith("llamacpp") else "openai"
    return Lane(name, "openai-chat", policy, "some-model", server, variant, **settings)


GREEDY = (("temperature", 0),)
#: A rule that would send everything again: whatever a policy says, shown output forbids it.
CARELESS = """
[[rules.prepend]]
name = "careless"
on = { failure = ["sse_transport", "sse_parse", "premature_end", "stalled", "overloaded"] }
action = "retry"
limit = 3
backoff = "transient"
"""
LANES = [
    _anthropic("prefill", PREFILL_MODEL, hold_first=1),
    _anthropic("prefill-greedy", PREFILL_MODEL, extra=GREEDY, hold_first=1),
    _anthropic("instruct", INSTRUCT_MODEL),
    _anthropic("instruct-no-space", INSTRUCT_MODEL, "no_leading_space"),
    _anthropic("instruct-repeats", INSTRUCT_MODEL, "repeats"),
    _anthropic("instruct-restarts", INSTRUCT_MODEL, "restarts"),
    _anthropic("instruct-rethinks", INSTRUCT_MODEL, "rethinks"),
    _anthropic("strict", INSTRUCT_MODEL, policy="anthropic+strict", retracts=True),
    _anthropic(
        "prefill-word", PREFILL_MODEL, laid_over='[blocks.text]\nrelease = "word"', hold_first=1
    ),
    _anthropic("closed", INSTRUCT_MODEL, laid_over='[blocks.text]\nrelease = "closed"'),
    _anthropic("with-next", INSTRUCT_MODEL, laid_over='[blocks.thinking]\nrelease = "with_next"'),
    _anthropic(
        "all-or-none",
        INSTRUCT_MODEL,
        laid_over='[blocks.tool_use]\nrelease = "turn"\nparallel = "all_or_none"',
    ),
    _anthropic("careless", INSTRUCT_MODEL, laid_over=CARELESS),
    _anthropic("careless-prefill", PREFILL_MODEL, laid_over=CARELESS, hold_first=1),
    _chat("chat-careless", "openai-chat", laid_over=CARELESS),
    _chat("llamacpp-careless", "llamacpp", laid_over=CARELESS, hold_first=1),
    _chat("chat", "openai-chat"),
    _chat("chat-no-space", "openai-chat", "no_leading_space"),
    _chat("chat-repeats", "openai-chat", "repeats"),
    _chat("chat-restarts", "openai-chat", "restarts"),
    _chat("chat-rethinks", "openai-chat", "rethinks"),
    _chat("chat-strict", "openai-chat+strict", retracts=True),
    _chat("llamacpp", "llamacpp", hold_first=1),
    _chat("llamacpp-greedy", "llamacpp", extra=GREEDY, hold_first=1),
    _chat(
        "llamacpp-echoes",
        "llamacpp",
        "echoes",
        laid_over="[continuation.prefill]\nechoes = true",
        hold_first=1,
    ),
    _chat("llamacpp-strict", "llamacpp+strict", retracts=True),
    _chat("chat-closed", "openai-chat", laid_over='[blocks.text]\nrelease = "closed"'),
]

TOOL = {
    "name": "any_tool",
    "description": "a tool",
    "input_schema": {"type": "object", "properties": {}},
}


def request_of(lane: Lane, recording: Recording) -> dict[str, Any]:
    """The caller's request that the recording is taken for the answer to."""
    kinds = {part.kind for part in recording.reply.parts}
    request: dict[str, Any] = {
        "model": lane.model,
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": "go"}],
        **dict(lane.extra),
    }
    if lane.wire == "anthropic":
        if kinds & {"thinking", "redacted_thinking"}:
            old = {"type": "enabled", "budget_tokens": 2048}
            request["thinking"] = old if lane.model == PREFILL_MODEL else {"type": "adaptive"}
            request.pop("temperature", None)
        if "tool_use" in kinds:
            request["tools"] = [TOOL]
        return request
    if "tool_use" in kinds:
        function = {"name": "any_tool", "parameters": TOOL["input_schema"]}
        request["tools"] = [{"type": "function", "function": function}]
    if recording.reply.choices > 1:
        request["n"] = recording.reply.choices
    return request
