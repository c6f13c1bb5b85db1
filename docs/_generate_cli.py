"""Write the help of each command into cli.md, or check that it is current.

    python docs/_generate_cli.py            write it
    python docs/_generate_cli.py --check    exit 1, with a diff, where it is out of date

Each help stands between two marks that name its command; the rest of the page is written by hand.
"""

import difflib
import re
import sys
from pathlib import Path

from midthought._cli import help_pages

PAGE = Path(__file__).parent / "cli.md"
END = "<!-- end of the generated part -->"
PART = re.compile(rf"(<!-- generated from `(.+?) --help`: make docs -->\n).*?({END})", re.DOTALL)


def render() -> str:
    """The whole page, with the help as the commands print it now."""
    pages = help_pages()
    old = PAGE.read_text("utf-8")
    missing = sorted(set(pages) - {found[2] for found in PART.finditer(old)})
    if missing:
        raise SystemExit(
            f"error: docs/cli.md has no marks for {', '.join(missing)}\n\n"
            f"hint: add a section with the two marks, as the other commands have them"
        )

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n```text\n{pages[found[2]].strip()}\n```\n\n{found[3]}"

    return PART.sub(part, old)


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit status."""
    if arguments not in ([], ["--check"]):
        print(f"error: unknown arguments {arguments!r}\n\nhint: --check, or none", file=sys.stderr)
        return 2
    old, new = PAGE.read_text("utf-8"), render()
    if not arguments:
        PAGE.write_text(new, "utf-8", newline="\n")
        return 0
    diff = list(
        difflib.unified_diff(old.splitlines(), new.splitlines(), "docs/cli.md", "now", lineterm="")
    )
    print("\n".join(diff) or "docs/cli.md: current")
    if diff:
        print("\nhint: make docs", file=sys.stderr)
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
