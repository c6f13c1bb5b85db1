"""What of a Gemini reply may stand in a history, and in which form."""

from typing import Any

from gemini_frames import DIALECT, POLICY, built, call, read, says, stop, thinks
from google.genai import types
from strict_gemini import faults

from midthought.policies import Policy
from midthought.statemachine import Block

ASKED: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]


def block(kind: Any, text: str = "", **fields: Any) -> Block:
    """A closed block of attempt 0."""
    return Block(0, kind, 0, parts=[text] if text else [], closed=True, **fields)


def parts_of(*blocks: Block, used: Policy = POLICY) -> list[Any]:
    """The parts of the turn that these blocks make; every one is what the SDK takes."""
    turns = DIALECT.messages(blocks, used)
    for turn in turns:
        assert "model" == turn["role"]
        types.Content.model_validate(turn)
    return list(turns[0]["parts"]) if turns else []


def test_every_kind_goes_back() -> None:
    """Text, signed parts, calls, tools of the provider, media: as they came."""
    signed = {"text": "B", "thoughtSignature": "c2ln"}
    thought = thinks("hm", thoughtSignature="dGh0")
    parts = [
        thought,
        {"text": "A"},
        signed,
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        call("add", {"a": 1}, thoughtSignature="Y2FsbA=="),
        {"text": "", "thoughtSignature": "ZW5k"},
    ]

    assert parts == parts_of(*built(read([says(*parts), stop()])))


def test_what_stays_out() -> None:
    """Blank text, thoughts without a signature, refusals, and another candidate's parts."""
    blocks = [
        block("text", " \n"),
        block("thinking", "hm"),
        block("refusal", "no"),
        block("text", "other", data={"choice": 1}),
        block("other"),
        Block(1, "media", 0, data={"inlineData": {}}),
    ]

    assert [] == parts_of(*blocks)
    assert [{"text": "A"}] == parts_of(*blocks, block("text", "A"))


def test_signatures_alone_make_no_turn() -> None:
    """Thoughts and signatures say nothing by themselves: that is nothing to go on from."""
    events = read(
        [says(thinks("hm", thoughtSignature="c2ln"), {"text": "", "thoughtSignature": "c2lu"})]
    )

    assert [] == parts_of(*built(events))


def test_a_signed_text_that_was_cut_or_joined_goes_back_bare() -> None:
    """A signature is only good for the text it came with."""
    data = {"text": "Alpha ", "thoughtSignature": "c2ln"}

    assert [data] == parts_of(block("text", "Alpha ", data=data))
    assert [{"text": "Alpha"}] == parts_of(block("text", "Alpha", data=data))
    assert [{"text": "so Alpha "}] == parts_of(block("text", "so Alpha ", data=data))


def test_thoughts_by_the_policys_rule() -> None:
    """Signed thoughts go back, unless the policy discards them."""
    data = thinks("hm", thoughtSignature="c2ln")
    thought, text = block("thinking", "hm", data=data), block("text", "A")
    rule = POLICY.blocks.model_copy(
        update={"thinking": POLICY.blocks.thinking.model_copy(update={"closed": "discard"})}
    )

    assert [data, {"text": "A"}] == parts_of(thought, text)
    assert [{"text": "A"}] == parts_of(
        thought, text, used=POLICY.model_copy(update={"blocks": rule})
    )


def test_a_call_without_its_part_is_made_anew() -> None:
    """A call of another dialect's making has a name and its input; half of one is none."""
    assert [call("f", {"a": 1})] == parts_of(block("tool_use", '{"a":1}', id="x", name="f"))
    half = Block(0, "tool_use", 0, "x", "f", parts=['{"a"'])
    assert [{"text": "A"}] == parts_of(block("text", "A"), half)


def test_calls_that_nobody_ran() -> None:
    """Each is answered by its name, and its id where the provider gave one."""
    blocks = built(
        read([says(call("f"), {"functionCall": {"name": "g", "id": "g1", "args": {}}}), stop()])
    )
    (turn,) = DIALECT.not_executed(blocks, POLICY)
    types.Content.model_validate(turn)
    answers = [part["functionResponse"] for part in turn["parts"]]

    assert "user" == turn["role"]
    assert [("f", None), ("g", "g1")] == [(one["name"], one.get("id")) for one in answers]
    history = [*ASKED, *DIALECT.messages(blocks, POLICY), turn]
    assert [] == faults({"contents": history})
