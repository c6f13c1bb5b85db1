"""Wake a read that is blocked in the kernel: shut its socket down from outside.

Closing a socket does not wake a ``recv`` in another thread; shutting it down does.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import httpx

__all__ = ["shut_down", "shut_down_pending", "shut_down_stream"]


def shut_down(response: httpx.Response) -> bool:
    """Shut the response's socket down; False where the transport shows none."""
    return shut_down_stream(response.extensions.get("network_stream"))


def shut_down_stream(stream: Any) -> bool:
    """Shut the socket of a transport's network stream down; False if it shows none."""
    sock = stream.get_extra_info("socket") if stream is not None else None
    if sock is None:
        return False
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
    return True


def shut_down_pending(http: httpx.Client, timeout: object) -> bool:
    """Shut down the socket of a request that waits for its response on a kept-alive connection.

    Nothing public tells which connection a request took before its response is there, so the pool
    is looked through; the request is known by its ``timeout`` extension, the very object. Where the
    library is built otherwise this finds nothing, and the connection ends with its response.
    """
    pool = getattr(getattr(http, "_transport", None), "_pool", None)
    for waiting in list(getattr(pool, "_requests", ())):
        if waiting.request.extensions.get("timeout") is timeout:
            connection = getattr(waiting.connection, "_connection", None)
            return shut_down_stream(getattr(connection, "_network_stream", None))
    return False
