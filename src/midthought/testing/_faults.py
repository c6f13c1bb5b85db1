"""The words of a script: framings, faults and step kinds, each with what it does on the wire.

Data: what is legal, what ends a reply, what this server cannot play. How a word becomes bytes is
`_compile.py`. Imports nothing of ours.
"""

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

HTTP2 = "an HTTP/2 server"
AWS_FRAMES = "a server of AWS event-stream frames"
CLOCK = "a clock that can jump"


@dataclass(frozen=True, slots=True)
class Framing:
    """How a reply is delimited."""

    name: str
    wire: str
    needs: str | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """What a `{"fault": name}` step does; nothing can follow one that `ends` the reply."""

    name: str
    wire: str
    ends: bool = True
    needs: str | None = None
    keys: frozenset[str] = frozenset()


FRAMINGS = {
    framing.name: framing
    for framing in (
        Framing("chunked", "transfer-encoding: chunked, a chunk per step, the connection is kept"),
        Framing("close", "no length; the end of the connection is the end of the body"),
        Framing("length", "content-length; kept unless the reply was cut short"),
        Framing("none", "the request is read and never answered with a status line"),
        Framing("reused", "as chunked, on a connection that has answered a request before"),
        Framing("h2", "HTTP/2", HTTP2),
        Framing("aws-eventstream", "AWS event-stream", AWS_FRAMES),
    )
}

FAULTS = {
    fault.name: fault
    for fault in (
        Fault("eof_clean", "an orderly end: the last chunk, the full length, or a FIN"),
        Fault("fin", "a FIN where more was promised: no last chunk, less than the length"),
        Fault("rst", "a TCP reset once the bytes before it have arrived"),
        Fault("stall", "silence, until the client goes away or the upstream is closed"),
        Fault("gzip_cut", "the gzip stream stops before its trailer", ends=False),
        Fault("rst_before_response", "a TCP reset after the request, before any byte"),
        Fault("connect_refused", "nobody listens on the port for a while; takes no request"),
        Fault("h2_rst", "RST_STREAM", needs=HTTP2, keys=frozenset({"code"})),
        Fault("h2_goaway", "GOAWAY", needs=HTTP2, keys=frozenset({"code", "last_stream_id"})),
        Fault(
            "aws_frame",
            "one frame",
            ends=False,
            needs=AWS_FRAMES,
            keys=frozenset({"message_type", "exception_type", "event_type", "payload"}),
        ),
        Fault("clock_jump", "time", ends=False, needs=CLOCK, keys=frozenset({"seconds"})),
    )
}

#: Keys of each kind of step, named by the key that tells the kind; "fault" brings its own keys.
STEP_KEYS = {
    "b64": frozenset({"b64"}),
    "wait": frozenset({"wait"}),
    "repeat": frozenset({"repeat", "n", "as"}),
    "fault": frozenset({"fault"}),
}

#: Statuses whose replies have no body (RFC 9110, section 6.4.1).
BODILESS = frozenset({204, 304})


def unknown(what: str, word: object, known: Iterable[str]) -> str:
    """`unknown fault 'rts'; did you mean 'rst'?`, or all known words where none is near."""
    words = sorted(known)
    near = difflib.get_close_matches(str(word), words, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(words)}"
    return f"unknown {what} {word!r}; {hint}"
