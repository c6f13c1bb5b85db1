"""Recorded responses, cut between any two events: they go on, and the promises hold.

The turn runs without sockets, under the shipped policy; an upstream of the tests plays the recorded
reply and, asked to go on, the rest of it. A strict fake of the API and the SDK's own request types
judge every request and every history.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from recordings import CORPUS, Recording, each_recording, recordings
from responses_upstream import ResponsesTwin, Said, Upstream, said_by
from strict_responses import type_faults
from twin import Answer

from midthought.policies import load_policy
from midthought.statemachine import Unknown

POLICY = load_policy("openai-responses")
REQUEST = {
    "model": "gpt-5",
    "max_output_tokens": 9000,
    "input": [{"role": "user", "content": "go"}],
    "store": False,
}
#: A fixture made by hand whose deltas are not the text that its end repeats.
ODD = "openai-gpt-5.2-openai-shell-container.1-vercel"
RECORDED = [r for r in recordings("openai-responses") if r.name != ODD]
each = each_recording(RECORDED)
#: A refusal that is cut is not gone on with.
each_twice = each_recording([r for r in RECORDED if "refusal" not in r.features])
#: Calls that the caller is to run.
CALLS = (
    "apply_patch_call",
    "custom_tool_call",
    "function_call",
    "local_shell_call",
    "mcp_approval_request",
    "shell_call",
)
#: So many borders of a stream are cut, spread over it; the long run cuts them all.
SAMPLE = 24


def borders(said: Said, most: int) -> list[int]:
    """Numbers of the frames before which to cut, the first and the last among them."""
    count = len(said.frames)
    step = max(1, count // most)
    return sorted({*range(0, count, step), 1, 2, count - 1, count} - {count})


def play(said: Said, cuts: list[int], fault: str = "fin") -> tuple[ResponsesTwin, Upstream]:
    """One turn whose attempt ``n`` is cut before the frame ``cuts[n]`` of what is played."""
    # xAI's items are not those of the official types.
    upstream = Upstream(said, typed="grok" not in said.end.get("model", ""))

    def answer(body: Mapping[str, Any], number: int) -> Answer:
        stream = upstream.post(body)
        if number >= len(cuts):
            return Answer(stream)
        at = cuts[number]
        pieces = stream.split(b"\n\n")
        kept = said.frames[at].begin if number == 0 else len(b"\n\n".join(pieces[:at])) + 2
        return Answer(stream[:kept], fault)  # type: ignore[arg-type]

    twin = ResponsesTwin(POLICY, REQUEST, answer)
    twin.run()
    return twin, upstream


def check(said: Said, twin: ResponsesTwin, upstream: Upstream, cut: int) -> None:
    """What must hold whatever was cut."""
    finished = twin.view.finished
    _requests(twin, upstream)
    _history(twin, upstream)
    assert all(block.closed or block.void for block in twin.view.blocks.values())
    refused = any(unit.kind == "refusal" and unit.begin < cut for unit in said.units)
    if refused:
        assert said.units[0].text.startswith(twin.view.flat[0][1] if twin.view.flat else "")
        return
    assert "completed" == finished.outcome, finished
    called = _whole_calls(said, cut)
    if called:  # promise 3 but for whole calls: the turn ends with them, nothing is sent again
        assert ["original"] == [asked.kind for asked in upstream.asked]
        assert "tool_use" == finished.stop.value
    else:
        assert len(upstream.asked) > 1
        assert said.text == twin.view.text  # promise 2
    _calls(said, twin, called)


def _requests(twin: ResponsesTwin, upstream: Upstream) -> None:
    for sent, asked in zip(twin.sent, upstream.asked, strict=True):
        assert not asked.faults
        # Promise 4: what was shown is not asked for again.
        assert asked.kind != "original" or not sent.solid.strip()


def _history(twin: ResponsesTwin, upstream: Upstream) -> None:
    """Promise 7: valid items, and what is sent is what the caller was shown."""
    shown = {block.id for block in twin.view.calls}
    for items in (twin.machine.history.message, twin.messages):
        assert not upstream.strict.history(items)
        assert not (upstream.typed and type_faults(items))
        hosted = {item["call_id"] for item in items if item["type"] == "shell_call_output"}
        assert shown == {_call(item) for item in items} - hosted - {None}


def _call(item: Mapping[str, Any]) -> Any:
    """The id of a call that the caller is to answer."""
    if item["type"] not in CALLS:
        return None
    return item["id" if item["type"] == "mcp_approval_request" else "call_id"]


def _whole_calls(said: Said, cut: int) -> list[str]:
    """Calls whose input had all come: closed, or one JSON object as it stands."""
    return [
        _call(unit.item)
        for unit in said.units
        if unit.kind in CALLS
        and not unit.item.get("environment")
        and (unit.done < cut or isinstance(_decoded(unit.before(cut)), dict))
    ]


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _calls(said: Said, twin: ResponsesTwin, called: list[str]) -> None:
    """Promise 1: the caller has whole calls only, each once."""
    shown = [block.id for block in twin.view.calls]
    assert len(shown) == len(set(shown))
    known = {unit.item.get("call_id"): unit for unit in said.units}
    for block in twin.view.calls:
        if (unit := known.get(block.id)) is not None and unit.kind == "function_call":
            assert unit.text == block.joined("input")
    assert not called or called == shown


@each
def test_cut_and_continued(recording: Recording) -> None:
    """Cut between two events, by an orderly end or a broken connection, the reply becomes whole."""
    said = said_by(recording)
    for number, cut in enumerate(borders(said, SAMPLE)):
        twin, upstream = play(said, [cut], ("fin", "eof", "rst")[number % 3])
        check(said, twin, upstream, cut)


@pytest.mark.torture
@each
@pytest.mark.parametrize("fault", ["fin", "eof", "stall"])
def test_cut_at_every_border(recording: Recording, fault: str) -> None:
    """The same at every border of every stream."""
    said = said_by(recording)
    for cut in borders(said, len(said.frames)):
        check(said, *play(said, [cut], fault), cut)


@each_twice
def test_cut_twice(recording: Recording) -> None:
    """A continuation that is cut as well goes on from where it was, and once more."""
    said = said_by(recording)
    for cut in borders(said, 5):
        if _whole_calls(said, cut):
            continue
        twin, upstream = play(said, [cut, 5, 4])
        _requests(twin, upstream)
        _history(twin, upstream)
        assert "completed" == twin.view.finished.outcome
        assert said.text == twin.view.text or twin.view.calls


def test_the_same_turn_twice() -> None:
    """The same bytes give the same events and the same requests."""
    if not CORPUS.is_dir():
        pytest.skip("the recorded streams are not beside the project (../shared/corpus)")
    said = said_by(next(r for r in RECORDED if "luna" in r.name))
    (first, asked), (second, again) = (play(said, [30]) for _ in range(2))

    assert first.events == second.events
    assert asked.asked == again.asked
    assert not any(isinstance(event, Unknown) for event in first.events)
