"""What the Responses API refuses, as strictly as it is known to.

From the official SDK's types and from error texts that people reported, not from the project: it
imports nothing of it. ``faults`` of a request are the reasons for a 400; none: it is taken.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

__all__ = ["StrictResponses", "type_faults"]

Json = Mapping[str, Any]

#: Per call: the item that answers it, and the key under which that names the call.
ANSWERS = {
    "function_call": ("function_call_output", "call_id", "call_id"),
    "custom_tool_call": ("custom_tool_call_output", "call_id", "call_id"),
    "local_shell_call": ("local_shell_call_output", "id", "call_id"),
    "apply_patch_call": ("apply_patch_call_output", "call_id", "call_id"),
    "computer_call": ("computer_call_output", "call_id", "call_id"),
    "shell_call": ("shell_call_output", "call_id", "call_id"),
    "mcp_approval_request": ("mcp_approval_response", "approval_request_id", "id"),
    "program": ("program_output", "call_id", "call_id"),
}


@dataclass
class StrictResponses:
    """Takes or refuses request bodies.

    ``said``: the output items of each response so far, for what must come back as it was.
    ``broken`` ids are of responses that did not complete.
    """

    said: list[list[Json]] = field(default_factory=list)
    broken: frozenset[str] = frozenset()

    @property
    def _known(self) -> list[Json]:
        return [item for response in self.said for item in response]

    def faults(self, request: Json) -> list[str]:
        """Why it would refuse this request."""
        found = list(self._request(request))
        items = request["input"] if isinstance(request["input"], list) else []
        found += self.history(items)
        return found + list(_unanswered(items))

    def history(self, items: list[Any]) -> list[str]:
        """What is wrong with these items, whoever sends them."""
        found: list[str] = []
        for place, item in enumerate(items):
            where = f"input.{place}"
            found += [f"{where}: {why}" for why in self._item(item)]
            if item.get("type") == "reasoning":
                found += self._reasoning(items, place)
            elif item.get("id") and item["type"] != "reasoning":
                found += self._bound(items, place)
        return found

    def _request(self, request: Json) -> Iterator[str]:
        if not request.get("stream"):
            yield "not a stream"
        if request.get("conversation") and request.get("previous_response_id"):
            yield "previous_response_id cannot be used together with conversation"
        if request.get("previous_response_id") in self.broken:
            yield "previous response not found"
        cap = request.get("max_output_tokens")
        if cap is not None and cap < 16:
            yield "max_output_tokens: integer below minimum value, expected >= 16"
        if request["input"] in ("", []):
            yield "input must not be empty"

    def _item(self, item: Json) -> Iterator[str]:
        kind = item.get("type", "message")
        if kind == "message":
            yield from _message(item)
        elif kind == "function_call":
            given = item["arguments"]
            if not isinstance(_parsed(given), dict) and given not in [
                one.get("arguments") for one in self._known
            ]:
                yield "arguments must be one JSON object"
            if not item.get("call_id") or not item.get("name"):
                yield "a call needs call_id and name"
        elif kind not in (*ANSWERS, "reasoning", *(name for name, _, _ in ANSWERS.values())):
            if self.said and item not in self._known:
                yield f"a {kind} that was not said so"

    def _reasoning(self, items: list[Any], place: int) -> Iterator[str]:
        item = items[place]
        where = f"Item {item.get('id')!r} of type 'reasoning'"
        if "summary" not in item:
            yield f"input.{place}: missing required field `summary`"
        if self.said:
            known = [one for one in self._known if one["type"] == "reasoning"]
            sealed = [one.get("encrypted_content") for one in known]
            if item.get("encrypted_content") not in sealed:
                yield "The encrypted content could not be verified"
        after = items[place + 1] if place + 1 < len(items) else None
        if after is None or not _follows(after):
            yield f"{where} was provided without its required following item."

    def _bound(self, items: list[Any], place: int) -> Iterator[str]:
        """An item that the server knows by its id needs the reasoning that came before it.

        A request for approval has no other name, so it has to come with it.
        """
        item = items[place]
        if item["type"] == "mcp_approval_request":
            return
        for response in self.said:
            ids = [one.get("id") for one in response]
            if item["id"] not in ids:
                continue
            reasons = [
                one["id"] for one in response[: ids.index(item["id"])] if one["type"] == "reasoning"
            ]
            before = [one.get("id") for one in items[:place] if one.get("type") == "reasoning"]
            if reasons and reasons[-1] not in before:
                yield (
                    f"Item {item['id']!r} of type {item['type']!r} was provided without its "
                    f"required 'reasoning' item: {reasons[-1]!r}."
                )


def _follows(item: Json) -> bool:
    """An item that reasoning may stand before: the model's own, and done."""
    kind = item.get("type", "message")
    if kind == "message":
        return bool(item.get("role") == "assistant" and item.get("status") == "completed")
    return kind not in {name for name, _, _ in ANSWERS.values()}


def _message(item: Json) -> Iterator[str]:
    content = item["content"]
    if isinstance(content, str):
        if not content.strip():
            yield "a message without text"
        return
    if not content:
        yield "a message without content"
    assistant = item["role"] == "assistant"
    allowed = (
        ("output_text", "refusal") if assistant else ("input_text", "input_image", "input_file")
    )
    for part in content:
        if part["type"] not in allowed:
            yield f"a part of type {part['type']!r} in a message of {item['role']}"
        elif not str(part.get("text", part.get("refusal", "x"))).strip():
            yield "a part without text"
    if assistant and ("id" in item) is not ("status" in item):
        yield "an output message has id and status, or neither"
    if item.get("status") not in (None, "completed"):
        yield f"a message that is {item['status']}"


def _parsed(arguments: Any) -> Any:
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return None


def _unanswered(items: list[Any]) -> Iterator[str]:
    """Every call is answered somewhere after it; a program may wait for calls of its own."""
    for place, item in enumerate(items):
        if (kind := item.get("type")) not in ANSWERS:
            continue
        answer, key, own = ANSWERS[kind]
        rest = items[place + 1 :]
        if any(one.get("type") == answer and one.get(key) == item.get(own) for one in rest):
            continue
        called = any((one.get("caller") or {}).get("caller_id") == item.get(own) for one in rest)
        if not (kind == "program" and called):
            yield f"No tool output found for {kind} {item.get(own)}."


@cache
def _sdk_type() -> Any:
    try:
        from openai.types.responses.response_input_item_param import ResponseInputItemParam
    except ImportError:
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(ResponseInputItemParam)


def type_faults(items: list[Any]) -> list[str]:
    """What the SDK's own request types say against these items; empty where it is not installed.

    The API takes messages and calls of the local shell without an id (codex sends them so), which
    the SDK's types ask for: it is lent to them.
    """
    from pydantic import ValidationError

    adapter, found = _sdk_type(), []
    for item in items if adapter is not None else ():
        said = item.get("type") == "message" and isinstance(item["content"], list)
        if said or item.get("type") == "local_shell_call":
            item = {"id": "lent", "status": "completed", **item}
        try:
            adapter.validate_python(item)
        except ValidationError as error:
            found.append(f"{item.get('type')}: {error.errors()[0]['msg']} and others")
    return found
