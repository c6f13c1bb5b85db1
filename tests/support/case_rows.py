"""The handed cases: what must hold for each, by hand, and which part a case still waits for.

A row says what the caller sees and what upstream gets; ``also`` are the points of its own. Words of
the cases (``right``, ``expect``) that speak of a proxy belong to the gateway and are shown there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hosts import Played

from midthought.testing import RecordedRequest

__all__ = ["ELSEWHERE", "SHOWN", "WAITING", "Row", "Seen"]

PREFILLED = "claude-sonnet-4-5"
THINKS: Mapping[str, Any] = {"thinking": {"type": "adaptive"}}
TOOLS: Mapping[str, Any] = {
    "tools": [{"name": "write_note", "input_schema": {"type": "object", "properties": {}}}]
}
BOTH = "Alpha beta gamma"
REST = "beta gamma"


@dataclass
class Seen:
    """A turn of a case: what the caller has, what upstream saw."""

    played: Played
    requests: Sequence[RecordedRequest]

    def body(self, number: int) -> dict[str, Any]:
        """A request's body."""
        return dict(self.requests[number].json())


Check = Callable[[Seen], None]


@dataclass(frozen=True)
class Row:
    """What must hold."""

    requests: int
    text: str = ""
    outcome: str = "completed"
    stop: str = "end"
    kind: str = ""
    """Of the failure that ended the turn."""
    calls: tuple[tuple[str, str, Any], ...] = ()
    also: tuple[Check, ...] = ()
    laid_over: str = ""
    model: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    hold_first: int = 0
    """The cases speak in a word or two; to hold a reply's first twelve characters, as the policies
    do, would make a retry of each."""
    time_scale: float = 1.0
    told_in: str = ""
    """Cancel when this event or state is seen."""


# --- points of their own ------------------------------------------------------------------------


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


# --- the table ----------------------------------------------------------------------------------

SHOWN: dict[str, Row] = {
    "A01-incomplete-chunked": Row(2, BOTH, also=(carries("Alpha"),)),
    "A02-econnreset-partial": Row(2, BOTH, more=TOOLS, also=(carries("Alpha"), pair_once)),
    "A07-gzip-sse-chunk": Row(2, BOTH, also=(carries("Alpha"), asks_for_identity)),
    "A08-stale-content-encoding": Row(2, REST, also=(same_request(), asks_for_identity)),
    "A09-cut-after-finish": Row(1, "Alpha", also=(usage_is(5, 3),)),
    "B01-chat-no-finish": Row(2, BOTH, also=(carries("Alpha"),)),
    "B02-anthropic-no-message-stop": Row(
        2,
        "Alpha ",
        outcome="exhausted",
        stop="error",
        kind="overloaded",
        laid_over="[limits]\nattempts = 2\n",
    ),
    "B04-last-event-no-blank-line": Row(1, "Alpha"),
    "B06-empty-200": Row(2, "", also=(empty_flagged, same_request(), usage_is(5, 0))),
    "C01-stall-mid-response": Row(2, BOTH, laid_over="[clocks]\nliveness_s = 0.09\n"),
    "C02-pings-reset-timeout": Row(
        2,
        REST,
        laid_over="[clocks]\nfirst_content_s = 0.09\nliveness_s = 5.0\n",
        time_scale=0.1,
    ),
    "C04-first-byte-stall": Row(
        2, REST, laid_over="[clocks]\nheaders_s = 0.09\n", also=(same_request(), closed_before_next)
    ),
    "C05-hang-after-finish": Row(
        1, "Alpha", laid_over="[clocks]\nfinish_grace_s = 0.05\n", time_scale=0.05
    ),
    "D01-overloaded-after-200": Row(3, BOTH, also=(same_request(), carries("Alpha", 2))),
    "D02-error-chunk-as-empty": Row(2, BOTH, also=(carries("Alpha"),)),
    "D04-deterministic-error-in-sse": Row(
        1,
        outcome="exhausted",
        stop="error",
        kind="context_overflow",
        also=(says("prompt is too long"),),
    ),
    "E02-retry-after-hours": Row(
        1, outcome="exhausted", stop="error", kind="rate_limited", also=(retry_at_7200,)
    ),
    "E05-quota-as-retryable": Row(1, outcome="exhausted", stop="error", kind="quota_exhausted"),
    "E08-should-retry-false": Row(1, outcome="exhausted", stop="error", kind="server_error"),
    "F01-truncated-args-executed": Row(
        2,
        "Note:",
        stop="tool_use",
        calls=(("toolu_2", "write_note", {"path": "a.txt", "content": "hello"}),),
        more=TOOLS,
        also=(carries("Note:"), never_sent("toolu_1")),
    ),
    "F02-bad-args-persisted": Row(
        2,
        stop="tool_use",
        calls=(("call_2", "add", {"x": "hello"}),),
        also=(never_sent("call_1"), same_request()),
    ),
    # The caller's own history, poisoned elsewhere: not mended unless asked, and not retried.
    "F04-tool-use-without-result": Row(
        1, outcome="exhausted", stop="error", kind="invalid_request", also=(says("toolu_1"),)
    ),
    "F05-text-after-tool-use": Row(
        1, "Note:", stop="tool_use", calls=(("toolu_1", "write_note", {"n": 1}),), more=TOOLS
    ),
    "G01-partial-signature": Row(
        2, "Alpha", more=THINKS, also=(same_request(), never_sent("AAA"), signature_whole)
    ),
    "G02-empty-signature": Row(2, BOTH, more=THINKS, also=(carries("Alpha"), no_thinking_sent)),
    "G07-empty-or-blank-text-block": Row(2, REST, also=(same_request(),)),
    "G08-cut-in-thinking-retry-loop": Row(2, REST, more=THINKS, also=(same_request(),)),
    "H01-trailing-whitespace": Row(2, "Alpha \nbeta", model=PREFILLED, also=(carries("Alpha"),)),
    "H02-prefill-unsupported": Row(3, BOTH, model=PREFILLED, also=(ends_with_user,)),
    "H04-duplicate-after-retry": Row(2, BOTH, hold_first=12),
    "H05-double-message-start": Row(2, BOTH),
    "H07-preamble-in-continuation": Row(2, "```py\na = 1\nb = 2\n```", also=(fence_dropped,)),
    "H08-space-at-seam": Row(2, "Alpha beta"),
    "H10-think-tag-leak": Row(
        2,
        "Alpha",
        laid_over='[blocks.thinking]\ntags = ["<think>", "</think>"]\n',
        also=(never_sent("<think>"),),
    ),
    "I01-utf8-split": Row(1, "Zoë 🚀"),
    "I02-crlf": Row(1, "Alpha"),
    "I03-no-space-after-colon": Row(1, "Alpha"),
    "I05-meta-only-events": Row(1, "Alpha"),
    "I06-missing-event-lines": Row(1, "Alpha"),
    "I08-bom": Row(1, "Alpha"),
    "I09-glued-half-event": Row(2, BOTH, also=(carries("Alpha"),)),
    "J01-stop-with-tools": Row(1, stop="tool_use", calls=(("call_1", "add", {"x": 1}),)),
    "J02-empty-or-null-choices": Row(1, "Alpha", also=(usage_is(5, 3),)),
    "J04-repeated-id-name": Row(1, stop="tool_use", calls=(("call_a", "add", {"x": 1}),)),
    "J05-null-delta": Row(1, "Alpha"),
    "J08-n-choices": Row(
        1,
        "AlphaBe",
        outcome="exhausted",
        stop="error",
        kind="sse_transport",
        more={"n": 2},
        also=(choices_apart,),
    ),
    "K01-max-tokens": Row(1, "Alpha ", stop="length"),
    "K02-context-overflow-loop": Row(
        2, "Alpha ", outcome="exhausted", stop="error", kind="context_overflow"
    ),
    "K05-usage-lost-on-retry": Row(2, "Alpha beta", also=(ledger_has_both,)),
    "K07-runaway-output": Row(
        1,
        outcome="exhausted",
        stop="error",
        kind="runaway",
        laid_over="[limits]\nblock_bytes = 1024\n",
        more=TOOLS,
        also=(closed_early,),
    ),
    "K08-empty-response": Row(1, "", also=(empty_flagged,)),
    "K09-refusal-retried": Row(1, "Alpha", stop="safety"),
    "L01-abort-in-backoff": Row(1, "", outcome="aborted", stop="aborted", told_in="backoff"),
    "L02-esc-vs-auto-resume": Row(
        1, "Alpha ", outcome="aborted", stop="aborted", told_in="BlockDelta"
    ),
    "M02-wifi-or-vpn-change": Row(2, BOTH, also=(carries("Alpha"), drew_nothing)),
    "M04-cloudflare-html": Row(2, REST, also=(same_request(), no_html)),
    "M05-middlebox-truncates": Row(2, BOTH, also=(carries("Alpha"),)),
    "M07-200-not-sse": Row(2, REST, also=(same_request(),)),
    "M09-sync-async-parity": Row(2, BOTH),  # every row is run on every host, and compared
    "N01-auto-continue": Row(2, BOTH, also=(one_message,)),
    "N02-visible-state-and-partial": Row(
        3,
        "Alpha ",
        outcome="exhausted",
        stop="error",
        kind="sse_transport",
        laid_over="[limits]\nattempts = 3\n",
        also=(visible_states,),
    ),
}

#: Shown by a test of its own, because one turn, or real time, is not enough.
ELSEWHERE: dict[str, str] = {
    "E01-retry-after-ignored": "test_handed_variants.py::test_retry_after_is_waited_for",
    "L04-cancellederror-swallowed": "test_ended_by_the_caller.py::test_task_cancelled",
    "L05-generator-not-closed": "test_ended_by_the_caller.py::test_dropped_streams_leak_nothing",
    "M01-sleep-resume": "test_handed_variants.py::test_wake_after_sleep",
    "M03-stale-keepalive": "test_handed_variants.py::test_stale_connection",
}

#: The part that a case waits for.
WAITING: dict[str, str] = {
    "A04-h2-rst-internal": "HTTP/2 upstreams (the drop-in transport)",
    "A05-h2-shared-connection-poison": "HTTP/2 upstreams (the drop-in transport)",
    "A10-mid-chunk": "the Gemini dialect",
    "B05-gemini-no-sentinel": "the Gemini dialect",
    "D05-bedrock-exception-event": "the Bedrock dialects",
    "E04-no-jitter-lockstep": "limits shared by the turns of a process",
    "E06-daily-quota-gemini": "the Gemini dialect",
    "E07-529-no-fallback": "fallback targets",
    "G04-signature-cross-model": "fallback targets",
    "G05-responses-reasoning-pair": "the Responses dialect",
    "J07-malformed-function-call": "the Gemini dialect",
    "K03-retry-multiplication": "the drop-in transport under an SDK",
    "L06-client-disconnect": "the gateway",
}
