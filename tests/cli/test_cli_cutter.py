"""The relay that cuts a real server's streams: where it says, in the way it says, once each."""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Sequence
from typing import Literal

import pytest

from midthought._cli._cutter import Cut, Cutter
from midthought.testing import Attempt, FaultyUpstream

EVENTS = [f"data: event {number} {'x' * 60}\n\n" for number in range(9)]
WHOLE = "".join(EVENTS).encode()


def _read(url: str) -> tuple[bytes, str]:
    """What came of the body, and the name of the exception that ended it, if any."""
    got = b""
    try:
        with urllib.request.urlopen(url, data=b"{}", timeout=60) as response:
            while piece := response.read1(65536):
                got += piece
    except (OSError, http.client.HTTPException) as error:
        return got, type(error).__name__
    return got, ""


def _relayed(upstream: FaultyUpstream, cuts: Sequence[Cut], times: int) -> list[tuple[bytes, str]]:
    with Cutter(("127.0.0.1", upstream.port), cuts) as cutter:
        return [_read(cutter.url) for _ in range(times)]


@pytest.mark.parametrize(
    ("how", "error"), [("reset", "ConnectionResetError"), ("close", "IncompleteRead")]
)
def test_a_cut_is_in_the_middle_of_an_event(how: Literal["reset", "close"], error: str) -> None:
    """After so many whole events and a piece of the next, the client meets a reset or a close."""
    with FaultyUpstream([Attempt(EVENTS)]) as upstream:
        (got, met), (again, nothing) = _relayed(upstream, [Cut(3, how, "")], 2)

    assert error == met
    assert WHOLE.startswith(got)
    assert len("".join(EVENTS[:3])) < len(got) < len("".join(EVENTS[:4]))
    assert (WHOLE, "") == (again, nothing)


def test_silence_lasts_until_the_client_leaves() -> None:
    """A silent cut leaves the client's connection open, and lets go of the server at once."""
    with FaultyUpstream([Attempt([*EVENTS, {"fault": "stall"}])]) as upstream:
        with Cutter(("127.0.0.1", upstream.port), [Cut(3, "silence", "")]) as cutter:
            response = urllib.request.urlopen(cutter.url, data=b"{}", timeout=60)
            got = b""
            while len(got) <= len("".join(EVENTS[:3])):
                got += response.read1(65536)
            let_go = upstream.wait_until(lambda: upstream.requests[0].client_closed)
            response.close()

    assert let_go
    assert WHOLE.startswith(got)


def test_a_stream_that_is_too_short_is_relayed_whole() -> None:
    """A cut that the stream never reaches does nothing."""
    with FaultyUpstream([Attempt(EVENTS)]) as upstream:
        assert [(WHOLE, "")] == _relayed(upstream, [Cut(20, "reset", "")], 1)
