"""``midthought check`` and ``new``: policies proved before they ship, and new ones that pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from midthought.policies import list_policies, load_source
from midthought.review import (
    as_row,
    as_sarif,
    as_text,
    is_unreadable,
    new_policy,
    proof_summary,
    prove,
)

from ._errors import CommandError
from ._terminal import Terminal

__all__ = ["check", "new"]


def check(
    terminal: Terminal,
    names: Sequence[str],
    *,
    every: bool,
    notes: bool,
    as_json: bool,
    sarif: bool,
) -> int:
    """Prove policies; 1 where one of them has an error."""
    if every == bool(names):
        found = "both --all and a policy" if every else "no policy"
        raise CommandError(f"found {found}", "name policies or TOML files, or use --all")
    if as_json and sarif:
        raise CommandError("found both --json and --sarif", "take one of them")
    if every:
        names = [info.name for info in list_policies()]
    proofs = [prove(name) for name in names]
    for name, proof in zip(names, proofs, strict=True):
        if not every and is_unreadable(proof):
            load_source(name)  # says what is wrong with it, as every other command does
    if sarif:
        terminal.data(json.dumps(as_sarif(proofs), indent=2, ensure_ascii=False) + "\n")
    for proof in proofs if not sarif else ():
        if as_json:
            terminal.row(as_row(proof))
        else:
            terminal.data(as_text(proof, notes=notes))
    if len(proofs) > 1 and not (as_json or sarif):
        terminal.data(f"{proof_summary(proofs)}\n")
    return 0 if all(proof.is_safe for proof in proofs) else 1


def new(
    terminal: Terminal, name: str, *, dialect: str | None, extends: str | None, to_stdout: bool
) -> int:
    """Write a policy to begin with."""
    if (dialect is None) == (extends is None):
        found = "neither --dialect nor --extends" if dialect is None else "both of them"
        raise CommandError(f"found {found}", "give one: --dialect NAME or --extends POLICY")
    path = _place(name)
    text = new_policy(name, dialect=dialect, extends=extends, folder=str(path.parent))
    if to_stdout:
        terminal.data(text)
        return 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{path}: the file exists", "take another name, or --stdout") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(f"{path}: cannot be written ({reason})", "name another place") from None
    terminal.data(f"{path}\n")
    return 0


def _place(name: str) -> Path:
    """A path as it is; a name goes where the project's policies are looked for."""
    path = Path(name).expanduser()
    if name.endswith(".toml") or len(path.parts) > 1:
        return path
    return Path("midthought", f"{name}.toml")
