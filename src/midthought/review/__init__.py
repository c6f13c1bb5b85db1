"""Policies you can trust: what a policy does, shown, compared and tried before it ships."""

from ._diagram import DiagramError, Paint, dot, ladder_dot, ladder_text, mermaid, painted, render
from ._diagram import text as diagram_text
from ._diff import Change, Difference, compare
from ._explain import policy_of, tell
from ._explain_page import tell_html
from ._faults import FaultError, Faults, load_faults, shipped_faults
from ._finding import KINDS, Finding, Kind
from ._new import new_policy
from ._prove import Proof, is_unreadable, prove, prove_source
from ._replay import Decision, Replay, replay
from ._report import as_row, as_sarif, as_text
from ._report import summary as proof_summary
from ._run_file import Run, RunFileError, Turn, read_run, transitions_of
from ._simulate import Figures, Outcome, Report, play_turn, simulate
from ._view import Edge, Ladder, Node, Rung, View, ladder_of, view_of
from ._walk import Walk, walk
from ._world import Ending, Script, World
from ._worst import WorstCase, worst_case

__all__ = [
    "Change",
    "Decision",
    "DiagramError",
    "Difference",
    "Edge",
    "Ending",
    "FaultError",
    "Faults",
    "Figures",
    "Finding",
    "KINDS",
    "Kind",
    "Ladder",
    "Node",
    "Outcome",
    "Paint",
    "Proof",
    "Replay",
    "Report",
    "Run",
    "RunFileError",
    "Rung",
    "Script",
    "Turn",
    "View",
    "Walk",
    "World",
    "WorstCase",
    "as_row",
    "as_sarif",
    "as_text",
    "compare",
    "diagram_text",
    "dot",
    "is_unreadable",
    "ladder_dot",
    "ladder_of",
    "ladder_text",
    "load_faults",
    "mermaid",
    "new_policy",
    "painted",
    "play_turn",
    "policy_of",
    "proof_summary",
    "prove",
    "prove_source",
    "read_run",
    "render",
    "replay",
    "shipped_faults",
    "simulate",
    "tell",
    "tell_html",
    "transitions_of",
    "view_of",
    "walk",
    "worst_case",
]
