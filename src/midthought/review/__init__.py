"""Policies you can trust: what a policy does, shown, compared and tried before it ships."""

from ._faults import FaultError, Faults, load_faults, shipped_faults
from ._finding import KINDS, Finding, Kind
from ._new import new_policy
from ._prove import Proof, is_unreadable, prove, prove_source
from ._report import as_row, as_sarif, as_text
from ._report import summary as proof_summary
from ._simulate import Figures, Outcome, Report, play_turn, simulate
from ._walk import Walk, walk
from ._world import Ending, Script, World
from ._worst import WorstCase, worst_case

__all__ = [
    "Ending",
    "FaultError",
    "Faults",
    "Figures",
    "Finding",
    "KINDS",
    "Kind",
    "Outcome",
    "Proof",
    "Report",
    "Script",
    "Walk",
    "World",
    "WorstCase",
    "as_row",
    "as_sarif",
    "as_text",
    "is_unreadable",
    "load_faults",
    "new_policy",
    "play_turn",
    "proof_summary",
    "prove",
    "prove_source",
    "shipped_faults",
    "simulate",
    "walk",
    "worst_case",
]
