"""What holds for every test: loopback only, the same examples every run, both async backends."""

import ipaddress
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Time on a shared machine says nothing about the code, so no deadline and no "too slow"; the
# same examples each run, so that a red run is red again. The long run looks for new ones.
settings.register_profile(
    "default",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "torture", settings.get_profile("default"), derandomize=False, max_examples=5000
)
settings.load_profile("default")


_watching = False
_refused: list[str] = []


def _is_loopback(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in (None, "", "localhost"):
        return True
    try:
        address = ipaddress.ip_address(str(host))
    except ValueError:
        return False  # a name: finding its address would already ask a server
    return address.is_loopback or address.is_unspecified


def _host_of(event: str, args: tuple[object, ...]) -> object:
    """Where the audited call leads; None where it stays on this machine."""
    if event in ("socket.getaddrinfo", "socket.gethostbyname"):
        return args[0]
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        return address[0] if isinstance(address, tuple) else None  # a unix socket's is a path
    return None


def _refuse_the_outside(event: str, args: tuple[object, ...]) -> None:
    if not _watching or not event.startswith("socket."):
        return
    host = _host_of(event, args)
    if not _is_loopback(host):
        _refused.append(f"{event} to {host!r}")
        raise RuntimeError(f"tests reach loopback only, and this is {_refused[-1]}")


# An audit hook and not a patched `socket.connect`: it also sees threads, C callers and loops
# that bypass the class. It cannot be removed, hence the switch.
sys.addaudithook(_refuse_the_outside)


@pytest.fixture(autouse=True)
def outside_calls() -> Iterator[list[str]]:
    """Refuse sockets that leave the machine, and fail the test although its code caught that."""
    global _watching
    _refused.clear()
    _watching = True
    yield _refused
    _watching = False
    assert not _refused, "the test tried to leave the machine; use a server on 127.0.0.1"


@pytest.fixture(params=["asyncio", "trio"], scope="module")
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each async test on both event loops."""
    backend: str = request.param
    return backend
