"""`{"repeat": t, "n": k, "as": …}`: long deltas in the wire dialect of the case.

The events go into the block that is open: its index, ids and sequence number are read from the
bytes that the script sent before. Knows just enough of each dialect to write a delta, and imports
nothing of ours: a kit that shared code with what it tests would share its mistakes.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Event = dict[str, Any]


class NotInDialect(ValueError):
    """The dialect has no such delta."""


def _dump(event: Event) -> str:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False)


def _named(event: Event) -> bytes:
    return f"event: {event['type']}\ndata: {_dump(event)}\n\n".encode()


def _unnamed(event: Event) -> bytes:
    return f"data: {_dump(event)}\n\n".encode()


def _events(sent: bytes) -> list[Event]:
    """The JSON objects in the `data:` lines so far; a line that is none of them is skipped."""
    found: list[Event] = []
    for line in sent.splitlines():
        if line.startswith(b"data:"):
            try:
                event = json.loads(line[5:])
            except ValueError:
                continue
            if isinstance(event, dict):
                found.append(event)
    return found


def _last(events: Sequence[Event], key: str, default: Any) -> Any:
    return next((event[key] for event in reversed(events) if key in event), default)


def _anthropic(events: Sequence[Event], kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
    started = [event for event in events if event.get("type") == "content_block_start"]
    key = "text" if kind == "text_delta" else "partial_json"
    for piece in pieces:
        yield _named(
            {
                "type": "content_block_delta",
                "index": _last(started, "index", 0),
                "delta": {"type": kind, key: piece},
            }
        )


def _open_call(events: Sequence[Event]) -> int:
    """The index of the tool call that a chat stream is writing."""
    calls = [
        call
        for event in events
        for choice in event.get("choices") or ()
        for call in (choice.get("delta") or {}).get("tool_calls") or ()
    ]
    return int(_last(calls, "index", 0))


def _openai_chat(events: Sequence[Event], kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
    keys = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    head = {key: _last(events, key, default) for key, default in keys.items()}
    call = _open_call(events)
    for piece in pieces:
        delta: Event = (
            {"content": piece}
            if kind == "text_delta"
            else {"tool_calls": [{"index": call, "function": {"arguments": piece}}]}
        )
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        yield _unnamed({**head, "choices": [choice]})


def _openai_responses(events: Sequence[Event], kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
    text = kind == "text_delta"
    added = [event for event in events if event.get("type") == "response.output_item.added"]
    item_id = added[-1].get("item", {}).get("id", "item_0") if added else "item_0"
    number = _last(events, "sequence_number", -1)
    for piece in pieces:
        number += 1
        yield _named(
            {
                "type": f"response.{'output_text' if text else 'function_call_arguments'}.delta",
                "sequence_number": number,
                "output_index": _last(added, "output_index", 0),
                **({"content_index": 0} if text else {}),
                "item_id": item_id,
                "delta": piece,
            }
        )


def _gemini(events: Sequence[Event], kind: str, pieces: Sequence[str]) -> Iterator[bytes]:
    if kind != "text_delta":
        raise NotInDialect("gemini sends a call's input whole, so it has no input_json_delta")
    for piece in pieces:
        content = {"role": "model", "parts": [{"text": piece}]}
        event = {"candidates": [{"index": 0, "content": content}]}
        yield _unnamed(event).replace(b"\n", b"\r\n")


DIALECTS: dict[str, Callable[[Sequence[Event], str, Sequence[str]], Iterator[bytes]]] = {
    "anthropic": _anthropic,
    "gemini": _gemini,
    "openai-chat": _openai_chat,
    "openai-responses": _openai_responses,
}

#: How `repeat` may be written, and how the k pieces are cut: one long event, or k short ones.
PIECES: dict[str, Callable[[str, int], list[str]]] = {
    "text_delta": lambda text, times: [text * times],
    "input_json_delta": lambda text, times: [text] * times,
}


def repeat(dialect: str, kind: str, text: str, times: int, sent: bytes) -> list[bytes]:
    """The events of one repeat step; raises `NotInDialect` where the dialect has no such delta."""
    if dialect not in DIALECTS:
        raise NotInDialect(
            f"repeat is written in {', '.join(sorted(DIALECTS))}; there is no dialect {dialect!r}"
        )
    return list(DIALECTS[dialect](_events(sent), kind, PIECES[kind](text, times)))
