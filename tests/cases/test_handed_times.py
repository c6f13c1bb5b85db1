"""Cases about time and connections: waits that nobody waits out, sleep, dead connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from caller_view import CallerView
from hosts import HOSTS, Host, Played, play
from lanes import HURRY, overlay
from scripted import ANTHROPIC
from twin import Answer, Twin

import midthought
from midthought.policies import Policy
from midthought.statemachine import ClockJumped
from midthought.testing import Attempt, FaultyUpstream, refused_port

each_host = pytest.mark.parametrize("host", HOSTS)
TALKATIVE = HURRY + "[seam.instruct]\nhold_first = 0\n"
REST = "beta gamma"
WHOLE = Attempt([ANTHROPIC.reply(REST)])


# --- time that is not waited for (E01, M01) -------------------------------------------------------


def _twin(answers: Sequence[Answer], **settings: Any) -> Twin:
    def answer(body: Mapping[str, Any], number: int) -> Answer:
        return answers[number]

    policy: Policy = overlay("anthropic", "[seam.instruct]\nhold_first = 0\n")
    return Twin(policy, ANTHROPIC.request, answer, **settings).run()


LIMITED = b'{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}'
REPLY = Answer(ANTHROPIC.reply(REST))
DATES = (
    ("date", "Tue, 01 Dec 2026 10:00:00 GMT"),
    ("retry-after", "Tue, 01 Dec 2026 10:00:02 GMT"),
)
HINTS: dict[str, tuple[tuple[tuple[str, str], ...], float]] = {
    "seconds": ((("retry-after", "1"),), 1.0),
    "milliseconds": ((("retry-after-ms", "400"),), 0.4),
    "milliseconds first": ((("retry-after", "9"), ("retry-after-ms", "1500")), 1.5),
    # Our clock does not count: the response has its own.
    "a date": (DATES, 2.0),
}
NO_HINTS = {"none": (), "negative": (("retry-after", "-5"),), "garbage": (("retry-after", "soon"),)}


@pytest.mark.parametrize("random", [0.0, 0.999])
@pytest.mark.parametrize("hint", HINTS)
def test_retry_after_is_waited_for(hint: str, random: float) -> None:
    """E01: never less than the hint, and at most a quarter second more; jitter only adds."""
    headers, seconds = HINTS[hint]
    limited = Answer(LIMITED, status=429, headers=(("content-type", "application/json"), *headers))
    twin = _twin([limited, limited, REPLY], rng=lambda: random)
    assert twin.view.text == REST
    assert len(twin.sent) == 3
    for waited in twin.waited:
        assert seconds <= waited.delay_s <= seconds + 0.25


@pytest.mark.parametrize("hint", NO_HINTS)
def test_no_usable_hint(hint: str) -> None:
    """E01: a hint that is none is not one: the policy's own backoff."""
    headers = (("content-type", "application/json"), *NO_HINTS[hint])
    twin = _twin([Answer(LIMITED, status=429, headers=headers), REPLY], rng=lambda: 0.0)
    assert [w.delay_s for w in twin.waited] == [0.5]


def test_wake_after_sleep() -> None:
    """M01: the machine slept for an hour: the stream is given up at once and gone on with.

    That the network is not there yet when it wakes takes nothing of the budget for cuts.
    """
    begun = Answer(ANTHROPIC.start + ANTHROPIC.text("Alpha ", closed=False), "stall")
    # Read 0 comes before the answer, 1 before its bytes, 2 when they are there.
    twin = _twin([begun, Answer(end="refused"), REPLY], told={2: ClockJumped(3600.0)})
    assert twin.view.text == "Alpha beta gamma"
    assert [a.how for a in twin.attempts] == ["original", "continue", "retry"]
    assert [a.rule for a in twin.attempts] == [None, "cut", "offline"]
    assert twin.attempts[0].failure.kind.value == "stalled"
    assert twin.sent[1].at - twin.sent[0].at < 2.0


# --- connections (M02, M03) -----------------------------------------------------------------------


def _two_turns(host: Host, url: str, look: Callable[[Played], None]) -> None:
    """Two turns of one client, the second over the first one's connection."""
    policy = overlay("anthropic", TALKATIVE)
    if host == "sync":
        with midthought.Client(policy, base_url=url, api_key="k") as client:
            for _ in range(2):
                look(play(host, policy, url, ANTHROPIC.request, client=client))
        return

    async def turns() -> None:
        async with midthought.AsyncClient(policy, base_url=url, api_key="k") as client:
            for _ in range(2):
                stream = client.stream(client.prepare(ANTHROPIC.request))
                async with stream:
                    async for _event in stream:
                        pass
                look(Played(CallerView(), turn=stream.turn))

    anyio.run(turns, backend=host)


@each_host
def test_stale_connection(host: Host) -> None:
    """M03: a kept-alive connection that is dead: one free resend on a new one, without a wait."""
    reset = Attempt([{"fault": "rst_before_response"}], status=None, framing="reused")
    turns: list[Any] = []
    with FaultyUpstream([WHOLE, reset, WHOLE]) as upstream:
        _two_turns(host, upstream.url, lambda played: turns.append(played.turn))
        first, stale, again = upstream.requests
    assert stale.connection == first.connection
    assert again.connection != stale.connection
    assert again.body == stale.body
    assert turns[1].text == REST
    assert [(a.rule, a.delay_s) for a in turns[1].attempts] == [(None, 0.0), ("stale", 0.0)]


@each_host
def test_dead_before_the_response(host: Host) -> None:
    """M03: the same on a new connection is a normal failure: it waits and counts."""
    reset = Attempt([{"fault": "rst_before_response"}], status=None, framing="none")
    with FaultyUpstream([reset, WHOLE]) as upstream:
        policy = overlay("anthropic", TALKATIVE)
        played = play(host, policy, upstream.url, ANTHROPIC.request)
        assert len(upstream.requests) == 2
    assert played.turn.attempts[1].rule == "dead_before_output"
    assert played.turn.attempts[1].delay_s > 0


@each_host
def test_offline_for_too_long(host: Host) -> None:
    """M02: nobody answers the door: bounded, and told as what it is."""
    policy = overlay("anthropic", "[backoff.offline]\ninitial_s = 0.0\nmax_s = 0.001\n")
    with refused_port() as port:
        played = play(host, policy, f"http://127.0.0.1:{port}", ANTHROPIC.request)
    assert played.outcome == "exhausted"
    assert played.view.finished.failure.kind.value == "connect"
    assert len(played.turn.attempts) <= 31
