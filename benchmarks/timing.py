"""Rounds that take turns: every case runs once per round, so that what disturbs one disturbs all.

What is counted is processor time of this process, all its threads and the kernel's share, and not
the time that passes: on a machine with other work the second says little about the code.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple, TypeVar

__all__ = ["Cost", "measure", "measure_async"]

Key = TypeVar("Key")


class Cost(NamedTuple):
    """Microseconds per unit: the median of all rounds, the best one, and how far they spread."""

    median: float
    best: float
    spread: float
    """Half the distance between the quartiles, as a share of the median."""

    @classmethod
    def of(cls, samples: list[float]) -> Cost:
        """Of one sample per round."""
        low, median, high = statistics.quantiles(samples, n=4)
        return cls(median, min(samples), (high - low) / 2 / median)


def measure(
    cases: Mapping[Key, Callable[[], object]], *, rounds: int, units: int, repeat: int = 1
) -> dict[Key, Cost]:
    """Microseconds of each case, which does ``units`` units, ``repeat`` times per sample."""
    samples: dict[Key, list[float]] = {key: [] for key in cases}
    for number in range(-1, rounds):
        _ready(number, rounds)
        for key, case in cases.items():
            began = time.process_time()
            for _ in range(repeat):
                case()
            samples[key].append((time.process_time() - began) / (units * repeat) * 1e6)
    return _costs(samples)


async def measure_async(
    cases: Mapping[Key, Callable[[], Awaitable[object]]],
    *,
    rounds: int,
    units: int,
    repeat: int = 1,
) -> dict[Key, Cost]:
    """``measure`` for coroutine functions, one at a time."""
    samples: dict[Key, list[float]] = {key: [] for key in cases}
    for number in range(-1, rounds):
        _ready(number, rounds)
        for key, case in cases.items():
            began = time.process_time()
            for _ in range(repeat):
                await case()
            samples[key].append((time.process_time() - began) / (units * repeat) * 1e6)
    return _costs(samples)


def _ready(number: int, rounds: int) -> None:
    """Between two rounds: what earlier ones left behind is nobody's cost."""
    gc.collect()
    if number < 0:
        return
    print(f"\r  round {number + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    if number + 1 == rounds:
        print(file=sys.stderr)


def _costs(samples: dict[Key, list[float]]) -> dict[Key, Cost]:
    return {key: Cost.of(values[1:]) for key, values in samples.items()}  # the first warms up
