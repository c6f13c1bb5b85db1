"""From an attempt's words to a plan of bytes, pauses and one end.

Every fault of a script is found, not only the first. A message names the place and never repeats
a step's text. Imports no sockets and no time: the same attempt gives the same plan.
"""

import http
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._faults import BODILESS, FRAMINGS, Fault, unknown
from ._plan import End, EndKind, Op, Pause, Plan, Write
from ._steps import StepReader, seconds

if TYPE_CHECKING:
    from ._script import Attempt

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\r\n\0]*")
_GZIP = 31  # zlib's window bits for a gzip header and trailer

# How each named end leaves the connection. An orderly end depends on the framing: `_ending`.
_ENDS: dict[str, EndKind] = {
    "fin": "fin",
    "rst": "rst",
    "stall": "stall",
    "rst_before_response": "rst",
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, or what stands in its way: faults to mend, needs (place, what) to go elsewhere."""

    plan: Plan | None
    faults: tuple[str, ...] = ()
    needs: tuple[tuple[str, str], ...] = ()


def compile_attempt(attempt: "Attempt") -> Compiled:
    """The plan of one attempt, or all its faults, or all its needs."""
    return _Compiler(attempt).run()


class _Compiler:
    """One attempt on its way; `faults` and `needs` grow while it is read."""

    def __init__(self, attempt: "Attempt") -> None:
        self._attempt = attempt
        self._steps = StepReader(attempt.dialect)
        self._faults: list[str] = []
        self._needs: list[tuple[str, str]] = []

    def run(self) -> Compiled:
        self._check_head()
        headers = self._headers()
        self._read_steps()
        self._check_body()
        faults = (*self._faults, *self._steps.faults)
        needs = (*self._needs, *self._steps.needs)
        if faults or needs:
            return Compiled(None, faults, needs)
        return Compiled(self._plan(headers))

    # What may be wrong.

    def _check_head(self) -> None:
        attempt = self._attempt
        framing = FRAMINGS.get(attempt.framing) if isinstance(attempt.framing, str) else None
        if framing is None:
            self._faults.append(f"framing: {unknown('framing', attempt.framing, FRAMINGS)}")
        elif framing.needs:
            self._needs.append((f"framing {framing.name!r}", framing.needs))
        status = attempt.status
        if status is None:
            if framing is not None and framing.name not in ("none", "reused"):
                self._faults.append("status: null means no status line; use framing 'none'")
        elif type(status) is not int or not 200 <= status <= 999:
            self._faults.append(f"status: expected 200 to 999, not {status!r}")
        if seconds(attempt.head_after_s) is None:
            self._faults.append("head_after_s: expected seconds, zero or more")

    def _headers(self) -> list[tuple[str, str]]:
        given = self._attempt.headers
        pairs = list(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(pairs, list | tuple) or not all(
            isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs
        ):
            self._faults.append("headers: expected a mapping, or pairs of name and value")
            return []
        good: list[tuple[str, str]] = []
        for name, value in pairs:
            if not isinstance(name, str) or not _TOKEN.fullmatch(name):
                self._faults.append(f"headers: {name!r} is no header name")
            elif not isinstance(value, str) or not _VALUE.fullmatch(value) or not _latin(value):
                self._faults.append(f"headers: the value of {name!r} must be one line of latin-1")
            else:
                good.append((name, value))
        return good

    def _read_steps(self) -> None:
        attempt = self._attempt
        if not isinstance(attempt.steps, list | tuple):
            self._faults.append("steps: expected a list of steps")
            return
        if attempt.body is None:
            self._steps.read(attempt.steps)
        elif attempt.steps:
            self._faults.append("body and steps: give one of them")
        elif not isinstance(attempt.body, str | bytes):
            self._faults.append("body: expected text or bytes")
        elif attempt.body:
            self._steps.read([attempt.body])

    def _check_body(self) -> None:
        attempt, steps = self._attempt, self._steps
        headless = attempt.framing == "none" or attempt.status is None
        if headless and steps.size:
            self._faults.append(f"framing {attempt.framing!r}: no status line, so no bytes either")
        elif attempt.status in BODILESS and steps.size:
            self._faults.append(f"status {attempt.status}: has no body; leave the bytes out")

    # What is played.

    def _plan(self, headers: list[tuple[str, str]]) -> Plan:
        attempt = self._attempt
        end = self._steps.end
        if end is not None and end.name == "connect_refused":
            return Plan((), refused=True)
        head_pause = [Pause(attempt.head_after_s)] if attempt.head_after_s else []
        reused = attempt.framing == "reused"
        if self._is_headless(end):
            pauses = [piece for piece in self._steps.pieces if isinstance(piece, Pause)]
            kind: EndKind = "stall" if end is None else _ENDS.get(end.name, "fin")
            return Plan((*head_pause, *pauses, End(kind)), needs_reused=reused)
        pieces = self._compressed(end)
        total = sum(len(piece) for piece in pieces if isinstance(piece, bytes))
        head, whole = self._head(headers, total, end)
        ops = [*head_pause, Write(head), *self._framed(pieces), *self._ending(end, whole)]
        keeps = ops[-1] == End("finish") and ("connection", "close") not in _lower(headers)
        return Plan(tuple(ops), keep_alive=keeps, needs_reused=reused)

    def _is_headless(self, end: Fault | None) -> bool:
        if self._attempt.framing == "none" or self._attempt.status is None:
            return True
        return end is not None and end.name == "rst_before_response"

    @property
    def _is_gzip(self) -> bool:
        return self._attempt.compress or self._steps.gzip_cut

    def _compressed(self, end: Fault | None) -> list[bytes | Pause]:
        """The pieces as they travel; an orderly end of a gzip stream brings its trailer."""
        if not self._is_gzip:
            return list(self._steps.pieces)
        gzip = zlib.compressobj(wbits=_GZIP)
        pieces: list[bytes | Pause] = [
            gzip.compress(piece) + gzip.flush(zlib.Z_SYNC_FLUSH)
            if isinstance(piece, bytes)
            else piece
            for piece in self._steps.pieces
        ]
        if not self._steps.gzip_cut and (end is None or end.name == "eof_clean"):
            pieces.append(gzip.flush())
        return pieces

    def _head(
        self, headers: list[tuple[str, str]], total: int, end: Fault | None
    ) -> tuple[bytes, bool]:
        """The status line and headers, and whether the framing promises what will be sent."""
        attempt = self._attempt
        given = dict(_lower(headers))
        defaults = []
        if attempt.status not in BODILESS:
            kind = "text/event-stream" if attempt.body is None else "application/json"
            defaults.append(("content-type", kind))
            if self._is_gzip:
                defaults.append(("content-encoding", "gzip"))
            defaults.append(self._delimiter(total, end))
        lines = [*headers, *(pair for pair in defaults if pair[0] not in given)]
        text = "".join(f"{name}: {value}\r\n" for name, value in lines)
        assert attempt.status is not None
        status = f"HTTP/1.1 {attempt.status} {_reason(attempt.status)}\r\n"
        declared = given.get("content-length", str(total))
        whole = attempt.framing != "length" or declared == str(total)
        return f"{status}{text}\r\n".encode("latin-1"), whole

    def _delimiter(self, total: int, end: Fault | None) -> tuple[str, str]:
        if self._attempt.framing == "close":
            return "connection", "close"
        if self._attempt.framing == "length":
            # A reply that is to be cut must have promised more than it sends.
            cut = end is not None and end.name in _ENDS
            return "content-length", str(total + cut)
        return "transfer-encoding", "chunked"

    @property
    def _is_chunked(self) -> bool:
        framing, status = self._attempt.framing, self._attempt.status
        return framing in ("chunked", "reused") and status not in BODILESS

    def _framed(self, pieces: list[bytes | Pause]) -> list[Op]:
        if self._is_chunked:
            return [
                Write(b"%x\r\n%b\r\n" % (len(piece), piece)) if isinstance(piece, bytes) else piece
                for piece in pieces
            ]
        return [Write(piece) if isinstance(piece, bytes) else piece for piece in pieces]

    def _ending(self, end: Fault | None, whole: bool) -> list[Op]:
        if end is not None and end.name in _ENDS:
            return [End(_ENDS[end.name])]
        if self._is_chunked:
            return [Write(b"0\r\n\r\n"), End("finish")]
        return [End("finish" if whole and self._attempt.framing != "close" else "fin")]


def _lower(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name.lower(), value.lower()) for name, value in headers]


def _latin(value: str) -> bool:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return False
    return True


def _reason(status: int) -> str:
    """The standard phrase; providers' own statuses (529, 524) have none."""
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Provider Status"
