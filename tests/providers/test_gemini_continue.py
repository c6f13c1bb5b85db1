"""Every recorded Gemini reply, cut at every event and in it, and continued: the promises hold.

No sockets and no time: the machine, its reader, and a server that plays the recording and then the
rest of it. What was said is read from the recording by the tests' own reader.
"""

import csv
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gemini_upstream import GeminiReply, GeminiUpstream, with_tokens
from strict_gemini import faults
from twin import JSON, STREAM, Answer, End, Twin

from midthought.policies import Policy, load_policy

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
MODELS = {
    "instruct": "gemini-3.7-flash",
    "prefill": "gemini-2.5-flash",
    "resume": "gemini-4-argon",
    "array": "gemini-3.7-flash",
}
#: Finish reasons of the recordings in the common words; any other is an end.
STOPS = {"MAX_TOKENS": "length", "SAFETY": "safety", "RECITATION": "safety"}
POLICY = load_policy("gemini")
read_once = functools.lru_cache(maxsize=64)(GeminiReply)


def _streams() -> list[Path]:
    if not CORPUS.is_dir():
        return []
    with (CORPUS / "MANIFEST.tsv").open(encoding="utf-8") as manifest:
        rows = csv.DictReader(manifest, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            CORPUS / row["file"]
            for row in rows
            if row["wire"] == "gemini" and row["status"] == "complete"
            if row["file"].endswith(".sse")
        ]


recorded = pytest.mark.parametrize(
    "stream",
    _streams()
    or [pytest.param("", marks=pytest.mark.skip(reason="no recorded streams at ../shared/corpus"))],
    ids=lambda stream: getattr(stream, "stem", ""),
)


def request_of(lane: str, reply: GeminiReply) -> dict[str, Any]:
    """The caller's request that the recording is taken for the answer to."""
    request: dict[str, Any] = {
        "model": MODELS[lane],
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "generationConfig": {"maxOutputTokens": 8192},
    }
    if reply.calls:
        names = [{"name": name} for name in dict.fromkeys(reply.calls)]
        request["tools"] = [{"functionDeclarations": names}]
    return request


def answer(lane: str, body: bytes, end: End, at: int | None = None) -> Answer:
    """The body as the lane's server sends it, cut at a byte of the events."""
    if lane != "array":
        return Answer(body[:at], end, headers=STREAM)
    reply = read_once(body)
    whole = [json.dumps(frame.json) for frame in reply.frames]
    if at is not None:
        _, most = reply.arrived(at)
        text = "[" + ",\r\n".join(whole[:most])
        return Answer(text.encode(), end, headers=JSON)
    return Answer(f"[{','.join(whole)}]".encode(), end, headers=JSON)


class Run:
    """One turn: the first answer is cut, and what follows is played to its end."""

    def __init__(
        self,
        lane: str,
        data: bytes,
        at: int,
        end: End,
        *,
        used: Policy = POLICY,
    ) -> None:
        self.lane, self.at = lane, at
        self.reply = read_once(data)
        self.upstream = GeminiUpstream(self.reply)
        self.request = request_of(lane, self.reply)
        # A recorded call without a signature was made by a model that knew none.
        signed = all("thoughtSignature" in c for c in self.reply.first_calls)
        self.judged_as = MODELS[lane] if signed else MODELS["prefill"]
        self.twin = Twin(
            used,
            self.request,
            lambda body, number: answer(
                lane, self.upstream.play(body), "eof" if number else end, None if number else at
            ),
        ).run()

    def check(self) -> None:
        """Raise for the first promise that does not hold; ``CallerView`` has checked the eighth."""
        self._whole_calls()
        self._requests()
        self._outcome()
        self._history()

    def _whole_calls(self) -> None:
        """1: calls that were shown are whole, and none is in a request."""
        for call in self.twin.view.calls:
            assert call.closed
            assert call.name in self.reply.calls
            assert isinstance(json.loads(call.joined("input")), dict)
        for sent in self.twin.sent:
            assert "functionCall" not in json.dumps(sent.body["contents"])

    def _requests(self) -> None:
        """4, 5, 7: each is valid and new, and carries what was shown."""
        first, *later = self.twin.sent
        assert len(self.twin.sent) <= 20
        for sent in self.twin.sent:
            assert [] == faults(sent.body, model=self.judged_as, first=first.body)
        for sent, played in zip(later, self.upstream.played[1:], strict=True):
            if played.kind == "original":
                assert not sent.text.strip(), "request 0 is sent again after output"
            elif played.kind == "resume":
                assert played.carried[: len(sent.text)] == sent.text[: len(played.carried)]
            else:
                assert sent.text.startswith(played.carried)
                assert not sent.text[len(played.carried) :].strip()

    def _outcome(self) -> None:
        """2, 3: the text is what was said, and a cut is no success."""
        finished, view = self.twin.view.finished, self.twin.view
        sure, most = self.reply.arrived(self.at)
        stopped = most > self.reply.stop_frame
        assert "completed" == finished.outcome, finished
        assert (len(self.twin.sent) == 1) is stopped
        if stopped:
            texts = [self.reply.text_before(number) for number in (sure, most)]
            assert view.text in texts
            return
        assert view.text == self.reply.text
        assert [call.name for call in view.calls] == self.reply.calls
        stop = "tool_use" if self.reply.calls else STOPS.get(self.reply.stop, "end")
        assert finished.stop.value == stop
        others = [block for block in view.valid if block.kind in ("media", "server_tool")]
        keys = ("inlineData", "executableCode", "codeExecutionResult")
        said = [item for item in self.reply.items if set(item.raw) & set(keys)]
        assert len(others) == len(said)

    def _history(self) -> None:
        """7: both histories are valid, and say what was shown."""
        machine = self.twin.machine
        for turns in (machine.history.messages, machine.history.message):
            contents = [*self.request["contents"], *turns, *self._next(turns)]
            assert [] == faults({"contents": contents}, model=self.judged_as)
            said = "".join(
                part.get("text", "")
                for turn in turns
                for part in turn["parts"]
                if turn["role"] == "model" and not part.get("thought")
            )
            # No message ends with white space, so between two of them it may be missing.
            assert "".join(said.split()) == "".join(self.twin.view.text.split())

    def _next(self, turns: list[Any]) -> list[dict[str, Any]]:
        called = [
            part["functionCall"]["name"]
            for turn in turns
            for part in turn["parts"]
            if "functionCall" in part
        ]
        if not called:
            return [{"role": "user", "parts": [{"text": "and then?"}]}]
        return [
            {
                "role": "user",
                "parts": [{"functionResponse": {"name": n, "response": {}}} for n in called],
            }
        ]


def _places(data: bytes) -> Iterator[int]:
    """Every event's border, and three places in it."""
    reply = read_once(data)
    yield 0
    for frame in reply.frames:
        middle = (frame.begin + frame.end) // 2
        yield from (frame.begin + 7, middle, frame.whole_at, frame.end)


@recorded
@pytest.mark.parametrize("lane", ["instruct", "prefill", "array"])
def test_cut_and_continued(stream: Path, lane: str) -> None:
    """However the reply breaks, what the caller has in the end is the reply."""
    data = stream.read_bytes()
    for number, at in enumerate(_places(data)):
        end: End = ("eof", "fin", "rst")[number % 3]
        Run(lane, data, at, end).check()


@recorded
def test_cut_and_resumed(stream: Path) -> None:
    """With checkpoints in the stream the same request goes out with the last one's token, and what
    stands behind it is followed silently."""
    data = with_tokens(stream.read_bytes())
    for number, at in enumerate(_places(data)):
        end: End = ("eof", "fin", "rst")[number % 3]
        Run("resume", data, at, end).check()
