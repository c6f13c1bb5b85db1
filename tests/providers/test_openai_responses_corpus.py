"""Every recorded Responses stream: however it is cut into reads, and against the official SDK.

The SDK reads the same bytes through a mock transport, as its stream helper does. Where it and we
differ, ``DIFFERENCES`` says why and what is right, by hand; a row that no longer differs fails, so
that the list stays true.
"""

import csv
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from midthought.policies import Stop, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Event,
    Finished,
    StopKnown,
    UsageReported,
)

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
POLICY = load_policy("openai-responses")


def _rows() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        table = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in table if row["wire"] == "openai-responses"]


ROWS = _rows()
pytestmark = pytest.mark.skipif(not ROWS, reason="the recorded streams are not beside the project")
each_stream = pytest.mark.parametrize("row", ROWS, ids=[row["file"] for row in ROWS])


def read(*pieces: bytes) -> list[Event]:
    """Every event of a body that comes in these pieces and then ends."""
    reader = AttemptReader(POLICY, get_dialect("openai_responses"), 0)
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
    """A complete recording completes with its reason; an error or a cut never does."""
    events = read((CORPUS / row["file"]).read_bytes())
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1
    if row["status"] != "complete":
        assert finished.stop is Stop.error
        return
    assert finished.stop is not Stop.error
    (stop,) = [event for event in events if isinstance(event, StopKnown)]
    assert row["stop_reasons"].removeprefix("incomplete:") == stop.reason
    assert (stop.stop is Stop.length) == ("length" in row["features"].split())


@each_stream
def test_blocks_open_and_close_once(row: dict[str, str]) -> None:
    """Every block starts before its deltas, and in a complete reply each is closed, once."""
    events = read((CORPUS / row["file"]).read_bytes())
    started: set[int] = set()
    closed: set[int] = set()
    for event in events:
        if isinstance(event, BlockStarted):
            assert event.index not in started
            started.add(event.index)
        elif isinstance(event, BlockDelta | BlockClosed):
            assert event.index in started - closed
            if isinstance(event, BlockClosed):
                closed.add(event.index)
    assert started == closed or row["status"] != "complete"


# --- against the SDK ------------------------------------------------------------------------------


class Reply(NamedTuple):
    """What a stream came to."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    signatures: tuple[str, ...] = ()
    calls: tuple[tuple[str, str, Any], ...] = ()
    """Type, name, parsed arguments; built-in tools have the item itself."""
    citations: tuple[Any, ...] = ()
    items: tuple[tuple[str, Any], ...] = ()
    """Type and content of everything else."""
    usage: tuple[int | None, ...] | None = None
    stop: str | None = None
    error: bool = False


CALLS = ("function_call", "custom_tool_call")
OTHER_CALLS = ("apply_patch_call", "local_shell_call", "mcp_approval_request", "shell_call")


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments


def ours(body: bytes) -> Reply:
    """The reply by our events."""
    events = read(body)
    started: dict[int, BlockStarted] = {}
    got: dict[tuple[int, str], str] = {}
    reply: dict[str, Any] = {"citations": (), "calls": (), "items": (), "signatures": ()}
    for event in events:
        if isinstance(event, BlockStarted):
            started[event.index] = event
        elif isinstance(event, BlockDelta) and event.field == "citation":
            reply["citations"] += (json.loads(event.text),)
        elif isinstance(event, BlockDelta):
            key = (event.index, event.field)
            got[key] = got.get(key, "") + event.text
        elif isinstance(event, BlockClosed):
            _close(started[event.index], event, got, reply)
        elif isinstance(event, UsageReported):
            told = event.usage
            reply["usage"] = (told.input, told.output, told.cache_read, told.reasoning)
        elif isinstance(event, StopKnown):
            reply["stop"] = event.reason
    for kind in ("text", "refusal", "thinking"):
        pieces = [got.get((i, "text"), "") for i, one in started.items() if one.kind == kind]
        reply[kind] = "".join(pieces)
    last = events[-1]
    reply["error"] = isinstance(last, Finished) and last.failure is not None
    return Reply(**reply)


def _close(
    started: BlockStarted,
    event: BlockClosed,
    got: dict[tuple[int, str], str],
    reply: dict[str, Any],
) -> None:
    said = got.get((started.index, "input"), "")
    data = event.data or started.data or {}
    if started.kind == "tool_use":
        wire = str(data["type"])
        value = _parsed(said) if wire in CALLS else {**data, "status": None}
        reply["calls"] += ((wire, started.name, value),)
    elif started.kind in ("server_tool", "media", "other"):
        assert event.data is not None
        reply["items"] += ((data["type"], _plain(data)),)
    elif started.kind == "thinking" and (signature := got.get((started.index, "signature"))):
        reply["signatures"] += (signature,)


def _plain(item: Any) -> Any:
    """Without nulls and what the SDK's types add."""
    if isinstance(item, dict):
        kept = {key: _plain(value) for key, value in item.items() if value is not None}
        return {key: value for key, value in kept.items() if key != "parsed_arguments"}
    return [_plain(one) for one in item] if isinstance(item, list) else item


def by_sdk(body: bytes) -> Reply | None:
    """The reply by the official SDK's stream helper; ``None`` where that fails."""
    openai = pytest.importorskip("openai")
    httpx2 = pytest.importorskip("httpx2")  # the SDK's HTTP library

    def answer(request: Any) -> Any:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    final, done = None, []
    with (
        openai.OpenAI(
            api_key="none", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0
        ) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # its models warn of fields they do not know
        try:
            with client.responses.stream(model="m", input="hi") as stream:
                for event in stream:
                    if event.type == "response.output_item.done":
                        done.append(event.item)
                    elif event.type in ("response.completed", "response.incomplete"):
                        final = event.response
        except openai.APIError:
            return Reply(error=True)
        except (RuntimeError, AttributeError, IndexError):
            return None
        return _reply(final, done) if final is not None else None


def _reply(response: Any, done: list[Any]) -> Reply:
    """From the final response, but what only ``output_item.done`` has for sure: the final one
    encrypts the same content anew, and the SDK's own words are that the other is to be used."""
    reply: dict[str, Any] = {"citations": (), "calls": (), "items": (), "signatures": ()}
    said: dict[str, list[str]] = {"text": [], "refusal": [], "thinking": []}
    for item in response.output:
        if item.type == "message":
            for part in item.content:
                said["refusal" if part.type == "refusal" else "text"].append(
                    part.refusal if part.type == "refusal" else part.text
                )
                cited = getattr(part, "annotations", None) or ()
                reply["citations"] += tuple(one.to_dict(mode="json") for one in cited)
        elif item.type == "reasoning":
            parts = [*item.summary, *(getattr(item, "content", None) or ())]
            said["thinking"].append("\n\n".join(part.text for part in parts))
        elif item.type in CALLS:
            given = item.arguments if item.type == "function_call" else item.input
            reply["calls"] += ((item.type, item.name, _parsed(given)),)
        elif item.type in OTHER_CALLS and not _hosted(item):
            value = {**item.to_dict(mode="json"), "status": None}
            name = value.get("name") or item.type.removesuffix("_call")
            reply["calls"] += ((item.type, name, value),)
    for item in done:
        if item.type == "reasoning" and item.encrypted_content:
            reply["signatures"] += (item.encrypted_content,)
        elif _hosted(item) or item.type not in ("message", "reasoning", *CALLS, *OTHER_CALLS):
            reply["items"] += ((item.type, _plain(item.to_dict(mode="json"))),)
    told, why = response.usage, response.incomplete_details
    reply["usage"] = (
        told.input_tokens,
        told.output_tokens,
        getattr(getattr(told, "input_tokens_details", None), "cached_tokens", None),
        getattr(getattr(told, "output_tokens_details", None), "reasoning_tokens", None),
    )
    reply["stop"] = why.reason if why else "completed"
    reply |= {kind: "".join(pieces) for kind, pieces in said.items()}
    return Reply(**reply)


def _hosted(item: Any) -> bool:
    environment = getattr(item, "environment", None)
    return environment is not None and environment.type == "container_reference"


# --- where they differ, and what is right ---------------------------------------------------------


def done_texts(kind: str) -> Callable[[bytes], str]:
    """All texts of the done events of this type, read without any code of ours."""

    def read_texts(body: bytes) -> str:
        found = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
        return "".join(event["text"] for event in found if event["type"] == kind)

    return read_texts


def delta_texts(body: bytes) -> str:
    """All text deltas, read without any code of ours."""
    found = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: {")]
    return "".join(e["delta"] for e in found if e["type"] == "response.output_text.delta")


TEXT = done_texts("response.output_text.done")

#: By the beginning of the file's name: why, and what is right in the fields that differ.
DIFFERENCES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-responses/bedrock-openai.gpt-oss-20b": (
        "content_index 1 in a message with one part: the SDK's accumulator fails",
        {
            "text": TEXT,
            "thinking": done_texts("response.reasoning_text.done"),
            "usage": (75, 46, 0, 20),
            "stop": "completed",
        },
    ),
    "openai-responses/openai-gpt-4o-stream-multiple-output-items-1-prism": (
        "an item ends without saying its place: the SDK's accumulator fails",
        {"text": TEXT, "usage": (10, 4, None, None), "stop": "completed"},
    ),
    "openai-responses/openai-gpt-5.2-openai-shell-container": (
        "a fixture made by hand: its deltas are not the text that its end repeats, and they count",
        {"text": delta_texts},
    ),
    "openai-responses/openai-gpt-5.3-codex-github-copilot-id-rotation": (
        "a relay that changes every id: the SDK sees another response and fails",
        {
            "text": TEXT,
            "thinking": done_texts("response.reasoning_summary_text.done"),
            "usage": (19, 105, 0, 44),
            "stop": "completed",
        },
    ),
    "other/responses-doubao-zh-tail": (
        "the beginning of the stream is missing: both refuse it",
        {"error": True},
    ),
}


@each_stream
def test_equal_to_the_official_sdk(row: dict[str, str]) -> None:
    """Text, reasoning with its signature, calls, items, stop and usage are the SDK's, or listed."""
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
