"""A second, slow and plain reading of server-sent events, for expectations only.

Imports nothing of the project.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

__all__ = ["Frame", "split_frames", "tail_is_whole"]

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r|\Z)")
_DONE = b"[DONE]"


@dataclass(slots=True)
class Frame:
    """One event: ``begin`` to ``end`` in the body, its blank line included."""

    begin: int
    end: int
    whole_at: int
    """From here on its JSON is all there, though its blank line is not."""
    event: str
    data: bytes
    json: Any
    """The decoded object; ``None`` for the end marker and for events without data."""

    @property
    def is_done(self) -> bool:
        """The end marker of the Chat dialect."""
        return self.data.strip() == _DONE


def split_frames(body: bytes) -> list[Frame]:
    """All events of the body with data; the last one also where its blank line is missing."""
    frames: list[Frame] = []
    begin = at = 3 if body.startswith(b"\xef\xbb\xbf") else 0
    event, data, whole_at = "", [], 0
    while at < len(body):
        match = _LINE.match(body, at)
        assert match is not None
        line, at = match[1], match.end()
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            whole_at = match.start() + len(line.rstrip())
        elif line.startswith(b"event:"):
            event = line[6:].strip().decode()
        if (not line or at >= len(body)) and data:
            frames.append(_frame(begin, at, whole_at, event, b"\n".join(data)))
        if not line:
            begin, event, data = at, "", []
    return frames


def _frame(begin: int, end: int, whole_at: int, event: str, data: bytes) -> Frame:
    decoded = None if data.strip() in (b"", _DONE) else json.loads(data)
    return Frame(begin, end, whole_at, event, data, decoded)


def tail_is_whole(frame: Frame, at: int) -> bool:
    """A cut at ``at``, inside this event, leaves JSON that can be read."""
    return at >= frame.whole_at
