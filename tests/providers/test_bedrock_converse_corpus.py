"""Every recorded Bedrock stream: however it is cut into reads, and against botocore and the SDK.

botocore reads the same messages with the service's own model. It reads ConverseStream; events that
came inside ``chunk`` (Nova over InvokeModel) are shown to it in messages of their own.
"""

import json
from typing import Any

import pytest
from anthropic_frames import last, only
from aws_messages import event
from native_reading import calls_of, cuts, read, reply_of
from native_streams import Stream, each, streams

from midthought.statemachine import StopKnown, Unknown

botocore = pytest.importorskip("botocore")

recorded = each(streams("bedrock-converse"))
both = each(streams("bedrock-converse", "bedrock-invoke"))


@both
def test_same_events_however_split(stream: Stream) -> None:
    """Whole, byte by byte or message by message: the same events and one ``Finished``, last."""
    whole, *others = [read(stream.policy, chunks, stream.content_type) for chunks in cuts(stream)]

    for events in others:
        assert whole == events
    assert last(whole).failure is None
    assert [] == only(whole, Unknown)


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> list[bytes]:
        """Reads of the body."""
        return [self._data[i : i + 100] for i in range(0, len(self._data), 100)]

    def close(self) -> None:
        """Nothing is open."""


def _botocore(data: bytes) -> list[dict[str, Any]]:
    """The events as botocore's parser tells them."""
    from botocore.eventstream import EventStream
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.parsers import EventStreamJSONParser

    service = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    shape = service.shape_for("ConverseStreamOutput")
    return list(EventStream(_Raw(data), shape, EventStreamJSONParser(), "ConverseStream"))


def _put_together(events: list[dict[str, Any]]) -> dict[str, Any]:
    said: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "usage": {}}
    calls: dict[int, list[Any]] = {}
    for one in events:
        if start := one.get("contentBlockStart", {}).get("start", {}).get("toolUse"):
            number = one["contentBlockStart"]["contentBlockIndex"]
            calls[number] = [start["toolUseId"], start["name"], ""]
        if found := one.get("contentBlockDelta"):
            delta = found["delta"]
            said["text"] += delta.get("text", "")
            reasoning = delta.get("reasoningContent", {})
            said["thinking"] += reasoning.get("text", "")
            said["signature"] += reasoning.get("signature", "")
            if "toolUse" in delta:
                calls[found["contentBlockIndex"]][2] += delta["toolUse"]["input"]
        if stop := one.get("messageStop"):
            said["stop"] = stop["stopReason"]
        if usage := one.get("metadata", {}).get("usage"):
            said["usage"] = {"input": usage["inputTokens"], "output": usage["outputTokens"]}
    said["calls"] = [(i, name, json.loads(text)) for i, name, text in calls.values()]
    return said


@recorded
def test_same_as_botocore(stream: Stream) -> None:
    """Text, reasoning, signature, calls, usage and stop are those botocore's parser reads."""
    from anthropic_frames import built

    known = [(n, v) for b in stream.bodies for n, v in b.items() if not n.startswith("amazon-")]
    theirs = _put_together(_botocore(b"".join(event(name, value) for name, value in known)))
    events = read(stream.policy, [stream.data], stream.content_type)
    ours = reply_of(events)
    ours["calls"] = sorted(ours["calls"] + calls_of(events, "server_tool"))
    ours["signature"] = "".join(block.signature or "" for block in built(events))
    ours["usage"] = {key: ours["usage"][key] for key in ("input", "output")}

    assert {**theirs, "calls": sorted(theirs["calls"])} == ours


@both
def test_a_cut_is_never_a_success(stream: Stream) -> None:
    """Cut anywhere: one ``Finished``, and a failure unless the stop reason had arrived."""
    for cut in range(0, len(stream.data), max(1, len(stream.data) // 150)):
        events = read(stream.policy, [stream.data[:cut]], stream.content_type)
        assert bool(only(events, StopKnown)) is (last(events).failure is None)
