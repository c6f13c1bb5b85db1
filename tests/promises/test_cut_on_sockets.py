"""A sample of the cuts over real sockets: sync, asyncio and trio, the same table and checker."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from caller_view import CallerView
from continuing import Continuing
from cutting import ODD, lanes_of
from hosts import HOSTS, Host, Played, play
from lanes import HURRY, Lane, overlay, request_of
from promises import Run, check
from recordings import Recording, each_recording, recordings
from twin import Sent, Waited

from midthought.testing import Attempt, FaultyUpstream, RecordedRequest, cut
from midthought.testing import play as play_whole

#: The clocks are short too, where silence is to be noticed.
WATCHFUL = """
[clocks]
first_content_s = 0.4
liveness_s = 0.4
"""
EVERY = 9
RECORDINGS = [
    r
    for r in recordings("anthropic", "openai-chat")
    if r.reply.choices == 1 and r.name not in ODD and len(r.data) < 40_000
][::EVERY]


@dataclass
class OnSockets:
    """A run on a client, as the checker wants to see it."""

    played: Played
    sent: list[Sent] = field(default_factory=list)
    took_s: float | None = None

    @property
    def view(self) -> CallerView:
        """The caller's."""
        return self.played.view

    @property
    def waited(self) -> Sequence[Waited]:
        """As its policy would have it: a thousand times what was waited."""
        delays = [a.delay_s * 1000 for a in self.attempts if a.delay_s]
        return [Waited(round(delay, 6), "") for delay in delays]

    @property
    def attempts(self) -> Sequence[Any]:
        """Of the turn."""
        return list(self.played.turn.attempts)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Of the turn."""
        return list(self.played.turn.messages)

    @property
    def message(self) -> dict[str, Any] | None:
        """Of the turn."""
        return self.played.turn.message  # type: ignore[no-any-return]

    def records_of(self, name: str) -> list[Any]:
        """Of the client's callback."""
        return self.played.records_of(name)


def _run(recording: Recording, lane: Lane, host: Host, cuts: list[float], fault: str) -> None:
    upstream = Continuing(recording, variant=lane.variant, repeat=33)
    ran = OnSockets(Played(CallerView()))
    places: list[int] = []
    connections: set[int] = set()

    def answer(request: RecordedRequest, number: int) -> Attempt:
        view, body = ran.view, request.json()
        new = request.connection not in connections
        connections.add(request.connection)
        ran.sent.append(
            Sent(number, body, {}, number > 0 and new, 0.0, view.text, view.solid, view.flat)
        )
        stream = upstream.play(body)
        if number >= len(cuts):
            return play_whole(stream)
        places.append(int(cuts[number] * len(stream)))
        how = {"eof": "eof_clean"}.get(fault, fault)
        return cut(stream, places[-1], fault=how, chunks=[1, 700, 3, 1200])

    clocks = WATCHFUL if fault == "stall" else ""
    policy = overlay(lane.policy_name, lane.laid_over + HURRY + clocks)
    request = request_of(lane, recording)
    with FaultyUpstream(answer) as server:
        play(host, policy, server.url, request, played=ran.played)
    punctual = fault != "stall"
    check(Run(recording, lane, ran, upstream, tuple(places), fault, request, punctual))


@pytest.mark.parametrize("host", HOSTS)
@each_recording(RECORDINGS)
def test_cut_on_sockets(recording: Recording, host: Host) -> None:
    """What holds for the machine holds for each client: cut once or twice, by any fault."""
    rng = random.Random(f"{recording.name} sockets")
    lanes = [lane for lane in lanes_of(recording) if "[" not in lane.laid_over]
    for number, fault in enumerate(("eof", "fin", "rst", "stall")):
        lane = lanes[number % len(lanes)]
        cuts = [rng.random() for _ in range(1 + number % 2)]
        _run(recording, lane, host, cuts, fault)
