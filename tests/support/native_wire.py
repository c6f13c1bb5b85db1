"""Recorded replies of Cohere, Ollama and Bedrock as parts, and any rest of one as a fresh stream.

The tests' own reading and writing of these wires, in the plainest way: the recordings are known.
Imports nothing of the project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from aws_messages import chunk, event
from native_streams import Stream

__all__ = ["Part", "parts_of", "rest_of", "stop_of", "write"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One block of a reply."""

    kind: str
    text: str
    id: str | None = None
    name: str | None = None
    signature: str = ""
    raw: Any = None


# --- reading --------------------------------------------------------------------------------------


def parts_of(stream: Stream) -> list[Part]:
    """The parts of a recorded reply, in order; text that follows text is one part."""
    whole: list[Part] = []
    for key, part in READ[stream.wire](stream.bodies):
        last = whole[-1] if whole else None
        if last is not None and (key == "+" or last.kind == part.kind == "text"):
            whole[-1] = replace(
                last, text=last.text + part.text, signature=last.signature + part.signature
            )
        else:
            whole.append(part)
    return whole


def stop_of(stream: Stream) -> str:
    """The provider's word for why it stopped."""
    for body in reversed(stream.bodies):
        if stream.wire == "cohere-v2" and body["type"] == "message-end":
            return str(body["delta"]["finish_reason"])
        if stream.wire == "ollama":
            return str(body["done_reason"])
        if "messageStop" in body:
            return str(body["messageStop"]["stopReason"])
        if body.get("type") == "message_delta":
            return str(body["delta"]["stop_reason"])
    raise AssertionError("the recording has no stop")


Keyed = Iterator[tuple[str, Part]]


def _read_cohere(bodies: list[Json]) -> Keyed:
    plan = False
    for body in bodies:
        message = body.get("delta", {}).get("message", {})
        kind, begun = body["type"], plan
        plan = kind == "tool-plan-delta"
        if plan:
            yield "+" if begun else "", Part("plan", message["tool_plan"])
        elif kind in ("content-start", "content-delta"):
            item = message["content"]
            which = "thinking" if "thinking" in item else "text"
            yield "+" if kind == "content-delta" else "", Part(which, item[which])
        elif kind == "tool-call-start":
            call = message["tool_calls"]
            text = call["function"]["arguments"]
            yield "", Part("tool_use", text, call["id"], call["function"]["name"])
        elif kind == "tool-call-delta":
            yield "+", Part("tool_use", message["tool_calls"]["function"]["arguments"])


def _read_ollama(bodies: list[Json]) -> Keyed:
    last = ""
    for body in bodies:
        message = body["message"]
        for key, kind in (("thinking", "thinking"), ("content", "text")):
            if text := message.get(key):
                yield "+" if last == kind else "", Part(kind, text)
                last = kind
        for call in message.get("tool_calls") or ():
            body = call["function"]
            last = "tool_use"
            yield "", Part(last, json.dumps(body["arguments"]), None, body["name"])


def _read_converse(bodies: list[Json]) -> Keyed:
    last = None
    for body in bodies:
        if start := body.get("contentBlockStart", {}).get("start"):
            ((wire, tool),) = start.items()
            own = wire == "toolResult" or tool.get("type") == "server_tool_use"
            kind = "server_tool" if own else "tool_use"
            yield "", Part(kind, "", tool["toolUseId"], tool.get("name"), raw=start)
            last = body["contentBlockStart"]["contentBlockIndex"]
        if found := body.get("contentBlockDelta"):
            more = "+" if last == found["contentBlockIndex"] else ""
            last = found["contentBlockIndex"]
            yield more, _converse_piece(found["delta"])


def _converse_piece(delta: Json) -> Part:
    ((kind, value),) = delta.items()
    if kind == "text":
        return Part("text", value)
    if kind == "reasoningContent":
        return Part("thinking", value.get("text", ""), signature=value.get("signature", ""))
    if kind == "toolUse":
        return Part("tool_use", value["input"])
    return Part("other" if kind == "citation" else "server_tool", "", raw=delta)


def _read_invoke(bodies: list[Json]) -> Keyed:
    for body in bodies:
        if body["type"] == "content_block_start":
            block = body["content_block"]
            text = block.get("text") or block.get("thinking") or ""
            yield "", Part(block["type"], text, block.get("id"), block.get("name"))
        elif body["type"] == "content_block_delta":
            delta = body["delta"]
            text = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
            yield "+", Part("", text, signature=delta.get("signature", ""))


READ: dict[str, Callable[[list[Json]], Keyed]] = {
    "cohere-v2": _read_cohere,
    "ollama": _read_ollama,
    "bedrock-converse": _read_converse,
    "bedrock-invoke": _read_invoke,
}


# --- the rest of a reply --------------------------------------------------------------------------


def rest_of(parts: list[Part], carried: int, ids: set[str]) -> list[Part]:
    """What is still to be said after ``carried`` characters of text and these server tools."""
    left, number = carried, 0
    while number < len(parts):
        part = parts[number]
        if part.kind == "text":
            if left < len(part.text):
                return [replace(part, text=part.text[left:]), *parts[number + 1 :]]
            left -= len(part.text)
        elif not left and not (part.id in ids or (ids and part.kind in ("thinking", "plan"))):
            return parts[number:]
        number += 1
    return []


# --- writing --------------------------------------------------------------------------------------


def _pieces(text: str) -> list[str]:
    return [text[i : i + 5] for i in range(0, len(text), 5)] or [""]


def write(wire: str, parts: list[Part], stop: str) -> list[bytes]:
    """A fresh stream of these parts, frame by frame."""
    return list(WRITE[wire](parts, stop))


def _sse(type_: str, **body: Any) -> bytes:
    return f"event: {type_}\ndata: {json.dumps({'type': type_, **body})}\n\n".encode()


def _write_cohere(parts: list[Part], stop: str) -> Iterator[bytes]:
    yield _sse("message-start", id="again", delta={"message": {"role": "assistant"}})
    for number, part in enumerate(parts):
        if part.kind == "plan":
            for text in _pieces(part.text):
                yield _sse("tool-plan-delta", delta={"message": {"tool_plan": text}})
            continue
        family, key = ("tool-call", "tool_calls") if part.kind == "tool_use" else ("content", "")
        key = key or "content"
        start: Json = {"type": part.kind, part.kind: ""}
        if family == "tool-call":
            function = {"name": part.name, "arguments": ""}
            start = {"id": part.id, "type": "function", "function": function}
        yield _sse(f"{family}-start", index=number, delta={"message": {key: start}})
        for text in _pieces(part.text):
            piece: Json = {part.kind: text}
            if family == "tool-call":
                piece = {"function": {"arguments": text}}
            yield _sse(f"{family}-delta", index=number, delta={"message": {key: piece}})
        yield _sse(f"{family}-end", index=number)
    yield _sse("message-end", delta={"finish_reason": stop, "usage": {}})


def _write_ollama(parts: list[Part], stop: str) -> Iterator[bytes]:
    def line(message: Json, done: bool = False) -> bytes:
        body: Json = {"model": "m", "message": {"role": "assistant", "content": "", **message}}
        more = {"done_reason": stop} if done else {}
        return json.dumps({**body, "done": done, **more}).encode() + b"\n"

    for part in parts:
        if part.kind == "tool_use":
            function = {"name": part.name, "arguments": json.loads(part.text)}
            yield line({"tool_calls": [{"function": function}]})
            continue
        for text in _pieces(part.text):
            yield line({"content" if part.kind == "text" else part.kind: text})
    yield line({}, True)


def _write_converse(parts: list[Part], stop: str) -> Iterator[bytes]:
    yield event("messageStart", {"role": "assistant"})
    for number, part in enumerate(parts):
        at = {"contentBlockIndex": number}
        if part.kind in ("tool_use", "server_tool"):
            yield event("contentBlockStart", {**at, "start": part.raw})
        for delta in _converse_deltas(part):
            yield event("contentBlockDelta", {**at, "delta": delta})
        yield event("contentBlockStop", at)
    yield event("messageStop", {"stopReason": stop})
    yield event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1}, "metrics": {}})


def _converse_deltas(part: Part) -> Iterator[Json]:
    if part.kind == "other":
        yield part.raw
    elif "toolResult" in (part.raw or {}):
        yield {"toolResult": [{"text": "found"}]}
    elif part.kind in ("tool_use", "server_tool"):
        yield from ({"toolUse": {"input": text}} for text in _pieces(part.text))
    elif part.kind == "thinking":
        yield from ({"reasoningContent": {"text": text}} for text in _pieces(part.text))
        yield {"reasoningContent": {"signature": part.signature}}
    else:
        yield from ({"text": text} for text in _pieces(part.text))


def _write_invoke(parts: list[Part], stop: str) -> Iterator[bytes]:
    message = {"id": "again", "type": "message", "role": "assistant", "content": []}
    yield chunk({"type": "message_start", "message": message})
    names = {"text": "text", "thinking": "thinking", "tool_use": "partial_json"}
    for number, part in enumerate(parts):
        block: Json = {"type": part.kind, part.kind: ""}
        if part.kind == "tool_use":
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
        yield chunk({"type": "content_block_start", "index": number, "content_block": block})
        kind = "input_json_delta" if part.kind == "tool_use" else f"{part.kind}_delta"
        for text in _pieces(part.text):
            delta = {"type": kind, names[part.kind]: text}
            yield chunk({"type": "content_block_delta", "index": number, "delta": delta})
        if part.signature:
            delta = {"type": "signature_delta", "signature": part.signature}
            yield chunk({"type": "content_block_delta", "index": number, "delta": delta})
        yield chunk({"type": "content_block_stop", "index": number})
    usage = {"output_tokens": 1}
    yield chunk({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": usage})
    yield chunk({"type": "message_stop"})


WRITE: dict[str, Callable[[list[Part], str], Iterator[bytes]]] = {
    "cohere-v2": _write_cohere,
    "ollama": _write_ollama,
    "bedrock-converse": _write_converse,
    "bedrock-invoke": _write_invoke,
}
