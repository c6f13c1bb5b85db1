"""The grammar of the Gemini dialect, response by response."""

import json
from typing import Any

import pytest
from gemini_frames import (
    POLICY,
    VERTEX,
    built,
    call,
    failed,
    frame,
    last,
    only,
    read,
    says,
    stop,
    text_of,
    thinks,
    usage_of,
)

from midthought.policies import FailureKind, Policy, Stop
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    Checkpoint,
    Heartbeat,
    Opened,
    StopKnown,
    UsageReported,
)


def test_opened_once_with_id_and_model() -> None:
    """The first response opens the attempt, with what it says about itself."""
    named = frame({"candidates": [], "responseId": "r1", "modelVersion": "m-1"})

    (opened,) = only(read([named, says("A"), stop()]), Opened)
    assert ("r1", "m-1") == (opened.id, opened.model)
    (opened,) = only(read([says("A"), named, stop()]), Opened)
    assert (None, None) == (opened.id, opened.model)


def test_text_and_thoughts_are_blocks_of_their_own() -> None:
    """Parts of one kind go on with one block, whatever events they came in; both kinds close."""
    events = read([says(thinks("hm"), thinks(", so")), says("Al", "pha"), says(" beta"), stop()])

    assert [("thinking", "hm, so", True), ("text", "Alpha beta", True)] == [
        (b.kind, b.text, b.closed) for b in built(events)
    ]


def test_text_stays_open_until_the_end_of_the_body() -> None:
    """A finish reason does not close the text: more may come."""
    events = read([says("A"), stop(), says("B"), stop()])

    assert ["AB"] == [block.text for block in built(events)]
    assert type(events[-2]) is BlockClosed


@pytest.mark.parametrize("reason", ["STOP", "CONTINUATION", "SAFETY"])
def test_a_pause_leaves_the_text_open(reason: str) -> None:
    """What the provider only pauses in is gone on with in place; anything else is closed."""
    (block,) = built(read([says("A"), stop(reason)]))

    assert block.closed is (reason != "CONTINUATION")


def test_a_signed_part_stands_alone() -> None:
    """A part with a signature is a block of its own, whose data is the part; the rest goes on."""
    signed = {"text": "B", "thoughtSignature": "c2ln"}
    thought = thinks("hm", thoughtSignature="dGh0")
    events = read([says(thinks("a")), says(thought), says("A", signed, "C"), stop()])

    assert [
        ("thinking", "a", None, None),
        ("thinking", "hm", "dGh0", thought),
        ("text", "A", None, None),
        ("text", "B", "c2ln", signed),
        ("text", "C", None, None),
    ] == [(b.kind, b.text, b.signature, b.data) for b in built(events)]


@pytest.mark.parametrize("part", [{"text": "", "thoughtSignature": "x"}, {"thoughtSignature": "x"}])
def test_a_signature_without_text_is_kept_as_it_came(part: Any) -> None:
    """It belongs to the history although it shows nothing."""
    events = read([says("A"), says(part), stop()])

    assert [("text", None), ("other", part)] == [(b.kind, b.data) for b in built(events)]


def test_what_is_no_text_goes_by_verbatim() -> None:
    """Media, sketches made while thinking, and parts that nobody knows keep their part."""
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        {"fileData": {"fileUri": "gs://x"}},
        {"inlineData": {"mimeType": "image/png", "data": "BB=="}, "thought": True},
        {"functionResponse": {"name": "f", "response": {}}},
        {"tomorrow": {"a": 1}},
        {"inlineData": {"mimeType": "image/png", "data": "CC=="}, "text": "a caption"},
    ]
    events = read([says("A", *parts, "B"), stop()])

    assert ["text", "media", "media", "other", "other", "other", "media", "text"] == [
        block.kind for block in built(events)
    ]
    assert [None, *parts, None] == [block.data for block in built(events)]
    assert all(block.closed for block in built(events))


def test_empty_parts_say_nothing() -> None:
    """No text, no parts, no content, no candidates: signs of life."""
    quiet = [
        says(""),
        says({}),
        says(thinks("")),
        frame({"candidates": [{"content": {}}]}),
        frame({"candidates": [{}]}),
        frame({"candidates": []}),
        frame({"promptFeedback": {"safetyRatings": []}}),
    ]
    events = read([says("A"), *quiet, stop()])

    assert len(quiet) == len(only(events, Heartbeat))
    assert ["A"] == [block.text for block in built(events)]


def test_tools_of_the_provider_are_paired() -> None:
    """Use and result share an id: their own, else by their order."""
    events = read(
        [
            says({"executableCode": {"language": "PYTHON", "code": "1"}}),
            says({"executableCode": {"language": "PYTHON", "code": "2"}}),
            says({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
            says({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}),
            says({"toolCall": {"id": "t1", "toolType": "SEARCH"}}),
            says({"toolResponse": {"id": "t1", "response": {}}}),
            says({"executableCode": {"language": "PYTHON", "code": "3"}}),
            says({"toolResponse": {"id": "alone", "response": {}}}),
            says({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "3"}}),
            stop(),
        ]
    )
    blocks = built(events)
    ids = [block.id for block in blocks]

    assert {"server_tool"} == {block.kind for block in blocks}
    assert ids[0] == ids[2]
    assert ids[1] == ids[3]
    assert ["t1", "t1"] == ids[4:6]
    assert "alone" == ids[7]
    assert ids[6] == ids[8]
    assert 5 == len(set(ids))
    assert {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}} == blocks[2].data


# --- the stop fact --------------------------------------------------------------------------------

# By hand, from the SDK's documentation of FinishReason.
REASONS = [
    ("STOP", Stop.end),
    ("MAX_TOKENS", Stop.length),
    ("CONTINUATION", Stop.pause),
    ("NO_IMAGE", Stop.end),
    ("SAFETY", Stop.safety),
    ("RECITATION", Stop.safety),
    ("LANGUAGE", Stop.safety),
    ("BLOCKLIST", Stop.safety),
    ("PROHIBITED_CONTENT", Stop.safety),
    ("SPII", Stop.safety),
    ("IMAGE_SAFETY", Stop.safety),
    ("IMAGE_PROHIBITED_CONTENT", Stop.safety),
    ("IMAGE_RECITATION", Stop.safety),
    ("IMAGE_OTHER", Stop.safety),
    ("MODEL_ARMOR", Stop.safety),
    ("ESCALATION", Stop.safety),
    ("PUP_LIMITED_DISABLED", Stop.safety),
    ("TOMORROW", Stop.end),
    ("stop", Stop.end),
]


@pytest.mark.parametrize(("reason", "expected"), REASONS)
def test_stop_reasons(reason: str, expected: Stop) -> None:
    """Each finish reason is one of the common stops, its own word kept; unknown ones are ends."""
    events = read([says("A"), stop(reason)])
    (known,) = only(events, StopKnown)

    assert (expected, reason.upper()) == (known.stop, known.reason)
    assert expected is last(events).stop


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("MALFORMED_FUNCTION_CALL", FailureKind.malformed_tool_call),
        ("UNEXPECTED_TOOL_CALL", FailureKind.malformed_tool_call),
        ("TOO_MANY_TOOL_CALLS", FailureKind.malformed_tool_call),
        ("MALFORMED_RESPONSE", FailureKind.server_error),
        ("OTHER", FailureKind.server_error),
        ("MISSING_THOUGHT_SIGNATURE", FailureKind.invalid_request),
    ],
)
def test_stop_reasons_that_are_failures(reason: str, expected: FailureKind) -> None:
    """Where the provider broke off, the attempt failed, with the reason as its code (case J07)."""
    events = read([says("Alpha ", call()), frame({"candidates": [{"content": {}}]}), stop(reason)])

    assert expected is failed(events)
    assert reason == last(events).failure.code  # type: ignore[union-attr]
    assert [("text", True), ("tool_use", False)] == [(b.kind, b.closed) for b in built(events)]


@pytest.mark.parametrize(
    ("used", "reason", "expected"),
    [
        (POLICY, 1, Stop.end),
        (POLICY, 2, Stop.length),
        (POLICY, 3, Stop.safety),
        (POLICY, 5, FailureKind.server_error),
        (POLICY, 8, Stop.safety),
        (VERTEX, 1, Stop.end),
        (VERTEX, 9, FailureKind.malformed_tool_call),
        (VERTEX, 10, Stop.safety),
    ],
)
def test_reasons_as_numbers(used: Policy, reason: int, expected: Any) -> None:
    """Enumerations come as numbers too; which number means what is the policy's."""
    finished = last(read([says("A"), stop(reason)], used=used))

    assert expected is (finished.stop if finished.failure is None else finished.failure.kind)


@pytest.mark.parametrize("reason", [None, "", 0, "FINISH_REASON_UNSPECIFIED", True])
def test_what_is_no_reason(reason: Any) -> None:
    """A finish reason that is not set does not complete a reply."""
    assert FailureKind.premature_end is failed(read([says("A"), stop(reason)]))


def test_without_a_reason_it_is_a_cut() -> None:
    """An orderly end of the body without a finish reason is a cut (case B05)."""
    assert FailureKind.premature_end is failed(read([says("Alpha ")]))
    assert last(read([says("Alpha "), stop()])).failure is None


def test_stop_with_every_response() -> None:
    """Old models stop with each response: all is read, the last reason counts, each is told."""
    events = read([stop("STOP", "1 "), stop("STOP", "2 "), stop("RECITATION")])

    assert "1 2 " == text_of(events)
    assert [Stop.end, Stop.end, Stop.safety] == [e.stop for e in only(events, StopKnown)]
    assert Stop.safety is last(events).stop


def test_what_is_said_beside_the_reason() -> None:
    """Grounding, ratings and the like are details of the stop fact, also when they came before."""
    events = read(
        [
            says("A", groundingMetadata={"webSearchQueries": ["x"]}, urlContextMetadata={}),
            says(finishReason="STOP", finishMessage="done", safetyRatings=[{"category": "c"}]),
        ]
    )
    (known,) = only(events, StopKnown)

    assert {
        "groundingMetadata": {"webSearchQueries": ["x"]},
        "finishMessage": "done",
        "safetyRatings": [{"category": "c"}],
    } == known.details


@pytest.mark.parametrize("reason", ["SAFETY", "JAILBREAK", "OTHER", "TOMORROW", 2])
def test_a_blocked_prompt_is_a_safety_stop(reason: Any) -> None:
    """A blocked prompt is complete and never a failure, whatever the word for it."""
    feedback = {"blockReason": reason, "blockReasonMessage": "no"}
    events = read([frame({"promptFeedback": feedback})])
    (known,) = only(events, StopKnown)

    assert (Stop.safety, str(reason)) == (known.stop, known.reason)
    assert {"promptFeedback": feedback} == known.details
    assert Stop.safety is last(events).stop


# --- checkpoints, usage, citations ----------------------------------------------------------------


def test_a_token_is_a_checkpoint_behind_its_parts() -> None:
    """What stands in the same response stands before the checkpoint, the stop fact after it."""
    events = read(
        [says("A", continuationToken="t1"), stop("CONTINUATION", "B"), says(continuationToken="")]
    )
    order = [type(e) for e in events if type(e) in (BlockDelta, Checkpoint, StopKnown)]
    final = says("B", finishReason="CONTINUATION", continuationToken="t2")

    assert [BlockDelta, Checkpoint, BlockDelta, StopKnown] == order
    assert [{"continuationToken": "t1"}] == [e.handle for e in only(events, Checkpoint)]
    kinds = [type(e) for e in read([final]) if type(e) in (BlockDelta, Checkpoint, StopKnown)]
    assert [BlockDelta, Checkpoint, StopKnown] == kinds
    other = frame({"candidates": [{"index": 1, "continuationToken": "t"}]})
    assert [] == only(read([says("A"), other]), Checkpoint)


def test_usage_is_a_running_total() -> None:
    """The last counters count; the prompt's tools and the thoughts are in their sums."""
    first = {"promptTokenCount": 5, "totalTokenCount": 5}
    later = {
        "promptTokenCount": 6,
        "toolUsePromptTokenCount": 10,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4,
        "cachedContentTokenCount": 2,
        "candidatesTokensDetails": [{"modality": "TEXT"}],
    }
    body = {"candidates": [{"content": {"parts": [{"text": "A"}]}}]}
    events = read(
        [
            frame({"usageMetadata": first}),
            frame({"usageMetadata": first}),
            frame({**body, "usageMetadata": first}),
            frame({**body, "usageMetadata": first}),
            frame({**body, "usageMetadata": {"trafficType": "ON_DEMAND"}}),
            frame({**body, "usageMetadata": later}),
            frame({**body, "usageMetadata": {"promptTokenCount": "many", "x": None}}),
            stop(),
        ]
    )

    assert 2 == len(only(events, UsageReported))
    assert {
        "input": 16,
        "output": 7,
        "cache_read": 2,
        "cache_write": None,
        "reasoning": 4,
    } == usage_of(events)


def test_usage_alone_is_a_response() -> None:
    """A response may hold nothing but counters."""
    events = read([frame({"usageMetadata": {"promptTokenCount": 1}}), says("A"), stop()])

    assert [Opened, UsageReported] == [type(e) for e in events[1:3]]


def test_citations_belong_to_the_text() -> None:
    """Both names of the list are read; what is repeated is told once."""
    one, two, three = {"startIndex": 1, "endIndex": 9}, {"uri": "https://x.example"}, {"title": "t"}
    events = read(
        [
            says("A", citationMetadata={"citationSources": [three, one]}),
            says("B", citationMetadata={"citations": [one, two]}),
            stop(),
        ]
    )
    (block,) = built(events)

    assert [three, one, two] == [json.loads(text) for text in block.citations]


def test_halves_of_an_emoji() -> None:
    """A character escaped in two halves over two responses is one; a half alone is replaced."""
    halves = r'{"candidates":[{"content":{"parts":[{"text":"%s"}]}}]}'
    events = read([says("x"), frame(halves % r"a\ud83d"), frame(halves % r"\ude00b"), stop()])

    assert "xa\U0001f600b" == text_of(events)
    assert "a\ufffd" == text_of(read([frame(halves % r"a\ud83d"), stop()]))
    assert "a\ufffdx" == text_of(read([frame(halves % r"a\ud83d"), says("x"), stop()]))
