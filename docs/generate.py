"""Write the generated pages of the docs, or check them and every link between pages.

    python docs/generate.py            write the pages
    python docs/generate.py --check    exit 1, with a diff, where a page or a link is out of date

A page is generated when the code knows its contents better than a person does: `PAGES` says which.
"""

import difflib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from _generate_cli import render as cli_page
from _generate_diagrams import diagrams
from _generate_policies import render as policies_page
from _generate_providers import providers_page
from _generate_states import states_page

DOCS = Path(__file__).parent
ROOT = DOCS.parent

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    **diagrams(),
    "policies.md": policies_page,
    "providers.md": providers_page,
    "states.md": states_page,
}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """Return the names under which a page's headings can be linked to."""
    plain = (heading.lower().strip() for heading in HEADING.findall(FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(page: Path) -> Iterator[str]:
    """Yield each link of a page to a file or heading that does not exist; no network is asked."""
    text = page.read_text("utf-8")
    for link in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: no file behind ({link})"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8")):
            yield f"{page.relative_to(ROOT)}: no heading behind ({link})"


def unlisted_pages() -> Iterator[str]:
    """Yield each page that docs/README.md does not lead to."""
    listed = set(LINK.findall((DOCS / "README.md").read_text("utf-8")))
    for page in sorted(DOCS.glob("*.md")):
        if page.name not in listed | {"README.md"}:
            yield f"docs/README.md: does not list {page.name}"


def stale_pages() -> Iterator[str]:
    """Yield the difference between each generated page and what the code says now."""
    for name, render in PAGES.items():
        path = DOCS / name
        old = path.read_text("utf-8") if path.exists() else ""
        diff = difflib.unified_diff(
            old.splitlines(), render().splitlines(), f"docs/{name}", "now", lineterm=""
        )
        yield from diff


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit status."""
    if arguments not in ([], ["--check"]):
        print(f"error: unknown arguments {arguments!r}\n\nhint: --check, or none", file=sys.stderr)
        return 2
    if not arguments:
        for name, render in PAGES.items():
            (DOCS / name).parent.mkdir(exist_ok=True)
            (DOCS / name).write_text(render(), "utf-8", newline="\n")
        return 0
    pages = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
    stale = list(stale_pages())
    faults = [*stale, *unlisted_pages(), *(fault for page in pages for fault in broken_links(page))]
    print("\n".join(faults) or f"docs: {len(pages)} pages, {len(PAGES)} generated, all current")
    if stale:
        print("\nhint: make docs", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
