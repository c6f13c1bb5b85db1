"""Wake a read that is blocked in the kernel: shut its socket down from outside.

Closing a socket does not wake a ``recv`` in another thread; shutting it down does.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any

import httpx

__all__ = ["shut_down", "shut_down_stream"]


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
