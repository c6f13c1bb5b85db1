"""Ollama's grammar, line by line: what each becomes, and what broken ones do."""

import json
from typing import Any

import pytest
from anthropic_frames import built, failed, last, only, text_of, usage_of
from native_reading import calls_of, read, reply_of

from midthought.statemachine import Event, Heartbeat, Opened, Unknown

NDJSON = "application/x-ndjson"


def line(done: bool = False, **fields: Any) -> bytes:
    """A line without a message."""
    return json.dumps({"model": "m", "done": done, **fields}).encode() + b"\n"


def say(content: str = "", **message: Any) -> bytes:
    """A line with a piece of the message."""
    return line(message={"role": "assistant", "content": content, **message})


def end(reason: str | None = "stop", **fields: Any) -> bytes:
    """The last line."""
    given = {"done_reason": reason} if reason else {}
    return line(True, message={"role": "assistant", "content": ""}, **given, **fields)


def called(name: str = "f", arguments: Any = None, **more: Any) -> dict[str, Any]:
    """A call as it stands in ``tool_calls``."""
    return {"function": {"name": name, "arguments": arguments}, **more}


def events(*lines: bytes) -> list[Event]:
    """What the reader says about these lines."""
    return read("ollama", lines, NDJSON)


def test_a_reply() -> None:
    """Thinking, then text, then the last line: two blocks, usage, one stop."""
    said = events(
        say(thinking="hm"),
        say(thinking=" so"),
        say("Alpha "),
        say("beta"),
        end(prompt_eval_count=5, eval_count=2),
    )

    assert {
        "text": "Alpha beta",
        "thinking": "hm so",
        "calls": [],
        "usage": {"input": 5, "output": 2},
        "stop": "stop",
    } == reply_of(said)
    assert ["m"] == [e.model for e in only(said, Opened) if isinstance(e, Opened)]
    assert ["thinking", "text"] == [block.kind for block in built(said)]
    assert all(block.closed for block in built(said))


def test_calls() -> None:
    """Calls are whole; arguments may be missing or text; a plain stop is then ``tool_use``."""
    calls = [called("f", {"x": 1}, id="a"), called("g"), called("h", '{"y":2}')]
    said = events(say("Alpha", tool_calls=calls), end())

    assert [("a", "f", {"x": 1}), (None, "g", {}), (None, "h", {"y": 2})] == calls_of(said)
    assert "tool_use" == last(said).stop
    assert "Alpha" == text_of(said)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("stop", "end"), ("length", "length"), ("load", "end"), (None, "end"), ("tomorrow", "end")],
)
def test_stop_reasons(reason: str | None, stop: str) -> None:
    """Each reason in the common set; a missing or unknown one is an end."""
    finished = last(events(say("Alpha"), end(reason)))
    assert (stop, None) == (finished.stop, finished.failure)


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([b'{"error":"an error was encountered while running the model"}\n'], "server_error"),
        ([b'{"error":{"message":"oh","code":429}}\n'], "rate_limited"),
        ([b'{"error":"the input length exceeds the context length"}\n'], "context_overflow"),
        ([line(True, error="oh")], "server_error"),
        ([end("unload")], "server_error"),
        ([b"{broken\n"], "sse_parse"),
        ([], "premature_end"),
        ([b'{"model":"m","mess'], "premature_end"),
    ],
)
def test_failures(lines: list[bytes], kind: str) -> None:
    """An error in a line is the end although the status was 200, and so is an unloaded model."""
    said = events(say("Alpha"), *lines)

    assert (kind, "Alpha") == (failed(said), text_of(said))


def test_first_bytes_only() -> None:
    """The beginning of a line is a cut; a page is no stream."""
    assert "premature_end" == failed(events(b'{"model":"m"'))
    assert "premature_end" == failed(events(b""))
    assert "server_error" == failed(events(b"<html><body>down</body></html>"))
    assert "context_overflow" == failed(
        events(b'{"error":"the input length exceeds the context length"}')
    )


def test_last_line_without_line_end() -> None:
    """A last line that is whole counts."""
    assert None is last(events(say("Alpha"), end().rstrip())).failure


def test_several_things_in_a_line() -> None:
    """A line may say more of the open block and something else: nothing of it is lost."""
    said = events(
        say("Alpha"),
        say(" beta", tool_calls=[called("f")]),
        say("gamma"),
        say(" delta", thinking="hm"),
        say(thinking=" so"),
        say("epsilon", thinking="!"),
        say("zeta", images=["aGk="]),
        end(),
    )

    assert [
        ("text", "Alpha beta"),
        ("tool_use", "{}"),
        ("text", "gamma"),
        ("thinking", "hm"),
        ("text", " delta"),
        ("thinking", " so!"),
        ("text", "epsilonzeta"),
        ("media", ""),
    ] == [(block.kind, block.text) for block in built(said)]


def test_odd_lines() -> None:
    """Empty pieces, blank lines, nulls, foreign objects and images lose no text."""
    said = events(
        b"\n",
        say(),
        say("Alpha "),
        b'{"model":"m","message":{"role":"assistant","content":null},"done":null}\n',
        b'{"status":"pulling"}\n',
        b"[1]\n",
        b'{"message":7}\n',
        say("", images=["aGk="]),
        say("beta"),
        say(tool_calls=["x", {"function": 3}]),
        end(),
    )

    assert "Alpha beta" == text_of(said)
    assert ["text", "media", "text"] == [block.kind for block in built(said)]
    assert 3 == len(only(said, Unknown))
    assert only(said, Heartbeat)
    assert "end" == last(said).stop


def test_emoji_in_two_halves() -> None:
    """Halves of an emoji in two lines are one character."""
    assert "a😀b" == text_of(events(say("a\ud83d"), say("\ude00b"), end()))


def test_counters_below_zero() -> None:
    """A counter below zero is none."""
    assert {"output": 2} == usage_of(events(say("A"), end(prompt_eval_count=-1, eval_count=2)))


def test_whole_reply() -> None:
    """A whole reply as one JSON body is as good as its lines."""
    body = line(True, message={"role": "assistant", "content": "Alpha"}, done_reason="stop")
    said = read("ollama", [body], "application/json")

    assert "Alpha" == reply_of(said)["text"]
    assert "premature_end" == failed(events(say("Alpha")))
    others: list[Any] = [{"models": []}, [1], {"message": {"content": "x"}, "done": False}]
    for other in others:
        said = read("ollama", [json.dumps(other).encode()], "application/json")
        assert "not_a_stream" == failed(said)
