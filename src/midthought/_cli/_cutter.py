"""A TCP relay on loopback that breaks its first connections for real, in the middle of an event.

For the demo with a real model, which does not break by itself. One thread per connection; what it
relays it does not understand, but for the mark that events begin with.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

__all__ = ["Cut", "Cutter"]

_MARK = b"data: "
#: So many bytes of the last event still get through.
_INTO_EVENT = 40
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: closing sends a reset


@dataclass(frozen=True)
class Cut:
    """After ``events`` events of the response, and in the middle of the next one."""

    events: int
    how: Literal["reset", "close", "silence"]
    says: str


class Cutter:
    """Relays a port to ``target``; connection n is broken by ``cuts[n]``, later ones are not."""

    def __init__(self, target: tuple[str, int], cuts: Sequence[Cut], *, port: int = 0) -> None:
        self._target = target
        self._cuts = iter(cuts)
        self._clients: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port))
        self._thread = threading.Thread(target=self._accept, daemon=True, name="cutter")

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            # Not closed: that is for the thread that waits in each of them.
            for end in (self._listener, *self._clients):
                _wake(end)
        self._thread.join(timeout=5)

    def _accept(self) -> None:
        with self._listener:
            while True:
                try:
                    client, _ = self._listener.accept()
                except OSError:
                    return
                with self._lock:
                    self._clients.add(client)
                cut = next(self._cuts, None)
                threading.Thread(target=self._serve, args=(client, cut), daemon=True).start()

    def _serve(self, client: socket.socket, cut: Cut | None) -> None:
        try:
            with client, socket.create_connection(self._target) as server:
                _relay(client, server, cut)
                with self._lock:
                    self._clients.discard(client)
        except OSError:
            pass  # one of the two has gone, which is what this is about


def _relay(client: socket.socket, server: socket.socket, cut: Cut | None) -> None:
    """Until one end is done or the cut has come; closing both is the caller's."""
    seen, sent, limit = bytearray(), 0, None
    while True:
        for end in select.select([client, server], [], [])[0]:
            piece = end.recv(65536)
            if not piece:
                return
            if end is client:
                server.sendall(piece)
                continue
            if cut is not None and limit is None:
                seen += piece
                limit = _limit(seen, cut.events)
            rest = piece if limit is None else piece[: limit - sent]
            client.sendall(rest)
            sent += len(rest)
            if cut is not None and sent == limit:
                _break(client, server, cut)
                return


def _limit(seen: bytearray, events: int) -> int | None:
    """Where to cut: a little into the event after so many; ``None`` if it has not begun."""
    at = -1
    for _ in range(events + 1):
        at = seen.find(_MARK, at + 1)
        if at < 0:
            return None
    return at + _INTO_EVENT


def _break(client: socket.socket, server: socket.socket, cut: Cut) -> None:
    if cut.how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    elif cut.how == "silence":
        server.close()
        while client.recv(65536):
            pass  # until the client has had enough


def _wake(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # not connected any more
