"""The fixtures of conftest.py keep their own promises."""

import socket

import anyio
import httpx
import pytest
import sniffio


def test_outside_is_refused(outside_calls: list[str]) -> None:
    """A socket to another machine is refused before a packet leaves, and is remembered."""
    with pytest.raises(RuntimeError, match="loopback only"):
        socket.create_connection(("192.0.2.1", 9), timeout=1)
    with pytest.raises(RuntimeError, match="loopback only"):
        socket.create_connection(("example.invalid", 9), timeout=1)

    assert ["192.0.2.1", "example.invalid"] == [call.split("'")[1] for call in outside_calls]
    outside_calls.clear()


async def test_outside_is_refused_in_async_code(outside_calls: list[str]) -> None:
    """The same holds for an HTTP client on either event loop, where names resolve in a thread."""
    async with httpx.AsyncClient() as client:
        with pytest.raises(RuntimeError, match="loopback only"):
            await client.get("http://example.invalid/")

    assert outside_calls
    outside_calls.clear()


def test_loopback_is_open() -> None:
    """Servers on this machine can be reached by TCP and by UDP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            assert server.getsockname() == client.getpeername()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        assert 1 == sender.sendto(b"x", ("127.0.0.1", 9))


async def test_async_tests_run_on_both_backends(anyio_backend: str) -> None:
    """A coroutine test needs no mark and runs once per event loop."""
    await anyio.lowlevel.checkpoint()

    assert anyio_backend == sniffio.current_async_library()
