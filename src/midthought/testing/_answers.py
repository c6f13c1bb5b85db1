"""Which attempt answers which request: a list in order, or a function of the request.

Both give plans and say whether the next thing to play is a refused connect. Run in the loop's
thread only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeAlias

from ._errors import ScriptError
from ._plan import Plan
from ._record import RecordedRequest
from ._script import Attempt, check

#: Gets the request as recorded and its number (from 0), gives the reply. Runs in the server's
#: thread, so it must not block; what it raises is raised again when the upstream is closed.
Answer: TypeAlias = Callable[[RecordedRequest, int], Attempt]


class Answers(Protocol):
    """Where plans come from."""

    @property
    def refused_next(self) -> bool:
        """True if the next thing to play is a refused connect."""

    def pass_refusal(self) -> bool:
        """One refused connect is used up; False if it is the last entry, which stays."""

    def plan(self, request: RecordedRequest) -> Plan:
        """The reply to this request."""


class Scripted:
    """Attempts in order; the last one repeats."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self._plans = [_plan(attempt) for attempt in attempts]
        for number, follower in enumerate(self._plans[1:]):
            if follower.refused and self._plans[number].keep_alive:
                self._plans[number] = _plan(_closing(attempts[number]))
        self._next = 0

    @property
    def _current(self) -> Plan:
        return self._plans[min(self._next, len(self._plans) - 1)]

    @property
    def refused_next(self) -> bool:
        """True if the entry whose turn it is takes no request."""
        return self._current.refused

    def pass_refusal(self) -> bool:
        """Go on to the next entry; the last one stays."""
        if self._next >= len(self._plans) - 1:
            return False
        self._next += 1
        return True

    def plan(self, request: RecordedRequest) -> Plan:
        """The entry whose turn it is; refused ones that nobody met are passed over."""
        while self._current.refused and self.pass_refusal():
            pass
        plan = self._current
        self._next += 1
        return plan


class Called:
    """Attempts from a function."""

    refused_next = False

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def pass_refusal(self) -> bool:
        """Nothing to pass: a function is asked when a request is there."""
        return False

    def plan(self, request: RecordedRequest) -> Plan:
        """What the function answers, checked as any script."""
        attempt = self._answer(request, request.number)
        check([attempt])
        plan = _plan(attempt)
        if plan.refused:
            raise ScriptError(
                ["'connect_refused' takes no request; a function calls upstream.offline() instead"]
            )
        return plan


def _plan(attempt: Attempt) -> Plan:
    plan = attempt.compiled.plan
    assert plan is not None, "attempts are checked before they get here"
    return plan


def _closing(attempt: Attempt) -> Attempt:
    """The same, but the client is told not to keep the connection: it is to connect next."""
    headers = attempt.headers
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return replace(attempt, headers=[*pairs, ("connection", "close")])
