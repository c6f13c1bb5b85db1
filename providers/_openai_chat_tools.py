"""Which tool call a delta belongs to, and when that call is whole.

The specification gives every delta an index. Servers leave it out, give every call the same one, or
count it up with every delta; they repeat or change ids and names. One rule settles nearly all of
it: nothing can follow a JSON object that is whole, so what follows is another call.

    the delta has              belongs to                 unless
    a known id                 that call                  it moved to another index, and is another
    a new id, a known index    the call of that index     that has an id, and it is another, or
                                                          named and at the beginning of an input
    a new id only              a new call if named, else the last one
    no id, a known index       that call
    no id, a new index         a new call if named, else the last one
    neither                    the last call              it is another

"Another": named, and named otherwise than that call or after its input was whole. In every row,
input that begins an object after a whole one begins a new call. Imports no IO.
"""

from __future__ import annotations

from typing import Any, Final

from midthought.statemachine import BlockClosed, BlockDelta, BlockStarted, Event

from ._json import encode_json, whole_object
from ._openai_chat_text import Cumulative, Pairs, Unreadable

__all__ = ["Call", "Calls"]

#: With these, or nothing, input may begin another call, or say nothing.
_MAY_BEGIN: Final = ("", "{", " ", "\n", "\r", "\t")
_OWN_KEYS: Final = frozenset({"index", "id", "type", "function", "custom"})


def is_object(text: str) -> bool:
    """Whether this tool input is one whole JSON object."""
    return text.rstrip().endswith("}") and whole_object(text) is not None


class Call:
    """A tool call being received."""

    __slots__ = ("_input", "block", "closed", "data", "id", "index", "name", "pairs")

    def __init__(self, index: Any, data: dict[str, Any] | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.data = data
        self.block: int | None = None
        """Index of its block once that has started: as soon as there is a name to tell."""
        self.closed = False
        self.pairs = Pairs()
        self._input: list[str] = []

    def add(self, text: str) -> None:
        """More input."""
        self._input.append(text)

    @property
    def input(self) -> str:
        """All input so far."""
        if len(self._input) > 1:
            self._input[:] = ["".join(self._input)]
        return self._input[0] if self._input else ""

    @property
    def whole(self) -> bool:
        """The input is one JSON object; an empty one may still begin."""
        return is_object(self.input)


class _Piece:
    """One entry of ``delta.tool_calls``, or the older ``delta.function_call``, read leniently."""

    __slots__ = ("data", "id", "index", "name", "text")

    def __init__(self, entry: dict[str, Any], legacy: bool) -> None:
        custom = entry.get("custom")
        body = entry if legacy else custom if isinstance(custom, dict) else entry.get("function")
        body = body if isinstance(body, dict) else {}
        index, call_id = entry.get("index"), entry.get("id")
        self.index = index if isinstance(index, int) else None
        # Mistral's own client fills a missing id with the word "null".
        self.id = call_id if isinstance(call_id, str) and call_id != "null" else ""
        name = body.get("name")
        self.name = name if isinstance(name, str) else ""
        value = body.get("input" if body is custom else "arguments")
        if isinstance(value, dict):
            value = encode_json(value)
        self.text = value if isinstance(value, str) else ""
        kind = "function_call" if legacy else "custom" if body is custom else None
        self.data = {"type": kind} if kind else None
        extra = {} if legacy else {k: v for k, v in entry.items() if k not in _OWN_KEYS and v}
        if extra:  # a provider's own keys (a thought signature) must go back with the call
            self.data = {**(self.data or {}), **extra}


class Calls:
    """The tool calls of one choice."""

    __slots__ = ("_attempt", "_choice", "_cumulative", "all")

    def __init__(self, attempt: int, choice: int, cumulative: Cumulative | None) -> None:
        self._attempt = attempt
        self._choice = choice
        self._cumulative = cumulative
        self.all: list[Call] = []

    def more(self, entry: dict[str, Any]) -> BlockDelta | None:
        """Plain input for the last call, by its index and nothing else: what most deltas are."""
        call = self.all[-1] if self.all else None
        body = entry.get("function")
        if (
            call is None
            or call.block is None
            or call.closed
            or call.pairs.waiting
            or self._cumulative is not None
            or entry.get("id")
            or entry.get("index") != call.index
            or type(body) is not dict
            or body.get("name")
        ):
            return None
        text = body.get("arguments")
        if type(text) is not str or not text.isascii() or text[:1] in _MAY_BEGIN:
            return None
        call.add(text)
        return BlockDelta(self._attempt, call.block, text, "input")

    def find(self, entry: dict[str, Any], legacy: bool) -> tuple[_Piece, Call | None]:
        """The piece that this entry is, and the call it goes on with; ``None``: a new one."""
        piece = _Piece(entry, legacy)
        return piece, self._owner(piece)

    def begin(self, piece: _Piece) -> Call:
        """A new call."""
        call = Call(piece.index, piece.data)
        if not piece.name and self.all:
            # Its name came before, where it looked like a repeat of the last call's.
            call.name = self.all[-1].name
        self.all.append(call)
        return call

    def add(self, call: Call, piece: _Piece, block: int, out: list[Event]) -> bool:
        """Add the piece; ``block`` is the index to start with. Says whether the block started."""
        call.id = call.id or piece.id
        call.name = call.name or piece.name
        text = piece.text
        if self._cumulative is not None and text:
            text = self._cumulative.new(call, text)
        if text:
            if call.closed:
                if text.isspace():
                    return False
                raise Unreadable("input for a tool call that was already whole")
            text = call.pairs.add(text)
            call.add(text)
        started = call.block is None and bool(call.name) and bool(call.id or call.input)
        if started:
            self.start(call, block, out)
        elif call.block is not None and text:
            out.append(BlockDelta(self._attempt, call.block, text, "input"))
        return started

    def start(self, call: Call, block: int, out: list[Event]) -> None:
        """Open its block and hand out the input so far; a missing id is made of the position."""
        call.block = block
        legacy = call.data is not None and call.data.get("type") == "function_call"
        call_id = call.id or (None if legacy else f"call_{self._attempt}_{block}")
        data = call.data
        if self._choice:
            data = {**(data or {}), "choice": self._choice}
        free = (data or {}).get("type") == "custom"
        name = call.name or None
        out.append(
            BlockStarted(self._attempt, block, "tool_use", call_id, name, data, free_input=free)
        )
        if call.input:
            out.append(BlockDelta(self._attempt, block, call.input, "input"))

    def close(self, out: list[Event], *, only_whole: bool) -> None:
        """Close open calls: all of them, or those whose input is one JSON object."""
        for call in self.all:
            if call.closed or call.block is None or (only_whole and not call.whole):
                continue
            if rest := call.pairs.rest():
                out.append(BlockDelta(self._attempt, call.block, rest, "input"))
            call.closed = True
            out.append(BlockClosed(self._attempt, call.block))

    def _owner(self, piece: _Piece) -> Call | None:
        if not self.all:
            return None
        call = self._match(piece)
        if call is not None and self._cumulative is None and piece.text.lstrip()[:1] == "{":
            return None if call.whole else call
        return call

    def _match(self, piece: _Piece) -> Call | None:
        """The table at the top of this module, row by row."""
        last = self.all[-1]
        indexed = None if piece.index is None else self._latest("index", piece.index)
        if piece.id:
            same = self._latest("id", piece.id)
            if same is not None:
                moved = piece.index is not None and piece.index != same.index
                return None if moved and _is_other(same, piece) else same
            if indexed is None:
                return None if piece.name else last
            return None if indexed.id and _begins(indexed, piece) else indexed
        if piece.index is not None:
            return indexed or (None if piece.name else last)
        return None if _is_other(last, piece) else last

    def _latest(self, key: str, value: Any) -> Call | None:
        for call in reversed(self.all):
            if getattr(call, key) == value:
                return call
        return None


def _is_other(call: Call, piece: _Piece) -> bool:
    """Whether a named piece that does not clearly belong to ``call`` begins another one."""
    return bool(piece.name) and ((call.name != "" and piece.name != call.name) or call.whole)


def _begins(call: Call, piece: _Piece) -> bool:
    """Whether a piece with a new id begins another call.

    Servers that change the id with every delta may repeat the name too, but go on with the input.
    """
    if _is_other(call, piece):
        return True
    return bool(piece.name and call.input) and piece.text.lstrip()[:1] in ("", "{")
