"""Pieces of the Anthropic Messages stream: block kinds, the deltas each takes, usage counters.

Tables first: what a block or delta of the provider is in our words. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from midthought.statemachine import BlockDelta, BlockStarted, Event, Usage

from ._json import encode_json

__all__ = ["DELTA_KEYS", "HotEvent", "OpenBlock", "begin_block", "delta_text", "token_usage"]

Json = dict[str, Any]
Kind = Literal[
    "text", "thinking", "redacted_thinking", "tool_use", "server_tool", "refusal", "media", "other"
]
Field = Literal["text", "input", "signature", "citation", "other"]

KINDS: Final[dict[str, Kind]] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "redacted_thinking",
    "tool_use": "tool_use",
    "server_tool_use": "server_tool",
    "mcp_tool_use": "server_tool",
}
#: Every server tool has a result block of its own type: ``web_search_tool_result`` and so on.
RESULT_SUFFIX: Final = "_tool_result"

#: Per block kind: which deltas it takes, and what they add to. Any other delta is ``other``.
DELTAS: Final[dict[Kind, dict[str, Field]]] = {
    "text": {"text_delta": "text", "citations_delta": "citation"},
    "thinking": {"thinking_delta": "text", "signature_delta": "signature"},
    "tool_use": {"input_json_delta": "input"},
    "server_tool": {"input_json_delta": "input"},
}
#: Per delta: its key that holds the value.
DELTA_KEYS: Final = {
    "text_delta": "text",
    "citations_delta": "citation",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
#: Per delta: the kind of block it implies where none is open.
IMPLIED: Final[dict[str, Kind]] = {
    "text_delta": "text",
    "citations_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "thinking",
}
#: Keys of a starting block that we keep elsewhere; a block with more than these goes back verbatim.
_PLAIN_KEYS: Final[dict[Kind, frozenset[str]]] = {
    "text": frozenset({"type", "text", "citations"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "tool_use": frozenset({"type", "id", "name", "input"}),
}


class _TextDelta(msgspec.Struct, tag="text_delta", rename={"value": "text"}, gc=False):
    value: str


class _ThinkingDelta(msgspec.Struct, tag="thinking_delta", rename={"value": "thinking"}, gc=False):
    value: str


class _InputDelta(
    msgspec.Struct, tag="input_json_delta", rename={"value": "partial_json"}, gc=False
):
    value: str


HotDelta = _TextDelta | _ThinkingDelta | _InputDelta


class HotEvent(msgspec.Struct, tag="content_block_delta", gc=False):
    """The one event that comes for every token, typed; all others take the general way."""

    index: int
    delta: HotDelta


_HOT: Final[dict[Kind, tuple[type[HotDelta], Field]]] = {
    "text": (_TextDelta, "text"),
    "thinking": (_ThinkingDelta, "text"),
    "tool_use": (_InputDelta, "input"),
    "server_tool": (_InputDelta, "input"),
}


#: Blocks that come whole, or of which only the provider knows what a delta means.
_COLD: Final[tuple[None, Field]] = (None, "other")


class OpenBlock(msgspec.Struct):
    """A block of the attempt that is not closed yet."""

    index: int
    """In our events: the provider's, or a new one where the provider used its own twice."""
    kind: Kind
    id: str | None = None
    hot: type[HotDelta] | None = None
    """The delta this block is made of, and what it adds to."""
    hot_field: Field = "other"
    given_input: str = ""
    """Tool input that came in the start; counts unless deltas follow."""
    half: str = ""
    """First half of an emoji whose second has not come."""


def begin_block(attempt: int, index: int, start: Mapping[str, Any], out: list[Event]) -> OpenBlock:
    """Append ``BlockStarted`` for a provider's block, and deltas for what its start holds."""
    wire_type = start.get("type")
    wire_type = wire_type if isinstance(wire_type, str) else ""
    is_result = wire_type.endswith(RESULT_SUFFIX)
    kind: Kind = KINDS.get(wire_type, "server_tool" if is_result else "other")
    pair_id = _string(start.get("tool_use_id" if is_result else "id"))
    plain = _PLAIN_KEYS.get(kind)
    data = dict(start) if plain is None or not plain.issuperset(start) else None
    caller = start.get("caller")
    parent = _string(caller.get("tool_id")) if isinstance(caller, Mapping) else None
    name = _string(start.get("name"))
    out.append(BlockStarted(attempt, index, kind, pair_id, name, data, parent))
    hot, hot_field = _COLD if is_result else _HOT.get(kind, _COLD)
    block = OpenBlock(index, kind, pair_id, hot, hot_field)
    for key, field in _INITIAL.get(kind, ()):
        if isinstance(value := start.get(key), str) and value:
            out.append(BlockDelta(attempt, index, value, field))
    if kind == "text" and isinstance(citations := start.get("citations"), list):
        out.extend(BlockDelta(attempt, index, encode_json(one), "citation") for one in citations)
    if not is_result and isinstance(given := start.get("input"), Mapping) and given:
        block.given_input = encode_json(given)
        block.hot = None  # its deltas are looked at one by one
    return block


_INITIAL: Final[dict[Kind, tuple[tuple[str, Field], ...]]] = {
    "text": (("text", "text"),),
    "thinking": (("thinking", "text"), ("signature", "signature")),
}


def delta_text(kind: Kind, delta: Mapping[str, Any]) -> tuple[str, Field]:
    """What a delta adds to a block of ``kind``, and to which of its fields.

    A delta that does not belong to the kind, or is not known, is kept as JSON (``other``).
    """
    wire_type = delta.get("type")
    field = DELTAS.get(kind, {}).get(wire_type, "other") if isinstance(wire_type, str) else "other"
    if field != "other":
        value = delta.get(DELTA_KEYS[wire_type])  # type: ignore[index]
        if field == "citation":
            return ("" if value is None else encode_json(value)), field
        if value is None or isinstance(value, str):
            return value or "", field
    return encode_json(delta), "other"


def token_usage(counters: Any) -> Usage | None:
    """The counters of a ``usage`` table; ``None`` if it holds none."""
    if not isinstance(counters, Mapping):
        return None
    details = counters.get("output_tokens_details")
    usage = Usage(
        input=_count(counters.get("input_tokens")),
        output=_count(counters.get("output_tokens")),
        cache_read=_count(counters.get("cache_read_input_tokens")),
        cache_write=_count(counters.get("cache_creation_input_tokens")),
        reasoning=_count(details.get("thinking_tokens")) if isinstance(details, Mapping) else None,
    )
    return None if usage == _NOTHING else usage


_NOTHING: Final = Usage()


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None
