"""Whole turns over the Gemini dialect: checkpoints, hops, refusals, quotas, the reported cases.

No sockets and no time: the machine and a scripted server. Cases are named by their number.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from gemini_frames import call, frame, says, stop, thinks
from strict_gemini import faults
from twin import JSON, STREAM, Answer, End, Twin

from midthought.policies import Policy, load_policy
from midthought.statemachine import Cancelled, HostEvent

REQUEST: dict[str, Any] = {
    "model": "gemini-4-argon",
    "contents": [{"role": "user", "parts": [{"text": "go"}]}],
}
POLICY = load_policy("gemini")


def cut(*frames: bytes, end: End = "fin") -> Answer:
    """A stream that breaks behind these events."""
    return Answer(b"".join(frames), end, headers=STREAM)


def whole(*frames: bytes) -> Answer:
    """A stream with an orderly end."""
    return cut(*frames, end="eof")


def refused(status: int, code: str, message: str, *details: Any) -> Answer:
    """An error over HTTP."""
    error = {"code": status, "status": code, "message": message, "details": list(details)}
    return Answer(json.dumps({"error": error}).encode(), status=status, headers=JSON)


def run(
    *answers: Answer,
    model: str = "gemini-4-argon",
    used: Policy = POLICY,
    told: Mapping[int, HostEvent] | None = None,
    **request: Any,
) -> Twin:
    """A turn against these answers; one request more than there are answers is a fault."""
    asked = {**REQUEST, "model": model, **request}
    twin = Twin(used, asked, lambda body, number: answers[number], told=told or {}).run()
    first = twin.sent[0].body
    for sent in twin.sent:
        assert [] == faults(sent.body, model=model, first=first)
    return twin


def ways(twin: Twin) -> list[str | None]:
    """How each request after the first went on."""
    return [attempt.strategy or attempt.how for attempt in twin.attempts[1:]]


def tokens(twin: Twin) -> list[str | None]:
    """The token of each request."""
    return [sent.body.get("continuationToken") for sent in twin.sent]


def kinds(twin: Twin) -> list[str]:
    """What each failure was."""
    return [a.failure.kind.value for a in twin.attempts if a.failure is not None]


LONG = "A first sentence that is long enough. "


# --- checkpoints ----------------------------------------------------------------------------------


def test_a_cut_resumes_at_the_last_checkpoint() -> None:
    """The same request with the newest token; what is said again is not shown again."""
    twin = run(
        cut(
            says(LONG, continuationToken="t1"),
            says("Second. ", continuationToken="t2"),
            says("Third, half"),
        ),
        whole(says("Third, half"), says(" and whole."), stop()),
    )

    assert (["resume"], [None, "t2"]) == (ways(twin), tokens(twin))
    assert f"{LONG}Second. Third, half and whole." == twin.view.text
    assert "completed" == twin.view.finished.outcome


def test_checkpoints_follow_one_another_over_attempts() -> None:
    """A resumed attempt brings checkpoints of its own; each cut goes on from the newest."""
    twin = run(
        cut(says(LONG, continuationToken="t1"), says("Second ")),
        cut(says("Second thing. ", continuationToken="t2"), says("Third ")),
        whole(says("Third thing."), stop()),
    )

    assert [None, "t1", "t2"] == tokens(twin)
    assert f"{LONG}Second thing. Third thing." == twin.view.text


def test_thoughts_before_a_checkpoint_stay() -> None:
    """Thoughts that were whole at the checkpoint are neither lost nor asked for again."""
    twin = run(
        cut(says(thinks("hm")), says(LONG, continuationToken="t1"), says("Sec")),
        whole(says("Second."), stop()),
    )

    assert (["resume"], f"{LONG}Second.") == (ways(twin), twin.view.text)
    assert ["thinking", "text"] == [block.kind for block in twin.view.valid]


def test_the_rest_in_other_words() -> None:
    """What stands behind the checkpoint was shown: said otherwise, it is not said twice, and the
    model is instructed to go on from what was shown."""
    twin = run(
        cut(says(LONG, continuationToken="t1"), says("Second thing ")),
        whole(says("Another second thing."), stop()),
        whole(says("and the third."), stop()),
    )

    assert ["resume", "instruct"] == ways(twin)
    assert ["sse_transport", "seam_mismatch"] == kinds(twin)
    assert f"{LONG}Second thing and the third." == twin.view.text


def test_without_a_checkpoint_the_model_is_instructed() -> None:
    """A model of which nothing is known, and a stream without tokens."""
    twin = run(cut(says(LONG)), whole(says("Second."), stop()), model="gemini-5-tomorrow")

    assert (["instruct"], [None, None]) == (ways(twin), tokens(twin))
    assert f"{LONG}Second." == twin.view.text


def test_a_full_hop_goes_on_by_itself() -> None:
    """CONTINUATION is no end: the next hop is asked for with its token, with no word added."""
    twin = run(
        whole(says(LONG, finishReason="CONTINUATION", continuationToken="t1")),
        whole(says("Second, in a wo", finishReason="CONTINUATION", continuationToken="t2")),
        whole(says("rd."), stop()),
        generationConfig={"maxOutputTokens": 200_000},
    )

    assert (["resume", "resume"], [None, "t1", "t2"]) == (ways(twin), tokens(twin))
    assert f"{LONG}Second, in a word." == twin.view.text
    assert ("completed", "end") == (
        twin.view.finished.outcome,
        twin.view.finished.stop.value,
    )
    assert [200_000] * 3 == [s.body["generationConfig"]["maxOutputTokens"] for s in twin.sent]
    assert ["text"] == [block.kind for block in twin.view.valid]


def test_a_hop_without_a_token_ends_the_turn() -> None:
    """There is nothing to go on with: the turn ends as the provider ended it."""
    twin = run(whole(says(LONG, finishReason="CONTINUATION")))

    assert ("completed", "pause") == (twin.view.finished.outcome, twin.view.finished.stop.value)


def test_a_refused_checkpoint() -> None:
    """A token that the API does not take closes this way, and the model is instructed."""
    twin = run(
        cut(says(LONG, continuationToken="t1"), says("Second ")),
        refused(400, "INVALID_ARGUMENT", "The continuation_token is expired."),
        whole(says("thing."), stop()),
    )

    assert ["resume", "instruct"] == ways(twin)
    assert f"{LONG}Second thing." == twin.view.text


# --- prefill --------------------------------------------------------------------------------------


def test_prefill_where_a_model_takes_it() -> None:
    """The partial as the last turn; a refusal of that is learnt for the turn."""
    twin = run(cut(says(LONG)), whole(says("Second."), stop()), model="gemini-2.5-flash")
    assert (["prefill"], f"{LONG}Second.") == (ways(twin), twin.view.text)
    assert {"role": "model", "parts": [{"text": LONG.rstrip()}]} == twin.sent[1].body["contents"][
        -1
    ]

    message = "Requests ending with a model turn are not supported."
    twin = run(
        cut(says(LONG)),
        refused(400, "INVALID_ARGUMENT", message),
        whole(says("Second."), stop()),
        model="gemini-3.5-flash",
    )
    assert ["prefill", "instruct"] == ways(twin)
    assert ["sse_transport", "prefill_rejected"] == kinds(twin)
    assert f"{LONG}Second." == twin.view.text


def test_no_prefill_with_tools() -> None:
    """Where it is not known to work the model is instructed."""
    tools = [{"functionDeclarations": [{"name": "f"}]}]
    twin = run(
        cut(says(LONG)), whole(says("Second."), stop()), model="gemini-2.5-flash", tools=tools
    )

    assert ["instruct"] == ways(twin)


def test_a_format_is_never_glued() -> None:
    """A reply in a schema that was shown in part is neither prefilled nor instructed."""
    config = {"responseMimeType": "application/json"}
    twin = run(
        cut(says('{"a": "and so on and on')), model="gemini-2.5-flash", generationConfig=config
    )

    assert ("exhausted", 1) == (twin.view.finished.outcome, len(twin.sent))


# --- calls ----------------------------------------------------------------------------------------


def test_a_cut_behind_a_call_is_no_call() -> None:
    """A functionCall without a finish reason is dropped and recorded: it may lack its signature."""
    twin = run(cut(says(call("f", {"a": 1}))), whole(says(call("f", {"a": 2})), stop()))

    assert ["retry"] == ways(twin)
    assert [{"a": 2}] == [json.loads(c.joined("input")) for c in twin.view.calls]
    (record,) = twin.records_of("discarded_partial_tool_use")
    assert ("f", "sse_transport_error") == (record["tool_name"], record["reason"])


def test_a_call_that_came_whole_is_the_turn() -> None:
    """With its finish reason a call is whole, however the body ends then."""
    part = call("f", {"a": 1}, thoughtSignature="c2ln")
    twin = run(cut(says(LONG), says(part), stop()))

    assert ("completed", "tool_use") == (
        twin.view.finished.outcome,
        twin.view.finished.stop.value,
    )
    assert [{"text": LONG}, part] == twin.machine.history.message[0]["parts"]


def test_malformed_function_call() -> None:
    """Case J07: one identical resend, then the failure; nothing of it in the history."""
    bad = whole(frame({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]}))
    twin = run(bad, whole(says("beta"), stop()))
    assert (["retry"], "beta") == (ways(twin), twin.view.text)

    twin = run(bad, bad)
    assert "exhausted" == twin.view.finished.outcome
    assert "malformed_tool_call" == twin.view.finished.failure.kind.value
    assert [] == twin.machine.history.messages


def test_malformed_function_call_after_text() -> None:
    """Case J07: what was said stands, and the model goes on from it."""
    bad = frame({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL"}]})
    twin = run(whole(says(LONG), bad), whole(says("beta"), stop()))

    assert (["instruct"], f"{LONG}beta") == (ways(twin), twin.view.text)


# --- reported cases -------------------------------------------------------------------------------


def _alpha(*parts: str, **more: Any) -> bytes:
    made = [{"text": part} for part in parts]
    return frame(
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": made}, **more}]}
    )


@pytest.mark.parametrize("model", ["gemini-3.7-flash", "gemini-2.5-flash"])
def test_cut_inside_an_event(model: str) -> None:
    """Case A10: half an event is no output, and no fault of the provider's JSON."""
    half = b'data: {"candidates":[{"content":{"role":"model","parts":[{"te'
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 3}
    last = {"candidates": [{"index": 0, "content": {"parts": [{"text": ""}]}}]}
    last["candidates"][0]["finishReason"] = "STOP"
    twin = run(
        cut(_alpha("Alpha and so on "), half),
        whole(_alpha("beta gamma"), frame({**last, "usageMetadata": usage})),
        model=model,
    )

    assert (["sse_transport"], "Alpha and so on beta gamma") == (kinds(twin), twin.view.text)


def test_the_end_has_no_marker() -> None:
    """Case B05: an end without a finish reason is a cut; one without parts is no empty reply."""
    twin = run(
        whole(_alpha("Alpha and so on ")),
        whole(_alpha("beta gamma"), frame({"candidates": [{"index": 0, "finishReason": "STOP"}]})),
    )

    assert (["premature_end"], 2) == (kinds(twin), len(twin.sent))
    assert "Alpha and so on beta gamma" == twin.view.text


def test_a_quota_of_the_day() -> None:
    """Case E06: one request, no wait, and the day as its scope."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "RATE_LIMIT_EXCEEDED",
        "metadata": {"quota_limit": "RequestsPerDayPerUser"},
    }
    twin = run(refused(429, "RESOURCE_EXHAUSTED", "q", info))
    found = twin.view.finished.failure

    assert (1, []) == (len(twin.sent), twin.waited)
    assert ("quota_exhausted", "day") == (found.kind.value, found.scope)


def test_a_rate_limit_is_waited_for_as_told() -> None:
    """The wait is the one in the text, never less."""
    told = "Quota exceeded, limit: 5. Please retry in 12.5s."
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}
    twin = run(refused(429, "RESOURCE_EXHAUSTED", told, delay), whole(says("A"), stop()))
    (waited,) = twin.waited

    assert 12.5 <= waited.delay_s <= 12.75


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT"])
def test_a_safety_stop_is_an_end(reason: str) -> None:
    """Case K09: neither retried nor continued, also with nothing said."""
    for frames in ([says(LONG), stop(reason)], [stop(reason)]):
        twin = run(whole(*frames))
        assert ("completed", "safety", 1) == (
            twin.view.finished.outcome,
            twin.view.finished.stop.value,
            len(twin.sent),
        )
    blocked = run(whole(frame({"promptFeedback": {"blockReason": "SAFETY"}})))
    assert ("safety", 1) == (blocked.view.finished.stop.value, len(blocked.sent))


def test_an_old_model_that_stops_with_every_response() -> None:
    """All of it is the reply, and an error behind a STOP is an error."""
    error = {"error": {"code": 503, "status": "UNAVAILABLE", "message": "m"}}
    twin = run(whole(stop("STOP", LONG), stop("STOP", "Second.")), model="gemini-pro")
    assert (f"{LONG}Second.", 1) == (twin.view.text, len(twin.sent))

    twin = run(
        whole(stop("STOP", LONG), frame(error)), whole(stop("STOP", "Second.")), model="gemini-pro"
    )
    assert (["overloaded"], f"{LONG}Second.") == (kinds(twin), twin.view.text)


@pytest.mark.parametrize("at", range(6))
def test_cancel_wins(at: int) -> None:
    """Promise 6: no request goes out after a cancel, wherever it comes, and history stays valid."""
    twin = run(
        cut(says(LONG, continuationToken="t1"), says("Second ")),
        cut(says("Second thing ")),
        whole(says("and third."), stop()),
        told={at: Cancelled()},
    )

    if twin.view.finished.outcome == "aborted":
        assert len(twin.sent) <= at // 2 + 1
    contents: Sequence[Any] = [*REQUEST["contents"], *twin.machine.history.messages]
    assert [] == faults({"contents": [*contents, REQUEST["contents"][0]]})
    assert [] == twin.after_done


def test_a_token_belongs_to_its_own_request() -> None:
    """A checkpoint of an instructed attempt is good for that request, and for no other."""
    asked = {**REQUEST, "model": "gemini-4-argon"}
    answers = [
        cut(says(LONG)),
        cut(says("Second thing. ", continuationToken="t1"), says("Third ")),
        whole(says("Third thing."), stop()),
    ]
    twin = Twin(POLICY, asked, lambda body, number: answers[number]).run()

    for sent in twin.sent:
        if "continuationToken" in sent.body:
            bare = {k: v for k, v in sent.body.items() if k != "continuationToken"}
            assert bare == twin.sent[1].body
