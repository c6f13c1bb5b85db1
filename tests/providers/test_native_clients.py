"""The native client in each of these dialects, over real sockets: cut, asked to go on, healed."""

from typing import Any

import pytest
from aws_messages import EVENT_STREAM, exception
from native_cuts import LANES, Lane, faults
from native_streams import WIRES, Stream, streams
from native_wire import Part, write

import midthought
from midthought.testing import Attempt, FaultyUpstream

pytest.importorskip("botocore")

TEXT = "One fine day the harbour wall gave way, and nobody had seen it coming at all."
FIRST = [lane for lane in LANES if lane.variant == "exact" and not lane.greedy]
PATHS = {
    "cohere-v2": "/v2/chat",
    "ollama": "/api/chat",
    "bedrock-converse": "/model/{model}/converse-stream",
    "bedrock-invoke": "/model/{model}/invoke-with-response-stream",
}


def _turn(lane: Lane, upstream: FaultyUpstream, key: str | None) -> Any:
    content: Any = [{"text": "go"}] if lane.wire == "bedrock-converse" else "go"
    request: dict[str, Any] = {"model": lane.model}
    request["messages"] = [{"role": "user", "content": content}]
    if lane.wire == "bedrock-invoke":
        request["max_tokens"] = 500
    policy = midthought.load_policy(WIRES[lane.wire][0])
    quick = {name: b.model_copy(update={"initial_s": 0.01}) for name, b in policy.backoff.items()}
    policy = policy.model_copy(update={"backoff": quick})
    with midthought.Client(policy, api_key=key, base_url=upstream.url) as client:
        call = client.prepare(request)
        for _ in client.stream(call):
            pass
    return call.turn


def _stop(wire: str) -> str:
    return {"cohere-v2": "COMPLETE", "ollama": "stop"}.get(wire, "end_turn")


@pytest.mark.parametrize("lane", FIRST, ids=str)
def test_cut_and_healed(lane: Lane) -> None:
    """The text of two requests is one; path, key and body are what the provider wants."""
    frames = write(lane.wire, [Part("text", TEXT)], _stop(lane.wire))
    headers = {"content-type": WIRES[lane.wire][1]}

    def answer(request: Any, number: int) -> Attempt:
        if number == 0:
            return Attempt([*frames[: len(frames) // 2], {"fault": "fin"}], headers=headers)
        said = _carried(request.json())
        assert TEXT.startswith(said) and len(said) > 20
        rest = [Part("text", TEXT[len(said) :])]
        return Attempt(write(lane.wire, rest, _stop(lane.wire)), headers=headers)

    with FaultyUpstream(answer) as upstream:
        turn = _turn(lane, upstream, "secret")
        first, second = upstream.requests
    assert ("completed", TEXT) == (turn.outcome, turn.text)
    for request in (first, second):
        assert request.path == PATHS[lane.wire].replace("{model}", lane.model)
        assert "Bearer secret" == dict(request.headers)["authorization"]
        assert [] == faults(lane.wire, request.json(), lane.model)


def _carried(body: Any) -> str:
    (said,) = [m for m in body["messages"] if m["role"] == "assistant"]
    content = said["content"]
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content)


def test_exception_in_the_stream() -> None:
    """A throttling exception in the stream is waited out, and the reply goes on (case D05)."""
    lane = Lane("bedrock-converse", "us.anthropic.claude-opus-4-8")
    frames = write(lane.wire, [Part("text", TEXT)], "end_turn")
    headers = {"content-type": EVENT_STREAM}
    throttled = exception("throttlingException", {"message": "slow down"})

    def answer(request: Any, number: int) -> Attempt:
        if number == 0:
            return Attempt([*frames[: len(frames) // 2], throttled], headers=headers)
        rest = [Part("text", TEXT[len(_carried(request.json())) :])]
        return Attempt(write(lane.wire, rest, "end_turn"), headers=headers)

    with FaultyUpstream(answer) as upstream:
        turn = _turn(lane, upstream, "secret")
    assert ("completed", TEXT) == (turn.outcome, turn.text)
    assert [True, False] == [bool(attempt.failure) for attempt in turn.attempts]


@pytest.mark.parametrize("policy", ["bedrock-converse", "anthropic-bedrock"])
def test_what_cannot_work_is_said_when_the_client_is_made(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No key, or an IAM key that would have to sign: an error at once, not a 403 later."""
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    with pytest.raises(midthought.MissingKey, match="AWS_BEARER_TOKEN_BEDROCK"):
        midthought.Client(policy)
    with pytest.raises(ValueError, match="signs requests"):
        midthought.Client(policy, api_key="AKIAIOSFODNN7EXAMPLE")


def test_every_recording_has_a_lane() -> None:
    """No recorded wire of these providers is left out of the lanes."""
    found: list[Stream] = streams(*WIRES)
    assert {stream.wire for stream in found} <= {lane.wire for lane in LANES}
