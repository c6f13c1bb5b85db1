"""Every recorded Chat stream: however it is cut into reads, and against what the official SDK makes of it.

The SDK reads the same bytes through a mock transport. Where it and we differ, ``DIFFERENCES`` says
why and what is right, by hand; a row that no longer differs fails, so that the list stays true.
"""

import csv
import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midthought.policies import Policy, Stop
from midthought.providers._reader import AttemptReader
from midthought.providers.openai_chat import CHOICE_STRIDE, dialect
from midthought.statemachine import (
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    StopKnown,
    UsageReported,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
POLICY = Policy(name="test", dialect="openai_chat")


def _rows() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in table if row["wire"] == "openai-chat"]


ROWS = _rows()
pytestmark = pytest.mark.skipif(not ROWS, reason="the recorded streams are not beside the project")
each_stream = pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])


def read(*pieces: bytes) -> list[Event]:
    """Every event of a body that comes in these pieces and then ends."""
    reader = AttemptReader(POLICY, dialect, 0)
    events = reader.response(200, [("content-type", "text/event-stream")])
    for piece in pieces:
        if not reader.finished:
            events += reader.feed(piece)
    return events if reader.finished else events + reader.end()


def splits(row: dict[str, str], body: bytes) -> list[bytes]:
    """The reads of the recording, where known."""
    sizes = json.loads((CORPUS / row["splits_file"]).read_text())
    sizes = sizes["sizes"] if isinstance(sizes, dict) else sizes
    pieces, at = [], 0
    for size in sizes:
        pieces.append(body[at : at + size])
        at += size
    assert at == len(body)
    return pieces


@each_stream
def test_reads_do_not_matter(row: dict[str, str]) -> None:
    """Whole, byte by byte and in its own reads, a stream gives the same events."""
    body = (CORPUS / row["file"]).read_bytes()
    whole = read(body)
    assert read(*(body[i : i + 1] for i in range(len(body)))) == whole
    if row["splits_file"]:
        assert read(*splits(row, body)) == whole


@each_stream
def test_ends_as_recorded(row: dict[str, str]) -> None:
    """A complete recording completes with its reason; an error or a cut never does.

    The composite without an end marker has a finish reason (a content filter), and that completes.
    """
    events = read((CORPUS / row["file"]).read_bytes())
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1
    if row["status"] != "complete" and "content_filter" not in row["features"]:
        assert finished.stop is Stop.error
        return
    assert finished.stop is not Stop.error
    reasons = {event.reason for event in events if isinstance(event, StopKnown)}
    assert reasons and reasons <= {*row["stop_reasons"].split(","), "content_filter"}


# --- against the SDK --------------------------------------------------------------------------------


class Choice(NamedTuple):
    """What one choice came to."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: tuple[tuple[str | None, Any], ...] = ()


class Reply(NamedTuple):
    """What a stream came to."""

    choices: dict[int, Choice]
    finish: str | None
    usage: tuple[int | None, ...] | None
    error: bool


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def ours(body: bytes) -> Reply:
    """The reply by our events."""
    kinds: dict[int, BlockStarted] = {}
    texts: dict[int, str] = {}
    usage, finish = None, None
    events = read(body)
    for event in events:
        if isinstance(event, BlockStarted):
            kinds[event.index], texts[event.index] = event, ""
        elif isinstance(event, BlockDelta) and event.field in ("text", "input"):
            texts[event.index] += event.text
        elif isinstance(event, UsageReported):
            usage = event.usage
        elif isinstance(event, StopKnown):
            finish = event.reason
    choices: dict[int, Choice] = {}
    for index, started in kinds.items():
        number = index // CHOICE_STRIDE
        choice = choices.get(number, Choice())
        if started.kind == "tool_use":
            call = (started.name, _parsed(texts[index]))
            choices[number] = choice._replace(calls=(*choice.calls, call))
        elif started.kind in Choice._fields:
            before = getattr(choice, started.kind)
            choices[number] = choice._replace(**{started.kind: before + texts[index]})
    counted = usage and (usage.input, usage.output, usage.cache_read, usage.reasoning)
    last = events[-1]
    return Reply(choices, finish, counted, isinstance(last, Finished) and last.failure is not None)


def by_sdk(body: bytes) -> tuple[Reply, str]:
    """The reply by the official SDK, and the error its helper ended with, if any."""
    openai = pytest.importorskip("openai")
    httpx2 = pytest.importorskip("httpx2")  # the SDK's HTTP library
    from openai.lib.streaming.chat import ChatCompletionStreamState

    def answer(request: Any) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    state, error, crash = ChatCompletionStreamState(), False, ""
    with openai.OpenAI(
        api_key="none", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0
    ) as client:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # its models warn of fields they do not know
                for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
                    state.handle_chunk(chunk)
        except openai.APIError:
            error = True
        except (RuntimeError, TypeError) as fault:
            crash = type(fault).__name__
    try:
        snapshot = state.current_completion_snapshot
    except AssertionError:  # no chunk came
        return Reply({}, None, None, error), crash
    return _reply(snapshot, error), crash


def _reply(snapshot: Any, error: bool) -> Reply:
    choices = {}
    for choice in snapshot.choices:
        message, extra = choice.message, choice.message.model_extra or {}
        content = message.content
        made = Choice(
            text=content if isinstance(content, str) else "",
            refusal=message.refusal or "",
            thinking=extra.get("reasoning_content") or extra.get("reasoning") or "",
            calls=tuple(
                (call.function.name, _parsed(call.function.arguments))
                for call in message.tool_calls or ()
            ),
        )
        if made != Choice():
            choices[choice.index] = made
    told = snapshot.usage
    usage = None
    if told is not None:
        prompt, completion = told.prompt_tokens_details, told.completion_tokens_details
        usage = (
            told.prompt_tokens,
            told.completion_tokens,
            prompt.cached_tokens if prompt else None,
            completion.reasoning_tokens if completion else None,
        )
    return Reply(choices, snapshot.choices[0].finish_reason, usage, error)


class Difference(NamedTuple):
    """Where the SDK and we differ in one field of a reply, and what is right."""

    reason: str
    field: str
    right: Any


_OTHER_NAME = "the server counts cached tokens under a name of its own, which the SDK does not read"
_PARTS = "content comes as parts; the SDK's type for it is a string, and its helper loses or fails"

DIFFERENCES: dict[str, Difference] = {
    "composite/openrouter-midstream-finish-error.sse": Difference(
        "a finish reason in a frame that is an error; the SDK raises and so keeps none, as we do",
        "error",
        True,
    ),
}
