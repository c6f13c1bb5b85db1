"""The machine alone: no sockets, no clock. A stream breaks, and the machine says what to do.

    python examples/sans_io.py

Your program brings the bytes and the time; here both are made up.
"""

import json

import midthought
from midthought.statemachine import Emit, Send, TimePassed, Wait

REQUEST = {"model": "demo", "messages": [{"role": "user", "content": "Say something nice."}]}
HEADERS = [("content-type", "text/event-stream")]


def chunk(text: str | None, finish: str | None = None) -> bytes:
    """One chunk of a Chat stream."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'choices': [choice]})}\n\n".encode()


def show(effects: list[midthought.statemachine.Effect]) -> None:
    """Print the orders a host would carry out."""
    for effect in effects:
        match effect:
            case Emit(midthought.BlockDelta(_, _, text)):
                print(f"text    {text!r}")
            case Send(number, request):
                print(f"send    attempt {number}, {len(request.body['messages'])} messages")
            case Wait(_, delay, reason):
                print(f"wait    {delay:g} s, because of {reason}")


def main() -> None:
    """Run one broken and healed turn."""
    machine = midthought.Recovery("openai-chat", REQUEST, rng=lambda: 0.0)
    now = 0.0
    show(machine.start(now))

    reader = machine.reader(attempt=0)
    machine.feed_all(reader.response(200, HEADERS), now)
    show(machine.feed_all(reader.feed(chunk("You write very readable pol")), now))
    show(machine.feed_all(reader.broke(ConnectionResetError("reset by peer")), now))

    now = machine.next_deadline()
    show(machine.feed(TimePassed(), now))
    reader = machine.reader(machine.attempt)
    machine.feed_all(reader.response(200, HEADERS), now)
    rest = chunk("policies.") + chunk(None, "stop") + b"data: [DONE]\n\n"
    show(machine.feed_all(reader.feed(rest), now))
    print(f"outcome {machine.turn.outcome}")
    print(f"history {machine.history.message}")


if __name__ == "__main__":
    main()
