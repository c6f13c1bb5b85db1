"""The runs in the ten thousands prove promises, not lines: they are not traced for coverage."""

from collections.abc import Iterator

import pytest

try:
    from coverage import Coverage
except ImportError:  # a test run without coverage
    Coverage = None  # type: ignore[assignment,misc]


@pytest.fixture(autouse=True, scope="module")
def untraced() -> Iterator[None]:
    """Pause a coverage measurement that is running; the tracer would triple their time."""
    running = Coverage.current() if Coverage is not None else None
    if running is not None:
        running.stop()
    yield
    if running is not None:
        running.start()
