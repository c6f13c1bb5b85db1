"""A script is checked whole, before it is played, and says what is wrong with it."""

import json
from typing import Any

import httpx
import pytest

from midthought.testing import Attempt, FaultyUpstream, ScriptError, Step, UnsupportedStep
from midthought.testing._repeat import DIALECTS

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown fault": (
        {"steps": [{"fault": "rts"}]},
        "steps[0]: unknown fault 'rts'; did you mean 'rst'?",
    ),
    "far from any": (
        {"steps": [{"fault": "meteor"}]},
        "steps[0]: unknown fault 'meteor'; known are aws_frame, clock_jump, connect_refused, "
        "eof_clean, fin, gzip_cut, h2_goaway, h2_rst, rst, rst_before_response, stall",
    ),
    "fault of a strange type": (
        {"steps": [{"fault": ["rst"]}]},
        "steps[0]: unknown fault ['rst']; did you mean 'rst'?",
    ),
    "unknown step": (
        {"steps": ["x", {"sleep": 1}]},
        "steps[1]: has 'sleep'; expected one of b64, wait, repeat, fault",
    ),
    "empty step": ({"steps": [{}]}, "steps[0]: has no key; expected one of"),
    "number": ({"steps": [7]}, "steps[0]: expected text, bytes or a mapping, not int"),
    "extra key": (
        {"steps": [{"wait": 1, "unti": "x"}]},
        "steps[0]: unknown key of a wait step 'unti'; known are wait",
    ),
    "extra key of a fault": (
        {"steps": [{"fault": "rst", "code": 1}]},
        "steps[0]: unknown key of a fault step 'code'; known are fault",
    ),
    "empty text": ({"steps": [""]}, "steps[0]: is empty, which would end a chunked body"),
    "base64": ({"steps": [{"b64": "?"}]}, "steps[0]: b64 is not base64"),
    "wait": ({"steps": [{"wait": -1}]}, "steps[0]: wait expects seconds, zero or more, not -1"),
    "wait for ever": ({"steps": [{"wait": float("inf")}]}, "wait expects seconds"),
    "wait by word": ({"steps": [{"wait": "1"}]}, "wait expects seconds, zero or more, not '1'"),
    "wait by truth": ({"steps": [{"wait": True}]}, "wait expects seconds, zero or more, not True"),
    "after the end": (
        {"steps": [{"fault": "fin"}, "x"]},
        "steps[1]: is never reached: 'fin' before it ends the reply",
    ),
    "bytes after gzip_cut": (
        {"steps": ["a", {"fault": "gzip_cut"}, "x"]},
        "steps[2]: sends bytes after 'gzip_cut'",
    ),
    "late rst_before_response": (
        {"steps": ["x", {"fault": "rst_before_response"}]},
        "steps[1]: 'rst_before_response' comes before any byte; use 'rst' after one",
    ),
    "connect_refused in company": (
        {"steps": [{"wait": 1}, {"fault": "connect_refused"}]},
        "steps: 'connect_refused' takes no request, so it stands alone",
    ),
    "repeat what": (
        {"steps": [{"repeat": "", "n": 1, "as": "text_delta"}]},
        "steps[0]: repeat expects the text to repeat",
    ),
    "repeat how often": (
        {"steps": [{"repeat": "a", "n": 0, "as": "text_delta"}]},
        "steps[0]: repeat expects n, one or more, not 0",
    ),
    "repeat as": (
        {"steps": [{"repeat": "a", "n": 1, "as": "words"}]},
        "steps[0]: repeat expects as = 'text_delta' or 'input_json_delta', not 'words'",
    ),
    "repeat in no dialect": (
        {"steps": [{"repeat": "a", "n": 1, "as": "text_delta"}], "dialect": "klingon"},
        "steps[0]: repeat is written in anthropic, gemini, openai-chat, openai-responses; "
        "there is no dialect 'klingon'",
    ),
    "repeat not in this dialect": (
        {"steps": [{"repeat": "a", "n": 1, "as": "input_json_delta"}], "dialect": "gemini"},
        "steps[0]: gemini sends a call's input whole",
    ),
    "steps": ({"steps": "abc"}, "steps: expected a list of steps"),
    "body and steps": ({"steps": ["x"], "body": "y"}, "body and steps: give one of them"),
    "body": ({"body": 5}, "body: expected text or bytes"),
    "framing": (
        {"framing": "chunkd"},
        "framing: unknown framing 'chunkd'; did you mean 'chunked'?",
    ),
    "no framing": ({"framing": None}, "framing: unknown framing None"),
    "status": ({"status": "200"}, "status: expected 200 to 999, not '200'"),
    "small status": ({"status": 100}, "status: expected 200 to 999, not 100"),
    "no status": ({"status": None}, "status: null means no status line; use framing 'none'"),
    "bytes without a head": (
        {"steps": ["x"], "framing": "none"},
        "framing 'none': no status line, so no bytes either",
    ),
    "bytes without a body": ({"steps": ["x"], "status": 204}, "status 204: has no body"),
    "headers": ({"headers": 5}, "headers: expected a mapping, or pairs of name and value"),
    "headers of three": ({"headers": [("a", "b", "c")]}, "headers: expected a mapping, or pairs"),
    "header name": ({"headers": {"a b": "c"}}, "headers: 'a b' is no header name"),
    "header lines": (
        {"headers": {"a": "b\r\nc: d"}},
        "headers: the value of 'a' must be one line of latin-1",
    ),
    "header letters": ({"headers": {"a": "…"}}, "headers: the value of 'a' must be one line"),
    "header type": ({"headers": {"a": 1}}, "headers: the value of 'a' must be one line"),
    "head_after_s": ({"head_after_s": -1}, "head_after_s: expected seconds, zero or more"),
}


@pytest.mark.parametrize(("fields", "text"), WRONG.values(), ids=WRONG)
def test_each_fault_is_named(fields: dict[str, Any], text: str) -> None:
    """A fault is found when the upstream is made, with its place and what was expected."""
    with pytest.raises(ScriptError) as caught:
        FaultyUpstream([Attempt(**fields)])

    assert 1 == len(caught.value.faults), caught.value
    assert caught.value.faults[0].startswith(text) or text in caught.value.faults[0]
    assert "docs/testing.md" in str(caught.value)


def test_all_faults_at_once() -> None:
    """One error names every fault of every attempt, of the numbers and of the port."""
    attempts = [
        Attempt(["ok"]),
        Attempt([{"wait": -1}, {"b64": "?"}], framing="rst", status=7),
        "text",
    ]
    with pytest.raises(ScriptError) as caught:
        FaultyUpstream(attempts, port=99999, time_scale=-1, refuse_s=float("nan"))  # type: ignore[arg-type]

    assert [
        "time_scale: expected a number, zero or more, not -1",
        "refuse_s: expected a number, zero or more, not nan",
        "port: expected 0 to 65535, not 99999",
        "attempts[1].framing: unknown framing 'rst'; known are aws-eventstream, chunked, close, "
        "h2, length, none, reused",
        "attempts[1].status: expected 200 to 999, not 7",
        "attempts[1].steps[0]: wait expects seconds, zero or more, not -1",
        "attempts[1].steps[1]: b64 is not base64",
        "attempts[2]: expected an Attempt, not str; Attempt.from_case reads a mapping",
    ] == list(caught.value.faults)
    assert isinstance(caught.value, ValueError)
    assert "8 to mend" in str(caught.value)


@pytest.mark.parametrize("attempts", [[], None, Attempt(["x"]), 5])
def test_something_to_answer_is_needed(attempts: Any) -> None:
    """An upstream without attempts, or with one that is not in a list, is refused."""
    with pytest.raises(ScriptError, match="attempts: expected a list of Attempt, one or more"):
        FaultyUpstream(attempts)


def test_a_function_does_not_hide_a_bad_port() -> None:
    """The numbers are checked too where a function answers."""
    with pytest.raises(ScriptError, match="port: expected 0 to 65535, not -1"):
        FaultyUpstream(lambda request, number: Attempt(["x"]), port=-1)


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        (
            {"framing": "h2", "steps": ["x", {"fault": "h2_rst", "code": "REFUSED_STREAM"}]},
            [("framing 'h2'", "an HTTP/2 server"), ("steps[1] 'h2_rst'", "an HTTP/2 server")],
        ),
        (
            {"steps": [{"fault": "h2_goaway", "code": 0, "last_stream_id": 1}]},
            [("steps[0] 'h2_goaway'", "an HTTP/2 server")],
        ),
        (
            {
                "framing": "aws-eventstream",
                "steps": [{"fault": "aws_frame", "message_type": "event", "payload": "p"}],
            },
            [
                ("framing 'aws-eventstream'", "a server of AWS event-stream frames"),
                ("steps[0] 'aws_frame'", "a server of AWS event-stream frames"),
            ],
        ),
        (
            {"steps": ["x", {"fault": "clock_jump", "seconds": 3600}, {"fault": "stall"}]},
            [("steps[1] 'clock_jump'", "a clock that can jump")],
        ),
    ],
)
def test_unsupported_steps_say_what_they_need(
    fields: dict[str, Any], needs: list[tuple[str, str]]
) -> None:
    """A right script for another kind of server is refused with the kind, not as a fault."""
    with pytest.raises(UnsupportedStep) as caught:
        Attempt.from_case(fields)
    with pytest.raises(UnsupportedStep):
        FaultyUpstream([Attempt(**fields)])

    assert needs == list(caught.value.needs)
    assert all(f"{where} needs {need}" in str(caught.value) for where, need in needs)


def test_faults_come_before_needs() -> None:
    """What can be mended is said first; a place is named where there are several attempts."""
    h2 = Attempt(["x"], framing="h2")
    with pytest.raises(ScriptError, match=r"attempts\[1\]\.status"):
        FaultyUpstream([h2, Attempt(["x"], status=1)])
    with pytest.raises(UnsupportedStep, match=r"attempts\[1\]\.framing 'h2' needs an HTTP/2"):
        FaultyUpstream([Attempt(["x"]), h2])


def test_from_case() -> None:
    """An entry of a case file is the attempt it describes; a strange key is named."""
    entry = {"status": 429, "framing": "length", "headers": {"a": "b"}, "body": "{}", "steps": []}

    attempt = Attempt.from_case(entry, dialect="gemini")

    assert Attempt(status=429, framing="length", headers={"a": "b"}, body="{}", steps=[],
                   dialect="gemini") == attempt  # fmt: skip
    with pytest.raises(ScriptError, match="unknown key 'step'; did you mean 'steps'"):
        Attempt.from_case({"step": []})
    with pytest.raises(ScriptError, match="unknown framing 'tcp'"):
        Attempt.from_case({"framing": "tcp"})


def test_no_text_of_a_script_is_shown() -> None:
    """Neither the repr nor an error repeats what somebody's conversation may be."""
    attempt = Attempt(["a secret", {"b64": "secret!"}, {"repeat": "secret", "n": 0}], body="secret")
    with pytest.raises(ScriptError) as caught:
        FaultyUpstream([attempt])

    assert "secret" not in repr(attempt) + str(caught.value)
    assert "Attempt(status=200, framing='chunked', steps=3)" == repr(attempt)


# Repeats, in each dialect.


def played(steps: list[Step], dialect: str) -> list[tuple[str | None, Any]]:
    """The events that arrive: name and decoded data."""
    with FaultyUpstream([Attempt(steps, dialect=dialect)]) as upstream:
        text = httpx.get(upstream.url, trust_env=False).text
    events = []
    for block in text.replace("\r\n", "\n").split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        events.append((fields.get("event"), json.loads(fields["data"])))
    return events


START: dict[str, str] = {
    "anthropic": 'data: {"type":"content_block_start","index":2,"content_block":{}}\n\n',
    "openai-chat": (
        'data: {"id":"c9","object":"chat.completion.chunk","created":5,"model":"mm","choices":'
        '[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"x"}]}}]}\n\n'
    ),
    "openai-responses": (
        'data: {"type":"response.output_item.added","sequence_number":6,"output_index":3,'
        '"item":{"id":"it_7"}}\n\n'
    ),
    "gemini": 'data: {"candidates":[]}\r\n\r\n',
}
DELTAS: dict[tuple[str, str], list[tuple[str | None, Any]]] = {
    ("anthropic", "text_delta"): [
        (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "text_delta", "text": "ababab"},
            },
        )
    ],
    ("anthropic", "input_json_delta"): [
        (
            "content_block_delta",
            {
                "type": "content_block_delta",
                "index": 2,
                "delta": {"type": "input_json_delta", "partial_json": "ab"},
            },
        )
    ]
    * 3,
    ("openai-chat", "text_delta"): [
        (
            None,
            {
                "id": "c9",
                "object": "chat.completion.chunk",
                "created": 5,
                "model": "mm",
                "choices": [{"index": 0, "delta": {"content": "ababab"}, "finish_reason": None}],
            },
        )
    ],
    ("openai-chat", "input_json_delta"): [
        (
            None,
            {
                "id": "c9",
                "object": "chat.completion.chunk",
                "created": 5,
                "model": "mm",
                "choices": [
                    {
                        "index": 0,
                        "delta": {"tool_calls": [{"index": 1, "function": {"arguments": "ab"}}]},
                        "finish_reason": None,
                    }
                ],
            },
        )
    ]
    * 3,
    ("openai-responses", "text_delta"): [
        (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "sequence_number": 7,
                "output_index": 3,
                "content_index": 0,
                "item_id": "it_7",
                "delta": "ababab",
            },
        )
    ],
    ("openai-responses", "input_json_delta"): [
        (
            "response.function_call_arguments.delta",
            {
                "type": "response.function_call_arguments.delta",
                "sequence_number": number,
                "output_index": 3,
                "item_id": "it_7",
                "delta": "ab",
            },
        )
        for number in (7, 8, 9)
    ],
    ("gemini", "text_delta"): [
        (
            None,
            {
                "candidates": [
                    {"index": 0, "content": {"role": "model", "parts": [{"text": "ababab"}]}}
                ]
            },
        )
    ],
}


@pytest.mark.parametrize(("dialect", "kind"), DELTAS)
def test_repeat(dialect: str, kind: str) -> None:
    """One long text delta or n short input deltas, in the dialect's own events and open block."""
    events = played([START[dialect], {"repeat": "ab", "n": 3, "as": kind}], dialect)

    assert DELTAS[dialect, kind] == events[1:]


def test_repeat_without_a_start() -> None:
    """Where the script opened no block, the first one is written to; broken lines do not matter."""
    for dialect in DIALECTS:
        steps: list[Step] = ["data: {broken\n\ndata: 5\n\n"]
        attempt = Attempt([*steps, {"repeat": "a", "n": 1, "as": "text_delta"}], dialect=dialect)
        with FaultyUpstream([attempt]) as upstream:
            text = httpx.get(upstream.url, trust_env=False).text
        event = json.loads(text.rstrip().rpartition("data: ")[2])

        assert 0 == event.get("index", event.get("output_index", 0))
