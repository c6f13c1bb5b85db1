"""Every recorded Anthropic stream: however it is cut into reads, and against the official SDK.

The SDK reads the same bytes through a mock transport. Where it and we differ, ``DIFFERENCES`` says
why; a row that no longer differs fails, so that the list stays true.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic_frames import DIALECT, POLICY, SSE, built, last, only, read, usage_of

from midthought.providers import AttemptReader
from midthought.statemachine import StopKnown, Unknown

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def _streams() -> list[str]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        rows = csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row["file"] for row in rows if row["wire"] == "anthropic"]


STREAMS = _streams()
recorded = pytest.mark.parametrize(
    "stream",
    STREAMS
    or [pytest.param("", marks=pytest.mark.skip(reason="no recorded streams at ../shared/corpus"))],
)


def _cuts(stream: str, data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield [data[i : i + 7] for i in range(0, len(data), 7)]
    sizes = (CORPUS / stream).with_suffix(".splits.json")
    if sizes.exists():
        chunks, position = [], 0
        for size in json.loads(sizes.read_text("utf-8"))["read_sizes"]:
            chunks.append(data[position : position + size])
            position += size
        yield [*chunks, data[position:]]


@recorded
def test_same_events_however_split(stream: str) -> None:
    """Whole, byte by byte or in the real reads: the same events and one ``Finished``, last."""
    data = (CORPUS / stream).read_bytes()
    whole, *others = [read(chunks) for chunks in _cuts(stream, data)]

    for events in others:
        assert whole == events
    last(whole)
    assert [] == only(whole, Unknown)


@recorded
def test_read_is_feed_frame_by_frame(stream: str) -> None:
    """``read`` tells the same events as ``feed`` and gives every byte back in its frames."""
    data = (CORPUS / stream).read_bytes()
    reader = AttemptReader(POLICY, DIALECT, 0)
    events, raw = reader.response(200, SSE), b""
    for chunk in (data[: len(data) // 3], data[len(data) // 3 :]):
        for one, made in reader.read(chunk):
            assert one is not None
            raw += one.raw
            events += made
    events += reader.end()
    raw += reader.tail.raw if reader.tail is not None else b""

    assert read([data]) == events
    assert raw == data[: len(raw)]
    assert b"" == data[len(raw) :].strip()


# Where we differ from what the official SDK accumulates, and why.
DIFFERENCES = {
    "anthropic/claude-3-7-sonnet-incomplete-partial-json-response-anthsdk.sse": (
        "half a tool call; the SDK repairs its arguments, we never keep it"
    ),
    "anthropic/claude-3-haiku-spliced-message-start-vercel.sse": (
        "a second message_start; the SDK glues the two replies, we start anew"
    ),
    "anthropic/claude-fable-5-anthropic-fallback-vercel.sse": (
        "a fallback seam is shown, but is no part of a history"
    ),
    "anthropic/claude-opus-4-7-fallback-response-anthsdk.sse": (
        "a fallback seam is shown, but is no part of a history"
    ),
    "anthropic/claude-opus-4-7-refusal-response-anthsdk.sse": (
        "an empty text block, which a history must not hold"
    ),
}


def _sdk(data: bytes) -> dict[str, Any]:
    """What the official SDK makes of these bytes, as JSON data."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(200, headers=dict(SSE), content=data)
    )
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.Anthropic(
            api_key="none", http_client=http, max_retries=0, base_url="http://127.0.0.1"
        ) as client,
        client.beta.messages.stream(
            model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        ) as stream,
    ):
        message: dict[str, Any] = stream.get_final_message().to_dict()
        return message


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


@recorded
def test_same_as_the_sdk(stream: str) -> None:
    """Text, calls, reasoning, signatures, citations, usage and stop are those the SDK reads."""
    data = (CORPUS / stream).read_bytes()
    events = read([data])
    try:
        theirs = _sdk(data)
    except anthropic.APIStatusError:
        assert last(events).failure is not None
        return
    ours = DIALECT.messages(built(events), POLICY)
    content = ours[0]["content"] if ours else []
    reported = theirs["usage"]
    counters = {
        "input": reported.get("input_tokens"),
        "output": reported.get("output_tokens"),
        "cache_read": reported.get("cache_read_input_tokens"),
        "cache_write": reported.get("cache_creation_input_tokens"),
        "reasoning": (reported.get("output_tokens_details") or {}).get("thinking_tokens"),
    }
    (known,) = only(events, StopKnown)
    assert isinstance(known, StopKnown)

    same = _without_nulls(theirs["content"]) == _without_nulls(content)
    assert same is (stream not in DIFFERENCES)
    assert _without_nulls(counters) == usage_of(events)
    assert theirs["stop_reason"] == known.reason


@recorded
def test_a_cut_never_raises_and_is_never_a_success(stream: str) -> None:
    """Cut anywhere: one ``Finished``, and it is a failure unless the stop reason had arrived."""
    data = (CORPUS / stream).read_bytes()
    step = max(1, len(data) // 150)
    for cut in range(0, len(data), step):
        events = read([data[:cut]])
        stopped = [e for e in only(events, StopKnown) if isinstance(e, StopKnown)]
        finished = last(events)
        if finished.failure is None:
            assert [finished.stop] == [event.stop for event in stopped][-1:]
        else:
            assert not stopped or b"event: error" in data
