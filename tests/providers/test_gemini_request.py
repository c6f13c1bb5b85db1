"""Requests of the Gemini dialect are valid, carry the partial, and touch no input."""

import copy
import json
from typing import Any

import httpx
import pytest
from gemini_frames import DIALECT, POLICY, VERTEX, call, stop, thinks
from google import genai
from google.genai import types

from midthought.policies import Policy, PolicyError, load_policy
from midthought.statemachine import Block, Continue, Request

REQUEST: dict[str, Any] = {
    "model": "gemini-2.5-flash",
    "contents": [{"role": "user", "parts": [{"text": "go"}]}],
    "generationConfig": {"maxOutputTokens": 4096},
    "ofTomorrow": {"kept": True},
}
PATH = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"


def block(kind: Any, text: str = "", **fields: Any) -> Block:
    """A closed block of attempt 0."""
    return Block(0, kind, 0, parts=[text] if text else [], closed=True, **fields)


def go_on(
    blocks: list[Block],
    strategy: str = "instruct",
    request: dict[str, Any] = REQUEST,
    used: Policy = POLICY,
    cap: int | None = None,
) -> Request:
    """The continuation; the caller's request must come out of it untouched."""
    before = copy.deepcopy(request)
    made = DIALECT.continuation(request, used, Continue(strategy, blocks, "go on", cap))
    assert before == request
    for content in made.body["contents"]:
        types.Content.model_validate(content)
    assert "model" not in made.body
    return made


# --- request 0 ------------------------------------------------------------------------------------


def test_the_model_goes_into_the_path() -> None:
    """Request 0 is the caller's body without its model, which stands in the URL."""
    made = DIALECT.original(REQUEST, POLICY)

    assert {k: v for k, v in REQUEST.items() if k != "model"} == made.body
    assert (PATH, "POST") == (made.path, made.method)
    assert "model" in REQUEST


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("models/gemini-2.5-flash", "/v1beta/models/gemini-2.5-flash:"),
        ("gemini-3.5-flash@001", "/v1beta/models/gemini-3.5-flash@001:"),
        ("a b?c#d", "/v1beta/models/a%20b%3Fc%23d:"),
    ],
)
def test_spellings_of_a_model(model: str, expected: str) -> None:
    """With ``models/`` before it or not, and nothing in it can change the URL."""
    path = DIALECT.original({**REQUEST, "model": model}, POLICY).path

    assert path == f"{expected}streamGenerateContent?alt=sse"


def test_paths_of_vertex_and_of_ones_own() -> None:
    """The path is the policy's; the base URL carries the project."""
    own = VERTEX.model_copy(update={"path": "/x/{model}:y"})

    assert (
        "/publishers/google/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
        == DIALECT.original(REQUEST, VERTEX).path
    )
    assert "/x/gemini-2.5-flash:y" == DIALECT.original(REQUEST, own).path


@pytest.mark.parametrize("model", [{}, {"model": ""}, {"model": None}, {"model": "models/"}])
def test_a_request_without_a_model(model: dict[str, Any]) -> None:
    """There is no URL without it: said, with what to do."""
    request = {"contents": REQUEST["contents"], **model}

    with pytest.raises(ValueError, match='add "model"'):
        DIALECT.original(request, POLICY)


def test_headers() -> None:
    """The key goes where the policy says; compressed streams are not asked for."""
    headers = DIALECT.headers(POLICY, "secret")

    assert "secret" == headers["x-goog-api-key"]
    assert "identity" == headers["accept-encoding"]
    assert "x-goog-api-key" not in DIALECT.headers(POLICY, None)


def test_features_in_both_spellings() -> None:
    """Rows of the policy tell features; calls in a final model turn are the grammar's."""
    calls = {"role": "model", "parts": [call()]}
    snake = {
        "generation_config": {
            "temperature": 0,
            "candidate_count": 2,
            "response_mime_type": "application/json",
            "thinking_config": {"thinking_budget": 1},
        }
    }
    camel = {
        "tools": [{}],
        "generationConfig": {
            "temperature": 0.0,
            "candidateCount": 2,
            "responseSchema": {"type": "STRING"},
            "thinkingConfig": {"includeThoughts": True},
        },
    }
    every = {"deterministic", "n", "structured_output", "thinking"}

    assert frozenset() == DIALECT.features(REQUEST, POLICY)
    assert every == DIALECT.features(snake, POLICY)
    assert every | {"tools"} == DIALECT.features(camel, POLICY)
    assert {"tool_calls_in_last"} == DIALECT.features({"contents": [calls]}, POLICY)
    answered = {"contents": [calls, {"role": "user", "parts": [{"functionResponse": {}}]}]}
    assert frozenset() == DIALECT.features(answered, POLICY)


def test_model_choices_and_cap() -> None:
    """They are read from the request, and are absent where they are no name or number."""
    many = {"generation_config": {"candidate_count": 3, "max_output_tokens": 9}}

    assert ("gemini-2.5-flash", 1) == (DIALECT.model(REQUEST), DIALECT.choices(REQUEST))
    assert (4096, 9) == (DIALECT.cap(REQUEST, POLICY), DIALECT.cap(many, POLICY))
    assert ("", 3) == (DIALECT.model({"model": 3}), DIALECT.choices(many))
    assert 1 == DIALECT.choices({"generationConfig": {"candidateCount": "x"}})


# --- continuations --------------------------------------------------------------------------------


def test_prefill_ends_with_the_partial() -> None:
    """Prefill: the partial is the last turn, on the same path."""
    made = go_on([block("text", "Alpha")], "prefill")

    assert [
        *REQUEST["contents"],
        {"role": "model", "parts": [{"text": "Alpha"}]},
    ] == made.body["contents"]
    assert (PATH, REQUEST["ofTomorrow"]) == (made.path, made.body["ofTomorrow"])


def test_instruct_ends_with_the_instruction() -> None:
    """Instruct: the partial, then the instruction as the user's turn."""
    contents = go_on([block("text", "Alpha")]).body["contents"]

    assert [
        *REQUEST["contents"],
        {"role": "model", "parts": [{"text": "Alpha"}]},
        {"role": "user", "parts": [{"text": "go on"}]},
    ] == contents
    assert contents[-1] == DIALECT.instruction("go on", POLICY)


@pytest.mark.parametrize("strategy", ["prefill", "instruct"])
def test_callers_own_model_turn_goes_on_in_one_turn(strategy: str) -> None:
    """A request that ends with a model turn goes on in it: one turn, one text."""
    own = [*REQUEST["contents"], {"role": "model", "parts": [{"text": "It is ("}]}]
    contents = go_on([block("text", "B)")], strategy, {**REQUEST, "contents": own}).body["contents"]

    assert {"role": "model", "parts": [{"text": "It is (B)"}]} == contents[1]
    assert (2 if strategy == "prefill" else 3) == len(contents)
    signed = {"text": "It is (", "thoughtSignature": "c2ln"}
    kept = [*REQUEST["contents"], {"role": "model", "parts": [signed]}]
    contents = go_on([block("text", "B)")], strategy, {**REQUEST, "contents": kept}).body[
        "contents"
    ]
    assert [signed, {"text": "B)"}] == contents[1]["parts"]


def test_nothing_to_go_on_from() -> None:
    """With nothing to send back the policy's bridge stands in; without one it is refused."""
    instruct = POLICY.continuation.instruct.model_copy(update={"bridge": "(interrupted)"})
    update = {"continuation": POLICY.continuation.model_copy(update={"instruct": instruct})}

    with pytest.raises(ValueError, match="retry the request instead"):
        go_on([block("text", "  "), block("thinking", "hm")])
    with pytest.raises(ValueError, match="at least one committed block"):
        go_on([], "prefill", used=POLICY.model_copy(update=update))
    contents = go_on([], used=POLICY.model_copy(update=update)).body["contents"]
    assert [{"text": "(interrupted)"}] == contents[1]["parts"]


def test_cap_and_thinking_budget() -> None:
    """The cap goes into the field that the request uses, above its budget for thoughts."""
    budget = {"thinkingConfig": {"thinkingBudget": 1000}, "maxOutputTokens": 4096}
    config = go_on([block("text", "A")], cap=1100, request={**REQUEST, "generationConfig": budget})
    snake = {**REQUEST, "generation_config": {"max_output_tokens": 9}}
    del snake["generationConfig"]

    assert 2000 == go_on([block("text", "A")], cap=2000).body["generationConfig"]["maxOutputTokens"]
    assert 1256 == config.body["generationConfig"]["maxOutputTokens"]
    assert (
        5
        == go_on([block("text", "A")], cap=5, request=snake).body["generation_config"][
            "max_output_tokens"
        ]
    )


def test_resume_is_the_same_request_with_the_token() -> None:
    """Nothing of the partial reply, the cap as it is, and no call for the whole of it."""
    handle = {"continuationToken": "dG9r"}
    made = DIALECT.resume(REQUEST, POLICY, handle, poll=False)
    assert made is not None

    first = DIALECT.original(REQUEST, POLICY)
    assert {**first.body, "continuationToken": "dG9r"} == made.body
    assert first.path == made.path
    assert DIALECT.resume(REQUEST, POLICY, handle, poll=True) is None
    assert DIALECT.resume(REQUEST, POLICY, {}, poll=False) is None
    many = {**REQUEST, "generationConfig": {"candidateCount": 2}}
    assert DIALECT.resume(many, POLICY, handle, poll=False) is None
    assert DIALECT.stop_call(POLICY, handle) is None


def test_strip_thinking() -> None:
    """Thoughts and signatures of this turn go, an earlier turn's stay unless all is asked for;
    a call gets the signature that is not checked."""
    turn = [
        thinks("hm", thoughtSignature="YWFh"),
        {"text": "A", "thoughtSignature": "YmJi"},
        {"text": "", "thoughtSignature": "Y2Nj"},
        call("f", {}, thoughtSignature="ZGRk"),
        {"text": "B"},
    ]
    contents = [
        *REQUEST["contents"],
        {"role": "model", "parts": turn[:1]},
        *REQUEST["contents"],
        {"role": "model", "parts": turn},
        {"role": "user", "parts": [{"text": "go on"}]},
    ]
    request = Request({"contents": contents}, {"h": "v"}, "/beta", path="/p")
    before = copy.deepcopy(contents)
    stripped = DIALECT.strip_thinking(request, POLICY)
    everything = DIALECT.strip_thinking(request, POLICY, turn_only=False)
    unchecked = call("f", {}, thoughtSignature="skip_thought_signature_validator")

    assert [{"text": "A"}, unchecked, {"text": "B"}] == stripped.body["contents"][3]["parts"]
    types.Content.model_validate(stripped.body["contents"][3])
    assert contents[:3] == stripped.body["contents"][:3]
    assert ["user", "user", "model", "user"] == [c["role"] for c in everything.body["contents"]]
    assert ({"h": "v"}, "/beta", "/p") == (
        stripped.headers,
        stripped.base_url_suffix,
        stripped.path,
    )
    assert before == contents


# --- against the SDK ------------------------------------------------------------------------------


def _sdk_request(model: str, config: types.GenerateContentConfig) -> tuple[str, dict[str, Any]]:
    """Path and body that the official SDK sends for these contents."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stop())

    with httpx.Client(transport=httpx.MockTransport(answer)) as http:
        options = types.HttpOptions(
            httpx_client=http, base_url="http://127.0.0.1", api_version="v1beta"
        )
        client = genai.Client(api_key="none", http_options=options)
        contents = [types.Content(role="user", parts=[types.Part(text="go")])]
        list(client.models.generate_content_stream(model=model, contents=contents, config=config))
    return sent[0].url.raw_path.decode(), json.loads(sent[0].content)


def test_what_the_sdk_sends() -> None:
    """Path, body and place of the token are those of the official SDK."""
    ours = {k: v for k, v in REQUEST.items() if k != "ofTomorrow"}
    config = types.GenerateContentConfig(max_output_tokens=4096)
    resumed = types.GenerateContentConfig(max_output_tokens=4096, continuation_token=b"tok")
    handle = {"continuationToken": "dG9r"}

    first = DIALECT.original(ours, POLICY)
    assert _sdk_request(ours["model"], config) == (first.path, first.body)
    second = DIALECT.resume(ours, POLICY, handle, poll=False)
    assert second is not None
    assert _sdk_request(ours["model"], resumed) == (second.path, second.body)


# --- policies -------------------------------------------------------------------------------------

# By hand, from the sources in gemini.toml.
STRATEGIES = [
    ("gemini-2.5-flash", True),
    ("models/gemini-2.0-flash-lite", True),
    ("gemini-3-pro-preview", True),
    ("gemini-3.1-pro-preview", True),
    ("gemini-pro-latest", True),
    ("gemini-3.5-flash", True),
    ("gemini-3.5-flash-001", True),
    ("gemini-3.5-flash-lite", False),
    ("gemini-3.5-flash-lite-preview", False),
    ("gemini-3.6-flash", False),
    ("gemini-3.7-flash", False),
    ("gemini-3.8-flash", False),
    ("gemini-4-argon", False),
    ("gemini-5-tomorrow", False),
    ("gemini-pro", False),
    ("", False),
]


@pytest.mark.parametrize(("model", "prefill"), STRATEGIES)
def test_strategies_by_model(model: str, prefill: bool) -> None:
    """Only models that are known to take one get a prefill; all may resume and be instructed."""
    expected = ("resume", "prefill", "instruct") if prefill else ("resume", "instruct")

    for used in (POLICY, VERTEX):
        assert expected == used.for_model(model).continuation.strategies


def test_old_models_wait_longer_for_more() -> None:
    """Where every response has a finish reason, a pause is no end (one-api #1408)."""
    assert 30.0 == POLICY.for_model("gemini-pro").clocks.finish_grace_s
    assert 2.0 == POLICY.for_model("gemini-2.5-pro").clocks.finish_grace_s


def test_a_strategy_that_a_dialect_has_not_is_refused(tmp_path: Any) -> None:
    """All three are this dialect's; where another has none, loading says so."""
    file = tmp_path / "p.toml"
    file.write_text('extends = ["gemini"]\n[continuation]\nstrategies = ["prefill", "resume"]\n')
    assert ("prefill", "resume") == load_policy(file).continuation.strategies

    file.write_text('extends = ["anthropic"]\n[continuation]\nstrategies = ["resume"]\n')
    with pytest.raises(PolicyError, match="resume"):
        load_policy(file)
