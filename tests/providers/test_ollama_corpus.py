"""Every recorded Ollama stream: however it is cut into reads, and against the official SDK."""

from typing import Any

import httpx
import pytest
from anthropic_frames import last, only
from native_reading import cuts, read, reply_of
from native_streams import Stream, each, streams

from midthought.statemachine import StopKnown, Unknown

ollama = pytest.importorskip("ollama")

recorded = each(streams("ollama"))


@recorded
def test_same_events_however_split(stream: Stream) -> None:
    """Whole, byte by byte or line by line: the same events and one ``Finished``, last."""
    whole, *others = [read(stream.policy, chunks, stream.content_type) for chunks in cuts(stream)]

    for events in others:
        assert whole == events
    assert last(whole).failure is None
    assert [] == only(whole, Unknown)


def _sdk(data: bytes) -> dict[str, Any]:
    """What the responses of the official SDK say, put together."""
    said: dict[str, Any] = {"text": "", "thinking": "", "calls": [], "usage": {}}
    transport = httpx.MockTransport(
        lambda request: httpx.Response(
            200, headers={"content-type": "application/x-ndjson"}, content=data
        )
    )
    client = ollama.Client("http://127.0.0.1:11434", transport=transport)
    for piece in client.chat("m", messages=[{"role": "user", "content": "x"}], stream=True):
        said["text"] += piece.message.content or ""
        said["thinking"] += piece.message.thinking or ""
        for call in piece.message.tool_calls or ():
            said["calls"].append((None, call.function.name, dict(call.function.arguments)))
        if piece.done:
            said["stop"] = piece.done_reason
            counts = {"input": piece.prompt_eval_count, "output": piece.eval_count}
            said["usage"] = {key: value for key, value in counts.items() if value is not None}
    client.close()
    return said


@recorded
def test_same_as_the_sdk(stream: Stream) -> None:
    """Text, reasoning, calls, usage and stop are those the SDK reads."""
    events = read(stream.policy, [stream.data], stream.content_type)

    assert _sdk(stream.data) == reply_of(events)


@recorded
def test_a_cut_is_never_a_success(stream: Stream) -> None:
    """Cut anywhere: one ``Finished``, and a failure unless the last line had arrived."""
    for cut in range(0, len(stream.data), max(1, len(stream.data) // 150)):
        events = read(stream.policy, [stream.data[:cut]], stream.content_type)
        assert bool(only(events, StopKnown)) is (last(events).failure is None)
