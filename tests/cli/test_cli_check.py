"""`check` and `new` as a person runs them: exit status, what is said where, files."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import DIALECTS, list_policies
from midthought.review import new_policy, prove

Command = Any
BROKEN = 'extends = ["base"]\n[clocks]\nheaders_s = 0\n'


def test_check_of_all(command: Command) -> None:
    """`--all` proves every visible policy, one after the other, and sums it up."""
    done = command("check", "--all")

    assert (0, "") == (done.code, done.err)
    assert len(list_policies()) == len(re.findall(r"^[\w-]+: ok$", done.out, re.MULTILINE))
    assert done.out.splitlines()[-1].startswith(f"{len(list_policies())} of ")


def test_check_finds_errors(command: Command, tmp_path: Path) -> None:
    """An error is exit status 1; the report is on stdout, with the line in the file."""
    (tmp_path / "mine.toml").write_text(BROKEN)
    done = command("check", "mine.toml", "anthropic")

    assert (1, "") == (done.code, done.err)
    assert "error: mine.toml:3: clocks.headers_s: " in done.out
    assert "anthropic: ok" in done.out and "1 of 2 policies proved" in done.out


def test_faults_of_meaning_are_findings(command: Command, tmp_path: Path) -> None:
    """A file that could be read and is wrong is reported, not refused."""
    (tmp_path / "mine.toml").write_text('extends = ["base"]\n[limits]\nattemps = 1\n')
    done = command("check", "mine.toml", "--json")

    assert (1, "load", 3) == (
        done.code, done.rows[0]["findings"][0]["kind"], done.rows[0]["findings"][0]["line"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"= no toml", "expected TOML"),
        (b"\x00\x01\xff", "expected TOML, which is UTF-8"),
        (b"schema_version = 2\n", "schema version 1"),
        (None, "a directory"),
    ],
)
def test_what_is_no_policy_is_refused(
    command: Command, tmp_path: Path, content: bytes | None, said: str
) -> None:
    """No TOML, a binary, a newer format, a directory: a clear message, exit status 2."""
    path = tmp_path / "mine.toml"
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    done = command("check", "mine.toml")

    assert (2, "") == (done.code, done.out)
    assert said in done.err and "\n\nhint: " in done.err


@pytest.mark.parametrize(
    "arguments", [[], ["--all", "anthropic"], ["anthropic", "--json", "--sarif"], ["nothing"]]
)
def test_usage_of_check(command: Command, arguments: list[str]) -> None:
    """Nothing to check, too much of it, or an unknown name: exit status 2 and a hint."""
    done = command("check", *arguments)

    assert (2, "") == (done.code, done.out)
    assert done.err.startswith("error: ") and "\n\nhint: " in done.err


def test_sarif_is_one_log(command: Command) -> None:
    """`--sarif` writes one JSON document for all policies."""
    done = command("check", "anthropic", "strict", "--sarif")

    assert (0, "2.1.0") == (done.code, json.loads(done.out)["version"])


# --- new ------------------------------------------------------------------------------------------


def test_new_is_found_by_name_and_passes(command: Command, tmp_path: Path) -> None:
    """A new policy stands where the project's are looked for, and is proved."""
    made = command("new", "mine", "--dialect", "anthropic_messages")

    assert (0, "") == (made.code, made.err)
    assert Path(made.out.strip()) == Path("midthought", "mine.toml")
    assert (tmp_path / "midthought" / "mine.toml").exists()
    assert 0 == command("check", "mine").code


def test_new_never_overwrites(command: Command, tmp_path: Path) -> None:
    """A file that is there stays as it is."""
    (tmp_path / "mine.toml").write_text("keep")
    done = command("new", "mine.toml", "--extends", "anthropic")

    assert (2, "keep") == (done.code, (tmp_path / "mine.toml").read_text())
    assert "the file exists" in done.err


def test_new_over_files(command: Command, tmp_path: Path) -> None:
    """A parent that is a file is named from where the new one stands."""
    (tmp_path / "ours.toml").write_text('extends = ["anthropic"]\n')
    done = command("new", "mine", "--extends", "ours.toml")

    assert 0 == done.code and 0 == command("check", "mine").code
    assert 'extends = ["../ours.toml"]' in (tmp_path / "midthought" / "mine.toml").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["mine"],
        ["mine", "--dialect", "gemini", "--extends", "gemini"],
        ["mine", "--dialect", "geminy"],
        ["mine", "--extends", "antropic"],
        ["my+policy", "--extends", "anthropic"],
        ["", "--extends", "anthropic"],
    ],
)
def test_usage_of_new(command: Command, tmp_path: Path, arguments: list[str]) -> None:
    """What cannot be made is refused, and no file is written."""
    done = command("new", *arguments)

    assert (2, "") == (done.code, done.out)
    assert done.err.startswith("error: ") and "\n\nhint: " in done.err
    assert not (tmp_path / "midthought").exists()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_new_passes_with_every_line_switched_on(dialect: str, tmp_path: Path) -> None:
    """Its comments are true: with every key uncommented the file says the same and is proved."""
    text = new_policy("mine", dialect=dialect)
    path = tmp_path / "mine.toml"
    path.write_text(text)
    plain = prove(path)
    path.write_text(re.sub(r"^# (?=\[|\w+(\.\w+)* = )", "", text, flags=re.MULTILINE))
    switched = prove(path)

    assert plain.is_safe and switched.is_safe, switched.findings
    assert plain.worst == switched.worst
