"""The turns of the demo as data: what is asked, the uncut reply, and where each stream breaks.

A break is written as the last characters that still get through, so that a reader sees the cut in
the text. Imports nothing of midthought.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["MODEL", "SCENES", "Break", "Call", "How", "Part", "Scene", "Text"]

#: Of the models that are told to go on by a user message; it appears in the requests only.
MODEL = "claude-sonnet-5"

How = Literal["reset", "close", "overloaded", "silence"]


@dataclass(frozen=True)
class Text:
    """A text block."""

    text: str


@dataclass(frozen=True)
class Call:
    """A tool call; its input travels as JSON text, a few characters at a time."""

    name: str
    input: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The input as it is written on the wire."""
        return json.dumps(self.input)


Part = Text | Call


@dataclass(frozen=True)
class Break:
    """One cut of a scene."""

    after: str
    """The last characters that are sent; unique in the reply."""
    how: How
    says: str
    """What the upstream does, for the audience."""
    whole: bool = False
    """The block is closed before the cut: only the end of the message is missing."""


@dataclass(frozen=True)
class Scene:
    """One turn."""

    title: str
    prompt: str
    reply: Sequence[Part]
    breaks: Sequence[Break]
    tools: Sequence[str] = ()

    def place(self, cut: Break) -> tuple[int, int]:
        """Which part of the reply a break is in, and after how many of its characters."""
        for number, part in enumerate(self.reply):
            at = part.text.find(cut.after)
            if at >= 0:
                return number, at + len(cut.after)
        raise ValueError(f"no part of the scene {self.title!r} has the end of its break")

    @property
    def text(self) -> str:
        """All text of the uncut reply."""
        return "".join(part.text for part in self.reply if isinstance(part, Text))

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """Name and input of each tool call of the uncut reply."""
        return [(part.name, dict(part.input)) for part in self.reply if isinstance(part, Call)]


SCENES: Sequence[Scene] = (
    Scene(
        "one long answer, broken three times",
        "Why does the sea come and go?",
        [
            Text(
                "A tide is the sea leaning after the moon. Twice a day the water climbs the "
                "harbour wall, rests for a while, and walks back out, and the boats learn to "
                "stand in the mud. The moon does not pull the water up; it pulls the near side "
                "of the Earth a little harder than the middle, and the middle a little harder "
                "than the far side, so the sea is stretched both ways at once. The Earth then "
                "turns underneath the two bulges, and every coast meets both of them in a day."
            )
        ],
        [
            Break("water climbs the harb", "reset", "resets the connection inside 'harb|our'"),
            Break("learn to stand", "overloaded", "sends overloaded_error inside its 200 stream"),
            Break("middle a litt", "silence", "goes silent inside 'litt|le', connection open"),
        ],
    ),
    Scene(
        "a tool call, cut in half",
        "When is high water in Brest today?",
        [
            Text("I will look that up in the tide table."),
            Call("get_tides", {"harbour": "Brest", "day": "today", "unit": "m"}),
        ],
        [Break('"harbour": "Br', "close", "closes the stream inside the input of get_tides")],
        tools=["get_tides"],
    ),
    Scene(
        "a tool call that arrived whole before the cut",
        "Open the lock gate.",
        [
            Text("The water is level on both sides, so I open it now."),
            Call("open_gate", {"gate": 2}),
        ],
        [Break('{"gate": 2}', "reset", "resets the connection before the stop reason", whole=True)],
        tools=["open_gate"],
    ),
)
