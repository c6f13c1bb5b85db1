"""The boundary: whatever a response does ends in one ``Finished``, and our own faults raise."""

import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Policy, Stop
from midthought.providers import AttemptReader, get_dialect, register_dialect
from midthought.statemachine import (
    BlockDelta,
    Event,
    Failure,
    Finished,
    Heartbeat,
    Responded,
    StopKnown,
)

DIALECT = get_dialect("anthropic_messages")
SSE = {"content-type": "text/event-stream"}


def policy(**tables: Any) -> Policy:
    """A policy that only knows what a test says."""
    return Policy.model_validate({"name": "test", "dialect": "anthropic_messages", **tables})


POLICY = policy()


def frame(data: Any) -> bytes:
    """One frame of the dialect."""
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
START = frame({"type": "message_start", "message": MESSAGE})
TEXT = frame(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A"}}
)
KNOWN = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
END = frame({"type": "message_stop"})
WHOLE = {**MESSAGE, "content": [{"type": "text", "text": "A"}], "stop_reason": "end_turn"}


class Transport(Exception):
    """Stands for an HTTP library's error."""


def answer(
    body: bytes | list[bytes],
    *,
    status: int = 200,
    headers: dict[str, str] = SSE,
    used: Policy = POLICY,
    broke: BaseException | None = None,
) -> list[Event]:
    """All events of one answer, ended in an orderly way or by an exception."""
    reader = AttemptReader(used, DIALECT, 2, model="m")
    events = reader.response(status, headers.items(), connection="new", elapsed_s=0.5)
    for chunk in [body] if isinstance(body, bytes) else body:
        events += reader.feed(chunk)
    events += reader.end() if broke is None else reader.broke(broke)
    assert reader.finished
    return events


def failure(events: list[Event]) -> Failure:
    """The failure of the one ``Finished`` that ends these events."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert events[-1:] == finished
    assert Stop.error is finished[0].stop
    assert finished[0].failure is not None
    return finished[0].failure


def stop(events: list[Event]) -> Stop:
    """The stop of the one ``Finished``, which is no failure."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert events[-1:] == finished
    assert finished[0].failure is None
    return finished[0].stop


# --- streams -------------------------------------------------------------------------------------


def test_facts_of_the_response_are_in_the_failure() -> None:
    """A failure carries attempt, provider, model, status, connection, time and request id."""
    events = answer(START, headers={"Content-Type": "Text/Event-Stream; x=y", "Request-ID": "r1"})
    found = failure(events)

    assert Responded(2, "r1") == events[0]
    assert {2} == {event.attempt for event in events}
    assert ("test", "m", 200, "new", 0.5, "r1") == (
        found.provider,
        found.model,
        found.status,
        found.connection,
        found.elapsed_s,
        found.request_id,
    )
    assert (FailureKind.premature_end, "stream") == (found.kind, found.phase)


def test_nothing_after_finished() -> None:
    """After ``Finished`` bytes, the end and exceptions say nothing more."""
    reader = AttemptReader(POLICY, DIALECT, 0)
    events = reader.response(200, SSE.items()) + reader.feed(START + KNOWN + END + START)

    assert Stop.end is stop(events)
    assert [] == reader.feed(START) + reader.end() + reader.broke(Transport())
    assert [] == reader.read(START)


def test_late_content_is_delivered() -> None:
    """Between the stop fact and the end marker everything is still handed on."""
    events = answer(START + KNOWN + TEXT + END)
    kinds = [type(event) for event in events]

    assert kinds.index(BlockDelta) > kinds.index(StopKnown)
    assert Stop.end is stop(events)


@pytest.mark.parametrize("body", [START + TEXT + KNOWN, START + TEXT + KNOWN[:-1]])
def test_transport_fault_after_the_stop_fact_is_a_success(body: bytes) -> None:
    """A cut that comes after the stop reason costs nothing."""
    assert Stop.end is stop(answer(body, broke=Transport("reset")))


def test_transport_fault_is_classified_by_its_class() -> None:
    """An exception of the transport becomes the failure that the policy's rows say."""
    used = policy(classify=[{"kind": "sse_transport", "exception": ["Transport"]}])
    found = failure(answer(START + TEXT, used=used, broke=Transport("connection reset")))
    unlisted = failure(answer(START, broke=Transport("odd")))

    assert (FailureKind.sse_transport, "Transport", "connection reset", "stream") == (
        found.kind,
        found.code,
        found.message,
        found.phase,
    )
    assert (FailureKind.unknown, "Transport") == (unlisted.kind, unlisted.code)


def test_transport_fault_before_the_response() -> None:
    """Without a response the phase is ``connect``, unless the host knows better."""
    for known in (None, "response"):
        reader = AttemptReader(POLICY, DIALECT, 0)
        phase: Any = known
        events = reader.broke(Transport(), phase=phase, connection="reused", elapsed_s=0.1)
        found = failure(events)
        assert (known or "connect", "reused", 0.1, None) == (
            found.phase,
            found.connection,
            found.elapsed_s,
            found.status,
        )


def test_tail_is_kept_for_hosts_that_pass_frames_on() -> None:
    """A last frame that counts without its blank line is shown, one that does not is not."""
    for body, tail in ((KNOWN[:-2], KNOWN[:-2]), (KNOWN[:-9], None), (KNOWN, None)):
        reader = AttemptReader(POLICY, DIALECT, 0)
        reader.response(200, SSE.items())
        reader.feed(START + body)
        reader.end()
        assert tail == (reader.tail.raw if reader.tail else None)


@pytest.mark.parametrize("chunks", [1, 3])
def test_event_too_large(chunks: int) -> None:
    """An event over the policy's bound ends the attempt; what came whole before it stands."""
    used = policy(limits={"event_bytes": 2048})
    large = frame({"type": "ping", "x": "y" * 4000})
    data = START + TEXT + large + END
    size = len(data) // chunks + 1
    events = answer([data[i : i + size] for i in range(0, len(data), size)], used=used)
    found = failure(events)

    assert FailureKind.event_too_large is found.kind
    assert ["A"] == [event.text for event in events if isinstance(event, BlockDelta)]
    assert "2048" in found.message


def test_read_gives_frames_and_the_fault() -> None:
    """``read`` pairs each frame with its events; a framing fault has no frame."""
    reader = AttemptReader(policy(limits={"event_bytes": 1024}), DIALECT, 0)
    reader.response(200, SSE.items())
    pairs = reader.read(START + b": c\n\n" + b"data: " + b"x" * 2000)

    assert [START, b": c\n\n", None] == [one and one.raw for one, _ in pairs]
    assert [[Heartbeat(0)]] == [events for _, events in pairs[1:2]]
    assert FailureKind.event_too_large is failure(pairs[2][1]).kind


def test_bytes_before_the_response_are_a_defect() -> None:
    """A host that feeds before the headers is told so; that is no failure of upstream."""
    with pytest.raises(RuntimeError, match="response"):
        AttemptReader(POLICY, DIALECT, 0).feed(START)


def test_our_own_faults_raise() -> None:
    """An exception inside a dialect is a defect: it is raised, never classified."""

    class Broken:
        """A decoder with a bug."""

        def decode(self, frame: Any, out: list[Event]) -> None:
            """Fail."""
            raise KeyError("bug")

        def ended(self, out: list[Event]) -> None:
            """Nothing."""

    reader = AttemptReader(POLICY, DIALECT, 0)
    reader.response(200, SSE.items())
    reader._decode = Broken().decode
    with pytest.raises(KeyError, match="bug"):
        reader.feed(START)


def test_an_error_in_a_stream_has_no_status_of_its_response() -> None:
    """A 200 and its headers say nothing about an error that came later in the stream."""
    used = policy(retry_hints=[{"header": "retry-after"}, {"json_path": "error.wait"}])
    error = frame({"type": "error", "error": {"message": "m", "wait": 3}})
    headers = {**SSE, "retry-after": "9", "x-should-retry": "true", "request-id": "r"}
    found = failure(answer(START + error, headers=headers, used=used))

    assert (None, 3.0, None, "r") == (
        found.status,
        found.retry_after_s,
        found.should_retry,
        found.request_id,
    )


# --- answers that are no stream of ours ----------------------------------------------------------


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


_chunks = st.lists(
    st.sampled_from(
        [START, TEXT, KNOWN, END, b"data: {", b": c\n\n", b"\xff\n\n", b"<html>", b"{}"]
    )
    | st.binary(max_size=20),
    max_size=6,
)


@given(
    _chunks,
    st.sampled_from([200, 204, 302, 429, 500]),
    st.sampled_from(["text/event-stream", "application/json", "text/html", ""]),
    st.booleans(),
)
def test_always_exactly_one_finished(
    chunks: list[bytes], status: int, content_type: str, orderly: bool
) -> None:
    """Any bytes under any status and type, ended in any way: one ``Finished``, and it is last."""
    late = None if orderly else Transport("reset")
    events = answer(chunks, status=status, headers={"content-type": content_type}, broke=late)
    (finished,) = [event for event in events if isinstance(event, Finished)]

    assert finished is events[-1]
    if finished.failure is None:
        assert any(isinstance(event, StopKnown) for event in events)


# --- dialects by name ----------------------------------------------------------------------------


def test_dialects_by_name() -> None:
    """A dialect is found by its name; another name is refused with the known ones listed."""
    assert DIALECT is get_dialect("anthropic_messages")
    with pytest.raises(ValueError, match="known dialects: anthropic_messages, openai_chat"):
        get_dialect("anthropic")
    with pytest.raises(ValueError, match="built in"):
        register_dialect(DIALECT)
