"""The page about providers: current, complete, and with the facts that people look for."""

import re
import subprocess
import sys
from pathlib import Path

from midthought.policies import list_policies, load_policy

DOCS = Path(__file__).parents[2] / "docs"
MAKE = "import sys; sys.path.insert(0, sys.argv[1]); import _generate_providers as page; "
FACTS = (
    "complete when",
    "goes on by",
    "reasoning",
    "silence",
    "a wait is told in",
    "overflow",
    "limits that pass",
    "limits that do not",
    "safety stops",
    "sources",
)
#: Hand-picked lines: what a person would look up before trusting a policy.
SAID = {
    "anthropic": ["`message_delta` says a `stop_reason`", "`*claude-opus-4-5*`", "if it is signed"],
    "openai-responses": ["resume → instruct: every model"],
    "gemini": ["`finishReason`", "`error.details[].retryDelay`", "`RECITATION`"],
    "mistral": ["`prefix` in the message; the answer repeats the prefix", "`magistral-*`"],
    "deepseek": ["at `/beta`", "goes back in `reasoning_content`", "after 90 s"],
    "moonshot": ["`partial` in the message", "`exceeded_current_quota_error` (spend"],
    "cerebras": ["**reasoning** is left out"],
    "openrouter": ["`in_flight_budget_exhausted`", "goes back in `reasoning_details`"],
    "vllm": ["`continue_final_message = true`, `add_generation_prompt = false`", "no key"],
    "zai": ["code `1261`", "instruct: every model"],
}


def sections() -> dict[str, str]:
    """The page by its headings."""
    page = (DOCS / "providers.md").read_text("utf-8")
    found = re.split(r"^## (\S+)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_page_is_current() -> None:
    """It says what the policies say now; `make docs` writes it."""
    script = [sys.executable, "-c", MAKE + "print(page.providers_page(), end='')", str(DOCS)]
    done = subprocess.run(script, capture_output=True, encoding="utf-8", check=True)

    assert done.stdout == (DOCS / "providers.md").read_text("utf-8"), "run: make docs"


def test_every_provider_is_there() -> None:
    """Each policy of a provider has a section with every fact, and the table leads to it."""
    page, found = (DOCS / "providers.md").read_text("utf-8"), sections()
    names = {info.name for info in list_policies() if load_policy(info.name).provider}

    assert names == {*found} - {"chat-base"}
    for name in names:
        assert f"| [{name}](#{name}) |" in page
        missing = [
            fact for fact in FACTS if not re.search(rf"^- \*\*{fact}\*\* \S", found[name], re.M)
        ]
        assert [] == missing, name
        assert re.search(r"checked \d{4}-\d\d-\d\d$", found[name].strip()), name


def test_what_people_look_up() -> None:
    """The facts that decide how a reply goes on are said, each in its provider's section."""
    found = sections()
    for name, lines in SAID.items():
        assert [] == [line for line in lines if line not in found[name]], name
