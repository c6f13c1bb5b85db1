"""The timeline: every block of the turn, and when the caller may see which of it.

Takes upstream's block events, keeps the blocks, joins text at a seam, and appends ``Emit`` effects
in the caller's numbering. What may not be seen yet waits in one queue, first in, first out:
released is the longest prefix that ends in visible content. Does not know rules, states or time.
"""

from __future__ import annotations

from collections.abc import Mapping

from midthought.policies import Policy, Release

from ._blocks import Block
from ._commit import Commit, commit, is_whole_call
from ._effects import Effect, Emit, Retract
from ._events import BlockClosed, BlockDelta, BlockKind, BlockStarted
from ._release import ReleaseQueue, size_bytes
from ._seam import Joint, Seam, split_word

__all__ = ["Timeline"]

_TEXT = ("text", "refusal")


_NO_INDEX = -1
_NOTHING: Mapping[int, int] = {}
_SETTLED = -2
_NO_BLOCK = Block(index=-1, kind="text", attempt=-1)


class Timeline:
    """Blocks of one turn, over all its attempts."""

    def __init__(self, policy: Policy, out: list[Effect], *, word: bool, hold_first: int) -> None:
        self._rules = policy.blocks
        self._limits = policy.limits
        self._out = out
        self._word = word
        self._word_max = policy.seam.instruct.word_max_chars
        self._hold_first = hold_first
        self._release = ReleaseQueue(out, policy.limits.held_bytes)
        self._by_index: dict[int, Block] = {}
        self._seam: Seam | None = None
        self._seam_block: Block | None = None
        self._join: Block | None = None
        self._joined: Block | None = None
        self._lost_before = 0
        self.attempt = 0
        self.origin = ""
        self.blocks: list[Block] = []
        self.first_of_attempt = 0
        """How many blocks earlier attempts left behind."""
        self.joined_at = 0
        """Characters that the open block had when this attempt began."""
        self.hot_index = _NO_INDEX
        """Upstream index of the block whose text passes straight on; -1 if there is none."""
        self.hot_block = _NO_BLOCK
        self._ran_away = False

    # --- an attempt begins and ends ---------------------------------------------------------

    def begin(self, attempt: int, seam: Seam | None, origin: str) -> None:
        """Events of this attempt follow; text goes on in the open block through ``seam``."""
        self.attempt = self._release.attempt = attempt
        self.origin = origin
        self._by_index = {}
        self._seam, self._seam_block = seam, None
        self._release.stopped = False
        self._ran_away = self._release.overflow = False
        last = self.blocks[-1] if self.blocks else None
        # A cited block is never continued in place: citations count characters of their block.
        opened = last is not None and last.kind == "text" and not last.closed and not last.citations
        self._join = self._joined = last if opened else None
        self.first_of_attempt = len(self.blocks)
        self.joined_at = len(self._join.text) if self._join is not None else 0
        self._lost_before = len(self._join.lost) if self._join is not None else 0
        self._cool()

    def restart(self) -> bool:
        """The attempt began anew upstream: forget its blocks.

        False if some of it was shown, or went into the text of an earlier attempt.
        """
        mine = self.blocks[self.first_of_attempt :]
        joined = self._joined
        grown = joined is not None and len(joined.text) > self.joined_at
        if grown or self.visible_by(self.attempt) or any(b.shown for b in mine):
            return False
        for block in self.blocks:
            block.pending = ""
        self._remove(mine)
        return True

    @property
    def joint(self) -> Joint | None:
        """How the seam of this attempt came out, once it is known."""
        return self._seam.joint if self._seam is not None else None

    def visible_by(self, attempt: int) -> bool:
        """Something of this attempt was shown."""
        return any(b.shown_by == attempt for b in self.blocks)

    # --- upstream's events --------------------------------------------------------------------

    def started(self, event: BlockStarted) -> None:
        """A block begins; the last tool call before it is thereby decided."""
        self._decide_calls()
        if event.index in self._by_index:
            return  # a repeated start is no new block
        kind = event.kind
        if self._join is not None and kind == "text":
            block, self._join = self._join, None
            self._by_index[event.index] = self._seam_block = block
            block.follows = self.blocks[-1].index
            return
        if kind not in ("text", "thinking", "redacted_thinking"):
            self.settle_seam()
            self._close_join()
        block = Block(
            index=max([self._release.last_shown, *(b.index for b in self.blocks)]) + 1,
            kind=kind,
            attempt=self.attempt,
            id=event.id,
            name=event.name,
            data=event.data,
            parent=event.parent,
            free_input=event.free_input,
            origin=self.origin,
            mode=self._mode(kind),
        )
        block.passing = block.mode == "with_next"
        self.blocks.append(block)
        self._by_index[event.index] = block
        if kind == "text" and self._seam is not None and self._seam_block is None:
            self._seam_block = block

    def _mode(self, kind: BlockKind) -> Release:
        release: Release = getattr(self._rules, kind).release
        return "word" if kind == "text" and self._word and release == "live" else release

    def delta(self, event: BlockDelta) -> None:
        """More of a block; a block that never started is taken as text."""
        block = self._by_index.get(event.index)
        if block is None:
            self.started(BlockStarted(event.attempt, event.index, "text"))
            block = self._by_index[event.index]
        if block.closed:
            return  # nothing may follow the close of a block
        text = event.text
        block.size += size_bytes(text)
        if self._limits.block_bytes and block.size > self._limits.block_bytes:
            self._ran_away = True
        if event.field == "text" and block.kind in _TEXT:
            self._text(block, event, text)
            return
        match event.field:
            case "signature":
                block.signature = (block.signature or "") + text
            case "citation":
                block.citations.append(text)
            case "other":
                block.extra.append(text)
            case _:
                block.parts.append(text)
                if not block.solid and text.strip():
                    block.solid = True
                    block.ready = block.ready or block.mode in ("live", "word")
        self._put(block, self._view(block, event))

    def _view(self, block: Block, event: BlockDelta) -> BlockDelta:
        if block.index == event.index:
            return event
        return BlockDelta(event.attempt, block.index, event.text, event.field)

    def _text(self, block: Block, event: BlockDelta, text: str) -> None:
        if block is self._seam_block and self._seam is not None:
            text = self._seam.feed(text)
            if not text:
                return
        self._show(block, text, event)
        if (
            block.shown_by == self.attempt
            and not self._release.holding
            and not self._limits.block_bytes
            and (block is not self._seam_block or self.joint is not None)
        ):
            self.hot_index, self.hot_block = event.index, block

    def hot(self, event: BlockDelta) -> None:
        """Text of the hot block: nothing is held before it, so it is shown up to its last word."""
        block, text = self.hot_block, event.text
        if block.mode == "word":
            pending = block.pending
            text, rest = split_word(pending + text if pending else text, self._word_max)
            block.pending = rest
            if not text:
                return
            event = BlockDelta(self.attempt, block.index, text)
        elif block.index != event.index:
            event = BlockDelta(self.attempt, block.index, text)
        block.parts.append(text)
        self._out.append(Emit(event))

    def _show(self, block: Block, text: str, event: BlockDelta | None = None) -> None:
        """Text that passed the seam: hold its blank start, its first characters, its last word."""
        if block.pending:
            text = block.pending + text
            block.pending, event = "", None
        if not block.solid:
            whole = split_word(text, self._word_max)[0] if block.mode == "word" else text
            if not whole.strip() or len(text) < self._first_chars(block):
                block.pending = text
                return
            block.solid = True
            block.ready = block.mode in ("live", "word")
        if block.mode == "word":
            text, block.pending = split_word(text, self._word_max)
            if not text:
                return
            event = event if not block.pending else None
        block.parts.append(text)
        if event is not None and event.text == text and event.index == block.index:
            self._put(block, event)
        else:
            self._put(block, BlockDelta(self.attempt, block.index, text))

    def _first_chars(self, block: Block) -> int:
        """The first characters of a reply wait: too short to tell a restart from a new start."""
        return 0 if any(b.solid and b.kind in _TEXT for b in self.blocks) else self._hold_first

    def closed(self, event: BlockClosed) -> None:
        """The block is whole."""
        block = self._by_index.get(event.index)
        if block is None or block.closed:
            return
        if event.data is not None:
            block.data = event.data
        if block is self._seam_block and self._seam is not None and self.joint is None:
            self._carry_on(block, event.index)
        else:
            self._close(block)

    def _carry_on(self, block: Block, index: int) -> None:
        """A text closed while the seam still holds it: an attempt's texts are one text for it."""
        del self._by_index[index]
        self._seam_block = None
        if block is self._joined:
            self._join = block
        else:
            self._remove([block])  # the seam holds all there is of it

    def _close(self, block: Block) -> None:
        self._flush_pending(block)
        block.closed = True
        if self.hot_block is block:
            self._cool()
        if block.kind == "server_tool":
            self._pair(block)
        elif block.kind == "tool_use":
            block.solid = True
            block.ready = self._release.stopped
        elif block.mode == "closed" and (block.solid or block.kind not in (*_TEXT, "thinking")):
            block.ready = block.solid = True
        elif not block.solid:
            # Nothing to see in it (a blank text, omitted thinking): it goes with what follows.
            block.passing = True
        self._put(block, BlockClosed(self.attempt, block.index, block.data))

    def _flush_pending(self, block: Block) -> None:
        if not block.pending:
            return
        text, block.pending = block.pending, ""
        block.parts.append(text)
        if not text.isspace():
            block.solid = True
            block.ready = block.ready or block.mode in ("live", "word")
        self._put(block, BlockDelta(self.attempt, block.index, text))

    def _pair(self, block: Block) -> None:
        if block.mode != "paired":
            block.ready = block.solid = block.mode == "closed" or block.ready
            return
        pair = [b for b in self.blocks if b.kind == "server_tool" and b.id == block.id and b.closed]
        if block.id and len(pair) > 1:
            for member in pair:
                member.ready = member.solid = True

    def _decide_calls(self) -> None:
        """A next block or the stop fact follows: closed tool calls with whole input may be seen."""
        for block in self.blocks[self.first_of_attempt :]:
            if block.kind == "tool_use" and block.closed and not block.ready:
                block.ready = block.mode == "closed" and is_whole_call(block, whole_json=False)
        if self._release.holding:
            self._release.pump()

    def _close_join(self) -> None:
        block, self._join = self._join, None
        if block is not None:
            block.closed = True
            self._put(block, BlockClosed(self.attempt, block.index))

    # --- release --------------------------------------------------------------------------------

    def _put(self, block: Block, event: BlockDelta | BlockClosed) -> None:
        if self._release.put(block, event):
            self._cool()

    @property
    def overflow(self) -> str | None:
        """``held`` or ``block`` when a bound of the policy was passed in this attempt."""
        if self._ran_away:
            return "block"
        return "held" if self._release.overflow else None

    @property
    def holding(self) -> bool:
        """Something that arrived waits for its release."""
        return self._release.holding

    def _cool(self) -> None:
        self.hot_index, self.hot_block = _NO_INDEX, _NO_BLOCK

    def _forget(self, block: Block) -> None:
        self._release.forget(block)
        block.closed = True  # what still comes of it is dropped
        if self.hot_block is block:
            self._cool()
        if self._seam_block is block:
            self._seam_block = None

    # --- the attempt is over ----------------------------------------------------------------------

    def stop(self) -> None:
        """The stop fact, and nothing will be asked for again: all that waits is released."""
        self._decide_calls()
        self._release.stopped = True
        self._release.pump()

    def drop_unfinished_calls(self) -> list[Block]:
        """Under a length stop: calls that are not whole by their input alone are dropped."""
        gone = [
            b
            for b in self.blocks[self.first_of_attempt :]
            if b.kind == "tool_use"
            and not b.ready
            and (not b.text.strip() or not is_whole_call(b, whole_json=True))
        ]
        self._remove(gone)
        return gone

    def open_calls(self) -> list[Block]:
        """Tool calls of this attempt that nothing closed."""
        return [
            b for b in self.blocks[self.first_of_attempt :] if b.kind == "tool_use" and not b.closed
        ]

    def close_whole_calls(self) -> None:
        """The reply ended well: a call that nothing closed is closed if its input is whole."""
        for block in self.open_calls():
            if block.text.strip() and is_whole_call(block, whole_json=True):
                self._close(block)

    def calls_of_attempt(self) -> int:
        """How many tool calls this attempt brought."""
        return sum(b.kind == "tool_use" for b in self.blocks[self.first_of_attempt :])

    def drop_calls(self) -> list[Block]:
        """The turn ends and nobody will run them."""
        gone = [b for b in self.blocks if b.kind == "tool_use"]
        self._remove(gone)
        return gone

    def drop_largest(self) -> Block:
        """The block that ran away is never kept."""
        block = max(self.blocks, key=lambda b: b.size)
        if block is self._joined:
            self.first_of_attempt -= 1
        self._remove([block])
        return block

    def settle_seam(self) -> None:
        """No more text of it comes: what the seam still holds is shown, or known to be a repeat."""
        if self._seam is None or self.joint is not None:
            return
        rest = self._seam.end()
        if not rest:
            return
        if self._seam_block is not None:
            self._show(self._seam_block, rest)
            return
        self.started(BlockStarted(self.attempt, _SETTLED, "text"))
        block = self._by_index[_SETTLED]
        self._show(block, rest)
        self._close(block)  # upstream closed that text before

    def received(self) -> list[tuple[Block, int]]:
        """What this attempt brought: each block it began or went on in, with its characters."""
        mine = [(block, block.chars) for block in self.blocks[self.first_of_attempt :]]
        more = self._joined_chars(with_lost=True)
        return [(self._joined, more), *mine] if self._joined is not None and more else mine

    def received_chars(self) -> int:
        """Characters that this attempt brought."""
        return sum(chars for _, chars in self.received())

    def kept_chars(self, decided: Commit) -> int:
        """Characters of this attempt that are kept; at least one per kept block of it."""
        mine = set(map(id, self.blocks[self.first_of_attempt :]))
        total = sum(max(1, len(b.text) + len(b.pending)) for b in decided.kept if id(b) in mine)
        return total + self._joined_chars(with_lost=False)

    def _joined_chars(self, *, with_lost: bool) -> int:
        block = self._joined
        if block is None or not any(b is block for b in self.blocks):
            return 0
        extra = len(block.lost) - self._lost_before if with_lost else 0
        return len(block.text) - self.joined_at + len(block.pending) + extra

    def accept(self) -> None:
        """The model is done: close what is open and release everything."""
        self._release.stopped = True
        self._release.pump()
        for block in self.blocks:
            if not block.closed:
                self._close(block)
        self._release.pump()

    def cut(self, *, keep_short: bool = False, marked: Mapping[int, int] = _NOTHING) -> None:
        """The attempt broke: settle what is held at the seam and the word being written.

        ``keep_short``: a text that has nothing but that word is kept, however short it is.
        ``marked``: characters per block index that the provider's last checkpoint covers; half a
        word that it covers is kept, since the provider goes on at the very character.
        """
        self._cool()
        if self._seam is not None:
            self._seam.cut()
        joined = self._joined
        if joined is not None and (joined.pending or len(joined.text) > self.joined_at):
            joined.lost, self._lost_before = "", 0  # the text that is there now stands after it
        for block in self.blocks:
            if block.closed or block.kind not in _TEXT or not block.pending:
                continue
            if self._keeps_fragment(block, keep_short=keep_short, marked=marked):
                block.solid = True
                block.ready = block.mode in ("live", "word")
                self._flush_pending(block)
            else:
                block.lost, block.pending = block.pending, ""

    def _keeps_fragment(self, block: Block, *, keep_short: bool, marked: Mapping[int, int]) -> bool:
        rule = getattr(self._rules, block.kind)
        if rule.open == "discard" or block.pending.isspace():
            return False
        head = block.text
        if marked.get(block.index, 0) > len(head):
            return True
        if head and split_word(head, self._word_max)[1] == "":
            return False  # the text before it ends at a word border
        return keep_short or len(head) + len(block.pending) >= self._first_chars(block)

    def commit(self, *, finished: bool = False) -> Commit:
        """What the block rules keep as things stand."""
        return commit(self.blocks, self._rules, finished=finished)

    def apply(self, decided: Commit) -> None:
        """Keep what was decided: release what is kept, take back or forget the rest."""
        self._cool()
        self._remove([d.block for d in decided.dropped])
        self._release.stopped = True
        for block in self.blocks:
            if block.kind == "tool_use" and not block.closed:
                self._close(block)
        self._release.pump()
        self._release.stopped = False

    def finish(self) -> None:
        """The turn ends with what is kept: close what is open for the caller."""
        self._release.stopped = True
        for block in self.blocks:
            if not block.closed:
                self._close(block)
        self._release.pump()

    def take_back(self) -> None:
        """Everything shown is taken back, newest first (``[turn] retract``)."""
        self._remove(list(self.blocks))

    def _remove(self, gone: list[Block]) -> None:
        for block in reversed(gone):
            self._forget(block)
            self.blocks.remove(block)
            if block.shown:
                self._out.append(Retract(block.index))
