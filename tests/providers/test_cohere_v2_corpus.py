"""Every recorded Cohere stream: however it is cut into reads, and against the official SDK."""

import json
import warnings
from typing import Any

import httpx
import pytest
from anthropic_frames import last, only
from native_reading import cuts, read, reply_of
from native_streams import Stream, each, streams

from midthought.statemachine import BlockDelta, StopKnown, Unknown

cohere = pytest.importorskip("cohere")

recorded = each(streams("cohere-v2"))


@recorded
def test_same_events_however_split(stream: Stream) -> None:
    """Whole, byte by byte or frame by frame: the same events and one ``Finished``, last."""
    whole, *others = [read(stream.policy, chunks, stream.content_type) for chunks in cuts(stream)]

    for events in others:
        assert whole == events
    assert last(whole).failure is None
    assert [] == only(whole, Unknown)


def _sdk(data: bytes) -> dict[str, Any]:
    """What the events of the official SDK say, put together."""
    said: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "citations": []}
    transport = httpx.MockTransport(
        lambda request: httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=data
        )
    )
    with warnings.catch_warnings(), httpx.Client(transport=transport) as http:
        warnings.simplefilter("ignore")  # the SDK's own
        client = cohere.ClientV2("none", base_url="http://127.0.0.1", httpx_client=http)
        messages = [{"role": "user", "content": "x"}]
        for event in client.chat_stream(model="command-a", messages=messages):
            _take(said, event)
    said["calls"] = [(i, name, json.loads(text)) for i, name, text in said["calls"]]
    return said


def _take(said: dict[str, Any], event: Any) -> None:
    match event.type:
        case "content-start" | "content-delta":
            content = event.delta.message.content
            said["text"] += content.text or ""
            said["thinking"] += content.thinking or ""
        case "tool-plan-delta":
            said["thinking"] += event.delta.message.tool_plan
        case "tool-call-start":
            call = event.delta.message.tool_calls
            said["calls"].append([call.id, call.function.name, call.function.arguments or ""])
        case "tool-call-delta":
            said["calls"][event.index][2] += event.delta.message.tool_calls.function.arguments
        case "citation-start":
            said["citations"].append(event.delta.message.citations.text)
        case "message-end":
            said["stop"] = event.delta.finish_reason
            usage = event.delta.usage
            said["usage"] = {
                "input": usage.tokens.input_tokens,
                "output": usage.tokens.output_tokens,
                "cache_read": usage.cached_tokens,
            }


@recorded
def test_same_as_the_sdk(stream: Stream) -> None:
    """Text, reasoning, calls, citations, usage and stop are those the SDK reads."""
    events = read(stream.policy, [stream.data], stream.content_type)
    ours, theirs = reply_of(events), _sdk(stream.data)
    cited = [e for e in only(events, BlockDelta) if isinstance(e, BlockDelta)]
    ours["citations"] = [json.loads(e.text)["text"] for e in cited if e.field == "citation"]
    ours["usage"].pop("reasoning", None)  # the SDK's type has no name for it

    assert theirs == ours


@recorded
def test_a_cut_is_never_a_success(stream: Stream) -> None:
    """Cut anywhere: one ``Finished``, and a failure unless the stop reason had arrived."""
    for cut in range(0, len(stream.data), max(1, len(stream.data) // 150)):
        events = read(stream.policy, [stream.data[:cut]], stream.content_type)
        assert bool(only(events, StopKnown)) is (last(events).failure is None)
