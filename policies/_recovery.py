"""What a policy says about recovery: the machine, the rules, their limits and their waits.

Part of the schema; what must exist elsewhere in the same policy is checked in ``_checks``. Imports
the vocabulary only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ._table import Count, Seconds, Table
from ._vocabulary import Edit, FailureKind, Role, Stop

__all__ = [
    "Backoff",
    "Budget",
    "Clocks",
    "Condition",
    "Jitter",
    "Limits",
    "MachineTable",
    "Rule",
    "SharedLimits",
    "State",
    "Transition",
]


class State(Table):
    """One state of the machine; the engine acts on its role, so it may have any name."""

    name: Annotated[str, Field(min_length=1)]
    """Any name; records and diagrams show it."""
    role: Role
    """What the engine does there: follow a stream, assess, commit, wait, resume, ask, end."""
    outcome: Literal["completed", "exhausted", "aborted"] | None = None
    """For role ``final``: the outcome of a turn that ends here. Default: the state's name."""


class Transition(Table):
    """One row: in ``source``, on ``trigger``, if all guards in ``when`` say yes, go to ``dest``."""

    trigger: str
    """The past fact that fires it."""
    source: str
    """The state it starts from."""
    dest: str
    """A state, or ``=`` to stay."""
    when: tuple[str, ...] = ()
    """Guard names; ``not_`` before a name turns it round."""
    replace: bool = False
    """For the loader: the parent's rows of this cell (source, trigger) are dropped."""


class MachineTable(Table):
    """States and rows; a policy's rows go before its parent's rows of the same cell."""

    initial: str = "streaming"
    """The state a turn begins in."""
    states: tuple[State, ...] = ()
    """The states, merged by name."""
    transitions: tuple[Transition, ...] = ()
    """The rows; those of one cell (source, trigger) are tried in order, the last has no guard."""


class Condition(Table):
    """The facts a rule asks for; all that are given must hold, a list means any of these."""

    failure: tuple[FailureKind, ...] = ()
    """Kinds of failure."""
    stop: tuple[Stop, ...] = ()
    """Why the model stopped, where nothing failed."""
    phase: tuple[Literal["connect", "response", "stream"], ...] = ()
    """How far the attempt had come."""
    partial: bool | None = None
    """Commit would keep something of the turn."""
    attempt_visible: bool | None = None
    """Something of this attempt was released to the caller."""
    turn_visible: bool | None = None
    """Something of this turn was released to the caller."""
    continuing: bool | None = None
    """The attempt that ended was itself a continuation."""
    in_a_row: Annotated[int, Field(ge=1)] | None = None
    """At least so many failures of the same kind, one after the other."""
    code: tuple[str, ...] = ()
    """The provider's own error codes, or class names of transport exceptions."""
    status: tuple[int, ...] = ()
    """HTTP status."""
    scope: tuple[str, ...] = ()
    """Which limit it was (``day``, ``spend``), as a ``[[classify]]`` row says."""
    should_retry: bool | None = None
    """What the server said about a retry (``x-should-retry``)."""
    processed: tuple[Literal["yes", "no", "unknown"], ...] = ()
    """Whether the provider had worked on the request."""
    connection: tuple[Literal["new", "reused", "unknown"], ...] = ()
    """Whether the connection had carried a request before."""


class Rule(Table):
    """The first rule that matches, is legal and has budget left is taken."""

    name: Annotated[str, Field(min_length=1)]
    """Unique in the policy; records name it."""
    on: Condition
    """When it applies."""
    action: str
    """What is done: ``retry``, ``continue``, ``stop``, ``next_strategy`` … (see Words)."""
    edits: tuple[Edit, ...] = ()
    """More edits on the request, besides those the action's name stands for."""
    limit: Count | None = None
    """Most uses in one turn; none: as the budget says."""
    limit_s: Seconds | None = None
    """No use later than this after the first one of the turn."""
    budget: str | None = None
    """A budget shared with other rules."""
    backoff: str | None = None
    """Which ``[backoff.*]`` table says the wait; none: no wait."""
    cap: Literal["fresh", "remaining"] | Annotated[int, Field(ge=1)] = "remaining"
    """Output cap of the next request: the caller's, what is left of it, or a number of tokens."""
    hint: str | None = None
    """Said to the user when this rule ends a turn."""


class Budget(Table):
    """A count that several rules draw on; budgets add up, they never multiply."""

    limit: Count
    """Most uses in one turn, over all rules that draw on it."""


class Jitter(Table):
    """A share of the delay added at random: uniform in 0 .. ``up_to`` x delay."""

    up_to: Annotated[float, Field(ge=0, le=1)]
    """Share of the delay, 0 to 1."""


class Backoff(Table):
    """Delay before the n-th use: ``min(initial_s * factor ** (n - 1), max_s)``, then jitter."""

    initial_s: Seconds
    """First delay."""
    factor: Annotated[float, Field(ge=1, le=10)] = 2.0
    """Growth from one use to the next."""
    max_s: Seconds
    """Largest delay, before jitter."""
    jitter: Literal["none", "full", "equal", "decorrelated"] | Jitter = "none"
    """``full``: 0 to the delay; ``equal``: half to all of it; ``decorrelated``: grown at random
    from the delay before; ``{ up_to = 0.25 }``: up to a quarter more."""


class SharedLimits(Table):
    """Limits that the turns of one process share; carried by the host, all off by default."""

    gate: bool = False
    """One 429 closes (provider, key, model) for every turn until its time has come."""


class Limits(Table):
    """Bounds of a whole turn."""

    attempts: Annotated[int, Field(ge=1, le=1000)] = 20
    """Most upstream requests of one turn, whatever the rules still allow."""
    wait_s: Seconds = 600.0
    """Most that a turn waits between requests, all waits together."""
    extra_input_tokens: Count | None = None
    """Most input tokens that recovery may send again in a turn, as far as they are reported."""
    no_progress: Count = 2
    """So many continuations in a row that ended by themselves with nothing new; 0: never."""
    max_retry_after_s: Seconds = 60.0
    """A rule whose request would have to wait longer does not apply; ``retry_at`` says when."""
    retry_after_jitter: Annotated[float, Field(ge=0, le=1)] = 0.25
    """Added to a hint: uniform in 0 .. this x min(hint, 1 s)."""
    event_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024 * 1024
    """Largest single event of the stream."""
    held_bytes: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    """Most that may wait for its release."""
    block_bytes: Count = 0
    """A block larger than this is a runaway; 0: no bound."""
    shared: SharedLimits = SharedLimits()
    """Limits shared by the turns of one process."""


class Clocks(Table):
    """Armed only while we wait for upstream, never while the caller is thinking."""

    headers_s: Seconds = 120.0
    """Request sent, no response yet."""
    first_content_s: Seconds = 600.0
    """Request sent, no content yet."""
    liveness_s: Seconds = 300.0
    """No byte at all."""
    progress_s: Seconds = 600.0
    """No content, block start or usage growth; pings do not count."""
    growth: Annotated[float, Field(ge=1, le=10)] = 2.0
    """Factor on the next attempt's clocks, after a clock ended one without content."""
    finish_grace_s: Seconds = 2.0
    """After the stop fact: how long to wait for usage and the end marker."""
    hook_s: Seconds = 60.0
    """How long a host hook may take."""
    deadline_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Our time for the whole turn: upstream and waits."""
    wall_jump_s: Seconds = 30.0
    """A jump of the wall clock above this (sleep of the machine) counts as a stall."""
