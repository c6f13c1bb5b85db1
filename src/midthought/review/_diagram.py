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
#: Colour of what is painted; each has a word and a sign too.
_REMOVED, _ADDED, _TAKEN = "#b91c1c", "#15803d", "#1d4ed8"
_WORDS: dict[str | None, str] = {_REMOVED: "removed: ", _ADDED: "added: ", _TAKEN: "taken: "}
_SIGNS: dict[str | None, str] = {_REMOVED: "- ", _ADDED: "+ ", _TAKEN: "● "}


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
            return _REMOVED
        if edge in self.added:
            return _ADDED
        if (edge.source, edge.trigger, edge.dest) in self.taken:
            return _TAKEN
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
        prefix = _WORDS.get(paint.colour(edge), "")
        out.append(f"    {edge.source} --> {edge.dest}: {prefix}{_label(edge, ' ')}")
    out += [f"    {node.name} --> [*]" for node in view.nodes if node.outcome is not None]
    out += [f"    %% {trigger}: from every live state to {to}" for trigger, to in view.always]
    for role, names in roles.items():
        fill, border = _COLOURS[role]
        out.append(f"    classDef {role} fill:{fill},stroke:{border},color:#111827")
        out.append(f"    class {','.join(names)} {role}")
    return "\n".join(out) + "\n"


def dot(view: View, paint: Paint = _PLAIN) -> str:
    """The same as Graphviz source; rows with the same ends share an arrow."""
    out = [*_head(view.title), '  start [shape=circle, width=0.18, label="", fillcolor="#111827"];']
    out += [line for node in view.nodes for line in _dot_node(node)]
    arrows: dict[tuple[str, str, str | None, bool], list[Edge]] = {}
    for edge in (*view.edges, *paint.removed):
        gone = edge in paint.removed
        arrows.setdefault((edge.source, edge.dest, paint.colour(edge), gone), []).append(edge)
    for (source, dest, colour, gone), edges in arrows.items():
        label = "<BR/>".join(map(_dot_label, edges))
        style = f', color="{colour}", fontcolor="{colour}", penwidth=2' if colour else ""
        style += ', style="dashed"' if gone else ""
        out.append(f'  "{source}" -> "{dest}" [label=<{label}>{style}];')
    finals = "; ".join(f'"{node.name}"' for node in view.nodes if node.outcome is not None)
    out.append(f"  {{rank=same; {finals}}}")
    out += _dot_notes(view, paint)
    return "\n".join([*out, "}"]) + "\n"


def _dot_node(node: Node) -> list[str]:
    fill, border = _look(node)
    shape = "peripheries=2, " if node.outcome is not None else ""
    role = node.outcome if node.outcome not in (None, node.name) else node.role
    small = f'<BR/><FONT POINT-SIZE="10" COLOR="#374151">{escape(role or "")}</FONT>'
    lines = [
        f'  "{node.name}" [{shape}fillcolor="{fill}", color="{border}", '
        f"label=<{escape(node.name)}{small}>];"
    ]
    if node.initial:
        lines.append(f'  start -> "{node.name}";')
    return lines


def _dot_label(edge: Edge) -> str:
    """Lines of a row's label, with room at both sides so that no line touches it."""
    lines = _label(edge, "\n").split("\n")
    if edge.guards:
        lines[0] = f"{edge.order}. {lines[0]}"
    return "<BR/>".join(f"&#160;&#160;{escape(line)}&#160;&#160;" for line in lines)


def _dot_notes(view: View, paint: Paint) -> list[str]:
    """What is true of every state, and what the colours of a painted picture mean."""
    out: list[str] = []
    note = 'shape=note, fillcolor="#ffffff", color="#9ca3af", fontsize=10'
    if view.always:
        said = "<BR/>".join(f"{escape(t)} → {escape(to)}" for t, to in view.always)
        out.append(f"  always [{note}, label=<from every live state:<BR/>{said}>];")
        out.append(f'  always -> "{view.always[0][1]}" [style=dashed, color="#9ca3af"];')
    used = [
        f'<FONT COLOR="{colour}"><B>{word}</B></FONT>'
        for word, colour, there in (
            ("taken", _TAKEN, paint.taken),
            ("added", _ADDED, paint.added),
            ("removed", _REMOVED, paint.removed),
        )
        if there
    ]
    if used:
        out.append(f"  legend [{note}, label=<{'<BR/>'.join(used)}>];")
    return out


def _head(title: str) -> list[str]:
    return [
        f'digraph "{title}" {{',
        f'  graph [label="{title}", labelloc=t, fontname="Arial", fontsize=16, rankdir=TB, '
        "nodesep=0.5, ranksep=0.8, pad=0.3];",
        '  node [shape=box, style="rounded,filled", fontname="Arial", fontsize=12, '
        'margin="0.2,0.1"];',
        '  edge [fontname="Arial", fontsize=10, color="#374151", fontcolor="#111827"];',
    ]


def ladder_dot(ladder: Ladder) -> str:
    """Failure kinds and the rules that answer them, in the order of the rules, as Graphviz
    source: one table, because a layout would put the kinds in an order of its own."""
    cell = 'ALIGN="LEFT" BALIGN="LEFT" CELLPADDING="5"'
    heads = ("failure", " ", "rule", "where", "does", "how often")
    rows = ["".join(f"<TD {cell}><B>{head}</B></TD>" for head in heads)]
    for kinds, rungs in _same_rungs(ladder):
        span = f'{cell} ROWSPAN="{len(rungs)}" BGCOLOR="#fee2e2"'
        first = f"<TD {span}>{'<BR/>'.join(map(escape, kinds))}</TD>"
        for place, rung in enumerate(rungs, 1):
            name = f"<B>{escape(rung.rule)}</B>" if rung.rule else "–"
            facts = (f"{place}.", name, *map(escape, (rung.when, rung.does, rung.bound)))
            rows.append(first + "".join(f"<TD {cell}>{fact or ' '}</TD>" for fact in facts))
            first = ""
    table = "".join(f"<TR>{row}</TR>" for row in rows)
    border = 'BORDER="0" CELLBORDER="1" CELLSPACING="0" COLOR="#9ca3af"'
    label = f"<<TABLE {border}>{table}</TABLE>>"
    head = _head(f"{ladder.title}: what answers what")
    return "\n".join([*head, f"  ladder [shape=plain, style=solid, label={label}];", "}"]) + "\n"


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
            sign = _SIGNS.get(paint.colour(edge), "")
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
