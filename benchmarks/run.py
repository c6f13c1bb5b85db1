"""``make bench``: measure, print the tables, and write ``benchmarks/results.md``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from client_costs import client_costs
from core_costs import core_costs, start_costs
from report import page

RESULTS = Path(__file__).with_name("results.md")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=25, help="rounds of each part (25)")
    parser.add_argument("--tokens", type=int, default=1000, help="text deltas in a reply (1000)")
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    tokens, rounds = options.tokens, max(2, options.rounds)

    print("the core", file=sys.stderr)
    core, start = core_costs(tokens, rounds), start_costs(rounds)
    print("clients", file=sys.stderr)
    clients = client_costs(tokens, rounds)

    text = page(core, start, clients, tokens=tokens, rounds=rounds)
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
