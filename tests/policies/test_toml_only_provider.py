"""A provider nobody has heard of is added by one TOML file, and its broken stream is healed."""

import json
from pathlib import Path
from typing import Any

import pytest

import midthought
from midthought.testing import Attempt, FaultyUpstream

POLICY = """
extends = ["openai-compatible"]
provider = "nimbus"
base_url = "{url}/v9"
path = "/talk"
auth = {{ header = "api-key", prefix = "", key_env = "NIMBUS_API_KEY" }}

[stream]
stops.finished = "end"
[cap]
fields = ["max_output_tokens"]
[continuation]
strategies = ["prefill", "instruct"]
[continuation.prefill]
message = {{ prefix = true }}
request = {{ resume = "text" }}

[[classify.prepend]]
kind = "overloaded"
code = ["no_free_worker"]

[backoff.continuation]      # for the test: no waits
initial_s = 0.0
max_s = 0.0
[backoff.transient]
initial_s = 0.0
max_s = 0.0
"""


def chunk(text: str = "", stop: str | None = None) -> str:
    """One frame of the dialect."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": stop}
    return f"data: {json.dumps({'id': 'x', 'choices': [choice]})}\n\n"


def reply(policy: Path | str, attempts: list[Attempt]) -> tuple[midthought.Reply, list[Any]]:
    """The reply to one request, and the upstream's record of what was sent."""
    path = Path("midthought/nimbus.toml")
    path.parent.mkdir()
    with FaultyUpstream(attempts) as upstream:
        path.write_text(POLICY.format(url=upstream.url), "utf-8")
        with midthought.Client(midthought.load_policy("nimbus")) as client:
            call = client.prepare(
                {
                    "model": "nimbus-large",
                    "max_output_tokens": 1000,
                    "messages": [{"role": "user", "content": "Count."}],
                }
            )
            return client.result(call), list(upstream.requests)


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty project whose environment holds the provider's key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NIMBUS_API_KEY", "the-key")


def test_cut_text_is_continued_as_the_file_says() -> None:
    """The key, the path, the prefill and the words of the file are used; the text joins exactly."""
    turn, requests = reply(
        "nimbus",
        [
            Attempt([chunk("one two "), chunk("three "), {"fault": "fin"}]),
            Attempt([chunk("four"), chunk(stop="finished"), "data: [DONE]\n\n"]),
        ],
    )
    first, second = (request.json() for request in requests)

    assert "one two three four" == turn.text
    assert ["/v9/talk", "/v9/talk"] == [request.path for request in requests]
    assert {"the-key"} == {dict(request.headers)["api-key"] for request in requests}
    assert "resume" not in first
    assert "text" == second["resume"]
    partial = {"role": "assistant", "content": "one two three", "prefix": True}
    assert partial == second["messages"][-1]
    assert 0 < second["max_output_tokens"] < first["max_output_tokens"]


def test_its_own_errors_are_understood() -> None:
    """An error in the provider's words means what the file says, and the request is sent again."""
    turn, requests = reply(
        "nimbus",
        [
            Attempt(status=400, body=json.dumps({"error": {"code": "no_free_worker"}})),
            Attempt([chunk("one"), chunk(stop="finished"), "data: [DONE]\n\n"]),
        ],
    )

    assert "one" == turn.text
    assert requests[0].json() == requests[1].json()
