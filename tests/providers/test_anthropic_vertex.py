"""Claude on Vertex AI: Anthropic's stream, at Google's address, as the official SDK asks for it."""

import json
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic_frames import END, START, TEXT, delta, stop

from midthought.policies import PolicyError, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Block, Continue, Finished, Request

DIALECT = get_dialect("anthropic_vertex")
POLICY = load_policy("anthropic-vertex")
PATH = "/publishers/anthropic/models/claude-opus-4-8:streamRawPredict"
REQUEST: dict[str, Any] = {
    "model": "claude-opus-4-8",
    "max_tokens": 64,
    "messages": [{"role": "user", "content": "go"}],
}
STREAM = [START, TEXT, delta(0, "text_delta", text="Alpha"), stop(0), END]


def _sdk_request() -> httpx2.Request:
    """What the official SDK sends for this request."""
    sent: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, headers=headers, content=b"".join(STREAM))

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer)) as http,
        anthropic.AnthropicVertex(
            access_token="none",
            project_id="p",
            region="global",
            http_client=http,
            base_url="http://127.0.0.1",
        ) as client,
        client.messages.create(**REQUEST, stream=True) as stream,
    ):
        assert list(stream)
    return sent[0]


def test_what_the_sdk_sends() -> None:
    """Path and body are those of the official SDK, but for the version of the API."""
    theirs = _sdk_request()
    body = json.loads(theirs.content)
    made = DIALECT.original(REQUEST, POLICY)

    assert f"/projects/p/locations/global{made.path}" == theirs.url.path
    assert {**body, "anthropic_version": "vertex-2023-10-16"} == made.body
    assert "model" in REQUEST


def test_every_request_goes_there() -> None:
    """A continuation and one without reasoning keep the path, and name no model."""
    blocks = [Block(0, "text", 0, parts=["Alpha"])]
    on = DIALECT.continuation(REQUEST, POLICY, Continue("instruct", blocks, "go on"))
    stripped = DIALECT.strip_thinking(on, POLICY)

    assert ["user", "assistant", "user"] == [m["role"] for m in on.body["messages"]]
    for made in (on, stripped):
        assert PATH == made.path
        assert "model" not in made.body
        assert "vertex-2023-10-16" == made.body["anthropic_version"]
    assert isinstance(stripped, Request)
    with pytest.raises(ValueError, match="names no model"):
        DIALECT.original({"messages": []}, POLICY)


def test_headers() -> None:
    """The token goes into the usual header, the version into none."""
    headers = DIALECT.headers(POLICY, "token")

    assert "Bearer token" == headers["authorization"]
    assert not {"anthropic-version", "x-api-key"} & set(headers)


def test_the_stream_is_anthropics() -> None:
    """Event for event as over Anthropic's own API."""
    events = []
    for dialect, name in ((DIALECT, "anthropic-vertex"), (get_dialect("anthropic_messages"), None)):
        reader = AttemptReader(load_policy(name or "anthropic"), dialect, 0)
        read = reader.response(200, [("content-type", "text/event-stream")])
        events.append(read + reader.feed(b"".join(STREAM)) + reader.end())

    assert events[0] == events[1]
    assert isinstance(events[0][-1], Finished)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "INVALID_ARGUMENT", "invalid_request"),
        (401, "UNAUTHENTICATED", "auth"),
        (403, "PERMISSION_DENIED", "auth"),
        (404, "NOT_FOUND", "not_found"),
        (429, "RESOURCE_EXHAUSTED", "rate_limited"),
        (503, "UNAVAILABLE", "overloaded"),
    ],
)
def test_googles_errors(status: int, code: str, kind: str) -> None:
    """Before the stream an error may be Google's: its status says what it is."""
    body = {"error": {"code": status, "message": "m", "status": code}}
    reader = AttemptReader(POLICY, DIALECT, 0)
    events = reader.response(status, [("content-type", "application/json")])
    events += reader.feed(json.dumps(body).encode())
    (finished,) = events + reader.end()

    assert isinstance(finished, Finished)
    assert finished.failure is not None
    assert kind == finished.failure.kind.value


def test_strategies_are_the_models(tmp_path: Any) -> None:
    """As over Anthropic's own API, under Vertex's names; unsigned reasoning cannot be kept."""
    for model, expected in (
        ("claude-sonnet-4-5@20250929", ("prefill", "instruct")),
        ("claude-opus-4-8", ("instruct",)),
    ):
        assert expected == POLICY.for_model(model).continuation.strategies
    file = tmp_path / "p.toml"
    file.write_text('extends = ["anthropic-vertex"]\n[blocks.thinking]\nclosed = "keep"\n')
    with pytest.raises(PolicyError, match="keep_if_signed"):
        load_policy(file)
