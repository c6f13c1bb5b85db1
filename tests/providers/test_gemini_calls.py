"""Function calls of the Gemini dialect: whole, in pieces, and broken."""

import json
from typing import Any

import pytest
from gemini_frames import built, call, failed, frame, last, only, read, says, stop, text_of
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import FailureKind, Stop
from midthought.providers._gemini_args import PartialArgs, UnreadableArgs
from midthought.statemachine import BlockClosed, BlockDelta, StopKnown


def _function(**function: Any) -> dict[str, Any]:
    return {"functionCall": function}


def _piece(path: str, *, more: bool = False, **value: Any) -> dict[str, Any]:
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def test_a_call_is_whole_at_the_finish_reason() -> None:
    """A call in one part is closed with the finish reason and not before, as its signature may
    still come; the stop fact is the use of a tool."""
    events = read([says("A", call("add", {"b": 2})), says("", call("now")), stop()])
    text, *calls = built(events)

    assert "text" == text.kind
    assert [("add", {"b": 2}), ("now", {})] == [(c.name, json.loads(c.text)) for c in calls]
    closes = [events.index(e) for e in only(events, BlockClosed) if e.index]
    (known,) = [events.index(e) for e in only(events, StopKnown)]
    assert closes == [known - 2, known - 1]
    assert Stop.tool_use is last(events).stop


def test_without_the_finish_reason_no_call_is_closed() -> None:
    """A cut behind a whole functionCall leaves it open."""
    (block,) = built(read([says(call("add", {"b": 2}))]))

    assert not block.closed


def test_ids_are_the_providers_or_made_up() -> None:
    """A call without an id gets one of its own, which stands in no part that goes back."""
    events = read([says(_function(name="f", id="c1", args={}), call("f"), call("f")), stop()])
    blocks = built(events)

    assert "c1" == blocks[0].id
    assert 3 == len({block.id for block in blocks})
    assert [{"name": "f", "id": "c1", "args": {}}, {"name": "f"}, {"name": "f"}] == [
        (block.data or {})["functionCall"] for block in blocks
    ]


def test_a_call_goes_back_as_it_came() -> None:
    """Signature and everything else in the part of a call stay with it."""
    part = call("add", {"a": 1}, thoughtSignature="c2ln", partMetadata={"x": 1})
    (block,) = built(read([says(part), stop()]))

    assert part == block.data


def test_calls_that_come_later_than_the_first_reason() -> None:
    """With a reason in every response, each closes the calls that are whole by then, once."""
    events = read([stop("STOP", call("a")), stop("STOP", call("b")), stop()])

    assert [("a", True), ("b", True)] == [(b.name, b.closed) for b in built(events)]
    assert Stop.tool_use is last(events).stop


PIECES = [
    _piece("$.steps[0].text", stringValue="Mix", more=True),
    _piece("$.steps[0].text", stringValue=" it", more=True),
    _piece("$.steps[0].text", stringValue=""),
    _piece("$.steps[0].minutes", numberValue=3),
    _piece("$.steps[1].text", stringValue="Bake"),
    _piece("$.hot", boolValue=True),
    _piece("$.by", nullValue="NULL_VALUE"),
]
ARGS = {
    "steps": [{"text": "Mix it", "minutes": 3}, {"text": "Bake"}],
    "hot": True,
    "by": None,
}


@pytest.mark.parametrize(
    "end",
    [
        [says(_function())],  # an empty call
        [says(_function(partialArgs=[_piece("$.end", numberValue=1)]))],  # no willContinue
        [says(_function(name="next", args={}))],  # another call
        [],  # the finish reason itself
    ],
)
def test_arguments_in_pieces(end: list[bytes]) -> None:
    """Pieces are put where their paths say, however the call ends; it goes back in one piece."""
    first = {**_function(name="bake", willContinue=True), "thoughtSignature": "c2ln"}
    pieces = [says(_function(partialArgs=[piece], willContinue=True)) for piece in PIECES]
    events = read([says(first), *pieces, *end, stop()])
    block = built(events)[0]
    args = {**ARGS, "end": 1} if end and b"end" in end[0] else ARGS

    assert ("bake", True) == (block.name, block.closed)
    assert args == json.loads(block.text)
    assert {
        "functionCall": {"name": "bake", "args": args},
        "thoughtSignature": "c2ln",
    } == block.data


def test_pieces_are_progress() -> None:
    """Each piece is told, but the input only once it is whole: half of it is nobody's."""
    first = says(_function(name="bake", willContinue=True))
    pieces = [says(_function(partialArgs=[piece], willContinue=True)) for piece in PIECES[:2]]
    events = read([first, *pieces])

    assert ["other", "other"] == [e.field for e in only(events, BlockDelta)]
    assert "" == built(events)[0].text


def test_a_signature_may_come_with_a_later_piece() -> None:
    """It belongs to the call all the same; a second one changes nothing."""
    events = read(
        [
            says(_function(name="f", willContinue=True)),
            says({**_function(willContinue=True), "thoughtSignature": "c2ln"}),
            says({**_function(), "thoughtSignature": "b3RoZXI="}),
            stop(),
        ]
    )

    assert {"functionCall": {"name": "f"}, "thoughtSignature": "c2ln"} == built(events)[0].data


@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS", "CONTINUATION", "SAFETY"])
def test_half_a_string_is_no_call(reason: str) -> None:
    """A call whose last string never ended is not closed, whatever the finish reason."""
    begun = _function(
        name="f",
        partialArgs=[_piece("$.a", stringValue="half", more=True)],
        willContinue=True,
    )
    events = read([says(begun), stop(reason)])

    assert not built(events)[0].closed


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "CONTINUATION", "SAFETY"])
def test_a_call_that_goes_on_is_cut_by_these(reason: str) -> None:
    """A call that said it would go on is not whole where the reply was cut off."""
    begun = _function(name="f", partialArgs=[_piece("$.a", numberValue=1)], willContinue=True)
    whole = call("g", {"a": 1})

    assert [("f", False)] == [(b.name, b.closed) for b in built(read([says(begun), stop(reason)]))]
    (block,) = built(read([says(whole), stop(reason)]))
    assert block.closed


@pytest.mark.parametrize(
    "function",
    [
        _function(partialArgs=[_piece("$.a", numberValue=1)]),
        _function(name="f", willContinue=True, partialArgs=[{"numberValue": 1}]),
        _function(name="f", willContinue=True, partialArgs=["x"]),
        _function(name="f", willContinue=True, partialArgs=[_piece("a", numberValue=1)]),
        _function(name="f", willContinue=True, partialArgs=[_piece("$.a[7]", numberValue=1)]),
    ],
)
def test_pieces_without_a_place_break_the_stream(function: Any) -> None:
    """Arguments of no call, or at no place in one, are no call, and no success either."""
    assert FailureKind.sse_parse is failed(read([says(function), stop()]))


def test_an_empty_call_of_nothing_means_nothing() -> None:
    """The end of a call that never began is a sign of life."""
    events = read([says("A"), says(_function()), says({"functionCall": None}), stop()])

    assert ("A", Stop.end) == (text_of(events), last(events).stop)


def test_calls_of_another_candidate() -> None:
    """They are told as theirs, and do not make the stop of the first one a use of tools."""
    events = read(
        [
            frame(
                {
                    "candidates": [
                        {"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP"},
                        {"index": 1, "content": {"parts": [call()]}, "finishReason": "STOP"},
                    ]
                }
            )
        ],
        choices=2,
    )

    assert {"choice": 1, **call()} == built(events)[1].data
    assert Stop.end is last(events).stop


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.a", {"a": 1}),
        ("$.a.b", {"a": {"b": 1}}),
        ("$.a[0]", {"a": [1]}),
        ("$.a[0][0].b", {"a": [[{"b": 1}]]}),
        ("$['a b'].c", {"a b": {"c": 1}}),
        ('$["a.b"]', {"a.b": 1}),
        (r"$['it\'s']", {"it's": 1}),
        ("$.größe", {"größe": 1}),
    ],
)
def test_paths(path: str, expected: Any) -> None:
    """Names, indexes and quoted names lead to their place."""
    args = PartialArgs()
    args.add({"jsonPath": path, "numberValue": 1})

    assert expected == args.value


@pytest.mark.parametrize("path", ["", "$", "$.", "a", "$[0]", "$.a[", "$.a[x]", "$.a[1]", "$..a"])
def test_paths_that_lead_nowhere(path: str) -> None:
    """What is no path, or would leave a hole in a list, is refused."""
    with pytest.raises(UnreadableArgs):
        PartialArgs().add({"jsonPath": path, "numberValue": 1})


def test_a_string_that_another_value_interrupts() -> None:
    """The pieces that came are kept, in their place."""
    args = PartialArgs({"kept": 1})
    for piece in (
        _piece("$.a", stringValue="x", more=True),
        _piece("$.a", more=True),
        _piece("$.a", stringValue="y", more=True),
        _piece("$.b", numberValue=2),
    ):
        args.add(piece)

    assert {"kept": 1, "a": "xy", "b": 2} == args.value
    assert not args.inside


_SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5))
_NAMES = st.text(alphabet="abcdefgh_1", min_size=1, max_size=4)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.dictionaries(_NAMES, inner, min_size=1, max_size=3),
    ),
    max_leaves=8,
)


def _pieces(path: str, value: Any) -> list[dict[str, Any]]:
    """The pieces that the provider would send for this value, each character by itself."""
    if isinstance(value, dict):
        return [piece for name, one in value.items() for piece in _pieces(f"{path}.{name}", one)]
    if isinstance(value, list):
        return [p for i, one in enumerate(value) for p in _pieces(f"{path}[{i}]", one)]
    if isinstance(value, str):
        begun = [_piece(path, stringValue=letter, more=True) for letter in value]
        return [*begun, _piece(path, stringValue="")]
    if value is None:
        return [_piece(path, nullValue="NULL_VALUE")]
    key = "boolValue" if isinstance(value, bool) else "numberValue"
    return [_piece(path, **{key: value})]


@given(st.dictionaries(_NAMES, _TREES, max_size=4))
def test_any_arguments_come_together(value: dict[str, Any]) -> None:
    """Whatever was taken apart in this form is put together again."""
    args = PartialArgs()
    for piece in _pieces("$", value):
        args.add(piece)

    assert value == args.value
    assert not args.inside
