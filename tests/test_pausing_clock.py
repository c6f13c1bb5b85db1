"""The host's clock counts our time only, whoever asks and whenever."""

from midthought._clock import PausingClock


def test_it_stands_still_while_the_caller_thinks() -> None:
    """Also in between: a watching thread that asks meanwhile must not see a deadline pass."""
    time = [100.0]
    clock = PausingClock(lambda: time[0])
    time[0] += 1.0
    assert 101.0 == clock.now()

    clock.pause()
    time[0] += 50.0
    assert 101.0 == clock.now()
    clock.resume()

    assert 101.0 == clock.now()
    time[0] += 2.0
    assert 103.0 == clock.now()
