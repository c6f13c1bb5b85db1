"""Words, counters and errors of the Chat dialect, as servers state them.

Rule: pure functions and tables of one frame's JSON; no state, no events. Imports no IO.
"""

from __future__ import annotations

from typing import Any, Final

from midthought.policies import Stop
from midthought.statemachine import Usage

from ._dialect import ErrorFacts
from ._http_errors import error_facts
from ._json import decode_json
from ._openai_chat_frames import Chunk
from ._sse import Frame

__all__ = [
    "CUTTING",
    "NO_USAGE",
    "STOPS",
    "chunk_error",
    "stated",
    "usage_of",
    "whole",
    "why",
    "word",
]

#: The specification's words of ``finish_reason``, and the one for an error that many servers use.
#: Other servers' words are the policy's ``[stream] stops`` and ``failures``; those come first.
STOPS: Final[dict[str, Stop]] = {
    "stop": Stop.end,
    "length": Stop.length,
    "tool_calls": Stop.tool_use,
    "function_call": Stop.tool_use,
    "content_filter": Stop.safety,
    "error": Stop.error,
}
#: Stops in the middle of what was being written.
CUTTING: Final = frozenset({Stop.length, Stop.context_full, Stop.safety, Stop.pause})
_NO_REASON: Final = frozenset({"", "null"})


def whole(frame: Frame) -> Any:
    """The whole JSON of a frame that was read in part; ``None`` if it cannot be read."""
    try:
        return decode_json(frame.data or b"")
    except ValueError:
        return None


def chunk_error(chunk: Chunk, frame: Frame, document: dict[str, Any] | None) -> ErrorFacts | None:
    """The error that this chunk states anywhere."""
    if chunk.error:
        return _facts_of(whole(frame) if document is None else document)
    groq = chunk.x_groq
    if isinstance(groq, dict) and groq.get("error"):
        return _facts_of({"error": groq["error"]})
    if not chunk.choices:
        if chunk.choices is None and not chunk.usage:
            return error_facts(whole(frame) if document is None else document)
        return None
    for choice in chunk.choices:
        if choice.error:
            return _facts_of({"error": choice.error})
    return None


def _facts_of(body: Any) -> ErrorFacts:
    return error_facts(body) or ErrorFacts(body=body)


def stated(data: bytes) -> ErrorFacts:
    """The error in an ``error`` event or field: JSON of any shape, or plain words."""
    try:
        body = decode_json(data)
    except ValueError:
        return ErrorFacts(message=str(data, "utf-8", "replace").strip())
    return error_facts(body) or error_facts(body, 500) or ErrorFacts(body=body)


def why(data: bytes, error: ValueError) -> str:
    """Why a data field cannot be read, without a word of it."""
    if isinstance(error, UnicodeDecodeError):
        return f"{len(data)} bytes that are not UTF-8 at byte {error.start}"
    place = getattr(error, "pos", None)
    return f"{len(data)} bytes that are not JSON" + ("" if place is None else f" at {place}")


def word(reason: Any) -> str:
    """A finish reason as a word; empty where there is none (null, ``""``, ``"null"``, 0)."""
    if not reason:
        return ""
    if isinstance(reason, str):
        return "" if reason in _NO_REASON else reason
    return str(reason) if isinstance(reason, int | float) and reason is not True else ""


NO_USAGE: Final = Usage()


def _number(*values: Any) -> int | None:
    for value in values:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, float) and value.is_integer():
            return int(value)
    return None


def usage_of(usage: dict[str, Any]) -> Usage:
    """Counters under the names that servers give them; the specification's first."""
    prompt = usage.get("prompt_tokens_details")
    prompt = prompt if isinstance(prompt, dict) else {}
    completion = usage.get("completion_tokens_details")
    completion = completion if isinstance(completion, dict) else {}
    get = usage.get
    return Usage(
        input=_number(get("prompt_tokens")),
        output=_number(get("completion_tokens")),
        cache_read=_number(
            prompt.get("cached_tokens"),
            get("prompt_cache_hit_tokens"),
            get("cached_tokens"),
            get("num_cached_tokens"),
            get("cache_read_input_tokens"),
        ),
        cache_write=_number(prompt.get("cache_write_tokens"), get("cache_creation_input_tokens")),
        reasoning=_number(completion.get("reasoning_tokens"), get("reasoning_tokens")),
    )
