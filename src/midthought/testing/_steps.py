"""Reading the steps of one attempt: words in, pieces of body and pauses out.

Collects every fault and every need with its place; decides nothing about framing. Imports no
sockets and no time.
"""

import base64
import binascii
import math
from collections.abc import Iterable, Mapping, Sequence

from ._faults import FAULTS, STEP_KEYS, Fault, unknown
from ._plan import Pause
from ._repeat import PIECES, NotInDialect, repeat


def seconds(given: object) -> float | None:
    """A length of time as scripts write it, or None if it is none."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    return float(given) if 0 <= given < math.inf else None


class StepReader:
    """What the steps say: `pieces` in order, the fault that is the `end`, if any."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._where = ""
        self._body = bytearray()
        self.pieces: list[bytes | Pause] = []
        self.end: Fault | None = None
        self.gzip_cut = False
        self.faults: list[str] = []
        self.needs: list[tuple[str, str]] = []

    @property
    def size(self) -> int:
        """Bytes of body before any framing or compression."""
        return len(self._body)

    def read(self, steps: Sequence[object]) -> None:
        """Read all steps, in order."""
        for number, step in enumerate(steps):
            self._where = f"steps[{number}]"
            if self.end is not None:
                self._fault(f"is never reached: {self.end.name!r} before it ends the reply")
                break
            self._step(step)
        if self.end is not None and self.end.name == "connect_refused" and len(steps) > 1:
            self.faults.append("steps: 'connect_refused' takes no request, so it stands alone")

    def _fault(self, text: str) -> None:
        self.faults.append(f"{self._where}: {text}")

    def _step(self, step: object) -> None:
        if isinstance(step, str):
            self._bytes(step.encode("utf-8", "surrogatepass"))
        elif isinstance(step, bytes):
            self._bytes(step)
        elif not isinstance(step, Mapping):
            self._fault(f"expected text, bytes or a mapping, not {type(step).__name__}")
        elif (kind := next((key for key in STEP_KEYS if key in step), None)) is None:
            keys = ", ".join(sorted(map(repr, step)))
            self._fault(f"has {keys or 'no key'}; expected one of {', '.join(STEP_KEYS)}")
        else:
            self._mapping(kind, step)

    def _mapping(self, kind: str, step: Mapping[str, object]) -> None:
        fault = FAULTS.get(str(step.get("fault")))
        allowed = STEP_KEYS[kind] | (fault.keys if fault else frozenset())
        if wrong := [key for key in step if key not in allowed]:
            self._fault(unknown(f"key of a {kind} step", wrong[0], allowed))
        elif kind == "b64":
            self._base64(step["b64"])
        elif kind == "wait":
            self._wait(step["wait"])
        elif kind == "repeat":
            self._repeat(step)
        else:
            self._end(step["fault"])

    def _bytes(self, data: bytes) -> None:
        if not data:
            self._fault("is empty, which would end a chunked body; leave it out")
        elif self.gzip_cut:
            self._fault("sends bytes after 'gzip_cut'; the compressed stream is over there")
        else:
            self._body += data
            self.pieces.append(data)

    def _base64(self, text: object) -> None:
        try:
            data = base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError):
            self._fault("b64 is not base64")
        else:
            self._bytes(data)

    def _wait(self, given: object) -> None:
        length = seconds(given)
        if length is None:
            self._fault(f"wait expects seconds, zero or more, not {given!r}")
        else:
            self.pieces.append(Pause(length))

    def _repeat(self, step: Mapping[str, object]) -> None:
        text, times, kind = step["repeat"], step.get("n"), step.get("as")
        if not isinstance(text, str) or not text:
            self._fault("repeat expects the text to repeat")
        elif type(times) is not int or times < 1:
            self._fault(f"repeat expects n, one or more, not {times!r}")
        elif kind not in PIECES:
            self._fault(f"repeat expects as = {_either(PIECES)}, not {kind!r}")
        else:
            try:
                events = repeat(self._dialect, str(kind), text, times, bytes(self._body))
            except NotInDialect as error:
                self._fault(str(error))
            else:
                for event in events:
                    self._bytes(event)

    def _end(self, name: object) -> None:
        fault = FAULTS.get(name) if isinstance(name, str) else None
        if fault is None:
            self._fault(unknown("fault", name, FAULTS))
            return
        if fault.needs:
            self.needs.append((f"{self._where} {fault.name!r}", fault.needs))
        if fault.name == "rst_before_response" and self._body:
            self._fault("'rst_before_response' comes before any byte; use 'rst' after one")
        self.gzip_cut = self.gzip_cut or fault.name == "gzip_cut"
        if fault.ends:
            self.end = fault


def _either(words: Iterable[str]) -> str:
    return " or ".join(repr(word) for word in words)
