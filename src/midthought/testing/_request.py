"""Reading requests off a connection, byte for byte.

Own, small and strict about framing only: a recorder must show what a client really wrote, in its
spelling, which a normalising parser would hide. Bytes in, requests out; no sockets.
"""

from dataclasses import dataclass

HEAD_LIMIT_BYTES = 256 * 1024


class BadRequest(ValueError):
    """These bytes are no HTTP/1.1 request."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One request: `head` and `wire_body` are its bytes as written, `body` is without chunking."""

    method: str
    path: str
    version: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    wire_body: bytes
    body: bytes

    def header(self, name: str) -> str:
        """The first header of this name, lower case; empty if there is none."""
        name = name.lower()
        return next((value.lower() for key, value in self.headers if key.lower() == name), "")

    @property
    def wants_close(self) -> bool:
        """True where the client does not keep the connection."""
        tokens = {token.strip() for token in self.header("connection").split(",")}
        return "close" in tokens or (self.version == "HTTP/1.0" and "keep-alive" not in tokens)


class RequestReader:
    """Feed it what arrives; `next` gives the requests in order."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: ParsedRequest | None = None
        self._scanned = 0
        self._chunks: list[bytes] = []
        self._continue = False

    def feed(self, data: bytes) -> None:
        """Take bytes as they arrive."""
        self._buffer += data

    @property
    def is_empty(self) -> bool:
        """True between two requests."""
        return self._head is None and not self._buffer

    def wants_continue(self) -> bool:
        """True once for a head with `expect: 100-continue` whose body is still to come."""
        wanted, self._continue = self._continue, False
        return wanted

    def next(self) -> ParsedRequest | None:
        """The next whole request, or None while more bytes are needed; raises BadRequest."""
        if self._head is None:
            self._head = self._read_head()
        if self._head is None:
            return None
        if "chunked" in self._head.header("transfer-encoding"):
            end = self._scan_chunks()
            body = None if end is None else b"".join(self._chunks)
        else:
            end = self._length(self._head)
            body = None if len(self._buffer) < end else bytes(memoryview(self._buffer)[:end])
        if body is None or end is None:
            return None
        return self._take(self._head, end, body)

    def _take(self, head: ParsedRequest, end: int, body: bytes) -> ParsedRequest:
        wire = body if not self._chunks and end == len(body) else bytes(self._buffer[:end])
        del self._buffer[:end]
        self._head, self._scanned, self._chunks, self._continue = None, 0, [], False
        return ParsedRequest(
            head.method, head.path, head.version, head.headers, head.head, wire, body
        )

    def _read_head(self) -> ParsedRequest | None:
        end = self._buffer.find(b"\r\n\r\n", max(0, self._scanned - 3))
        self._scanned = len(self._buffer)
        if end < 0:
            if self._scanned > HEAD_LIMIT_BYTES:
                raise BadRequest(f"no end of the headers within {HEAD_LIMIT_BYTES} bytes")
            return None
        raw = bytes(self._buffer[: end + 4])
        del self._buffer[: end + 4]
        self._scanned = 0
        head = _parse_head(raw)
        self._continue = head.header("expect") == "100-continue"
        return head

    def _length(self, head: ParsedRequest) -> int:
        text = head.header("content-length") or "0"
        if not text.isdecimal():
            raise BadRequest("the content-length is no number")
        return int(text)

    def _scan_chunks(self) -> int | None:
        """Move over whole chunks; the offset after the last one and its trailers, if there."""
        while True:
            line_end = self._buffer.find(b"\r\n", self._scanned)
            if line_end < 0:
                return None
            size = _chunk_size(bytes(self._buffer[self._scanned : line_end]))
            start = line_end + 2
            if size == 0:
                return self._after_trailers(start)
            if len(self._buffer) < start + size + 2:
                return None
            self._chunks.append(bytes(self._buffer[start : start + size]))
            self._scanned = start + size + 2

    def _after_trailers(self, start: int) -> int | None:
        while (line_end := self._buffer.find(b"\r\n", start)) > start:
            start = line_end + 2
        return None if line_end < 0 else line_end + 2


def _chunk_size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise BadRequest("a chunk of the body has no size") from None


def _parse_head(raw: bytes) -> ParsedRequest:
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest("the first line is not METHOD PATH HTTP/1.1")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequest("a header line has no colon")
        headers.append((name, value.strip()))
    return ParsedRequest(words[0], words[1], words[2], tuple(headers), raw, b"", b"")
