"""A port of our own: listened on, or held so that a connect is refused.

A second socket stays bound beside the listener, so that nobody else gets the port while nobody
listens. Systems where two sockets cannot share an address do without it, with a small gap.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ._errors import PortUnavailable

HOST = "127.0.0.1"
BACKLOG = 2048


class Port:
    """One loopback port; `listener` is None while connects are refused."""

    def __init__(self, number: int = 0) -> None:
        try:
            self._hold: socket.socket | None = _bound(number)
        except OSError as error:
            raise _unavailable(number, error) from error
        self.number: int = self._hold.getsockname()[1]
        self.listener: socket.socket | None = None

    def listen(self) -> socket.socket:
        """Start to accept, or go on accepting; raises PortUnavailable."""
        if self.listener is None:
            try:
                self.listener = self._listening()
            except OSError as error:
                raise _unavailable(self.number, error) from error
        return self.listener

    def refuse(self) -> None:
        """Stop listening: whoever connects now is refused."""
        if self.listener is not None:
            self.listener.close()
            self.listener = None
        if self._hold is None:
            self._hold = _bound(self.number)

    def close(self) -> None:
        """Give the port back."""
        for held in (self.listener, self._hold):
            if held is not None:
                held.close()
        self.listener = self._hold = None

    def _listening(self) -> socket.socket:
        try:
            listener = _bound(self.number)
        except OSError:
            if self._hold is None:
                raise
            self._hold.close()  # a system where the two cannot share
            self._hold = None
            listener = _bound(self.number)
        try:
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        listener.setblocking(False)
        return listener


def _unavailable(number: int, error: OSError) -> PortUnavailable:
    return PortUnavailable(
        error.errno,
        f"cannot listen on {HOST}:{number}: {error.strerror}; "
        "pass port=0 for any free port, or stop what listens there",
    )


def _bound(number: int) -> socket.socket:
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere the option lets two servers take one port
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, number))
    except BaseException:
        bound.close()
        raise
    return bound


@contextmanager
def refused_port() -> Iterator[int]:
    """A port that refuses every connect as long as the block lasts; nobody else can take it."""
    port = Port()
    try:
        yield port.number
    finally:
        port.close()
