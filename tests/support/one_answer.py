"""One answer of an upstream, told as bytes, and what the boundary says about it.

For tests of ``AttemptReader``; the frames are those of ``anthropic_frames``.
"""

from anthropic_frames import DIALECT, POLICY

from midthought.policies import Policy, Stop
from midthought.providers import AttemptReader
from midthought.statemachine import Event, Failure, Finished

__all__ = ["SSE", "Transport", "answer", "failure", "stop"]

SSE = {"content-type": "text/event-stream"}


class Transport(Exception):
    """Stands for an HTTP library's error."""


def answer(
    body: bytes | list[bytes],
    *,
    status: int = 200,
    headers: dict[str, str] = SSE,
    used: Policy = POLICY,
    broke: BaseException | None = None,
) -> list[Event]:
    """All events of one answer, ended in an orderly way or by an exception."""
    reader = AttemptReader(used, DIALECT, 2, model="m")
    events = reader.response(status, headers.items(), connection="new", elapsed_s=0.5)
    for chunk in [body] if isinstance(body, bytes) else body:
        events += reader.feed(chunk)
    events += reader.end() if broke is None else reader.broke(broke)
    assert reader.finished
    return events


def failure(events: list[Event]) -> Failure:
    """The failure of the one ``Finished`` that ends these events."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert events[-1:] == finished
    assert Stop.error is finished[0].stop
    assert finished[0].failure is not None
    return finished[0].failure


def stop(events: list[Event]) -> Stop:
    """The stop of the one ``Finished``, which is no failure."""
    finished = [event for event in events if isinstance(event, Finished)]
    assert events[-1:] == finished
    assert finished[0].failure is None
    return finished[0].stop
