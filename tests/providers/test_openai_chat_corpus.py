"""Every recorded Chat stream: however it is cut into reads, and against the official SDK.

The SDK reads the same bytes through a mock transport. Where it and we differ, ``DIFFERENCES`` says
why and what is right, by hand; a row that no longer differs fails, so that the list stays true.
"""

import csv
import json
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midthought.policies import Stop, load_policy
from midthought.providers import AttemptReader
from midthought.providers.openai_chat import CHOICE_STRIDE, dialect
from midthought.statemachine import (
    Block,
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    StopKnown,
    UsageReported,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
POLICY = load_policy("openai-compatible")


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
    pieces, at = [], 0
    for size in json.loads((CORPUS / row["splits_file"]).read_text())["read_sizes"]:
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


_REASON = re.compile(rb'"finish_reason": ?"(?!")')


@each_stream
def test_a_cut_completes_only_after_the_finish_reason(row: dict[str, str]) -> None:
    """Cut anywhere, a stream without its finish reason fails, and no half tool call is closed."""
    body = (CORPUS / row["file"]).read_bytes()
    for place in range(1, len(body), max(1, len(body) // 150)):
        events = read(body[:place])
        finished = events[-1]
        assert isinstance(finished, Finished)
        if _REASON.search(body, 0, place):
            continue
        assert finished.stop is Stop.error
        inputs: dict[int, str] = {}
        for event in events:
            if isinstance(event, BlockDelta) and event.field == "input":
                inputs[event.index] = inputs.get(event.index, "") + event.text
            elif isinstance(event, BlockClosed) and event.index in inputs:
                assert isinstance(json.loads(inputs[event.index]), dict)


# --- against the SDK ------------------------------------------------------------------------------


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
    usage: tuple[int | None, ...] | None = None
    finish: str | None = None
    events = read(body)
    for event in events:
        if isinstance(event, BlockStarted):
            kinds[event.index], texts[event.index] = event, ""
        elif isinstance(event, BlockDelta) and event.field in ("text", "input"):
            texts[event.index] += event.text
        elif isinstance(event, UsageReported):
            told = event.usage
            usage = (told.input, told.output, told.cache_read, told.reasoning)
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
    last = events[-1]
    return Reply(choices, finish, usage, isinstance(last, Finished) and last.failure is not None)


def by_sdk(body: bytes) -> Reply | None:
    """The reply by the official SDK and its own accumulator; ``None`` where that fails."""
    openai = pytest.importorskip("openai")
    httpx2 = pytest.importorskip("httpx2")  # the SDK's HTTP library
    from openai.lib.streaming.chat import ChatCompletionStreamState

    def answer(request: Any) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    state, chunks, error = ChatCompletionStreamState(), [], False
    with openai.OpenAI(
        api_key="none", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0
    ) as client:
        try:
            for chunk in client.chat.completions.create(model="m", messages=[], stream=True):
                chunks.append(chunk)
        except openai.APIError:
            error = True
    if not chunks:
        return Reply({}, None, None, error)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its models warn of fields they do not know
            for chunk in chunks:
                state.handle_chunk(chunk)
    except (RuntimeError, TypeError):
        return None
    return _reply(state.current_completion_snapshot, error)


def _reply(snapshot: Any, error: bool) -> Reply:
    choices = {}
    for choice in snapshot.choices:
        message, extra = choice.message, choice.message.model_extra or {}
        content = message.content
        functions = [call.function for call in message.tool_calls or ()]
        functions += [message.function_call] if message.function_call else []
        made = Choice(
            text=content if isinstance(content, str) else "",
            refusal=message.refusal or "",
            thinking=extra.get("reasoning_content") or extra.get("reasoning") or "",
            calls=tuple((one.name, _parsed(one.arguments)) for one in functions),
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


# --- where they differ, and what is right ---------------------------------------------------------


def deltas(body: bytes) -> Iterator[dict[str, Any]]:
    """The deltas of a stream, read without any code of ours."""
    for line in body.decode().splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                yield choice["delta"]


def parts(body: bytes) -> dict[int, Choice]:
    """Text and thinking where content comes as parts."""
    found = {"text": "", "thinking": ""}
    for delta in deltas(body):
        content = delta.get("content") or []
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for part in content:
            for piece in part["thinking"] if part["type"] == "thinking" else [part]:
                found[part["type"]] += piece["text"]
    return {0: Choice(text=found["text"], thinking=found["thinking"])}


def one_call(body: bytes) -> dict[int, Choice]:
    """A reply that is one tool call."""
    pieces = [c["function"] for delta in deltas(body) for c in delta.get("tool_calls") or ()]
    name = next(piece["name"] for piece in pieces if piece.get("name"))
    return {0: Choice(calls=((name, json.loads("".join(p["arguments"] for p in pieces))),))}


def two_calls(body: bytes) -> dict[int, Choice]:
    """A reply with text and two tool calls, each begun by a delta with an id."""
    text, calls = "", []
    for delta in deltas(body):
        text += delta.get("content") or ""
        for call in delta.get("tool_calls") or ():
            if call.get("id"):
                calls.append([call["function"]["name"], ""])
            calls[-1][1] += call["function"].get("arguments") or ""
    assert len(calls) == 2
    return {0: Choice(text, calls=tuple((name, _parsed(args)) for name, args in calls))}


CACHED = "cached tokens under a name of the server's own, which the SDK does not read"
PARTS = (
    "content as parts: the SDK's type for it is a string, so its accumulator loses text or fails"
)

#: By the beginning of the file's name: why, and what is right in the fields that differ.
DIFFERENCES: dict[str, tuple[str, dict[str, Any]]] = {
    "groq/llama3-8b-8192-testtokencounts.test-groq-oinf.sse": (
        "usage only in x_groq, where the SDK does not look",
        {"usage": (12, 26, None, None)},
    ),
    "mistral/magistral-medium-2507-mistral-reasoning-vercel.sse": (
        PARTS,
        {"choices": parts, "finish": "stop", "usage": (10, 46, None, None), "error": False},
    ),
    "mistral/magistral-small-latest-stream-reasoning-model-1-1-prism.sse": (
        f"{PARTS}; {CACHED}",
        {"choices": parts, "usage": (10, 142, 64, None)},
    ),
    "mistral/mistral-small-latest-mistral-hybrid-reasoning": (
        PARTS,
        {"choices": parts},
    ),
    "mistral/mistral-small-latest-mistral-tool-call-vercel.sse": (
        "a tool call without an index: the SDK's accumulator fails",
        {
            "choices": one_call,
            "finish": "tool_calls",
            "usage": (124, 22, None, None),
            "error": False,
        },
    ),
    "openrouter/gemini-2.5-flash-lite-object-streaming-reqllm.sse": (
        "tool_calls, then stop: the SDK keeps the last word, but a reply with a call is tool use",
        {"finish": "tool_calls"},
    ),
    "other/databricks-us.anthropic.claude-3-7-sonnet-202-databricks-simple": (
        CACHED,
        {"usage": (26, 5, 0, None)},
    ),
    "other/databricks-us.anthropic.claude-3-7-sonnet-202-databricks-tool": (
        CACHED,
        {"usage": (397, 49, 0, None)},
    ),
    "other/github-copilot-claude-3.5-sonnet": (
        "two calls on one index (the first's input is no JSON): the SDK glues them into one",
        {"choices": two_calls},
    ),
    "other/github-copilot-gpt-4o-stream.sseprocessor.spec.ts-copilot-tool-call-annotations": (
        "lists without an index in fields of the server's own: the SDK's accumulator fails",
        {
            "choices": one_call,
            "finish": "tool_calls",
            "usage": (218, 0, None, None),
            "error": False,
        },
    ),
    "other/gpustack-with-extended-thinking": (
        "the error comes in a field named error, which the SDK skips: it ends in silence",
        {"error": True},
    ),
    "other/together-llama-3.3-70b-instruct-turbo-chat-stream-oinf.sse": (
        CACHED,
        {"usage": (41, 15, 0, None)},
    ),
}


@each_stream
def test_equal_to_the_official_sdk(row: dict[str, str]) -> None:
    """Text, refusal, reasoning, tool calls, stop and usage are the SDK's, or listed above."""
    body = (CORPUS / row["file"]).read_bytes()
    mine, theirs = ours(body), by_sdk(body)
    listed = [right for name, (_, right) in DIFFERENCES.items() if row["file"].startswith(name)]
    right = {
        field: value(body) if callable(value) else value
        for one in listed
        for field, value in one.items()
    }
    if theirs is None:
        assert mine == Reply(**right)
        return
    for field, value in right.items():
        assert getattr(theirs, field) != value, f"{field} does not differ any more"
    assert mine == theirs._replace(**right)


def test_differences_name_one_stream_each() -> None:
    """A row of the list is about exactly one recording."""
    for name in DIFFERENCES:
        assert sum(row["file"].startswith(name) for row in ROWS) == 1, name


@each_stream
def test_history_is_valid_for_the_sdk(row: dict[str, str]) -> None:
    """The assistant message made of a reply passes the SDK's own request types."""
    pytest.importorskip("openai")
    from openai.types.chat import ChatCompletionMessageParam
    from pydantic import TypeAdapter

    made: dict[int, Block] = {}
    for event in read((CORPUS / row["file"]).read_bytes()):
        if isinstance(event, BlockStarted):
            made[event.index] = Block(
                event.index, event.kind, 0, event.id, event.name, event.data, parts=[]
            )
        elif isinstance(event, BlockDelta) and event.field in ("text", "input"):
            made[event.index].parts.append(event.text)
        elif isinstance(event, BlockDelta) and event.field == "other":
            made[event.index].extra.append(event.text)
        elif isinstance(event, BlockClosed):
            made[event.index].closed = True
    messages = dialect.messages(list(made.values()), POLICY)
    adapter: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
    adapter.validate_json(json.dumps(messages), strict=True)
    kinds = {block.kind for block in made.values()}
    assert bool(messages) == bool(kinds & {"text", "refusal", "tool_use"})
