"""State diagrams from a policy: Mermaid, Graphviz, text, SVG and PNG.

Drawn from the policy's own data, never from code. SVG and PNG are made by ``graphviz-pure``, which
gives the same bytes on every platform, so pictures can be checked in and compared.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from html import escape
from pathlib import Path

from ._view import Edge, Ladder, Node, Rung, View

__all__ = [
    "DiagramError",
    "Paint",
    "dot",
    "ladder_dot",
    "ladder_text",
    "mermaid",
    "painted",
    "render",
    "text",
]

#: Role -> (fill, border): told apart without colour too, by shape and by the legend's words.
_COLOURS: dict[str, tuple[str, str]] = {
    "stream": ("#dbeafe", "#1d4ed8"),
    "assess": ("#fef3c7", "#b45309"),
    "commit": ("#fde68a", "#b45309"),
    "wait": ("#e5e7eb", "#4b5563"),
    "resume": ("#e0e7ff", "#4338ca"),
    "ask": ("#fae8ff", "#a21caf"),
    "completed": ("#dcfce7", "#15803d"),
    "exhausted": ("#fee2e2", "#b91c1c"),
    "aborted": ("#f3f4f6", "#6b7280"),
}


class DiagramError(RuntimeError):
    """A picture cannot be made; says what to install."""


class Paint:
    """What to show in colour: edges a turn took, or edges that a comparison added and removed."""

    def __init__(
        self,
        taken: Collection[tuple[str, str, str]] = (),
        added: Collection[Edge] = (),
        removed: Collection[Edge] = (),
    ) -> None:
        self.taken = frozenset(taken)
        self.added = frozenset(added)
        self.removed = tuple(removed)

    def colour(self, edge: Edge) -> str | None:
        """Colour of an edge, or ``None`` for the usual one."""
        if edge in self.removed:
            return "#b91c1c"
        if edge in self.added:
            return "#15803d"
        if (edge.source, edge.trigger, edge.dest) in self.taken:
            return "#1d4ed8"
        return None


_PLAIN = Paint()


def _look(node: Node) -> tuple[str, str]:
    return _COLOURS[node.outcome or node.role]


def _label(edge: Edge, line: str) -> str:
    parts = [edge.trigger]
    if edge.guards:
        parts.append(f"[{' and '.join(edge.guards)}]")
    if edge.note:
        parts.append(f"({edge.note})")
    return line.join(parts)


def mermaid(view: View, paint: Paint = _PLAIN) -> str:
    """A Mermaid state diagram; states keep their names, roles are classes."""
    out = ["---", f"title: {view.title}", "---", "stateDiagram-v2"]
    roles: dict[str, list[str]] = {}
    for node in view.nodes:
        roles.setdefault(node.outcome or node.role, []).append(node.name)
        if node.initial:
            out.append(f"    [*] --> {node.name}")
    for edge in (*view.edges, *paint.removed):
        mark = {"#b91c1c": "removed: ", "#15803d": "added: ", "#1d4ed8": "taken: "}
        prefix = mark.get(paint.colour(edge) or "", "")
        out.append(f"    {edge.source} --> {edge.dest}: {prefix}{_label(edge, ' ')}")
    out += [f"    {node.name} --> [*]" for node in view.nodes if node.outcome is not None]
    out += [f"    %% {trigger}: from every live state to {to}" for trigger, to in view.always]
    for role, names in roles.items():
        fill, border = _COLOURS[role]
        out.append(f"    classDef {role} fill:{fill},stroke:{border},color:#111827")
        out.append(f"    class {','.join(names)} {role}")
    return "\n".join(out) + "\n"


def dot(view: View, paint: Paint = _PLAIN) -> str:
    """The same as Graphviz source."""
    out = [*_head(view.title), '  start [shape=circle, width=0.18, label="", fillcolor="#111827"];']
    for node in view.nodes:
        fill, border = _look(node)
        shape = "peripheries=2, " if node.outcome is not None else ""
        role = node.outcome if node.outcome not in (None, node.name) else node.role
        small = f'<BR/><FONT POINT-SIZE="9" COLOR="#374151">{escape(role or "")}</FONT>'
        out.append(
            f'  "{node.name}" [{shape}fillcolor="{fill}", color="{border}", '
            f"label=<{escape(node.name)}{small}>];"
        )
        if node.initial:
            out.append(f'  start -> "{node.name}";')
    for edge in (*view.edges, *paint.removed):
        out.append(_dot_edge(edge, paint))
    if view.always:
        said = "<BR/>".join(f"{escape(t)} → {escape(to)}" for t, to in view.always)
        out.append(
            '  always [shape=note, fillcolor="#ffffff", color="#9ca3af", fontsize=10, '
            f"label=<from every live state:<BR/>{said}>];"
        )
    return "\n".join([*out, "}"]) + "\n"


def _dot_edge(edge: Edge, paint: Paint) -> str:
    colour = paint.colour(edge)
    label = "<BR/>".join(escape(part) for part in _label(edge, "\n").split("\n"))
    if edge.guards:
        label = f"{edge.order}. {label}"
    style = f', color="{colour}", fontcolor="{colour}", penwidth=2' if colour else ""
    if edge in paint.removed:
        style += ', style="dashed"'
    return f'  "{edge.source}" -> "{edge.dest}" [label=< {label} >{style}];'


def _head(title: str) -> list[str]:
    return [
        f'digraph "{title}" {{',
        f'  graph [label="{title}", labelloc=t, fontname="Arial", fontsize=16, rankdir=TB, '
        "nodesep=0.6, ranksep=0.7, pad=0.3];",
        '  node [shape=box, style="rounded,filled", fontname="Arial", fontsize=12, '
        'margin="0.2,0.1"];',
        '  edge [fontname="Arial", fontsize=10, color="#374151", fontcolor="#111827"];',
    ]


def ladder_dot(ladder: Ladder) -> str:
    """Failure kinds and the rules that answer them, in order, as Graphviz source."""
    out = _head(f"{ladder.title}: what answers what")
    out[1] = out[1].replace("rankdir=TB", "rankdir=LR")
    for number, (kind, rungs) in enumerate(_same_rungs(ladder)):
        rows = "".join(
            f'<TR><TD ALIGN="LEFT">{place}.</TD>'
            f'<TD ALIGN="LEFT"><B>{escape(r.rule or "–")}</B></TD>'
            f'<TD ALIGN="LEFT">{escape(r.when)}</TD><TD ALIGN="LEFT">{escape(r.does)}</TD>'
            f'<TD ALIGN="LEFT">{escape(r.bound)}</TD></TR>'
            for place, r in enumerate(rungs, 1)
        )
        table = f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="4">{rows}</TABLE>'
        kinds = "<BR/>".join(map(escape, kind))
        out.append(f'  k{number} [fillcolor="#fee2e2", color="#b91c1c", label=<{kinds}>];')
        out.append(f'  r{number} [fillcolor="#f9fafb", color="#4b5563", label=<{table}>];')
        out.append(f"  k{number} -> r{number};")
    return "\n".join([*out, "}"]) + "\n"


def _same_rungs(ladder: Ladder) -> list[tuple[tuple[str, ...], tuple[Rung, ...]]]:
    """Kinds with the same rules are drawn together."""
    groups: dict[tuple[Rung, ...], list[str]] = {}
    for kind, rungs in ladder.rows:
        groups.setdefault(rungs, []).append(kind)
    return [(tuple(kinds), rungs) for rungs, kinds in groups.items()]


def text(view: View, paint: Paint = _PLAIN) -> str:
    """The diagram for a terminal: each state with what leads out of it."""
    out = [view.title, ""]
    for node in view.nodes:
        tags = [node.outcome or node.role, *(["start"] if node.initial else [])]
        out.append(f"{'◎' if node.outcome else '○'} {node.name}  ({', '.join(tags)})")
        rows = [e for e in (*view.edges, *paint.removed) if e.source == node.name]
        for edge in rows:
            mark = {"#b91c1c": "- ", "#15803d": "+ ", "#1d4ed8": "● "}
            sign = mark.get(paint.colour(edge) or "", "")
            dest = "stays" if edge.dest == edge.source else f"→ {edge.dest}"
            out.append(f"    {sign}{_label(edge, ' '):<44} {dest}")
        if node.outcome is None and view.always:
            out += [f"    {trigger:<44} → {to}" for trigger, to in view.always]
        out.append("")
    return "\n".join(out)


def ladder_text(ladder: Ladder) -> str:
    """The ladder for a terminal."""
    out = [f"{ladder.title}: what answers what", ""]
    for kinds, rungs in _same_rungs(ladder):
        out.append(", ".join(kinds))
        for place, rung in enumerate(rungs, 1):
            facts = [part for part in (rung.when, rung.bound) if part]
            said = f"{rung.rule or '–'}: {rung.does}"
            out.append(f"    {place}. {said}" + (f"  ({'; '.join(facts)})" if facts else ""))
        out.append("")
    return "\n".join(out)


def render(source: str, kind: str) -> bytes:
    """Graphviz source as ``svg`` or ``png``. Raises ``DiagramError`` without graphviz-pure."""
    beside = Path(sys.executable).with_name("graphviz-pure")
    program = str(beside) if beside.exists() else shutil.which("graphviz-pure")
    if program is None:
        raise DiagramError("pictures need graphviz-pure: pip install 'midthought[diagram]'")
    command: Sequence[str] = [program, f"-T{kind}"]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
    if done.returncode:
        raise DiagramError(f"graphviz-pure failed: {done.stderr.decode(errors='replace')[:300]}")
    return done.stdout


def painted(transitions: Sequence[Mapping[str, str]]) -> Paint:
    """Paint for the changes of state of one recorded turn."""
    return Paint(taken={(t["source"], t["trigger"], t["state"]) for t in transitions})
