"""docs/check.md shows what the check says now."""

import re
from pathlib import Path

import pytest
from policy_mutations import HARMLESS

from midthought.review import as_text, prove

PAGE = (Path(__file__).parent.parent.parent / "docs" / "check.md").read_text("utf-8")


def test_the_report_on_the_page_is_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy on the page, checked, gives the report on the page."""
    monkeypatch.chdir(tmp_path)
    (policy,) = re.findall(r"```toml mine\.toml\n(.*?)```", PAGE, re.DOTALL)
    (report,) = re.findall(r"```text\n\$ midthought check mine\.toml\n(.*?)```", PAGE, re.DOTALL)
    Path("mine.toml").write_text(policy, "utf-8")

    assert re.sub(r"(base\.toml):\d+", r"\1:N", report) == re.sub(
        r"(base\.toml):\d+", r"\1:N", as_text(prove("mine.toml"))
    )


def test_the_page_lists_every_mistake_that_passes() -> None:
    """Whoever reads the page sees which mistakes the check lets pass, and why."""
    rows = dict(
        re.findall(r"^\| (.*?) \| (.*) \|$", PAGE.split("## Mistakes that pass")[1], re.MULTILINE)
    )

    assert HARMLESS == {key: why for key, why in rows.items() if key not in ("mistake", "---")}
