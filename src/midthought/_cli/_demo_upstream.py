"""The upstream of the demo: a scripted model behind a real socket that breaks where a scene says.

It knows one reply by heart and goes on from whatever assistant message the request ends with, as a
model would. So nothing but the request decides what is written next: a partial that came back with
a character too many or too few gives another text, and the demo fails.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from midthought.testing import Attempt, RecordedRequest, Step

from ._demo_scenes import Break, Call, How, Part, Scene, Text

__all__ = ["ScriptedModel"]

Json = Mapping[str, Any]

_ENDS: dict[How, Sequence[Step]] = {
    "reset": [{"fault": "rst"}],
    "close": [{"fault": "fin"}],
    "silence": [{"fault": "stall"}],
    "overloaded": [
        "event: error\ndata: "
        '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    ],
}


class ScriptedModel:
    """The answering function of a ``FaultyUpstream``; ``pace_s`` is the time between two pieces."""

    def __init__(self, scenes: Sequence[Scene], pace_s: float) -> None:
        self._scenes = {scene.prompt: scene for scene in scenes}
        self._pace_s = pace_s
        self._asked: Counter[str] = Counter()

    def __call__(self, request: RecordedRequest, number: int) -> Attempt:
        """The reply to this request, up to the scene's next break."""
        body = request.json()
        scene = self._scenes[body["messages"][0]["content"]]
        asked = self._asked[scene.prompt]
        self._asked[scene.prompt] += 1
        cut = scene.breaks[asked] if asked < len(scene.breaks) else None
        tokens = len(request.body) // 4
        return Attempt(list(self._steps(scene, cut, _written(body["messages"]), tokens)))

    def _steps(
        self, scene: Scene, cut: Break | None, written: str, input_tokens: int
    ) -> Iterator[Step]:
        yield _start(input_tokens)
        output_tokens = 0
        stop_part, stop_at = scene.place(cut) if cut is not None else (len(scene.reply), 0)
        for index, (number, part, begin) in enumerate(_rest(scene, written)):
            yield _event("content_block_start", index=index, content_block=_opening(part))
            end = stop_at if number == stop_part else len(part.text)
            for piece in _pieces(part.text[begin:end]):
                output_tokens += 1
                yield {"wait": self._pace_s}
                yield _event("content_block_delta", index=index, delta=_delta(part, piece))
            if number != stop_part or (cut is not None and cut.whole):
                yield _event("content_block_stop", index=index)
            if cut is not None and number == stop_part:
                yield from _ENDS[cut.how]
                return
        reason = "tool_use" if scene.calls else "end_turn"
        yield _event(
            "message_delta",
            delta={"stop_reason": reason, "stop_sequence": None},
            usage={"output_tokens": output_tokens},
        )
        yield _event("message_stop")


def _written(messages: Sequence[Json]) -> str:
    """Text of the last assistant message, which is where the reply goes on."""
    answers = [message["content"] for message in messages if message["role"] == "assistant"]
    if not answers:
        return ""
    if isinstance(answers[-1], str):
        return answers[-1]
    return "".join(block.get("text", "") for block in answers[-1])


def _rest(scene: Scene, written: str) -> Iterator[tuple[int, Part, int]]:
    """What is left to write: number of the part, the part, and where to begin in it.

    Text that is not the beginning of the reply gets the reply from its start, as a model that
    does not know what it is to go on with would give.
    """
    rest = len(written) if scene.text.startswith(written) else 0
    for number, part in enumerate(scene.reply):
        begin = min(rest, len(part.text)) if isinstance(part, Text) else 0
        rest -= begin
        if begin < len(part.text):
            yield number, part, begin


def _pieces(text: str) -> list[str]:
    """Pieces of a few characters, as tokens are; a space belongs to the word after it."""
    return re.findall(r"\s*\S{1,5}|\s+$", text)


def _opening(part: Part) -> Json:
    if isinstance(part, Call):
        return {"type": "tool_use", "id": f"toolu_{part.name}", "name": part.name, "input": {}}
    return {"type": "text", "text": ""}


def _delta(part: Part, piece: str) -> Json:
    if isinstance(part, Call):
        return {"type": "input_json_delta", "partial_json": piece}
    return {"type": "text_delta", "text": piece}


def _start(input_tokens: int) -> str:
    message: Json = {
        "id": "msg_demo",
        "type": "message",
        "role": "assistant",
        "model": "demo",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": 1},
    }
    return _event("message_start", message=message)


def _event(name: str, **fields: Any) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n"
