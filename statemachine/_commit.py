"""Commit: which blocks of a partial reply are safe to keep. A pure function of timeline and rules.

Keeps whole tool calls and what the block rules allow of the rest, drops what the provider would
refuse in a history, and says what was dropped and why. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from midthought.policies import Blocks

from ._blocks import Block

__all__ = ["Commit", "Dropped", "commit", "is_whole_call"]


class Dropped(msgspec.Struct, frozen=True):
    """A block that is not kept."""

    block: Block
    reason: str
    """``open``, ``unsigned``, ``blank``, ``rule``, ``unpaired``, ``after_tool_call``,
    ``last_thinking``, ``no_message``."""


class Commit(msgspec.Struct, frozen=True):
    """What is kept, in order, and what is not."""

    kept: tuple[Block, ...] = ()
    dropped: tuple[Dropped, ...] = ()

    @property
    def whole_calls(self) -> int:
        """Whole tool calls that are kept."""
        return sum(block.kind == "tool_use" for block in self.kept)


def is_whole_call(block: Block, *, whole_json: bool) -> bool:
    """A tool call is whole when it was closed, or may count as closed, and its input is one object.

    Empty input counts as ``{}`` only for a call that the dialect closed.
    """
    text = block.text
    if block.free_input or not text.strip():
        return block.closed
    if not (block.closed or whole_json):
        return False
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, UnicodeError):
        return False


def commit(blocks: Sequence[Block], rules: Blocks, *, finished: bool = False) -> Commit:
    """Apply the rules. ``finished``: the model stopped by itself, closed blocks are its answer."""
    kept: list[Block] = []
    dropped: list[Dropped] = []
    calls = rules.tool_use
    # Without the rest of its parallel calls none is run, and more may have been coming.
    calls_stay = finished or calls.parallel != "all_or_none"
    paired = _paired_ids(blocks, calls_stay=calls_stay)
    for block in blocks:
        reason = _reason(block, rules, paired, finished=finished)
        if reason is None:
            kept.append(block)
        else:
            dropped.append(Dropped(block, reason))
    if not calls_stay:
        _drop_calls(kept, dropped)
    if not finished:
        _drop_tail(kept, dropped)
    return Commit(tuple(kept), tuple(dropped))


def _paired_ids(blocks: Sequence[Block], *, calls_stay: bool) -> frozenset[str]:
    seen: dict[str, int] = {}
    for block in blocks:
        if block.kind == "server_tool" and block.closed and block.id:
            seen[block.id] = seen.get(block.id, 0) + 1
    # A server tool may wait for a call of ours: it has no result yet, and stays with that call.
    callers = {b.parent for b in blocks if b.kind == "tool_use" and b.closed and calls_stay}
    paired = {id_ for id_, n in seen.items() if n > 1 or id_ in callers}
    # A tool that another tool called goes with its caller, however deep they nest.
    parents = {b.id: b.parent for b in blocks if b.kind == "server_tool" and b.parent}
    while lonely := {id_ for id_ in paired if parents.get(id_, id_) not in paired}:
        paired -= lonely
    return frozenset(paired)


def _reason(block: Block, rules: Blocks, paired: frozenset[str], *, finished: bool) -> str | None:
    kind = block.kind
    if kind == "tool_use":
        if rules.tool_use.closed == "discard":
            return "rule"
        # Invalid JSON that the provider itself finished is its answer, and so is a call that the
        # caller has: it may be running.
        if block.closed and (finished or block.shown):
            return None
        return None if is_whole_call(block, whole_json=rules.tool_use.whole_json) else "open"
    if kind == "thinking":
        return _thinking_reason(block, rules)
    rule = getattr(rules, kind)
    if (rule.closed if block.closed else rule.open) == "discard":
        return "rule" if block.closed else "open"
    if kind in ("text", "refusal"):
        # A blank block that was shown stays: taking it back would lose its characters.
        said = block.text.strip() or block.pending.strip() or block.citations
        return None if block.shown or said else "blank"
    if kind == "server_tool" and not finished and block.id not in paired:
        return "unpaired"
    return None


def _thinking_reason(block: Block, rules: Blocks) -> str | None:
    if not block.closed:
        return "open"
    if rules.thinking.closed == "discard":
        return "rule"
    if rules.thinking.closed == "keep_if_signed" and not block.signature:
        return "unsigned"
    return None


def _drop_calls(kept: list[Block], dropped: list[Dropped]) -> None:
    dropped += [Dropped(b, "rule") for b in kept if b.kind == "tool_use"]
    kept[:] = [b for b in kept if b.kind != "tool_use"]


def _drop_tail(kept: list[Block], dropped: list[Dropped]) -> None:
    last = max((i for i, b in enumerate(kept) if b.kind == "tool_use"), default=None)
    if last is not None:
        # No text after a call in one message, and the turn ends with its last whole call.
        dropped += [Dropped(b, "after_tool_call") for b in kept[last + 1 :]]
        del kept[last + 1 :]
    while kept and kept[-1].kind in ("thinking", "redacted_thinking"):
        # A message may not end with thinking, and alone it says nothing.
        dropped.append(Dropped(kept.pop(), "last_thinking"))
