"""A script: what the upstream answers to one request, as plain data.

An `Attempt` holds the grammar of the case files as it is written there and never acts on it.
What is wrong with it is found by `_compile.py`, everything at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, TypeAlias

from ._compile import Compiled, compile_attempt
from ._errors import ScriptError, UnsupportedStep
from ._faults import unknown

#: Text or bytes: sent as one piece. A mapping: `b64`, `wait`, `repeat` or `fault`.
Step: TypeAlias = str | bytes | Mapping[str, object]
#: A mapping, or pairs where a name comes twice or the order matters.
Headers: TypeAlias = Mapping[str, str] | Sequence[tuple[str, str]]

ENTRY_KEYS = frozenset(
    {"status", "headers", "framing", "body", "steps", "compress", "head_after_s"}
)


@dataclass(frozen=True, repr=False)
class Attempt:
    """One reply, from status line to end of connection.

    Without a fault among the steps the reply ends in good order (framing `none`: it stalls).
    `body` is the same as one text step. `compress` sends the steps as one gzip stream, a flush
    per step; a `gzip_cut` step implies it. `head_after_s` holds the status line back, in seconds.
    `dialect` says how a `repeat` step is written. `content-type` is `text/event-stream`, or
    `application/json` for a `body`, where the headers name none.
    """

    steps: Sequence[Step] = ()
    _: KW_ONLY
    status: int | None = 200
    headers: Headers = ()
    framing: str = "chunked"
    body: str | bytes | None = None
    compress: bool = False
    head_after_s: float = 0.0
    dialect: str = "anthropic"

    @classmethod
    def from_case(cls, entry: Mapping[str, Any], *, dialect: str = "anthropic") -> "Attempt":
        """One entry of a case's `repro.attempts`, checked.

        Raises ScriptError for what is wrong with it, UnsupportedStep for what needs another server.
        """
        if wrong := sorted(entry.keys() - ENTRY_KEYS):
            raise ScriptError(unknown("key", key, ENTRY_KEYS) for key in wrong)
        attempt = cls(**entry, dialect=dialect)
        check([attempt])
        return attempt

    @cached_property
    def compiled(self) -> Compiled:
        """What there is to play, or why not."""
        return compile_attempt(self)

    def __repr__(self) -> str:
        """Shape only: the steps may be somebody's conversation."""
        size = len(self.steps) if isinstance(self.steps, Sequence) else "?"
        return f"Attempt(status={self.status!r}, framing={self.framing!r}, steps={size})"


def check(attempts: Sequence[Attempt], *, faults: Sequence[str] = ()) -> None:
    """Raise for everything in these attempts that is wrong, or that needs another server.

    `faults` are what the caller found already, so that one error names everything.
    """
    many = len(attempts) > 1
    found = list(faults)
    needs: list[tuple[str, str]] = []
    for number, attempt in enumerate(attempts):
        if not isinstance(attempt, Attempt):
            found.append(
                f"attempts[{number}]: expected an Attempt, not {type(attempt).__name__}; "
                "Attempt.from_case reads a mapping"
            )
            continue
        place = f"attempts[{number}]." if many else ""
        found += [f"{place}{fault}" for fault in attempt.compiled.faults]
        needs += [(f"{place}{where}", need) for where, need in attempt.compiled.needs]
    if found:
        raise ScriptError(found)
    if needs:
        raise UnsupportedStep(needs)
