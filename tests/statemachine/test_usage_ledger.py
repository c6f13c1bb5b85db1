"""The ledger: the last word of each counter counts, attempts are summed, guesses are marked."""

from hypothesis import given
from hypothesis import strategies as st

from midthought.statemachine import Ledger, Usage

COUNT = st.none() | st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT)


def test_the_last_value_wins() -> None:
    """Counters of one attempt are cumulative: reports replace, they are not added."""
    ledger = Ledger()
    ledger.begin(0)
    for output in (1, 5, 30):
        ledger.report(Usage(input=100, output=output))
    ledger.end(complete=True, estimate=999)

    assert (100, 30) == (ledger.total().input, ledger.total().output)


def test_a_counter_can_shrink() -> None:
    """A later report may correct an earlier one downwards."""
    ledger = Ledger()
    ledger.begin(0)
    ledger.report(Usage(input=100))
    ledger.report(Usage(input=80))

    assert 80 == ledger.total().input


def test_what_is_not_reported_stays() -> None:
    """A report without a counter says nothing about it; zero does."""
    ledger = Ledger()
    ledger.begin(0)
    ledger.report(Usage(input=100, cache_read=7, cache_write=9, reasoning=11))
    ledger.report(Usage(output=5, cache_read=0))
    total = ledger.total()

    assert (100, 5, 0, 9, 11) == (
        total.input, total.output, total.cache_read, total.cache_write, total.reasoning,
    )  # fmt: skip


def test_growth_is_told() -> None:
    """A report says whether something grew: that is progress, a repeated report is none."""
    ledger = Ledger()
    ledger.begin(0)
    grew = [
        ledger.report(Usage(output=output, input=input))
        for output, input in [(1, None), (1, None), (2, None), (2, 50), (1, 40), (None, None)]
    ]

    assert [True, False, True, True, False, False] == grew


def test_attempts_are_summed() -> None:
    """The turn's usage is the sum over its attempts; what it shows is the first one's input."""
    ledger = Ledger()
    for attempt, (input, output) in enumerate([(100, 20), (130, 30)]):
        ledger.begin(attempt)
        ledger.report(Usage(input=input, output=output))
        ledger.end(complete=True, estimate=0)
    total = ledger.total()

    assert (230, 50, 100, False) == (
        total.input, total.output, total.shown_input, total.incomplete,
    )  # fmt: skip


def test_a_cut_attempt_is_estimated() -> None:
    """A cut attempt never reported its end: its output is what arrived, marked as estimated."""
    ledger = Ledger()
    ledger.begin(0)
    ledger.report(Usage(input=100, output=1))
    ledger.end(complete=False, estimate=40)
    entry = ledger.attempts[0]

    assert (40, True, False) == (entry.output, entry.estimated_output, entry.final)
    assert ledger.total().incomplete


def test_an_estimate_never_beats_a_larger_report() -> None:
    """What was reported before the cut stands where it is more than the estimate."""
    ledger = Ledger()
    ledger.begin(0)
    ledger.report(Usage(input=1, output=90))
    ledger.end(complete=False, estimate=40)

    assert (90, False) == (ledger.attempts[0].output, ledger.attempts[0].estimated_output)
    assert ledger.total().incomplete


def test_what_nobody_reported_is_unknown() -> None:
    """Without a report the entries stay unknown, and the sums say that they are not all."""
    ledger = Ledger()

    assert 0 == ledger.total().shown_input
    ledger.begin(0)
    ledger.end(complete=True, estimate=0)

    assert (None, 0, True) == (
        ledger.attempts[0].output, ledger.total().output, ledger.total().incomplete,
    )  # fmt: skip


def test_discarded_output_adds_up() -> None:
    """Output that was paid for and not kept is counted over the attempts."""
    ledger = Ledger()
    ledger.discard(3)
    ledger.discard(4)

    assert 7 == ledger.total().discarded_output


@given(st.lists(st.lists(USAGES, max_size=5), max_size=5))
def test_the_sum_is_the_sum_of_last_words(attempts: list[list[Usage]]) -> None:
    """For any reports the total is, counter by counter, the sum of each attempt's last value."""
    ledger = Ledger()
    expected = 0
    for number, reports in enumerate(attempts):
        ledger.begin(number)
        for usage in reports:
            ledger.report(usage)
        ledger.end(complete=True, estimate=0)
        said = [usage.output for usage in reports if usage.output is not None]
        expected += said[-1] if said else 0

    assert expected == ledger.total().output
