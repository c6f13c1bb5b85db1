"""The Responses API of a real server: a reply that is cut goes on by a second request.

The model is far too small to go on well by instruction, so what it says is not judged; that nothing
is lost or said twice up to the cut, and that the server takes the request, is.
"""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from responses_upstream import ResponsesTwin
from strict_responses import StrictResponses
from twin import Answer

from midthought import load_policy
from midthought.testing import LocalModel

pytestmark = pytest.mark.llm

REQUEST = {
    "model": "smol",
    "input": "List three fruits.",
    "temperature": 0,
    "max_output_tokens": 60,
}
#: Created, in progress, item and part begin; then one event for each token.
FIRST_TEXT = 4


def run(model: LocalModel, cut: int | None) -> tuple[ResponsesTwin, list[Mapping[str, Any]]]:
    """A turn against the server, whose first answer is cut after so many events."""
    asked: list[Mapping[str, Any]] = []

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        asked.append(body)
        response = httpx.post(f"{model.url}/v1/responses", json=body, timeout=60)
        headers = list(response.headers.items())
        if cut is None or number:
            return Answer(response.content, "eof", response.status_code, headers)
        events = response.content.split(b"\n\n")[:cut]
        return Answer(b"".join(event + b"\n\n" for event in events), "rst", 200, headers)

    twin = ResponsesTwin(load_policy("openai-responses"), REQUEST, answer)
    twin.run()
    return twin, asked


@pytest.mark.parametrize("tokens", [5, 9, 20])
def test_a_cut_reply_goes_on(model: LocalModel, tokens: int) -> None:
    """Cut after some tokens, the shown words stay, and the server goes on from them."""
    whole, _ = run(model, None)
    assert "completed" == whole.view.finished.outcome
    assert whole.machine.usage.output

    twin, (first, second) = run(model, FIRST_TEXT + tokens)
    question, said, again = second["input"]
    kept = said["content"][0]["text"]

    assert "completed" == twin.view.finished.outcome
    assert [None, "instruct"] == [attempt.strategy for attempt in twin.attempts]
    assert (first["input"], "user") == (question["content"], again["role"])
    assert 10 < len(kept) and whole.view.text.startswith(kept)
    assert twin.view.text.startswith(kept)
    assert [] == StrictResponses().faults(second)
