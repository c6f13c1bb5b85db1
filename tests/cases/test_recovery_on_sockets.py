"""What recovery does to a broken reply, over real sockets: sync, asyncio and trio alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hosts import HOSTS, Host, Played, play
from lanes import HURRY, overlay
from scripted import ANTHROPIC, CHAT, WIRES, Wire
from strict_provider import StrictProvider

from midthought.testing import Attempt, FaultyUpstream, RecordedRequest

each_host = pytest.mark.parametrize("host", HOSTS)
each_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)

FIRST = ("Once upon ", "a time there ", "was a ")
REST = ("dragon who ", "kept bees.")
WHOLE = "".join(FIRST + REST)
#: What five continuations add; no two alike, so that none looks like a repeat.
ADDED = ("clever ", "little old ", "green-eyed ", "rather shy ", "and very kind ")
THINKS = {"thinking": {"type": "adaptive"}}


def cut(*pieces: bytes, fault: str = "fin") -> Attempt:
    """A stream that breaks off."""
    return Attempt([b"".join(pieces), {"fault": fault}])


def whole(*pieces: bytes) -> Attempt:
    """A stream in good order."""
    return Attempt([b"".join(pieces)])


def run(
    host: Host,
    wire: Wire,
    attempts: Sequence[Attempt],
    *,
    more: dict[str, Any] | None = None,
    laid_over: str = "",
) -> tuple[Played, list[RecordedRequest]]:
    """One turn; its result and the requests that upstream saw, none of which it would refuse."""
    policy = overlay(wire.policy, HURRY + laid_over)
    with FaultyUpstream(attempts) as upstream:
        played = play(host, policy, upstream.url, {**wire.request, **(more or {})})
        requests = upstream.requests
    provider = StrictProvider("anthropic" if wire is ANTHROPIC else "openai")
    for request in requests:
        assert provider.faults(request.json()) == []
    return played, requests


def halves(played: Played) -> list[tuple[Any, ...]]:
    """Records of half calls."""
    found = played.records_of("discarded_partial_tool_use")
    return [(r["tool_name"], r["partial_input_bytes"], r["reason"]) for r in found]


def history_text(request: RecordedRequest) -> str:
    """Text of the assistant message before the instruction."""
    content = request.json()["messages"][-2]["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content)


# --- text ---------------------------------------------------------------------------------------


@each_host
@each_wire
@pytest.mark.parametrize("fault", ["fin", "rst", "eof_clean", "error event"])
def test_text_goes_on(host: Host, wire: Wire, fault: str) -> None:
    """Text only: the unfinished text is in the history, and the continuation finishes it.

    No double billing: the second request carries the partial and is not the first one.
    """
    broken = wire.start + wire.text(*FIRST, closed=False)
    first = whole(broken + wire.overloaded) if fault == "error event" else cut(broken, fault=fault)
    played, (one, two) = run(host, wire, [first, whole(wire.reply(*REST))])
    assert played.text == WHOLE
    assert played.outcome == "completed"
    assert history_text(two) == "".join(FIRST).rstrip()
    assert two.json()["messages"][-1]["role"] == "user"
    assert two.body != one.body
    assert two.connection != one.connection
    assert played.turn.message["role"] == "assistant"
    assert [a.how for a in played.turn.attempts] == ["original", "continue"]


@each_host
@each_wire
def test_nothing_arrived(host: Host, wire: Wire) -> None:
    """A stream that breaks before anything was shown is asked for again, byte for byte."""
    played, (one, two) = run(host, wire, [cut(wire.start), whole(wire.reply(*REST))])
    assert played.text == "".join(REST)
    assert two.body == one.body
    assert played.turn.attempts[1].how == "retry"


# --- tool calls ---------------------------------------------------------------------------------


@each_host
@each_wire
def test_half_call(host: Host, wire: Wire) -> None:
    """A half tool call is not in the history and not shown; it is recorded exactly."""
    half = wire.call(
        "call_1",
        "write_note",
        '{"path":"a.txt",',
        '"content":"hel',
        closed=False,
        index=1 if wire is ANTHROPIC else 0,
    )
    last = wire.call("call_2", "write_note", '{"path":"a.txt",', '"content":"hello"}')
    attempts = [
        cut(wire.start, wire.text(*FIRST), half),
        whole(wire.start, last, wire.end("tool_use")),
    ]
    played, (_, two) = run(host, wire, attempts)
    size = len('{"path":"a.txt","content":"hel')
    assert halves(played) == [("write_note", size, "sse_transport_error")]
    assert b"call_1" not in two.body
    assert b"hel" not in two.body
    (call,) = played.view.calls
    assert call.id == "call_2"
    assert [c.parsed() for c in played.turn.tool_calls] == [{"path": "a.txt", "content": "hello"}]
    assert played.turn.stop == "tool_use"


@each_host
@each_wire
@pytest.mark.parametrize("after", ["nothing", "half a call", "text"])
def test_whole_call_ends_the_turn(host: Host, wire: Wire, after: str) -> None:
    """A whole tool call is kept: cut behind it, or inside what follows, the turn is complete.

    Nothing is sent again, and what came behind the call is dropped.
    """
    at = 1 if wire is ANTHROPIC else 0
    done = wire.call("call_1", "add", '{"x":', "1}", index=at)
    behind = {
        "nothing": b"",
        "half a call": wire.call("call_2", "add", '{"x":', index=at + 1, closed=False),
        "text": wire.text("And then", index=at + 1, closed=False),
    }[after]
    attempts = [cut(wire.start, wire.text(*FIRST), done, behind), whole(wire.reply(*REST))]
    played, requests = run(host, wire, attempts)
    assert len(requests) == 1
    assert played.outcome == "completed"
    assert played.turn.stop == "tool_use"
    assert played.view.flat == [
        ("text", "".join(FIRST)),
        ("tool_use", "call_1", "add", {"x": 1}),
    ]
    half = [("add", len('{"x":'), "sse_transport_error")] if after == "half a call" else []
    assert halves(played) == half


@each_host
@each_wire
def test_half_call_under_length(host: Host, wire: Wire) -> None:
    """Under a length stop a half call is dropped, and the reply is what was whole: no request."""
    half = wire.call("call_1", "add", '{"x":"he', index=1 if wire is ANTHROPIC else 0, closed=False)
    attempts = [whole(wire.start, wire.text(*FIRST), half, wire.end("length"))]
    played, requests = run(host, wire, attempts)
    assert len(requests) == 1
    assert played.turn.stop == "length"
    assert played.turn.incomplete
    assert played.view.flat == [("text", "".join(FIRST))]
    ((name, size, reason),) = halves(played)
    assert (name, size) == ("add", len('{"x":"he'))
    assert reason.startswith("length")


# --- thinking -----------------------------------------------------------------------------------


@each_host
def test_open_thinking(host: Host) -> None:
    """Thinking that was cut is dropped and recorded; nothing is kept: the same request again."""
    wire = ANTHROPIC
    open_ = wire.thinking("Let me see", signature="AAA", closed=False)
    again = wire.thinking("Let me see.", signature="AAABBB") + wire.text(*FIRST, index=1)
    attempts = [cut(wire.start, open_), whole(wire.start, again, wire.end())]
    played, (one, two) = run(host, wire, attempts, more=THINKS)
    assert two.body == one.body
    (record,) = played.records_of("discarded_partial_thinking")
    assert record["reason"] == "sse_transport_error"
    assert record["thinking_chars"] == len("Let me see")
    (thought,) = [b for b in played.view.valid if b.kind == "thinking"]
    assert thought.joined("signature") == "AAABBB"


@each_host
def test_unsigned_thinking(host: Host) -> None:
    """Closed thinking without a signature does not go back; the text after it does."""
    wire = ANTHROPIC
    begun = wire.thinking("Hmm") + wire.text(*FIRST, index=1, closed=False)
    played, (_, two) = run(
        host, wire, [cut(wire.start, begun), whole(wire.reply(*REST))], more=THINKS
    )
    kinds = [block["type"] for block in two.json()["messages"][-2]["content"]]
    assert kinds == ["text"]
    (record,) = played.records_of("discarded_partial_thinking")
    assert record["thinking_chars"] == 3
    assert played.text == WHOLE


@each_host
def test_signed_thinking(host: Host) -> None:
    """Signed thinking is kept: it goes back first, as it came."""
    wire = ANTHROPIC
    begun = wire.thinking("Hmm", signature="SIG") + wire.text(*FIRST, index=1, closed=False)
    played, (_, two) = run(
        host, wire, [cut(wire.start, begun), whole(wire.reply(*REST))], more=THINKS
    )
    first, second = two.json()["messages"][-2]["content"]
    assert first == {"type": "thinking", "thinking": "Hmm", "signature": "SIG"}
    assert second["type"] == "text"
    assert played.records_of("discarded_partial_thinking") == []
    assert played.text == WHOLE
    assert [b["type"] for b in played.turn.message["content"]][:1] == ["thinking"]


# --- bounds -------------------------------------------------------------------------------------


@each_host
@each_wire
@pytest.mark.parametrize("place", ["further on", "same place"])
def test_five_continuations(host: Host, wire: Wire, place: str) -> None:
    """Five continuations, 1, 2, 4, 8, 16 (here: ms) apart, then exhausted, with the facts.

    Also when each is cut at the same place: a cut is not a lack of progress.
    """
    added = [wire.text(word, closed=False) if place == "further on" else b"" for word in ADDED]
    attempts = [
        cut(wire.start, wire.text(*FIRST, closed=False)),
        *(cut(wire.start, more) for more in added),
    ]
    played, requests = run(host, wire, attempts)
    assert len(requests) == 6
    assert played.outcome == "exhausted"
    assert [a.delay_s for a in played.turn.attempts] == [0, 0.001, 0.002, 0.004, 0.008, 0.016]
    finished = played.view.finished
    assert finished.failure.kind.value == "sse_transport"
    assert played.turn.failure == finished.failure
    said = FIRST + ADDED if place == "further on" else FIRST
    assert played.text == "".join(said)
    (record,) = played.records_of("llm_stream_continuation_exhausted")
    assert record["attempts"] == 6
    assert record["final_reason"] == "sse_transport"
    assert played.turn.message is not None


@each_host
@each_wire
def test_rate_limit_on_a_continuation(host: Host, wire: Wire) -> None:
    """A 429 on a continuation draws on the transient budget: it takes none of the five."""
    body = '{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}'
    limited = Attempt(status=429, framing="length", body=body)
    attempts = [
        cut(wire.start, wire.text(*FIRST, closed=False)),
        limited,
        limited,
        limited,
        *(cut(wire.start, wire.text(word, closed=False)) for word in ADDED[:4]),
        whole(wire.reply(*REST)),
    ]
    played, requests = run(host, wire, attempts)
    assert played.outcome == "completed"
    assert len(requests) == len(attempts)
    hows = [a.how for a in played.turn.attempts]
    assert hows == ["original", "continue", *["retry"] * 3, *["continue"] * 4]
    assert len({r.body for r in requests[1:5]}) == 1
    assert played.text == "".join(FIRST + ADDED[:4] + REST)


# --- endings that are no failure ----------------------------------------------------------------


@each_host
@each_wire
@pytest.mark.parametrize("then", ["end", "cut"])
def test_safety_stop(host: Host, wire: Wire, then: str) -> None:
    """A safety stop is a normal end: never retried, never continued, cut after it or not."""
    stop = wire.end("safety")
    after = stop if then == "end" else stop[: stop.index(b"\n\n") + 2]
    attempt = whole if then == "end" else cut
    played, requests = run(
        host, wire, [attempt(wire.start, wire.text(*FIRST), after), whole(wire.reply(*REST))]
    )
    assert len(requests) == 1
    assert played.turn.stop == "safety"
    assert played.outcome == "completed"
    assert played.text == "".join(FIRST)


@each_host
def test_cut_inside_a_refusal(host: Host) -> None:
    """A cut inside a refusal is not continued either."""
    refusal = (
        b'data: {"id":"c","choices":[{"index":0,"delta":{"refusal":"I cannot help with"}}]}\n\n'
    )
    played, requests = run(host, CHAT, [cut(CHAT.start, refusal), whole(CHAT.reply(*REST))])
    assert len(requests) == 1
    assert played.outcome == "exhausted"
