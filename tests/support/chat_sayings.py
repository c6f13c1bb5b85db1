"""A Chat body read under a provider's policy, and what it came to: by our events and without us."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from provider_lanes import POLICY_OF
from reply_parts import decoded, read_reply

from midthought.policies import Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import BlockDelta, BlockStarted, Event

__all__ = ["Said", "policy_of", "read", "said_by", "said_in", "shipped"]

shipped = cache(load_policy)


def policy_of(provider: str, model: str) -> Policy:
    """The policy of a provider, for one model."""
    return shipped(POLICY_OF[provider]).for_model(model)


def read(policy: Policy, body: bytes, choices: int = 1) -> list[Event]:
    """All events of a body."""
    reader = AttemptReader(policy, get_dialect(policy.dialect), 0, choices=choices)
    events = reader.response(200, [("content-type", "text/event-stream")])
    events += reader.feed(body)
    return events if reader.finished else events + reader.end()


class Said(NamedTuple):
    """What a reply came to, choice 0."""

    text: str
    thinking: str
    refusal: str
    calls: list[tuple[str | None, Any]]


def said_by(events: list[Event]) -> Said:
    """The reply by our events."""
    begun: dict[int, BlockStarted] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, BlockStarted) and not (event.data or {}).get("choice"):
            begun[event.index], texts[event.index] = event, ""
        elif isinstance(event, BlockDelta) and event.index in begun:
            texts[event.index] += event.text if event.field in ("text", "input") else ""
    of = dict.fromkeys(("text", "thinking", "refusal"), "")
    for index, block in begun.items():
        if block.kind in of:
            of[block.kind] += texts[index]
    calls = [(b.name, decoded(texts[i])) for i, b in begun.items() if b.kind == "tool_use"]
    return Said(of["text"], of["thinking"], of["refusal"], calls)


def said_in(body: bytes) -> Said:
    """The reply by the tests' own reader."""
    parts = read_reply("openai-chat", body).parts
    of = dict.fromkeys(("text", "thinking", "refusal"), "")
    for part in parts:
        if part.kind in of:
            of[part.kind] += part.text
    calls = [(part.name, decoded(part.text)) for part in parts if part.kind == "tool_use"]
    return Said(of["text"], of["thinking"], of["refusal"], calls)
