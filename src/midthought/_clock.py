"""The host's clock: monotonic seconds that stand still while the caller is thinking."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["PausingClock", "wall_time"]

wall_time = time.time


class PausingClock:
    """``now()`` for the machine."""

    __slots__ = ("_monotonic", "_offset", "_paused_at")

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._offset = 0.0
        self._paused_at: float | None = None

    def now(self) -> float:
        """Seconds, without the time spent in the caller's code; any thread may ask."""
        paused_at = self._paused_at
        return (self._monotonic() if paused_at is None else paused_at) - self._offset

    def pause(self) -> None:
        """The caller has an event and takes its time."""
        self._paused_at = self._monotonic()

    def resume(self) -> None:
        """The caller wants the next event."""
        if self._paused_at is not None:
            self._offset += self._monotonic() - self._paused_at
            self._paused_at = None
