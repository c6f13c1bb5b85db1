"""Running one turn for somebody who watches: events to a teller, Ctrl-C to the turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Protocol

from midthought import Client, PreparedCall, Reply, Stream
from midthought.statemachine import Event

__all__ = ["Interrupted", "Teller", "run_turn"]


class Teller(Protocol):
    """Somebody who shows a turn while it runs."""

    def begin(self, call: PreparedCall, base_url: str) -> None: ...

    def record(self, name: str, fields: Mapping[str, Any]) -> None:
        """Evidence; comes before the events that it speaks of."""

    def event(self, event: Event, reply: Reply) -> None: ...

    def end(self, reply: Reply) -> None: ...


class Interrupted(Exception):
    """The turn was cancelled by a signal; the response is closed and the history valid."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.code = 128 + number


def run_turn(client: Client, call: PreparedCall, teller: Teller) -> Reply:
    """Run the call to its end; raises ``Interrupted`` if a signal ended it."""
    teller.begin(call, client.base_url)
    stream = client.stream(call)
    with _signals_to(stream) as seen, stream:
        for event in stream:
            teller.event(event, stream.turn)
    teller.end(stream.turn)
    if seen and stream.turn.outcome == "aborted":
        raise Interrupted(seen[0])
    return stream.turn


@contextmanager
def _signals_to(stream: Stream) -> Iterator[list[int]]:
    """Ctrl-C cancels the turn, SIGTERM aborts it; the second one does what it always does."""
    if threading.current_thread() is not threading.main_thread():
        yield []
        return
    seen: list[int] = []
    orders = {signal.SIGINT: stream.cancel, signal.SIGTERM: stream.abort}
    before: dict[signal.Signals, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        _restore(before)
        # In a thread: the interrupted code may hold the very lock that a cancel takes.
        threading.Thread(target=orders[signal.Signals(number)], daemon=True).start()

    for number in orders:
        before[number] = signal.signal(number, handle)
    try:
        yield seen
    finally:
        _restore(before)


def _restore(before: dict[signal.Signals, Any]) -> None:
    while before:
        number, handler = before.popitem()
        signal.signal(number, handler)
