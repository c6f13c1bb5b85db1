"""The story of a recorded turn, told from its records alone: events, states, rules, budgets,
blocks, seams.

A run file may hold several turns and a torn last line; what is whole is used, and what is missing
is said.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Run", "RunFileError", "Turn", "read_run", "tell", "tell_html", "transitions_of"]


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
    try:
        raw = Path(path).read_bytes()
    except IsADirectoryError:
        raise RunFileError(f"{name} is a folder, expected a run file of JSON Lines") from None
    except OSError as error:
        raise RunFileError(f"{name} cannot be read: {error.strerror}") from None
    lines = raw.split(b"\n")
    torn = bool(lines.pop().strip())
    turns: dict[str, list[Mapping[str, Any]]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _record(line)
        if record is None:
            raise RunFileError(
                f"{name}:{number} is no record: expected JSON with event and turn_id"
            )
        turns.setdefault(str(record["turn_id"]), []).append(record)
    if not turns:
        raise RunFileError(f"{name} holds no whole record: was the journal on during a turn?")
    return Run(tuple(Turn(key, tuple(records)) for key, records in turns.items()), torn)


def _record(line: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or "event" not in found or "turn_id" not in found:
        return None
    return found


def transitions_of(turn: Turn) -> list[Mapping[str, str]]:
    """Changes of state of a turn, as records tell them."""
    return [
        {"source": r["source"], "trigger": r["trigger"], "state": r["state"]}
        for r in turn.records
        if r["event"] == "llm_state_changed"
    ]


def tell(turn: Turn) -> str:
    """The story as plain text."""
    first = turn.records[0]
    head = [
        f"turn {turn.turn_id}",
        f"policy {first['policy']} ({first['policy_digest']}), model {first['model']}",
        "",
    ]
    start = float(first["at_s"])
    lines = [
        f"{float(r['at_s']) - start:8.3f} s  {line}" for r in turn.records for line in _lines(r)
    ]
    return "\n".join([*head, *lines, *_ending(turn)]) + "\n"


def _ending(turn: Turn) -> list[str]:
    last = turn.records[-1]["event"]
    if last in ("llm_turn_finished", "llm_turn_exhausted"):
        return []
    return ["", "the record ends here: the turn was still running, or the file was cut"]


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    tell_one = _TELL.get(record["event"])
    if tell_one is not None:
        yield from tell_one(record)
    else:
        yield f"{record['event']}"


def _decided(r: Mapping[str, Any]) -> Iterator[str]:
    taken = f"rule {r['rule']!r} ({r['action']})" if r["rule"] else "no rule applies"
    yield f"decided      {taken}"
    for verdict in r["looked_at"]:
        if verdict["answer"] != "taken":
            yield f"             {verdict['rule']!r} did not apply: {verdict['answer']}"
    spent = {**r["uses"], **{f"budget {k}": v for k, v in r["budgets"].items()}}
    if spent:
        yield "             used so far: " + ", ".join(f"{k} {v}" for k, v in spent.items())


def _received(r: Mapping[str, Any]) -> str:
    blocks = [f"{b['kind']}{'' if b['closed'] else ' (open)'}" for b in r["received"]]
    return ", ".join(blocks) or "nothing"


def _interrupted(r: Mapping[str, Any]) -> Iterator[str]:
    yield f"interrupted  attempt {r['attempt']}: {r['error_kind']} ({r['error_message']})"
    yield (
        f"             kept {r['committed_text_blocks']} text blocks, the open one with "
        f"{r['committed_partial_text']} characters; dropped {r['discarded_partial_tool_use']} "
        f"half tool calls, {r['discarded_thinking']} thinking blocks"
    )


_TELL: dict[str, Any] = {
    "llm_turn_started": lambda r: [
        "started      " + (f"features {', '.join(r['features'])}" if r["features"] else "")
    ],
    "llm_attempt_ended": lambda r: [
        f"ended        attempt {r['attempt']} ({r['how']}): {_received(r)}, "
        f"{r['kept_chars']} of {r['received_chars']} characters kept"
    ],
    "llm_state_changed": lambda r: [f"state        {r['source']} → {r['state']} ({r['trigger']})"],
    "llm_stream_interrupted": _interrupted,
    "llm_recovery_decided": _decided,
    "llm_stream_continuation_started": lambda r: [
        f"continuing   attempt {r['attempt']} by {r['strategy']} after {r['backoff_s']:g} s, "
        f"with {r['committed_chars']} characters in {len(r['committed_blocks'])} blocks"
    ],
    "llm_stream_continuation_completed": lambda r: [
        f"continued    attempt {r['attempt']} ended with {r['completion_reason']}"
    ],
    "llm_stream_continuation_failed": lambda r: [
        f"failed       attempt {r['attempt']}: {r['error_kind']}"
    ],
    "llm_stream_continuation_exhausted": lambda r: [
        f"exhausted    after {r['attempts']} requests: {r['final_reason']}"
    ],
    "llm_request_retried": lambda r: [
        f"retried      attempt {r['attempt']} by rule {r['rule']!r} after {r['backoff_s']:g} s "
        f"({r['error_kind']})"
    ],
    "llm_seam_joined": lambda r: [
        f"seam         {r['quality']}, {r['dropped_chars']} repeated characters dropped"
        + (", the answer does not join" if r["mismatch"] else "")
    ],
    "discarded_partial_tool_use": lambda r: [
        f"dropped      half a call of {r['tool_name']!r}, {r['partial_input_bytes']} bytes "
        f"({r['reason']})"
    ],
    "discarded_partial_thinking": lambda r: [
        f"dropped      thinking of {r['thinking_chars']} characters "
        f"(rule {r['rule']}, {r['reason']})"
    ],
    "llm_stream_aborted": lambda r: [f"aborted      by {r['cause']}, in state {r['state']}"],
    "llm_hook_refused": lambda r: [f"refused      rule {r['rule']!r}: {r['reason']}"],
    "llm_turn_finished": lambda r: [
        f"finished     {r['stop']} ({r['reason']}), {r['attempts']} requests, "
        f"{r['output_tokens']} output tokens, {r['discarded_output_tokens']} of them dropped"
    ],
    "llm_turn_exhausted": lambda r: [
        f"exhausted    {r['reason']}, {r['attempts']} requests, {r['output_tokens']} output tokens"
    ],
}


def tell_html(turns: Sequence[Turn], pictures: Mapping[str, str]) -> str:
    """The stories as one self-contained page; ``pictures``: SVG of the painted diagram per turn."""
    parts = [_HEAD]
    for turn in turns:
        parts.append(f"<section><h2>turn {escape(turn.turn_id)}</h2>")
        parts.append(_time_line(turn))
        picture = pictures.get(turn.turn_id, "")
        parts.append(f"<div class=picture>{picture[max(0, picture.find('<svg')) :]}</div>")
        parts.append(f"<pre>{escape(tell(turn))}</pre></section>")
    return "".join(parts) + "</main></html>\n"


def _time_line(turn: Turn) -> str:
    """One bar: how long the turn was in each state."""
    changes = [r for r in turn.records if r["event"] == "llm_state_changed"]
    start, end = float(turn.records[0]["at_s"]), float(turn.records[-1]["at_s"])
    whole = max(end - start, 1e-9)
    spans, state, since = [], "streaming", start
    for change in [*changes, None]:
        until = float(change["at_s"]) if change is not None else end
        share = (until - since) / whole * 100
        if share > 0:
            said = f"{state}: {until - since:.3f} s"
            spans.append(
                f'<span class="{escape(state)}" style="width:{share:.3f}%" title="{escape(said)}">'
                f"{escape(state) if share > 8 else ''}</span>"
            )
        if change is not None:
            state, since = str(change["state"]), until
    return f"<div class=line>{''.join(spans)}</div>"


_HEAD = """<!doctype html><html lang=en><meta charset=utf-8>
<title>midthought: a recorded run</title> <style> body{font:15px/1.5 system-ui,sans-
serif;color:#111827;margin:0}main{max-width:70rem; margin:2rem auto;padding:0
1rem}pre{background:#f9fafb;border:1px solid #e5e7eb;border-radius:.4rem;padding:1rem;
overflow:auto}.picture svg{max-width:100%;height:auto}.line{display:flex;height:1.6rem; border-
radius:.3rem;overflow:hidden;margin:1rem 0}.line span{background:#e5e7eb;font-size:12px; text-
align:center;overflow:hidden;white-space:nowrap}.line .streaming{background:#dbeafe} .line
.backoff{background:#e5e7eb}.line .continuing{background:#e0e7ff}.line .interrupted, .line
.committing{background:#fef3c7}
</style><main><h1>A recorded run</h1>"""
