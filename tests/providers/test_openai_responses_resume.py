"""A background response is taken up again where its connection broke, not asked for once more."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from recordings import Recording, each_recording, recordings
from responses_frames import DIALECT, Stream, policy
from responses_upstream import ResponsesTwin, Said, Upstream, said_by
from twin import JSON, Answer, sse

from midthought.policies import load_policy
from midthought.statemachine import Cancelled

POLICY = load_policy("openai-responses")
PLAIN = policy()
HANDLE = {"id": "resp_1", "sequence_number": 7, "poll": True}
REQUEST = {"model": "gpt-5", "input": "go", "background": True, "max_output_tokens": 9000}
#: Every event of theirs has its number, and each is cut at so many places.
RECORDED = [r for r in recordings("openai-responses") if said_by(r).numbered()]
SAMPLE = 12
TOO_OLD = "This response can no longer be streamed because it is more than 5 minutes old."

#: A refusal that is cut is not gone on with, by no means.
each = each_recording([r for r in RECORDED if "refusal" not in r.features])
each_text = each_recording(
    [r for r in RECORDED if {u.kind for u in said_by(r).units} <= {"text", "reasoning"}]
)
Play = Callable[[Mapping[str, Any], int], Answer]


def error(status: int, message: str, code: str | None = None) -> Answer:
    """An error as an HTTP response."""
    body = {"error": {"message": message, "type": "invalid_request_error", "code": code}}
    return Answer(json.dumps(body).encode(), status=status, headers=JSON)


class Turn:
    """One turn against an upstream: ``cuts[n]`` is the frame before which attempt ``n`` is cut."""

    def __init__(
        self,
        said: Said,
        cuts: Sequence[int] = (),
        *,
        request: Mapping[str, Any] = REQUEST,
        instead: Mapping[int, Answer] | None = None,
        told: Mapping[int, Any] | None = None,
    ) -> None:
        self.upstream = Upstream(said, background=True)
        self._cuts = cuts
        self._instead = instead or {}
        self.paths: list[str] = []
        self.twin = ResponsesTwin(POLICY, request, self._answer, told=told or {})
        self.twin.run()

    def _answer(self, body: Mapping[str, Any], number: int) -> Answer:
        assert self.twin.send is not None
        request = self.twin.send.request
        self.paths.append(f"{request.method} {request.path or '/responses'}")
        if (given := self._instead.get(number)) is not None:
            return given
        if request.method == "GET":
            assert request.path is not None
            answer = self.upstream.get(request.path)
        else:
            answer = sse(self.upstream.post(body))
        if number >= len(self._cuts):
            return answer
        pieces = answer.body.split(b"\n\n")
        kept = b"".join(piece + b"\n\n" for piece in pieces[: self._cuts[number]])
        return Answer(kept, "fin", headers=answer.headers)

    @property
    def seen(self) -> list[tuple[str, str, str]]:
        """Kind, id and text of every block that the caller has; text that follows text is one.

        Without reasoning: unsigned, it is taken back at a cut and comes anew after the text.
        """
        found: list[tuple[str, str, str]] = []
        for block in self.twin.view.valid:
            said = block.joined("text") + block.joined("input")
            if block.kind == "text" and found and found[-1][0] == "text":
                found[-1] = ("text", "", found[-1][2] + said)
            elif block.kind != "thinking" and (block.kind != "text" or said.strip()):
                found.append((block.kind, block.id or "", said))
        return found

    @property
    def cited(self) -> set[str]:
        """Citations that the caller has; those behind a word that was cut come once more."""
        return {one for block in self.twin.view.valid for one in block.text.get("citation", ())}

    @property
    def outcome(self) -> str:
        """How the turn ended."""
        return str(self.twin.view.finished.outcome)


def posts(turn: Turn) -> int:
    """How often the reply was asked for anew."""
    return sum(path.startswith("POST") for path in turn.paths)


@each
def test_resumed_at_any_event(recording: Recording) -> None:
    """Wherever it broke, the stream after the last event makes the very same reply."""
    said = said_by(recording)
    uncut = Turn(said)
    # Reasoning that is not signed is dropped, and what came after it cannot be told from it again.
    signed = all(
        unit.item.get("encrypted_content") for unit in said.units if unit.kind == "reasoning"
    )
    for cut in sorted({*range(1, len(said.frames), max(1, len(said.frames) // SAMPLE)), 1, 3}):
        turn = Turn(said, [cut])
        assert ("completed", uncut.seen) == (turn.outcome, turn.seen)
        assert (1, uncut.cited) == (posts(turn), turn.cited) or not signed
        # A call that was whole ends the turn by itself.
        assert turn.twin.view.calls or len(turn.paths) > 1


@each_text
def test_resumed_twice(recording: Recording) -> None:
    """A resume that breaks as well goes on once more."""
    said = said_by(recording)
    whole = Turn(said).twin.view.text
    for cut in (2, len(said.frames) // 3, len(said.frames) // 2):
        turn = Turn(said, [cut, 3, 2])
        assert ("completed", whole) == (turn.outcome, turn.twin.view.text)


def said(*pieces: str, stream: Stream | None = None) -> Said:
    """A reply made by hand."""
    return said_by(Made(stream or Stream(background=True).created().message(*pieces).completed()))


class Made(Recording):
    """A stream of ours in the place of a recording."""

    def __init__(self, stream: Stream) -> None:
        object.__setattr__(self, "data", b"".join(stream.frames))


PIECES = [f"word{i} " for i in range(40)]
TEXT = "".join(PIECES)


def test_nothing_had_come() -> None:
    """A response that had not said anything is taken up too: it is being written already."""
    turn = Turn(said(*PIECES), [2])

    assert ["POST /responses", "GET /responses/resp_1?stream=true&starting_after=0"] == turn.paths
    assert ("completed", TEXT) == (turn.outcome, turn.twin.view.text)


def test_the_response_had_not_begun() -> None:
    """Without its first event nobody knows which one it is: the request is sent again."""
    turn = Turn(said(*PIECES), [0])

    assert ["POST /responses", "POST /responses"] == turn.paths
    assert TEXT == turn.twin.view.text


@pytest.mark.parametrize("refusal", [error(400, TOO_OLD), error(404, "Response not found")])
def test_too_old_for_a_stream(refusal: Answer) -> None:
    """The whole reply is asked for instead, and followed up to where the caller is."""
    turn = Turn(said(*PIECES), [20], instead={1: refusal})

    assert ["POST", "GET", "GET"] == [path.split()[0] for path in turn.paths]
    assert "/responses/resp_1" == turn.paths[2].split()[1]
    assert ("completed", TEXT) == (turn.outcome, turn.twin.view.text)


def test_asked_for_as_a_whole_while_it_is_running() -> None:
    """It is asked again, with a wait, until it has ended."""
    running = {"object": "response", "id": "resp_1", "status": "in_progress", "output": []}
    wait = Answer(json.dumps(running).encode(), headers=JSON)
    turn = Turn(said(*PIECES), [20], instead={1: error(400, TOO_OLD), 2: wait, 3: wait})

    assert 5 == len(turn.paths)
    assert ("completed", TEXT) == (turn.outcome, turn.twin.view.text)
    assert all(wait.delay_s > 0 for wait in turn.twin.waited[1:])


def test_neither_stream_nor_whole() -> None:
    """Then the partial goes back and the model is asked to go on."""
    gone = error(404, "not found")
    turn = Turn(said(*PIECES), [20], instead={1: gone, 2: gone})

    assert ["POST", "GET", "GET", "POST"] == [path.split()[0] for path in turn.paths]
    assert ("completed", TEXT) == (turn.outcome, turn.twin.view.text)
    assert [()] * len(turn.upstream.asked) == [asked.faults for asked in turn.upstream.asked]


def test_a_response_that_failed_upstream() -> None:
    """It fails at every resume: after one try each the reply is continued by a new request."""
    failed = Stream(9).failed(code="server_error", message="gone")
    body = {
        **failed.response,
        "status": "failed",
        "error": {"code": "server_error", "message": "x"},
    }
    turn = Turn(
        said(*PIECES),
        [20],
        instead={
            1: sse(b"".join(failed.frames)),
            2: Answer(json.dumps(body).encode(), headers=JSON),
        },
    )

    assert ["POST", "GET", "GET", "POST"] == [path.split()[0] for path in turn.paths]
    assert ("completed", TEXT) == (turn.outcome, turn.twin.view.text)


def test_a_long_text_is_not_sent_again_from_its_start() -> None:
    """A checkpoint inside it is used: the number asked for is near the cut."""
    pieces = [f"{i:05} " for i in range(1000)]
    turn = Turn(said(*pieces), [900])
    after = int(turn.paths[1].rpartition("=")[2])

    assert 900 - 2 - 1000 // 6 - 1 <= after < 900
    assert "".join(pieces) == turn.twin.view.text


def test_finished_items_are_not_asked_for_as_a_whole() -> None:
    """They would come twice; so after the stream is refused, the model is asked to go on."""
    stream = Stream(background=True).created().message("First. ").message(*PIECES, output=1)
    turn = Turn(said(stream=stream.completed()), [30], instead={1: error(400, TOO_OLD)})

    assert ["POST", "GET", "POST"] == [path.split()[0] for path in turn.paths]
    assert ("completed", "First. " + TEXT) == (turn.outcome, turn.twin.view.text)


@pytest.mark.parametrize("change", [{"background": False}, {"store": False}])
def test_not_prepared(change: dict[str, Any]) -> None:
    """A request that was not made for it is continued by another one."""
    turn = Turn(said(*PIECES), [20], request={**REQUEST, **change})

    assert ["POST", "POST"] == [path.split()[0] for path in turn.paths]
    assert TEXT == turn.twin.view.text


def test_cancel_stops_the_response() -> None:
    """It would go on without its connection: the provider's own stop call is sent, once."""
    turn = Turn(said(*PIECES), [20], told={1: Cancelled()})

    assert "aborted" == turn.outcome
    assert [] == turn.twin.stopped  # nothing had come: nobody knows which response it is
    turn = Turn(said(*PIECES), [20], told={2: Cancelled()})
    assert ("aborted", [("POST", "/responses/resp_1/cancel")]) == (turn.outcome, turn.twin.stopped)


@pytest.mark.parametrize("conversation", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_not_continued(conversation: Any) -> None:
    """The API keeps its history itself: after output the turn ends, before it the same request is
    sent again."""
    request = {**REQUEST, "background": False, "conversation": conversation}

    assert "exhausted" == Turn(said(*PIECES), [20], request=request).outcome
    again = Turn(said(*PIECES), [2], request=request)
    assert (2, "completed") == (posts(again), again.outcome)


def test_structured_output_is_not_glued() -> None:
    """A format is not continued by words; a resume is the same reply, and goes on."""
    request = {**REQUEST, "text": {"format": {"type": "json_schema"}}}
    plain = {**request, "background": False}

    assert ("completed", TEXT) == (
        (turn := Turn(said(*PIECES), [20], request=request)).outcome,
        turn.twin.view.text,
    )
    assert "exhausted" == Turn(said(*PIECES), [20], request=plain).outcome


# --- the requests ------------------------------------------------------------------------------


def test_resume_and_poll() -> None:
    """GET of the same response: the stream after the number, or all of it without a stream."""
    resumed = DIALECT.resume(REQUEST, PLAIN, HANDLE, poll=False)
    polled = DIALECT.resume(REQUEST, PLAIN, HANDLE, poll=True)

    assert resumed is not None and polled is not None
    assert ("GET", "/responses/resp_1?stream=true&starting_after=7") == (
        resumed.method,
        resumed.path,
    )
    assert ("GET", "/responses/resp_1") == (polled.method, polled.path)


def test_resume_asks_for_what_the_request_asked_for() -> None:
    """``include`` and the padding are the caller's choice there too; ids are quoted."""
    request = {
        **REQUEST,
        "include": ["reasoning.encrypted_content"],
        "stream_options": {"include_obfuscation": False},
    }
    made = DIALECT.resume(
        request, policy(path="/r?api-version=2"), {**HANDLE, "id": "a/b"}, poll=False
    )

    assert made is not None
    assert made.path == (
        "/r/a%2Fb?api-version=2&stream=true&starting_after=7"
        "&include%5B%5D=reasoning.encrypted_content&include_obfuscation=false"
    )


@pytest.mark.parametrize(
    "request_",
    [
        {**REQUEST, "background": None},
        {**REQUEST, "background": False},
        {**REQUEST, "store": False},
    ],
)
def test_no_resume_where_request_0_was_not_prepared(request_: dict[str, Any]) -> None:
    """Neither as a stream nor as a whole."""
    assert DIALECT.resume(request_, PLAIN, HANDLE, poll=False) is None
    assert DIALECT.resume(request_, PLAIN, HANDLE, poll=True) is None


def test_no_poll_where_finished_items_would_come_twice() -> None:
    """Then the whole reply would show them again; the stream does not."""
    later = {**HANDLE, "poll": False}

    assert DIALECT.resume(REQUEST, PLAIN, later, poll=True) is None
    assert DIALECT.resume(REQUEST, PLAIN, later, poll=False) is not None
    assert DIALECT.resume(REQUEST, PLAIN, {}, poll=False) is None


def test_stop_call() -> None:
    """A background response is cancelled by its id."""
    made = DIALECT.stop_call(PLAIN, HANDLE)

    assert made is not None
    assert ("POST", "/responses/resp_1/cancel") == (made.method, made.path)
    assert DIALECT.stop_call(PLAIN, {}) is None
