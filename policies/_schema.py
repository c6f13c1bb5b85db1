"""What a recovery policy may say: the frozen pydantic models behind every TOML file.

Structure and ranges are checked here; names that must exist elsewhere in the same policy (states,
backoffs, budgets) are checked in ``_checks``; files are found and merged in ``_loader``. Every
field says its unit, and the key reference in the docs is made of these lines. A table's own
defaults are the defaults of every place it stands in, so that a file that sets one key changes that
key only. Imports the vocabulary and the laying over of ``[[models]]`` entries; reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field

from ._content import (
    BlockRule,
    Blocks,
    Continuation,
    Instruct,
    InstructSeam,
    MediaRule,
    OtherRule,
    Prefill,
    Resume,
    ResumeSeam,
    Seam,
    ServerToolRule,
    TextRule,
    TextSeam,
    ThinkingRule,
    ToolRule,
    WholeRule,
)
from ._overrides import lay_over
from ._provider import (
    Auth,
    Cap,
    Classify,
    Feature,
    History,
    ModelOverride,
    Recap,
    RetryHint,
    Stream,
    TurnSettings,
    Wire,
)
from ._recovery import (
    Backoff,
    Budget,
    Clocks,
    Condition,
    Jitter,
    Limits,
    MachineTable,
    Rule,
    SharedLimits,
    State,
    Transition,
)
from ._table import Table
from ._vocabulary import FailureKind

__all__ = [
    "SCHEMA_VERSION",
    "Auth",
    "Backoff",
    "BlockRule",
    "Blocks",
    "Budget",
    "Cap",
    "Classify",
    "Clocks",
    "Condition",
    "Continuation",
    "Feature",
    "History",
    "Instruct",
    "InstructSeam",
    "Jitter",
    "Limits",
    "MachineTable",
    "MediaRule",
    "ModelOverride",
    "OtherRule",
    "Policy",
    "Prefill",
    "Recap",
    "Resume",
    "ResumeSeam",
    "RetryHint",
    "Rule",
    "Seam",
    "ServerToolRule",
    "SharedLimits",
    "State",
    "Stream",
    "TextRule",
    "TextSeam",
    "ThinkingRule",
    "ToolRule",
    "Transition",
    "TurnSettings",
    "WholeRule",
    "Wire",
]

SCHEMA_VERSION: Final = 1


class Policy(Table):
    """A resolved policy: everything the engine may decide about one provider."""

    schema_version: Literal[1] = SCHEMA_VERSION
    """Of this format; a file of a newer one is refused."""
    name: Annotated[str, Field(min_length=1)]
    """The file's own name; default: the file name without ``.toml``. Not inherited."""
    about: Recap = Recap()
    """For people. Not inherited."""
    dialect: str
    """Wire dialect: which module of ``providers/`` reads and writes it."""
    provider: str = ""
    """Name of the provider in records."""
    enabled: bool = True
    """``false``: streams are passed through and nothing is recovered."""
    base_url: str = ""
    """Where requests go, without the path."""
    path: str = ""
    """Path below the base URL; empty: the dialect's own."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with every request; never a key, which ``[auth]`` reads from the environment."""
    auth: Auth = Auth()
    """How the key is sent."""
    machine: MachineTable = MachineTable()
    """The state machine."""
    rules: tuple[Rule, ...] = ()
    """The recovery rules, in order."""
    exhaust: tuple[FailureKind, ...] = ()
    """Failure kinds that are left to end the turn on purpose."""
    fallback: tuple[str, ...] = ()
    """Where ``fallback`` goes, in order: models of this provider."""
    budgets: dict[str, Budget] = Field(default_factory=dict)
    """Counts that rules share, by name."""
    backoff: dict[str, Backoff] = Field(default_factory=dict)
    """Delays, by name."""
    limits: Limits = Limits()
    """Bounds of a turn."""
    clocks: Clocks = Clocks()
    """Time limits while waiting for upstream."""
    blocks: Blocks = Blocks()
    """What is kept of each kind of block, and when it is shown."""
    continuation: Continuation = Continuation()
    """How an interrupted reply goes on."""
    seam: Seam = Seam()
    """How two attempts' texts are joined."""
    classify: tuple[Classify, ...] = ()
    """What the provider's errors mean, first match first."""
    retry_hints: tuple[RetryHint, ...] = ()
    """Where a wait is told, first usable value first."""
    features: tuple[Feature, ...] = ()
    """How features of a request are recognised."""
    cap: Cap = Cap()
    """The output cap of a request."""
    stream: Stream = Stream()
    """How the stream is read."""
    turn: TurnSettings = TurnSettings()
    """The turn as a whole."""
    history: History = History()
    """The caller's own history."""
    wire: Wire = Wire()
    """Streams that are passed on to another client."""
    models: tuple[ModelOverride, ...] = ()
    """Settings for some models, first match only."""

    def for_model(self, model: str) -> Self:
        """The policy for one model: the first ``[[models]]`` entry that fits is laid over it.

        The result has no ``models``. It is made once per entry, so asking again is cheap. Raises
        ``PolicyError`` where an entry of a policy that was not loaded from a file is wrong.
        """
        if not self.models:
            return self
        entries = enumerate(self.models)
        index = next((i for i, entry in entries if entry.fits(model)), len(self.models))
        if index not in self._by_entry:
            entry = self.models[index] if index < len(self.models) else None
            self._by_entry[index] = lay_over(self, entry)
        return self._by_entry[index]

    @cached_property
    def _by_entry(self) -> dict[int, Self]:
        return {}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with some fields changed, not validated; what was made for models is forgotten."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("_by_entry", None)
        return copied
