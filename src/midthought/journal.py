"""The journal: every record of every turn as one JSON object a line.

Records hold shapes, facts, lengths, times and decisions; never a prompt, a completion, a key or a
body. A run file may be read while it is written. The journal never raises: after the first write
that fails it warns once and is off.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

import msgspec
from loguru import logger

from midthought._records import LEVEL

if TYPE_CHECKING:
    from loguru import Message

__all__ = ["Journal", "read", "write_to"]


class Journal:
    """A run file being written; a context manager. ``close`` stops it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[bytes] | None = self.path.open("ab", buffering=0)
        logger.enable("midthought")
        self._sink = logger.add(self._write, level=LEVEL, filter=_is_record, format="")

    def _write(self, message: Message) -> None:
        record: dict[str, Any] = message.record["extra"]["record"]
        moment = message.record["time"].astimezone(UTC).isoformat(timespec="microseconds")
        line = msgspec.json.encode({"time": moment, **record}) + b"\n"
        with self._lock:
            if self._file is None:
                return
            try:
                self._file.write(line)
            except OSError as error:
                self._file = None
                warnings.warn(
                    f"journal {self.path.name} is off: {error.strerror}; turns go on without it",
                    RuntimeWarning,
                    stacklevel=2,
                )

    def close(self) -> None:
        """Stop writing and close the file; a second close does nothing."""
        with self._lock:
            file, self._file = self._file, None
        if file is not None:
            logger.remove(self._sink)
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_record(record: Any) -> bool:
    return "record" in record["extra"] and record["name"] == "midthought._records"


def write_to(path: str | os.PathLike[str]) -> Journal:
    """Append the records of all turns of this process to ``path``; returns the journal."""
    return Journal(path)


def read(path: str | os.PathLike[str]) -> Iterator[dict[str, Any]]:
    """Records of a run file, in order; a torn last line is left out."""
    with Path(path).open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield msgspec.json.decode(line)
