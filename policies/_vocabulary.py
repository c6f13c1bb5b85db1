"""The words a policy may use: every name that a TOML file can be wrong about stands here.

Only names and their meaning live here, no behaviour: the engine registers a function for each guard
and refuses to start if the two lists differ. Imports nothing of midthought.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple

__all__ = [
    "ACTIONS",
    "BLOCK_KINDS",
    "DIALECTS",
    "DIALECT_STRATEGIES",
    "EDITS",
    "FEATURES",
    "GUARDS",
    "HOWS",
    "MENDS",
    "SIGNING_DIALECTS",
    "STRATEGIES",
    "TRIGGERS",
    "Action",
    "FailureKind",
    "Stop",
    "known_dialects",
    "known_guards",
    "register_dialect_name",
    "register_guard_name",
]


class FailureKind(StrEnum):
    """What went wrong, in one word; the adapters report it, rules match on it."""

    sse_transport = "sse_transport"
    sse_parse = "sse_parse"
    body_decode = "body_decode"
    premature_end = "premature_end"
    stalled = "stalled"
    timeout = "timeout"
    connect = "connect"
    overloaded = "overloaded"
    rate_limited = "rate_limited"
    quota_exhausted = "quota_exhausted"
    server_error = "server_error"
    context_overflow = "context_overflow"
    request_too_large = "request_too_large"
    event_too_large = "event_too_large"
    media_rejected = "media_rejected"
    prefill_rejected = "prefill_rejected"
    thinking_rejected = "thinking_rejected"
    invalid_request = "invalid_request"
    blocked = "blocked"
    auth = "auth"
    not_found = "not_found"
    not_a_stream = "not_a_stream"
    empty_reply = "empty_reply"
    malformed_tool_call = "malformed_tool_call"
    seam_mismatch = "seam_mismatch"
    runaway = "runaway"
    unknown = "unknown"


class Stop(StrEnum):
    """Why an attempt ended, in the common set that every dialect's own words are mapped to."""

    end = "end"
    tool_use = "tool_use"
    length = "length"
    context_full = "context_full"
    safety = "safety"
    pause = "pause"
    error = "error"
    aborted = "aborted"


How = Literal["retry", "continue", "resume", "replay", "again", "park", "finish", "stop"]
Edit = Literal[
    "compact", "drop_media", "next_strategy", "next_target", "raise_cap", "strip_thinking"
]
Strategy = Literal["resume", "prefill", "instruct"]
Role = Literal["stream", "assess", "commit", "wait", "resume", "ask", "final"]
Final = Literal["completed", "exhausted", "aborted"]
Release = Literal["live", "word", "closed", "with_next", "paired", "turn"]


class Action(NamedTuple):
    """A rule's action taken apart: which request (how) and what is changed in it (edits)."""

    how: How
    edits: tuple[Edit, ...] = ()


#: ``again`` is ``continue`` where something of the turn is kept, else ``retry``; the short names
#: for edits use it, so that "switch the model" reads the same before and after output.
ACTIONS: dict[str, Action] = {
    "retry": Action("retry"),
    "continue": Action("continue"),
    "resume": Action("resume"),
    "replay": Action("replay"),
    "park": Action("park"),
    "finish": Action("finish"),
    "stop": Action("stop"),
    "again": Action("again"),
    "next_strategy": Action("again", ("next_strategy",)),
    "strip_thinking": Action("again", ("strip_thinking",)),
    "fallback": Action("again", ("next_target",)),
    "escalate": Action("retry", ("raise_cap",)),
    "compact": Action("again", ("compact",)),
    "drop_media": Action("again", ("drop_media",)),
}
HOWS: tuple[str, ...] = ("retry", "continue", "resume", "replay", "again", "park", "finish", "stop")
EDITS: tuple[str, ...] = (
    "compact",
    "drop_media",
    "next_strategy",
    "next_target",
    "raise_cap",
    "strip_thinking",
)
STRATEGIES: tuple[str, ...] = ("resume", "prefill", "instruct")

#: Wire dialects that ``providers/`` can speak (hosts add theirs by name), and by which strategies
#: a reply can go on in each: a policy that asks for another one is refused.
DIALECT_STRATEGIES: dict[str, tuple[str, ...]] = {
    "anthropic_messages": ("prefill", "instruct"),
    "anthropic_vertex": ("prefill", "instruct"),
    "bedrock_converse": ("prefill", "instruct"),
    "bedrock_invoke": ("prefill", "instruct"),
    "cohere_v2": ("instruct",),  # a trailing assistant message is taken and not continued
    "gemini": ("resume", "prefill", "instruct"),
    "ollama": ("prefill", "instruct"),
    "openai_chat": ("prefill", "instruct"),
    "openai_responses": ("resume", "instruct"),  # no prefill is documented
}
DIALECTS: tuple[str, ...] = tuple(DIALECT_STRATEGIES)

#: Dialects in which reasoning is signed: unsigned reasoning in a history is refused there.
SIGNING_DIALECTS: tuple[str, ...] = (
    "anthropic_messages",
    "anthropic_vertex",
    "bedrock_converse",
    "bedrock_invoke",
    "openai_responses",
)

#: What ``[wire] mend`` may name: the ways an illegal frame is made legal.
MENDS: tuple[str, ...] = (
    "bom",
    "no_data",
    "event_name",
    "null_choices",
    "blank_line",
    "finish_last",
    "finish_reason",
    "repeat_id",
    "tool_index",
)

#: Block kinds a ``[blocks.*]`` table may name.
BLOCK_KINDS: tuple[str, ...] = (
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool",
    "refusal",
    "media",
    "other",
)

#: Triggers of the machine: past facts. A row with another trigger is refused at load.
TRIGGERS: tuple[str, ...] = (
    "opened",
    "finished",
    "failed",
    "assessed",
    "answered",
    "refused",
    "committed",
    "waited",
    "cancelled",
    "yielded",
    "deadline_passed",
)

#: Facts about a request that ``forbidden_with`` and ``[[features]]`` rows may name.
FEATURES: tuple[str, ...] = (
    "conversation",  # the provider keeps the history itself
    "deterministic",
    "multipart_content",
    "n",
    "structured_output",
    "thinking",
    "tool_calls_in_last",
    "tools",
)

#: Guards of the machine: yes/no questions about the turn. Hosts add theirs by name.
GUARDS: tuple[str, ...] = (
    "accepts_partial",
    "needs_recovery",
    "no_progress",
    "recoverable",
    "stopped_by_model",
    "turn_complete",
    "wait_too_long",
)

_host_guards: set[str] = set()
_host_dialects: set[str] = set()


def register_dialect_name(name: str) -> None:
    """Make a host's dialect known to the loader; the dialect itself belongs to ``providers/``."""
    _host_dialects.add(name)


def known_dialects() -> tuple[str, ...]:
    """Every dialect name a policy may use now, sorted."""
    return tuple(sorted({*DIALECTS, *_host_dialects}))


def register_guard_name(name: str) -> None:
    """Make a host's guard known to the loader; the function itself belongs to the engine."""
    _host_guards.add(name)


def known_guards() -> tuple[str, ...]:
    """Every guard name a policy may use now, sorted."""
    return tuple(sorted({*GUARDS, *_host_guards}))
