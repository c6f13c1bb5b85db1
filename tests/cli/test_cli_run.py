"""`midthought run` against a real upstream: the reply, what is said beside it, the exit status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from midthought import journal
from midthought.testing import Attempt, FaultyUpstream

Command = Any
Reply = Callable[..., Attempt]

MODEL = "claude-sonnet-5"
KEY = "key-of-the-tests"
PROMPT = "open sesame"


def _run(url: str, policy: str = "anthropic", *more: str) -> tuple[str, ...]:
    return ("run", "-p", policy, "-m", MODEL, "--base-url", url, *more)


def test_the_reply_is_all_of_stdout(command: Command, reply: Reply) -> None:
    """An unbroken reply: stdout has its text and a last newline, stderr one line, exit 0."""
    with FaultyUpstream([reply(["Hello ", "there."])]) as upstream:
        done = command(*_run(upstream.url), PROMPT)

    assert (0, "Hello there.\n") == (done.code, done.out)
    assert ["completed"] == [line.split()[0] for line in done.err.splitlines()]


def test_the_request_is_what_was_asked_for(command: Command, reply: Reply) -> None:
    """Model, cap, system prompt, prompt and key arrive in the provider's own form."""
    options = ("--max-tokens", "77", "--system", "Be brief.")
    with FaultyUpstream([reply(["Yes."])]) as upstream:
        command(*_run(upstream.url), *options, PROMPT)
    request = upstream.requests[0]

    assert ("/v1/messages", KEY) == (request.path, request.header("x-api-key"))
    assert {
        "model": MODEL,
        "max_tokens": 77,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
    } == request.json()


def test_chat_requests_have_their_own_form(command: Command) -> None:
    """In the Chat dialect the system prompt is a message and the cap has the policy's field."""
    body = (
        'data: {"choices":[{"index":0,"delta":{"content":"Yes."}}]}\n\n'
        'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        "data: [DONE]\n\n"
    )
    with FaultyUpstream([Attempt([body])]) as upstream:
        options = ("-m", "gpt-x", "--base-url", upstream.url, "--system", "Be brief.")
        done = command("run", "-p", "openai-chat", *options, "--max-tokens", "7", PROMPT)
    request = upstream.requests[0].json()

    assert (0, "Yes.\n") == (done.code, done.out)
    assert 7 == request["max_completion_tokens"]
    assert [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": PROMPT},
    ] == request["messages"]


def test_a_local_server_needs_no_model(command: Command) -> None:
    """A policy without a key is for a server of one's own, which knows its model."""
    body = 'data: {"choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\n'
    with FaultyUpstream([Attempt([body, "data: [DONE]\n\n"])]) as upstream:
        done = command("run", "-p", "llamacpp", "--base-url", upstream.url, PROMPT)

    assert (0, "Yes.\n") == (done.code, done.out)
    assert "model" not in upstream.requests[0].json()


def test_a_broken_reply_is_healed(command: Command, reply: Reply, impatient: str) -> None:
    """A stream cut inside a word: stdout has the text once, stderr each state as it came."""
    cut = reply(["Twice a day the wat"], stop=None, then=[{"fault": "rst"}])
    with FaultyUpstream([cut, reply([" water comes ", "and goes."])]) as upstream:
        done = command(*_run(upstream.url, impatient), PROMPT)

    assert (0, "Twice a day the water comes and goes.\n") == (done.code, done.out)
    assert ["interrupted", "committing", "backoff", "continuing", "streaming", "completed"] == [
        line.split()[0] for line in done.err.splitlines()
    ]
    assert "Twice a day the" in str(upstream.requests[1].json()["messages"])


def test_json_is_one_object_a_line(command: Command, reply: Reply, impatient: str) -> None:
    """With `--json` stdout has only rows, the deltas add up to the reply, and stderr is empty."""
    cut = reply(["Twice a day the wat"], stop=None, then=[{"fault": "rst"}])
    with FaultyUpstream([cut, reply([" water comes."])]) as upstream:
        done = command(*_run(upstream.url, impatient, "--json"), PROMPT)
    rows = done.rows
    deltas = [row for row in rows if row["type"] == "block_delta"]
    states = [row["state"] for row in rows if row["type"] == "state_changed"]

    assert (0, "") == (done.code, done.err)
    assert ("turn_started", "turn") == (rows[0]["type"], rows[-1]["type"])
    assert "Twice a day the water comes." == "".join(row["text"] for row in deltas)
    assert {0, 1} == {row["attempt"] for row in deltas}
    assert [
        "interrupted",
        "committing",
        "backoff",
        "continuing",
        "streaming",
        "completed",
    ] == states
    assert ("completed", "Twice a day the water comes.", 2) == (
        rows[-1]["outcome"],
        rows[-1]["text"],
        len(rows[-1]["attempts"]),
    )


def test_a_failed_turn_is_exit_1(command: Command) -> None:
    """A refused key: exit 1, `error:` and `hint:` on stderr, and the key is in neither."""
    body = '{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
    with FaultyUpstream([Attempt(status=401, body=body)]) as upstream:
        done = command(*_run(upstream.url), PROMPT)

    assert (1, "") == (done.code, done.out)
    assert done.err.endswith(
        "error: the turn was exhausted after 1 request: auth: invalid x-api-key\n"
        "\n"
        "hint: the key was refused: look at ANTHROPIC_API_KEY\n"
    )
    assert KEY not in done.err and PROMPT not in done.err


def test_what_arrived_stays_when_a_turn_fails(
    command: Command, reply: Reply, impatient: str
) -> None:
    """The partial of a turn that cannot be healed is on stdout all the same."""
    cut = reply(["It began like any other "], stop=None, then=[{"fault": "rst"}])
    refused = Attempt(status=403, body='{"error":{"type":"permission_error","message":"no"}}')
    with FaultyUpstream([cut, refused]) as upstream:
        done = command(*_run(upstream.url, impatient), PROMPT)

    assert (1, "It began like any other") == (done.code, done.out.rstrip())


def test_an_incomplete_reply_is_said(command: Command, reply: Reply) -> None:
    """A reply that the cap cut is no failure: exit 0, with a warning."""
    with FaultyUpstream([reply(["It began"], stop="max_tokens")]) as upstream:
        done = command(*_run(upstream.url), PROMPT)

    assert (0, "It began\n") == (done.code, done.out)
    assert "warning: the reply is incomplete: the model stopped by 'length'" in done.err


def test_text_that_may_be_taken_back_waits(command: Command, reply: Reply, tmp_path: Path) -> None:
    """A policy that retracts: stdout has the final text only, nothing of what was taken back."""
    path = tmp_path / "wary.toml"
    path.write_text(
        'extends = ["anthropic", "strict"]\n[backoff.continuation]\ninitial_s = 0.01\n'
        "[backoff.transient]\ninitial_s = 0.01\n"
    )
    cut = reply(["A first try that "], stop=None, then=[{"fault": "rst"}])
    with FaultyUpstream([cut, reply(["A second one."])]) as upstream:
        done = command(*_run(upstream.url, str(path)), PROMPT)

    assert (0, "A second one.\n") == (done.code, done.out)


def test_the_prompt_may_come_from_stdin(command: Command, reply: Reply) -> None:
    """`-` reads the prompt from stdin, as UTF-8 and with its line breaks."""
    with FaultyUpstream([reply(["Yes."])]) as upstream:
        done = command(*_run(upstream.url), "-", stdin="öffne\ndich\n".encode())

    assert 0 == done.code
    assert "öffne\ndich\n" == upstream.requests[0].json()["messages"][0]["content"]


def test_the_journal_holds_facts_only(
    command: Command, reply: Reply, impatient: str, tmp_path: Path
) -> None:
    """`--journal` writes the records of the turn: no prompt, no reply, no key."""
    cut = reply(["Twice a day the wat"], stop=None, then=[{"fault": "rst"}])
    file = tmp_path / "runs" / "run.jsonl"
    with FaultyUpstream([cut, reply([" water comes."])]) as upstream:
        command(*_run(upstream.url, impatient, "--journal", str(file)), PROMPT)
    names = [record["event"] for record in journal.read(file)]
    text = file.read_text("utf-8")

    assert "llm_turn_started" == names[0] and "llm_turn_finished" == names[-1]
    assert {"llm_stream_interrupted", "llm_stream_continuation_completed"} < set(names)
    assert [] == [word for word in (PROMPT, KEY, "Twice", "water") if word in text]


def _stalled(command: Command, url: str, *more: str, **settings: Any) -> subprocess.Popen[bytes]:
    """A run that has written its first text and waits for more."""
    process: subprocess.Popen[bytes] = command.start(*_run(url), *more, PROMPT, **settings)
    assert process.stdout is not None
    assert b"Hello, how " == process.stdout.read(11)
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent to a process there")
@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGINT, "caller"), (signal.SIGTERM, "shutdown")]
)
def test_a_signal_cancels_the_turn(
    command: Command, reply: Reply, tmp_path: Path, number: signal.Signals, cause: str
) -> None:
    """Ctrl-C and SIGTERM: the response is closed, no request follows, exit 128 + the number."""
    stalls = reply(["Hello, how ", "are you"], stop=None, then=[{"fault": "stall"}])
    file = tmp_path / "run.jsonl"
    with FaultyUpstream([stalls]) as upstream:
        process = _stalled(command, upstream.url, "--journal", str(file))
        process.send_signal(number)
        _, err = process.communicate()
        closed = upstream.wait_until(lambda: upstream.requests[0].client_closed)
    aborted = [r["cause"] for r in journal.read(file) if r["event"] == "llm_stream_aborted"]

    assert (128 + number, True, 1) == (process.returncode, closed, len(upstream.requests))
    assert [cause] == aborted
    assert b"Traceback" not in err


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is another error there")
def test_a_closed_stdout_ends_the_turn(command: Command, reply: Reply) -> None:
    """Whoever read stdout has gone: the response is closed and nothing is said."""
    more = reply(["never read "] * 3).steps[2:5]
    later = [step for piece in more for step in ({"wait": 0.05}, piece)]
    begins = reply(["Hello, how ", "are you "], stop=None, then=[*later, {"fault": "stall"}])
    with FaultyUpstream([begins]) as upstream:
        process = _stalled(command, upstream.url)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
        process.wait()
        closed = upstream.wait_until(lambda: upstream.requests[0].client_closed)

    assert (1, b"", True) == (process.returncode, err, closed)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
@pytest.mark.parametrize("no_color", [None, "1"])
def test_on_a_terminal(
    command: Command, reply: Reply, impatient: str, no_color: str | None
) -> None:
    """States begin on a line of their own, a reply cannot send escape codes, NO_COLOR has none."""
    import pty

    cut = reply(["Red\x1b[31m rum and wat"], stop=None, then=[{"fault": "rst"}])
    ours, theirs = pty.openpty()
    with FaultyUpstream([cut, reply([" water."])]) as upstream:
        process = command.start(
            *_run(upstream.url, impatient),
            PROMPT,
            env={"NO_COLOR": no_color, "TERM": "xterm"},
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        seen = _read_all(ours)
    assert 0 == process.wait()
    lines = seen.replace("\r\n", "\n").split("\n")

    assert "Red\ufffd[31m rum and " == lines[0]
    assert "interrupted" in lines[1]
    assert (no_color is None) == ("\x1b[" in seen)


def _read_all(terminal: int) -> str:
    pieces: list[bytes] = []
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux: the other side is closed
            piece = b""
        if not piece:
            os.close(terminal)
            return b"".join(pieces).decode("utf-8")
        pieces.append(piece)
