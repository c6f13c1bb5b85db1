"""A turn in the dialects of Cohere, Ollama and Bedrock, cut and continued; its promises checked.

The upstream reads a continuation as a model does: how much of the reply does the history carry? It
says the rest as a fresh stream. Requests are judged by the strict providers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from native_streams import Stream
from native_wire import parts_of, rest_of, stop_of, write
from strict_bedrock import converse_faults
from strict_cohere import cohere_faults
from strict_ollama import ollama_faults
from strict_provider import StrictProvider
from twin import Answer, End, Twin

from midthought.policies import Policy

__all__ = ["LANES", "Lane", "NativeRun", "Variant"]

Json = dict[str, Any]
Variant = Literal["exact", "repeats", "restarts"]
#: The common words for stop reasons of the recordings.
STOPS = {
    "COMPLETE": "end",
    "TOOL_CALL": "tool_use",
    "stop": "end",
    "end_turn": "end",
    "tool_use": "tool_use",
    "max_tokens": "length",
}
#: Every wait that the base policy's budgets allow: 1, 2, 4 … s, and 0.5, 1, 2 … s with a quarter.
WAITS = [(s, s) for s in (1.0, 2.0, 4.0, 8.0, 16.0)]
WAITS += [(s, s * 1.25) for s in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)]


@dataclass(frozen=True)
class Lane:
    """A wire, a model and a way to go on."""

    wire: str
    model: str
    variant: Variant = "exact"
    greedy: bool = False

    def __str__(self) -> str:
        greedy = "-greedy" if self.greedy else ""
        return f"{self.wire}-{self.model.rpartition('.')[2][:18]}-{self.variant}{greedy}"


PREFILLED = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
INSTRUCTED = "us.anthropic.claude-opus-4-8"
LANES = [
    Lane("cohere-v2", "command-a"),
    Lane("cohere-v2", "command-a", "repeats"),
    Lane("cohere-v2", "command-a", "restarts"),
    Lane("ollama", "qwen3"),
    Lane("ollama", "qwen3", greedy=True),
    Lane("bedrock-converse", PREFILLED),
    Lane("bedrock-converse", INSTRUCTED),
    Lane("bedrock-converse", INSTRUCTED, "repeats"),
    Lane("bedrock-invoke", PREFILLED),
    Lane("bedrock-invoke", INSTRUCTED),
    Lane("bedrock-invoke", INSTRUCTED, "restarts"),
]


def faults(wire: str, body: Mapping[str, Any], model: str) -> list[str]:
    """Why the provider would refuse this body."""
    if wire == "cohere-v2":
        return cohere_faults(body)
    if wire == "ollama":
        return ollama_faults(body)
    if wire == "bedrock-converse":
        return converse_faults(body, model)
    plain = model.partition("anthropic.")[2]
    found = [] if "model" not in body and "stream" not in body else ["model or stream in the body"]
    return found + StrictProvider("anthropic").faults({**body, "model": plain, "stream": True})


@dataclass
class NativeRun:
    """One turn: attempt ``n`` is cut after ``cuts[n]`` bytes, by ``end``."""

    stream: Stream
    lane: Lane
    policy: Policy
    cuts: Sequence[int]
    end: End
    told: Mapping[int, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = parts_of(self.stream)
        self.text = "".join(part.text for part in self.parts if part.kind == "text")
        self.stop = stop_of(self.stream)
        self.answers: list[bytes] = []
        self.twin = Twin(self.policy, self.request(), self._answer, told=self.told)
        self.twin.run()

    def request(self) -> Json:
        """The caller's request that the recording is taken for the answer to."""
        called = any(part.kind == "tool_use" for part in self.parts)
        wire, model = self.lane.wire, self.lane.model
        if wire == "bedrock-converse":
            schema = {"json": {"type": "object"}}
            tool = {"toolSpec": {"name": "any", "inputSchema": schema}}
            body: Json = {"modelId": model, "messages": [_user(wire)]}
            return {**body, **({"toolConfig": {"tools": [tool]}} if called else {})}
        function = {"name": "any", "parameters": {"type": "object"}}
        tools: list[Json] = [{"type": "function", "function": function}]
        if wire == "bedrock-invoke":
            tools = [{"name": "any", "input_schema": {"type": "object"}}]
        request: Json = {"model": model, "messages": [_user(wire)]}
        if called:
            request["tools"] = tools
        if wire == "bedrock-invoke":
            request["max_tokens"] = 8192
        if self.lane.greedy:
            request["options"] = {"temperature": 0}
        return request

    # --- upstream -----------------------------------------------------------------------------

    def _answer(self, body: Mapping[str, Any], number: int) -> Answer:
        data = self._whole_answer(body)
        self.answers.append(data)
        headers = (("content-type", self.stream.content_type),)
        if number >= len(self.cuts):
            return Answer(data, headers=headers)
        return Answer(data[: self.cuts[number]], self.end, headers=headers)

    def _whole_answer(self, body: Mapping[str, Any]) -> bytes:
        messages = body["messages"]
        if len(messages) == 1:
            return self.stream.data
        carrier = messages[-1] if messages[-1]["role"] == "assistant" else messages[-2]
        text = "".join(_texts(carrier))
        assert self.text.startswith(text), f"the history says {text[-60:]!r}"
        begin = len(text)
        if carrier is not messages[-1] and begin >= 20:
            again = min(20, self._within(begin) - 1)
            back = {"exact": 0, "repeats": again if again >= 12 else 0, "restarts": begin}
            begin -= back[self.lane.variant]
        rest = rest_of(self.parts, begin, set(_ids(carrier)))
        return b"".join(write(self.lane.wire, rest, self.stop))

    def _within(self, place: int) -> int:
        """Characters before this place that are of the same part."""
        ends = itertools.accumulate(len(p.text) for p in self.parts if p.kind == "text")
        return place - max((end for end in (0, *ends) if end < place), default=0)

    # --- promises -----------------------------------------------------------------------------

    def check(self) -> None:
        """All that recovery promises of a turn that could be healed."""
        finished = self.twin.view.finished
        assert finished.outcome == "completed", (finished.outcome, finished.reason)
        self.check_always()
        view, calls = self.twin.view, [p for p in self.parts if p.kind == "tool_use"]
        shown = [block.name for block in view.calls]
        if self._ended_by_calls():
            assert finished.stop.value == "tool_use" and shown
            assert self.text.startswith(view.text)
            return
        assert view.text == self.text, (view.text[-80:], self.text[-80:])
        assert shown == [part.name for part in calls]
        expected = STOPS[self.stop]
        expected = "tool_use" if expected == "end" and calls else expected
        assert finished.stop.value == expected
        assert len(view.stops) == 1

    def _ended_by_calls(self) -> bool:
        return not self.twin.view.stops and bool(self.twin.view.calls)

    def check_always(self) -> None:
        """What holds whatever becomes of the turn."""
        view, sent = self.twin.view, self.twin.sent
        said = [(p.id, p.name, json.loads(p.text or "{}")) for p in self.parts if p.name]
        for block in view.calls:
            call = (block.id, block.name, json.loads(block.joined("input") or "{}"))
            assert block.closed and call in said, f"half a call or none of theirs: {block.name}"
        for number, request in enumerate(sent):
            assert [] == faults(self.lane.wire, request.body, self.lane.model)
            if number and len(request.body["messages"]) == 1:
                assert not request.text.strip(), "sent again after output"
            assert request.fresh is (number > 0)
        assert self.text.startswith(view.text), "text twice, or not theirs"
        assert len(sent) <= self.policy.limits.attempts
        for wait in self.twin.waited:
            assert any(low <= wait.delay_s <= high for low, high in WAITS), wait
        self._check_history()

    def _check_history(self) -> None:
        history = self.twin.messages
        for said in (history, [m for m in [self.twin.message] if m is not None]):
            told = [message for message in said if message["role"] == "assistant"]
            text = "".join(text for message in told for text in _texts(message))
            assert "".join(text.split()) == "".join(self.twin.view.text.split())
            first = self.twin.sent[0].body
            after = _next_turn(self.lane.wire, said)
            body = {**first, "messages": [*first["messages"], *said, *after]}
            assert [] == faults(self.lane.wire, body, self.lane.model)


def _user(wire: str, content: str = "go") -> Json:
    return {"role": "user", "content": [{"text": content}] if "converse" in wire else content}


def _texts(message: Json) -> Iterator[str]:
    content = message.get("content") or ""
    for item in [{"text": content}] if isinstance(content, str) else content:
        if "text" in item:
            yield item["text"]


def _ids(message: Json) -> Iterator[str]:
    content = message.get("content")
    for item in content if isinstance(content, list) else ():
        for key in ("toolUse", "toolResult"):
            if key in item:
                yield item[key]["toolUseId"]


def _next_turn(wire: str, said: Sequence[Json]) -> list[Json]:
    """What the caller sends next: answers to the calls, or a question."""
    last = said[-1] if said else {}
    calls = last.get("tool_calls") or []
    if wire == "cohere-v2" and calls:
        return [{"role": "tool", "tool_call_id": c["id"], "content": "ok"} for c in calls]
    if wire == "ollama" and calls:
        return [
            {"role": "tool", "tool_name": c["function"]["name"], "content": "ok"} for c in calls
        ]
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    uses = [b["toolUse"] for b in blocks if "toolUse" in b and "type" not in b["toolUse"]]
    if uses:
        ok = [{"text": "ok"}]
        results = [{"toolResult": {"toolUseId": u["toolUseId"], "content": ok}} for u in uses]
        return [{"role": "user", "content": results}]
    if named := [b["id"] for b in blocks if b.get("type") == "tool_use"]:
        answers = [{"type": "tool_result", "tool_use_id": i, "content": "ok"} for i in named]
        return [{"role": "user", "content": answers}]
    return [_user(wire, "and then?")] if said else []
