"""The recorded streams of the corpus, and where they are.

Reads files only. Imports nothing of the project: what a test expects must not come from it.
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from reply_parts import Reply, read_reply

__all__ = ["CORPUS", "Recording", "each_recording", "recording", "recordings"]

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
ABSENT = "the recorded streams are not beside the project (../shared/corpus)"


@dataclass(frozen=True)
class Recording:
    """One recorded reply."""

    name: str
    wire: str
    provider: str
    model: str
    features: frozenset[str]
    file: Path

    @cached_property
    def data(self) -> bytes:
        """The response body."""
        return self.file.read_bytes()

    @cached_property
    def reply(self) -> Reply:
        """The body read by the tests' own reader."""
        return read_reply(self.wire, self.data)

    @cached_property
    def splits(self) -> list[int] | None:
        """Sizes of the socket reads, where they were recorded."""
        path = self.file.with_suffix(".splits.json")
        return list(json.loads(path.read_text())["read_sizes"]) if path.is_file() else None

    def __str__(self) -> str:
        return self.name


def _rows() -> list[dict[str, str]]:
    manifest = CORPUS / "MANIFEST.tsv"
    if not manifest.is_file():
        return []
    with manifest.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def recordings(*wires: str) -> list[Recording]:
    """The complete recordings of these wires, in the manifest's order."""
    return [
        Recording(
            name=row["file"].rpartition("/")[2].removesuffix(".sse"),
            wire=row["wire"],
            provider=row["provider"],
            model=row["model"],
            features=frozenset(row["features"].split()),
            file=CORPUS / row["file"],
        )
        for row in _rows()
        if row["wire"] in wires and row["status"] == "complete"
    ]


def recording(wire: str, beginning: str) -> Recording:
    """The one whose name begins so; skips the test where there is no corpus."""
    if not CORPUS.is_dir():
        pytest.skip(ABSENT)
    (found,) = [r for r in recordings(wire) if r.name.startswith(beginning)]
    return found


def each_recording(found: list[Recording]) -> pytest.MarkDecorator:
    """Parametrise ``recording``; one skipped entry with the reason where there is no corpus."""
    absent = pytest.param(None, marks=pytest.mark.skip(reason=ABSENT))
    return pytest.mark.parametrize("recording", found or [absent], ids=str)
