"""`policies`, `show`, `schema`, `--version`, and the command without its extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import midthought
from midthought.policies import list_policies, load_policy, policy_digest, policy_json_schema

Command = Any


def _line(table: str, name: str) -> str:
    return next(line for line in table.splitlines() if line.startswith(f"{name} "))


def test_policies_is_a_table(command: Command) -> None:
    """One line per policy: its name, dialect, strategies, and that it ships with us."""
    done = command("policies")
    lines = {line.split()[0]: line for line in done.out.splitlines()}

    assert (0, "") == (done.code, done.err)
    assert {"POLICY", "anthropic", "base", "llamacpp", "openai-chat", "strict"} <= set(lines)
    assert ["openai_chat", "prefill", ">", "instruct", "built", "in"] == lines["llamacpp"].split()[
        1:
    ]
    assert "instruct or prefill > instruct" in lines["anthropic"]


def test_policies_as_rows(command: Command) -> None:
    """`--json` gives the same policies that `list_policies` knows, one object a line."""
    done = command("policies", "--json")
    rows = {row["name"]: row for row in done.rows}

    assert [info.name for info in list_policies()] == list(rows)
    assert {
        "name": "anthropic",
        "dialect": "anthropic_messages",
        "strategies": [["instruct"], ["prefill", "instruct"]],
        "title": load_policy("anthropic").about.title,
        "path": rows["anthropic"]["path"],
        "built_in": True,
        "problem": "",
    } == rows["anthropic"]


def test_policies_of_the_project(command: Command, tmp_path: Path) -> None:
    """A file in ./midthought is listed with its place, and comes before a shipped one."""
    folder = tmp_path / "midthought"
    folder.mkdir()
    (folder / "strict.toml").write_text('extends = ["anthropic"]\n')
    line = _line(command("policies").out, "strict")

    assert ["strict", "anthropic_messages"] == line.split()[:2]
    assert line.endswith(str(Path("midthought", "strict.toml")))


def test_a_broken_policy_is_listed(command: Command, tmp_path: Path) -> None:
    """A file with faults does not hide the others: it is listed, and stderr says what is wrong."""
    folder = tmp_path / "midthought"
    folder.mkdir()
    (folder / "mine.toml").write_text("clock = 1\n")
    done = command("policies")

    assert 0 == done.code
    assert ["mine", "-", "-"] == _line(done.out, "mine").split()[:3]
    assert "anthropic" in done.out
    assert done.err.startswith("warning: policy 'mine' cannot be used: ")


def test_show_is_the_whole_policy(command: Command, tmp_path: Path) -> None:
    """What `show` writes loads again, alone, to the same digest."""
    done = command("show", "anthropic")
    copy = tmp_path / "copy.toml"
    copy.write_text(done.out, "utf-8")

    assert (0, "") == (done.code, done.err)
    assert "extends" not in tomllib.loads(done.out)
    assert policy_digest(load_policy("anthropic")) == policy_digest(load_policy(copy))


def test_show_for_a_model(command: Command) -> None:
    """With `--model` what the policy says for that model is laid over it."""
    plain = tomllib.loads(command("show", "anthropic").out)
    older = tomllib.loads(command("show", "anthropic", "-m", "claude-haiku-4-5").out)

    assert ["instruct"] == plain["continuation"]["strategies"]
    assert ["prefill", "instruct"] == older["continuation"]["strategies"]


def test_show_of_two_names(command: Command) -> None:
    """Names joined by + are laid over each other."""
    both = tomllib.loads(command("show", "anthropic+strict").out)

    assert ("anthropic_messages", True) == (both["dialect"], both["turn"]["retract"])


def test_schema_is_json(command: Command) -> None:
    """`schema` writes the JSON Schema of policy files."""
    done = command("schema")

    assert (0, "", policy_json_schema()) == (done.code, done.err, json.loads(done.out))


def test_version(command: Command) -> None:
    """`--version` says name and version."""
    assert (0, f"midthought {midthought.__version__}\n", "") == command("--version")


def test_no_command_is_wrong_input(command: Command) -> None:
    """Alone, `midthought` says on stderr what there is, and exits 2."""
    done = command()

    assert (2, "") == (done.code, done.out)
    assert "Commands:" in done.err


def test_help_goes_to_stdout(command: Command) -> None:
    """`--help` of each command is data: exit 0, on stdout."""
    for name in ("demo", "run", "policies", "show", "schema"):
        done = command(name, "--help")

        assert (0, "") == (done.code, done.err)
        assert done.out.startswith(f"Usage: midthought {name} ")


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
@pytest.mark.parametrize("arguments", [["--version"], ["policies"], ["schema"], ["run", "--help"]])
def test_nobody_reads(command: Command, arguments: list[str]) -> None:
    """With a stdout that nobody reads, a command ends with 1 and says nothing."""
    read, write = os.pipe()
    os.close(read)
    process = command.start(*arguments, stdout=write)
    os.close(write)

    assert (b"", 1) == (process.stderr.read(), process.wait())


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra(missing: str) -> None:
    """Without typer or rich the command says which extra it needs, and exits 2."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from midthought.cli import main; sys.exit(main(['policies']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (2, "") == (done.returncode, done.stdout)
    assert (
        f"error: the command line needs {missing!r}, which is not installed\n\n"
        "hint: pip install 'midthought[cli]'\n"
    ) == done.stderr
