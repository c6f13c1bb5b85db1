"""Reported failures, each played by a faulty upstream and run on every host from one table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from caller_view import CallerView
from case_checks import Seen
from case_rows import ELSEWHERE, SHOWN, WAITING, Row
from hosts import HOSTS, Host, Played, play
from lanes import HURRY, overlay

from midthought.testing import Attempt, Case, FaultyUpstream, load_cases

CASES = Path(__file__).parents[3] / "shared" / "cases" / "cases.jsonl"
ABSENT = "the handed cases are not beside the project (../shared/cases)"
BY_ID: dict[str, Case] = {c.id: c for c in load_cases(CASES)} if CASES.is_file() else {}
POLICY = {"anthropic": "anthropic", "openai-chat": "openai-chat"}
MODEL = {"anthropic": "claude-opus-4-8", "openai-chat": "some-model"}

pytestmark = pytest.mark.skipif(not BY_ID, reason=ABSENT)


def _run(case: Case, row: Row, host: Host) -> Seen:
    laid_over = f"{HURRY}{row.laid_over}[seam.instruct]\nhold_first = {row.hold_first}\n"
    request: dict[str, Any] = {
        "model": row.model or MODEL[case.dialect],
        "max_tokens": 1000,
        "messages": case.scene.get("history") or [{"role": "user", "content": "go"}],
        **row.more,
    }
    played = Played(CallerView(choices=request.get("n", 1)))

    def each(event: Any, stream: Any) -> None:
        if row.told_in in (type(event).__name__, getattr(event, "state", None)):
            stream.cancel()

    # The last entry repeats in a script; a case that stops asking must not notice.
    attempts = [*case.attempts, Attempt(status=418, framing="length", body="asked too often")]
    if case.id.startswith("N02"):
        attempts = list(case.attempts)
    with FaultyUpstream(attempts, time_scale=row.time_scale) as upstream:
        play(
            host,
            overlay(POLICY[case.dialect], laid_over),
            upstream.url,
            request,
            each=each if row.told_in else None,
            played=played,
        )
        return Seen(played, upstream.requests)


@pytest.mark.parametrize("case_id", SHOWN)
def test_case(case_id: str) -> None:
    """The reported failure is handled as its row says, and in the same steps on every host."""
    case, row = BY_ID[case_id], SHOWN[case_id]
    traces = {}
    for host in HOSTS:
        seen = _run(case, row, host)
        _as_the_row_says(seen, row)
        traces[host] = _trace(seen)
    if not row.timed:
        assert traces["sync"] == traces["asyncio"] == traces["trio"]


def _as_the_row_says(seen: Seen, row: Row) -> None:
    view, finished = seen.played.view, seen.played.view.finished
    assert len(seen.requests) == row.requests
    assert view.text == row.text
    assert finished.outcome == row.outcome
    assert finished.stop.value == row.stop
    assert (finished.failure.kind.value if finished.failure else "") == row.kind
    calls = tuple((c.id, c.name, c.parsed()) for c in seen.played.turn.tool_calls)
    assert calls == row.calls
    for check in row.also:
        check(seen)


#: Of a record: what may differ between two runs of the same thing.
_OWN = frozenset({"run_id", "turn_id", "at_s", "elapsed_s", "late_events", "error_message"})


def _trace(seen: Seen) -> list[Any]:
    """All that a turn said and recorded, without times and ids."""
    events = [(type(e).__name__, _plain(e)) for e in seen.played.events]
    records = [(name, _without_times(fields)) for name, fields in seen.played.records]
    return [events, records, [request.body for request in seen.requests]]


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _without_times(v) for k, v in value.items() if k not in _OWN}
    return value


def _plain(event: Any) -> Any:
    if type(event).__name__ == "TurnFinished":
        kind = event.failure.kind if event.failure else None
        return event.outcome, event.stop, kind, event.reason
    if type(event).__name__ == "StateChanged":
        return event.source, event.trigger, event.state
    return event


def test_every_case_has_its_place() -> None:
    """All 79 cases stand in exactly one of the tables: shown here, shown elsewhere, or waiting."""
    tables = [set(SHOWN), set(ELSEWHERE), set(WAITING)]
    assert sum(len(table) for table in tables) == len(BY_ID) == 79
    assert set().union(*tables) == set(BY_ID)


def test_elsewhere_is_there() -> None:
    """The tests that the table names exist."""
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert f"def {name}(" in (Path(__file__).parent / file).read_text("utf-8")


def test_waiting_is_true() -> None:
    """A case that waits cannot be shown with what this part has."""
    for case_id in WAITING:
        case = BY_ID[case_id]
        other = case.dialect not in POLICY or bool(case.needs)
        assert other or case_id[:3] in ("E04", "E07", "G04", "K03", "L06")
