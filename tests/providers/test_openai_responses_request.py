"""Requests of the Responses dialect are valid, carry the partial, and touch no input."""

import copy
from typing import Any

import pytest
from responses_frames import DIALECT, Stream, blocks_of, done_item, item, policy, read
from strict_responses import StrictResponses, type_faults

from midthought.policies import Policy, PolicyError, load_policy
from midthought.statemachine import Block, Continue, Request

REQUEST: dict[str, Any] = {
    "model": "gpt-5",
    "max_output_tokens": 4096,
    "input": [{"role": "user", "content": "go"}],
    "of_tomorrow": {"kept": True},
}
POLICY = policy(cap={"fields": ["max_output_tokens"]}, stream={"merge": {"stream": True}})


def go_on(
    blocks: list[Block],
    request: dict[str, Any] = REQUEST,
    used: Policy = POLICY,
    cap: int | None = None,
) -> dict[str, Any]:
    """Body of the continuation; it is valid, and the caller's request comes out untouched."""
    before = copy.deepcopy(request)
    made = DIALECT.continuation(request, used, Continue("instruct", blocks, "go on", cap))
    assert before == request
    body = dict(made.body)
    assert not StrictResponses().faults(body)
    assert not type_faults(body["input"])
    return body


def kept(stream: Stream) -> list[Block]:
    """The blocks of a stream that was cut here."""
    return blocks_of(read(stream.frames))


def items(blocks: list[Block], used: Policy = POLICY) -> list[dict[str, Any]]:
    """The history that the blocks make, checked."""
    made = DIALECT.messages(blocks, used)
    assert not StrictResponses().history(made)
    assert not type_faults(made)
    return made


# --- request 0 ------------------------------------------------------------------------------------


def test_original_adds_only_what_is_not_set() -> None:
    """Request 0 is the caller's with the policy's additions; keys we do not know stay."""
    assert {**REQUEST, "stream": True} == DIALECT.original(REQUEST, POLICY).body
    assert DIALECT.original({**REQUEST, "stream": None}, POLICY).body["stream"] is None
    assert "stream" not in REQUEST


@pytest.mark.parametrize(
    ("request_", "features"),
    [
        ({}, set()),
        ({"reasoning": {"effort": "none"}, "tools": [], "text": {"format": {}}}, set()),
        ({"reasoning": {"effort": "low"}, "temperature": 0}, {"thinking", "deterministic"}),
        ({"text": {"format": {"type": "json_schema"}}}, {"structured_output"}),
        ({"text": {"format": {"type": "text"}}, "tools": [{}]}, {"tools"}),
        ({"conversation": {"id": "conv_1"}}, {"conversation"}),
        ({"conversation": "conv_1"}, {"conversation"}),
    ],
)
def test_features(request_: dict[str, Any], features: set[str]) -> None:
    """Reasoning, formats, tools and a conversation are seen."""
    assert features == DIALECT.features(request_, load_policy("openai-responses"))


def test_url_and_headers() -> None:
    """The endpoint, and the key where the policy says."""
    azure = load_policy("azure-openai-responses")

    assert "/responses" == DIALECT.url(REQUEST, POLICY) == DIALECT.url(REQUEST, azure)
    assert "Bearer k" == DIALECT.headers(POLICY, "k")["authorization"]
    assert "k" == DIALECT.headers(azure, "k")["api-key"]
    assert "identity" == DIALECT.headers(POLICY, None)["accept-encoding"]


# --- continuation ---------------------------------------------------------------------------------


def test_a_partial_message_has_no_id_and_no_status() -> None:
    """It is a message with its phase and text, after the caller's input, before the instruction."""
    stream = Stream().created().added(item("message", phase="final_answer")).text("Hello wo")
    body = go_on(kept(stream))

    text = {"type": "output_text", "text": "Hello wo", "annotations": []}
    assert [
        REQUEST["input"][0],
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": [text]},
        {"type": "message", "role": "user", "content": "go on"},
    ] == body["input"]
    assert (True, {"kept": True}, 4096) == (
        body["stream"],
        body["of_tomorrow"],
        body["max_output_tokens"],
    )


def test_input_that_is_a_text() -> None:
    """It becomes the user's message, as the API reads it."""
    body = go_on(kept(Stream().created().message("Hi")), {**REQUEST, "input": "go"})

    assert {"type": "message", "role": "user", "content": "go"} == body["input"][0]


def test_what_the_server_keeps_is_the_callers_word() -> None:
    """``previous_response_id`` and ``store`` stay; the response that broke is not named."""
    request = {**REQUEST, "previous_response_id": "resp_0", "store": True, "instructions": "x"}
    body = go_on(kept(Stream().created().added(item("message")).text("Hi")), request)

    assert ("resp_0", True, "x") == tuple(
        body[key] for key in ("previous_response_id", "store", "instructions")
    )
    assert "resp_1" not in str(body)


def test_cap() -> None:
    """The new output cap stands where the caller's did."""
    assert 300 == go_on(kept(Stream().created().message("Hi")), cap=300)["max_output_tokens"]


def test_reasoning_goes_with_a_message_that_is_done() -> None:
    """Then both go back word for word, with their ids."""
    stream = Stream().created().reasoning("Hm").message("Hello", output=1)
    reasoning, message = go_on(kept(stream))["input"][1:3]

    assert ("reasoning-1", "enc") == (reasoning["id"], reasoning["encrypted_content"])
    assert ("message-1", "completed") == (message["id"], message["status"])


@pytest.mark.parametrize("whole", [False, True])
def test_reasoning_before_a_message_that_is_not_done(whole: bool) -> None:
    """It is left out, and so is the message's id: each without the other is a 400 (case G05)."""
    stream = Stream().created().reasoning("Hm").added(item("message"), 1).text("Hel", output=1)
    if whole:
        stream.add("output_text.done", output_index=1, content_index=0, text="Hel")
    (message,) = go_on(kept(stream))["input"][1:-1]

    assert "message" == message["type"]
    assert not {"id", "status"} & set(message)


def test_lonely_reasoning_is_no_history() -> None:
    """Reasoning that nothing follows makes no item, and nothing to go on from."""
    blocks = kept(Stream().created().reasoning("Hm"))

    assert [] == items(blocks)
    with pytest.raises(ValueError, match="retry the request"):
        go_on(blocks)


def test_reasoning_of_another_attempt_is_left_out() -> None:
    """The item after it must be of its own response."""
    thought = kept(Stream().created().reasoning("Hm"))
    said = blocks_of(read(Stream().created().message("Hi").frames, attempt=1), attempt=1)

    assert ["message"] == [one["type"] for one in items([*thought, *said])]


def test_a_message_joined_of_two_attempts_has_no_id() -> None:
    """The server knows neither as it is now; the reasoning before it would be torn from its own."""
    (thought, text) = kept(
        Stream().created().reasoning("Hm").added(item("message"), 1).text("Hel", output=1)
    )
    (rest,) = blocks_of(read(Stream().created().message("lo").frames, attempt=1), attempt=1)
    text.parts.append("lo")
    text.closed, text.data = True, rest.data
    (message,) = items([thought, text])

    assert "Hello" == message["content"][0]["text"]
    assert not {"id", "status", "attempt"} & set(message)


@pytest.mark.parametrize(
    ("signature", "rule", "kept_types"),
    [
        (None, "keep_if_signed", ["message"]),
        ("enc", "keep_if_signed", ["reasoning", "message"]),
        ("enc", "discard", ["message"]),
    ],
)
def test_unsigned_reasoning(signature: str | None, rule: str, kept_types: list[str]) -> None:
    """Without encrypted content it needs the server's copy, so it is left out with the ids bound
    to it."""
    stream = Stream().created().reasoning("Hm", signature=signature).message("Hi", output=1)
    made = items(kept(stream), policy(blocks={"thinking": {"closed": rule}}))

    assert kept_types == [one["type"] for one in made]
    assert ("id" in made[-1]) is (len(made) == 2)


def test_items_bound_to_reasoning_that_is_not_there() -> None:
    """One that may go without its id does; one that may not is left out."""
    stream = Stream().created().reasoning("Hm", signature=None)
    stream.done(done_item(item("web_search_call"), action={"type": "search", "query": "q"}), 1)
    stream.done(done_item(item("compaction"), encrypted_content="x"), 2).message("Hi", output=3)
    made = items(kept(stream))

    assert ["compaction", "message"] == [one["type"] for one in made]
    assert all("id" not in one for one in made)


def test_items_that_need_no_reasoning_go_back_word_for_word() -> None:
    """Web searches, images and others are what the provider said, ids included."""
    search = done_item(item("web_search_call"), action={"type": "search", "query": "q"})
    image = done_item(item("image_generation_call"), result="aGk=")
    stream = Stream().created().done(search).done(image, 1).message("Hi", output=2)

    assert [search, image] == items(kept(stream))[:2]


def test_parts_of_one_message_are_one_item() -> None:
    """Text and refusal of one message stand together; a second message is another item."""
    begun = item("message", role="assistant")
    stream = Stream().created().added(begun).text("A").text("No", part=1, kind="refusal")
    stream.done(done_item(begun, content=[])).message("B", output=1)
    blocks = kept(stream)
    blocks[2].data = {**(blocks[2].data or {}), "id": "message-2"}

    assert [["output_text", "refusal"], ["output_text"]] == [
        [part["type"] for part in one["content"]] for one in items(blocks)
    ]


def test_blank_text_is_left_out() -> None:
    """An empty or blank part is no part, and a message of such is no item."""
    stream = Stream().created().message("").message(" \n", output=1).message("Hi", output=2)
    (message,) = items(kept(stream))

    assert ["Hi"] == [part["text"] for part in message["content"]]


def test_citations_only_on_text_that_is_whole() -> None:
    """Their places count its characters."""
    note = {"type": "file_path", "file_id": "f", "index": 1}
    stream = Stream().created().added(item("message")).text("Hi")
    stream.add("output_text.annotation.added", output_index=0, content_index=0, annotation=note)
    ended = done_item(item("message"), content=[])

    assert [] == items(kept(stream))[0]["content"][0]["annotations"]
    assert [note] == items(kept(stream.done(ended)))[0]["content"][0]["annotations"]


def test_a_list_of_tools_alone_is_nothing_to_go_on_from() -> None:
    """The server lists them again by itself."""
    tools = done_item(item("mcp_list_tools"), server_label="s", tools=[])

    assert [] == items(kept(Stream().created().done(tools)))
    assert 2 == len(items(kept(Stream().created().done(tools).message("Hi", output=1))))


def test_programs_go_back_with_their_output_or_their_calls() -> None:
    """A program that was cut off while it ran cannot be answered by anybody."""
    program = done_item(item("program"), call_id="p", code="x", fingerprint="f")
    output = done_item(item("program_output"), call_id="p", result="1")
    call = done_item(
        item("function_call"),
        name="f",
        call_id="c",
        arguments="{}",
        caller={"type": "program", "caller_id": "p"},
    )
    begun = Stream().created().done(program)

    assert [] == items(kept(begun))
    assert 2 == len(items(kept(Stream().created().done(program).done(output, 1))))
    assert 2 == len(DIALECT.messages(kept(Stream().created().done(program).done(call, 1)), POLICY))


def test_bridge_text() -> None:
    """Where nothing may be sent back, the policy's own text stands in for it."""
    used = policy(continuation={"instruct": {"bridge": "…"}})
    body = DIALECT.continuation(REQUEST, used, Continue("instruct", [], "go on"))

    assert ["assistant", "user"] == [one["role"] for one in body.body["input"][1:]]


def test_no_prefill() -> None:
    """The API has none: the loader refuses a policy that asks for it, and so does the dialect."""
    with pytest.raises(ValueError, match="use instruct"):
        DIALECT.continuation(REQUEST, POLICY, Continue("prefill", kept(Stream().message("Hi"))))


def test_a_policy_that_asks_for_prefill_is_refused(tmp_path: Any) -> None:
    """At load, with the strategies that there are."""
    file = tmp_path / "mine.toml"
    file.write_text('extends = ["openai-responses"]\n[continuation]\nstrategies = ["prefill"]\n')

    with pytest.raises(PolicyError) as refused:
        load_policy(file)
    assert any("prefill" in fault.found for fault in refused.value.faults)


# --- history and calls ----------------------------------------------------------------------------


def test_calls_in_the_history() -> None:
    """Function calls have JSON, custom ones their text; no input is an empty object; reasoning and
    ids stay together."""
    stream = Stream().created().reasoning("Hm").call(output=1).call('{"a":1}', output=2, call="c2")
    custom = item("custom_tool_call", call_id="c3", name="sql", input="SELECT 1")
    made = DIALECT.messages(kept(stream.done(done_item(custom), 3)), POLICY)

    assert ["{}", '{"a":1}', "SELECT 1"] == [
        one.get("arguments", one.get("input")) for one in made[1:]
    ]
    assert ["call_1", "c2", "c3"] == [one["call_id"] for one in made[1:]]
    assert all("id" in one for one in made)
    assert not type_faults(made)


def test_calls_whose_reasoning_is_left_out_have_no_id() -> None:
    """A call without its reasoning item is a 400 only where the server knows the call."""
    stream = Stream().created().reasoning("Hm", signature=None).call("{}", output=1)
    (call,) = DIALECT.messages(kept(stream), POLICY)

    assert ("call_1", False) == (call["call_id"], "id" in call)


def test_calls_that_need_their_id_stay() -> None:
    """A call that the caller was shown has to be in the history, whatever its reasoning is."""
    asked = done_item(item("mcp_approval_request"), name="f", arguments="{}", server_label="s")
    shell = done_item(item("local_shell_call"), call_id="c", action={"command": ["ls"]})
    stream = Stream().created().reasoning("Hm", signature=None).done(asked, 1).done(shell, 2)
    made = DIALECT.messages(kept(stream), POLICY)

    assert [(asked["id"], None), (None, "c")] == [(i.get("id"), i.get("call_id")) for i in made]


@pytest.mark.parametrize(
    "call",
    [
        item("function_call", name="f", arguments="{}"),
        item("custom_tool_call", name="f", input="x"),
        item("local_shell_call", action={"type": "exec", "command": ["ls"], "env": {}}),
        item("shell_call", action={"commands": ["ls"]}),
        item("apply_patch_call", operation={"type": "delete_file", "path": "x"}),
        item(
            "computer_call",
            action={"type": "wait"},
            pending_safety_checks=[],
        ),
        item("mcp_approval_request", name="f", arguments="{}", server_label="s"),
        item("tool_search_call", execution="client", arguments={}),
    ],
    ids=lambda call: call["type"],
)
def test_every_call_can_be_answered_as_not_executed(call: dict[str, Any]) -> None:
    """By an item of its own kind, valid by the SDK's types, and never as if it had run."""
    given = call if call["type"] == "mcp_approval_request" else {**call, "call_id": "c"}
    blocks = kept(Stream().created().done(done_item(given)))
    made = DIALECT.messages(blocks, POLICY)
    answers = DIALECT.not_executed(blocks, POLICY)
    told = [*made, *answers]

    assert 1 == len(answers)
    assert not type_faults(told)
    assert not StrictResponses().faults({"input": told, "stream": True})


def test_strip_thinking() -> None:
    """This turn's reasoning goes, with the ids that bind others to it; earlier turns stay."""
    old = {"type": "reasoning", "id": "rs_0", "summary": []}
    said = {"type": "message", "id": "m_0", "role": "assistant", "status": "completed"}
    asked = {"role": "user", "content": "go"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    told = {"type": "message", "role": "user", "content": "go on"}
    given = [old, said, asked, {**old, "id": "rs_1"}, call, search, said, told]
    request = Request({"input": given, "x": 1}, base_url_suffix="/b")
    stripped = DIALECT.strip_thinking(request, POLICY)
    unbound = {key: value for key, value in said.items() if key not in ("id", "status")}

    bare = {key: value for key, value in call.items() if key != "id"}
    assert [old, said, asked, bare, unbound, told] == stripped.body["input"]
    assert ("/b", 1) == (stripped.base_url_suffix, stripped.body["x"])
    every = DIALECT.strip_thinking(request, POLICY, turn_only=False).body["input"]
    assert "reasoning" not in [one.get("type") for one in every]
    assert 8 == len(given)
