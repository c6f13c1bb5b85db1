"""A machine that slept: its streams count as stalled at once."""

import threading

import pytest

import midthought
from midthought._sleepwatch import SleepWatch, sleep_watch
from midthought.testing import Attempt, FaultyUpstream

CHUNK = 'data: {"id":"c","choices":[{"index":0,"delta":{"content":"%s"},"finish_reason":%s}]}\n\n'
BROKEN = [
    Attempt([CHUNK % ("Before the sleep, and ", "null"), {"fault": "stall"}]),
    Attempt([CHUNK % ("after it.", '"stop"'), "data: [DONE]\n\n"]),
]
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


class Told:
    """A turn that only listens."""

    def __init__(self) -> None:
        self.jumps: list[float] = []

    def jumped(self, seconds: float) -> None:
        """Note the jump."""
        self.jumps.append(seconds)


def test_a_jump_is_told_once() -> None:
    """The wall clock ran ahead: told with its length, and not again."""
    wall = [1000.0]
    watch = SleepWatch(monotonic=lambda: 5.0, wall=lambda: wall[0])
    turn = Told()
    watch.add(turn)
    wall[0] += 45.0
    watch.look()
    watch.look()
    watch.remove(turn)

    assert [45.0] == turn.jumps


def test_the_thread_ends_with_the_last_turn() -> None:
    """No thread is left when no turn runs."""
    watch, turn = SleepWatch(), Told()
    watch.add(turn)
    threads = [t for t in threading.enumerate() if t.name == "midthought-sleepwatch"]
    watch.remove(turn)
    for thread in threads:
        thread.join(5)

    assert threads
    assert not [t for t in threads if t.is_alive()]


@pytest.mark.parametrize(("seconds", "requests"), [(45.0, 2), (5.0, 1)])
def test_a_sleep_stalls_the_stream(seconds: float, requests: int) -> None:
    """After a long sleep a silent stream is given up and continued; a short one is nothing."""
    policy = midthought.load_policy("openai-chat")
    first = policy.backoff["continuation"].model_copy(update={"initial_s": 0.0, "max_s": 0.0})
    policy = policy.model_copy(update={"backoff": {**policy.backoff, "continuation": first}})
    with (
        FaultyUpstream(BROKEN) as upstream,
        midthought.Client(policy, base_url=upstream.url, api_key="k") as client,
    ):
        call = client.prepare(REQUEST)
        stream = client.stream(call)
        events = iter(stream)
        while not call.turn.text:
            next(events)
        threading.Timer(0.05, call._core.jumped, args=(seconds,)).start()  # type: ignore[union-attr]
        threading.Timer(0.3, call.cancel).start()
        for _ in events:
            pass

        assert requests == len(upstream.requests)
    assert not sleep_watch._turns
