"""What the testing kit raises: the tree, and whose mistake each one is.

    UpstreamError
    ├── ScriptError        the script: a step, a header, a number that cannot be played
    ├── UnsupportedStep    the script is right, but needs what this server is not
    ├── PortUnavailable    the port cannot be listened on (also an OSError)
    └── SceneError         the client did not set the scene that an attempt plays in

An exception of a test's own answering function is none of these: it is raised as what it is.
Imports nothing of ours.
"""

from collections.abc import Iterable


class UpstreamError(Exception):
    """Base of the testing kit's errors."""


class ScriptError(UpstreamError, ValueError):
    """A script cannot be played as written; `faults` names everything that is wrong with it."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        lines = "".join(f"\n  {fault}" for fault in self.faults)
        super().__init__(
            f"the script cannot be played, {len(self.faults)} to mend:{lines}\n"
            "Steps, faults and framings are listed in docs/testing.md"
        )


class UnsupportedStep(UpstreamError):
    """A right script needs more than a loopback HTTP/1.1 server; `needs` says what, by place."""

    def __init__(self, needs: Iterable[tuple[str, str]]) -> None:
        self.needs = tuple(needs)
        lines = "; ".join(f"{where} needs {need}" for where, need in self.needs)
        super().__init__(
            f"{lines}. FaultyUpstream speaks HTTP/1.1 over loopback TCP: "
            "leave these out, or play them with a server that can"
        )


class PortUnavailable(UpstreamError, OSError):
    """The port cannot be listened on."""


class SceneError(UpstreamError):
    """A request did not arrive as its attempt needs it; raised when the upstream is closed."""
