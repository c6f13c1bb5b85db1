"""Claude over Bedrock's InvokeModelWithResponseStream, against the official SDK on both sides."""

import copy
import json
from typing import Any

import anthropic
import httpx2
import msgspec
import pytest
from anthropic_frames import built, failed, last, only, text_of, usage_of
from aws_messages import EVENT_STREAM, chunk, error, event, exception
from kept_blocks import text
from native_reading import read
from native_streams import Stream, each, streams

from midthought.policies import load_policy
from midthought.providers import get_dialect
from midthought.statemachine import Continue, Request, StopKnown, Unknown

pytest.importorskip("botocore")

POLICY = load_policy("anthropic-bedrock")
DIALECT = get_dialect("bedrock_invoke")
MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "go"}],
}


def sdk(data: bytes) -> tuple[dict[str, Any], httpx2.Request]:
    """What the official SDK makes of these bytes, and the request it sent for them."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, headers={"content-type": EVENT_STREAM}, content=data)

    transport = httpx2.MockTransport(answer)
    with (
        httpx2.Client(transport=transport) as http,
        anthropic.AnthropicBedrock(
            api_key="none", aws_region="us-east-1", http_client=http, max_retries=0
        ) as client,
        client.messages.stream(**copy.deepcopy(REQUEST)) as stream,
    ):
        return stream.get_final_message().to_dict(), sent[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list) else value


@each(streams("bedrock-invoke"))
def test_same_as_the_sdk(stream: Stream) -> None:
    """Content, usage and stop are those the SDK reads from the same messages."""
    events = read(POLICY, [stream.data], EVENT_STREAM)
    theirs, _ = sdk(stream.data)
    (known,) = only(events, StopKnown)
    assert isinstance(known, StopKnown)
    usage = usage_of(events)

    assert _plain(theirs["content"]) == DIALECT.messages(built(events), POLICY)[0]["content"]
    assert theirs["stop_reason"] == known.reason
    assert (theirs["usage"]["input_tokens"], theirs["usage"]["output_tokens"]) == (
        usage["input"],
        usage["output"],
    )


MESSAGE = {"id": "m", "content": [], "role": "assistant", "usage": {"input_tokens": 1}}
START = chunk({"type": "message_start", "message": MESSAGE})
TEXT = chunk(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
)
ALPHA = chunk(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Alpha "}}
)
STOP = chunk(
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
)
END = chunk({"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 1}})


def test_request_is_the_sdks() -> None:
    """Path and body of request 0 are those the SDK sends for the same call.

    But for the version: the SDK's own is newer, and refuses some shapes of history.
    """
    before = copy.deepcopy(REQUEST)
    made = DIALECT.original({**REQUEST, "stream": True}, POLICY)
    _, sent = sdk(START + TEXT + ALPHA + STOP + END)

    assert sent.url.raw_path.decode() == made.path
    assert {**json.loads(sent.content), "anthropic_version": "bedrock-2023-05-31"} == made.body
    assert before == REQUEST


def test_continuation() -> None:
    """The model stays in the path, the partial goes along, and the strategy is the model's."""
    used = POLICY.for_model(DIALECT.model(REQUEST))
    made = DIALECT.continuation(REQUEST, used, Continue("prefill", [text("Alpha")], cap=50))

    assert ("prefill", "instruct") == used.continuation.strategies
    assert ("instruct",) == POLICY.for_model("anthropic.claude-opus-4-8").continuation.strategies
    assert "/model/us.anthropic.claude-sonnet-4-5-20250929-v1:0/invoke-with-response-stream" == (
        made.path
    )
    assert {
        "anthropic_version": "bedrock-2023-05-31",
        "max_tokens": 50,
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "text", "text": "Alpha"}]},
        ],
    } == made.body


def test_strip_thinking_keeps_the_path() -> None:
    """A request without its reasoning goes where it went."""
    request = Request({"messages": []}, {"h": "v"}, path="/model/m/invoke-with-response-stream")
    assert request == DIALECT.strip_thinking(request, POLICY)


def test_inference_profile_in_the_path() -> None:
    """An ARN is one segment of the path; a request without a model has no path."""
    arn = "arn:aws:bedrock:us-east-1:1:inference-profile/us.x"
    path = DIALECT.url({"model": arn}, POLICY)
    assert path.startswith("/model/arn:aws:bedrock:us-east-1:1:inference-profile%2Fus.x/invoke-")
    with pytest.raises(ValueError, match="names no model"):
        DIALECT.original({"messages": []}, POLICY)
    with pytest.raises(ValueError, match="names no model"):
        DIALECT.original({"model": "..", "messages": []}, POLICY)


def test_headers() -> None:
    """The key is a bearer token; an IAM key is refused before anything is sent."""
    headers = DIALECT.headers(POLICY, "secret")

    assert ("Bearer secret", EVENT_STREAM) == (headers["authorization"], headers["accept"])
    assert "anthropic-version" not in headers
    for key in ("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE:secret"):
        with pytest.raises(ValueError, match="signs requests") as caught:
            DIALECT.headers(POLICY, key)
        assert key[:20] not in str(caught.value)


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (exception("throttlingException", {"message": "slow down"}), "rate_limited"),
        (exception("serviceUnavailableException", {"message": "x"}), "overloaded"),
        (exception("modelStreamErrorException", {"message": "x"}), "server_error"),
        (exception("modelTimeoutException"), "server_error"),
        (exception("internalServerException"), "server_error"),
        (exception("validationException", {"message": "x"}), "invalid_request"),
        (exception("exceptionOfTomorrow", {"message": "x"}), "server_error"),
        (error("AccessDeniedException", "no"), "auth"),
        (error("InternalFailure", "oh"), "server_error"),
        (chunk({"type": "error", "error": {"type": "overloaded_error"}}), "overloaded"),
    ],
)
def test_exceptions_in_the_stream(frame: bytes, kind: str) -> None:
    """An exception frame is what its name says, whatever text came before (case D05)."""
    events = read(POLICY, [START + TEXT + ALPHA + frame], EVENT_STREAM)

    assert (kind, "Alpha ") == (failed(events), text_of(events))


def test_what_the_model_itself_said() -> None:
    """The words of the model's own server go into the message, its name is the code."""
    words = {"message": "stream broke", "originalStatusCode": 500, "originalMessage": "no memory"}
    frame = exception("modelStreamErrorException", words)
    failure = last(read(POLICY, [START, frame], EVENT_STREAM)).failure

    assert failure is not None
    assert ("stream broke: no memory", "modelStreamErrorException", 424) == (
        failure.message,
        failure.code,
        failure.status,
    )


def test_damage_is_a_cut() -> None:
    """A wrong checksum ends the attempt as a broken stream (case D05)."""
    bad = bytearray(STOP)
    bad[-1] ^= 1
    events = read(POLICY, [START + TEXT + ALPHA + bytes(bad) + END], EVENT_STREAM)

    assert ("sse_parse", "Alpha ") == (failed(events), text_of(events))


def test_cut_inside_the_first_message() -> None:
    """A body that is the beginning of a message is a cut, not a wrong kind of answer."""
    assert "premature_end" == failed(read(POLICY, [START[:40]], EVENT_STREAM))
    assert "not_a_stream" == failed(read(POLICY, [b"hello, portal here"], "text/plain"))


def test_stop_and_end() -> None:
    """Text, the stop fact and the end marker; other events are passed on."""
    odd = event("eventOfTomorrow", {"a": 1})
    events = read(POLICY, [START + odd + TEXT + ALPHA + STOP + END + ALPHA], EVENT_STREAM)

    assert last(events).failure is None
    assert "Alpha " == text_of(events)
    assert ["eventOfTomorrow"] == [e.type for e in only(events, Unknown) if isinstance(e, Unknown)]


@pytest.mark.parametrize(
    "payload", [{"bytes": "not base64!"}, {"p": "x"}, {"bytes": "bm8gSlNPTg=="}, [1]]
)
def test_unreadable_chunk(payload: Any) -> None:
    """A chunk that holds no event is a broken stream."""
    assert "sse_parse" == failed(read(POLICY, [START + event("chunk", payload)], EVENT_STREAM))


def test_whole_message() -> None:
    """A whole message as JSON instead of a stream is as good."""
    message = {
        "type": "message", "id": "m", "model": "x", "role": "assistant", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "Alpha"}],
    }  # fmt: skip
    events = read(POLICY, [msgspec.json.encode(message)], "application/json")

    assert (None, "Alpha") == (last(events).failure, text_of(events))
