"""Ends a blocked read of the sync client at a time: by shutting its socket down from outside."""

from __future__ import annotations

import threading

import httpx

from ._core import TurnCore
from ._sockets import shut_down

__all__ = ["Alarm"]


class Alarm:
    """Shuts a blocked read down at a time: one thread for the turn, from its first use on."""

    def __init__(self, core: TurnCore) -> None:
        self._clock = core.clock
        self._changed = threading.Condition()
        self._running = False
        self._at = float("inf")
        self._response: httpx.Response | None = None

    def set(self, at: float, response: httpx.Response) -> None:
        """Shut ``response`` down at ``at`` of the core's clock; the time before does not count."""
        with self._changed:
            sooner = at < self._at
            self._at, self._response = at, response
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, daemon=True, name="midthought-alarm").start()
            elif sooner:
                self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while self._response is not None:
                left = self._at - self._clock.now()
                if left <= 0:
                    shut_down(self._response)
                    break
                self._changed.wait(left)
            self._running = False

    def off(self) -> None:
        """Nothing to watch any more."""
        with self._changed:
            self._at, self._response = float("inf"), None
            self._changed.notify()
