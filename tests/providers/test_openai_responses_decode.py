"""The grammar of the Responses dialect, event by event."""

import json
from typing import Any

import pytest
from responses_frames import (
    Stream,
    blocks_of,
    done_item,
    frame,
    item,
    only,
    read,
    stop_of,
    text_of,
)

from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Unknown,
)


def kinds(events: list[Any]) -> list[str]:
    """Kinds of the blocks, in order."""
    return [event.kind for event in only(events, BlockStarted)]


# --- blocks ---------------------------------------------------------------------------------------


def test_event_lines_may_be_missing_or_wrong() -> None:
    """The type in the data decides; a stream without ``event:`` lines, or with others, is whole."""
    frames = Stream().created().message("Al", "pha").completed().frames
    bare = b"".join(frames).replace(b"event: ", b": ")
    wrong = b"".join(frames).replace(b"event: response.output_text.delta", b"event: nonsense")

    assert read(frames) == read([bare]) == read([wrong])
    assert "Alpha" == text_of(read(frames))
    assert ("end", "completed") == stop_of(read(frames))


def test_parts_of_a_message_are_blocks() -> None:
    """Text and refusal parts are blocks of their own; a next part closes the one before it."""
    stream = Stream().created().added(item("message", role="assistant", content=[]))
    stream.text("A", "B").text("No", part=1, kind="refusal")
    ended = done_item(item("message", role="assistant", content=[]))
    events = read(stream.done(ended).completed().frames)

    assert ["text", "refusal"] == kinds(events)
    assert ["AB", "No"] == [block.text for block in blocks_of(events)]
    first = next(i for i, e in enumerate(events) if isinstance(e, BlockClosed))
    second = [i for i, e in enumerate(events) if isinstance(e, BlockStarted)][1]
    assert first < second


def test_a_text_is_closed_by_its_message() -> None:
    """Its part's end does not say yet that the message is whole; the item's end does, with data."""
    stream = Stream().created().message("Hello", phase="final_answer")
    *before, done = stream.frames

    assert not only(read(before), BlockClosed)
    (closed,) = only(read([*before, done]), BlockClosed)
    assert ("completed", "final_answer", "message-1") == tuple(
        closed.data[key] for key in ("status", "phase", "id")
    )
    assert "content" not in closed.data


def test_reasoning_is_one_block_with_its_signature() -> None:
    """Summaries of one item are one thinking block, a blank line between them; what signs it is the
    ``encrypted_content`` of its end, not of its start."""
    begun = item("reasoning", summary=[], encrypted_content="early")
    stream = Stream().created().added(begun)
    for part, said in enumerate(("First.", "Second.")):
        place = {"item_id": "x", "output_index": 0, "summary_index": part}
        stream.add("reasoning_summary_part.added", **place, part={"type": "summary_text"})
        stream.add("reasoning_summary_text.delta", **place, delta=said)
        stream.add("reasoning_summary_text.done", **place, text=said)
    ended = done_item(begun, encrypted_content="late")
    (block,) = blocks_of(read(stream.done(ended).completed().frames))

    assert ("thinking", "First.\n\nSecond.", "late") == (block.kind, block.text, block.signature)
    assert ended == block.data


@pytest.mark.parametrize("key", ["summary", "content"])
def test_reasoning_that_only_its_end_tells(key: str) -> None:
    """Text that no delta brought comes of ``output_item.done``; also where nothing started it."""
    parts = [{"type": "x", "text": "Hm"}, {"type": "x", "text": "Ah"}]
    ended = done_item(item("reasoning"), encrypted_content="enc", **{key: parts})
    (block,) = blocks_of(read(Stream().created().done(ended).completed().frames))

    assert ("Hm\n\nAh", "enc", True) == (block.text, block.signature, block.closed)


def test_reasoning_told_twice_counts_once() -> None:
    """What streamed as one kind of reasoning is not taken again from the other."""
    stream = Stream().created().added(item("reasoning"))
    stream.add("reasoning_text.delta", output_index=0, content_index=0, delta="Hm")
    same = [{"type": "x", "text": "Hm"}]
    ended = done_item(item("reasoning"), summary=same, content=same)

    assert "Hm" == text_of(read(stream.done(ended).frames))
    assert "Hm" == text_of(read(Stream().created().done(ended).frames))


def test_a_function_call_is_closed_by_its_arguments() -> None:
    """Its id is the call's; it is whole at ``arguments.done``, without waiting for the item."""
    stream = Stream().created().call('{"a":', "1}")
    events = read(stream.frames[:-1])

    (block,) = blocks_of(events)
    assert ("tool_use", "call_1", "add", '{"a":1}') == (
        block.kind,
        block.id,
        block.name,
        block.text,
    )
    assert block.closed
    assert ("tool_use", "completed") == stop_of(read(stream.completed().frames))


def test_arguments_without_deltas() -> None:
    """A server that only sends the whole arguments (LM Studio) is understood."""
    begun = item("function_call", name="add", call_id="c", arguments="")
    stream = Stream().created().added(begun)
    stream.add("function_call_arguments.done", output_index=0, arguments='{"a":1}')

    assert '{"a":1}' == text_of(read(stream.frames), "input")


def test_a_call_that_its_end_alone_tells() -> None:
    """Arguments for a call that never started wait for the item, which has the name too."""
    stream = Stream().created()
    stream.add("function_call_arguments.delta", output_index=0, delta='{"a"')
    ended = done_item(item("function_call"), name="add", call_id="c", arguments='{"a":1}')
    events = read(stream.done(ended).completed().frames)

    assert [("add", '{"a":1}')] == [(block.name, block.text) for block in blocks_of(events)]


def test_a_cut_call_stays_open() -> None:
    """An item that ends as incomplete is not closed: half a call is nobody's."""
    begun = item("function_call", name="add", call_id="c", arguments="")
    stream = Stream().created().added(begun)
    stream.add("function_call_arguments.delta", output_index=0, delta='{"a')
    stream.done({**begun, "status": "incomplete", "arguments": '{"a'})
    events = read(stream.incomplete("max_output_tokens").frames)

    assert ("length", "max_output_tokens") == stop_of(events)
    assert not only(events, BlockClosed)


def test_a_call_that_nothing_ended_stays_open() -> None:
    """Whether it is whole is for the engine to judge; texts are closed by the end."""
    stream = Stream().created().added(item("message")).text("Hi")
    stream.added(item("function_call", name="add", call_id="c", arguments=""), 1)
    stream.add("function_call_arguments.delta", output_index=1, delta='{"a"')
    blocks = blocks_of(read(stream.completed().frames))

    assert [("text", True), ("tool_use", False)] == [(b.kind, b.closed) for b in blocks]


def test_cut_reasoning_is_not_signed() -> None:
    """Reasoning that ends as incomplete cannot go back."""
    begun = item("reasoning", summary=[])
    stream = Stream().created().added(begun)
    stream.done({**begun, "status": "incomplete", "encrypted_content": "half"})
    events = read(stream.incomplete("max_output_tokens").frames)

    assert "" == text_of(events, "signature")
    assert not only(events, BlockClosed)


ACTION = {"commands": ["ls"]}
CLIENT_CALLS = [
    ("local_shell_call", {"action": {"command": ["ls"]}}, "local_shell", '{"command":["ls"]}'),
    ("shell_call", {"action": ACTION}, "shell", '{"commands":["ls"]}'),
    ("shell_call", {"action": ACTION, "environment": {"type": "local"}}, "shell", None),
    ("apply_patch_call", {"operation": {"type": "delete_file"}}, "apply_patch", None),
    ("computer_call", {"action": {"type": "click"}}, "computer", '{"type":"click"}'),
    ("computer_call", {"actions": [{"type": "click"}]}, "computer", None),
    ("mcp_approval_request", {"name": "f", "arguments": '{"a":1}'}, "f", '{"a":1}'),
    ("tool_search_call", {"execution": "client", "arguments": {"q": 1}}, "tool_search", None),
    ("custom_tool_call", {"name": "sql", "input": "SELECT 1"}, "sql", "SELECT 1"),
]


@pytest.mark.parametrize(("kind", "fields", "name", "said"), CLIENT_CALLS)
def test_what_the_caller_must_answer_is_a_call(
    kind: str, fields: dict[str, Any], name: str, said: str | None
) -> None:
    """Every call that the caller runs is a tool call; its input is whole only at its end."""
    begun = item(kind, call_id="call_9", **fields)
    stream = Stream().created().added(begun)
    half = read(stream.frames)
    events = read(stream.done(done_item(begun)).completed().frames)

    (block,) = blocks_of(events)
    assert ("tool_use", name, "call_9") == (block.kind, block.name, block.id)
    assert "" == text_of(half, "input")
    assert block.closed
    assert said is None or said == block.text
    assert kind == "custom_tool_call" or isinstance(json.loads(block.text), dict)
    assert ("tool_use", "completed") == stop_of(events)


def test_server_tools_that_are_two_items_are_a_pair() -> None:
    """A container's shell and its output, a search for tools and its result share an id."""
    shell = item("shell_call", call_id="c1", environment={"type": "container_reference"})
    search = item("tool_search_call", call_id=None, execution="server", arguments={})
    stream = Stream().created().added(shell).done(done_item(shell))
    stream.done(done_item(item("shell_call_output"), call_id="c1", output=[]), 1)
    stream.added(search, 2).done(done_item(search), 2)
    stream.done(done_item(item("tool_search_output"), call_id=None, tools=[]), 3)
    blocks = blocks_of(read(stream.completed().frames))

    assert ["server_tool"] * 4 == [block.kind for block in blocks]
    assert ["c1", "c1", "tool_search_call-1", "tool_search_call-1"] == [b.id for b in blocks]
    assert ("end", "completed") == stop_of(read(stream.frames))


@pytest.mark.parametrize(
    ("kind", "ours"),
    [
        ("web_search_call", "other"),
        ("file_search_call", "other"),
        ("code_interpreter_call", "other"),
        ("mcp_call", "other"),
        ("mcp_list_tools", "other"),
        ("compaction", "other"),
        ("image_generation_call", "media"),
        ("of_tomorrow", "other"),
    ],
)
def test_items_that_go_back_verbatim(kind: str, ours: str) -> None:
    """An item that needs no answer is one block, and its end is kept word for word."""
    begun = item(kind)
    ended = done_item(begun, anything=[{"x": None}])
    events = read(Stream().created().added(begun).done(ended).completed().frames)

    (block,) = blocks_of(events)
    assert (ours, ended, True) == (block.kind, block.data, block.closed)
    assert ("end", "completed") == stop_of(events)


def test_blocks_know_the_reasoning_before_them() -> None:
    """What may not go back without a reasoning item names it; each names the last one."""
    search = item("web_search_call")
    stream = Stream().created().reasoning("Hm").done(done_item(search), 1)
    later = done_item(item("reasoning", summary=[]), id="rs_2")
    stream.done(later, 2).message("Hi", output=3)

    parents = [block.parent for block in blocks_of(read(stream.frames))]
    assert [None, "reasoning-1", None, "rs_2"] == parents


def test_citations() -> None:
    """Annotations are citations, those that only the end of a part has as well."""
    note = {"type": "url_citation", "url": "https://x.example"}
    stream = Stream().created().added(item("message")).text("Hi")
    place = {"output_index": 0, "content_index": 0}
    stream.add("output_text.annotation.added", **place, annotation_index=0, annotation=note)
    whole = {"type": "output_text", "text": "Hi", "annotations": [note, {**note, "url": "y"}]}
    stream.add("content_part.done", **place, part=whole)
    stream.done(done_item(item("message"), content=[whole]))
    (block,) = blocks_of(read(stream.frames))

    assert whole["annotations"] == [json.loads(one) for one in block.citations]


def test_deltas_of_built_in_tools_are_progress() -> None:
    """They are kept as JSON without their padding; other events of a tool are passed on as they
    came."""
    begun = item("apply_patch_call", call_id="c", operation={})
    stream = Stream().created().added(begun)
    stream.add("apply_patch_call_operation_diff.delta", output_index=0, delta="+", obfuscation="xx")
    stream.add("web_search_call.searching", output_index=0)
    events = read(stream.frames)

    (delta,) = only(events, BlockDelta)
    assert "other" == delta.field
    assert {"output_index": 0, "delta": "+"}.items() <= json.loads(delta.text).items()
    assert "obfuscation" not in delta.text
    assert ["response.web_search_call.searching"] == [e.type for e in only(events, Unknown)]


# --- what a done event repeats --------------------------------------------------------------------


def test_text_that_only_its_end_tells() -> None:
    """A message without deltas, and one without any event but its end, have their text."""
    ended = done_item(item("message"), content=[{"type": "output_text", "text": "All of it"}])
    stream = Stream().created().added(item("message"))
    stream.add("output_text.done", output_index=0, content_index=0, text="All of it")

    assert "All of it" == text_of(read(stream.done(ended).frames))
    assert "All of it" == text_of(read(Stream().created().done(ended).frames))


def test_the_end_of_the_response_tells_what_nothing_told() -> None:
    """Items that only the whole output has are read from it; items that were told are not."""
    stream = Stream().created().message("Hi")
    told = done_item(item("message"), content=[{"type": "output_text", "text": "Hi"}])
    more = done_item(item("function_call"), name="add", call_id="c", arguments="{}")
    events = read(stream.completed(output=[told, more]).frames)

    assert ["text", "tool_use"] == kinds(events)
    assert "Hi" == text_of(events)


def test_missing_rest_of_a_text_is_added() -> None:
    """Deltas that were lost on the way are known by the end; what was shown is not changed."""
    stream = Stream().created().added(item("message")).text("H", "e", "l")
    right = done_item(item("message"), content=[{"type": "output_text", "text": "Hello"}])
    wrong = done_item(item("message"), content=[{"type": "output_text", "text": "Howdy"}])

    assert "Hello" == text_of(read([*stream.frames, *Stream(9).done(right).frames]))
    assert "Hel" == text_of(read([*stream.frames, *Stream(9).done(wrong).frames]))


def test_the_rest_of_a_text_is_not_the_text_again() -> None:
    """A resumed stream begins inside a text; what the ends repeat of it was shown before."""
    place = {"output_index": 0, "content_index": 0}
    stream = Stream(7).add("output_text.delta", **place, delta="lo")
    stream.add("output_text.done", **place, text="Hello")
    whole = done_item(item("message"), content=[{"type": "output_text", "text": "Hello"}])

    assert "lo" == text_of(read(stream.done(whole).completed(output=[whole]).frames, attempt=1))
    # Also where only the end is left: the text is closed, and nothing is added.
    ends = Stream(8).add("output_text.done", **place, text="Hello").done(whole).completed()
    for frames in (ends.frames, ends.frames[1:]):
        (block,) = blocks_of(read(frames, attempt=1))
        assert ("text", "", True) == (block.kind, block.text, block.closed)


def test_items_that_are_written_together() -> None:
    """Deltas go to the item they name, however they are mixed."""
    stream = Stream().created().added(item("message")).added(item("message"), 1)
    for output, piece in ((0, "a"), (1, "x"), (0, "b"), (0, "c"), (1, "y"), (1, "z")):
        place = {"output_index": output, "content_index": 0}
        stream.add("output_text.delta", **place, delta=piece)

    assert ["abc", "xyz"] == [block.text for block in blocks_of(read(stream.frames))]


def test_parts_numbered_from_one() -> None:
    """A server that numbers its only part 1 (Bedrock) does not say its text twice."""
    stream = Stream().created().added(item("message")).text("Hi", part=1)
    ended = done_item(item("message"), content=[{"type": "output_text", "text": "Hi"}])
    events = read(stream.done(ended).completed(output=[ended]).frames)

    assert (["text"], "Hi") == (kinds(events), text_of(events))


def test_ids_that_change_and_places_that_are_missing() -> None:
    """Items are known by their place, else by their id, else it is the last one."""
    place = {"output_index": 0, "content_index": 0}
    stream = Stream().created().added({**item("message"), "id": "a"})
    for name in ("b", "c"):
        stream.add("output_text.delta", **place, item_id=name, delta=name)
    stream.add("output_item.done", item={**done_item(item("message")), "id": "d", "content": []})
    stream.added({**item("message"), "id": "e"}, 1)
    stream.add("output_text.delta", item_id="e", content_index=0, delta="!")

    assert ["bc", "!"] == [block.text for block in blocks_of(read(stream.frames))]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_emoji_in_two_deltas(cut: int) -> None:
    """Halves of one character that come apart are joined, in any place of the text."""
    pieces = ["a", r"\ud83d", r"\ude00", "b"]
    place = '"output_index":0,"content_index":0'
    deltas = [
        frame(f'{{"type":"response.output_text.delta",{place},"delta":"{piece}"}}')
        for piece in pieces
    ]
    begun = Stream().created().added(item("message")).text().frames
    whole = "a\U0001f600b"

    assert whole == text_of(read([*begun, *deltas]))
    # The end has what is still missing, the second half too.
    ended = done_item(item("message"), content=[{"type": "output_text", "text": whole}])
    told = read([*begun, *deltas[:cut], *Stream(9).done(ended).frames])
    assert whole == text_of(told)


def test_half_an_emoji_at_the_end() -> None:
    """A half that nothing follows is shown as unreadable: nothing could carry it."""
    begun = Stream().created().added(item("message")).text().frames
    half = (
        r'{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"\ud83d"}'
    )

    assert "\ufffd" == text_of(read([*begun, frame(half), *Stream(9).completed().frames]))
