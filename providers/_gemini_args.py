"""Arguments of a function call that come in pieces, each with the JSON path of its value.

Vertex sends them so where ``streamFunctionCallArguments`` is on: ``partialArgs`` of one value each,
long strings in several pieces, until one comes without ``willContinue``. Values are put where their
paths say, in any order; nothing is guessed. Imports no IO.

    {"jsonPath": "$.steps[0].text", "stringValue": "Mix", "willContinue": true}
    {"jsonPath": "$.steps[0].text", "stringValue": " well."}
    {"jsonPath": "$.steps[0].minutes", "numberValue": 3}
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["PartialArgs", "UnreadableArgs"]

_STEP: Final = re.compile(
    r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]"""
)
_ESCAPED: Final = re.compile(r"\\(.)")
_VALUES: Final = ("stringValue", "numberValue", "boolValue", "nullValue")

Step = str | int


class UnreadableArgs(ValueError):
    """A piece that has no place; its text tells types and lengths only."""


class PartialArgs:
    """The arguments as far as they have come."""

    __slots__ = ("_open", "_pieces", "value")

    def __init__(self, value: Mapping[str, Any] | None = None) -> None:
        self.value: dict[str, Any] = dict(value or {})
        """Without the later pieces of a string that goes on."""
        self._open: str | None = None
        self._pieces: list[str] = []

    @property
    def inside(self) -> bool:
        """A string has begun and not ended."""
        return self._open is not None

    def add(self, piece: Any) -> None:
        """Take one entry of ``partialArgs``; ``UnreadableArgs`` if it cannot be placed."""
        path = piece.get("jsonPath") if isinstance(piece, Mapping) else None
        if not isinstance(path, str):
            raise UnreadableArgs("a piece of arguments without a JSON path")
        more, text = piece.get("willContinue") is True, piece.get("stringValue")
        if path != self._open:
            self._end_string()
            self._put(path, piece)
            if not more:
                return
            self._open = path
        if isinstance(text, str):
            self._pieces.append(text)
        if not more:
            self._end_string()

    def _end_string(self) -> None:
        path, self._open = self._open, None
        if path is not None and self._pieces:
            holder, step = self._place(_steps(path))
            holder[step] = "".join(self._pieces)
        self._pieces = []

    def _put(self, path: str, piece: Mapping[str, Any]) -> None:
        kind = next((key for key in _VALUES if key in piece), None)
        holder, step = self._place(_steps(path))
        if kind is not None:
            holder[step] = None if kind == "nullValue" else piece[kind]

    def _place(self, steps: list[Step]) -> tuple[Any, Step]:
        """The table or list that the last step is in, made where there is none."""
        at: Any = self.value
        for step, after in itertools.pairwise(steps):
            _make_room(at, step)
            inner: Any = [] if isinstance(after, int) else {}
            if not isinstance(at[step], type(inner)):
                at[step] = inner
            at = at[step]
        _make_room(at, steps[-1])
        return at, steps[-1]


def _steps(path: str) -> list[Step]:
    steps: list[Step] = []
    end = 1
    while path[:1] == "$" and (found := _STEP.match(path, end)):
        name, index, single, double = found.groups()
        quoted = single if single is not None else double
        steps.append(
            int(index) if index else name if quoted is None else _ESCAPED.sub(r"\1", quoted)
        )
        end = found.end()
    if not steps or end != len(path) or isinstance(steps[0], int):
        raise UnreadableArgs(f"a JSON path of {len(path)} characters that leads nowhere")
    return steps


def _make_room(holder: Any, step: Step) -> None:
    """Let ``holder[step]`` be; a list grows by one at a time, as the model writes it."""
    if isinstance(step, int):
        if step > len(holder):
            raise UnreadableArgs(f"item {step} of a list that has {len(holder)}")
        if step == len(holder):
            holder.append(None)
    else:
        holder.setdefault(step, None)
