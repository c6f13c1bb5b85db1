"""Output items of the Responses API: what each is in our words, and what adds to it.

Tables first. An item that the caller must answer is a ``tool_use``, whatever its wire name; one
that the provider runs itself and finishes in one item is ``other`` and goes back verbatim; use and
result that come as two items are a ``server_tool`` pair. Imports no IO.

    item                              block        id            input
    message                           text, refusal per content part
    reasoning                         thinking                   summary or reasoning text
    function_call, custom_tool_call   tool_use     call_id       arguments, input
    local_shell_call, shell_call      tool_use     call_id       action
    apply_patch_call, computer_call   tool_use     call_id       operation; action or actions
    mcp_approval_request              tool_use     id            arguments
    tool_search_call of the client    tool_use     call_id       arguments
    shell_call in a container         server_tool  call_id       with shell_call_output
    tool_search_call, .._output       server_tool  call_id, else the call's own
    image_generation_call             media
    any other                         other
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from midthought.policies import Stop
from midthought.statemachine import BlockKind, Usage

from ._json import encode_json

__all__ = [
    "DELTAS",
    "STOPS",
    "STREAMED_CALLS",
    "DeltaRow",
    "HotEvent",
    "Item",
    "OpenBlock",
    "call_input",
    "is_hosted",
    "item_kind",
    "item_name",
    "message_head",
    "pair_id",
    "token_usage",
]

Json = Mapping[str, Any]
Field = Literal["text", "input"]

#: Calls whose input streams, and the key of the item that holds it.
STREAMED_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}
#: Calls whose input comes with the item, and the keys it may stand under.
_WHOLE_CALLS: Final = {
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions"),
    "local_shell_call": ("action",),
    "mcp_approval_request": ("arguments",),
    "shell_call": ("action",),
    "tool_search_call": ("arguments",),
}
_KINDS: Final[dict[str, BlockKind]] = {
    "message": "text",
    "reasoning": "thinking",
    "image_generation_call": "media",
    "shell_call_output": "server_tool",
    "tool_search_output": "server_tool",
    **dict.fromkeys((*STREAMED_CALLS, *_WHOLE_CALLS), "tool_use"),
}

#: Stop reasons where the policy's ``[stream]`` says nothing about them: the status ``completed``,
#: or the reason of an incomplete response.
STOPS: Final[dict[str, Stop]] = {
    "completed": Stop.end,
    "max_output_tokens": Stop.length,
    "content_filter": Stop.safety,
    "steered": Stop.pause,
    "max_messages": Stop.pause,
}


class DeltaRow(NamedTuple):
    """Events ``<name>.delta`` and ``<name>.done``: which item, which part of it, which field."""

    item: str
    """Wire type of the item, where the stream has not named it."""
    part: str | None
    """Key of the number that tells parts of one item apart."""
    whole: str
    """Key of the whole text in the done event."""
    field: Field
    kind: BlockKind
    closes: bool = False
    """The done event closes the block."""


DELTAS: Final[dict[str, DeltaRow]] = {
    "response.output_text": DeltaRow("message", "content_index", "text", "text", "text"),
    "response.refusal": DeltaRow("message", "content_index", "refusal", "text", "refusal"),
    "response.reasoning_summary_text": DeltaRow(
        "reasoning", "summary_index", "text", "text", "thinking"
    ),
    "response.reasoning_text": DeltaRow("reasoning", "content_index", "text", "text", "thinking"),
    "response.function_call_arguments": DeltaRow(
        "function_call", None, "arguments", "input", "tool_use", True
    ),
    "response.custom_tool_call_input": DeltaRow(
        "custom_tool_call", None, "input", "input", "tool_use", True
    ),
    "response.mcp_call_arguments": DeltaRow("mcp_call", None, "arguments", "input", "other"),
    "response.code_interpreter_call_code": DeltaRow(
        "code_interpreter_call", None, "code", "input", "other"
    ),
}


class _Delta(msgspec.Struct, gc=False, rename={"number": "sequence_number"}):
    """The events that come for every token, typed; all others take the general way."""

    output_index: int
    delta: str
    number: int = -1


class _TextDelta(_Delta, tag="response.output_text.delta", rename={"part": "content_index"}):
    part: int = 0


class _RefusalDelta(_Delta, tag="response.refusal.delta", rename={"part": "content_index"}):
    part: int = 0


class _SummaryDelta(
    _Delta, tag="response.reasoning_summary_text.delta", rename={"part": "summary_index"}
):
    part: int = 0


class _ReasoningDelta(
    _Delta, tag="response.reasoning_text.delta", rename={"part": "content_index"}
):
    part: int = 0


class _ArgumentsDelta(_Delta, tag="response.function_call_arguments.delta"):
    part: int = 0


class _CustomDelta(_Delta, tag="response.custom_tool_call_input.delta"):
    part: int = 0


HotEvent = (
    _TextDelta | _RefusalDelta | _SummaryDelta | _ReasoningDelta | _ArgumentsDelta | _CustomDelta
)

#: Per row of ``DELTAS`` its typed event, where it has one.
HOT: Final[dict[str, type[_Delta]]] = {
    "response.output_text": _TextDelta,
    "response.refusal": _RefusalDelta,
    "response.reasoning_summary_text": _SummaryDelta,
    "response.reasoning_text": _ReasoningDelta,
    "response.function_call_arguments": _ArgumentsDelta,
    "response.custom_tool_call_input": _CustomDelta,
}


class OpenBlock(msgspec.Struct):
    """A block of the attempt that is not closed yet."""

    index: int
    kind: BlockKind
    output: int
    """The provider's ``output_index``."""
    hot: type[_Delta] | None = None
    """What it was last made of; more of the same goes straight into it."""
    part: int = 0
    """The part that is being written."""
    chars: int = 0
    """Characters of that part so far."""
    last: str = ""
    """The last piece of it."""
    field: Field = "text"
    row: str = ""
    past: dict[tuple[str, int], int] = {}
    """Characters of its other parts."""
    citations: int = 0
    half: str = ""
    """First half of an emoji whose second has not come."""


class Item(msgspec.Struct):
    """An output item of the attempt."""

    output: int
    type: str
    id: str | None
    whole: bool
    """All of it comes in this attempt, so that what its done events repeat can be completed."""
    blocks: dict[int, OpenBlock] = {}
    """Open ones, by content part; other items have one, at 0."""
    used: set[int] = set()
    """Parts that had a block."""
    head: dict[str, Any] = {}
    """Of a message: what its blocks carry of it."""
    done: bool = False
    cut: bool = False
    """Done, but not whole."""


def item_kind(item: Json) -> BlockKind:
    """What this item is in our words."""
    wire = item.get("type")
    if is_hosted(item):
        return "server_tool"
    return _KINDS.get(wire, "other") if isinstance(wire, str) else "other"


def is_hosted(item: Json) -> bool:
    """The provider runs this call, and its result comes as an item of its own."""
    if item.get("type") == "tool_search_call":
        return item.get("execution") != "client"
    environment = item.get("environment")
    kind = environment.get("type") if isinstance(environment, Mapping) else None
    return item.get("type") == "shell_call" and str(kind).startswith("container")


def item_name(item: Json) -> str | None:
    """The tool's name; built-in ones are called as their items are."""
    name, wire = item.get("name"), item.get("type")
    if isinstance(name, str) and name:
        return name
    return wire.removesuffix("_call") if isinstance(wire, str) and wire.endswith("_call") else None


def pair_id(item: Json, last_search: str | None) -> str | None:
    """What a call is answered by, or a use and its result have in common."""
    call_id, own = item.get("call_id"), item.get("id")
    if isinstance(call_id, str) and call_id:
        return call_id
    if item.get("type") == "tool_search_output" and last_search:
        return last_search
    return own if isinstance(own, str) and own else None


def call_input(item: Json) -> str | None:
    """Input of a call that comes whole with its item, as JSON text; ``None`` where it streams."""
    for key in _WHOLE_CALLS.get(str(item.get("type")), ()):
        value = item.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, Mapping):
            return encode_json(value)
        if isinstance(value, list):
            return encode_json({key: value})
    return None


def message_head(item: Json) -> dict[str, Any]:
    """A message without its content: what a block of it has to carry."""
    return {key: value for key, value in item.items() if key != "content" and value is not None}


def token_usage(counters: Any) -> Usage | None:
    """The counters of a ``usage`` table, cached input included; ``None`` if it holds none."""
    if not isinstance(counters, Mapping):
        return None
    given, made = counters.get("input_tokens_details"), counters.get("output_tokens_details")
    given = given if isinstance(given, Mapping) else {}
    made = made if isinstance(made, Mapping) else {}
    usage = Usage(
        input=_count(counters.get("input_tokens")),
        output=_count(counters.get("output_tokens")),
        cache_read=_count(given.get("cached_tokens")),
        cache_write=_count(given.get("cache_write_tokens")),
        reasoning=_count(made.get("reasoning_tokens")),
    )
    return None if usage == _NOTHING else usage


_NOTHING: Final = Usage()


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
