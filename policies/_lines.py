"""On which line of a TOML file a key stands: the standard parser does not say.

Reads only text that the standard parser accepted, so it may trust the syntax. Imports nothing of
midthought.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

__all__ = ["Path", "line_of", "lines_of"]

Path = tuple[str | int, ...]

_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'  # strings first: what they hold is no syntax
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[A-Za-z0-9_-]+"
    r"|\n|\S",
    re.DOTALL,
)


def lines_of(text: str) -> dict[Path, int]:
    """Line of every table header and of every key, by table path; rows of arrays count from 0."""
    lines: dict[Path, int] = {}
    rows: dict[Path, int] = {}
    table: Path = ()
    tokens = _tokens(text)
    for line, token in tokens:
        if token == "[":
            table = _header(tokens, rows)
            _note(table, line, lines)
        elif token != "\n":
            path = table + _key(token, tokens, "=")
            _note(path, line, lines)
            _skip_value(tokens)
    return lines


def line_of(path: Path, lines: dict[Path, int]) -> int | None:
    """The line of a path, or of the nearest table around it that the file names."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _note(path: Path, line: int, lines: dict[Path, int]) -> None:
    for length in range(1, len(path) + 1):
        lines.setdefault(path[:length], line)


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each token, without comments and white space."""
    line, seen = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen = match.start()
        if not match.group().startswith("#"):
            yield line, match.group()


def _key(first: str, tokens: Iterator[tuple[int, str]], end: str) -> Path:
    """A dotted key, up to and without the token ``end``."""
    parts = []
    token = first
    while token != end:
        if token != ".":
            parts.append(tomllib.loads(f"k = {token}")["k"] if token[0] in "\"'" else token)
        _, token = next(tokens)
    return tuple(parts)


def _header(tokens: Iterator[tuple[int, str]], rows: dict[Path, int]) -> Path:
    """The path of a table header; ``[[x]]`` is the next row of x, ``[x.y]`` is in its last row."""
    _, token = next(tokens)
    is_row = token == "["
    if is_row:
        _, token = next(tokens)
    keys = _key(token, tokens, "]")
    path: Path = ()
    for place, key in enumerate(keys, 1):
        path += (key,)
        if is_row and place == len(keys):
            next(tokens)
            rows[path] = rows.get(path, -1) + 1
        if path in rows:
            path += (rows[path],)
    return path


def _skip_value(tokens: Iterator[tuple[int, str]]) -> None:
    depth = 0
    for _, token in tokens:
        if token in ("[", "{"):
            depth += 1
        elif token in ("]", "}"):
            depth -= 1
        elif token == "\n" and depth == 0:
            return
