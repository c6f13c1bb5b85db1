"""What the upstream saw: one record per request, filled in while its reply is played.

Facts of the request never change; the `*_at` times and `client_closed` come later, written by the
server's thread. Times are `time.monotonic()` seconds.
"""

import json
from dataclasses import dataclass
from typing import Any

from ._request import ParsedRequest


@dataclass(slots=True, eq=False, repr=False)
class RecordedRequest:
    """One request as it came over the wire.

    `number` counts requests and `connection` counts accepted connections, both from 0. `reused`:
    the connection had carried a request before. `path` is the target as written, with its query;
    `headers` are pairs in the client's order and spelling; `body` is without any chunking.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    head_bytes: bytes
    body_bytes: bytes
    number: int
    connection: int
    reused: bool
    arrived_at: float
    #: True if the client closed or reset the connection before its reply was over.
    client_closed: bool = False
    client_closed_at: float | None = None
    #: When the last byte of the reply was handed to the system, or its fault was played.
    reply_over_at: float | None = None
    #: Bytes of the reply handed to the system so far, status line and framing included.
    sent_bytes: int = 0

    @classmethod
    def of(
        cls, parsed: ParsedRequest, *, number: int, connection: int, reused: bool, at: float
    ) -> "RecordedRequest":
        """The record of a request that has just arrived."""
        return cls(
            method=parsed.method,
            path=parsed.path,
            headers=parsed.headers,
            body=parsed.body,
            head_bytes=parsed.head,
            body_bytes=parsed.wire_body,
            number=number,
            connection=connection,
            reused=reused,
            arrived_at=at,
        )

    def __repr__(self) -> str:
        """Shape only: headers, query and body may hold keys and conversations."""
        path = self.path.partition("?")[0]
        return (
            f"<RecordedRequest {self.number} on connection {self.connection}: "
            f"{self.method} {path}, {len(self.body)} bytes>"
        )

    @property
    def raw(self) -> bytes:
        """Every byte of the request as it was written."""
        return self.head_bytes + self.body_bytes

    def header(self, name: str, default: str | None = None) -> str | None:
        """The first header of this name, in any case."""
        name = name.lower()
        return next((value for key, value in self.headers if key.lower() == name), default)

    def json(self) -> Any:
        """The body, decoded; raises json.JSONDecodeError (a ValueError) if it is no JSON."""
        return json.loads(self.body)
