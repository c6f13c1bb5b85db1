"""The proxy that breaks a real server's streams: where it is told, as it is told, once each."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any, Literal

import httpx
import pytest

from midthought.testing import Attempt, Cut, Cutter, FaultyUpstream, PortUnavailable, UpstreamError

WORDS = ["The ", "sea", " is ", "grün", "."]


def _chat(text: str) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n"


def _messages(text: str) -> str:
    frame = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}}
    return f"event: content_block_delta\ndata: {json.dumps(frame)}\n\n"


def _responses(text: str, kind: str = "response.output_text.delta") -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'delta': text})}\n\n"


ROLE = 'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": null}}]}\n\n'
START = 'event: message_start\ndata: {"type": "message_start", "message": {}}\n\n'
DIALECTS = {
    "chat": [ROLE, *map(_chat, WORDS), "data: [DONE]\n\n"],
    "responses": [
        _responses("no text", "response.function_call_arguments.delta"),
        *map(_responses, WORDS),
        'data: {"type": "response.completed"}\n\n',
    ],
    "messages": [START, *map(_messages, WORDS), 'data: {"type": "message_stop"}\n\n'],
}
CHAT = DIALECTS["chat"]
SSE = {"content-type": "text/event-stream"}


def _stream(events: list[Any]) -> Attempt:
    return Attempt(events, headers=SSE)


def _read(url: str, timeout_s: float = 60.0) -> tuple[str, str]:
    """What came of the body, and the name of the exception that ended it, if any."""
    got = bytearray()
    try:
        with httpx.stream("POST", url, json={"n": 1}, timeout=timeout_s) as response:
            for piece in response.iter_raw():
                got += piece
    except httpx.TransportError as error:
        return got.decode(), type(error).__name__
    return got.decode(), ""


def _text(body: str) -> str:
    """The text that a body of any dialect brings; every event must be whole JSON."""
    lines = [line for line in body.splitlines() if line.startswith("data: {")]
    return "".join(map(_text_of, (json.loads(line.removeprefix("data: ")) for line in lines)))


def _text_of(frame: dict[str, Any]) -> str:
    if "choices" in frame:
        return frame["choices"][0]["delta"].get("content") or ""
    delta = frame.get("delta", {})
    if isinstance(delta, str):
        return delta if frame["type"] == "response.output_text.delta" else ""
    return str(delta.get("text", ""))


@pytest.fixture
def upstream() -> Iterator[FaultyUpstream]:
    """Answers every request with the Chat stream."""
    with FaultyUpstream([_stream(CHAT)]) as running:
        yield running


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("at", "text"), [(4, "The "), (6, "The "), (7, "The sea"), (0, "")])
def test_a_cut_by_characters(dialect: str, at: int, text: str) -> None:
    """No character over the limit gets through, and what does is whole events."""
    with FaultyUpstream([_stream(DIALECTS[dialect])]) as upstream:
        with Cutter(upstream.url, [Cut(at)]) as cutter:
            body, met = _read(cutter.url)

    assert (text, "ReadError") == (_text(body), met)
    assert "".join(DIALECTS[dialect]).startswith(body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_split_tokens(dialect: str) -> None:
    """Text can come a character at a time, so that a cut falls inside a token."""
    with FaultyUpstream([_stream(DIALECTS[dialect])]) as upstream:
        with Cutter(upstream.url, [Cut(13), None], split_tokens=True) as cutter:
            (body, met), (whole, nothing) = _read(cutter.url), _read(cutter.url)

    assert ("The sea is gr", "ReadError") == (_text(body), met)
    assert ("".join(WORDS), "") == (_text(whole), nothing)
    assert len("".join(WORDS)) + 2 == whole.count("\n\n")


@pytest.mark.parametrize(
    ("how", "error"), [("reset", "ReadError"), ("close", "RemoteProtocolError")]
)
def test_a_cut_in_the_middle_of_an_event(
    how: Literal["reset", "close"], error: str, upstream: FaultyUpstream
) -> None:
    """After so many events and a piece of the next, the client meets a reset or a close."""
    with Cutter(upstream.url, [Cut(3, "events", how, into_event=9)]) as cutter:
        body, met = _read(cutter.url)

    assert ("".join(CHAT[:3]) + CHAT[3][:9], error) == (body, met)


def test_silence_lasts_until_the_client_leaves() -> None:
    """A silent cut leaves the client's connection open, and lets go of the server at once."""
    with FaultyUpstream([_stream([*CHAT, {"fault": "stall"}])]) as upstream:
        with Cutter(upstream.url, [Cut(3, "events", "silence")]) as cutter:
            body, met = _read(cutter.url, timeout_s=0.05)
            let_go = upstream.wait_until(lambda: upstream.requests[0].client_closed)

    assert ("".join(CHAT[:3]), "ReadTimeout", True) == (body, met, let_go)


def test_closing_ends_what_still_runs() -> None:
    """Leaving the context ends a silent reply and a waiting one, and joins their threads."""
    before = set(threading.enumerate())
    with FaultyUpstream([_stream([CHAT[0], {"fault": "stall"}])]) as upstream:
        with httpx.Client(timeout=None) as client:
            with Cutter(upstream.url, [Cut(1, "events", "silence")]) as cutter:
                streams = [
                    client.send(client.build_request("POST", cutter.url, json=1), stream=True)
                    for _ in range(2)
                ]
            for stream in streams:
                with pytest.raises(httpx.RemoteProtocolError):
                    stream.read()

    assert before == set(threading.enumerate())


def test_uncut_replies_pass_as_they_are(upstream: FaultyUpstream) -> None:
    """Where no cut is planned, or the stream is too short for it, every byte passes."""
    with Cutter(upstream.url, [None, Cut(20, "events"), Cut(99)]) as cutter:
        assert [("".join(CHAT), "")] * 4 == [_read(cutter.url) for _ in range(4)]


def test_what_is_no_stream_passes_whole() -> None:
    """An error answer keeps its status, its type and its body."""
    answer = Attempt(['{"error": 1}'], status=503, headers={"content-type": "application/json"})
    with FaultyUpstream([answer]) as upstream, Cutter(upstream.url, [Cut(0)]) as cutter:
        response = httpx.post(cutter.url, json={})

    assert (503, {"error": 1}) == (response.status_code, response.json())


def test_a_break_of_upstream_is_one_for_the_client() -> None:
    """What the real server breaks is not made whole."""
    with FaultyUpstream([_stream([CHAT[0], {"fault": "fin"}])]) as upstream:
        with Cutter(upstream.url, []) as cutter:
            assert (CHAT[0], "RemoteProtocolError") == _read(cutter.url)


def test_requests_are_passed_on_and_kept(upstream: FaultyUpstream) -> None:
    """Path, query, headers and body reach the server; the bodies can be looked at."""
    with Cutter(f"{upstream.url}/base/", []) as cutter:
        httpx.post(f"{cutter.url}/v1/x?y=1", json={"a": 1}, headers={"x-key": "k"})
        seen = upstream.requests[0]

        assert ("/base/v1/x?y=1", "k") == (seen.path, seen.header("x-key"))
        assert [{"a": 1}] == [seen.json()] == cutter.requests


def test_a_server_that_is_not_there() -> None:
    """The client meets a broken connection, as with any dead server."""
    with FaultyUpstream([_stream(CHAT)]) as upstream:
        url = upstream.url
    with Cutter(url, []) as cutter:
        assert ("", "RemoteProtocolError") == _read(cutter.url)


def test_wrong_settings_are_refused(upstream: FaultyUpstream) -> None:
    """Each with what was expected: a place below 0, a URL that is none, a port in use."""
    with pytest.raises(ValueError, match="count from 0"):
        Cut(-1)
    with pytest.raises(UpstreamError, match="expected the http://"):
        Cutter("127.0.0.1:80", [])
    with pytest.raises(PortUnavailable, match="port=0"):
        Cutter(upstream.url, [], port=upstream.port)
