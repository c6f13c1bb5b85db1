"""Case files load, and every case is either played or says what it needs."""

import collections
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from midthought.testing import Case, FaultyUpstream, ScriptError, UnsupportedStep, load_cases

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "cases.jsonl"
handed = pytest.mark.skipif(not CASES.exists(), reason="the handed cases are not here")

RECORD: dict[str, Any] = {
    "id": "X01",
    "kind": "transport",
    "dialect": "any",
    "symptom": "it breaks",
    "repro": {
        "api": "openai-chat",
        "attempts": [
            {"status": 200, "framing": "chunked", "steps": ["data: 1\n\n", {"fault": "fin"}]},
            {"status": 500, "framing": "length", "body": "{}", "steps": []},
        ],
        "expect": ["requests == 2"],
        "config": {"idle_timeout": 0.3},
    },
}


def written(folder: Path, *records: Any) -> Path:
    """A case file."""
    path = folder / "cases.jsonl"
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_load_cases(tmp_path: Path) -> None:
    """A case is what its line says; its attempts are ready to be played."""
    (case,) = load_cases(str(written(tmp_path, RECORD, "")))

    assert ("X01", "transport", "openai-chat", "it breaks", ("requests == 2",)) == (
        case.id,
        case.kind,
        case.dialect,
        case.symptom,
        case.expect,
    )
    assert {"config": {"idle_timeout": 0.3}} == case.scene
    assert () == case.needs
    assert RECORD == case.record
    assert ["openai-chat", "openai-chat"] == [attempt.dialect for attempt in case.attempts]
    with FaultyUpstream(case.attempts) as upstream, httpx.Client(trust_env=False) as http:
        with pytest.raises(httpx.RemoteProtocolError):
            http.get(upstream.url)
        assert (500, {}) == ((answer := http.get(upstream.url)).status_code, answer.json())


def test_bad_lines_are_all_named(tmp_path: Path) -> None:
    """A file with broken lines is refused once, with each line and what is missing there."""
    without = {key: value for key, value in RECORD.items() if key != "symptom"}
    empty = {**RECORD, "repro": {**RECORD["repro"], "attempts": []}}
    with pytest.raises(ScriptError) as caught:
        load_cases(written(tmp_path, RECORD, "{", without, empty, "[]"))

    faults = caught.value.faults
    assert ["line 2", "line 3", "line 4", "line 5"] == [fault.split(":")[0] for fault in faults]
    assert "not JSON" in faults[0]
    assert "'symptom' is missing" in faults[1]
    assert "one or more" in faults[2]


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"setps": []}, r"attempts\[0\]: unknown key 'setps'; did you mean 'steps'"),
        ({"steps": [{"fault": "x"}]}, "unknown fault 'x'"),
    ],
)
def test_a_case_with_a_bad_script(tmp_path: Path, entry: Any, text: str) -> None:
    """The file loads, and the case says what is wrong when its script is wanted."""
    record = {**RECORD, "repro": {**RECORD["repro"], "attempts": [entry]}}
    (case,) = load_cases(written(tmp_path, record))

    with pytest.raises(ScriptError, match=text):
        _ = case.attempts


def test_needs(tmp_path: Path) -> None:
    """What a case needs is a word for a skip message, each once."""
    attempts = [{"framing": "h2", "steps": ["x", {"fault": "h2_rst", "code": "X"}]}]
    record = {**RECORD, "repro": {**RECORD["repro"], "attempts": attempts}}
    (case,) = load_cases(written(tmp_path, record))

    assert ("an HTTP/2 server",) == case.needs
    with pytest.raises(UnsupportedStep, match="needs an HTTP/2 server"):
        _ = case.attempts


@handed
def test_every_handed_case_is_played_or_names_its_need() -> None:
    """79 cases: 75 can be played, 4 need another server, and each of the 4 says which."""
    cases = load_cases(CASES)
    needs = {case.id: case.needs for case in cases if case.needs}

    assert (79, 75) == (len(cases), sum(not case.needs for case in cases))
    assert {
        "A04-h2-rst-internal": ("an HTTP/2 server",),
        "A05-h2-shared-connection-poison": ("an HTTP/2 server",),
        "D05-bedrock-exception-event": ("a server of AWS event-stream frames",),
        "M01-sleep-resume": ("a clock that can jump",),
    } == needs


def drain(http: httpx.Client, url: str, fault: str) -> str:
    """One request read to its end, whatever that is; only a stall is not waited for."""
    timeout = httpx.Timeout(5, read=0.02 if fault == "stall" else 5)
    try:
        with http.stream("POST", url, json={}, timeout=timeout) as response:
            for _ in response.iter_raw():
                pass
    except httpx.TransportError as error:
        return type(error).__name__
    return "end"


# What a raw client sees for each fault of the cases. A stall is cut short by the client's timeout.
ENDINGS = {
    "fin": {"RemoteProtocolError"},
    "rst": {"ReadError"},
    "rst_before_response": {"ReadError"},
    "stall": {"ReadTimeout"},
    "eof_clean": {"end"},
    "gzip_cut": {"end"},
}


def last_fault(case: Case, number: int) -> str:
    """The fault that ends an attempt; an orderly end where none is written."""
    entry = case.record["repro"]["attempts"][number]
    faults = [
        step["fault"] for step in entry["steps"] if isinstance(step, dict) and "fault" in step
    ]
    return faults[-1] if faults else "eof_clean"


@handed
def test_every_playable_case_plays() -> None:
    """Each attempt of each case ends for a plain client as its fault says, in the order written."""
    seen: collections.Counter[str] = collections.Counter()
    with httpx.Client(trust_env=False) as http:
        for case in load_cases(CASES):
            # M03 plays on a kept connection: test_reused_is_played_on_a_kept_connection.
            if not case.needs and case.id != "M03-stale-keepalive":
                seen += played(case, http)

    assert {"eof_clean", "fin", "rst", "stall"} == set(seen)
    assert 75 < seen.total()


def played(case: Case, http: httpx.Client) -> collections.Counter[str]:
    """Play one case to a plain client and compare each ending; how often each fault was seen."""
    seen: collections.Counter[str] = collections.Counter()
    with FaultyUpstream(case.attempts, time_scale=0, refuse_s=0) as upstream:
        for number, attempt in enumerate(case.attempts):
            fault = last_fault(case, number)
            if fault == "connect_refused":
                continue
            upstream.online()
            expected = {"end"} if (attempt.framing, fault) == ("close", "fin") else ENDINGS[fault]
            assert drain(http, upstream.url, fault) in expected, (case.id, number, fault)
            seen[fault] += 1
    return seen
