"""Run files of real turns: a broken upstream on a socket, the client, the journal."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hosts import play
from lanes import HURRY, overlay
from scripted import ANTHROPIC, CHAT, Wire

from midthought import journal
from midthought.policies import Policy
from midthought.testing import Attempt, FaultyUpstream

__all__ = ["NAMES", "Told", "recorded"]

FIRST = ("Once upon ", "a time there ", "was a ")
REST = ("dragon who ", "kept bees.")
TWICE = "[limits]\nattempts = 2\n"
SHRINK = """
[[rules.prepend]]
name = "shrink"
on = { failure = ["context_overflow"] }
action = "compact"
limit = 1
"""


class Told(NamedTuple):
    """A turn: what is said of it, and with what policy it ran."""

    name: str
    policy: Policy
    data: bytes
    """The run file."""

    @property
    def records(self) -> list[dict[str, Any]]:
        """Its records."""
        return [json.loads(line) for line in self.data.splitlines()]


def cut(*pieces: bytes) -> Attempt:
    """A stream that breaks off."""
    return Attempt([b"".join(pieces), {"fault": "fin"}])


def refused(status: int, kind: str, **headers: str) -> Attempt:
    """An answer that is no stream."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": f"{kind} it is"}})
    sent = {"content-type": "application/json", **headers}
    return Attempt(status=status, framing="length", body=body, headers=sent)


def _turns(wire: Wire) -> dict[str, tuple[list[Attempt], str]]:
    """Name -> what upstream does, and lines laid over the policy."""
    first = wire.text(*FIRST, closed=wire is ANTHROPIC)
    broken = cut(wire.start, wire.text(*FIRST, closed=False))
    whole = Attempt([wire.reply(*REST)])
    place = 1 if wire is ANTHROPIC else 0
    half = wire.call("c1", "note", '{"x":"ha', closed=False, index=place)
    call = wire.call("c1", "note", '{"x":1}', index=place)
    busy = refused(529, "overloaded_error", **{"retry-after": "0.01"})
    full = refused(400, "invalid_request_error")
    long = json.dumps({"error": {"type": "invalid_request_error", "message": _TOO_LONG}})
    return {
        "nothing breaks": ([whole], ""),
        "cut in text": ([broken, whole], ""),
        "cut twice": ([broken, cut(wire.start, wire.text("dragon ", closed=False)), whole], ""),
        "cut in a call": ([cut(wire.start, first, half), whole], ""),
        "cut after a call": ([cut(wire.start, first, call)], ""),
        "cut in thinking": ([cut(wire.start, wire.thinking("hm", "m", closed=False)), whole], ""),
        "cut before output": ([cut(wire.start), whole], ""),
        "overloaded, then cut": ([busy, broken, whole], ""),
        "busy in the stream": (
            [Attempt([wire.start + wire.text(*FIRST, closed=False) + wire.overloaded]), whole],
            "",
        ),
        "cut until given up": ([broken], TWICE),
        "not allowed": ([refused(401, "authentication_error")], ""),
        "refused": ([full], ""),
        "too long, not shrunk": (
            [Attempt(status=400, framing="length", body=long, headers=_JSON)],
            SHRINK,
        ),
        "length": ([Attempt([wire.start + first + wire.end("length")])], ""),
        "cancelled": ([broken, whole], ""),
    }


_JSON = {"content-type": "application/json"}
_TOO_LONG = "prompt is too long: 210000 tokens > 200000 maximum"
NAMES = [f"{wire.name}: {name}" for wire in (ANTHROPIC, CHAT) for name in _turns(wire)]


@functools.cache
def recorded(name: str) -> Told:
    """Run the turn of this name once, and read what the journal wrote."""
    wire = ANTHROPIC if name.startswith("anthropic") else CHAT
    attempts, laid_over = _turns(wire)[name.split(": ")[1]]
    policy = overlay(wire.policy, HURRY + laid_over)
    settings: dict[str, Any] = {"hooks": {"compact": _no_shrinking}} if "shrunk" in name else {}
    if name.endswith("cancelled"):
        settings["each"] = _cancels
    with tempfile.TemporaryDirectory() as folder, FaultyUpstream(attempts) as upstream:
        path = Path(folder, "run.jsonl")
        with journal.write_to(path):
            play("sync", policy, upstream.url, wire.request, **settings)
        return Told(name, policy, path.read_bytes())


def _no_shrinking(kind: str, request: Mapping[str, Any]) -> None:
    return None


def _cancels(event: Any, stream: Any) -> bool:
    if type(event).__name__ == "StateChanged" and event.state == "backoff":
        stream.cancel()
    return True
