"""Which connections a request may use.

The first request of a turn takes a kept-alive connection; every later one opens its own. After a
transport failure the idle connections of the pool are suspect (a middlebox, a changed network): new
turns get a new pool, and the old one is closed when its last stream has ended.
"""

from __future__ import annotations

import functools
import ssl
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import httpx

__all__ = ["Pools", "no_keepalive", "usual", "verify"]


class _Closable(Protocol):
    @property
    def is_closed(self) -> bool: ...


C = TypeVar("C", bound=_Closable)

#: As httpx's own, without its bound on streams: an agent fleet streams long and in parallel.
usual = httpx.Limits(max_connections=None, max_keepalive_connections=20)
no_keepalive = httpx.Limits(max_connections=None, max_keepalive_connections=0)


@functools.cache
def _context() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def verify(base_url: str) -> ssl.SSLContext | bool:
    """One TLS context for every pool of the process: loading the certificates takes long."""
    return _context() if base_url.startswith("https://") else False


class Pools(Generic[C]):
    """Two httpx clients: one that keeps connections, one that never does."""

    def __init__(self, make: Callable[[httpx.Limits], C], own: C | None = None) -> None:
        self._make = make
        self._own = own
        self._lock = threading.Lock()
        self._kept: C | None = None
        self._fresh: C | None = None
        self._users: dict[int, int] = {}
        self._retired: list[C] = []
        self.closed = False

    def take(self, *, fresh: bool) -> C:
        """A client to send with; give it back with ``release``."""
        with self._lock:
            if self._own is not None:
                return self._own
            if fresh:
                self._fresh = self._fresh or self._make(no_keepalive)
                return self._fresh
            self._kept = self._kept or self._make(usual)
            self._users[id(self._kept)] = self._users.get(id(self._kept), 0) + 1
            return self._kept

    def release(self, client: C, *, suspect: bool) -> C | None:
        """Done with it; returns a client that the caller has to close now, if any."""
        with self._lock:
            if client is self._own or client is self._fresh:
                return None
            left = self._users.get(id(client), 1) - 1
            self._users[id(client)] = left
            if suspect and client is self._kept:
                self._kept = None
                self._retired.append(client)
            if left or client not in self._retired:
                return None
            self._retired.remove(client)
            del self._users[id(client)]
            return client

    def drain(self) -> list[C]:
        """Close for good: every client of ours, for the caller to close."""
        with self._lock:
            self.closed = True
            ours = [c for c in (self._kept, self._fresh, *self._retired) if c is not None]
            self._kept = self._fresh = None
            self._retired.clear()
            return ours
