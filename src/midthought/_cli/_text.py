"""Where the text of a reply goes while it arrives: bare to stdout, or on the stage of the demo."""

from __future__ import annotations

import re
import sys
from typing import Protocol

from rich.text import Text

from ._terminal import Terminal, printable

__all__ = ["BareText", "StageText", "TextOut"]

_WIDTH = 72


class TextOut(Protocol):
    """Takes text as it arrives."""

    def write(self, text: str, attempt: int) -> None: ...

    def pause(self) -> None:
        """Something else is written next; it begins on a line of its own."""

    def end(self) -> None:
        """No text follows."""


class BareText:
    """To stdout as it is, for a pipe or a person; only a last newline is added."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._mid_line = False
        self._mixed = terminal.out.is_terminal and terminal.err.is_terminal

    def write(self, text: str, attempt: int) -> None:
        self._terminal.data(text)
        self._mid_line = not text.endswith("\n")

    def pause(self) -> None:
        # Not to stdout, where it would be in the data.
        if self._mid_line and self._mixed:
            sys.stderr.write("\n")
            sys.stderr.flush()
            self._mid_line = False

    def end(self) -> None:
        if self._mid_line:
            self._terminal.data("\n")
            self._mid_line = False


class StageText:
    """On the stage: behind a bar, wrapped, in another colour for each attempt."""

    _STYLES = ("cyan", "green", "magenta", "yellow", "blue")

    def __init__(self, terminal: Terminal) -> None:
        self._console = terminal.out
        self._bar = "│ " if _can_write("│", self._console.encoding) else "| "
        self._column = 0
        self._space = ""

    def write(self, text: str, attempt: int) -> None:
        style = self._STYLES[attempt % len(self._STYLES)]
        for piece in re.findall(r"\n|[^\S\n]+|\S+", printable(text)):
            if piece == "\n":
                self.pause()
            elif piece.isspace():
                self._space = piece if self._column else ""
            else:
                self._word(piece, style)

    def _word(self, word: str, style: str) -> None:
        if self._space and self._column + len(word) >= _WIDTH:
            self.pause()
        if not self._column:
            self._console.print(self._bar, end="", style="dim")
        self._console.print(Text(f"{self._space}{word}", style=style), end="")
        self._column += len(self._space) + len(word)
        self._space = ""

    def pause(self) -> None:
        if self._column:
            self._console.print()
        self._column, self._space = 0, ""

    def end(self) -> None:
        self.pause()


def _can_write(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (LookupError, UnicodeEncodeError):
        return False
    return True
