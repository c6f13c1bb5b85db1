"""Fault models: what goes wrong upstream, how often, as data in a TOML file.

A model speaks of a fleet of turns in virtual time. Rates are per token or per request, windows and
outages are in seconds of the fleet's time, so that turns that run together suffer together.
"""

from __future__ import annotations

import os
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

__all__ = ["FaultError", "Faults", "Reply", "Window", "load_faults", "shipped_faults"]

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0)]
Hint = Annotated[float, Field(gt=0)]


class FaultError(ValueError):
    """A fault model that cannot be used; says where and what was expected."""


class _Table(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


class Reply(_Table):
    """The replies an unbroken upstream gives."""

    tokens: Annotated[int, Field(ge=1)] = 400
    """Median length; lengths are log-normal around it."""
    spread: Annotated[float, Field(ge=0, le=3)] = 0.8
    """Sigma of the logarithm; 0: every reply has the median length."""
    longest: Annotated[int, Field(ge=1, le=65_536)] = 8000
    """No reply is longer, in tokens."""
    tokens_per_s: Annotated[float, Field(gt=0)] = 60.0
    """How fast they come."""
    first_token_s: Seconds = 0.8
    """How long a request waits for its response."""
    prompt_tokens: Annotated[int, Field(ge=0)] = 2000
    """Input of a request, for the input that recovery costs."""


class Window(_Table):
    """A time in which requests fail, again and again."""

    kind: Literal["overloaded", "rate_limited", "server_error", "connect"] = "overloaded"
    """How requests fail in it: status 529, 429, 500, or no connection."""
    first_s: Seconds = 0.0
    """When it begins, in seconds of the fleet's time."""
    length_s: Annotated[float, Field(gt=0)] = 30.0
    """How long it lasts."""
    every_s: Annotated[float, Field(gt=0)] | None = None
    """Repeats after so many seconds; none: once."""
    share: Share = 1.0
    """Of the requests in it, how many fail."""
    retry_after_s: Hint | None = None
    """What the refusal tells the client to wait; nothing can be told without a connection."""
    breaks_streams: bool = False
    """Open streams break at its beginning: a correlated outage."""


class Faults(_Table):
    """A fault model."""

    name: str = "faults"
    """What reports call it."""
    turns_per_s: Annotated[float, Field(gt=0)] = 5.0
    """How densely the fleet starts turns."""
    reply: Reply = Reply()
    """The replies an unbroken upstream gives."""
    cut_per_token: Share = 0.0
    """Hazard of a broken connection, per token."""
    error_per_token: Share = 0.0
    """Hazard of ``overloaded`` in the stream, per token."""
    stall_per_token: Share = 0.0
    """Hazard of silence until a clock ends it, per token."""
    refuse_share: Share = 0.0
    """Requests that are answered with a rate limit."""
    refuse_retry_after_s: Hint | None = None
    """What those tell the client to wait."""
    connect_share: Share = 0.0
    """Requests that find no connection."""
    windows: tuple[Window, ...] = ()
    """Times in which requests fail."""


def load_faults(path: str | os.PathLike[str]) -> Faults:
    """Read a fault model: the name of a shipped one, or a path. Raises ``FaultError``."""
    text = str(path)
    if not text.endswith(".toml") and os.sep not in text:
        known = shipped_faults()
        if text not in known:
            raise FaultError(f"unknown fault model {text!r}, known: {', '.join(known)}, or a path")
        source = resources.files("midthought.review").joinpath(f"{text}.toml").read_text("utf-8")
    else:
        try:
            source = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise FaultError(f"{text}: cannot be read as a TOML file ({error})") from None
    try:
        return Faults.model_validate(tomllib.loads(source))
    except tomllib.TOMLDecodeError as error:
        raise FaultError(f"{text}: not TOML: {error}") from None
    except ValidationError as error:
        found = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise FaultError(f"{text}: " + "; ".join(found)) from None


def shipped_faults() -> tuple[str, ...]:
    """Names of the fault models that come with midthought."""
    folder = resources.files("midthought.review")
    names = (entry.name for entry in folder.iterdir())
    return tuple(sorted(n.removesuffix(".toml") for n in names if n.endswith(".toml")))
