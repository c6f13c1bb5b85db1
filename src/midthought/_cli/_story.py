"""A turn told to a person: its text, and a line for each change of state with the facts behind it.

What a state means is its role, so that a policy may name its states as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from midthought import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    PreparedCall,
    Reply,
    Retracted,
    StateChanged,
    TurnFinished,
)
from midthought.statemachine import Attempt, Event

from ._terminal import printable
from ._text import TextOut

__all__ = ["Story"]

_STYLES = {
    "assess": "bold red",
    "commit": "bold yellow",
    "wait": "yellow",
    "resume": "cyan",
    "stream": "bold green",
    "completed": "bold green",
    "exhausted": "bold red",
    "aborted": "bold red",
}
_LONGEST = 100


class Story:
    """Tells a turn; ``says`` tells what upstream did to an attempt, where somebody knows."""

    def __init__(
        self, text: TextOut, notes: Console, says: Callable[[int], str | None] | None = None
    ) -> None:
        self._text = text
        self._notes = notes
        self._says = says
        self._roles: dict[str, str] = {}
        self._kinds: dict[int, str] = {}
        self._calls: dict[int, str] = {}
        self._dropped: list[str] = []
        self._seam: str | None = None
        self._shows_text = True

    def begin(self, call: PreparedCall, base_url: str) -> None:
        """The turn is about to start."""
        policy = call.policy
        self._roles = {state.name: state.role for state in policy.machine.states}
        # Text that the policy may take back is shown when it can no longer be.
        self._shows_text = not policy.turn.retract and policy.blocks.text.open == "keep"
        if not self._shows_text:
            self._note("held", "", "this policy may take text back: it is shown when it is final")

    def record(self, name: str, fields: Mapping[str, Any]) -> None:
        """Keep what the events do not say."""
        if name == "discarded_partial_tool_use":
            size = fields["partial_input_bytes"]
            self._dropped.append(f"half a call of {fields['tool_name']!r} ({size} bytes)")
        elif name == "discarded_partial_thinking":
            self._dropped.append(f"unusable thinking ({fields['thinking_chars']} characters)")
        elif name == "llm_seam_joined":
            self._seam = _joined(fields)

    def event(self, event: Event, reply: Reply) -> None:
        """One event."""
        match event:
            case BlockStarted(index=index, kind=kind):
                self._kinds[index] = kind
                if kind == "tool_use":
                    self._calls[index] = ""
            case BlockDelta():
                self._delta(event)
            case BlockClosed(index=index) if index in self._calls:
                self._call(index, reply)
            case Retracted(index=index):
                self._note("retracted", "bold red", f"what was shown of block {index} is void")
            case StateChanged():
                self._state(event, reply)
            case TurnFinished():
                self._finished(event, reply)

    def end(self, reply: Reply) -> None:
        """The turn is over."""
        if not self._shows_text:
            self._text.write(reply.text, len(reply.attempts) - 1)
        self._text.end()

    def _delta(self, event: BlockDelta) -> None:
        if event.index in self._calls:
            self._calls[event.index] += event.text
        elif event.field == "text" and self._kinds.get(event.index) in ("text", "refusal"):
            if self._shows_text:
                self._joint()
                self._text.write(event.text, event.attempt)

    def _call(self, index: int, reply: Reply) -> None:
        names = {block.index: block.name for block in reply.blocks}
        self._joint()
        self._note("tool call", "bold", f"{names.get(index) or '?'} {self._calls.pop(index)}")

    def _joint(self) -> None:
        if self._seam is not None:
            self._note("joined", "dim", self._seam)
            self._seam = None

    def _state(self, event: StateChanged, reply: Reply) -> None:
        role = self._roles.get(event.state, "")
        if role == "final":
            return  # told by the event that ends the turn, with its reason
        attempt = next((a for a in reply.attempts if a.number == event.attempt), None)
        if role == "assess" and self._says is not None:
            said = self._says(event.attempt)
            if said is not None:
                self._note("upstream", "dim", said)
        facts = _FACTS[role](event.detail, attempt) if role in _FACTS and attempt else ""
        self._note(event.state, _STYLES.get(role, ""), facts)
        if role == "commit":
            for what in self._dropped:
                self._note("dropped", "bold red", what)
            self._dropped.clear()

    def _finished(self, event: TurnFinished, reply: Reply) -> None:
        count = len(reply.attempts)
        requests = f"{count} request{'s' if count > 1 else ''}"
        if event.outcome == "completed":
            facts = f"stop {event.stop.value!r}, {requests}"
            facts += ", incomplete" if event.incomplete else ""
        else:
            facts = f"{event.reason}, {requests}"
        self._note(reply.state, _STYLES[event.outcome], facts)

    def _note(self, what: str, style: str, facts: str) -> None:
        self._text.pause()
        facts = printable(" ".join(facts.split()))
        longest = max(40, self._notes.width - 18) if self._notes.is_terminal else _LONGEST
        if len(facts) > longest:
            facts = f"{facts[:longest]}..."
        line = Text.assemble("  ", (f"{what:<12}" if facts else what, style), facts)
        self._notes.print(line)


def _joined(fields: Mapping[str, Any]) -> str | None:
    """Nothing to tell about a join that dropped no more than white space."""
    if fields["mismatch"]:
        return "the answer does not fit: appended as it is, recorded as uncertain"
    if fields["quality"] == "proved":
        return f"proved: {fields['dropped_chars']} repeated characters match and are not shown"
    return None


def _failed(detail: Mapping[str, Any], attempt: Attempt) -> str:
    if attempt.failure is None:
        return f"the model stopped: {attempt.stop.value if attempt.stop else '?'}"
    return f"{attempt.failure.kind.value}: {attempt.failure.message}"


def _kept(detail: Mapping[str, Any], attempt: Attempt) -> str:
    if not attempt.received_chars:
        return "nothing arrived in this attempt"
    return f"keeps {attempt.kept_chars} of {attempt.received_chars} characters of this attempt"


def _waits(detail: Mapping[str, Any], attempt: Attempt) -> str:
    left = detail.get("uses_left")
    more = "" if left is None else f", {left} more allowed"
    return f"{detail['delay_s']:.2g} s, by rule {detail['rule']!r}{more}"


def _resumes(detail: Mapping[str, Any], attempt: Attempt) -> str:
    number = attempt.number + 2  # people count requests from 1, and this is the next one
    if detail.get("how") == "continue":
        return f"request {number} carries what is kept ({detail['strategy']})"
    return f"request {number} is the same once more"


_FACTS: Mapping[str, Callable[[Mapping[str, Any], Attempt], str]] = {
    "assess": _failed,
    "commit": _kept,
    "wait": _waits,
    "resume": _resumes,
}
