"""What a connection plays: bytes, pauses and one end, already framed.

A script is turned into a plan once (`_compile.py`), so that the connection (`_connection.py`)
knows nothing of framings, faults or dialects. Imports nothing of ours.
"""

from dataclasses import dataclass
from typing import Literal

#: `finish`: orderly, the connection may be kept · `fin`: shut down · `rst`: reset · `stall`: hold.
EndKind = Literal["finish", "fin", "rst", "stall"]


@dataclass(frozen=True, slots=True)
class Write:
    """These bytes, exactly, in one write."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for a while; scaled by the upstream's `time_scale`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """How the reply is over; always the last one."""

    kind: EndKind


Op = Write | Pause | End


@dataclass(frozen=True, slots=True)
class Plan:
    """One attempt, ready to be played."""

    ops: tuple[Op, ...]
    #: True only if the reply ends in good order and lets the connection be used again.
    keep_alive: bool = False
    needs_reused: bool = False
    refused: bool = False
