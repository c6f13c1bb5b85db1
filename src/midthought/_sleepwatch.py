"""Notices that the machine slept: the wall clock ran ahead of the monotonic one.

After a sleep a stream's socket is dead, but nothing says so, and the clocks that count waiting
stood still. One thread looks while turns run; it ends with the last of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["SleepWatch", "sleep_watch"]

EVERY_S = 5.0


class _Turn(Protocol):
    def jumped(self, seconds: float) -> None: ...


class SleepWatch:
    """Tells running turns by how much the wall clock jumped."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._lock = threading.Lock()
        self._turns: set[_Turn] = set()
        self._empty = threading.Event()
        self._offset = 0.0

    def add(self, turn: _Turn) -> None:
        """Watch for this turn."""
        with self._lock:
            first = not self._turns
            self._turns.add(turn)
            if first:
                self._offset = self._wall() - self._monotonic()
                self._empty = threading.Event()
                args = (self._empty,)
                name = "midthought-sleepwatch"
                threading.Thread(target=self._run, args=args, daemon=True, name=name).start()

    def remove(self, turn: _Turn) -> None:
        """The turn is over."""
        with self._lock:
            self._turns.discard(turn)
            if not self._turns:
                self._empty.set()

    def look(self) -> None:
        """Compare the clocks once."""
        offset = self._wall() - self._monotonic()
        with self._lock:
            jump, self._offset = offset - self._offset, offset
            turns = list(self._turns)
        if jump > 1.0:
            for turn in turns:
                turn.jumped(jump)

    def _run(self, empty: threading.Event) -> None:
        while not empty.wait(EVERY_S):
            self.look()


#: One for the process.
sleep_watch = SleepWatch()
