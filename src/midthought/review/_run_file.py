"""Reading a run file: the records of its turns, checked, so that whoever tells of them can rely on
their fields.

A run file may hold several turns and a torn last line; what is whole is used, and what is missing
is said. Knows no policy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["FIELDS", "Run", "RunFileError", "Turn", "read_run", "transitions_of"]

_COMMON = ("turn_id", "attempt", "model", "policy", "policy_digest", "at_s")
_SUMS = ("attempts", "blocks", "output_tokens", "discarded_output_tokens", "late_events")
#: Fields of each record besides the common ones, as docs/records.md lists them.
FIELDS: dict[str, tuple[str, ...]] = {
    "llm_turn_started": ("features",),
    "llm_state_changed": ("source", "trigger", "state"),
    "llm_attempt_ended": (
        "how", "strategy", "stop", "failure", "received", "received_chars", "kept_chars",
    ),
    "llm_turn_finished": ("stop", "reason", *_SUMS),
    "llm_turn_exhausted": ("reason", *_SUMS),
    "llm_stream_aborted": ("cause", "state"),
    "llm_stream_interrupted": (
        "original_attempt", "continuation_attempt", "error_kind", "error_message",
        "committed_text_blocks", "committed_partial_text", "discarded_partial_tool_use",
        "discarded_thinking", "usage_flushed",
    ),
    "llm_recovery_decided": ("state", "rule", "action", "looked_at", "uses", "budgets"),
    "discarded_partial_tool_use": ("tool_name", "partial_input_bytes", "reason"),
    "discarded_partial_thinking": ("thinking_chars", "reason", "rule"),
    "llm_request_retried": ("backoff_s", "rule", "error_kind"),
    "llm_stream_continuation_started": (
        "backoff_s", "strategy", "committed_blocks", "committed_chars",
    ),
    "llm_stream_continuation_completed": ("completion_reason",),
    "llm_stream_continuation_failed": ("error_kind", "error_message"),
    "llm_stream_continuation_exhausted": ("attempts", "final_reason"),
    "llm_seam_joined": ("strategy", "quality", "dropped_chars", "mismatch"),
    "llm_hook_refused": ("rule", "reason"),
}  # fmt: skip


class RunFileError(ValueError):
    """A run file that holds no records."""


class Turn(NamedTuple):
    """The records of one turn, in order."""

    turn_id: str
    records: tuple[Mapping[str, Any], ...]


class Run(NamedTuple):
    """A run file."""

    turns: tuple[Turn, ...]
    torn: bool
    """The last line was not whole; it is left out."""


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run file; raises ``RunFileError`` where there is nothing to read."""
    name = Path(path).name
    lines = _bytes(path).split(b"\n")
    torn = bool(lines.pop().strip())
    turns: dict[str, list[Mapping[str, Any]]] = {}
    for number, line in enumerate(lines, 1):
        if line.strip():
            record = _record(line, f"{name}:{number}")
            turns.setdefault(str(record["turn_id"]), []).append(record)
    if not turns:
        raise RunFileError(f"{name} holds no whole record: was the journal on during a turn?")
    return Run(tuple(Turn(key, tuple(records)) for key, records in turns.items()), torn)


def _bytes(path: str | os.PathLike[str]) -> bytes:
    name = Path(path).name
    try:
        return Path(path).read_bytes()
    except IsADirectoryError:
        raise RunFileError(f"{name} is a folder, expected a run file of JSON Lines") from None
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise RunFileError(f"{name} cannot be read: {said}") from None


def _record(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise RunFileError(f"{where} is no record: expected a line of JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("event"), str):
        raise RunFileError(f"{where} is no record: expected a JSON object with an event")
    missing = [key for key in (*_COMMON, *FIELDS.get(found["event"], ())) if key not in found]
    if missing:
        raise RunFileError(f"{where} is no record: {found['event']} without {', '.join(missing)}")
    if not isinstance(found["at_s"], int | float):
        raise RunFileError(f"{where} is no record: at_s is no number of seconds")
    return found


def transitions_of(turn: Turn) -> list[Mapping[str, str]]:
    """Changes of state of a turn, as records tell them."""
    return [
        {"source": r["source"], "trigger": r["trigger"], "state": r["state"]}
        for r in turn.records
        if r["event"] == "llm_state_changed"
    ]
