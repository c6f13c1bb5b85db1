"""``midthought diagram`` and ``diff``: what a policy looks like, and what changed between two."""

from __future__ import annotations

from pathlib import Path

from midthought.policies import Policy, load_policy
from midthought.review import (
    Difference,
    Paint,
    RunFileError,
    Turn,
    WorstCase,
    compare,
    diagram_text,
    dot,
    ladder_dot,
    ladder_of,
    ladder_text,
    mermaid,
    painted,
    read_run,
    render,
    transitions_of,
    view_of,
)

from ._errors import CommandError
from ._terminal import Terminal

__all__ = ["FORMATS", "diagram", "diff"]

FORMATS = ("text", "mermaid", "dot", "svg", "png")


def diagram(
    terminal: Terminal, name: str, *, form: str, of: str, run: str | None, turn: str | None
) -> int:
    """Draw a policy; ``run`` paints the way of a recorded turn."""
    _known("--format", form, FORMATS)
    _known("--of", of, ("machine", "ladder"))
    policy = load_policy(name)
    if of == "ladder":
        if form == "mermaid":
            raise CommandError("a ladder has no Mermaid form", "use -f text, dot, svg or png")
        ladder = ladder_of(policy)
        source = ladder_text(ladder) if form == "text" else ladder_dot(ladder)
    else:
        paint = painted(transitions_of(find_turn(run, turn))) if run is not None else Paint()
        source = _machine(policy, form, paint)
    _write(terminal, source, form)
    return 0


def _machine(policy: Policy, form: str, paint: Paint) -> str:
    draw = {"text": diagram_text, "mermaid": mermaid}.get(form, dot)
    return draw(view_of(policy), paint)


def _write(terminal: Terminal, source: str, form: str) -> None:
    if form in ("svg", "png"):
        terminal.raw(render(source, form))
    else:
        terminal.data(source)


def find_turn(run: str, turn: str | None) -> Turn:
    """The turn of a run file that is asked for; its only one if none is named."""
    turns = read_run(run).turns
    if turn is None and len(turns) == 1:
        return turns[0]
    found = [t for t in turns if turn is not None and t.turn_id.startswith(turn)]
    if len(found) != 1:
        ids = ", ".join(t.turn_id[:12] for t in turns[:8])
        raise RunFileError(
            f"{Path(run).name} holds {len(turns)} turns ({ids}): name one with --turn"
        )
    return found[0]


def diff(
    terminal: Terminal, before: str, after: str, *, form: str, as_json: bool, exit_code: bool
) -> int:
    """Say what changed in meaning between two policies."""
    _known("--format", form, ("text", "mermaid", "svg"))
    old, new = load_policy(before), load_policy(after)
    found = compare(old, new)
    if as_json:
        terminal.row(_as_row(found))
    elif form == "text":
        terminal.data(_as_text(before, after, found))
    else:
        _write(terminal, _machine(new, form, Paint(added=found.added, removed=found.removed)), form)
    return 1 if exit_code and not found.empty else 0


def _as_text(before: str, after: str, found: Difference) -> str:
    if found.empty:
        return f"{before} and {after} mean the same\n"
    out = [f"{before} → {after}", ""]
    for title, lines in (
        (
            "machine",
            [f"+ {_edge(e)}" for e in found.added] + [f"- {_edge(e)}" for e in found.removed],
        ),
        ("rules", [str(change) for change in found.rules]),
        ("settings", [str(change) for change in found.settings]),
        ("worst case", list(_worst(found.before, found.after))),
    ):
        if lines:
            out += [title, *(f"  {line}" for line in lines), ""]
    return "\n".join(out)


def _edge(edge: object) -> str:
    source, dest, trigger, guards = (
        getattr(edge, n) for n in ("source", "dest", "trigger", "guards")
    )
    return f"{source} → {dest} on {trigger}" + (f" [{' and '.join(guards)}]" if guards else "")


def _worst(before: WorstCase, after: WorstCase) -> list[str]:
    lines = []
    for field in before._fields:
        was, now = getattr(before, field), getattr(after, field)
        if was != now:
            lines.append(f"{field}: {was:g} → {now:g}")
    return lines or ["unchanged"]


def _as_row(found: Difference) -> dict[str, object]:
    return {
        "added": [edge._asdict() for edge in found.added],
        "removed": [edge._asdict() for edge in found.removed],
        "rules": [change._asdict() for change in found.rules],
        "settings": [change._asdict() for change in found.settings],
        "before": found.before._asdict(),
        "after": found.after._asdict(),
    }


def _known(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise CommandError(
            f"{option} is {value!r}, expected one of {', '.join(known)}", "correct it"
        )
