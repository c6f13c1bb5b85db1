"""A server that turns out to refuse a prefill: the model is instructed, and the reply is healed.

The words are each provider's own, where they are known; a 400 in any other words means the same,
since the request was fine before the partial was in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from continuing import Continuing
from lanes import request_of
from provider_lanes import ProviderTwin, provider_lane
from recordings import ABSENT, recordings
from twin import JSON, Answer

PLAIN = [r for r in recordings("openai-chat") if {p.kind for p in r.reply.parts} == {"text"}]
MODELS = {
    "mistral": "mistral-large-latest",
    "deepseek": "deepseek-chat",
    "moonshot": "kimi-k3",
    "qwen": "qwen-plus",
    "groq": "llama-3.3-70b-versatile",
    "openrouter": "anthropic/claude-haiku-4.5",
    "vllm": "any",
    "sglang": "any",
    "llamacpp": "any",
    "tgi": "any",
    "ollama-openai": "any",
}
WORDS = {
    "mistral": "Expected last role User or Tool (or Assistant with prefix True) for serving",
    "deepseek": "The last message of deepseek-reasoner must be a user message, or an assistant",
    "openrouter": "This model does not support assistant message prefill. The conversation must",
    "vllm": "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
    "llamacpp": "Cannot have 2 or more assistant messages at the end of the list.",
}
UNHEARD_OF = "messages.1: something that nobody has told us yet"
SCENES = [*WORDS.items(), *((policy, UNHEARD_OF) for policy in MODELS)]


def refused(policy: str, words: str, *, always: bool = False) -> ProviderTwin:
    """A cut in the middle; the server refuses what ends with the assistant, or ``always``."""
    recording = PLAIN[3]
    lane, upstream = provider_lane(recording, policy, model=MODELS[policy]), Continuing(recording)
    error = {"error": {"message": words, "type": "invalid_request_error", "code": None}}

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        if number and (always or body["messages"][-1]["role"] == "assistant"):
            return Answer(json.dumps(error).encode(), status=400, headers=JSON)
        stream = upstream.play(body)
        return Answer(stream if number else stream[: len(stream) * 7 // 10], "eof")

    twin = ProviderTwin(lane.policy, request_of(lane, recording), answer)
    twin.run()
    return twin


@pytest.mark.skipif(not PLAIN, reason=ABSENT)
@pytest.mark.parametrize(("policy", "words"), SCENES)
def test_the_next_strategy_is_taken(policy: str, words: str) -> None:
    """One request more, without a wait, and the text is whole.

    What was refused is remembered where the words say it; other words may mean this request only.
    """
    twin = refused(policy, words)
    roles = [sent.body["messages"][-1]["role"] for sent in twin.sent]

    assert ("completed", ["user", "assistant", "user"]) == (twin.view.finished.outcome, roles)
    assert PLAIN[3].reply.text == twin.view.text
    assert [1.0] == [waited.delay_s for waited in twin.waited]
    assert ([] if words == UNHEARD_OF else ["prefill"]) == [*twin.machine.refused]
    # Nothing of the prefill is left in the instruction.
    assert "" == twin.suffixes[-1]
    assert not {"prefix", "partial"} & {key for m in twin.sent[-1].body["messages"] for key in m}
    assert "continue_final_message" not in twin.sent[-1].body


@pytest.mark.skipif(not PLAIN, reason=ABSENT)
@pytest.mark.parametrize("policy", MODELS)
def test_a_request_that_is_wrong_is_not_asked_for_ever(policy: str) -> None:
    """Where everything is refused the turn ends after the last way, and keeps what was shown."""
    twin = refused(policy, UNHEARD_OF, always=True)
    finished = twin.view.finished

    assert 3 == len(twin.sent)
    assert ("exhausted", "invalid_request") == (finished.outcome, finished.failure.kind.value)
    assert PLAIN[3].reply.text.startswith(twin.view.text) and twin.view.text
    assert twin.message is not None
