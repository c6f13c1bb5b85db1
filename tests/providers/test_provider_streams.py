"""Every recorded Chat stream, read under its own provider's policy.

What a stream says is read a second time by the tests' own reader. Mistral's SDK reads its streams
in test_mistral_sdk; cuts are in tests/promises/test_cut_under_providers.py.
"""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
from chat_sayings import policy_of, read, said_by, said_in, shipped
from lanes import overlay
from provider_lanes import POLICY_OF
from recordings import CORPUS, Recording, each_recording, recordings
from reply_parts import HIDDEN

from midthought.policies import Stop
from midthought.statemachine import BlockClosed, BlockStarted, Event, Finished, StopKnown

RECORDINGS = recordings("openai-chat")
STOPS = {
    "stop": Stop.end,
    "tool_calls": Stop.tool_use,
    "function_call": Stop.tool_use,
    "length": Stop.length,
    "content_filter": Stop.safety,
}
#: Streams that end in an error or break off, and what they are.
BROKEN = {
    "composite/openrouter-midstream-finish-error.sse": ("openrouter", "server_error"),
    "openrouter/llama-3.3-70b-instruct-free-object-streaming-reqllm.sse": (
        "openrouter",
        "server_error",
    ),
    "other/gpustack-with-extended-thinking-gpustack-qwen3-streams-thinking-conte-rubyllm.sse": (
        "openai-compatible",
        "server_error",
    ),
}
FILTERED = "composite/azure-deepseek-content-filter-no-done.sse"


def finished(events: list[Event]) -> Finished:
    """The one end of the attempt."""
    (found,) = [event for event in events if isinstance(event, Finished)]
    assert found is events[-1]
    return found


@each_recording(RECORDINGS)
def test_complete(recording: Recording) -> None:
    """A complete recording completes with its stop, and says what it says, call by call."""
    policy = policy_of(recording.provider, recording.model)
    events = read(policy, recording.data, recording.reply.choices)

    stop = STOPS[recording.reply.stop or ""]
    says = said_in(recording.data)
    if says.calls and stop is Stop.end:
        stop = Stop.tool_use
    assert (stop, None) == (finished(events).stop, finished(events).failure)
    assert says == said_by(events)
    closed = {event.index for event in events if isinstance(event, BlockClosed)}
    assert {event.index for event in events if isinstance(event, BlockStarted)} == closed


def _body(name: str) -> bytes:
    path = CORPUS / name
    if not path.is_file():
        pytest.skip("the recorded streams are not beside the project")
    return path.read_bytes()


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str) -> None:
    """A stream that ends in an error fails, as what it is, whatever end marker comes after it."""
    policy, kind = BROKEN[name]
    end = finished(read(shipped(policy), _body(name)))

    assert (Stop.error, kind) == (end.stop, end.failure and end.failure.kind)


def test_filtered_without_an_end_marker() -> None:
    """A finish reason completes a reply though no [DONE] comes; a filter's is a safety stop."""
    end = finished(read(shipped("azure-openai"), _body(FILTERED)))

    assert (Stop.safety, None) == (end.stop, end.failure)


def test_every_stream_is_listed() -> None:
    """What is not complete is in a table above, and every provider has a policy."""
    if not CORPUS.is_dir():
        pytest.skip("the recorded streams are not beside the project")
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = [row for row in table if row["wire"] == "openai-chat"]

    assert {row["file"] for row in rows if row["status"] != "complete"} == {*BROKEN, FILTERED}
    assert {row["provider"] for row in rows} == {*POLICY_OF}


# --- finish reasons that are failures -------------------------------------------------------------

FAILING = {
    "mistral": ("error", "server_error"),
    "openrouter": ("error", "server_error"),
    "zai": ("network_error", "server_error"),
    "deepseek": ("insufficient_system_resource", "overloaded"),
    "vllm": ("abort", "server_error"),
    "sglang": ("abort", "server_error"),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing_finish_reason(name: str) -> None:
    """A reason that says that the server broke ends the attempt as that, behind any text."""
    reason, kind = FAILING[name]
    chunks: list[dict[str, Any]] = [
        {"index": 0, "delta": {"role": "assistant", "content": "Once upon"}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": reason},
    ]
    lines = [b"data: " + json.dumps({"id": "c", "choices": [c]}).encode() for c in chunks]
    events = read(shipped(name), b"\n\n".join([*lines, b"data: [DONE]", b""]))

    end = finished(events)
    assert (Stop.error, kind) == (end.stop, end.failure and end.failure.kind)
    assert not any(isinstance(event, StopKnown) for event in events)
    assert "Once upon" == said_by(events).text


# --- reasoning that comes as text -----------------------------------------------------------------

TAGS = '[blocks.thinking]\ntags = ["<think>", "</think>"]'
THOUGHTFUL = [
    recording
    for recording in RECORDINGS
    if [part.kind for part in recording.reply.parts[:2]] == ["thinking", "text"]
    and recording.reply.choices == 1
    and not any(part.kind in HIDDEN for part in recording.reply.parts[1:])
]


def tagged(recording: Recording, size: int) -> bytes:
    """The reply as a server without a reasoning parser sends it, in pieces of ``size``."""
    thinking, text = recording.reply.parts[:2]
    said = f"<think>{thinking.text}</think>{text.text}"
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in pieces]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join(lines).encode()


@each_recording(THOUGHTFUL)
def test_tags(recording: Recording) -> None:
    """Where a policy names tags, what stands between them is thinking, however it is cut up."""
    thinking, text = recording.reply.parts[:2]
    for size in (1, 5, 7, 1000):
        says = said_by(read(overlay("lmstudio", TAGS), tagged(recording, size)))
        assert (text.text, thinking.text) == (says.text, says.thinking)


@each_recording(THOUGHTFUL)
def test_tags_at_a_cut(recording: Recording) -> None:
    """Cut inside the tags, nothing of the thinking was ever shown as text."""
    body = tagged(recording, 4)
    for at in range(0, len(body), 97):
        events = read(overlay("lmstudio", TAGS), body[:at])
        says = said_by(events)
        assert recording.reply.parts[1].text.startswith(says.text)
        assert recording.reply.parts[0].text.startswith(says.thinking)
