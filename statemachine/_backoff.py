"""How long to wait before the n-th use of a rule: a pure function of the policy and a random
number."""

from __future__ import annotations

from collections.abc import Callable

from midthought.policies import Backoff

__all__ = ["Rng", "delay_s", "hinted_delay_s", "longest_delay_s"]

#: A source of uniform numbers in [0, 1), given by the host.
Rng = Callable[[], float]


def _plain(spec: Backoff, n: int) -> float:
    # factor ** n overflows for a large n long after max_s has won.
    return min(spec.initial_s * spec.factor ** min(n - 1, 64), spec.max_s)


def delay_s(spec: Backoff, n: int, rng: Rng, previous_s: float = 0.0) -> float:
    """Delay in seconds before use ``n`` (from 1); ``previous_s`` is the last delay of this backoff.

    ``full``: uniform in 0..d. ``equal``: d/2 + uniform in 0..d/2. ``decorrelated``: uniform in
    initial..3 x previous, at most max. ``{up_to = x}``: d + uniform in 0..x*d.
    """
    base = _plain(spec, n)
    match spec.jitter:
        case "none":
            return base
        case "full":
            return base * rng()
        case "equal":
            return base / 2 + base / 2 * rng()
        case "decorrelated":
            top = max(spec.initial_s, 3 * (previous_s or spec.initial_s))
            return min(spec.initial_s + (top - spec.initial_s) * rng(), spec.max_s)
        case jitter:
            return base + base * jitter.up_to * rng()


def longest_delay_s(spec: Backoff, n: int) -> float:
    """The largest value that ``delay_s`` can give for use ``n``."""
    match spec.jitter:
        case "decorrelated":
            return spec.max_s if n > 1 else min(3 * spec.initial_s, spec.max_s)
        case "none" | "full" | "equal":
            return _plain(spec, n)
        case jitter:
            return _plain(spec, n) * (1 + jitter.up_to)


def hinted_delay_s(hint_s: float, jitter: float, rng: Rng) -> float:
    """Never less than the provider's hint, and at most ``jitter`` seconds more."""
    return hint_s + rng() * jitter * min(hint_s, 1.0)
