"""Blocks of a reply as input items, as the Responses API takes them back.

What it asks (provider facts 2.3; Vercel ai #7099, continue #8933 and #11994, OpenHands
software-agent-sdk #1754, hermes-agent #102282):

    reasoning            signed (encrypted_content), and only before an item that is whole
    ids                  an item whose id is known may not come without its reasoning, so without
                         that the id goes, or the item where it cannot do without; but a call that
                         the caller has stays, whatever comes of it
    message              whole: with id and status, in the place after its reasoning; partial, or
                         joined of two attempts: neither
    blank text           left out
    program              only with its output, or with the calls that it made
    custom tool input    as it came; function input is JSON, empty input ``{}``

Imports no IO.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Block

from ._json import decode_json
from ._request import NOT_EXECUTED

__all__ = ["answer", "history_items", "without_reasoning"]

Json = dict[str, Any]

#: Items that the API takes without an id (openai 3.57.0, types/responses/response_input_item.py;
#: for local_shell_call codex, which sends it so).
_ID_OPTIONAL: Final = frozenset(
    {
        "apply_patch_call",
        "compaction",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "message",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)
#: Items that say nothing of the reply: alone they are not worth going on from.
_SETTING: Final = frozenset({"mcp_list_tools"})
#: A 1 x 1 picture: an answer to a computer call can be nothing but a screenshot.
_NO_SCREEN: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNgAAAAAgAB5Sfe"
    "/AAAAABJRU5ErkJggg=="
)


class _Piece(msgspec.Struct):
    """An input item in the making."""

    item: Json
    attempt: int
    whole: bool = True
    needs: str | None = None
    """The reasoning item that it belongs to."""
    called: bool = False
    """The caller is to answer it."""


def history_items(blocks: Sequence[Block], policy: Policy) -> list[Json]:
    """The input items that these blocks make; empty if nothing of them may stand in a history."""
    pieces: list[_Piece] = []
    for block in blocks:
        piece = _CONVERT.get(block.kind, _verbatim)(block, policy)
        if piece is None:
            continue
        if pieces and _same_message(pieces[-1], piece):
            pieces[-1] = _joined(pieces[-1], piece)
        else:
            pieces.append(piece)
    items = _bound(_paired_reasoning(_ran(pieces)))
    return [] if all(item.get("type") in _SETTING for item in items) else items


# --- one block, by its kind; ``None`` where it may not stand in a history ------------------------


def _text(block: Block, policy: Policy) -> _Piece | None:
    if not block.text.strip():
        return None
    if block.kind == "refusal":
        part: Json = {"type": "refusal", "refusal": block.text}
    else:
        cited = [decode_json(one.encode()) for one in block.citations] if block.closed else []
        part = {"type": "output_text", "text": block.text, "annotations": cited}
    data = block.data or {}
    whole = (
        block.closed and data.get("status") == "completed" and data.get("attempt") == block.attempt
    )
    item: Json = {key: data[key] for key in ("id", "phase", "status") if key in data}
    item |= {"type": "message", "role": "assistant", "content": [part]}
    return _Piece(item, block.attempt, whole, block.parent)


def _thinking(block: Block, policy: Policy) -> _Piece | None:
    rule = policy.blocks.thinking.closed
    if not block.closed or rule == "discard" or (rule == "keep_if_signed" and not block.signature):
        return None
    item = dict(block.data or {"summary": []})
    if block.signature:
        item["encrypted_content"] = block.signature
    return _Piece({**item, "type": "reasoning"}, block.attempt)


def _call(block: Block, policy: Policy) -> _Piece | None:
    data = dict(block.data or {"type": "function_call"})
    wire = data.get("type")
    if wire in ("function_call", "custom_tool_call"):
        data |= {"call_id": block.id or "", "name": block.name or ""}
    if wire == "function_call":
        data["arguments"] = block.text.strip() or "{}"
        data["status"] = "completed"
    elif wire == "custom_tool_call":
        data["input"] = block.text
        data.pop("status", None)
    return _Piece(data, block.attempt, needs=block.parent, called=True)


def _verbatim(block: Block, policy: Policy) -> _Piece | None:
    if not block.closed or not block.data:
        return None
    return _Piece(dict(block.data), block.attempt, needs=block.parent)


_CONVERT: Final = {
    "text": _text,
    "refusal": _text,
    "thinking": _thinking,
    "tool_use": _call,
}


# --- what items ask of each other ----------------------------------------------------------------


def _same_message(last: _Piece, piece: _Piece) -> bool:
    """Parts of one message; parts of a message that was never done have its id too."""
    named = piece.item.get("id")
    return (
        last.item.get("type") == piece.item.get("type") == "message"
        and named is not None
        and (named, piece.attempt) == (last.item.get("id"), last.attempt)
    )


def _joined(last: _Piece, piece: _Piece) -> _Piece:
    # Only the last part of a message carries what its end said.
    content = [*last.item["content"], *piece.item["content"]]
    return msgspec.structs.replace(piece, item={**piece.item, "content": content})


def _ran(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Without programs that neither ended nor called anything: nobody could answer them."""
    known = {
        piece.item.get("call_id") for piece in pieces if piece.item.get("type") == "program_output"
    }
    for piece in pieces:
        caller = piece.item.get("caller")
        if isinstance(caller, Mapping):
            known.add(caller.get("caller_id"))
    return [
        piece
        for piece in pieces
        if piece.item.get("type") != "program" or piece.item.get("call_id") in known
    ]


def _paired_reasoning(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Without reasoning that no whole item of its attempt follows."""
    kept: list[_Piece] = []
    for piece in reversed(pieces):
        if piece.item.get("type") == "reasoning":
            after = kept[-1] if kept else None
            if after is None or not after.whole or after.attempt != piece.attempt:
                continue
        kept.append(piece)
    kept.reverse()
    return kept


def _bound(pieces: Iterable[_Piece]) -> list[Json]:
    """The items, without the ids that bind them to reasoning which is not there."""
    items: list[Json] = []
    reasons: set[Any] = set()
    for piece in pieces:
        item = piece.item
        if item["type"] == "reasoning":
            reasons.add(item.get("id"))
        elif not piece.whole or (piece.needs is not None and piece.needs not in reasons):
            unbound = _unbound(item)
            if unbound is None and not piece.called:
                continue
            item = unbound or item
        items.append(item)
    return items


def _unbound(item: Mapping[str, Any]) -> Json | None:
    """The item without its id; ``None`` if it needs one. A message says no status without one."""
    if item.get("type", "message") not in _ID_OPTIONAL:
        return None
    without = ("id", "status") if item.get("type") == "message" else ("id",)
    return {key: value for key, value in item.items() if key not in without}


def without_reasoning(items: Iterable[Any]) -> list[Any]:
    """Input items without reasoning, and without the ids that bind other items to it."""
    found: list[Any] = []
    for item in items:
        kind = item.get("type") if isinstance(item, Mapping) else None
        if kind == "reasoning":
            continue
        if isinstance(item, Mapping) and "id" in item:
            item = _unbound(item)
        if item is not None:
            found.append(item)
    return found


# --- calls that nobody ran -----------------------------------------------------------------------


#: Per call: the item that answers it, its key for the call's id, and what it says.
_ANSWERS: Final[dict[str, tuple[str, str, Json]]] = {
    "function_call": ("function_call_output", "call_id", {"output": NOT_EXECUTED}),
    "custom_tool_call": ("custom_tool_call_output", "call_id", {"output": NOT_EXECUTED}),
    "local_shell_call": ("local_shell_call_output", "id", {"output": NOT_EXECUTED}),
    "shell_call": (
        "shell_call_output",
        "call_id",
        {
            "output": [
                {"stdout": "", "stderr": NOT_EXECUTED, "outcome": {"type": "exit", "exit_code": 1}}
            ]
        },
    ),
    "apply_patch_call": (
        "apply_patch_call_output",
        "call_id",
        {"status": "failed", "output": NOT_EXECUTED},
    ),
    "computer_call": (
        "computer_call_output",
        "call_id",
        {"output": {"type": "computer_screenshot", "image_url": _NO_SCREEN}},
    ),
    "mcp_approval_request": (
        "mcp_approval_response",
        "approval_request_id",
        {"approve": False, "reason": NOT_EXECUTED},
    ),
    "tool_search_call": (
        "tool_search_output",
        "call_id",
        {"execution": "client", "status": "completed", "tools": []},
    ),
}


def answer(call: Block) -> Json:
    """The output item that answers this call as interrupted and not executed."""
    wire = str((call.data or {}).get("type"))
    answered_by, key, says = _ANSWERS.get(wire, _ANSWERS["function_call"])
    return {"type": answered_by, key: call.id or "", **says}
