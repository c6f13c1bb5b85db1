"""What of a recorded reply had arrived when it was cut, and what of that is worth keeping.

Imports nothing of the project.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from reply_parts import Flat, Reply, State, decoded, flat_of

__all__ = ["Arrived", "is_prefix", "is_whole", "without_lonely"]


@dataclass(frozen=True)
class Arrived:
    """What had arrived. An event whose blank line is missing may count or not."""

    least: list[State]
    most: list[State]
    frames: int
    """Whole events."""
    stopped: bool
    """The stop fact was there for certain."""
    may_have_stopped: bool

    @classmethod
    def of(cls, reply: Reply, at: int) -> Arrived:
        """At a cut after ``at`` bytes."""
        sure, most = reply.arrived(at)
        stop = len(reply.frames) if reply.stop_frame is None else reply.stop_frame
        return cls(reply.before(sure), reply.before(most), sure, sure > stop, most > stop)

    def unstopped(self) -> Arrived:
        """The same, ended by an error event: that wins over a stop fact before it."""
        return dataclasses.replace(self, stopped=False, may_have_stopped=False)

    @property
    def closed_calls(self) -> list[State]:
        """Calls that may certainly be run."""
        return [s for s in self.least if s.part.kind == "tool_use" and s.closed and is_whole(s)]

    @property
    def whole_calls(self) -> list[State]:
        """Calls that may be run, though perhaps nothing closed them."""
        return [s for s in self.most if s.part.kind == "tool_use" and is_whole(s)]

    @property
    def refusing(self) -> bool:
        """It was cut inside a refusal."""
        return _refuses(self.least)

    @property
    def may_refuse(self) -> bool:
        """Perhaps it was."""
        return _refuses(self.most)

    @property
    def text(self) -> str:
        """Visible text that had certainly arrived."""
        return "".join(s.text for s in self.least if s.part.kind in ("text", "refusal"))

    @property
    def paired_tools(self) -> bool:
        """A tool of the provider's own had run, with its result."""
        return bool(without_lonely([s for s in self.least if s.part.kind == "server_tool"]))

    def up_to_calls(self) -> list[Flat]:
        """What may stand after a cut behind whole calls: all up to the last of them.

        Not one answer: an object that is whole, but closed by nothing, may count.
        """
        found = []
        for states in (self.least, self.most):
            for whole in (is_whole, lambda s: s.closed and is_whole(s)):
                kept = [s for s in states if s.part.kind != "tool_use" or whole(s)]
                last = max((i for i, s in enumerate(kept) if s.part.kind == "tool_use"), default=-1)
                found.append(flat_of(without_lonely(kept[: last + 1])))
        return found


def is_whole(state: State) -> bool:
    """The call's input is one JSON object; or it is empty, or no JSON, and the call is closed."""
    if not state.text.strip():
        return state.closed
    return isinstance(decoded(state.text), dict) or state.closed


def without_lonely(states: list[State]) -> list[State]:
    """Without server tools that have no result, and those that were called by one of these.

    One that waits for the caller's tools has no result yet, and belongs to their calls.
    """
    tools = [s.part for s in states if s.part.kind == "server_tool" and s.closed]
    ids = [part.id for part in tools]
    callers = {p.id: p.raw["caller"].get("tool_id") for p in tools if "caller" in p.raw}
    waiting = {s.part.raw.get("caller", {}).get("tool_id") for s in states if _is_call(s)}
    paired = {one for one in ids if ids.count(one) > 1 or one in waiting}
    while gone := {one for one in paired if callers.get(one) and callers[one] not in paired}:
        paired -= gone
    return [s for s in states if s.part.kind != "server_tool" or s.part.id in paired]


def _refuses(states: list[State]) -> bool:
    return any(s.part.kind == "refusal" and s.text for s in states)


def _is_call(state: State) -> bool:
    return state.part.kind == "tool_use"


def is_prefix(seen: Flat, said: Flat) -> bool:
    """All that was seen is the beginning of what was said; the last text may be cut."""
    if len(seen) > len(said):
        return False
    if not seen:
        return True
    last, whole = seen[-1], said[len(seen) - 1]
    text = last[0] == whole[0] and last[0] in ("text", "refusal")
    cut = text and whole[1].startswith(last[1])
    return seen[:-1] == said[: len(seen) - 1] and bool(cut or last == whole)
