"""A proxy in front of a real server that cuts its streams where it is told: a real TCP reset.

It passes events of a Chat stream on as they come. ``split_tokens`` sends every piece of text
character by character, as gateways that re-chunk do, so that a cut can fall inside a token.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx

__all__ = ["Cutter"]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    cutter: Cutter


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.cutter._answer(self, body)

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""


class Cutter:
    """Context manager. ``cuts[i]`` is after how many characters of text request i is reset.

    ``None`` there, or no entry, means uncut. ``requests`` holds the JSON bodies that came.
    """

    def __init__(
        self, upstream: str, cuts: Sequence[int | None], *, split_tokens: bool = False
    ) -> None:
        self._upstream = upstream
        self._cuts = cuts
        self._split = split_tokens
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.cutter = self
        self._client = httpx.Client(timeout=None)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self.requests: list[dict[str, Any]] = []
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def _answer(self, handler: _Handler, body: bytes) -> None:
        with self._lock:
            number = len(self.requests)
            self.requests.append(json.loads(body))
        cut = self._cuts[number] if number < len(self._cuts) else None
        url = f"{self._upstream}{handler.path}"
        headers = {"content-type": "application/json"}
        with self._client.stream("POST", url, content=body, headers=headers) as response:
            handler.send_response(response.status_code)
            handler.send_header("content-type", response.headers.get("content-type", ""))
            handler.send_header("transfer-encoding", "chunked")
            handler.end_headers()
            left = cut
            for event, text in self._events(response.iter_bytes()):
                if left is not None and text and left < len(text):
                    self._reset(handler)
                    return
                if left is not None:
                    left -= len(text)
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                handler.wfile.flush()
                if left == 0:
                    self._reset(handler)
                    return
            handler.wfile.write(b"0\r\n\r\n")

    def _events(self, chunks: Iterator[bytes]) -> Iterator[tuple[bytes, str]]:
        """Whole events with the text each brings."""
        rest = b""
        for chunk in chunks:
            rest += chunk
            *events, rest = rest.split(b"\n\n")
            for event in events:
                yield from self._pieces(event + b"\n\n")
        if rest:
            yield rest, ""

    def _pieces(self, event: bytes) -> Iterator[tuple[bytes, str]]:
        data = event.removeprefix(b"data: ").strip()
        if not data.startswith(b"{"):
            yield event, ""
            return
        frame = json.loads(data)
        delta = frame["choices"][0]["delta"] if frame.get("choices") else {}
        text = delta.get("content") or ""
        if not self._split or len(text) < 2:
            yield event, text
            return
        for character in text:
            delta["content"] = character
            yield b"data: " + json.dumps(frame).encode() + b"\n\n", character

    @staticmethod
    def _reset(handler: _Handler) -> None:
        handler.wfile.flush()
        # Linger 0: close sends a reset instead of an orderly end.
        linger = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.connection.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._client.close()
