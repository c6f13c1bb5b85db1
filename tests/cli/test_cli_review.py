"""`diagram`, `diff`, `explain`, `replay`, `simulate` as a user runs them: good input and bad."""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import venv
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from run_files import recorded

from midthought.policies import load_policy, policy_digest

Command = Any
TURN = "anthropic: cut in text"


@pytest.fixture
def run(tmp_path: Path) -> str:
    """A run file of one healed turn."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(recorded(TURN).data)
    return str(path)


@pytest.fixture
def runs(tmp_path: Path) -> str:
    """A run file of two turns."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(recorded(TURN).data + recorded("anthropic: not allowed").data)
    return str(path)


def turn_ids(path: str) -> list[str]:
    """Ids of the turns in a run file."""
    lines = Path(path).read_text("utf-8").splitlines()
    return list(dict.fromkeys(json.loads(line)["turn_id"] for line in lines))


def refused(done: Any, said: str) -> None:
    """Exit 2, nothing on stdout, the fault and a hint on stderr, no traceback."""
    assert (2, "") == (done.code, done.out), done
    assert done.err.startswith("error: ")
    assert "\n\nhint: " in done.err
    assert said in done.err
    assert "Traceback" not in done.err


# --- diagram ------------------------------------------------------------------------------------


def test_diagram_in_each_text_form(command: Command) -> None:
    """Text, Mermaid and Graphviz source each name every state of the policy."""
    states = [state.name for state in load_policy("anthropic").machine.states]
    for form in ("text", "mermaid", "dot"):
        done = command("diagram", "anthropic", "-f", form)
        assert (0, "") == (done.code, done.err)
        assert [] == [state for state in states if state not in done.out]


def test_diagram_as_pictures(command: Command) -> None:
    """SVG is what is checked in; PNG begins as PNG does."""
    done = command("diagram", "base", "-f", "svg")
    process = command.start("diagram", "base", "-f", "png")
    picture, err = process.communicate()

    assert (0, "") == (done.code, done.err)
    golden = Path(__file__).parents[2] / "docs" / "diagrams" / "base.svg"
    assert golden.read_text("utf-8") == done.out
    assert (0, b"") == (process.returncode, err)
    assert picture.startswith(b"\x89PNG\r\n")


def test_diagram_of_the_ladder(command: Command) -> None:
    """The ladder comes as text and as a picture; Mermaid has no such form and that is said."""
    assert "1. refuse: stop" in command("diagram", "anthropic", "--of", "ladder").out
    picture = command("diagram", "anthropic", "--of", "ladder", "-f", "svg").out
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    refused(
        command("diagram", "anthropic", "--of", "ladder", "-f", "mermaid"),
        "a ladder has no Mermaid form",
    )


def test_diagram_paints_a_run(command: Command, run: str) -> None:
    """`--run` marks the rows that the turn took, and no other."""
    done = command("diagram", "anthropic", "--run", run)
    taken = [line.strip() for line in done.out.splitlines() if "●" in line]

    assert 0 == done.code
    assert any(line.startswith("● failed") for line in taken)
    assert not any("exhausted" in line for line in taken)
    assert "taken: waited" in command("diagram", "anthropic", "-f", "mermaid", "--run", run).out


def test_diagram_wants_a_known_form(command: Command) -> None:
    """A form or a kind of picture that is not there: the known ones are named."""
    refused(command("diagram", "anthropic", "-f", "gif"), "text, mermaid, dot, svg, png")
    refused(command("diagram", "anthropic", "--of", "cloud"), "machine, ladder")


def test_diagram_without_graphviz(command: Command, tmp_path: Path) -> None:
    """Without graphviz-pure the fault says what to install; text needs nothing."""
    environment = tmp_path / "bare"
    venv.create(environment, with_pip=False)
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    code = (
        "import sys, site; "
        f"[site.addsitedir(p) for p in {[sysconfig.get_path('purelib')]!r}]; "
        "from midthought._cli._app import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    env = {**command.environment, "PATH": str(tmp_path)}

    def run(*arguments: str) -> Any:
        return subprocess.run([python, "-c", code, *arguments], env=env, capture_output=True)

    drawn, told = run("diagram", "base", "-f", "svg"), run("diagram", "base")
    assert (2, b"") == (drawn.returncode, drawn.stdout)
    assert b"pip install 'midthought[diagram]'" in drawn.stderr
    assert 0 == told.returncode


# --- diff ---------------------------------------------------------------------------------------


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A policy that differs in one limit and one row."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = ["anthropic"]\n[limits]\nattempts = 3\n', "utf-8")
    return str(path)


def test_diff(command: Command, mine: str) -> None:
    """What changed, and what it does to the worst case."""
    done = command("diff", "anthropic", mine)

    assert (0, "") == (done.code, done.err)
    assert "  ~ limits.attempts: 20 → 3\n" in done.out
    assert "  requests: 20 → 3\n" in done.out


def test_diff_exit_codes(command: Command, mine: str) -> None:
    """`--exit-code` is 1 where something changed and 0 where nothing did."""
    assert 1 == command("diff", "anthropic", mine, "--exit-code").code
    same = command("diff", "anthropic", "anthropic", "--exit-code")
    assert (0, "anthropic and anthropic mean the same\n") == (same.code, same.out)


def test_diff_as_a_row(command: Command, mine: str) -> None:
    """`--json` is one object with every change."""
    (row,) = command("diff", "anthropic", mine, "--json").rows

    assert [{"path": "limits.attempts", "before": 20, "after": 3}] == row["settings"]
    assert (20, 3) == (row["before"]["requests"], row["after"]["requests"])


def test_diff_as_a_picture(command: Command, mine: str) -> None:
    """Pictures are drawn of the later policy."""
    assert command("diff", "anthropic", mine, "-f", "svg").out.endswith("</svg>\n")
    assert "stateDiagram-v2" in command("diff", "anthropic", mine, "-f", "mermaid").out
    refused(command("diff", "anthropic", mine, "-f", "png"), "text, mermaid, svg")


# --- explain and replay -------------------------------------------------------------------------


def test_explain(command: Command, run: str) -> None:
    """The story, with a word where the policy of the turn is not to be found."""
    done = command("explain", run)

    assert 0 == done.code
    assert "interrupted  attempt 0: sse_transport" in done.out
    assert "warning: policy 'laid-over' is not found" in done.err


def test_explain_one_turn(command: Command, runs: str) -> None:
    """`--turn` takes the beginning of an id; without one all turns are told."""
    first, second = turn_ids(runs)
    assert 2 == command("explain", runs).out.count("\npolicy ")
    done = command("explain", runs, "--turn", second[:6])
    assert f"turn {second}" in done.out
    assert first not in done.out
    refused(command("explain", runs, "--turn", "zzz"), f"runs.jsonl holds 2 turns ({first[:12]}")


def test_explain_as_a_page(command: Command, run: str, tmp_path: Path) -> None:
    """`--html` writes the page; a place that is not there is said."""
    page = tmp_path / "page.html"
    done = command("explain", run, "--html", str(page))

    assert (0, "") == (done.code, done.out)
    assert page.read_text("utf-8").startswith("<!doctype html>")
    refused(command("explain", run, "--html", str(tmp_path)), "cannot be written: it is a folder")


def test_explain_draws_the_shipped_policy(command: Command, tmp_path: Path, run: str) -> None:
    """A turn of a policy that is there has its painted picture in the page."""
    text = Path(run).read_text("utf-8")
    policy = load_policy("anthropic").for_model("claude-opus-4-8")
    digest = json.loads(text.splitlines()[0])["policy_digest"]
    text = text.replace("laid-over", "anthropic").replace(digest, policy_digest(policy)[:12])
    Path(run).write_text(text, "utf-8")
    page = tmp_path / "page.html"
    done = command("explain", run, "--html", str(page))

    assert (0, "") == (done.code, done.err)
    assert "<svg" in page.read_text("utf-8")


def test_a_torn_run_file(command: Command, run: str) -> None:
    """What is whole is told, and that the rest is torn."""
    data = Path(run).read_bytes()
    Path(run).write_bytes(data[:-20])
    done = command("explain", run)

    assert 0 == done.code
    assert "warning: the last line of run.jsonl is torn: used up to there" in done.err
    assert "the record ends here" in done.out
    again = command("replay", run, "--policy", "anthropic")
    assert "warning: the last line of run.jsonl is torn" in again.err
    assert 0 == again.code


@pytest.mark.parametrize(
    ("arguments", "data", "said"),
    [
        (["explain"], b"", "holds no whole record"),
        (["explain"], b"\x00\x01\xff\n\xfe", "bad.jsonl:1 is no record"),
        (["explain"], b"name = 'a policy'\n", "bad.jsonl:1 is no record"),
        (["explain"], None, "is a folder"),
        (["replay", "--policy", "anthropic"], None, "is a folder"),
        (["diagram", "anthropic", "--run"], b"", "holds no whole record"),
    ],
)
def test_what_is_no_run_file(
    command: Command, tmp_path: Path, arguments: list[str], data: bytes | None, said: str
) -> None:
    """Every command that reads run files refuses what is none, in the same words."""
    refused(command(*arguments, _bad(tmp_path / "bad.jsonl", data)), said)


def _bad(path: Path, data: bytes | None) -> str:
    """A file that holds ``data``, or a folder."""
    if data is None:
        path.mkdir()
    else:
        path.write_bytes(data)
    return str(path)


def test_replay(command: Command, run: str) -> None:
    """Both sides are shown, and whether they are the same."""
    done = command("replay", run, "--policy", "strict+anthropic")
    (row,) = command("replay", run, "--policy", "anthropic", "--json").rows

    assert 0 == done.code
    assert "attempt 0: sse_transport → cut (continue)" in done.out
    assert {"turn_id", "same", "recorded", "replayed"} <= row.keys()
    assert "cut" == row["recorded"][0]["rule"] == row["replayed"][0]["rule"]


# --- simulate -----------------------------------------------------------------------------------


def test_simulate(command: Command) -> None:
    """A table of the policy and two rivals; the same seed gives the same bytes."""
    done = command("simulate", "anthropic", "--turns", "40", "--seed", "3")

    assert (0, "") == (done.code, done.err)
    assert ["policy", "restart", "give"] == [line.split()[0] for line in done.out.splitlines()[2:]]
    assert done == command("simulate", "anthropic", "--turns", "40", "--seed", "3")


def test_simulate_as_rows(command: Command) -> None:
    """`--json` gives a row per player."""
    rows = command("simulate", "anthropic", "--faults", "calm-day", "--turns", "20", "--json").rows

    assert ["policy", "restart", "give up"] == [row["player"] for row in rows]
    assert {"calm day"} == {row["faults"] for row in rows}


def test_simulate_sweeps_and_plots(command: Command, tmp_path: Path) -> None:
    """Every combination of two ranges, and a picture of them."""
    done = command(
        "simulate", "anthropic", "--turns", "20", "--json", "--plot", "out.svg",
        "--sweep", "limits.attempts=1..3", "--sweep", "backoff.continuation.initial_s=0.5,2",
    )  # fmt: skip
    settings = {(r["limits.attempts"], r["backoff.continuation.initial_s"]) for r in done.rows}

    assert (0, "") == (done.code, done.err)
    assert {(a, s) for a in (1, 2, 3) for s in (0.5, 2)} == settings
    picture = ElementTree.parse(tmp_path / "out.svg").getroot()
    assert 4 == sum(e.tag.endswith("polyline") for e in picture.iter())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--turns", "0"], "--turns is 0"),
        (["--faults", "stormy"], "known: calm-day, rough-day"),
        (["--faults", "none.toml"], "none.toml: cannot be read"),
        (["--sweep", "limits.attempts"], "--sweep 'limits.attempts' cannot be read"),
        (["--sweep", "limits.attempts=a..b"], "cannot be read"),
        (["--sweep", "limits.attempts=5..2"], "is empty"),
        (["--sweep", "limits.attempts=1..100000000"], "values"),
        (["--sweep", "limits.tries=1..3"], "the policy has no 'limits.tries'"),
        (["--sweep", "limits.attempts=0..1"], "limits.attempts = 0"),
        (["--sweep", "a=1", "--sweep", "b=1", "--sweep", "c=1"], "3 sweeps"),
        (["--plot", "out.svg"], "--plot shows a sweep"),
        (["--plot", "no/out.svg", "--sweep", "limits.attempts=1..2"], "cannot be written"),
    ],
)
def test_simulate_refuses(command: Command, arguments: list[str], said: str) -> None:
    """Every option that cannot be carried out, before a turn is played."""
    refused(command("simulate", "anthropic", "--turns", "5", *arguments), said)


# --- policies that are none ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "data", "said"),
    [
        (["diagram"], b"[machine\n", "TOML"),
        (["diagram"], b"\x00\xff\xfe\x00", "UTF-8"),
        (["diagram"], b'schema_version = 99\nextends = ["anthropic"]\n', "schema_version"),
        (["diagram"], None, "bad.toml"),
        (["diff", "anthropic"], b"[machine\n", "TOML"),
        (["simulate", "--turns", "1"], None, "bad.toml"),
    ],
)
def test_what_is_no_policy(
    command: Command, tmp_path: Path, arguments: list[str], data: bytes | None, said: str
) -> None:
    """Each command says what is wrong with the file; none shows a traceback."""
    refused(command(*arguments, _bad(tmp_path / "bad.toml", data)), said)


def test_replay_wants_a_policy(command: Command, run: str, tmp_path: Path) -> None:
    """The policy of a replay is refused in the same words."""
    bad = _bad(tmp_path / "bad.toml", b"[machine\n")
    refused(command("replay", run, "--policy", bad), "TOML")
