"""The examples run as they stand; each is a program of its own."""

import json
import subprocess
import sys
from pathlib import Path

from midthought.testing import Attempt, FaultyUpstream

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run an example in a fresh interpreter."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_sans_io_example() -> None:
    """The machine alone heals a made-up stream: one wait, a second request, no word lost."""
    done = run("sans_io.py")

    assert "" == done.stderr
    assert "wait    1 s, because of sse_transport" in done.stdout
    assert "You write very readable policies." in done.stdout
    assert "outcome completed" in done.stdout


def test_watch_recovery_example() -> None:
    """The callback and the journal see the same turn."""
    done = run("watch_recovery.py")

    assert "" == done.stderr
    assert "llm_stream_interrupted" in done.stdout
    assert "'Everything breaks, but not for long.', 2 requests" in done.stdout


def test_stream_a_turn_example() -> None:
    """Text to stdout, states to stderr, exit 0; the provider is a server on loopback."""
    choice = {"index": 0, "delta": {"content": "Hello."}, "finish_reason": "stop"}
    body = f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\ndata: [DONE]\n\n"
    with FaultyUpstream([Attempt([body])]) as upstream:
        done = run("stream_a_turn.py", "llamacpp", "m", "Hi", "--base-url", upstream.url)

    assert (0, "Hello.\n") == (done.returncode, done.stdout)
    assert "completed: 1 requests" in done.stderr
