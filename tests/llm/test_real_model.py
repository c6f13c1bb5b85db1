"""A real LLM, really cut: what the policy healed is the reply that was never cut, byte for byte.

Greedy decoding on one slot. What makes "byte for byte" possible was measured with this model:

* The text that goes back must be read as the same tokens as were written. A text that ends at a
  token border always is, also inside a word; one that ends inside a token never is. Hence
  ``last_word`` under deterministic decoding: behind it stands a border, wherever the cut came.
* The server must compute the same numbers. One that reads a prompt in batches rounds differently
  from one that writes token by token, and where two tokens are nearly equally likely (they were
  0.02 apart) the continuation takes the other one, though it was given the very same tokens. That,
  and not the trimming, was behind the one cut in 45 that differed. A server that still has the
  state of the first request (llama.cpp's ``cache_prompt``, its default) does not read it again and
  is not concerned; one that has forgotten it, or another one, is. So the server here reads prompts
  token by token (``batch_tokens=1``): then no cut differs, and the cache only saves time.
* A cut inside the very first word leaves nothing to go back to: it is not among these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from midthought import AsyncClient, BlockDelta, Client, Policy, Reply, load_policy
from midthought.testing import Cut, Cutter, LocalModel

pytestmark = pytest.mark.llm

CUTS = 24
#: Replies of 26 to 39 tokens: a list with line breaks; words of several tokens; plain prose.
PROMPTS = (
    "List three fruits.",
    "Where does the river Rhône flow? One sentence.",
    "In one short sentence, what is a queue?",
)
POLICIES = {
    "border": '[seam.prefill]\ndeterministic_trim = "trailing_whitespace"',
    "last_word": "",
    "word": '[seam.prefill]\ndeterministic_trim = "trailing_whitespace"\n'
    '[blocks.text]\nrelease = "word"',
}


@dataclass(frozen=True)
class Uncut:
    """A reply as the model gives it, and where its tokens end."""

    request: dict[str, Any]
    text: str
    borders: list[int]

    @property
    def inside(self) -> list[int]:
        """Every place inside a token, from the end of the first word on."""
        first_word = len(self.text.split()[0])
        return [at for at in range(first_word + 1, len(self.text)) if at not in self.borders]


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Policy]:
    """The shipped policy of this server without its waits, and as each test wants its seam."""
    folder = tmp_path_factory.mktemp("policies")
    return {name: _policy(folder / f"{name}.toml", more) for name, more in POLICIES.items()}


def _policy(file: Path, more: str) -> Policy:
    waits = "[backoff.continuation]\ninitial_s = 0.0"
    file.write_text(f'extends = ["llamacpp"]\nname = "{file.stem}"\n{waits}\n{more}\n')
    return load_policy(file)


@pytest.fixture(scope="module")
def uncut(model: LocalModel, policies: dict[str, Policy]) -> Callable[[str], Uncut]:
    """The uncut reply to a prompt, generated once."""
    known: dict[str, Uncut] = {}

    def get(prompt: str) -> Uncut:
        if prompt not in known:
            known[prompt] = _generate(prompt, model, policies["border"])
        return known[prompt]

    return get


def _generate(prompt: str, model: LocalModel, policy: Policy) -> Uncut:
    request = {
        "messages": [{"role": "user", "content": prompt}],
        "temperature": 0,
        "max_tokens": 96,
    }
    with Client(policy, base_url=model.url) as client, client.stream(client.prepare(request)) as s:
        pieces = list(_texts(s))
    assert "end" == s.turn.stop, "the prompt must have a reply that ends by itself"
    ends = [sum(map(len, pieces[: i + 1])) for i in range(len(pieces) - 1)]
    return Uncut(request, "".join(pieces), ends)


def _texts(events: Iterable[object]) -> Iterator[str]:
    return (event.text for event in events if isinstance(event, BlockDelta))


def _spread(places: Sequence[int]) -> list[int]:
    """``CUTS`` of the places, evenly, with the first and the last."""
    assert len(places) >= CUTS
    return [places[round(i * (len(places) - 1) / (CUTS - 1))] for i in range(CUTS)]


def _whole_words(text: str) -> str:
    return re.sub(r"\S*\Z", "", text).rstrip()


class Healing:
    """Turns through a proxy that cuts the first request of each; what went wrong is kept."""

    def __init__(self, model: LocalModel, uncut: Uncut, cuts: list[int], *, split: bool) -> None:
        plan = [cut for at in cuts for cut in (Cut(at), None)]
        self.cutter = Cutter(model.url, plan, split_tokens=split)
        self.cuts = cuts
        self.wrong: dict[int, str] = {}
        self._uncut = uncut

    def run(self, policy: Policy, sent: Callable[[str], str]) -> list[str]:
        """A turn per cut; returns how each seam was judged."""
        records: list[tuple[str, Any]] = []
        with (
            self.cutter as cutter,
            Client(policy, base_url=cutter.url, on_record=lambda *r: records.append(r)) as client,
        ):
            for at in self.cuts:
                with client.stream(client.prepare(self._uncut.request)) as stream:
                    told = "".join(_texts(stream))
                self._check(at, stream.turn, told, sent(self._uncut.text[:at]))
        return [fields["quality"] for name, fields in records if name == "llm_seam_joined"]

    def _check(self, at: int, turn: Reply, told: str, sent: str) -> None:
        """The caller saw the uncut reply, and one cut turn is two requests."""
        last = self.cutter.requests[-1]["messages"][-1]
        assert (2, {"role": "assistant", "content": sent}) == (len(turn.attempts), last)
        if not told == turn.text == self._uncut.text:
            self.wrong[at] = told


@pytest.mark.parametrize("prompt", PROMPTS)
def test_cuts_at_token_borders(
    prompt: str, model: LocalModel, policies: dict[str, Policy], uncut: Callable[[str], Uncut]
) -> None:
    """Cut between any two tokens, without its trailing space, a live reply goes on as if uncut."""
    whole = uncut(prompt)
    healing = Healing(model, whole, _spread(whole.borders), split=False)

    qualities = healing.run(policies["border"], str.rstrip)

    assert ({}, ["exact"] * CUTS) == (healing.wrong, qualities)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_cuts_inside_tokens_last_word(
    prompt: str, model: LocalModel, policies: dict[str, Policy], uncut: Callable[[str], Uncut]
) -> None:
    """Cut inside a token, a live reply goes on from before its last word and proves the join."""
    whole = uncut(prompt)
    cuts = _spread(whole.inside)
    healing = Healing(model, whole, cuts, split=True)

    qualities = healing.run(policies["last_word"], _whole_words)

    between_words = [whole.text[at - 1].isspace() for at in cuts]
    judged = ["exact" if between else "proved" for between in between_words]
    assert ({}, judged) == (healing.wrong, qualities)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_cuts_inside_tokens_word_release(
    prompt: str, model: LocalModel, policies: dict[str, Policy], uncut: Callable[[str], Uncut]
) -> None:
    """Cut inside a token, a reply shown word by word goes on from its last whole word."""
    whole = uncut(prompt)
    healing = Healing(model, whole, _spread(whole.inside), split=True)

    qualities = healing.run(policies["word"], _whole_words)

    assert ({}, ["exact"] * CUTS) == (healing.wrong, qualities)


def test_a_server_that_has_forgotten(
    model: LocalModel, policies: dict[str, Policy], uncut: Callable[[str], Uncut]
) -> None:
    """Without the state of the first request the model reads the partial anew, and goes on so."""
    whole = uncut(PROMPTS[0])
    forgetful = replace(whole, request={**whole.request, "cache_prompt": False})
    healing = Healing(model, forgetful, _spread(whole.inside)[3::8], split=True)

    healing.run(policies["last_word"], _whole_words)

    assert ({}, 3) == (healing.wrong, len(healing.cuts))


def test_the_cuts_are_of_every_kind(uncut: Callable[[str], Uncut]) -> None:
    """The borders tried above lie between words, inside words, and around line breaks."""
    around = {
        (whole.text[at - 1].isalpha(), whole.text[at].isalpha() or whole.text[at])
        for whole in map(uncut, PROMPTS)
        for at in _spread(whole.borders)
    }

    assert {(True, " "), (True, True), (True, "\n")} <= around


async def test_async_client(
    anyio_backend: str,
    model: LocalModel,
    policies: dict[str, Policy],
    uncut: Callable[[str], Uncut],
) -> None:
    """The async client heals the same cut to the same reply."""
    whole = uncut(PROMPTS[0])
    at = whole.inside[len(whole.inside) // 2]
    with Cutter(model.url, [Cut(at)], split_tokens=True) as cutter:
        async with AsyncClient(policies["last_word"], base_url=cutter.url) as client:
            turn = await client.result(client.prepare(whole.request))

    assert (2, whole.text) == (len(turn.attempts), turn.text)


def _tokens_written(model: LocalModel) -> int | None:
    """Of the generation that the server is busy with; None if it is idle."""
    slot = httpx.get(f"{model.url}/slots").json()[0]
    return slot["next_token"][0]["n_decoded"] if slot["is_processing"] else None


ENDLESS = {
    "messages": [{"role": "user", "content": "Count."}],
    "max_tokens": 1500,
    "ignore_eos": True,
}


def _assert_freed(model: LocalModel) -> None:
    """The server is idle long before the end of what it was asked for."""
    while (written := _tokens_written(model)) is not None:
        assert written < 500, "the server goes on although nobody listens"


def test_cancel_frees_the_server(model: LocalModel, policies: dict[str, Policy]) -> None:
    """A cancelled turn stops the generation, not only the stream."""
    with Client(policies["last_word"], base_url=model.url) as client:
        stream = client.stream(client.prepare(ENDLESS))
        for _ in _texts(stream):
            stream.cancel()
        _assert_freed(model)

        assert ("aborted", 1) == (stream.turn.outcome, len(stream.turn.attempts))


async def test_leaving_the_loop_frees_the_server(
    anyio_backend: str, model: LocalModel, policies: dict[str, Policy]
) -> None:
    """Leaving an async stream in the middle stops the generation too."""
    async with AsyncClient(policies["last_word"], base_url=model.url) as client:
        async with client.stream(client.prepare(ENDLESS)) as stream:
            async for event in stream:
                if isinstance(event, BlockDelta):
                    break
        _assert_freed(model)

    assert "aborted" == stream.turn.outcome
