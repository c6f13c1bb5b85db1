"""Policies you can trust: what a policy does, shown, compared and tried before it ships."""

from ._faults import FaultError, Faults, load_faults, shipped_faults
from ._simulate import Figures, Outcome, Report, play_turn, simulate
from ._world import Ending, Script, World

__all__ = [
    "Ending",
    "FaultError",
    "Faults",
    "Figures",
    "Outcome",
    "Report",
    "Script",
    "World",
    "load_faults",
    "play_turn",
    "shipped_faults",
    "simulate",
]
