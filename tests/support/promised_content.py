"""The part of the checker about content: half calls (1), text at seams (2), history (7).

Imports nothing of the project.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arrived import is_prefix
from reply_parts import HIDDEN, Flat, decoded, flat_of

if TYPE_CHECKING:
    from promises import Run

__all__ = ["BrokenPromise", "hold", "no_half_call", "same_text", "valid_history"]

Message = Mapping[str, Any]


class BrokenPromise(AssertionError):
    """A promise did not hold; the message begins with its number."""


def hold(promise: int, holds: bool, message: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise BrokenPromise(f"promise {promise}: {message}")


# --- 1: no half tool call -------------------------------------------------------------------------


def no_half_call(run: Run) -> None:
    """Every call that was shown or sent back is one that the provider made, and whole."""
    said = {
        (part.id, part.name, _canonical(part.text))
        for part in run.recording.reply.parts
        if part.kind == "tool_use" and part.close is not None
    }
    for block in run.ran.view.blocks.values():
        if block.kind == "tool_use":
            hold(1, block.closed or block.void, f"call {block.name!r} was shown in part")
            call = (block.id, block.name, _canonical(block.joined("input")))
            hold(1, _was_said(said, *call), f"call {block.name!r} is no call of the provider")
    for number, sent in enumerate(run.ran.sent):
        for message in sent.body["messages"][1:]:
            for call in _calls(message):
                hold(1, _was_said(said, *call), f"request {number} holds a call {call[1]!r}")


def _canonical(text: str) -> str:
    return json.dumps(decoded(text), sort_keys=True)


def _was_said(said: set[tuple[Any, ...]], call_id: Any, name: Any, text: str) -> bool:
    # An id that upstream left out is made up.
    return any((i == call_id or i is None) and (n, t) == (name, text) for i, n, t in said)


def _calls(message: Message) -> Iterator[tuple[Any, Any, str]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if block["type"] == "tool_use":
            yield block["id"], block["name"], json.dumps(block["input"], sort_keys=True)
    for call in message.get("tool_calls") or ():
        yield call["id"], call["function"]["name"], _canonical(call["function"]["arguments"])
    if legacy := message.get("function_call"):
        yield None, legacy["name"], _canonical(legacy["arguments"])


# --- 7: history -----------------------------------------------------------------------------------


def valid_history(run: Run) -> None:
    """Both histories are taken by the strictest provider, and say what was shown."""
    view, clean = run.ran.view, run.ran.message
    for said in (run.ran.messages, [clean] if clean else []):
        messages = [*run.request["messages"], *said, *_answers(run, said)]
        faults = run.provider.faults({**run.ran.sent[0].body, "messages": messages})
        hold(7, not faults, f"the next request would be refused: {faults}")
        # Between two messages white space may be missing: no message may end with it.
        kept = "".join("".join(_texts(said)).split())
        hold(7, kept == "".join(view.text.split()), "the history is not what was shown")
    text = "".join(_texts([clean] if clean else []))
    hold(7, text in (view.text, view.solid), "the message is not what was shown")


def _answers(run: Run, said: list[Any]) -> list[dict[str, Any]]:
    """The caller's next turn: tools answered, or a user message."""
    calls = [call for message in said for call in _calls(message)]
    if run.lane.wire == "anthropic":
        results = [{"type": "tool_result", "tool_use_id": c[0], "content": "ok"} for c in calls]
        return [{"role": "user", "content": results or "and then?"}]
    if said and said[-1].get("function_call"):
        return [{"role": "function", "name": calls[0][1], "content": "ok"}]
    tools = [{"role": "tool", "tool_call_id": call[0], "content": "ok"} for call in calls]
    return tools or [{"role": "user", "content": "and then?"}]


def _texts(messages: list[Any]) -> Iterator[str]:
    for message in messages:
        content = message["content"] if message["role"] == "assistant" else None
        if isinstance(content, str):
            yield content
        for block in content if isinstance(content, list) else ():
            if block["type"] == "text":
                yield block["text"]


# --- 2: no text twice, none lost ------------------------------------------------------------------


def same_text(run: Run) -> None:
    """What was shown in the end is what was said: exactly, or to a known place."""
    view, reply, last = run.ran.view, run.recording.reply, run.last
    said = _kept(flat_of(reply.whole), reply.stop)
    _thoughts(run)
    if view.finished.outcome != "completed":
        hold(2, is_prefix(view.flat, said), _differ(view.flat, said))
    elif run.ended_by_calls:
        one = len(run.ran.sent) == 1
        right = view.flat in run.arrived.up_to_calls() if one else is_prefix(view.flat, said)
        hold(2, right, f"after a cut behind calls: {str(view.flat)[:200]}")
    elif run.arrived.closed_calls and run.takes_half_turns and len(run.ran.sent) > 1:
        hold(4, False, "whole calls had arrived, but more was asked for")
    elif last is run.arrived:
        # The stop fact had arrived; content after it may have been cut.
        seen = [_kept(flat_of(s), reply.stop) for s in (last.least, last.most)]
        hold(2, view.flat in seen, _differ(view.flat, said))
    else:
        _joined(run, said, cut=last is not None)


def _joined(run: Run, said: Flat, *, cut: bool) -> None:
    """At every seam the text goes on where it was."""
    view = run.ran.view
    if run.lane.variant == "no_leading_space":
        # White space that the model leaves out where it is there already is nobody's loss.
        hold(2, _words(view.flat) == _words(said) or cut, _differ(view.flat, said))
        last, shown = run.upstream.played[-1], run.ran.sent[-1].text
        rest = run.recording.reply.text[last.begins_at :]
        if last.kind == "instruct" and not cut:
            rest = rest[_overlap(shown, rest) :]
            hold(2, view.text == shown + rest, "the seam is not as it was played")
        return
    right = is_prefix(view.flat, said) if cut else view.flat == said
    hold(2, right, _differ(view.flat, said))


def _kept(flat: Flat, stop: str | None) -> Flat:
    """Under a length stop, a call that is not whole is dropped."""
    if stop in ("max_tokens", "length"):
        return [i for i in flat if i[0] != "tool_use" or isinstance(i[3], dict)]
    return flat


def _overlap(shown: str, rest: str) -> int:
    blank = len(shown) - len(shown.rstrip())
    head = rest[: len(rest) - len(rest.lstrip())]
    return max(n for n in range(min(blank, len(head)) + 1) if shown.endswith(head[:n]))


def _words(flat: Flat) -> list[Any]:
    return [(i[0], i[1].split()) if i[0] == "text" else i for i in flat if str(i[1]).strip()]


def _differ(seen: Flat, said: Flat) -> str:
    for one, other in zip(seen, said, strict=False):
        if one != other and one[0] == other[0] == "text":
            pairs = enumerate(zip(one[1], other[1], strict=False))
            short = min(len(one[1]), len(other[1]))
            at = next((i for i, (a, b) in pairs if a != b), short)
            around = [text[max(0, at - 20) : at + 30] for text in (one[1], other[1])]
            return f"text differs at {at}: {around[0]!r}, said was {around[1]!r}"
        if one != other:
            return f"seen {str(one)[:120]}, said was {str(other)[:120]}"
    return f"{len(seen)} things were seen, {len(said)} were said"


def _thoughts(run: Run) -> None:
    """Thinking that was not taken back is whole, and as it was said."""
    if run.recording.wire != "anthropic":
        return
    said = {(p.text, p.signature) for p in run.recording.reply.parts if p.kind in HIDDEN}
    for block in run.ran.view.valid:
        if block.kind == "thinking":
            thought = (block.joined("text"), block.joined("signature"))
            hold(2, thought in said, "thinking that was not said so")
