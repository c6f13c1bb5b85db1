"""stdout and stderr of one command: plain where no terminal is, colour where one is and wants it.

``NO_COLOR`` switches every escape code off. What a provider wrote never reaches a terminal with its
control characters in it. Knows nothing of turns.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import msgspec
from rich.console import Console
from rich.text import Text

__all__ = ["Terminal", "printable"]

#: C0 and C1 without tab and newline: with these a reply could repaint the terminal.
_CONTROL = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def printable(text: str) -> str:
    """The text without control characters."""
    return text if text.isprintable() else text.translate(_CONTROL)


class Terminal:
    """Where a command writes."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A reply may hold what an old terminal cannot show: a mark is better than an end.
                stream.reconfigure(errors="replace")
        self.out = _console(sys.stdout)
        self.err = _console(sys.stderr)

    def data(self, text: str) -> None:
        """Write data to stdout as it is; at once."""
        sys.stdout.write(printable(text) if self.out.is_terminal else text)
        sys.stdout.flush()

    def raw(self, data: bytes) -> None:
        """Write bytes to stdout: a picture."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.buffer.write(data)
        else:
            sys.stdout.write(data.decode())
        sys.stdout.flush()

    def row(self, row: Mapping[str, Any]) -> None:
        """Write one JSON object as a line to stdout, in UTF-8 whatever the terminal's encoding."""
        line = msgspec.json.encode(row) + b"\n"
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.buffer.write(line)
        else:
            sys.stdout.write(line.decode())
        sys.stdout.flush()

    def error(self, message: str, hint: str) -> None:
        """Say what is wrong and what to do next."""
        self.err.print(Text.assemble(("error:", "bold red"), " ", printable(message)))
        self.err.print()
        self.err.print(Text.assemble(("hint:", "bold cyan"), " ", printable(hint)))

    def note(self, message: str) -> None:
        """Progress of long work, on a terminal only."""
        if self.err.is_terminal:
            self.err.print(Text(printable(message), style="dim"))

    def warning(self, message: str) -> None:
        """Say what is odd but stops nothing."""
        self.err.print(Text.assemble(("warning:", "bold yellow"), " ", printable(message)))


def _console(stream: TextIO) -> Console:
    return Console(
        file=stream,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=True,
    )
