"""Bodies that come compressed although identity was asked for: inflated piece by piece.

Only the two encodings of the standard library; another one is a decoding error, as a broken one is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import httpx

__all__ = ["inflater"]


def inflater(response: httpx.Response) -> Callable[[bytes], bytes] | None:
    """What turns the body's bytes into plain ones; ``None`` where they are plain.

    The function raises ``httpx.DecodingError``.
    """
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return _refuser(f"content-encoding {encoding!r} was not asked for")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)

    def plain(data: bytes) -> bytes:
        try:
            return inflate.decompress(data)
        except zlib.error as error:
            raise httpx.DecodingError(f"the body is not {encoding}: {error}") from error

    return plain


def _refuser(why: str) -> Callable[[bytes], bytes]:
    def refuse(data: bytes) -> bytes:
        raise httpx.DecodingError(why)

    return refuse
