"""What Bedrock's Converse refuses: botocore's model of the service, and what Claude wants of it.

Imports nothing of the project.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from strict_provider import can_prefill

__all__ = ["converse_faults"]

Json = Mapping[str, Any]


@functools.cache
def _shape() -> Any:
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    service = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return service.shape_for("ConverseStreamRequest")


def converse_faults(request: Json, model: str) -> list[str]:
    """Why it would refuse this body, sent to this model's path."""
    from botocore.validate import ParamValidator

    report = ParamValidator().validate({"modelId": model, **request}, _shape())
    found = [report.generate_report()] if report.has_errors() else []
    return [*found, *_faults(request, model)]


def _faults(request: Json, model: str) -> Iterator[str]:
    messages = request["messages"]
    if extra := {"model", "modelId", "stream"} & set(request):
        yield f"{sorted(extra)} are not in the body"
    if messages[0]["role"] != "user":
        yield "a conversation must start with a user message"
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if number and message["role"] == messages[number - 1]["role"]:
            yield f"{where}: roles must alternate"
        if not message["content"]:
            yield f"{where}: content is empty"
        for block in message["content"]:
            if "text" in block and not block["text"].strip():
                yield f"{where}: text must contain non-whitespace text"
        yield from _reasoning(message["content"], where)
        yield from _pairs(messages, number, where)
    if messages[-1]["role"] == "assistant":
        yield from _trailing(request, messages[-1]["content"][-1], model)
    cap = (request.get("inferenceConfig") or {}).get("maxTokens", 1)
    thinking = (request.get("additionalModelRequestFields") or {}).get("thinking") or {}
    if cap < 1 or (thinking.get("budget_tokens") or 0) >= max(cap, 1) > 1:
        yield "maxTokens must be above the thinking budget"


def _reasoning(content: Any, where: str) -> Iterator[str]:
    reasons = ["reasoningContent" in block for block in content]
    if any(reasons) and not reasons[0]:
        yield f"{where}: the first block must be thinking"
    if reasons[-1]:
        yield f"{where}: the final block cannot be thinking"
    for block in content:
        text = block.get("reasoningContent", {}).get("reasoningText")
        if text is not None and not text.get("signature"):
            yield f"{where}: thinking without a signature"


def _trailing(request: Json, last: Json, model: str) -> Iterator[str]:
    if not can_prefill(model.partition("anthropic.")[2]):
        yield "this model does not support assistant message prefill"
    more = request.get("additionalModelRequestFields") or {}
    if more.get("thinking") or request.get("toolConfig") or request.get("outputConfig"):
        yield "thinking, tools and formats do not go with a prefill"
    if "text" in last and last["text"] != last["text"].rstrip():
        yield "final assistant content cannot end with trailing whitespace"


def _pairs(messages: Any, number: int, where: str) -> Iterator[str]:
    """Calls are answered in the next user message; the provider's own stand in one message."""
    content = messages[number]["content"]
    own = [b["toolUse"]["toolUseId"] for b in content if b.get("toolUse", {}).get("type")]
    used = [b["toolUse"]["toolUseId"] for b in content if "toolUse" in b]
    given = [b["toolResult"]["toolUseId"] for b in content if "toolResult" in b]
    if messages[number]["role"] == "user":
        return
    if sorted(own) != sorted(given):
        yield f"{where}: a server tool and its result stand together"
    following = messages[number + 1]["content"] if number + 1 < len(messages) else []
    answered = [b["toolResult"]["toolUseId"] for b in following if "toolResult" in b]
    if sorted(set(used) - set(own)) != sorted(answered):
        yield f"{where}: tool use without tool result immediately after"
