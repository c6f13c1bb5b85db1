"""What a policy says about content: which blocks are kept, how a reply goes on, how texts join.

Part of the schema. Imports the vocabulary only.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ._table import Count, Json, Table
from ._vocabulary import Release, Strategy

__all__ = [
    "BlockRule",
    "Blocks",
    "Continuation",
    "Instruct",
    "InstructSeam",
    "MediaRule",
    "OtherRule",
    "Prefill",
    "Resume",
    "ResumeSeam",
    "Seam",
    "ServerToolRule",
    "TextRule",
    "TextSeam",
    "ThinkingRule",
    "ToolRule",
    "WholeRule",
]


class BlockRule(Table):
    """What is kept of a block of this kind, and when the caller may see it."""

    closed: Literal["keep", "discard"] = "keep"
    """A whole block of an attempt that broke."""
    open: Literal["keep", "discard"] = "discard"
    """A block the break cut in two."""
    release: Release = "live"
    """When the caller sees it: at once, by the word, whole, with the next visible content, with its
    pair, or at the end of the turn."""


class TextRule(BlockRule):
    """Visible text: a partial sentence is still the assistant's."""

    open: Literal["keep", "discard"] = "keep"
    """A block the break cut in two."""


class WholeRule(BlockRule):
    """A block that means nothing in part: half of it is never kept, whatever a policy says."""

    open: Literal["discard"] = "discard"
    """Never kept."""


class ServerToolRule(WholeRule):
    """A tool the provider runs itself: use and result belong together."""

    release: Literal["closed", "paired", "turn"] = "paired"
    """``paired``: use and result together; unpaired at a cut: discarded."""


class MediaRule(WholeRule):
    """Images and sound."""

    release: Release = "closed"
    """When the caller sees it."""


class OtherRule(WholeRule):
    """What this version has no name for."""

    release: Release = "with_next"
    """When the caller sees it."""


class ToolRule(BlockRule):
    """Tool calls: an open one is never kept, whatever a policy says."""

    open: Literal["discard"] = "discard"
    """Never kept: half a call is nobody's."""
    release: Literal["closed", "turn"] = "closed"
    """When the caller sees a call: whole, or with all others at the stop."""
    parallel: Literal["keep_whole", "all_or_none"] = "keep_whole"
    """``all_or_none`` needs ``release = "turn"``."""
    whole_json: bool = True
    """A call whose input parses as one JSON object is whole, though nothing closed it."""
    on_abort: Literal["drop", "pair"] = "drop"
    """Whole calls that nobody will run after an abort: dropped, or answered as not executed."""


class ThinkingRule(Table):
    """Reasoning: what may go back to the provider."""

    closed: Literal["keep", "keep_if_signed", "discard"] = "keep_if_signed"
    """A whole block of an attempt that broke; unsigned ones are refused where signatures exist."""
    open: Literal["discard"] = "discard"
    """Never kept: it cannot be signed."""
    release: Release = "live"
    """When the caller sees it."""
    tags: tuple[str, ...] = ()
    """Opening and closing tag where reasoning comes as text, else empty."""
    history_field: str | None = None
    """Field of the assistant message that carries kept reasoning, where it is a field."""


class Blocks(Table):
    """One table per block kind."""

    text: TextRule = TextRule()
    """Visible text."""
    thinking: ThinkingRule = ThinkingRule()
    """Reasoning."""
    redacted_thinking: WholeRule = WholeRule()
    """Reasoning that only the provider can read."""
    tool_use: ToolRule = ToolRule()
    """Calls that the caller runs."""
    server_tool: ServerToolRule = ServerToolRule()
    """Calls that the provider runs, and their results."""
    refusal: TextRule = TextRule()
    """The text of a refusal."""
    media: MediaRule = MediaRule()
    """Images and sound."""
    other: OtherRule = OtherRule()
    """Kinds that this version does not know, compaction, seams of a server-side fallback."""


class Prefill(Table):
    """Continue by ending the request with the partial assistant message."""

    forbidden_with: tuple[str, ...] = ()
    """Features of the request (see ``[[features]]``) with which it is refused."""
    message: Json = Field(default_factory=dict)
    """Merged into that assistant message."""
    request: Json = Field(default_factory=dict)
    """Merged into the request."""
    base_url_suffix: str = ""
    """Added to the base URL of a continuation, where only another path takes a prefix."""
    echoes: bool = False
    """The answer repeats the prefix."""


class Instruct(Table):
    """Continue by a user message after the partial assistant message."""

    forbidden_with: tuple[str, ...] = ("n", "structured_output")
    """Features of the request with which the answer could not be joined."""
    message: str = (
        "Your previous response was interrupted and ended with {tail}. "
        "Continue from where you left off.{seam}"
    )
    """``{tail}``: the last characters, JSON-quoted. ``{seam}``: one of the two hints below."""
    seam_space: str = " It already ends with white space, so do not begin with a space."
    """``{seam}`` where the text that is sent back ends with white space."""
    seam_no_space: str = (
        " It ends without trailing white space, so begin with a space if a new word starts."
    )
    """``{seam}`` where it does not."""
    tail_chars: Annotated[int, Field(ge=1, le=2000)] = 100
    """Length of ``{tail}``, in characters."""
    bridge: str | None = None
    """Assistant text for where no partial stands before the user message; none: not legal then."""


class Resume(Table):
    """The provider's own resume of the same reply."""

    prepare: Json = Field(default_factory=dict)
    """Put into request 0: ``headers`` and ``request``."""


class Continuation(Table):
    """How an interrupted reply goes on."""

    strategies: tuple[Strategy, ...] = ("instruct",)
    """In order of preference; the first that this model and this request allow is used."""
    prefill: Prefill = Prefill()
    """A trailing assistant message."""
    instruct: Instruct = Instruct()
    """A user message after the partial."""
    resume: Resume = Resume()
    """The provider's own resume."""


class TextSeam(Table):
    """Where the text of two attempts joins."""

    release: Literal["live", "word"] = "live"
    """``word``: the word being written is held back, so that a cut falls on a word border."""
    trim: Literal["none", "trailing_whitespace", "last_word"] = "trailing_whitespace"
    """What is left out of the text that is sent back, to be matched against the answer."""
    deterministic_trim: Literal["none", "trailing_whitespace", "last_word"] | None = None
    """Used instead of ``trim`` for requests with the feature ``deterministic``."""
    min_overlap: Annotated[int, Field(ge=4)] = 12
    """Shortest repeat that is dropped (measured: 0.066 % wrong at 8, none from 12 up)."""
    window: Annotated[int, Field(ge=0, le=4000)] = 0
    """How far back from the end a repeat may begin; 0: repeats are not looked for, for the server
    goes on exactly and a repeat is its own."""
    hold_first: Count = 0
    """First characters of a reply that wait, so that a restart after an early cut is recognised."""
    restart: bool = False
    """A repeat of the whole reply from its start is followed silently."""
    fences: bool = False
    """A re-opened code fence line is dropped where the text ends inside that fence."""
    word_max_chars: Annotated[int, Field(ge=1, le=200)] = 24
    """A longer run without white space is not a word and is not held back."""
    on_mismatch: Literal["append", "reject"] = "append"
    """Where the answer does not fit: joined and recorded as uncertain, or ``seam_mismatch``."""


class InstructSeam(TextSeam):
    """The join after a user message: the model begins a new message, so more is looked for."""

    release: Literal["live", "word"] = "word"
    """``word``: the word being written is held back, so that a cut falls on a word border."""
    window: Annotated[int, Field(ge=0, le=4000)] = 200
    """How far back from the end a repeat may begin; 0: repeats are not looked for."""
    hold_first: Count = 12
    """First characters of a reply that wait, so that a restart after an early cut is recognised."""
    restart: bool = True
    """A repeat of the whole reply from its start is followed silently."""
    fences: bool = True
    """A re-opened code fence line is dropped where the text ends inside that fence."""


class ResumeSeam(Table):
    """Exact events: nothing is trimmed."""

    on_mismatch: Literal["append", "reject"] = "append"
    """Where a followed repeat differs from what was shown."""


class Seam(Table):
    """One table per strategy."""

    resume: ResumeSeam = ResumeSeam()
    """The provider's own resume."""
    prefill: TextSeam = TextSeam()
    """A trailing assistant message."""
    instruct: InstructSeam = InstructSeam()
    """A user message after the partial."""
