"""What a command says when it cannot go on: what is wrong, and after a blank line what to do.

A message never holds a prompt, a reply, a key or a body. Knows no command.
"""

from __future__ import annotations

from pathlib import Path

from midthought import MidthoughtError, RecoveryExhausted
from midthought.policies import PolicyError
from midthought.review import DiagramError, FaultError, RunFileError

__all__ = ["CommandError", "check_place", "explained", "write_file"]


class CommandError(Exception):
    """Ends a command; ``code`` is 2 for wrong input and 1 for a turn that failed."""

    def __init__(self, message: str, hint: str, code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


def explained(error: Exception) -> CommandError | None:
    """The error as a command says it; ``None`` for what is nobody's input: a defect."""
    if isinstance(error, CommandError):
        return error
    if isinstance(error, PolicyError):
        return _policy(error)
    if isinstance(error, RecoveryExhausted):
        return CommandError(str(error), "--journal FILE writes down what was tried", 1)
    if isinstance(error, RunFileError):
        return CommandError(str(error), "a run file is written with --journal FILE")
    if isinstance(error, FaultError):
        return CommandError(str(error), "docs/simulate.md says what a fault model may hold")
    if isinstance(error, DiagramError):
        return CommandError(str(error), "or draw it with -f text, mermaid or dot")
    if isinstance(error, MidthoughtError):
        return CommandError(str(error), "midthought --help says what each command takes")
    return None


def check_place(path: str) -> None:
    """Refuse a file that cannot be written, before the work that it is for."""
    place = Path(path)
    if place.is_dir():
        raise _unwritable(path, "it is a folder")
    if not place.parent.is_dir():
        raise _unwritable(path, "its folder is not there")


def write_file(path: str, text: str) -> None:
    """Write what a command was asked to leave in a file."""
    try:
        Path(path).write_text(text, "utf-8")
    except (OSError, ValueError) as error:
        raise _unwritable(path, getattr(error, "strerror", None) or str(error)) from None


def _unwritable(path: str, said: str) -> CommandError:
    hint = "name a file in a folder that is there"
    return CommandError(f"{path} cannot be written: {said}", hint)


def _policy(error: PolicyError) -> CommandError:
    if len(error.faults) > 1:
        return CommandError(str(error), "each line says what to do; then run the command again")
    fault = error.faults[0]
    where = f"{fault.file}:{fault.line}" if fault.file and fault.line else fault.file
    place = "".join(f"{part}: " for part in (where, fault.path) if part)
    found = f"found {fault.found}" if place else fault.found
    return CommandError(f"{place}{found}, expected {fault.expected}", fault.hint)
