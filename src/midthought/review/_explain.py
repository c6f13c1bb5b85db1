"""The story of a recorded turn, told from its records alone: events, states, rules, budgets,
blocks, seams.

Every record has its lines, and a line says nothing that its record does not. The policy is only
asked for its limits, and only where it is the one that the turn had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from midthought.policies import Policy, policy_digest

from ._run_file import Turn

__all__ = ["policy_of", "tell"]

Record = Mapping[str, Any]
#: (what to call it, the rest of the line, more lines).
Told = tuple[str, str, Sequence[str]]


def tell(turn: Turn, policy: Policy | None = None) -> str:
    """The story as plain text; ``policy`` tells how much of each budget was left."""
    first = turn.records[0]
    policy = policy_of(turn, policy) if policy is not None else None
    head = [
        f"turn {turn.turn_id}",
        f"policy {first['policy']} ({first['policy_digest']}), model {first['model']}",
        "",
    ]
    start = float(first["at_s"])
    lines = [line for record in turn.records for line in _lines(record, start, policy)]
    return "\n".join([*head, *lines, *_ending(turn)]) + "\n"


def policy_of(turn: Turn, policy: Policy) -> Policy | None:
    """``policy`` as the turn had it, for its model; ``None`` if the turn had another one."""
    first = turn.records[0]
    for version in (policy.for_model(str(first["model"])), policy):
        if policy_digest(version).startswith(str(first["policy_digest"])):
            return version
    return None


def _ending(turn: Turn) -> list[str]:
    if turn.records[-1]["event"] in ("llm_turn_finished", "llm_turn_exhausted"):
        return []
    return ["", "the record ends here: the turn was still running, or the file was cut"]


def _lines(record: Record, start: float, policy: Policy | None) -> Iterator[str]:
    event = str(record["event"])
    if event == "llm_recovery_decided":
        word, said, more = _decided(record, policy)
    elif event in _TELL:
        word, said, more = _TELL[event](record)
    else:
        word, said, more = "recorded", f"{event}, which this version does not know", ()
    yield f"{float(record['at_s']) - start:8.3f} s  {word:<12} {said}".rstrip()
    yield from (f"{'':24}{line}" for line in more)


def _decided(r: Record, policy: Policy | None) -> Told:
    taken = f"rule {r['rule']!r} ({r['action']})" if r["rule"] else "no rule applies"
    more = [
        f"{verdict['rule']!r} did not apply: {verdict['answer']}"
        for verdict in r["looked_at"]
        if verdict["answer"] != "taken"
    ]
    used = [_use(f"rule {name}", n, _limit(policy, name)) for name, n in r["uses"].items()]
    for name, n in r["budgets"].items():
        used.append(_use(f"budget {name}", n, policy.budgets[name].limit if policy else None))
    if used:
        more.append("used before: " + ", ".join(used))
    return "decided", f"{taken}, in state {r['state']}", more


def _limit(policy: Policy | None, name: str) -> int | None:
    return (
        next((rule.limit for rule in policy.rules if rule.name == name), None) if policy else None
    )


def _use(what: str, used: int, limit: int | None) -> str:
    return f"{what} {used}" if limit is None else f"{what} {used} of {limit}"


def _ended(r: Record) -> Told:
    how = str(r["how"]) + (f", {r['strategy']}" if r["strategy"] else "")
    blocks = [f"{b['kind']}{'' if b['closed'] else ' (open)'}" for b in r["received"]]
    failure = r["failure"]
    by = f"by {failure['kind']} (in the {failure.get('phase', 'stream')})" if failure else ""
    by = by or (f"with {r['stop']}" if r["stop"] else "by the turn's own end")
    chars = f"{r['kept_chars']} of {r['received_chars']} characters kept"
    received = ", ".join(blocks) or "nothing"
    return "ended", f"attempt {r['attempt']} ({how}) {by}", [f"received {received}; {chars}"]


def _interrupted(r: Record) -> Told:
    said = f" ({r['error_message']})" if r["error_message"] else ""
    open_text = r["committed_partial_text"]
    kept = _count(r["committed_text_blocks"], "text block")
    kept += f", the open one with {_count(open_text, 'character')}" if open_text else ""
    dropped = [
        _count(r["discarded_partial_tool_use"], "tool call"),
        _count(r["discarded_thinking"], "thinking block"),
    ]
    more = [f"keeps {kept}; drops {' and '.join(dropped)}"]
    return "interrupted", f"attempt {r['continuation_attempt']}: {r['error_kind']}{said}", more


def _continuing(r: Record) -> Told:
    carried = _count(r["committed_chars"], "character")
    blocks = ", ".join(r["committed_blocks"]) or "no block"
    said = f"attempt {r['attempt']} by {r['strategy']} after {r['backoff_s']:g} s"
    return "continuing", said, [f"carries {carried} in {blocks}"]


def _retried(r: Record) -> Told:
    said = f"attempt {r['attempt']} by rule {r['rule']!r} after {r['backoff_s']:g} s"
    return "retried", f"{said}, because of {r['error_kind']}", ()


def _failed(r: Record) -> Told:
    said = f" ({r['error_message']})" if r["error_message"] else ""
    return "failed", f"continuation, attempt {r['attempt']}: {r['error_kind']}{said}", ()


def _seam(r: Record) -> Told:
    said = f"{r['strategy']}, {r['quality']}: {_count(r['dropped_chars'], 'character')} dropped"
    return "seam", said + (", the answer does not join" if r["mismatch"] else ""), ()


def _half_call(r: Record) -> Told:
    size = _count(r["partial_input_bytes"], "byte")
    return "dropped", f"a call of {r['tool_name']!r} with {size} of input: {r['reason']}", ()


def _thinking(r: Record) -> Told:
    size = _count(r["thinking_chars"], "character")
    return "dropped", f"thinking of {size}, by block rule {r['rule']}: {r['reason']}", ()


def _sums(r: Record) -> list[str]:
    blocks = ", ".join(r["blocks"]) or "no block"
    tokens = f"{_count(r['output_tokens'], 'output token')}, {r['discarded_output_tokens']} dropped"
    late = f"; {_count(r['late_events'], 'late event')}" if r["late_events"] else ""
    return [f"{_count(r['attempts'], 'request')}, {tokens}; the reply: {blocks}{late}"]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


_TELL: dict[str, Callable[[Record], Told]] = {
    "llm_turn_started": lambda r: ("started", _features(r), ()),
    "llm_state_changed": lambda r: (
        "state", f"{r['source']} → {r['state']} ({r['trigger']})", (),
    ),
    "llm_attempt_ended": _ended,
    "llm_stream_interrupted": _interrupted,
    "llm_stream_continuation_started": _continuing,
    "llm_stream_continuation_completed": lambda r: (
        "continued", f"attempt {r['attempt']} to its end: {r['completion_reason']}", (),
    ),
    "llm_stream_continuation_failed": _failed,
    "llm_stream_continuation_exhausted": lambda r: (
        "given up", f"continuing after {_count(r['attempts'], 'request')}: {r['final_reason']}", (),
    ),
    "llm_request_retried": _retried,
    "llm_seam_joined": _seam,
    "discarded_partial_tool_use": _half_call,
    "discarded_partial_thinking": _thinking,
    "llm_stream_aborted": lambda r: ("aborted", f"by {r['cause']}, in state {r['state']}", ()),
    "llm_hook_refused": lambda r: ("refused", f"rule {r['rule']!r}: {r['reason']}", ()),
    "llm_turn_finished": lambda r: ("finished", f"{r['stop']} ({r['reason']})", _sums(r)),
    "llm_turn_exhausted": lambda r: ("exhausted", r["reason"], _sums(r)),
}  # fmt: skip


def _features(r: Record) -> str:
    return f"with {', '.join(r['features'])}" if r["features"] else "a plain request"
