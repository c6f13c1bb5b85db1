"""Waits in a thread for the sync client's response headers: nothing can wake a blocked connect."""

from __future__ import annotations

import threading

import httpx

__all__ = ["Sending"]


class Sending:
    """Waits for the response headers in a thread, because nothing can wake a blocked connect."""

    def __init__(self, http: httpx.Client, request: httpx.Request, woken: threading.Event) -> None:
        self._http = http
        self._request = request
        self._woken = woken
        self._lock = threading.Lock()
        self._abandoned = False
        self._finished = False
        self.response: httpx.Response | None = None
        self.error: httpx.TransportError | None = None
        self._defect: BaseException | None = None
        threading.Thread(target=self._run, daemon=True, name="midthought-send").start()

    def _run(self) -> None:
        response: httpx.Response | None = None
        try:
            response = self._http.send(self._request, stream=True)
        except httpx.TransportError as error:
            self.error = error
        except BaseException as error:
            self._defect = error
        with self._lock:
            self._finished = True
            self.response = response
            abandoned = self._abandoned
        self._woken.set()
        if abandoned and response is not None:
            response.close()

    def wait(self, left: float) -> bool:
        """True once headers or an error are there; False if told, or out of time."""
        self._woken.wait(left)
        self._woken.clear()
        with self._lock:
            finished = self._finished
        if finished and self._defect is not None:
            raise self._defect
        return finished

    def abandon(self) -> None:
        """Nobody wants the response any more."""
        with self._lock:
            self._abandoned = True
            response = self.response
        if response is not None:
            response.close()
