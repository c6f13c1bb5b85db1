"""The pages about the command line and the records say what the code does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from midthought import Client, Policy, journal, load_policy
from midthought._cli._demo_scenes import SCENES
from midthought._cli._demo_upstream import ScriptedModel
from midthought.client import Reply
from midthought.policies import Condition, FailureKind, Rule
from midthought.testing import Attempt, FaultyUpstream

DOCS = Path(__file__).parent.parent.parent / "docs"
REQUEST = {"model": "claude-sonnet-5", "max_tokens": 99}


def test_the_help_on_the_page_is_current() -> None:
    """docs/cli.md has the help of every command as the command prints it."""
    program = [sys.executable, str(DOCS / "_generate_cli.py"), "--check"]
    done = subprocess.run(program, capture_output=True, text=True)

    assert (0, "docs/cli.md: current\n", "") == (done.returncode, done.stdout, done.stderr)


def test_every_command_has_a_section() -> None:
    """docs/cli.md has a heading for each command."""
    page = (DOCS / "cli.md").read_text("utf-8")
    for name in ("demo", "run", "policies", "show", "schema"):
        assert f"\n## midthought {name}\n" in page


# --- docs/records.md --------------------------------------------------------------------------


def _page() -> dict[str, set[str]]:
    """Fields by record, as the page has them; those of every record under an empty name."""
    found: dict[str, set[str]] = defaultdict(set)
    name: str | None = None
    for line in (DOCS / "records.md").read_text("utf-8").splitlines():
        if line.startswith("#"):
            heading = re.fullmatch(r"### `(\w+)`", line)
            common = line == "## Common fields"
            name = heading[1] if heading else "" if common else None
        elif name is not None and line.startswith("| `"):
            found[name] |= set(re.findall(r"`(\w+)`", line.split("|")[1]))
    return dict(found)


def _policy() -> Policy:
    """As it ships, but that it hardly waits and may ask a hook before it gives up."""
    policy = load_policy("anthropic")
    quick = {
        name: spec.model_copy(update={"initial_s": 0.001}) for name, spec in policy.backoff.items()
    }
    ask = Rule(
        name="smaller", on=Condition(failure=(FailureKind.request_too_large,)), action="compact"
    )
    clocks = policy.clocks.model_copy(update={"liveness_s": 1.0})
    return policy.model_copy(
        update={"backoff": quick, "rules": (ask, *policy.rules), "clocks": clocks}
    )


def _event(name: str, **fields: Any) -> str:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n"


BEGIN = _event("message_start", message={"id": "m", "content": [], "usage": {"input_tokens": 1}})
THINKS = [
    BEGIN,
    _event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""}),
    _event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "Well"}),
]
WRITES = [
    BEGIN,
    _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
    _event("content_block_delta", index=0, delta={"type": "text_delta", "text": "A first half, "}),
]
CUT = {"fault": "fin"}
BUSY = Attempt(status=529, body='{"type":"error","error":{"type":"overloaded_error"}}')
LARGE = Attempt(status=413, body='{"type":"error","error":{"type":"request_too_large"}}')
REFUSED = Attempt(status=401, body='{"type":"error","error":{"type":"authentication_error"}}')


def _whole(client: Client, prompt: str) -> Reply:
    call = client.prepare({**REQUEST, "messages": [{"role": "user", "content": prompt}]})
    for _ in client.stream(call):
        pass
    return call.turn


def _cancelled(client: Client, prompt: str) -> Reply:
    call = client.prepare({**REQUEST, "messages": [{"role": "user", "content": prompt}]})
    stream = client.stream(call)
    for _ in stream:
        stream.cancel()
    return call.turn


Turn = Callable[[Client, str], Reply]
SCENARIOS: Sequence[tuple[Sequence[Attempt] | ScriptedModel, Sequence[str], Turn]] = (
    (ScriptedModel(SCENES, 0.0), [scene.prompt for scene in SCENES], _whole),
    ([Attempt([*THINKS, CUT]), REFUSED], ["hello"], _whole),
    ([BUSY, LARGE, REFUSED], ["hello"], _whole),
    ([Attempt([*WRITES, CUT]), Attempt([*WRITES, CUT]), REFUSED], ["hello"], _whole),
    ([Attempt([*WRITES, {"fault": "stall"}])], ["hello"], _cancelled),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Records of turns that between them meet everything."""
    file = tmp_path_factory.mktemp("records") / "run.jsonl"
    with journal.write_to(file):
        for attempts, prompts, turn in SCENARIOS:
            hooks = {"compact": lambda kind, request: None}
            with (
                FaultyUpstream(attempts) as upstream,
                Client(_policy(), api_key="k", base_url=upstream.url, hooks=hooks) as client,
            ):
                for prompt in prompts:
                    turn(client, prompt)
    return list(journal.read(file))


def test_the_page_names_every_record(written: list[dict[str, Any]]) -> None:
    """docs/records.md has a section for each record that is written, and for no other."""
    assert {record["event"] for record in written} == set(_page()) - {""}


def test_the_page_names_every_field(written: list[dict[str, Any]]) -> None:
    """The fields of each record are those of its section and the common ones, no more, no less."""
    page = _page()
    seen: dict[str, set[str]] = defaultdict(set)
    for record in written:
        seen[record["event"]] |= set(record)

    assert {name: fields | page[""] for name, fields in page.items() if name} == dict(seen)


def test_reserved_names_are_not_written(written: list[dict[str, Any]]) -> None:
    """Names that the page calls reserved are in no record."""
    reserved = (DOCS / "records.md").read_text("utf-8").partition("## Reserved")[2]
    names = set(re.findall(r"`(llm_\w+)`", reserved))

    assert 3 == len(names)
    assert set() == names & {record["event"] for record in written}
