"""The upstream of a simulation: for each request, when what arrives and how it ends.

Drawn from a fault model with a seeded source, one per turn, so that a turn is the same whatever the
others do. A ``Script`` is plain data: the simulator feeds it as events, tests play it as bytes.
"""

from __future__ import annotations

import math
import random
from typing import Literal, NamedTuple

from ._faults import Faults, Window

__all__ = ["CHARS_PER_TOKEN", "Ending", "Script", "World", "filler"]

#: The simulated reply is made of words of this length, white space included.
CHARS_PER_TOKEN = 5
_LONGEST = 65_536  # four hexadecimal digits each
_WORDS = "".join(f"{n:04x} " for n in range(_LONGEST))[: _LONGEST * CHARS_PER_TOKEN]


def filler(start: int, chars: int) -> str:
    """Text of ``chars`` characters without a word twice; ``start``: where it begins."""
    first = start * CHARS_PER_TOKEN % len(_WORDS)
    return (_WORDS[first:] + _WORDS)[:chars]


End = Literal["whole", "cut", "overloaded", "rate_limited", "server_error", "connect", "stall"]


class Ending(NamedTuple):
    """How an attempt ends."""

    kind: End
    status: int | None = None
    """HTTP status, where the request is refused before a stream."""
    retry_after_s: float | None = None


class Script(NamedTuple):
    """One attempt: tokens ``first`` up to ``last`` of the reply arrive, then the ending.

    Times are seconds after the request was sent.
    """

    first: int
    last: int
    opened_s: float
    ended_s: float
    ending: Ending
    tokens_per_s: float = 1.0

    @property
    def streams(self) -> bool:
        """A response with a body begins; else the request is refused, or never gets there."""
        return self.ending.status is None and self.ending.kind != "connect"

    def time_of(self, token: int) -> float:
        """When the tokens before ``token`` have arrived."""
        if token == self.last:
            return self.ended_s
        return self.opened_s + (token - self.first) / self.tokens_per_s

    def arrived(self, before_s: float) -> int:
        """Tokens up to which one have arrived before this time."""
        within = int((before_s - self.opened_s) * self.tokens_per_s) + 1
        upto = min(self.last, self.first + max(0, within))
        while upto > self.first and self.time_of(upto) >= before_s:
            upto -= 1
        return upto


class World:
    """Upstream as one turn meets it; ``started_s`` is the fleet's time at its beginning."""

    def __init__(self, faults: Faults, seed: int, turn: int) -> None:
        self._faults = faults
        self.random = random.Random(f"{seed}/{turn}")
        self.started_s = turn / faults.turns_per_s
        self.tokens = self._length()

    def _length(self) -> int:
        reply = self._faults.reply
        drawn = reply.tokens * math.exp(self.random.gauss(0.0, reply.spread))
        return max(1, min(reply.longest, round(drawn)))

    def text(self, first: int, last: int) -> str:
        """Tokens ``first`` up to ``last`` of the reply: each is another word and a space."""
        return _WORDS[first * CHARS_PER_TOKEN : last * CHARS_PER_TOKEN]

    @property
    def whole_s(self) -> float:
        """How long the turn takes if nothing breaks."""
        reply = self._faults.reply
        return reply.first_token_s + self.tokens / reply.tokens_per_s

    def attempt(self, now_s: float, first: int) -> Script:
        """What a request at ``now_s`` (after the turn's start) gets that goes on at token
        ``first``."""
        faults, reply = self._faults, self._faults.reply
        at = self.started_s + now_s
        refused = self._refusal(at)
        if refused is not None:
            return Script(first, first, 0.05, 0.05, refused)
        opened = reply.first_token_s
        last, ending = self.tokens, Ending("whole")
        hazards: tuple[tuple[float, End], ...] = (
            (faults.cut_per_token, "cut"),
            (faults.error_per_token, "overloaded"),
            (faults.stall_per_token, "stall"),
        )
        for hazard, kind in hazards:
            if hazard:
                place = first + int(self.random.expovariate(hazard))
                if place < last:
                    last, ending = place, Ending(kind)
        outage = self._next_outage(at + opened)
        if outage is not None:
            place = first + int((outage - at - opened) * reply.tokens_per_s)
            if place < last:
                last, ending = max(first, place), Ending("cut")
        speed = reply.tokens_per_s
        return Script(first, last, opened, opened + (last - first) / speed, ending, speed)

    def _refusal(self, at: float) -> Ending | None:
        faults = self._faults
        for window in faults.windows:
            if _inside(window, at) and self.random.random() < window.share:
                ending = _STATUS[window.kind]
                hint = window.retry_after_s if ending.status is not None else None
                return ending._replace(retry_after_s=hint)
        if faults.refuse_share and self.random.random() < faults.refuse_share:
            return Ending("rate_limited", 429, faults.refuse_retry_after_s)
        if faults.connect_share and self.random.random() < faults.connect_share:
            return Ending("connect")
        return None

    def _next_outage(self, at: float) -> float | None:
        starts = (_next_start(w, at) for w in self._faults.windows if w.breaks_streams)
        return min((start for start in starts if start is not None), default=None)


_STATUS = {
    "overloaded": Ending("overloaded", 529),
    "rate_limited": Ending("rate_limited", 429),
    "server_error": Ending("server_error", 500),
    "connect": Ending("connect"),
}


def _inside(window: Window, at: float) -> bool:
    since = at - window.first_s
    if since >= 0 and window.every_s is not None:
        since %= window.every_s
    return 0 <= since < window.length_s


def _next_start(window: Window, at: float) -> float | None:
    if at <= window.first_s:
        return window.first_s
    if window.every_s is None:
        return None
    return window.first_s + math.ceil((at - window.first_s) / window.every_s) * window.every_s
