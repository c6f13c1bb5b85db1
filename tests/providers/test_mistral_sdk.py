"""Mistral's own SDK as the second reader: of its recorded streams, and of our requests to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from chat_sayings import Said, policy_of, read, said_by
from provider_lanes import provider_lane, run_under_provider
from recordings import ABSENT, Recording, each_recording, recordings

from midthought.statemachine import StopKnown, UsageReported

RECORDINGS = recordings("openai-chat")
PLAIN = [r for r in RECORDINGS if {part.kind for part in r.reply.parts} == {"text"}]

Read = tuple[Said, str | None, tuple[int | None, int | None] | None]


def by_mistral(body: bytes) -> Read:
    """What the SDK reads from these bytes through a mock transport; it accumulates nothing."""
    httpx = pytest.importorskip("httpx")
    client = pytest.importorskip("mistralai.client")

    def answer(request: Any) -> Any:
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    says = {"text": "", "thinking": ""}
    reason, usage = None, None
    calls: list[list[str]] = []
    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        sdk = client.Mistral(api_key="none", client=http, server_url="http://127.0.0.1")
        messages = [{"role": "user", "content": "go"}]
        with sdk.chat.stream(model="m", messages=messages) as events:
            for event in events:
                told = event.data.usage
                usage = (told.prompt_tokens, told.completion_tokens) if told else usage
                for choice in event.data.choices:
                    reason = choice.finish_reason or reason
                    for kind, text in _pieces(choice.delta.content):
                        says[kind] += text
                    for call in choice.delta.tool_calls or ():
                        if call.id != "null":  # its word for an id that did not come
                            calls.append([call.function.name, ""])
                        calls[-1][1] += call.function.arguments
    made: list[tuple[str | None, Any]] = [(name, json.loads(text)) for name, text in calls]
    return Said(says["text"], says["thinking"], "", made), reason, usage


def _pieces(content: Any) -> Iterator[tuple[str, str]]:
    for part in [content] if isinstance(content, str) else content or ():
        if isinstance(part, str):
            yield "text", part
        elif part.type == "text":
            yield "text", part.text
        else:
            assert part.type == "thinking"
            yield "thinking", "".join(piece.text for piece in part.thinking)


@each_recording([recording for recording in RECORDINGS if recording.provider == "mistral"])
def test_equal_to_mistrals_sdk(recording: Recording) -> None:
    """Text, thinking, calls, finish reason and usage are those that Mistral's SDK reads."""
    events = read(policy_of("mistral", recording.model), recording.data)
    reason = [event.reason for event in events if isinstance(event, StopKnown)][-1]
    told = [event.usage for event in events if isinstance(event, UsageReported)][-1]

    assert by_mistral(recording.data) == (said_by(events), reason, (told.input, told.output))


@pytest.mark.skipif(not PLAIN, reason=ABSENT)
@pytest.mark.parametrize(
    ("model", "role"), [("mistral-large-latest", "assistant"), ("magistral-medium-latest", "user")]
)
def test_continuation_in_mistrals_types(model: str, role: str) -> None:
    """A continuation is a request of Mistral's SDK: every field of it is one of the SDK's own."""
    models = pytest.importorskip("mistralai.client.models")
    lane = provider_lane(PLAIN[3], "mistral", model=model)
    body = run_under_provider(PLAIN[3], lane, [0.7]).ran.sent[-1].body

    request = models.ChatCompletionStreamRequest.model_validate(body)

    assert body.keys() <= models.ChatCompletionStreamRequest.model_fields.keys()
    assert role == request.messages[-1].role
    assert (role == "assistant") is (body["messages"][-1].get("prefix") is True)
