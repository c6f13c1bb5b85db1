"""Each wrong input: exit 2, nothing on stdout, `error:` and what to do next, never the prompt."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

Command = Any

#: In no message, wherever it was given.
PROMPT = "open sesame"
RUN = ("run", "-p", "anthropic", "-m", "claude-sonnet-5")


class Wrong(NamedTuple):
    """Arguments, what the error says, what the hint says, and what is special."""

    arguments: Sequence[str]
    error: str
    hint: str
    stdin: bytes = b""
    env: Mapping[str, str | None] = {}


WRONG = {
    "unknown command": Wrong(["runn"], "no such command 'runn'", "midthought --help"),
    "unknown option": Wrong([*RUN, "--loud", PROMPT], "no such option: --loud", "run --help"),
    "option without a value": Wrong(["run", "-p"], "'-p'", "--help"),
    "argument too many": Wrong(["schema", "x"], "unexpected extra argument", "schema --help"),
    "no name to show": Wrong(["show"], "missing argument 'NAME'", "show --help"),
    "unknown policy": Wrong(
        ["show", "anthropik"], "no policy 'anthropik', expected anthropic, ", "'anthropic'?"
    ),
    "unknown policy to run": Wrong(["run", "-p", "x", PROMPT], "no policy 'x'", "name one"),
    "no such policy file": Wrong(["show", "./x.toml"], "x.toml: found no such file", "known"),
    "no policy": Wrong(["run", PROMPT], "there is no policy", "midthought policies"),
    "no prompt": Wrong([*RUN], "there is no prompt", "or - for stdin"),
    "prompt without quotes": Wrong([*RUN, *PROMPT.split()], "got 2 words", "in quotes"),
    "blank prompt": Wrong([*RUN, "  "], "the prompt is empty", "say something"),
    "nothing on stdin": Wrong([*RUN, "-"], "the prompt is empty", "stdin"),
    "no text on stdin": Wrong([*RUN, "-"], "byte 4 is not UTF-8", "as UTF-8", b"open\xff"),
    "no model": Wrong(["run", "-p", "anthropic", PROMPT], "needs the name of a model", "--model"),
    "no key": Wrong(
        [*RUN, PROMPT],
        "policy 'anthropic' needs an API key",
        "set ANTHROPIC_API_KEY",
        env={"ANTHROPIC_API_KEY": None},
    ),
    "key with a line break": Wrong(
        [*RUN, PROMPT],
        "the API key in ANTHROPIC_API_KEY holds characters",
        "set it again",
        env={"ANTHROPIC_API_KEY": "open\nsesame"},
    ),
    "cap below one": Wrong([*RUN, "--max-tokens", "0", PROMPT], "--max-tokens is 0", "number"),
    "cap that is no number": Wrong([*RUN, "--max-tokens", "x", PROMPT], "'--max-tokens'", "--help"),
    "another scheme": Wrong(
        [*RUN, "--base-url", "ftp://h", PROMPT], "base_url is 'ftp://h'", "--base-url"
    ),
    "no host": Wrong([*RUN, "--base-url", "http://", PROMPT], "expected http://HOST", "--base-url"),
    "no port": Wrong([*RUN, "--base-url", "http://h:x", PROMPT], "'http://h:x'", "--base-url"),
    "password in a wrong URL": Wrong(
        [*RUN, "--base-url", f"u:{PROMPT}@h", PROMPT], "base_url is 'h'", "--base-url"
    ),
    "nowhere to go": Wrong(
        ["run", "-p", "strict", PROMPT], "nothing about where requests go", "--base-url URL"
    ),
    "journal that is a folder": Wrong(
        [*RUN, "--journal", ".", PROMPT], "the journal '.' cannot be written", "name a file"
    ),
    "port out of range": Wrong(["demo", "--port", "65536"], "--port is 65536", "number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input(command: Command, name: str) -> None:
    """Exit 2; `error:`, a blank line, `hint:` and nothing else; the prompt is not repeated."""
    wrong = WRONG[name]
    done = command(*wrong.arguments, stdin=wrong.stdin, env=wrong.env)
    error, _, hint = done.err.partition("\n\n")

    assert (2, "") == (done.code, done.out)
    assert error.startswith("error: ") and wrong.error in error
    assert hint.startswith("hint: ") and wrong.hint in hint
    assert "sesame" not in done.err and "Traceback" not in done.err


def test_all_faults_of_a_policy_file(command: Command, tmp_path: Path) -> None:
    """A file with two faults names both, each with file, line and what to do."""
    (tmp_path / "mine.toml").write_text(
        'extends = ["anthropic"]\nclock = 1\n[limits]\nattempts = -1\n'
    )
    done = command("show", "mine.toml")
    lines = done.err.splitlines()

    assert (2, "", "error: 2 faults in policy 'mine'") == (done.code, done.out, lines[0])
    assert ["mine.toml:2: clock: ", "mine.toml:4: limits.attempts: "] == [
        line.strip()[: line.strip().index("found")] for line in lines[1:3]
    ]
    assert "hint: " in done.err


def test_one_fault_of_a_policy_file(command: Command, tmp_path: Path) -> None:
    """A file with one fault says where it is, and its hint is the command's hint."""
    (tmp_path / "mine.toml").write_text('extends = ["anthropic"]\nclock = 1\n')
    done = command("show", "mine.toml")

    assert done.err.startswith("error: mine.toml:2: clock: found ")
    assert "\n\nhint: did you mean " in done.err and "clocks" in done.err.splitlines()[-1]


def test_a_dialect_that_run_does_not_write(command: Command, tmp_path: Path) -> None:
    """A policy of another dialect than those that `run` knows: exit 2, with the ones it knows."""
    (tmp_path / "mine.toml").write_text('extends = ["base"]\ndialect = "cohere_v2"\n')
    done = command("run", "-p", "mine.toml", "--base-url", "http://127.0.0.1:9", PROMPT)

    assert 2 == done.code
    assert "error: run cannot write requests of the dialect 'cohere_v2'\n\nhint: " in done.err
    assert "anthropic_messages, openai_chat" in done.err


def test_a_port_in_use(command: Command) -> None:
    """The demo on a port where somebody listens: exit 2, and what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = command("demo", "--fast", "--port", str(port))

    assert 2 == done.code
    assert f"error: port {port} of 127.0.0.1 cannot be listened on: " in done.err
    assert "hint: leave --port out for any free port" in done.err
