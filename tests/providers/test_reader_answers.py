"""Answers that are no stream: whole replies, errors, pages, nothing; each is told as what it is."""

import gzip
import json

import pytest
from anthropic_frames import DIALECT, MESSAGE, POLICY, START, frame, policy
from one_answer import Transport, answer, failure, stop

from midthought.policies import FailureKind, Stop
from midthought.providers import AttemptReader
from midthought.statemachine import BlockDelta, Responded

TEXT = frame(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A"}}
)
KNOWN = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
END = frame({"type": "message_stop"})
WHOLE = {**MESSAGE, "content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", ""])
def test_whole_reply_as_json(content_type: str) -> None:
    """A completion in one JSON body is as good as a stream (case M07)."""
    body = json.dumps(WHOLE, indent=1).encode()
    events = answer([body[:9], body[9:]], headers={"content-type": content_type})

    assert 1 == len([event for event in events if isinstance(event, Responded)])
    assert ["A"] == [event.text for event in events if isinstance(event, BlockDelta)]
    assert Stop.end is stop(events)


def test_whole_reply_without_a_stop_reason_is_a_cut() -> None:
    """A JSON reply that names no stop reason is no success."""
    body = json.dumps({**WHOLE, "stop_reason": None}).encode()

    assert FailureKind.premature_end is failure(answer(body, headers={})).kind


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/plain"])
def test_error_as_json_under_a_success(content_type: str) -> None:
    """A 200 whose JSON body is an error is that error (case M07)."""
    used = policy(classify=[{"kind": "overloaded", "code": ["busy_error"]}])
    body = b'{"error":{"message":"busy","type":"busy_error","code":503}}'
    found = failure(answer(body, headers={"content-type": content_type}, used=used))

    assert (FailureKind.overloaded, "busy", 503) == (found.kind, found.message, found.status)


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/event-stream", ""])
def test_page_of_html(content_type: str) -> None:
    """A portal's page is a server error, told by type and size and never by its text (M04, M07)."""
    body = b"<html><body>secret</body></html>"
    found = failure(answer(body, headers={"content-type": content_type}))
    used = policy(classify=[{"kind": "timeout", "status": [524]}])
    late = failure(answer(body, status=524, headers={"content-type": content_type}, used=used))

    assert (FailureKind.server_error, "HTTP 200, HTML, 32 bytes") == (found.kind, found.message)
    assert (FailureKind.timeout, "HTTP 524, HTML, 32 bytes") == (late.kind, late.message)


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/html", ""])
@pytest.mark.parametrize("body", [b"", b"\r\n", b": keep-alive\n\n", b"ev", b"event: message_st"])
def test_empty_body(content_type: str, body: bytes) -> None:
    """A 200 with nothing in it is a stream that ended before it began (case B06, variant a)."""
    found = failure(answer(body, headers={"content-type": content_type}))

    assert FailureKind.premature_end is found.kind


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/event-stream", b'data: {"object":"chat.completion.chunk","choices":[]}\n\n'),
        ("application/json", b'{"object":"list"}'),
        ("application/octet-stream", b"\x1f\x8b\x08 compressed"),
        ("text/event-stream", b"Welcome to this server, please log in"),
    ],
)
def test_something_else_altogether(content_type: str, body: bytes) -> None:
    """A 200 that is no stream, reply or error is told as that, with type and size (I06)."""
    found = failure(answer(body, headers={"content-type": content_type}))

    assert FailureKind.not_a_stream is found.kind
    assert f"{len(body)} bytes" in found.message


@pytest.mark.parametrize("content_type", ["text/plain", "application/json", "binary/octet-stream"])
def test_stream_under_a_wrong_content_type(content_type: str) -> None:
    """Server-sent events under another content type are a stream, byte by byte too."""
    data = START + TEXT + KNOWN + END
    for chunks in ([data], [data[i : i + 1] for i in range(len(data))]):
        events = answer(chunks, headers={"content-type": content_type})
        assert Responded(2) == events[0]
        assert Stop.end is stop(events)


def test_error_answers() -> None:
    """A status of 400 and up is classified by status, codes and words, with its headers."""
    used = policy(
        classify=[{"kind": "overloaded", "status": [529]}, {"kind": "auth", "status": [401]}],
        retry_hints=[{"header": "retry-after", "unit": "s_or_date"}],
    )
    headers = {"content-type": "application/json", "Retry-After": "7", "X-Should-Retry": "false"}
    error = {"type": "overloaded_error", "message": "Overloaded"}
    body = json.dumps({"type": "error", "error": error, "request_id": "r"}).encode()
    found = failure(answer([body[:30], body[30:]], status=529, headers=headers, used=used))
    words = failure(
        answer(b"no key", status=401, headers={"content-type": "text/plain"}, used=used)
    )
    nothing = failure(answer(b"", status=401, headers={}, used=used))

    assert (FailureKind.overloaded, "Overloaded", "overloaded_error", 529, 7.0, False, "r") == (
        found.kind,
        found.message,
        found.code,
        found.status,
        found.retry_after_s,
        found.should_retry,
        found.request_id,
    )
    assert "response" == found.phase
    assert (FailureKind.auth, "no key") == (words.kind, words.message)
    assert (FailureKind.auth, "HTTP 401, an empty body") == (nothing.kind, nothing.message)


def test_error_answer_as_an_event_stream() -> None:
    """An error answer may itself be written as an event."""
    used = policy(classify=[{"kind": "rate_limited", "code": ["rate_limit_error"]}])
    body = b'event: error\ndata: {"type":"error","error":{"type":"rate_limit_error","message":"m"}}'

    assert FailureKind.rate_limited is failure(answer(body, status=429, used=used)).kind


def test_error_answer_that_is_cut() -> None:
    """The status of an error answer says more than the cut in its body."""
    used = policy(
        classify=[
            {"kind": "sse_transport", "exception": ["Transport"]},
            {"kind": "overloaded", "status": [529]},
        ]
    )
    late = Transport("reset")
    json_type = {"content-type": "application/json"}
    cut = failure(answer(b'{"type":"er', status=529, headers=json_type, used=used, broke=late))
    reply = failure(answer(b'{"type":"mes', headers=json_type, used=used, broke=late))

    assert FailureKind.overloaded is cut.kind
    assert (FailureKind.sse_transport, "response") == (reply.kind, reply.phase)


def test_error_answer_is_bounded() -> None:
    """An endless error body ends the attempt by itself and is not kept."""
    reader = AttemptReader(POLICY, DIALECT, 0)
    events = reader.response(500, [("content-type", "text/plain")])
    for _ in range(1000):
        events += reader.feed(b"x" * 1024)
        if reader.finished:
            break

    assert 500 == failure(events).status
    assert len(failure(events).message) <= 500


def test_compressed_bytes_are_no_stream() -> None:
    """Bytes that nobody decompressed are told as what they are, not read as an empty stream."""
    found = failure(answer(gzip.compress(START + KNOWN + END, mtime=0)))

    assert found.kind in (FailureKind.not_a_stream, FailureKind.sse_parse)
