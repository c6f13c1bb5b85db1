"""The pages about policies are true: their files load, their reference and error are the code's."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from midthought.policies import Policy, PolicyError, load_policy

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```toml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project with no configuration of a user's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MIDTHOUGHT_POLICY_PATH", raising=False)
    return tmp_path


def files_of(page: str, project: Path) -> dict[str, Policy]:
    """The policies of a page's file examples, written as the page names them."""
    examples = FENCE.findall((DOCS / page).read_text("utf-8"))
    for name, text in examples:
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    return {Path(name).stem: load_policy(project / name) for name, _ in examples}


def test_reference_is_current() -> None:
    """The key reference is what the schema says now; `make docs` writes it."""
    script = [sys.executable, str(DOCS / "_generate_policies.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True)

    assert (0, "") == (done.returncode, done.stderr), done.stdout


def test_examples_about_merging(project: Path) -> None:
    """Each file on the page of policies loads, and does what the page says of it."""
    policies = files_of("policies.md", project)
    names = [rule.name for rule in policies["ours"].rules]

    assert {"mine", "ours", "patient", "by-model"} == set(policies)
    assert {rule.name: rule for rule in policies["mine"].rules}["cut"].limit == 8
    assert "garbled_call" == names[-1]
    assert "told" not in names
    assert "all workers are busy" == policies["ours"].classify[0].message
    assert "queued" == policies["patient"].machine.states[-1].name
    one = policies["by-model"].for_model("old-7b")
    assert ("prefill", "instruct") == one.continuation.strategies


def test_error_on_the_page_is_the_real_one(project: Path) -> None:
    """The error that the page shows is the one that such a file is refused with."""
    text = (DOCS / "policies.md").read_text("utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    path = project / "mine.toml"
    path.write_text(
        'extends = ["base"]\nlimits.attemps = 3\nblocks.tool_use.open = "keep"\n'
        'rules.change.cut.backoff = "contination"\n',
        "utf-8",
    )
    with pytest.raises(PolicyError) as refused:
        load_policy("./mine.toml")

    assert shown == str(refused.value)


def test_a_provider_is_one_file(project: Path) -> None:
    """Every file of the walk-through loads by name, and changes what its step says."""
    policies = files_of("add-a-provider.md", project)
    nimbus = load_policy("nimbus")

    assert ("nimbus", "https://api.nimbus.example/v1") == (nimbus.provider, nimbus.base_url)
    assert ("openai_chat", "NIMBUS_API_KEY") == (nimbus.dialect, nimbus.auth.key_env)
    prefill = policies["nimbus-prefill"]
    assert ("instruct",) == prefill.for_model("nimbus-think-2").continuation.strategies
    assert "prefill" == prefill.for_model("nimbus-large").continuation.strategies[0]
    assert "length" == policies["nimbus-words"].stream.stops["out_of_tokens"]
    assert "end" == policies["nimbus-words"].stream.stops["stop"]
    assert "prefill_rejected" == policies["nimbus-errors"].classify[2].kind
