"""What a policy says about a provider: its errors, hints, requests, stream and models.

Part of the schema. Imports the vocabulary only.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ._table import Json, Pattern, Seconds, Table
from ._vocabulary import FailureKind, Stop

__all__ = [
    "Auth",
    "Cap",
    "Classify",
    "Feature",
    "History",
    "ModelOverride",
    "Recap",
    "RetryHint",
    "Stream",
    "TurnSettings",
    "Wire",
]


class Classify(Table):
    """Which facts mean which failure kind; the first row whose every given fact holds."""

    kind: FailureKind
    """What it means."""
    status: tuple[int, ...] = ()
    """HTTP status, or the status that an error in the stream names."""
    code: tuple[str, ...] = ()
    """Any code or type string of the error body, compared without case."""
    message: Pattern | None = None
    """Bounded regular expression, searched without case in the error text."""
    exception: tuple[str, ...] = ()
    """Class names of the transport's exception, as ``ReadError`` or ``httpx.ReadError``."""
    h2_code: tuple[str, ...] = ()
    """Names of HTTP/2 error codes (``REFUSED_STREAM``)."""
    content_type: tuple[str, ...] = ()
    """Beginnings of the content type."""
    phase: tuple[Literal["connect", "response", "stream"], ...] = ()
    """How far the attempt had come."""
    scope: str | None = None
    """Set on the failure: which limit it was (``day``, ``minute``, ``spend``)."""
    processed: Literal["yes", "no", "unknown"] | None = None
    """Set on the failure: whether the provider worked on the request."""
    source: str | None = None
    """Where the fact comes from."""


class RetryHint(Table):
    """One place where a wait may be told; the first that holds a usable value wins."""

    header: str | None = None
    """Response header."""
    json_path: str | None = None
    """Dotted path in the error body."""
    message: Pattern | None = None
    """Bounded regular expression over the error text; its groups joined are the value."""
    unit: Literal["ms", "s", "s_or_date", "duration", "suffix", "epoch_ms", "epoch_s"] = "s"
    """What a bare number is; ``duration`` and ``suffix`` name their units (``39s``, ``20 ms``),
    ``epoch_*`` is a point in time."""


class Feature(Table):
    """When a request counts as having a feature."""

    feature: str
    """A name of the list below."""
    path: str | None = None
    """Dotted path in the request; none: always."""
    equals: tuple[Any, ...] = ()
    """Any of these values; none given: present and neither null, false nor empty."""
    above: float | None = None
    """A number greater than this."""


class Cap(Table):
    """The output cap of a request."""

    fields: tuple[str, ...] = ()
    """Dotted paths that may carry it, the preferred first."""
    floor: Annotated[int, Field(ge=1)] = 256
    """A continuation never asks for less."""
    floor_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """… nor for less than this share of the caller's cap (hidden reasoning counts into it)."""
    thinking_budget: str | None = None
    """Dotted path of a thinking budget that must stay below the cap."""
    chars_per_token: Annotated[float, Field(gt=0)] = 6.0
    """For estimates that must not overstate what was produced."""


class Stream(Table):
    """How a stream of this provider is read."""

    stops: dict[str, Stop] = Field(default_factory=dict)
    """The provider's stop reasons in the common set."""
    failures: dict[str, FailureKind] = Field(default_factory=dict)
    """Stop reasons that are failures."""
    done_is_terminal: bool = False
    """``[DONE]`` alone completes a reply that has no finish reason."""
    cumulative_text: bool = False
    """Each delta repeats the whole text so far."""
    merge: Json = Field(default_factory=dict)
    """Merged into every request (as ``stream = true``) where the caller did not set it."""


class Auth(Table):
    """How the key is sent."""

    header: str = "authorization"
    """Header that carries the key."""
    prefix: str = "Bearer "
    """Stands before the key."""
    key_env: str | None = None
    """Environment variable that holds the key; none: no key is needed."""


class TurnSettings(Table):
    """The turn as a whole."""

    retract: bool = False
    """A native host takes shown text back, so that retry and raise_cap apply after output too."""


class History(Table):
    """A caller's own history."""

    repair: Literal["off"] = "off"
    """A caller's history is sent as it is; pairing orphaned tool calls is not built yet."""


class Wire(Table):
    """What may be mended in a stream that is passed on."""

    mend: tuple[str, ...] = ()
    """Names of the rows that may mend an illegal frame; each use is recorded."""
    hold_headers_s: Seconds = 15.0
    """Longest wait of the caller's headers for first content, so that an error can still be one."""
    http1_only: bool = False
    """HTTP/2 is not offered to the provider."""


class ModelOverride(BaseModel):
    """Settings for some models: the first entry whose pattern fits is laid over the policy.

    Every other key is a key of the policy (``continuation.strategies = ["instruct"]``); the loader
    lays each entry over the policy and validates the result, so a wrong key is refused at load.
    """

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    match: Annotated[tuple[str, ...], Field(min_length=1)]
    """Shell patterns, compared without case with the model's name."""
    source: str | None = None
    """Where the fact comes from."""

    def fits(self, model: str) -> bool:
        """Whether one of the patterns matches the whole model name, without case."""
        return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.match)


class Recap(Table):
    """Facts about the policy itself, for people."""

    title: str = ""
    """One line, shown by ``midthought policies``."""
    source: tuple[str, ...] = ()
    """Where its facts come from."""
    checked: str = ""
    """Date the facts were checked, ISO 8601."""
