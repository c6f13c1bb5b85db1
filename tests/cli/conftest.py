"""The command as a user runs it, and replies in the Messages dialect for it to read."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midthought.testing import Attempt, Step

KEY = "key-of-the-tests"


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each line of stdout as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


class Command:
    """Runs ``midthought`` in a folder and a home of its own, with two keys and no other setting."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[bytes]] = []
        self._watches: list[threading.Timer] = []
        home = folder / "home"
        home.mkdir()
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "SYSTEMROOT", "TMPDIR")}
        self.environment = {
            **kept,
            "HOME": str(home),
            "USERPROFILE": str(home),
            "PYTHONWARNINGS": "error",
            "ANTHROPIC_API_KEY": KEY,
            "OPENAI_API_KEY": KEY,
        }

    def start(
        self, *arguments: str, env: Mapping[str, str | None] | None = None, **settings: Any
    ) -> subprocess.Popen[bytes]:
        """The running process; stdout and stderr are pipes unless ``settings`` say otherwise."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        merged = {**self.environment, **(env or {})}
        process = subprocess.Popen(
            [Path(sysconfig.get_path("scripts"), "midthought"), *arguments],
            cwd=self.folder,
            env={name: value for name, value in merged.items() if value is not None},
            **{**pipes, **settings},
        )
        self._started.append(process)
        # A command that never ends is a failed test, not a test run that never ends.
        watch = threading.Timer(300, process.kill)
        watch.daemon = True
        watch.start()
        self._watches.append(watch)
        return process

    def close(self) -> None:
        """End what is still running."""
        for watch in self._watches:
            watch.cancel()
        for process in self._started:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()

    def __call__(
        self,
        *arguments: str,
        stdin: bytes = b"",
        env: Mapping[str, str | None] | None = None,
    ) -> Done:
        process = self.start(*arguments, env=env)
        out, err = process.communicate(stdin)
        return Done(process.returncode, _text(out), _text(err))


def _text(data: bytes) -> str:
    return data.decode("utf-8").replace(os.linesep, "\n")


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """The command, in an empty folder."""
    found = Command(tmp_path)
    yield found
    found.close()


@pytest.fixture
def impatient(tmp_path: Path) -> str:
    """Path of a policy like ``anthropic`` that hardly waits between two requests."""
    path = tmp_path / "impatient.toml"
    path.write_text(
        'extends = ["anthropic"]\n'
        "[backoff.continuation]\ninitial_s = 0.01\n"
        "[backoff.transient]\ninitial_s = 0.01\n"
    )
    return str(path)


Reply = Callable[..., Attempt]


@pytest.fixture
def reply() -> Reply:
    """Makes a reply of the Messages dialect: pieces of text, then a stop reason or other steps."""

    def event(name: str, **fields: Any) -> str:
        return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n"

    def make(
        pieces: Sequence[str], *, stop: str | None = "end_turn", then: Sequence[Step] = ()
    ) -> Attempt:
        message = {"id": "msg_1", "role": "assistant", "content": [], "model": "m"}
        usage = {"input_tokens": 7, "output_tokens": 1}
        steps: list[Step] = [
            event("message_start", message={**message, "usage": usage}),
            event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        ]
        for piece in pieces:
            delta = {"type": "text_delta", "text": piece}
            steps.append(event("content_block_delta", index=0, delta=delta))
        if stop is not None:
            steps += [
                event("content_block_stop", index=0),
                event("message_delta", delta={"stop_reason": stop}, usage={"output_tokens": 9}),
                event("message_stop"),
            ]
        return Attempt([*steps, *then])

    return make
