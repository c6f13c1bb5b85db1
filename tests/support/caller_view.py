"""What a caller sees: events taken one by one, their grammar checked, content put together.

Knows the names of the public events and nothing else of the project: each is read by its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reply_parts import HIDDEN, Flat, decoded

__all__ = ["CallerView", "GrammarError", "Seen"]


class GrammarError(AssertionError):
    """The events are no valid stream."""


@dataclass
class Seen:
    """A block as the caller has it."""

    kind: str
    id: str | None
    name: str | None
    text: dict[str, list[str]] = field(default_factory=dict)
    """Pieces by field: text, input, signature, citation, other."""
    closed: bool = False
    void: bool = False

    def joined(self, field_name: str) -> str:
        """All of one field."""
        return "".join(self.text.get(field_name, ()))


class CallerView:
    """Takes events; raises ``GrammarError`` for one that cannot stand where it does.

    ``choices``: with more than one, blocks may be open together and their indexes only differ.
    """

    def __init__(self, *, choices: int = 1) -> None:
        self._choices = choices
        self._last = -1
        self.blocks: dict[int, Seen] = {}
        self.finished: Any = None
        self.stops: list[Any] = []
        self.opened = 0
        self.retracted = 0
        self._handlers = {
            "BlockStarted": self._started,
            "BlockDelta": self._delta,
            "BlockClosed": self._closed,
            "Retracted": self._taken_back,
            "Opened": self._opened,
            "StopKnown": self.stops.append,
            "TurnFinished": self._finished,
        }

    def take(self, event: Any) -> None:
        """The next event of the stream."""
        if self.finished is not None:
            raise GrammarError(f"{type(event).__name__} after TurnFinished")
        handler = self._handlers.get(type(event).__name__)
        if handler is not None:
            handler(event)

    def _started(self, event: Any) -> None:
        if event.index in self.blocks:
            raise GrammarError(f"block {event.index} starts twice")
        if self._choices == 1 and event.index <= self._last:
            raise GrammarError(f"block {event.index} starts after block {self._last}")
        self._last = event.index
        self.blocks[event.index] = Seen(event.kind, event.id, event.name)

    def _delta(self, event: Any) -> None:
        self._open(event).text.setdefault(event.field, []).append(event.text)

    def _closed(self, event: Any) -> None:
        self._open(event).closed = True

    def _open(self, event: Any) -> Seen:
        block = self.blocks.get(event.index)
        if block is None or block.void or block.closed:
            is_ = "never started" if block is None else "is void" if block.void else "is closed"
            raise GrammarError(f"{type(event).__name__} of block {event.index}, which {is_}")
        return block

    def _taken_back(self, event: Any) -> None:
        block = self.blocks.get(event.index)
        if block is None or block.void:
            raise GrammarError(f"block {event.index} is retracted, but is not there")
        block.void = True
        self.retracted += 1

    def _opened(self, event: Any) -> None:
        self.opened += 1
        if self.opened > 1:
            raise GrammarError("a second start of the reply")

    def _finished(self, event: Any) -> None:
        self.finished = event
        still = [i for i, block in self.blocks.items() if not (block.closed or block.void)]
        if still:
            raise GrammarError(f"blocks {still} are open at the end")

    # --- what it comes to -------------------------------------------------------------------------

    @property
    def valid(self) -> list[Seen]:
        """Blocks that were not taken back, by index."""
        return [self.blocks[i] for i in sorted(self.blocks) if not self.blocks[i].void]

    @property
    def text(self) -> str:
        """All visible text."""
        return "".join(b.joined("text") for b in self.valid if b.kind == "text")

    @property
    def solid(self) -> str:
        """All visible text but that of blank blocks, which no history may hold."""
        texts = [b.joined("text") for b in self.valid if b.kind == "text"]
        return "".join(text for text in texts if text.strip())

    @property
    def calls(self) -> list[Seen]:
        """Tool calls that were shown."""
        return [block for block in self.valid if block.kind == "tool_use"]

    @property
    def flat(self) -> Flat:
        """As ``reply_parts.flat_of``."""
        flat: Flat = []
        for block in self.valid:
            if block.kind in HIDDEN:
                continue
            if block.kind in ("text", "refusal"):
                said = block.joined("text")
                if flat and flat[-1][0] == block.kind:
                    flat[-1] = (block.kind, flat[-1][1] + said)
                elif said:
                    flat.append((block.kind, said))
            else:
                flat.append((block.kind, block.id, block.name, decoded(block.joined("input"))))
        return flat
