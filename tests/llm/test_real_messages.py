"""The Anthropic dialect of a real server: cut replies go on by prefill, byte for byte."""

import pytest

import midthought
from midthought.testing import Cut, Cutter, LocalModel

pytestmark = pytest.mark.llm

POLICY = """
name = "local-messages"
extends = ["anthropic"]
base_url = "http://127.0.0.1:8080"

[auth]
header = "x-api-key"
key_env = "UNUSED_KEY"

[continuation]
strategies = ["prefill"]

[seam.prefill]
trim = "last_word"

[backoff.continuation]
initial_s = 0.0
max_s = 0.0
"""
REQUEST = {
    "model": "smol",
    "max_tokens": 40,
    "temperature": 0,
    "messages": [{"role": "user", "content": "List three fruits."}],
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> midthought.Policy:
    """Anthropic's policy for a server that takes prefills."""
    path = tmp_path_factory.mktemp("policies") / "local-messages.toml"
    path.write_text(POLICY, "utf-8")
    return midthought.load_policy(path)


def reply(model: LocalModel, policy: midthought.Policy, cuts: list[Cut | None]) -> midthought.Reply:
    """One turn through the cutter."""
    with (
        Cutter(model.url, cuts) as cutter,
        midthought.Client(policy, base_url=cutter.url, api_key="none") as client,
    ):
        turn = client.result(client.prepare(REQUEST))
        assert len(turn.attempts) == len([cut for cut in cuts if cut is not None]) + 1
        return turn


def test_cut_replies_are_byte_identical(model: LocalModel, policy: midthought.Policy) -> None:
    """Reset at eight places, once and twice in a turn: the same reply as without a cut."""
    whole = reply(model, policy, []).text
    places = range(16, len(whole) - 2, max(1, len(whole) // 9))

    assert 40 < len(whole)
    for place in places:
        assert whole == reply(model, policy, [Cut(place)]).text
    assert whole == reply(model, policy, [Cut(16), Cut(20)]).text
