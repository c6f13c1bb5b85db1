"""What only the clients can break: their clocks, pools, threads, sinks and hooks."""

import threading
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

import midthought
import midthought.policies
from midthought.testing import Attempt, FaultyUpstream, RecordedRequest

REQUEST = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
DONE = "data: [DONE]\n\n"


def chunk(text: str, finish: str | None = None) -> str:
    """One chunk of a Chat stream."""
    end = f'"{finish}"' if finish else "null"
    text = text.replace("\n", "\\n")
    return (
        'data: {"id":"c","choices":[{"index":0,"delta":{"content":"'
        + text
        + '"},"finish_reason":'
        + end
        + "}]}\n\n"
    )


WHOLE = Attempt([chunk("All of it, in one go.", "stop"), DONE])


def policy(**clocks: float) -> midthought.Policy:
    """The policy ``openai-chat`` without waits, and with these clocks."""
    return quick("openai-chat", **clocks)


def quick(name: str, /, **clocks: float) -> midthought.Policy:
    """A shipped policy without waits, and with these clocks."""
    found = midthought.load_policy(name)
    no_wait = {
        key: spec.model_copy(update={"initial_s": 0.0, "max_s": 0.0})
        for key, spec in found.backoff.items()
    }
    return found.model_copy(
        update={"backoff": no_wait, "clocks": found.clocks.model_copy(update=clocks)}
    )


def client(upstream: FaultyUpstream, found: midthought.Policy, **more: Any) -> midthought.Client:
    """A sync client of this upstream."""
    return midthought.Client(found, base_url=upstream.url, api_key="k", **more)


def test_clocks_that_grew_reach_the_wire() -> None:
    """After a silent attempt the next one may take longer, on the wire too."""
    slow = Attempt([chunk("Slow, but here.", "stop"), DONE], head_after_s=0.6)
    with (
        FaultyUpstream([slow]) as upstream,
        client(upstream, policy(headers_s=0.3, growth=8.0)) as talking,
    ):
        turn = talking.result(talking.prepare(REQUEST))

        assert ("Slow, but here.", 2) == (turn.text, len(upstream.requests))


def test_the_clock_stands_still_while_the_caller_thinks() -> None:
    """A slow consumer trips no clock, although upstream was silent meanwhile."""
    parts = Attempt([chunk("One "), chunk("two "), {"wait": 0.05}, chunk("three.", "stop"), DONE])
    with (
        FaultyUpstream([parts]) as upstream,
        client(upstream, policy(liveness_s=0.4, progress_s=0.4)) as talking,
    ):
        call = talking.prepare(REQUEST)
        for event in talking.stream(call):
            if isinstance(event, midthought.BlockDelta):
                threading.Event().wait(0.5)

        assert ("One two three.", 1) == (call.turn.text, len(upstream.requests))


@pytest.mark.parametrize(
    "text", ["| 0 | 0 |\n" * 9 + "The end.", "la " * 30 + "stop", "=" * 60 + "\nDone."]
)
@pytest.mark.parametrize("cut", [20, 27, 33])
def test_a_prefilled_reply_may_repeat_itself(text: str, cut: int) -> None:
    """The server goes on exactly, so a text that repeats itself loses nothing at the seam."""

    def answer(request: RecordedRequest, number: int) -> Attempt:
        said = request.json()["messages"][-1]
        sent = said["content"] if said["role"] == "assistant" else ""
        if number == 0:
            return Attempt([chunk(text[:cut]), {"fault": "rst"}])
        return Attempt([chunk(text[len(sent) :], "stop"), DONE])

    with FaultyUpstream(answer) as upstream, client(upstream, quick("llamacpp")) as talking:
        turn = talking.result(talking.prepare(REQUEST))

        assert (text, 2) == (turn.text, len(upstream.requests))


@pytest.mark.parametrize("error", [httpx.ReadError("collector down"), ValueError("mine")])
def test_a_sink_that_raises_is_heard(error: Exception) -> None:
    """What a host's sink raises is raised in its loop, and is never taken for the transport's."""

    def sink(name: str, fields: Mapping[str, Any]) -> None:
        if name == "llm_attempt_ended":
            raise error

    with (
        FaultyUpstream([WHOLE]) as upstream,
        client(upstream, policy(), on_record=sink) as talking,
        pytest.raises(type(error), match=str(error)),
    ):
        talking.result(talking.prepare(REQUEST))


def test_closing_the_client_ends_its_turns() -> None:
    """A turn that hangs is aborted when its client is closed, and no request follows."""
    hanging = Attempt([chunk("It hangs, and "), {"fault": "stall"}])
    with FaultyUpstream([hanging]) as upstream:
        talking = client(upstream, policy())
        call = talking.prepare(REQUEST)
        threading.Timer(0.2, talking.close).start()
        list(talking.stream(call))

        assert ("aborted", 1) == (call.turn.outcome, len(upstream.requests))


def test_cancel_on_a_kept_connection_reaches_upstream() -> None:
    """Cancelled while it waits for its response head: the socket is closed and the thread ends."""
    before = set(threading.enumerate())
    with (
        FaultyUpstream([WHOLE, Attempt(framing="none")]) as upstream,
        client(upstream, policy()) as talking,
    ):
        talking.result(talking.prepare(REQUEST))
        call = talking.prepare(REQUEST)
        threading.Timer(0.1, call.cancel).start()
        list(talking.stream(call))
        kept = upstream.requests[1]

        assert kept.reused
        assert upstream.wait_until(lambda: kept.client_closed, timeout_s=5)
        ours = [t for t in set(threading.enumerate()) - before if t.name == "midthought-send"]
        for thread in ours:
            thread.join(5)
        assert not [t for t in ours if t.is_alive()]


def test_after_a_broken_stream_no_old_connection_is_used() -> None:
    """Idle connections are suspect after a transport failure: new turns get new ones."""
    broken = Attempt([chunk("Broken, but then "), {"fault": "rst"}])
    rest = Attempt([chunk("whole.", "stop"), DONE])
    with (
        FaultyUpstream([WHOLE, WHOLE, broken, rest, WHOLE]) as upstream,
        client(upstream, policy()) as talking,
    ):
        for _ in range(4):
            talking.result(talking.prepare(REQUEST))

        assert [False, True, True, False, False] == [r.reused for r in upstream.requests]


#: Asks the hook ``compact`` where the context is too long.
ASKS = midthought.policies.Rule.model_validate(
    {"name": "ask", "on": {"failure": ["context_overflow"]}, "action": "compact", "limit": 1}
)
TOO_LONG = Attempt(
    [],
    status=400,
    headers={"content-type": "application/json"},
    framing="length",
    body='{"error":{"message":"maximum context length is 9","code":"context_length_exceeded"}}',
)


def asking(**clocks: float) -> midthought.Policy:
    """A policy with that rule."""
    found = policy(**clocks)
    return found.model_copy(update={"rules": (ASKS, *found.rules)})


def test_a_hook_gets_a_copy() -> None:
    """A hook that edits its request in place does not change the call's own."""
    long = {"model": "m", "messages": [{"role": "user", "content": "x" * 500}] * 2}

    def shrink(kind: str, request: dict[str, Any]) -> dict[str, Any]:
        request["messages"].pop(0)
        return request

    with (
        FaultyUpstream([TOO_LONG, WHOLE]) as upstream,
        client(upstream, asking(), hooks={"compact": shrink}) as talking,
    ):
        call = talking.prepare(long)
        turn = talking.result(call)

        assert 2 == len(call.request["messages"])
        assert ("completed", 1) == (turn.outcome, len(upstream.requests[1].json()["messages"]))


def test_a_hook_that_answers_too_late_is_refused() -> None:
    """Nothing can interrupt a sync hook, but an answer after ``hook_s`` is not used."""

    def late(kind: str, request: dict[str, Any]) -> dict[str, Any]:
        threading.Event().wait(0.3)
        return {"model": "m", "messages": []}

    with (
        FaultyUpstream([TOO_LONG, WHOLE]) as upstream,
        client(upstream, asking(hook_s=0.1), hooks={"compact": late}) as talking,
    ):
        call = talking.prepare(REQUEST)
        list(talking.stream(call))

        assert ("exhausted", 1) == (call.turn.outcome, len(upstream.requests))


def test_streaming_without_preparing() -> None:
    """The likely slip says what to do."""
    with (
        FaultyUpstream([WHOLE]) as upstream,
        client(upstream, policy()) as talking,
        pytest.raises(midthought.InvalidPreparedCall, match=r"client.prepare\(request\)"),
    ):
        talking.stream(REQUEST)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), b"bytes", object()])
def test_a_request_that_is_no_json(value: object) -> None:
    """Refused when it is prepared, and nothing is sent."""
    with (
        FaultyUpstream([WHOLE]) as upstream,
        client(upstream, policy()) as talking,
        pytest.raises(midthought.InvalidRequest, match="no JSON"),
    ):
        talking.prepare({**REQUEST, "temperature": value})
