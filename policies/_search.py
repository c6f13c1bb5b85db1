"""Where policy files are looked for, and how one is read.

Besides ``_loader`` the only module here that touches files. Knows nothing of what is in them.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from ._errors import Fault, PolicyError, nearest
from ._marks import DEEPEST, Layer, depth

__all__ = [
    "LARGEST_BYTES",
    "PATH_VARIABLE",
    "content",
    "find",
    "folder_of",
    "identity",
    "known",
    "parse",
]

Place = Path | Traversable

#: Folders searched before all others, separated as in ``PATH``.
PATH_VARIABLE = "MIDTHOUGHT_POLICY_PATH"

#: A policy is some kilobytes; more is another file by mistake.
LARGEST_BYTES = 1024 * 1024


def folders() -> Iterator[Place]:
    """The search path: the variable's folders, the project's, the user's, the ones that ship."""
    for folder in os.environ.get(PATH_VARIABLE, "").split(os.pathsep):
        if folder:
            yield Path(folder).expanduser()
    yield Path("midthought")
    config = os.environ.get("XDG_CONFIG_HOME", "")
    home = Path(config) if os.path.isabs(config) else Path("~/.config").expanduser()
    yield home / "midthought"
    yield resources.files("midthought.policies")


def find(name: str, beside: Place | None = None, but: Place | None = None) -> Place | None:
    """The first file of this name: in the folder ``beside``, then along the search path.

    ``but`` is left out: a file that extends its own name builds on the next one of that name.
    """
    file = f"{name}.toml"
    for folder in (*([beside] if beside is not None else []), *folders()):
        place = folder / file
        if _is_file(place) and (but is None or identity(place) != identity(but)):
            return place
    return None


def known() -> dict[str, Place]:
    """Every policy on the search path by name; of two with one name the first counts."""
    found: dict[str, Place] = {}
    for folder in folders():
        for place in _entries(folder):
            if place.name.endswith(".toml") and _is_file(place):
                found.setdefault(place.name.removesuffix(".toml"), place)
    return dict(sorted(found.items()))


def _entries(folder: Place) -> list[Place]:
    try:
        return list(folder.iterdir()) if folder.is_dir() else []
    except OSError:  # a folder that may not be looked into holds no policy of ours
        return []


def _is_file(place: Place) -> bool:
    try:
        return place.is_file()
    except OSError:
        return False


def identity(place: Place) -> str:
    """The same text for the same file, however it was reached."""
    return os.path.realpath(str(place))


def folder_of(place: Place) -> Place:
    """The folder a file is in; the ones that ship may be in an archive."""
    return place.parent if isinstance(place, Path) else resources.files("midthought.policies")


def parse(file: str, content: bytes) -> tuple[Layer, dict[str, Any]]:
    """A file's text and data; ``PolicyError`` says why it cannot be used, and what to do."""
    text = _decoded(file, content)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(file, text, error) from None
    except (RecursionError, ValueError):
        data = None
    if data is None or depth(data) > DEEPEST:
        found, expected = "tables in tables without end, or an endless number", "a policy"
        hint = f"nest no deeper than {DEEPEST}, and shorten long numbers"
        raise PolicyError(file, [Fault(file, None, "", found, expected, hint)])
    return Layer(file, text), data


def content(place: Place) -> bytes:
    """What a file holds; ``PolicyError`` where it cannot be had or is too large."""

    def refuse(found: str, hint: str) -> PolicyError:
        return PolicyError(str(place), [Fault(str(place), None, "", found, "a TOML file", hint)])

    try:
        with place.open("rb") as stream:
            data: bytes = stream.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise refuse("no such file", _near_files(place)) from None
    except IsADirectoryError:
        raise refuse("a directory", "name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise refuse(
            f"a file that cannot be read ({reason})", "look at its owner and mode"
        ) from None
    if len(data) > LARGEST_BYTES:
        hint = "is this the file you meant? a policy has some kilobytes"
        raise refuse(f"more than {LARGEST_BYTES} bytes", hint)
    return data


def _near_files(place: Place) -> str:
    names = [*known()]
    if isinstance(place, Path) and place.parent.is_dir():
        names += [str(other) for other in place.parent.glob("*.toml")]
    close = nearest(str(place), names) or nearest(place.name.removesuffix(".toml"), names)
    return f"did you mean {close!r}?" if close else f"known by name: {', '.join(known())}"


def _decoded(file: str, data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
        at = data.find(b"\0")
    except UnicodeDecodeError as error:
        text, at = "", error.start
    if at < 0:
        return text
    found, hint = f"a byte that is no text at place {at}", "save the file as UTF-8 text"
    raise PolicyError(file, [Fault(file, None, "", found, "TOML, which is UTF-8", hint)])


def _broken(file: str, text: str, error: tomllib.TOMLDecodeError) -> PolicyError:
    """The parser's own words; they hold line and column, or say that the end came too early."""
    reason, _, at = str(error).rpartition(" (at ")
    line = text.count("\n") + 1
    if at.startswith("line "):
        line = int(at.removeprefix("line ").split(",")[0])
    found = f"{reason} (at {at}" if reason else str(error)
    hint = "correct the syntax there; strings need quotes, tables need their brackets"
    return PolicyError(file, [Fault(file, line, "", found, "TOML", hint)])
