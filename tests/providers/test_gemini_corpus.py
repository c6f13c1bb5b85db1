"""Every recorded Gemini stream: however it is cut into reads, and against the official SDK.

The SDK reads the same bytes through a mock transport. Where it and we differ, ``DIFFERENCES`` says
why; a row that no longer differs fails, so that the list stays true. Streams of the wire
``gemini-interactions`` are another API with another grammar, and no dialect of ours.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from gemini_frames import DIALECT, JSON, POLICY, SSE, VERTEX, built, last, only, read, usage_of
from google import genai
from google.genai import errors, types

from midthought.policies import FailureKind, Policy
from midthought.providers import AttemptReader
from midthought.statemachine import Event, StopKnown, Unknown

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"


def _rows() -> list[dict[str, str]]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        rows = csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in rows if row["wire"] == "gemini"]


ROWS = _rows()
recorded = pytest.mark.parametrize(
    "row",
    ROWS
    or [pytest.param({}, marks=pytest.mark.skip(reason="no recorded streams at ../shared/corpus"))],
    ids=lambda row: row.get("file", "").rpartition("/")[2],
)


def _used(row: dict[str, str]) -> Policy:
    return VERTEX if row["provider"] == "vertex" else POLICY


def _headers(row: dict[str, str]) -> list[tuple[str, str]]:
    return JSON if row["file"].endswith(".json") else SSE


def _read(row: dict[str, str], chunks: list[bytes]) -> list[Event]:
    return read(chunks, used=_used(row), headers=_headers(row))


def _body(row: dict[str, str]) -> bytes:
    return (CORPUS / row["file"]).read_bytes()


def _cuts(row: dict[str, str], data: bytes) -> Iterator[list[bytes]]:
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield [data[i : i + 7] for i in range(0, len(data), 7)]
    sizes = (CORPUS / row["file"]).with_suffix(".splits.json")
    if sizes.exists():
        chunks, position = [], 0
        for size in json.loads(sizes.read_text("utf-8"))["read_sizes"]:
            chunks.append(data[position : position + size])
            position += size
        yield [*chunks, data[position:]]


@recorded
def test_same_events_however_split(row: dict[str, str]) -> None:
    """Whole, byte by byte or in the real reads: the same events and one ``Finished``, last."""
    whole, *others = [_read(row, chunks) for chunks in _cuts(row, _body(row))]

    for events in others:
        assert whole == events
    last(whole)
    # A body that is JSON, but of no response.
    alien = row["file"].endswith("vertex-streaming-failure-invalid-json-firebase.sse")
    assert alien is bool(only(whole, Unknown))


@recorded
def test_read_is_feed_frame_by_frame(row: dict[str, str]) -> None:
    """``read`` tells the same events as ``feed`` and gives every byte back in its frames."""
    data = _body(row)
    reader = AttemptReader(_used(row), DIALECT, 0)
    events, raw = reader.response(200, _headers(row)), b""
    for chunk in (data[: len(data) // 3], data[len(data) // 3 :]):
        for one, made in reader.read(chunk):
            assert one is not None
            raw += one.raw
            events += made
    events += reader.end()
    raw += reader.tail.raw if reader.tail is not None else b""

    assert _read(row, [data]) == events
    assert raw == data[: len(raw)]
    # What is left says nothing: the end of an array, or an error beside the stream's own form.
    rest = data[len(raw) :].strip()
    assert rest in (b"", b"]") or b'"error"' in rest


@recorded
def test_status_of_the_manifest(row: dict[str, str]) -> None:
    """Complete streams end with a stop, streams with an error or without their end never do."""
    finished = last(_read(row, [_body(row)]))

    assert (finished.failure is None) is (row["status"] == "complete")


# --- against the SDK ------------------------------------------------------------------------------


class Theirs:
    """What the official SDK makes of a body."""

    def __init__(self) -> None:
        self.text = self.thoughts = ""
        self.calls: list[tuple[str, Any]] = []
        self.others: list[dict[str, Any]] = []
        self.signatures: list[str] = []
        self.usage: dict[str, Any] = {}
        self.reason: str | None = None
        self.blocked: str | None = None
        self.pieces = False

    def take(self, chunk: types.GenerateContentResponse) -> None:
        """One response of the stream."""
        if chunk.usage_metadata is not None:
            said = chunk.usage_metadata.model_dump(exclude_none=True)
            self.usage |= {k: v for k, v in said.items() if k.endswith("count")}
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            self.blocked = chunk.prompt_feedback.block_reason.value
        for candidate in chunk.candidates or ():
            if candidate.finish_reason is not None:
                self.reason = str(candidate.finish_reason.value)
            for part in (candidate.content and candidate.content.parts) or ():
                self._part(part)

    def _part(self, part: types.Part) -> None:
        data = part.model_dump(exclude_none=True, by_alias=True, mode="json")
        if "thoughtSignature" in data:
            self.signatures.append(data.pop("thoughtSignature"))
        if part.function_call is not None:
            self.pieces = self.pieces or part.function_call.will_continue is not None
            self.calls.append((part.function_call.name or "", part.function_call.args or {}))
        elif part.text is not None:
            self.thoughts += part.text if part.thought else ""
            self.text += "" if part.thought else part.text
        else:
            self.others.append(data)


def _sdk(row: dict[str, str]) -> Theirs:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(200, headers=dict(_headers(row)), content=_body(row))
    )
    with httpx.Client(transport=transport) as http:
        client = genai.Client(
            api_key="none",
            http_options=types.HttpOptions(httpx_client=http, base_url="http://127.0.0.1"),
        )
        seen = Theirs()
        for chunk in client.models.generate_content_stream(model="m", contents="x"):
            seen.take(chunk)
        return seen


def _signature(text: str) -> str:
    """In the one alphabet that the SDK writes; both are base64."""
    return text.replace("+", "-").replace("/", "_").rstrip("=")


def _alphabet(parts: list[dict[str, Any]]) -> Any:
    """The same for what stands in media."""
    return [
        {k: {**v, "data": _signature(v["data"])} if "data" in v else v for k, v in part.items()}
        for part in parts
    ]


def _ours(row: dict[str, str], events: list[Event]) -> dict[str, Any]:
    blocks = built(events)
    stops = only(events, StopKnown)
    whole = [block.data or {} for block in blocks]
    return {
        "text": "".join(b.text for b in blocks if b.kind == "text"),
        "thoughts": "".join(b.text for b in blocks if b.kind == "thinking"),
        "calls": [(b.name, json.loads(b.text)) for b in blocks if b.kind == "tool_use"],
        "others": [
            data
            for block, data in zip(blocks, whole, strict=True)
            if block.kind in ("media", "server_tool")
        ],
        "signatures": [_signature(d["thoughtSignature"]) for d in whole if "thoughtSignature" in d],
        "usage": usage_of(events),
        "reason": stops[-1].reason if stops else None,
    }


def _usage(said: dict[str, Any]) -> dict[str, Any]:
    """Their counters in our words."""

    def total(*names: str) -> int | None:
        given = [said[name] for name in names if name in said]
        return sum(given) if given else None

    counters = {
        "input": total("prompt_token_count", "tool_use_prompt_token_count"),
        "output": total("candidates_token_count", "thoughts_token_count"),
        "cache_read": said.get("cached_content_token_count"),
        "cache_write": None,
        "reasoning": said.get("thoughts_token_count"),
    }
    return counters if any(value is not None for value in counters.values()) else {}


# Arguments that came in pieces: the SDK hands the pieces out and puts nothing together, so what
# they come to stands here, read from the recordings by hand.
IN_PIECES = {
    "google-gemini-3-flash-preview-google-stream-no-args-tool-call-vercel": [
        ("read_theme", {}),
        ("read_screen", {"id": "A"}),
        ("read_screen", {"id": "B"}),
        ("read_screen", {"id": "C"}),
    ],
    "google-gemini-3-flash-preview-google-stream-tool-call-array-arguments-missing-terminal-fun-"
    "vercel": [
        (
            "writeItems",
            {
                "operations": [
                    {
                        "action": "add",
                        "description": "Fresh red apple",
                        "itemid": "apple_001",
                        "price": 0.5,
                    },
                    {
                        "action": "add",
                        "description": "Ripe yellow banana",
                        "itemid": "banana_001",
                        "price": 0.3,
                    },
                ]
            },
        )
    ],
    "google-gemini-3.1-pro-preview-google-stream-tool-call-arguments-vercel": [
        ("getWeather", {"location": "Boston"}),
        ("getWeather", {"location": "San Francisco"}),
    ],
}
LASAGNA = "google-gemini-3.1-pro-preview-google-vertex-stream-tool-call-arguments-nested.1-vercel"
INGREDIENTS = [
    ("16 oz", "Lasagna noodles"),
    ("1 lb", "Ground beef"),
    ("15 oz", "Ricotta cheese"),
    ("3 cups", "Mozzarella cheese"),
    ("1/2 cup", "Parmesan cheese"),
    ("24 oz", "Tomato sauce"),
    ("1", "Egg"),
    ("2 cloves", "Garlic"),
    ("1 tsp", "Salt"),
    ("1/2 tsp", "Pepper"),
]
#: Without ``alt=sse`` the body is one array, which the SDK does not read.
ARRAY = "vertex-gemini-2.5-flash-gemini-token-counts-streaming-oinf"
#: Streams without a finish reason: the SDK ends them in silence, as if they were complete.
SILENT = {
    "vertex-streaming-failure-empty-content-firebase",
    "vertex-streaming-failure-malformed-content-firebase",
    "vertex-streaming-failure-invalid-json-firebase",
    "vertex-streaming-success-quotes-escaped-firebase",
}


@recorded
@pytest.mark.filterwarnings("ignore:.* is not a valid:UserWarning")
def test_same_as_the_sdk(row: dict[str, str]) -> None:
    """Text, thoughts, calls, signatures, media, usage and finish reason are those the SDK reads."""
    name = Path(row["file"]).stem
    events = _read(row, [_body(row)])
    try:
        theirs = _sdk(row)
    except errors.APIError as error:
        found = last(events).failure
        assert found is not None
        assert error.code == found.status
        return
    except errors.UnknownApiResponseError:
        assert name == ARRAY
        return
    ours = _ours(row, events)
    assert theirs.text == ours["text"]
    assert theirs.thoughts == ours["thoughts"]
    assert [_signature(one) for one in theirs.signatures] == ours["signatures"]
    assert _alphabet(theirs.others) == _alphabet(ours["others"])
    assert _usage(theirs.usage) == ours["usage"]
    assert (theirs.blocked or theirs.reason) == ours["reason"]
    if theirs.pieces:
        assert name in (*IN_PIECES, LASAGNA)
    else:
        assert theirs.calls == ours["calls"]
    # What the SDK ends in silence is a failure here.
    assert (last(events).failure is not None) is (name in SILENT)


@recorded
def test_calls_in_pieces(row: dict[str, str]) -> None:
    """The calls whose arguments came in pieces are those that the recording tells."""
    name = Path(row["file"]).stem
    calls = _ours(row, _read(row, [_body(row)]))["calls"]
    if name in IN_PIECES:
        assert IN_PIECES[name] == calls
    elif name == LASAGNA:
        ((called, args),) = calls
        assert ("cookRecipe", "Lasagna") == (called, args["recipe"]["name"])
        assert INGREDIENTS == [(i["amount"], i["name"]) for i in args["recipe"]["ingredients"]]
        assert 10 == len(args["recipe"]["steps"])
        assert "Let stand for 15 minutes before serving." == args["recipe"]["steps"][-1]
    else:
        assert b"partialArgs" not in _body(row)


@recorded
def test_a_cut_never_raises_and_is_never_a_success(row: dict[str, str]) -> None:
    """Cut anywhere: one ``Finished``, and it is a failure unless the finish reason had arrived."""
    data = _body(row)
    step = max(1, len(data) // 150)
    for cut in range(0, len(data), step):
        events = _read(row, [data[:cut]])
        stopped = only(events, StopKnown)
        finished = last(events)
        if finished.failure is None:
            assert stopped
            assert finished.stop is stopped[-1].stop
        else:
            assert not stopped or b'"error"' in data
            assert finished.failure.kind is not FailureKind.sse_parse


# --- recorded replies go back ---------------------------------------------------------------------


@recorded
def test_recorded_replies_are_valid_history(row: dict[str, str]) -> None:
    """Every recorded reply, whole or cut at any event, is a turn that the SDK's types allow, and
    what it said: parts with a signature are those that came, byte for byte."""
    frames = _body(row).split(b"\n\n" if b"\r" not in _body(row) else b"\r\n\r\n")
    said = _body(row).decode()
    for count in range(0, len(frames) + 1, max(1, len(frames) // 40)):
        kept = [
            block
            for block in built(_read(row, [b"\r\n\r\n".join(frames[:count])]))
            if block.closed or block.kind == "text"
        ]
        for turn in DIALECT.messages(kept, POLICY):
            content = types.Content.model_validate(turn)
            assert "model" == content.role
            assert content.parts
            for part in turn["parts"]:
                assert part.get("text") or set(part) - {"text"}
                assert part.get("thoughtSignature", "") in said
