"""Reports of a proof: text, rows and SARIF, and the hook that runs the check before a commit."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from midthought.review import KINDS, as_row, as_sarif, as_text, prove

ROOT = Path(__file__).parent.parent.parent
BROKEN = 'extends = ["base"]\n[limits]\nattempts = 1\n[clocks]\nheaders_s = 0\n'


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Name of a policy file with two errors, here."""
    monkeypatch.chdir(tmp_path)
    Path("my policy.toml").write_text(BROKEN, "utf-8")
    return "my policy.toml"


def test_text_names_place_reason_and_fix(mine: str) -> None:
    """Each finding has its line, why it matters, and what to do."""
    text = as_text(prove(mine))

    assert text.startswith("my policy: not proved\n")
    assert "error: my policy.toml:3: limits.attempts: a limit of 0 switches" in text
    assert "    why: It only looks like a rule.\n    fix: allow 2 or more" in text


def test_notes_are_counted_or_shown() -> None:
    """Notes do not hide what is wrong; asked for, they are there."""
    proof = prove("base")

    assert "notes (--notes shows them)" in as_text(proof)
    assert "[idle-rule]" not in as_text(proof)
    assert "[idle-rule]" in as_text(proof, notes=True)


def test_row_is_json(mine: str) -> None:
    """A row holds all of it, and numbers that JSON has."""
    row = json.loads(json.dumps(as_row(prove(mine)), allow_nan=False))

    assert (False, 1) == (row["proved"], row["worst"]["requests"])
    assert {"zero-limit", "dead-clock"} == {f["kind"] for f in row["findings"] if f["line"]}


def _required(log: dict[str, Any]) -> list[str]:
    """What SARIF 2.1.0 requires, and is not there."""
    missing = []
    if log["version"] != "2.1.0" or not log["runs"]:
        missing.append("version, runs (3.13.2, 3.13.4)")
    for run in log["runs"]:
        driver = run["tool"]["driver"]
        if not driver["name"]:
            missing.append("tool.driver.name (3.19.8)")
        ids = [rule["id"] for rule in driver["rules"]]
        if len(ids) != len(set(ids)):
            missing.append("unique rule ids (3.49.3)")
        for result in run["results"]:
            if not result["message"]["text"]:
                missing.append("message (3.27.11)")
            if ids[result["ruleIndex"]] != result["ruleId"]:
                missing.append("ruleIndex (3.27.6)")
            if result["level"] not in ("none", "note", "warning", "error"):
                missing.append("level (3.27.10)")
            for location in result["locations"]:
                place = location["physicalLocation"]
                if not re.fullmatch(r"[!#-;=?-\[\]_a-z~%]+", place["artifactLocation"]["uri"]):
                    missing.append("uri (3.4.3, RFC 3986)")
                if place.get("region", {"startLine": 1})["startLine"] < 1:
                    missing.append("startLine (3.30.5)")
    return missing


def test_sarif_has_what_the_standard_requires(mine: str) -> None:
    """Version, tool, rules, messages, levels, places: as SARIF 2.1.0 wants them."""
    log = json.loads(json.dumps(as_sarif([prove(mine), prove("strict")]), allow_nan=False))

    assert [] == _required(log)
    assert set(KINDS) == {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]}


def test_sarif_places_are_relative_to_here(mine: str) -> None:
    """A code review finds the file in the checkout: a relative URI, with its line."""
    (result,) = [
        r for r in as_sarif([prove(mine)])["runs"][0]["results"] if r["ruleId"] == "zero-limit"
    ]
    place = result["locations"][0]["physicalLocation"]

    assert {"artifactLocation": {"uri": "my%20policy.toml"}, "region": {"startLine": 3}} == place


def test_sarif_tells_an_inherited_finding_once() -> None:
    """What several policies inherit from one line is one result."""
    results = as_sarif([prove("base"), prove("anthropic"), prove("xai")])["runs"][0]["results"]

    assert 1 == sum("'storm'" in result["message"]["text"] for result in results)


def test_the_hook_runs_the_check() -> None:
    """The pre-commit hook calls `check` for the project's policies, with what the command needs."""
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    hook = dict(re.findall(r"^[- ] (\w+): (.*)$", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert ("midthought-check", "midthought check", "python") == (
        hook["id"], hook["entry"], hook["language"],
    )  # fmt: skip
    assert project["optional-dependencies"]["cli"] == json.loads(hook["additional_dependencies"])
    assert re.search(hook["files"], "midthought/mine.toml")
    assert not re.search(hook["files"], "pyproject.toml")
