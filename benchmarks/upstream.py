"""The server of the client benchmark: prepared bytes, in a process of its own.

A request below ``/N/`` is answered with N events to each HTTP chunk, and each chunk in a write of
its own; the end of the path tells the dialect. ``/short/`` is a reply of one token. Connections are
kept. Runs until its standard input is closed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streams import DIALECTS, chunked, events

__all__ = ["PATHS", "PER_CHUNK", "upstream"]

PER_CHUNK = {"1": 1, "8": 8, "short": 1}
PATHS = {"openai-chat": "/chat/completions", "anthropic": "/v1/messages"}
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
Replies = dict[tuple[str, str], list[bytes]]


@contextmanager
def upstream(tokens: int) -> Iterator[str]:
    """Start the server; its URL. Replies have so many text deltas."""
    command = [sys.executable, str(Path(__file__)), str(tokens)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.stdin.close()


def _prepared(tokens: int) -> Replies:
    replies = {}
    for dialect in DIALECTS:
        for name, per_chunk in PER_CHUNK.items():
            pieces = chunked(events(dialect, 1 if name == "short" else tokens), per_chunk)
            wire = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
            replies[dialect, name] = [_HEAD, *wire, b"0\r\n\r\n"]
    return replies


def _serve(connection: socket.socket, replies: Replies) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb") as reader:
        while line := reader.readline():
            length = 0
            while (header := reader.readline().lower()) not in (b"\r\n", b""):
                if header.startswith(b"content-length:"):
                    length = int(header.split(b":")[1])
            reader.read(length)
            path = line.split()[1].decode().partition("?")[0]
            dialect = next(name for name, tail in PATHS.items() if path.endswith(tail))
            for piece in replies[dialect, path.split("/")[1]]:
                connection.sendall(piece)


def _listen(tokens: int) -> None:
    replies = _prepared(tokens)
    server = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_serve, args=(connection, replies), daemon=True).start()


if __name__ == "__main__":
    _listen(int(sys.argv[1]))
