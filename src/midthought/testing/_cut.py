"""Recorded streams as scripts: played whole, or cut at any byte.

Pure: bytes in, an `Attempt` out.
"""

import re
from collections.abc import Iterator, Sequence

from ._errors import ScriptError
from ._faults import FAULTS, unknown
from ._script import Attempt, Headers, Step

# Atomic, so that the two halves of one CRLF are never taken for two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")

#: How the rest of a stream is cut into pieces: all in one, pieces of n bytes, or these sizes.
Chunks = int | Sequence[int] | None

CUTS = frozenset({"eof_clean", "fin", "rst", "stall", "gzip_cut"})


def play(
    stream: bytes,
    *,
    chunks: Chunks = None,
    wait_s: float = 0.0,
    framing: str = "chunked",
    headers: Headers = (),
) -> Attempt:
    """The whole stream in good order.

    `chunks` are byte counts (recorded read sizes, say); what they leave over is one more piece.
    `wait_s` is a pause before each piece but the first.
    """
    return Attempt(_steps(stream, chunks, wait_s), framing=framing, headers=headers)


def cut(
    stream: bytes,
    at: int,
    *,
    fault: str = "fin",
    chunks: Chunks = None,
    wait_s: float = 0.0,
    framing: str = "chunked",
    headers: Headers = (),
) -> Attempt:
    """The first `at` bytes of the stream, then the fault; under `length` all of it was promised.

    `at` is 0 to len(stream); `fault` is eof_clean, fin, rst, stall or gzip_cut. Raises ScriptError.
    """
    faults = []
    if type(at) is not int or not 0 <= at <= len(stream):
        faults.append(f"at: expected 0 to {len(stream)}, the length of the stream, not {at!r}")
    if fault not in CUTS:
        word = unknown("fault", fault, CUTS)
        faults.append(f"{fault!r} cannot cut a stream" if fault in FAULTS else word)
    if faults:
        raise ScriptError(faults)
    if framing == "length":
        pairs = list(headers.items() if hasattr(headers, "items") else headers)
        headers = [*pairs, ("content-length", str(len(stream)))]
    steps = [*_steps(stream[:at], chunks, wait_s), {"fault": fault}]
    return Attempt(steps, framing=framing, headers=headers)


def event_borders(stream: bytes) -> tuple[int, ...]:
    """Offsets right after each blank line: where an SSE stream can be cut between two events.

    Line ends are LF, CRLF or CR. The end of the stream is among them only if a blank line is there.
    """
    return tuple(match.end() for match in _BLANK_LINE.finditer(stream))


def _steps(stream: bytes, chunks: Chunks, wait_s: float) -> list[Step]:
    steps: list[Step] = []
    for piece in _pieces(stream, chunks):
        if steps and wait_s:
            steps.append({"wait": wait_s})
        steps.append(piece)
    return steps


def _pieces(stream: bytes, chunks: Chunks) -> Iterator[bytes]:
    if isinstance(chunks, int):
        chunks = [chunks] * max(1, len(stream) // max(1, chunks))
    at = 0
    for size in chunks or ():
        if type(size) is not int or size < 1:
            raise ScriptError([f"chunks: expected sizes of one byte or more, not {size!r}"])
        if piece := stream[at : at + size]:
            yield piece
        at += size
    if rest := stream[at:]:
        yield rest
