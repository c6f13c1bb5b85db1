"""One turn on a real client: sync, asyncio and trio from one call, over real sockets.

``play`` drives the turn, checks the events' grammar, and gives back what a caller has. ``each`` is
called after every event and may cancel, abort, yield, break or raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio
from caller_view import CallerView

import midthought
from midthought.policies import Policy

__all__ = ["HOSTS", "Host", "Played", "play"]

Host = Literal["sync", "asyncio", "trio"]
HOSTS: tuple[Host, ...] = ("sync", "asyncio", "trio")

#: Called with each event and the running stream; ``False`` leaves the loop.
Each = Callable[[Any, Any], bool | None]


@dataclass
class Played:
    """What became of a turn."""

    view: CallerView
    events: list[Any] = field(default_factory=list)
    records: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    turn: Any = None
    call: Any = None
    """The prepared call, while and after it runs."""

    def records_of(self, name: str) -> list[Mapping[str, Any]]:
        """Fields of the records with this name."""
        return [fields for found, fields in self.records if found == name]

    @property
    def text(self) -> str:
        """Visible text."""
        return self.view.text

    @property
    def outcome(self) -> str:
        """As the last event says, else as the turn says."""
        finished = self.view.finished
        return str(finished.outcome if finished is not None else self.turn.outcome)

    @property
    def states(self) -> list[tuple[str, str, str]]:
        """Changes of state: source, trigger, state."""
        names = ("source", "trigger", "state")
        changes = (e for e in self.events if type(e).__name__ == "StateChanged")
        return [tuple(getattr(e, n) for n in names) for e in changes]


def play(
    host: Host,
    policy: Policy,
    url: str,
    request: Mapping[str, Any],
    *,
    each: Each | None = None,
    after: Callable[[], None] = lambda: None,
    choices: int = 1,
    played: Played | None = None,
    client: Any = None,
    **settings: Any,
) -> Played:
    """Run one turn to its end, or until ``each`` leaves it.

    ``after`` is called when the stream is left and its client is still open. ``played`` may be
    given to look at it from another thread; ``client`` to use one again (sync only); ``settings``
    go to the client.
    """
    played = played or Played(CallerView(choices=choices))
    settings.setdefault("api_key", "not-a-key")
    settings.setdefault("rng", lambda: 0.5)
    settings["on_record"] = lambda name, fields: played.records.append((name, fields))
    turn = _Turn(played, request, each, after)
    if host == "sync":
        own = client or midthought.Client(policy, base_url=url, **settings)
        try:
            turn.run(own)
        finally:
            if client is None:
                own.close()
    else:
        anyio.run(turn.arun, policy, url, settings, backend=host)
    return played


@dataclass
class _Turn:
    played: Played
    request: Mapping[str, Any]
    each: Each | None
    after: Callable[[], None]

    def run(self, client: midthought.Client) -> None:
        call = client.prepare(self.request)
        with client.stream(call) as stream:
            self.played.turn, self.played.call = stream.turn, call
            for event in stream:
                if not self._goes_on(event, stream):
                    break
        self.after()

    async def arun(self, policy: Policy, url: str, settings: dict[str, Any]) -> None:
        async with midthought.AsyncClient(policy, base_url=url, **settings) as client:
            call = client.prepare(self.request)
            async with client.stream(call) as stream:
                self.played.turn, self.played.call = stream.turn, call
                async for event in stream:
                    if not self._goes_on(event, stream):
                        break
            await anyio.to_thread.run_sync(self.after)

    def _goes_on(self, event: Any, stream: Any) -> bool:
        self.played.events.append(event)
        self.played.view.take(event)
        return self.each is None or self.each(event, stream) is not False
