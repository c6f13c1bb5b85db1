"""The evidence of a turn in a run file: names, fields, and nothing of what was said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hosts import HOSTS, Host, play
from lanes import HURRY, overlay
from scripted import ANTHROPIC, CHAT, WIRES, Wire

from midthought import journal
from midthought.testing import Attempt, FaultyUpstream

each_host = pytest.mark.parametrize("host", HOSTS)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

FIRST = ("Once upon ", "a time there ", "was a ")
SECRET = "a-very-secret-key"
PROMPT = "tell me about the heron"
COMMON = {
    "event",
    "run_id",
    "turn_id",
    "attempt",
    "provider",
    "model",
    "policy",
    "policy_digest",
    "time",
}
#: Fields of the records that a cut makes.
FIELDS = {
    "llm_stream_interrupted": {
        "original_attempt",
        "continuation_attempt",
        "error_kind",
        "error_message",
        "committed_text_blocks",
        "committed_partial_text",
        "discarded_partial_tool_use",
        "discarded_thinking",
        "usage_flushed",
    },
    "llm_stream_continuation_started": {"backoff_s", "strategy", "committed_blocks"},
    "llm_stream_continuation_completed": {"completion_reason"},
    "llm_stream_continuation_failed": {"error_kind", "error_message"},
    "llm_stream_continuation_exhausted": {"attempts", "final_reason"},
    "discarded_partial_tool_use": {"tool_name", "partial_input_bytes", "reason"},
}


def _records(
    path: Path, host: Host, wire: Wire, attempts: list[Attempt]
) -> list[Mapping[str, Any]]:
    request = {**wire.request, "messages": [{"role": "user", "content": PROMPT}]}
    with FaultyUpstream(attempts) as upstream, journal.write_to(path):
        play(host, overlay(wire.policy, HURRY), upstream.url, request, api_key=SECRET)
    return list(journal.read(path))


def _cut(*pieces: bytes) -> Attempt:
    return Attempt([b"".join(pieces), {"fault": "fin"}])


@each_host
@each_wire
def test_every_record_of_a_continuation(tmp_path: Path, host: Host, wire: Wire) -> None:
    """A turn that is cut twice and healed, and one that is not: all records, with their fields.

    Every continuation ends in exactly one of completed and failed.
    """
    half = wire.call("c1", "note", '{"x":"ha', closed=False, index=1 if wire is ANTHROPIC else 0)
    broken = _cut(wire.start, wire.text(*FIRST, closed=wire is ANTHROPIC), half)
    healed = _records(
        tmp_path / "healed.jsonl", host, wire, [broken, _cut(wire.start), _whole(wire)]
    )
    exhausted = _records(tmp_path / "exhausted.jsonl", host, wire, [broken, _cut(wire.start)])
    assert _names(healed) == {
        "llm_stream_interrupted": 2,
        "llm_stream_continuation_started": 2,
        "llm_stream_continuation_failed": 1,
        "llm_stream_continuation_completed": 1,
        "discarded_partial_tool_use": 1,
    }
    assert _names(exhausted) == {
        "llm_stream_interrupted": 6,
        "llm_stream_continuation_started": 5,
        "llm_stream_continuation_failed": 5,
        "llm_stream_continuation_exhausted": 1,
        "discarded_partial_tool_use": 1,
    }
    for record in healed + exhausted:
        fields = FIELDS.get(record["event"], set())
        assert set(record) >= COMMON | fields, record["event"]
        if record["event"] == "discarded_partial_tool_use":
            assert set(record) - COMMON - {"at_s"} == fields
            assert record["tool_name"] == "note"
            assert record["partial_input_bytes"] == len('{"x":"ha')
            assert record["reason"] == "sse_transport_error"


def _whole(wire: Wire) -> Attempt:
    return Attempt([wire.reply("dragon who kept bees.")])


def _names(records: list[Mapping[str, Any]]) -> dict[str, int]:
    names = [record["event"] for record in records if record["event"] in FIELDS]
    return {name: names.count(name) for name in names}


@each_host
def test_numbers_are_those_of_the_wire(tmp_path: Path, host: Host) -> None:
    """What the records count is what was there."""
    begun = CHAT.start + CHAT.text(*FIRST)
    records = _records(tmp_path / "run.jsonl", host, CHAT, [_cut(begun), _whole(CHAT)])
    by_name = {record["event"]: record for record in records}
    interrupted = by_name["llm_stream_interrupted"]
    assert interrupted["original_attempt"] == 0
    assert interrupted["error_kind"] == "sse_transport"
    assert interrupted["committed_text_blocks"] == 1
    assert interrupted["committed_partial_text"] == len("".join(FIRST))
    assert interrupted["discarded_partial_tool_use"] == 0
    started = by_name["llm_stream_continuation_started"]
    assert started["attempt"] == 1
    assert started["backoff_s"] == 0.001
    assert started["strategy"] == "instruct"
    assert started["committed_blocks"] == ["text"]
    assert by_name["llm_stream_continuation_completed"]["completion_reason"] == "end"
    assert {record["turn_id"] for record in records} == {interrupted["turn_id"]}


@each_host
@each_wire
def test_nothing_that_was_said(tmp_path: Path, host: Host, wire: Wire) -> None:
    """No prompt, no completion and no key is in a run file, whatever broke."""
    path = tmp_path / "run.jsonl"
    unwell = json.dumps({"error": {"type": "api_error", "message": f"broken: Bearer {SECRET}"}})
    attempts = [
        Attempt(status=500, framing="length", body=unwell),
        _cut(wire.start, wire.text(*FIRST, closed=False)),
        Attempt([wire.start + wire.text("dragon ", closed=False) + wire.overloaded]),
        Attempt([wire.reply("who kept ", "bees.")]),
    ]
    records = _records(path, host, wire, attempts)
    assert records[-1]["event"] == "llm_turn_finished"
    written = path.read_text("utf-8").lower()
    for word in (SECRET, "heron", "once", "dragon", "bees"):
        assert word not in written, word
