"""The clocks of a turn: when is it too long? Plain arithmetic over times that the host gives.

The host's ``now`` stands still while the caller is thinking, so every clock here measures waiting.
"""

from __future__ import annotations

from typing import NamedTuple

from midthought.policies import Clocks as Settings

__all__ = ["Expired", "StreamClocks"]

_NEVER = float("inf")


class Expired(NamedTuple):
    """A clock that ran out."""

    clock: str
    limit_s: float
    before_content: bool


class StreamClocks:
    """Clocks of the open attempt; ``grow`` lengthens the next attempt's."""

    __slots__ = (
        "_factor",
        "_settings",
        "content",
        "grace",
        "last_byte",
        "opened",
        "progress",
        "responded",
        "sent",
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._factor = 1.0
        self.send(0.0)

    def send(self, now: float) -> None:
        """A request goes out: every clock starts anew."""
        self.sent = self.last_byte = self.progress = now
        self.responded = self.opened = self.content = False
        self.grace: float | None = None

    def grow(self) -> None:
        """The attempt was ended by a clock before any content: give the next one longer."""
        self._factor *= self._settings.growth

    @property
    def headers_s(self) -> float:
        """How long the response may take to begin, for this attempt."""
        return self._settings.headers_s * self._factor

    @property
    def liveness_s(self) -> float:
        """How long there may be no byte, for this attempt."""
        return self._settings.liveness_s * self._factor

    def _rows(self) -> tuple[tuple[str, float, float], ...]:
        s, f = self._settings, self._factor
        if self.grace is not None:
            return (("finish_grace_s", self.grace, s.finish_grace_s),)
        if not self.responded:
            return (("headers_s", self.sent, self.headers_s),)
        alive = ("liveness_s", self.last_byte, self.liveness_s)
        if not self.content:
            return (("first_content_s", self.sent, s.first_content_s * f), alive)
        return (("progress_s", self.progress, s.progress_s * f), alive)

    def deadline(self) -> float:
        """The next time at which one of them runs out."""
        if self.content and self.grace is None:  # the usual case, asked for after every read
            s, f = self._settings, self._factor
            return min(self.progress + s.progress_s * f, self.last_byte + s.liveness_s * f)
        return min((since + limit for _, since, limit in self._rows()), default=_NEVER)

    def expired(self, now: float) -> Expired | None:
        """The clock that has run out by ``now``, the one that did so first."""
        late = [(since + limit, name, limit) for name, since, limit in self._rows()]
        when, name, limit = min(late)
        return Expired(name, limit, not self.content) if when <= now else None
