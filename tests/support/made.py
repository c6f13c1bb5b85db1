"""Recordings that nobody recorded: texts that are hard to cut and to join, in both dialects.

For where the recorded replies are too kind: rows that repeat, scripts without spaces, long words.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from recordings import Recording
from scripted import ANTHROPIC, CHAT, Wire

__all__ = ["HARD", "REPEATING", "made"]

ROW = "| 0 | 0 |\n"
#: Where an exact continuation looks like a repeat of what was there.
REPEATING = {
    "table": "| a | b |\n|---|---|\n" + ROW * 9 + "The end.",
    "verses": "Row, row, row your boat,\nGently down the stream.\n" * 5,
    "code": "    total = 0\n    total += value\n    total += value\n" * 6 + "    return total\n",
    "numbers": ", ".join(str(n // 7) for n in range(90)),
    "dashes": "-" * 150 + "\nand then\n" + "-" * 150,
    "spaces": "x" + " " * 60 + "y" + " " * 60 + "z\n\n\n\n\n\n\nz",
    "json": '[{"id": 1, "ok": true}, ' + '{"id": 1, "ok": true}, ' * 8 + "{}]",
}
#: Where words, white space and characters are not what they seem.
HARD = {
    "japanese": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。暗い所にいた。",
    "thai": "ภาษาไทยเขียนติดกันโดยไม่มีช่องว่างระหว่างคำ ยกเว้นเมื่อจบประโยค",
    "emoji": "Family 👨‍👩‍👧‍👦 and flag 🏴󠁧󠁢󠁳󠁣󠁴󠁿, thumbs 👍🏽, and é with a combining accent: é.",
    "link": "See https://example.test/" + "".join(map(str, range(60))) + " for the rest of it.",
    "leading": "\n\n  Indented at first, then not.\nAnd a tab:\tthere.",
    "trailing": "Ends with a lot of white space.  \n\n   \n",
    "fence": "Here:\n```py\na = 1\n\nb = 2\n```\nand\n```sh\nls\n```\nDone, with ``` inside.",
    "quotes": 'He said "no \\ way", she \u201cyes\u201d; \u2028 ends a line, {"json": "\\u0041"}.',
    "nbsp": "Narrow\u202fspaces\u00a0and\u3000wide ones\u2003are white space too, aren't they?",
    "long words": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbaubeamte, ja.",
}


@dataclass(frozen=True)
class Made(Recording):
    """A text as a stream of one dialect."""

    text: str = ""
    form: Wire = ANTHROPIC

    @cached_property
    def data(self) -> bytes:
        """In pieces of 1 to 7 characters, as tokens are; always the same ones."""
        rng, pieces, at = random.Random(self.text), [], 0
        while at < len(self.text):
            size = rng.randrange(1, 8)
            pieces.append(self.text[at : at + size])
            at += size
        return self.form.reply(*pieces)


def made(texts: dict[str, str]) -> list[Recording]:
    """Each text in both dialects."""
    return [
        Made(
            name=f"{name} ({wire.name})",
            wire="anthropic" if wire is ANTHROPIC else "openai-chat",
            provider="made",
            model="made",
            features=frozenset({"text"}),
            file=Path(),
            text=text,
            form=wire,
        )
        for name, text in texts.items()
        for wire in (ANTHROPIC, CHAT)
    ]
