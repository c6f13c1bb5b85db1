"""The release queue: what may not be seen yet waits in one line, first in, first out.

Released is the longest prefix that ends in visible content. The hold is per block: the queue is
looked through when a block changes, never per piece of text. Knows blocks, not seams.
"""

from __future__ import annotations

from ._blocks import Block
from ._effects import Effect, Emit
from ._events import BlockClosed, BlockDelta, BlockStarted

__all__ = ["ReleaseQueue", "size_bytes"]


def size_bytes(text: str) -> int:
    """Size in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class ReleaseQueue:
    """Events of blocks on their way to the caller."""

    def __init__(self, out: list[Effect], held_limit: int) -> None:
        self._out = out
        self._held_limit = held_limit
        self._queue: list[tuple[Block, BlockDelta | BlockClosed]] = []
        self._held_bytes = 0
        self._blocker: Block | None = None
        self.attempt = 0
        self.stopped = False
        """The stop fact is known, or commit has decided: all that is whole may be seen."""
        self.last_shown = -1
        """The highest index that the caller has seen."""
        self.overflow = False
        """More than the policy allows is held."""

    @property
    def holding(self) -> bool:
        """Something that arrived waits for its release."""
        return bool(self._queue)

    def forget(self, block: Block) -> None:
        """Nothing of this block is wanted any more."""
        gone = [e for b, e in self._queue if b is block and isinstance(e, BlockDelta)]
        self._held_bytes -= sum(size_bytes(e.text) for e in gone)
        self._queue = [item for item in self._queue if item[0] is not block]
        self._blocker = None

    def put(self, block: Block, event: BlockDelta | BlockClosed) -> bool:
        """Show the event now or as soon as it may be; True if something was queued for it."""
        if not self._queue and self._free(block):
            self._emit(block, event)
            return False
        self._queue.append((block, event))
        if isinstance(event, BlockDelta):
            self._held_bytes += size_bytes(event.text)
            self.overflow = self.overflow or self._held_bytes > self._held_limit
        blocker = self._blocker
        if blocker is None and not self._free(block):
            self._blocker = None if block.passing else block
        elif blocker is None or blocker.passing or self._free(blocker):
            self.pump()
        return True

    def _free(self, block: Block) -> bool:
        """It may be seen now; half a tool call never is, not even at the stop fact."""
        return block.ready or (self.stopped and (block.closed or block.kind != "tool_use"))

    def pump(self) -> None:
        """Release the longest prefix that ends in visible content."""
        upto, self._blocker = 0, None
        for i, (block, _) in enumerate(self._queue):
            if self._free(block):
                upto = i + 1
            elif not block.passing:
                self._blocker = block
                break
        if self._blocker is not None:
            upto = self._before_split_call(upto)
        if not upto:
            return
        released, self._queue = self._queue[:upto], self._queue[upto:]
        for block, event in released:
            if isinstance(event, BlockDelta):
                self._held_bytes -= size_bytes(event.text)
            self._emit(block, event)

    def _before_split_call(self, upto: int) -> int:
        """Less than ``upto`` where that would show one half of a call and hold the other."""
        behind = {id(block) for block, _ in self._queue[upto:] if block.kind == "tool_use"}
        places = (i for i, (block, _) in enumerate(self._queue[:upto]) if id(block) in behind)
        upto = next(places, upto)
        while upto and not self._free(self._queue[upto - 1][0]):
            upto -= 1
        return upto

    def _emit(self, block: Block, event: BlockDelta | BlockClosed) -> None:
        if not block.shown:
            block.shown = True
            # An index that the caller has seen is never used again, not even after Retract.
            self.last_shown = max(self.last_shown, block.index)
            self._out.append(
                Emit(
                    BlockStarted(
                        block.attempt,
                        block.index,
                        block.kind,
                        block.id,
                        block.name,
                        block.data,
                        block.parent,
                    )
                )
            )
        if block.solid:
            block.shown_by = self.attempt
        self._out.append(Emit(event))
