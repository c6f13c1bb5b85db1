"""Which policy a recording belongs to, and runs of a cut under it with that provider's own fake.

The runs are those of ``cutting``; the judge is ``strict_chat_providers``, and an upstream that
repeats the prefix does so.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from continuing import Continuing, Variant
from cutting import ERROR_EVENTS, Cut
from lanes import Lane, request_of
from promised_content import hold
from promises import Run, check
from recordings import Recording
from reply_parts import decoded
from strict_chat_providers import SERVERS, StrictChatServer
from twin import Answer, End, Twin

from midthought.statemachine import Send

__all__ = [
    "POLICY_OF",
    "WAITS_FIRST",
    "ProviderTwin",
    "policy_of",
    "provider_lane",
    "run_under_provider",
]

#: The manifest's provider → the policy that its streams are read and continued under.
POLICY_OF = {
    "azure": "azure-openai",
    "cerebras": "cerebras",
    "cloudflare": "openai-compatible",
    "databricks": "openai-compatible",
    "deepseek": "deepseek",
    "github-copilot": "openai-compatible",
    "gpustack": "openai-compatible",
    "groq": "groq",
    "huggingface": "openai-compatible",
    "mirascope-router": "openai-compatible",
    "mistral": "mistral",
    "moonshot": "moonshot",
    "ollama-cloud": "ollama-openai",
    "ollama-openai": "ollama-openai",
    "openai": "openai-chat",
    "openrouter": "openrouter",
    "perplexity": "openai-compatible",
    "qwen": "qwen",
    "together": "together",
    "xai": "xai",
    "zai": "zai",
}
#: There a prefilled reply waits for its first characters, so that an answer that begins anew shows.
WAITS_FIRST = ("moonshot", "openrouter")


def policy_of(recording: Recording) -> str:
    """The name of the recording's policy."""
    return POLICY_OF[recording.provider]


def provider_lane(
    recording: Recording,
    policy: str | None = None,
    *,
    model: str | None = None,
    variant: Variant = "exact",
    extra: tuple[tuple[str, Any], ...] = (),
) -> Lane:
    """The recording's own provider and model, or another policy's."""
    name = policy or policy_of(recording)
    model = recording.model if model is None else model
    prefills = SERVERS[name].continues(model) and name not in WAITS_FIRST
    hold_first = 1 if prefills else 12
    return Lane(name, "openai-chat", name, model, name, variant, "", extra, hold_first=hold_first)


class Echoing(Continuing):
    """An upstream whose answer to a prefill begins with the prefix."""

    def play(self, request: Mapping[str, Any]) -> bytes:
        """The whole answer; the prefix comes in a delta of its own, after the role."""
        stream = super().play(request)
        played = self.played[-1]
        if played.kind != "prefill":
            return stream
        head, blank, rest = stream.partition(b"\n\n")
        chunk = json.loads(head.removeprefix(b"data: "))
        chunk["choices"][0]["delta"] = {"content": played.carried}
        echo = b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"
        return head + blank + echo + rest


@dataclass
class ProviderTwin(Twin):
    """A twin that remembers where each request went."""

    suffixes: list[str] = field(default_factory=list)

    def _exchange(self, send: Send) -> None:
        self.suffixes.append(send.request.base_url_suffix)
        super()._exchange(send)


@dataclass(frozen=True)
class ProviderRun(Run):
    """A run that its own provider's fake judges."""

    @cached_property
    def provider(self) -> StrictChatServer:  # type: ignore[override]
        """Who judges the requests."""
        said = self.recording.reply
        inputs = [p.text for p in said.parts if p.kind == "tool_use" and p.close is not None]
        odd = frozenset(text for text in inputs if not isinstance(decoded(text), dict))
        return StrictChatServer(self.lane.server, said, odd)


def run_under_provider(
    recording: Recording,
    lane: Lane,
    cuts: Sequence[Cut],
    fault: str = "fin",
    *,
    repeat: int = 20,
) -> ProviderRun:
    """Play it, cut attempt ``n`` at ``cuts[n]``, let it go on, and check every promise."""
    make = Echoing if SERVERS[lane.server].echoes else Continuing
    upstream = make(recording, variant=lane.variant, repeat=repeat)
    places: list[int] = []

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.play(body)
        if number >= len(cuts):
            return Answer(stream)
        cut = cuts[number]
        at = cut if isinstance(cut, int) else int(cut * len(stream))
        places.append(at)
        if fault == "overloaded":
            return Answer(stream[:at] + ERROR_EVENTS[recording.wire])
        end: End = fault  # type: ignore[assignment]
        return Answer(stream[:at], end)

    request = request_of(lane, recording)
    rng = random.Random(len(recording.data)).random
    policy, choices = lane.policy, recording.reply.choices
    twin = ProviderTwin(policy, request, answer, rng=rng, choices=choices)
    twin.run()
    run = ProviderRun(recording, lane, twin, upstream, tuple(places), fault, request)
    check(run)
    for number, (sent, suffix) in enumerate(zip(twin.sent, twin.suffixes, strict=True)):
        faults = run.provider.faults(sent.body, suffix)
        hold(7, not faults, f"request {number} would be refused: {faults}")
    return run
