"""The boundary: whatever a response does ends in one ``Finished``, and our own faults raise."""

from typing import Any

import pytest
from anthropic_frames import DIALECT, POLICY, START, frame, policy
from hypothesis import given
from hypothesis import strategies as st
from one_answer import SSE, Transport, answer, failure, stop

from midthought.policies import FailureKind, Stop
from midthought.providers import AttemptReader, get_dialect, register_dialect
from midthought.statemachine import (
    BlockDelta,
    Event,
    Finished,
    Heartbeat,
    Responded,
    StopKnown,
)

TEXT = frame(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "A"}}
)
KNOWN = frame({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
END = frame({"type": "message_stop"})


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


def test_dialects_by_name() -> None:
    """A dialect is found by its name; another name is refused with the known ones listed."""
    assert DIALECT is get_dialect("anthropic_messages")
    with pytest.raises(ValueError, match="known dialects: anthropic_messages, "):
        get_dialect("anthropic")
    with pytest.raises(ValueError, match="built in"):
        register_dialect(DIALECT)
