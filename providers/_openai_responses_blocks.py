"""The blocks of one response: when they open, what is added to them, and when they close.

    block                   opens                      closes
    text, refusal           content_part.added, or     the next part of its message; the message's
                            its first delta            item.done; the end
    thinking, server_tool,  output_item.added          output_item.done
    media, other
    tool_use                output_item.added          its input's done event, or output_item.done

A block that an item calls incomplete stays open. Blocks know (``parent``) the reasoning item that
they may not be sent back without. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event

from ._json import encode_json, join_surrogates
from ._openai_responses_items import (
    DELTAS,
    HOT,
    STREAMED_CALLS,
    Item,
    OpenBlock,
    call_input,
    item_kind,
    item_name,
    message_head,
    pair_id,
)
from ._openai_responses_marks import Checkpoints

__all__ = ["Blocks"]

Json = Mapping[str, Any]

#: Between two summaries of one reasoning item.
_BETWEEN: Final = "\n\n"
#: Content parts of a message: the row that fills them.
_PARTS: Final = {"output_text": "response.output_text", "refusal": "response.refusal"}
#: What a reasoning item holds: its key, and the row that fills it.
_REASONING: Final = (
    ("summary", "response.reasoning_summary_text"),
    ("content", "response.reasoning_text"),
)


class Blocks:
    """Turns the events of one attempt's output items into block events."""

    __slots__ = (
        "_attempt", "_items", "_last", "_marks", "_next", "_reasoning", "_search", "calls", "hot",
        "whole",
    )  # fmt: skip

    def __init__(self, attempt: int, marks: Checkpoints) -> None:
        self._attempt = attempt
        self._marks = marks
        self.whole = False
        """The attempt began at the beginning of the response."""
        self.reset()

    def reset(self) -> None:
        """The response begins anew."""
        self._items: dict[int, Item] = {}
        self._last = -1
        self._next = 0
        self._reasoning: str | None = None
        self._search: str | None = None
        self.calls = 0
        """Tool calls so far."""
        self.hot: OpenBlock | None = None
        """The block that was last added to."""

    # --- deltas -----------------------------------------------------------------------------------

    def delta(self, name: str, body: Json, out: list[Event]) -> None:
        """``<name>.delta``: more of a block, which may begin with it."""
        block = self._block_for(name, body, out)
        text = body.get("delta")
        if block is not None and isinstance(text, str):
            self._add(block, name, self._part(name, body), text, out)
            if self._marks.active and block.kind == "text":
                self._marks.text(len(text), body.get("sequence_number"), out)

    def text_done(self, name: str, body: Json, out: list[Event]) -> None:
        """``<name>.done``: all of a part once more."""
        row = DELTAS[name]
        block = self._block_for(name, body, out)
        if block is None:
            return
        item = self._items[block.output]
        if item.whole:
            self._complete(block, name, self._part(name, body), body.get(row.whole), out)
        if row.closes:
            self._close(item, 0, None, out)

    def annotation(self, body: Json, out: list[Event]) -> None:
        """A citation."""
        block = self._block_for("response.output_text", body, out)
        if block is not None and (annotation := body.get("annotation")) is not None:
            block.citations += 1
            out.append(BlockDelta(self._attempt, block.index, encode_json(annotation), "citation"))

    def open_block(self, body: Json) -> OpenBlock | None:
        """The open block of the item that this event names."""
        item = self._find(body)
        return item.blocks.get(0) if item is not None and item.type != "message" else None

    @staticmethod
    def _part(name: str, body: Json) -> int:
        part = body.get(DELTAS[name].part or "")
        return part if isinstance(part, int) else 0

    def _block_for(self, name: str, body: Json, out: list[Event]) -> OpenBlock | None:
        """The open block that this row adds to; ``None``: it is closed, or a call without name."""
        row = DELTAS[name]
        item = self._find(body)
        if item is None:
            if row.item != "message" and row.item != "reasoning":
                return None  # its item's done event has all of it
            item = self._new_item(body, {"type": row.item, "id": body.get("item_id")})
        if item.type == "message":
            return self._part_block(item, self._part(name, body), name, out)
        if item.type == "reasoning" and 0 not in item.used:
            self._start(item, {"type": "reasoning", "id": item.id}, out)
        return item.blocks.get(0)

    def _part_block(self, item: Item, part: int, name: str, out: list[Event]) -> OpenBlock | None:
        if part in item.blocks or part in item.used:
            return item.blocks.get(part)
        for earlier in list(item.blocks):
            self._close(item, earlier, None, out)
            self._marks.passed()
        block = OpenBlock(self._next, DELTAS[name].kind, item.output)
        self._next += 1
        item.blocks[part] = block
        item.used.add(part)
        out.append(
            BlockStarted(
                self._attempt, block.index, block.kind, data=item.head, parent=self._reasoning
            )
        )
        return block

    def _add(self, block: OpenBlock, name: str, part: int, text: str, out: list[Event]) -> None:
        """More of a part of a block."""
        if (name, part) != (block.row, block.part):
            if block.row:
                block.past[block.row, block.part] = block.chars
            block.row, block.part = name, part
            block.chars, block.last = block.past.get((name, part), 0), ""
            block.field = DELTAS[name].field
        if block.half or not text.isascii():
            text, block.half = join_surrogates(block.half, text)
        block.hot = None if block.half else HOT.get(name)
        self.hot = block
        if not text:
            return
        apart = block.kind == "thinking" and not block.chars and any(block.past.values())
        block.chars += len(text)
        block.last = text
        text = _BETWEEN + text if apart else text
        out.append(BlockDelta(self._attempt, block.index, text, block.field))

    def _complete(
        self, block: OpenBlock, name: str, part: int, full: Any, out: list[Event]
    ) -> None:
        """What a done event has more than the deltas of its part brought.

        Where it does not say the same as they did, they count: they were shown.
        """
        if not isinstance(full, str):
            return
        current = (name, part) == (block.row, block.part)
        had = block.chars if current else block.past.get((name, part), 0)
        if had and not (current and full.startswith(block.last, had - len(block.last))):
            return
        if len(full) > had:
            block.half = ""
            self._add(block, name, part, full[had:], out)

    # --- parts and items --------------------------------------------------------------------------

    def part_added(self, body: Json, part: Json, out: list[Event]) -> None:
        """A content part of a message begins; parts of reasoning are one block."""
        if (name := _PARTS.get(str(part.get("type")))) is not None:
            self._block_for(name, body, out)

    def part_done(self, body: Json, part: Json, out: list[Event]) -> None:
        """A content part is whole; it is closed when it is known to which message it belongs."""
        item = self._find(body)
        if item is not None and item.type == "message" and item.whole:
            number = body.get("content_index")
            self._fill(item, number if isinstance(number, int) else 0, part, out)

    def _fill(self, item: Item, number: int, part: Json, out: list[Event]) -> None:
        """All of a content part, as far as it has not come yet."""
        name = _PARTS.get(str(part.get("type")))
        block = self._part_block(item, number, name, out) if name else None
        if block is None or name is None:
            return
        self._complete(block, name, number, part.get(DELTAS[name].whole), out)
        annotations = part.get("annotations")
        for one in annotations[block.citations :] if isinstance(annotations, list) else ():
            block.citations += 1
            out.append(BlockDelta(self._attempt, block.index, encode_json(one), "citation"))

    def item_added(self, body: Json, data: Json, out: list[Event]) -> None:
        """An output item begins; an index that is used already means nothing."""
        item = self._find(body) if isinstance(body.get("output_index"), int) else None
        if item is None:
            item = self._new_item(body, data)
            item.whole = True
            if item.type != "message":
                self._start(item, data, out)

    def item_done(self, body: Json, data: Json, out: list[Event]) -> None:
        """An output item is whole, or as much of it as there will be."""
        item = self._find({**body, "item_id": body.get("item_id") or data.get("id")})
        if item is None or (item.done and not isinstance(body.get("output_index"), int)):
            item = self._new_item(body, data)
        if item.done:
            return
        item.done = True
        if item.type == "message":
            self._message_done(item, data, out)
        else:
            self._other_done(item, data, out)
        if item.type != "reasoning":
            self._marks.passed()

    def output(self, items: Any, out: list[Event]) -> None:
        """The whole output once more: what was not said of it, and what was not finished."""
        for number, data in enumerate(items if isinstance(items, list) else ()):
            known = self._items.get(number)
            if isinstance(data, Mapping) and (known is None or not known.done):
                self.item_done({"output_index": number}, data, out)

    def close_open(self, out: list[Event]) -> None:
        """The response is over: close everything but tool calls."""
        for item in self._items.values():
            for part, block in list(item.blocks.items()):
                if block.kind != "tool_use" and not item.cut:
                    self._close(item, part, None, out)

    def _find(self, body: Json) -> Item | None:
        """The item of an event: by its place, else by its id, else the last one."""
        place = body.get("output_index")
        if isinstance(place, int):
            return self._items.get(place)
        name = body.get("item_id")
        named = (item for item in self._items.values() if name and item.id == name)
        return next(named, None) or self._items.get(self._last)

    def _new_item(self, body: Json, data: Json) -> Item:
        place, wire, name = body.get("output_index"), data.get("type"), data.get("id")
        place = place if isinstance(place, int) else self._last + 1
        item = Item(
            place,
            wire if isinstance(wire, str) else "",
            name if isinstance(name, str) else None,
            self.whole,
            head=message_head(data) if wire == "message" else {},
        )
        self._items[place] = item
        self._last = place
        return item

    def _start(self, item: Item, data: Json, out: list[Event]) -> OpenBlock:
        """The one block of an item that is no message."""
        kind = item_kind(data)
        block = OpenBlock(self._next, kind, item.output)
        self._next += 1
        item.blocks[0] = block
        item.used.add(0)
        called = kind in ("tool_use", "server_tool")
        paired = pair_id(data, self._search) if called else None
        if kind == "server_tool" and item.type == "tool_search_call":
            self._search = paired
        if kind == "tool_use":
            self.calls += 1
        parent = self._reasoning if kind not in ("server_tool", "thinking") else None
        if kind == "thinking":
            self._reasoning = item.id
        name = item_name(data)
        out.append(
            BlockStarted(
                self._attempt,
                block.index,
                kind,
                paired,
                name,
                _head(data),
                parent,
                free_input=item.type == "custom_tool_call",
            )
        )
        return block

    def _message_done(self, item: Item, data: Json, out: list[Event]) -> None:
        if item.whole:
            # In order, not by number: a server may number its parts from 1.
            numbers = sorted(item.used)
            content = [part for part in _tables(data.get("content")) if part.get("type") in _PARTS]
            for place, part in enumerate(content):
                known = place < len(numbers)
                number = numbers[place] if known else max(numbers, default=-1) + 1 + place
                self._fill(item, number, part, out)
        elif not item.used:  # the rest of a text that an earlier attempt began
            self._part_block(item, 0, "response.output_text", out)
        item.head = {**item.head, **message_head(data), "attempt": self._attempt}
        for number in list(item.blocks):
            self._close(item, number, item.head, out)

    def _other_done(self, item: Item, data: Json, out: list[Event]) -> None:
        if 0 not in item.used:
            self._start(item, data, out)
        block = item.blocks.get(0)
        if block is None:
            return
        if item.type == "reasoning":
            self._reasoned(block, data, out)
        elif item.type in STREAMED_CALLS:
            key = STREAMED_CALLS[item.type]
            name = next(name for name, row in DELTAS.items() if row.item == item.type)
            self._complete(block, name, 0, data.get(key), out)
        elif block.kind == "tool_use" and (given := call_input(data)) is not None:
            out.append(BlockDelta(self._attempt, block.index, given, "input"))
        if data.get("status") == "incomplete":
            item.cut = True
        else:
            self._close(item, 0, _head(data), out)

    def _reasoned(self, block: OpenBlock, data: Json, out: list[Event]) -> None:
        """The end of a reasoning item: text that never came, and what signs it."""
        came = {block.row, *(name for name, _ in block.past)} - {""}
        for key, name in _REASONING:
            texts = [part.get("text") for part in _tables(data.get(key))]
            if name in came or (not came and any(texts)):
                came.add(name)
                for number, text in enumerate(texts):
                    self._complete(block, name, number, text, out)
        signature = data.get("encrypted_content")
        if isinstance(signature, str) and signature and data.get("status") != "incomplete":
            out.append(BlockDelta(self._attempt, block.index, signature, "signature"))

    def _close(self, item: Item, part: int, data: dict[str, Any] | None, out: list[Event]) -> None:
        block = item.blocks.pop(part, None)
        if block is None:
            return
        if block.half:
            out.append(BlockDelta(self._attempt, block.index, "\ufffd", block.field))
        if self.hot is block:
            self.hot = None
        out.append(BlockClosed(self._attempt, block.index, data))


def _head(data: Json) -> dict[str, Any]:
    """What a block carries of its item: all of it, but what stands in the block itself."""
    wire = data.get("type")
    inside = {"call_id", "name", STREAMED_CALLS[wire]} if wire in STREAMED_CALLS else set()
    return {key: value for key, value in data.items() if key not in inside}


def _tables(value: Any) -> Iterable[Json]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()
