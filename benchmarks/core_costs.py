"""What the core costs without any IO: bytes to frames, frames to events, events to effects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from streams import DIALECTS, REQUESTS, chunked, events
from timing import Cost, measure

from midthought import Recovery
from midthought.policies import Policy, Release, load_policy
from midthought.providers import AttemptReader, SSEFramer
from midthought.statemachine import Event

__all__ = ["STAGES", "Case", "core_costs", "start_costs"]

#: In the order of the table.
STAGES = (
    "split + JSON",
    "framing",
    "decoding",
    "reader",
    "machine, live",
    "machine, word",
    "core, live",
    "core, word",
)
_SSE = [("content-type", "text/event-stream")]
_NOW = 1.0


class Case(NamedTuple):
    """What is measured."""

    dialect: str
    per_chunk: int
    stage: str


def core_costs(tokens: int, rounds: int) -> dict[Case, Cost]:
    """Microseconds per event of every stage."""
    cases = {
        Case(dialect, per_chunk, stage): work
        for dialect in DIALECTS
        for per_chunk in (1, 8)
        for stage, work in _stages(dialect, chunked(events(dialect, tokens), per_chunk)).items()
    }
    return measure(cases, rounds=rounds, units=tokens)


def start_costs(rounds: int) -> dict[str, Cost]:
    """Microseconds to begin a turn: the machine made, its first request ordered."""

    def start(policy: Policy, dialect: str) -> Callable[[], object]:
        return lambda: Recovery(policy, REQUESTS[dialect]).start(_NOW)

    cases = {dialect: start(load_policy(dialect), dialect) for dialect in DIALECTS}
    return measure(cases, rounds=rounds, units=1, repeat=200)


def _stages(dialect: str, chunks: list[bytes]) -> dict[str, Callable[[], object]]:
    live, word = _policy(dialect, "live"), _policy(dialect, "word")
    machine = Recovery(live, REQUESTS[dialect])
    framer, reader = SSEFramer(), machine.reader(0)
    frames = [framer.feed(chunk) for chunk in chunks]
    read = [reader.response(200, _SSE), *map(reader.feed, chunks)]

    def framing() -> None:
        feed = SSEFramer().feed
        for chunk in chunks:
            feed(chunk)

    def decoding() -> None:
        decode = machine.dialect.decoder(live, 0).decode
        for group in frames:
            out: list[Event] = []
            for frame in group:
                decode(frame, out)

    def reading() -> None:
        feed = _opened(machine.reader(0)).feed
        for chunk in chunks:
            feed(chunk)

    return {
        "split + JSON": lambda: _split(chunks),
        "framing": framing,
        "decoding": decoding,
        "reader": reading,
        "machine, live": lambda: _machine(live, dialect, read),
        "machine, word": lambda: _machine(word, dialect, read),
        "core, live": lambda: _core(live, dialect, chunks),
        "core, word": lambda: _core(word, dialect, chunks),
    }


def _policy(dialect: str, release: Release) -> Policy:
    """The shipped policy, with text released as said whatever the model."""
    policy = load_policy(dialect)
    text = policy.blocks.text.model_copy(update={"release": release})
    strategies = {"strategies": ("prefill",)} if release == "live" else {}
    return policy.model_copy(
        update={
            "blocks": policy.blocks.model_copy(update={"text": text}),
            "continuation": policy.continuation.model_copy(update=strategies),
            "models": (),
        }
    )


def _opened(reader: AttemptReader) -> AttemptReader:
    reader.response(200, _SSE)
    return reader


def _split(chunks: Iterable[bytes]) -> None:
    """The least that anybody does who reads such a stream by hand."""
    rest = b""
    for chunk in chunks:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            for line in frame.split(b"\n"):
                if line.startswith(b"data: ") and line != b"data: [DONE]":
                    json.loads(line[6:])


def _machine(policy: Policy, dialect: str, read: list[list[Event]]) -> None:
    machine = Recovery(policy, REQUESTS[dialect])
    machine.start(_NOW)
    for group in read:
        machine.feed_all(group, _NOW)
    assert machine.done


def _core(policy: Policy, dialect: str, chunks: list[bytes]) -> None:
    machine = Recovery(policy, REQUESTS[dialect])
    machine.start(_NOW)
    reader = machine.reader(0)
    machine.feed_all(reader.response(200, _SSE), _NOW)
    for chunk in chunks:
        machine.feed_all(reader.feed(chunk), _NOW)
    assert machine.done
