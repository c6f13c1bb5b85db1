"""The handed cases: what must hold for each, by hand, and which part a case still waits for.

A row says what the caller sees and what upstream gets; ``also`` are the points of its own. Words of
the cases (``right``, ``expect``) that speak of a proxy belong to the gateway and are shown there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from case_checks import (
    BOTH,
    Check,
    asks_for_identity,
    carries,
    choices_apart,
    closed_before_next,
    closed_early,
    drew_nothing,
    empty_flagged,
    ends_with_user,
    fence_dropped,
    ledger_has_both,
    never_sent,
    no_html,
    no_thinking_sent,
    one_message,
    pair_once,
    retry_at_7200,
    same_request,
    says,
    signature_whole,
    usage_is,
    visible_states,
)

__all__ = ["ELSEWHERE", "SHOWN", "WAITING", "Row"]

PREFILLED = "claude-sonnet-4-5"
THINKS: Mapping[str, Any] = {"thinking": {"type": "adaptive"}}
TOOLS: Mapping[str, Any] = {
    "tools": [{"name": "write_note", "input_schema": {"type": "object", "properties": {}}}]
}
REST = "beta gamma"


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
    timed: bool = False
    """Times decide details of it, so that traces differ."""


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
    "C01-stall-mid-response": Row(2, BOTH, laid_over="[clocks]\nliveness_s = 0.4\n"),
    "C02-pings-reset-timeout": Row(
        2,
        REST,
        laid_over="[clocks]\nfirst_content_s = 0.4\nliveness_s = 5.0\n",
        time_scale=0.1,
    ),
    "C04-first-byte-stall": Row(
        2,
        REST,
        laid_over="[clocks]\nheaders_s = 0.5\n",
        also=(same_request(), closed_before_next),
        timed=True,  # httpx's own timeout, or our clock: the same time, the first one tells
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
    "M02-wifi-or-vpn-change": Row(2, BOTH, also=(carries("Alpha"), drew_nothing), timed=True),
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
    "A10-mid-chunk": "../providers/test_gemini_turns.py::test_cut_inside_an_event",
    "B05-gemini-no-sentinel": "../providers/test_gemini_turns.py::test_the_end_has_no_marker",
    "D05-bedrock-exception-event": (
        "../providers/test_native_clients.py::test_exception_in_the_stream"
    ),
    "E06-daily-quota-gemini": "../providers/test_gemini_turns.py::test_a_quota_of_the_day",
    "G05-responses-reasoning-pair": (
        "../providers/test_openai_responses_request.py"
        "::test_reasoning_before_a_message_that_is_not_done"
    ),
    "J07-malformed-function-call": (
        "../providers/test_gemini_turns.py::test_malformed_function_call"
    ),
    "E01-retry-after-ignored": "test_handed_times.py::test_retry_after_is_waited_for",
    "L04-cancellederror-swallowed": "test_ended_by_the_caller.py::test_task_cancelled",
    "L05-generator-not-closed": "test_ended_by_the_caller.py::test_dropped_streams_leak_nothing",
    "M01-sleep-resume": "test_handed_times.py::test_wake_after_sleep",
    "M03-stale-keepalive": "test_handed_times.py::test_stale_connection",
}

#: The part that a case waits for.
WAITING: dict[str, str] = {
    "A04-h2-rst-internal": "HTTP/2 upstreams (the drop-in transport)",
    "A05-h2-shared-connection-poison": "HTTP/2 upstreams (the drop-in transport)",
    "E04-no-jitter-lockstep": "limits shared by the turns of a process",
    "E07-529-no-fallback": "fallback targets",
    "G04-signature-cross-model": "fallback targets",
    "K03-retry-multiplication": "the drop-in transport under an SDK",
    "L06-client-disconnect": "the gateway",
}
