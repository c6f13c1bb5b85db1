"""Recorded streams of Cohere, Ollama and Bedrock, as their frames would come over the wire.

Bedrock's are stored without their framing: the messages are made by hand around the real events.
Imports nothing of the project.
"""

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from aws_messages import EVENT_STREAM, chunk, event

__all__ = ["CORPUS", "Stream", "each", "streams"]

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
#: Per wire: policy, content type.
WIRES = {
    "cohere-v2": ("cohere", "text/event-stream"),
    "ollama": ("ollama", "application/x-ndjson"),
    "bedrock-converse": ("bedrock-converse", EVENT_STREAM),
    "bedrock-invoke": ("anthropic-bedrock", EVENT_STREAM),
}


@dataclass(frozen=True)
class Stream:
    """One recorded reply."""

    name: str
    wire: str
    file: Path

    @property
    def policy(self) -> str:
        """The policy it is read by."""
        return WIRES[self.wire][0]

    @property
    def content_type(self) -> str:
        """Of the response."""
        return WIRES[self.wire][1]

    @cached_property
    def bodies(self) -> list[Any]:
        """The JSON of each event, in order."""
        text = self.file.read_text("utf-8")
        if self.file.suffix == ".ndjson":
            return [json.loads(line) for line in text.split("\n") if line.strip()]
        data = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        return [json.loads(one) for one in data if one.strip() != "[DONE]"]

    @cached_property
    def frames(self) -> list[bytes]:
        """Every frame of the body; joined they are all of it."""
        if self.wire == "bedrock-invoke" or (
            self.wire == "bedrock-converse" and self.file.suffix == ".sse"
        ):
            return [chunk(body) for body in self.bodies]
        if self.wire == "bedrock-converse":
            return [event(name, value) for body in self.bodies for name, value in body.items()]
        separator = b"\n\n" if self.file.suffix == ".sse" else b"\n"
        *whole, tail = self.file.read_bytes().split(separator)
        return [piece + separator for piece in whole] + ([tail] if tail else [])

    @cached_property
    def data(self) -> bytes:
        """The response body."""
        return b"".join(self.frames)

    def __str__(self) -> str:
        return f"{self.wire}/{self.name[:40]}"


def streams(*wires: str) -> list[Stream]:
    """The recordings of these wires; Claude's over InvokeModel are ``bedrock-invoke``."""
    manifest = CORPUS / "MANIFEST.tsv"
    if not manifest.is_file():
        return []
    with manifest.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = []
    for row in rows:
        invoked = row["provider"] == "bedrock" and row["wire"] == "anthropic"
        wire = "bedrock-invoke" if invoked else row["wire"]
        if wire in wires:
            name = row["file"].rpartition("/")[2].rpartition(".")[0]
            found.append(Stream(name, wire, CORPUS / row["file"]))
    return found


def each(found: Iterable[Stream]) -> pytest.MarkDecorator:
    """Parametrise ``stream``; one skipped entry with the reason where there is no corpus."""
    reason = "the recorded streams are not beside the project (../shared/corpus)"
    absent = pytest.param(None, marks=pytest.mark.skip(reason=reason))
    return pytest.mark.parametrize("stream", list(found) or [absent], ids=str)
