"""Where a background response can be taken up again: the checkpoints that its stream gives.

Only a stored response that runs in the background goes on without its connection (provider facts,
section 2.3), and only its first stream says which response it is. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from midthought.statemachine import Checkpoint, Event

__all__ = ["Checkpoints"]

#: A checkpoint inside a text comes after so many characters: a resume sends no more than these
#: again.
EVERY_CHARS: Final = 1000


class Checkpoints:
    """Appends ``Checkpoint`` events whose handle is ``{id, sequence_number, poll}``.

    ``sequence_number`` is that of the last event before the checkpoint. ``poll``: nothing but
    reasoning is finished there, so that the whole reply, asked for again, repeats open text only.
    """

    __slots__ = ("_attempt", "_chars", "_id", "_last", "_solid", "active")

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._id = ""
        self._solid = False
        self._chars = 0
        self._last = -1
        #: A resumed stream does not say that its response was created: it has been resumed once.
        self.active = attempt > 0
        """The response can be resumed."""

    def begin(self, response: Mapping[str, Any], number: Any, out: list[Event]) -> None:
        """The response was created by the event with this number."""
        response_id = response.get("id")
        stored = response.get("background") is True and response.get("store") is not False
        self.active = stored and isinstance(response_id, str) and bool(response_id)
        if self.active:
            self._id, self._solid, self._last = str(response_id), False, -1
            self._set(number, out)

    def item(self, number: Any, out: list[Event]) -> None:
        """An output item begins with the event of this number."""
        if self.active and isinstance(number, int):
            self._set(number - 1, out)

    def text(self, chars: int, number: Any, out: list[Event]) -> None:
        """The event with this number brought so many characters of a text."""
        self._chars += chars
        if self._chars >= EVERY_CHARS:
            self._set(number, out)

    def passed(self) -> None:
        """Something that is no reasoning is finished."""
        self._solid = True

    def done(self, number: Any, out: list[Event]) -> None:
        """An output item, or a citation, ended with the event of this number."""
        if self.active:
            self._set(number, out)

    def _set(self, number: Any, out: list[Event]) -> None:
        if isinstance(number, int) and number > self._last:
            self._chars, self._last = 0, number
            handle: dict[str, Any] = {"sequence_number": number, "poll": not self._solid}
            if self._id:
                handle["id"] = self._id
            out.append(Checkpoint(self._attempt, handle))
