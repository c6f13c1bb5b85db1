"""Points of single cases: what else must hold for a turn that was played.

Each is a function of what the caller has and what upstream saw; ``case_rows`` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hosts import Played

from midthought.testing import RecordedRequest

BOTH = "Alpha beta gamma"


@dataclass
class Seen:
    """A turn of a case: what the caller has, what upstream saw."""

    played: Played
    requests: Sequence[RecordedRequest]

    def body(self, number: int) -> dict[str, Any]:
        """A request's body."""
        return dict(self.requests[number].json())


Check = Callable[[Seen], None]


def carries(text: str, request: int = 1) -> Check:
    """That request's history ends with this text of the reply."""

    def check(seen: Seen) -> None:
        said = [m for m in seen.body(request)["messages"] if m["role"] == "assistant"][-1]
        content = said["content"]
        found = content if isinstance(content, str) else content[-1]["text"]
        assert found == text

    return check


def same_request(number: int = 1) -> Check:
    """That request is the first one again, byte for byte."""

    def check(seen: Seen) -> None:
        assert seen.requests[number].body == seen.requests[0].body

    return check


def never_sent(words: str) -> Check:
    """These characters are in no request."""

    def check(seen: Seen) -> None:
        assert not any(words.encode() in request.body for request in seen.requests)

    return check


def usage_is(input_: int, output: int) -> Check:
    """The sums of the turn."""

    def check(seen: Seen) -> None:
        usage = seen.played.turn.usage
        assert (usage.input, usage.output) == (input_, output)

    return check


def pair_once(seen: Seen) -> None:
    """The earlier tool round stands once in the second request."""
    assert seen.requests[1].body.count(b'"tool_result"') == 1
    assert seen.requests[1].body.count(b'"tool_use"') == 1
    assert not seen.played.view.calls


def asks_for_identity(seen: Seen) -> None:
    """Streams are asked for without compression."""
    assert all(r.header("accept-encoding") == "identity" for r in seen.requests)


def empty_flagged(seen: Seen) -> None:
    """An empty reply is flagged, and no empty message is made of it."""
    assert seen.played.view.finished.reason == "empty"
    assert seen.played.turn.message is None
    assert list(seen.played.turn.messages) == []


def closed_before_next(seen: Seen) -> None:
    """The silent connection was closed before the next request was written."""
    first, second = seen.requests
    assert first.client_closed_at is not None
    assert first.client_closed_at <= second.arrived_at


def says(words: str) -> Check:
    """The failure that ended the turn has the provider's words."""

    def check(seen: Seen) -> None:
        assert words in seen.played.view.finished.failure.message

    return check


def retry_at_7200(seen: Seen) -> None:
    """The turn says when a retry makes sense, and did not wait."""
    assert 7190 <= seen.played.view.finished.retry_at_s <= 7200
    assert "backoff" not in [state for _, _, state in seen.played.states]


def ends_with_user(seen: Seen) -> None:
    """The refused prefill is followed by an instruction."""
    assert seen.body(1)["messages"][-1]["role"] == "assistant"
    assert seen.body(2)["messages"][-1]["role"] == "user"


def signature_whole(seen: Seen) -> None:
    """The signature of the final thinking block is the whole one."""
    (thought,) = [b for b in seen.played.view.valid if b.kind == "thinking"]
    assert thought.joined("signature") == "AAABBB"


def no_thinking_sent(seen: Seen) -> None:
    """Unsigned thinking did not go back."""
    assert all(b'"thinking":"hmm' not in request.body for request in seen.requests)
    assert b'"signature"' not in seen.requests[1].body


def fence_dropped(seen: Seen) -> None:
    """The re-opened fence was dropped, and the record says so and that it is not sure."""
    (record,) = seen.played.records_of("llm_seam_joined")
    assert record["quality"] == "uncertain"
    assert record["dropped_chars"] > 0


def ledger_has_both(seen: Seen) -> None:
    """One row per attempt: the cut one estimated and marked, the other as reported."""
    first, second = seen.played.turn.usage_per_attempt
    assert first.input == 5
    assert first.output >= 1
    assert not first.final
    assert (second.output, second.final) == (4, True)
    assert seen.played.turn.usage.incomplete


def choices_apart(seen: Seen) -> None:
    """Each choice keeps its own text: the whole one and the cut one."""
    blocks = seen.played.turn.blocks
    texts = {(b.data or {}).get("choice", 0): b.text for b in blocks if b.kind == "text"}
    assert texts == {0: "Alpha", 1: "Be"}


def closed_early(seen: Seen) -> None:
    """The runaway was closed by us, and no call of it was ever shown."""
    assert seen.requests[0].client_closed
    assert not seen.played.view.blocks


def no_html(seen: Seen) -> None:
    """No page of markup in the records."""
    words = [str(dict(fields)) for _, fields in seen.played.records]
    assert not any("<html" in word for word in words)


def one_message(seen: Seen) -> None:
    """The stored history is one assistant message, without a word of recovery's."""
    message = seen.played.turn.message
    assert message["role"] == "assistant"
    assert "".join(block["text"] for block in message["content"]) == BOTH
    assert len(seen.played.turn.recovery_indexes) == 1


def visible_states(seen: Seen) -> None:
    """Each attempt and each wait can be shown, and none of it is text of the reply."""
    changes = [e for e in seen.played.events if type(e).__name__ == "StateChanged"]
    waits = [e for e in changes if e.state == "backoff"]
    assert len(waits) == 2
    assert all("delay_s" in e.detail and "uses_left" in e.detail for e in waits)
    assert len([r for r in seen.played.records if "attempt" in r[1]]) >= 3
    assert seen.played.turn.text == "Alpha "


def drew_nothing(seen: Seen) -> None:
    """What was refused before it was written is not a paid attempt: no continuation was used up."""
    hows = [a.how for a in seen.played.turn.attempts]
    assert hows.count("continue") == 1
