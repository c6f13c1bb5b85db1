"""The cases' twins and variants, and the cases that need more than one turn or fake time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hosts import HOSTS, Host, Played, play
from lanes import HURRY, overlay
from scripted import ANTHROPIC, CHAT, Wire

import midthought
from midthought.testing import Attempt, FaultyUpstream, RecordedRequest

each_host = pytest.mark.parametrize("host", HOSTS)
TALKATIVE = HURRY + "[seam.instruct]\nhold_first = 0\n"
REST = "beta gamma"
JSON = {"content-type": "application/json"}


def run(
    host: Host, wire: Wire, attempts: Sequence[Attempt], laid_over: str = "", **more: Any
) -> tuple[Played, list[RecordedRequest]]:
    """One turn of a small request."""
    with FaultyUpstream(attempts) as upstream:
        policy = overlay(wire.policy, laid_over + TALKATIVE)
        played = play(host, policy, upstream.url, {**wire.request, **more})
        return played, upstream.requests


def whole(wire: Wire, *pieces: str) -> Attempt:
    """A whole reply."""
    return Attempt([wire.reply(*(pieces or (REST,)))])


def cut(wire: Wire, *pieces: str) -> Attempt:
    """A reply that breaks inside its text."""
    return Attempt([wire.start + wire.text(*pieces, closed=False), {"fault": "fin"}])


# --- completeness (A08, A09, B01, B04) ------------------------------------------------------------


@each_host
def test_undecodable_twice(host: Host) -> None:
    """A08: a body that cannot be decoded is tried once more, then the turn ends and says so."""
    garbled = Attempt([ANTHROPIC.start], headers={"content-encoding": "gzip"})
    played, requests = run(host, ANTHROPIC, [garbled, garbled, whole(ANTHROPIC)])
    assert len(requests) == 2
    assert played.outcome == "exhausted"
    assert played.view.finished.failure.kind.value == "body_decode"


@each_host
def test_end_marker_cut_in_half(host: Host) -> None:
    """A09: the stop fact is there, the end marker is cut in half: complete, one request."""
    stream = ANTHROPIC.reply("Alpha")
    played, requests = run(host, ANTHROPIC, [Attempt([stream[:-20], {"fault": "fin"}])])
    assert len(requests) == 1
    assert played.outcome == "completed"
    assert played.text == "Alpha"


@each_host
@pytest.mark.parametrize("says", [True, False])
def test_done_alone(host: Host, says: bool) -> None:
    """B01: ``[DONE]`` without a finish reason is complete only where the policy says so."""
    stream = CHAT.start + CHAT.text("Alpha ") + b"data: [DONE]\n\n"
    flag = f"[stream]\ndone_is_terminal = {str(says).lower()}\n"
    played, requests = run(host, CHAT, [Attempt([stream]), whole(CHAT)], flag)
    assert len(requests) == (1 if says else 2)
    assert played.text == ("Alpha " if says else "Alpha beta gamma")


@each_host
def test_tail_cut_inside_json(host: Host) -> None:
    """B04: a last line that is cut inside its JSON is dropped; it is no stop fact."""
    stream = CHAT.start + CHAT.text("Alpha ") + CHAT.end()
    half = stream[: stream.index(b'"finish_reason": "stop"') + 12]
    played, requests = run(host, CHAT, [Attempt([half]), whole(CHAT)])
    assert len(requests) == 2
    assert played.text == "Alpha beta gamma"


# --- errors (D01, D02, E05, E08, K02, K09, M04, M07) ----------------------------------------------


ERROR_CHUNKS = {
    "error, then [DONE]": b'data: {"error":{"message":"broken","code":502}}\n\ndata: [DONE]\n\n',
    "empty choices": b'data: {"choices":[],"error":{"message":"broken","code":502}}\n\n',
    "finish reason": b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}\n\n',
    "event: error": b'event: error\ndata: {"message":"broken"}\n\n',
}


@each_host
@pytest.mark.parametrize("chunk", ERROR_CHUNKS)
def test_error_in_the_stream(host: Host, chunk: str) -> None:
    """D02: an error in any of its forms is an error, and wins over ``[DONE]``."""
    stream = CHAT.start + CHAT.text("Alpha ") + ERROR_CHUNKS[chunk]
    played, requests = run(host, CHAT, [Attempt([stream]), whole(CHAT)])
    assert len(requests) == 2
    assert played.text == "Alpha beta gamma"
    assert [stop.stop.value for stop in played.view.stops] == ["end"]


@each_host
def test_unknown_429_is_retried(host: Host) -> None:
    """E05: a 429 whose code nobody knows is a rate limit and is retried."""
    body = '{"error":{"message":"no","type":"who_knows","code":"what_is_this"}}'
    limited = Attempt(status=429, framing="length", body=body)
    played, requests = run(host, CHAT, [limited, whole(CHAT)])
    assert len(requests) == 2
    assert played.text == REST


@each_host
def test_told_to_retry(host: Host) -> None:
    """E08: ``x-should-retry: true`` on a 409 is followed, once."""
    body = '{"type":"error","error":{"type":"invalid_request_error","message":"busy"}}'
    told = Attempt(status=409, framing="length", body=body, headers={"x-should-retry": "true"})
    played, requests = run(host, ANTHROPIC, [told, whole(ANTHROPIC)])
    assert len(requests) == 2
    assert played.text == REST
    played, requests = run(host, ANTHROPIC, [told, told, whole(ANTHROPIC)])
    assert len(requests) == 2
    assert played.outcome == "exhausted"


@each_host
def test_content_policy_is_final(host: Host) -> None:
    """K09: a 400 of the content policy is never retried."""
    body = '{"error":{"message":"flagged","code":"content_policy_violation"}}'
    refused = Attempt(status=400, framing="length", body=body)
    played, requests = run(host, CHAT, [refused, whole(CHAT)])
    assert len(requests) == 1
    assert played.view.finished.failure.kind.value == "blocked"


@each_host
def test_same_time_out_twice(host: Host) -> None:
    """M04: a second 524 in a row ends the turn with a hint; more waiting would not help."""
    page = "<html><body>timeout</body></html>"
    html = {"content-type": "text/html"}
    out = Attempt(status=524, framing="length", body=page, headers=html)
    played, requests = run(host, ANTHROPIC, [out, out, whole(ANTHROPIC)])
    assert len(requests) == 2
    assert played.outcome == "exhausted"
    assert "same time" in played.turn.hint
    assert "<" not in played.view.finished.failure.message


COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Alpha"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
}
NO_STREAMS: dict[str, tuple[Attempt, int, str]] = {
    "page": (
        Attempt(
            framing="length", body="<html>sign in</html>", headers={"content-type": "text/html"}
        ),
        2,
        REST,
    ),
    "whole reply": (
        Attempt(framing="length", body=json.dumps(COMPLETION), headers=JSON),
        1,
        "Alpha",
    ),
    "nothing": (Attempt(framing="length", body="", headers=JSON), 2, REST),
}


@each_host
@pytest.mark.parametrize("answer", NO_STREAMS)
def test_no_stream(host: Host, answer: str) -> None:
    """M07: a page is a broken proxy and is retried; a whole reply is a reply, and is delivered."""
    attempt, count, text = NO_STREAMS[answer]
    played, requests = run(host, CHAT, [attempt, whole(CHAT)])
    assert len(requests) == count
    assert played.text == text
    assert played.outcome == "completed"


# --- tools and lengths (F01, F05, K01) ------------------------------------------------------------


@each_host
@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT], ids=lambda wire: wire.name)
@pytest.mark.parametrize("fault", ["eof_clean", "length"])
def test_half_call_is_never_mended(host: Host, wire: Wire, fault: str) -> None:
    """F01, K01: half a call is no call, whether the stream ends in good order or by its cap."""
    half = wire.call("c1", "note", '{"path":"a.txt","content":"hel', closed=False)
    if fault == "length":
        played, requests = run(host, wire, [Attempt([wire.start + half + wire.end("length")])])
        assert len(requests) == 1
        assert played.turn.stop == "length"
    else:
        attempts = [Attempt([wire.start + half]), whole(wire)]
        played, requests = run(host, wire, attempts)
        assert requests[1].body == requests[0].body
        assert played.text == REST
    assert not played.view.calls
    assert not played.turn.tool_calls


# --- seams (H02, H07, H08) ------------------------------------------------------------------------


SEAMS = [
    ("Alpha ", "beta", "Alpha beta"),
    ("Alpha ", " beta", "Alpha beta"),
    ("Alpha", " beta", "Alpha beta"),
    ("Alpha\n", "\nbeta", "Alpha\nbeta"),
    ("Al", "pha beta", "Alpha beta"),
]


@each_host
@pytest.mark.parametrize(("first", "second", "text"), SEAMS)
@pytest.mark.parametrize("policy", ["openai-chat", "llamacpp"])
def test_space_at_the_seam(host: Host, policy: str, first: str, second: str, text: str) -> None:
    """H08: no white space is lost, added or doubled, instructed or prefilled."""
    wire = Wire("chat", policy, "some-model")
    played, requests = run(host, wire, [cut(wire, first), whole(wire, second)])
    assert len(requests) == 2
    assert played.text == text
    assert played.turn.message["content"] == text


PREFILL_REJECTED = Attempt(
    status=400,
    framing="length",
    body='{"type":"error","error":{"type":"invalid_request_error","message":"This model does not '
    'support assistant message prefill. The conversation must end with a user message."}}',
    headers={"x-should-retry": "false"},
)


@each_host
def test_refused_prefill_is_remembered(host: Host) -> None:
    """H02: what a server turned out to refuse is not tried again by the same client."""
    learned = midthought.Capabilities()
    broken = cut(ANTHROPIC, "Alpha ")
    attempts = [broken, PREFILL_REJECTED, whole(ANTHROPIC), broken, whole(ANTHROPIC)]
    request = {**ANTHROPIC.request, "model": "claude-sonnet-4-5"}
    with FaultyUpstream(attempts) as upstream:
        for sent in (3, 5):
            policy = overlay("anthropic", TALKATIVE)
            played = play(host, policy, upstream.url, request, capabilities=learned)
            assert played.text == "Alpha beta gamma"
            assert len(upstream.requests) == sent
            assert upstream.requests[-1].json()["messages"][-1]["role"] == "user"


# --- the switch (N01) -----------------------------------------------------------------------------


@each_host
def test_switched_off(host: Host) -> None:
    """N01: switched off, the transport's failure is the turn's, and nothing is sent again."""
    off = "enabled = false\n"
    played, requests = run(host, ANTHROPIC, [cut(ANTHROPIC, "Alpha "), whole(ANTHROPIC)], off)
    assert len(requests) == 1
    assert played.outcome == "exhausted"
    assert played.view.finished.failure.kind.value == "sse_transport"
