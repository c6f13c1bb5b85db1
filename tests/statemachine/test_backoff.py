"""Waits: the n-th delay of each jitter, its bounds, and hints that are never shortened."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import Backoff, load_policy
from midthought.statemachine import Rng, delay_s, hinted_delay_s, longest_delay_s

UNIT = st.floats(0, 1, exclude_max=True)
#: The largest number that a random source can give.
LAST = 1 - 2**-53
#: What floating point may add.
ROUNDING = 1 + 1e-12


def spec(jitter: Any, **changes: float) -> Backoff:
    """0.5, 1, 2, 4, … at most 32 s."""
    return Backoff.model_validate({"initial_s": 0.5, "max_s": 32.0, "jitter": jitter} | changes)


@st.composite
def specs(draw: st.DrawFn) -> Backoff:
    """Any backoff that the loader lets through."""
    initial = draw(st.floats(0, 600))
    jitter = st.sampled_from(["none", "full", "equal", "decorrelated"])
    return Backoff.model_validate(
        {
            "initial_s": initial,
            "factor": draw(st.floats(1, 10)),
            "max_s": draw(st.floats(initial, 3600)),
            "jitter": draw(jitter | st.floats(0, 1).map(lambda share: {"up_to": share})),
        }
    )


def always(number: float) -> Rng:
    """A random source that says one number."""
    return lambda: number


def delays(backoff: Backoff, rng: Rng, count: int = 9) -> list[float]:
    """The first delays of a turn, each told the one before."""
    found: list[float] = []
    for n in range(1, count + 1):
        found.append(delay_s(backoff, n, rng, found[-1] if found else 0.0))
    return found


def test_without_jitter() -> None:
    """The delay grows by the factor up to the largest, and no random number is drawn."""
    plain = delays(spec("none"), lambda: pytest.fail("drawn"))

    assert [0.5, 1, 2, 4, 8, 16, 32, 32, 32] == plain


def test_the_continuation_delays_of_the_base_policy() -> None:
    """Five continuations wait 1, 2, 4, 8 and 16 s."""
    backoff = load_policy("base").backoff["continuation"]

    assert [1, 2, 4, 8, 16] == delays(backoff, always(0.9), 5)


def test_the_transient_delays_of_the_base_policy() -> None:
    """A transient failure waits min(0.5 · 2^(n-1), 32) s, and up to a quarter more."""
    backoff = load_policy("base").backoff["transient"]
    plain = [min(0.5 * 2**n, 32.0) for n in range(9)]

    assert plain == delays(backoff, always(0.0))
    assert [d * 1.125 for d in plain] == delays(backoff, always(0.5))


@pytest.mark.parametrize(
    ("jitter", "number", "expected"),
    [
        ("full", 0.0, [0, 0, 0]),
        ("full", 0.5, [0.25, 0.5, 1.0]),
        ("equal", 0.0, [0.25, 0.5, 1.0]),
        ("equal", 0.5, [0.375, 0.75, 1.5]),
        ("decorrelated", 0.0, [0.5, 0.5, 0.5]),
        ("decorrelated", 0.5, [1.0, 1.75, 2.875]),
        ({"up_to": 0.0}, 0.9, [0.5, 1.0, 2.0]),
        ({"up_to": 1.0}, 0.5, [0.75, 1.5, 3.0]),
    ],
)
def test_jitter(jitter: Any, number: float, expected: list[float]) -> None:
    """Each jitter spreads the delay as the schema says: full, equal, decorrelated, a share."""
    assert expected == delays(spec(jitter), always(number), 3)


def test_decorrelated_grows_from_the_delay_before() -> None:
    """With high numbers the delay triples until it reaches the largest, and stays there."""
    grown = delays(spec("decorrelated", max_s=10.0), always(LAST), 5)

    assert [1.5, 4.5, 10, 10, 10] == pytest.approx(grown)


def test_a_very_late_use_does_not_overflow() -> None:
    """The thousandth use waits the largest delay: powers beyond all numbers are not computed."""
    assert 32 == delay_s(spec("none", factor=10.0), 1000, always(0.0))


@given(specs(), st.lists(UNIT, min_size=1, max_size=40))
def test_no_delay_is_above_what_is_promised(backoff: Backoff, numbers: list[float]) -> None:
    """`longest_delay_s` is a bound for each use, whatever the random source says."""
    draw = itertools.chain(numbers, itertools.repeat(LAST))
    found = delays(backoff, lambda: next(draw), len(numbers))

    for n, delay in enumerate(found, start=1):
        assert 0 <= delay <= longest_delay_s(backoff, n) * ROUNDING


@given(specs(), st.integers(1, 30))
def test_the_promised_bound_is_nearly_reached(backoff: Backoff, n: int) -> None:
    """The bound is no loose one: with the highest number a delay comes up to it."""
    found = delays(backoff, always(LAST), n)[-1]
    bound = longest_delay_s(backoff, n)
    # Decorrelated delays need some uses until they have grown so far.
    if backoff.jitter != "decorrelated" or n == 1:
        assert bound == pytest.approx(found)


@given(st.floats(0, 1e5), st.floats(0, 1), UNIT)
def test_a_hint_is_never_shortened(hint: float, jitter: float, number: float) -> None:
    """A provider's wait is kept: at least what it said, and at most one jittered second more."""
    waited = hinted_delay_s(hint, jitter, always(number))

    assert hint <= waited <= (hint + jitter * min(hint, 1.0)) * ROUNDING


def test_a_hint_without_jitter_is_exact() -> None:
    """With `retry_after_jitter = 0` the wait is what the provider said, to the millisecond."""
    assert 12.345 == hinted_delay_s(12.345, 0.0, always(0.9))


def test_a_short_hint_gets_a_short_jitter() -> None:
    """The share is taken of the hint where that is below a second: 20 ms do not become 270."""
    assert 0.0225 == pytest.approx(hinted_delay_s(0.020, 0.25, always(0.5)))
    assert 7.125 == hinted_delay_s(7.0, 0.25, always(0.5))
