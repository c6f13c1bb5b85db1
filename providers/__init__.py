"""Wire dialects: bytes to events, requests to continuation requests, responses to failure facts."""

from importlib import import_module as _import_module

from midthought.policies import DIALECTS
from midthought.policies import register_dialect_name as _register_name

from ._classify import classify
from ._dialect import (
    Decoder,
    Dialect,
    ErrorFacts,
    ErrorSeen,
    Malformed,
    Signal,
    Terminal,
)
from ._ndjson import NDJSONFramer
from ._reader import AttemptReader
from ._sse import Frame, FramingError, SSEFramer

__all__ = [
    "AttemptReader",
    "DIALECTS",
    "Decoder",
    "Dialect",
    "ErrorFacts",
    "ErrorSeen",
    "Frame",
    "FramingError",
    "Malformed",
    "NDJSONFramer",
    "SSEFramer",
    "Signal",
    "Terminal",
    "classify",
    "get_dialect",
    "register_dialect",
]

_added: dict[str, Dialect] = {}


def get_dialect(name: str) -> Dialect:
    """The dialect of this name; ``ValueError`` if there is none.

    A dialect of ours is the module of that name, imported when it is first asked for.
    """
    if name in _added:
        return _added[name]
    if name not in DIALECTS:
        known = ", ".join(sorted({*DIALECTS, *_added}))
        raise ValueError(f"unknown dialect {name!r}; known dialects: {known}")
    dialect: Dialect = _import_module(f".{name}", __name__).dialect
    return dialect


def register_dialect(dialect: Dialect) -> None:
    """Make a host's own dialect known, here and to policies; ``ValueError`` for a name in use."""
    if dialect.name in DIALECTS:
        raise ValueError(f"dialect {dialect.name!r} is built in; give yours another name")
    _added[dialect.name] = dialect
    _register_name(dialect.name)
