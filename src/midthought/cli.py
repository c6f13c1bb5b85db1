"""The entry of the command ``midthought``: it starts the command line, or says what it needs.

The commands are in ``_cli``, which needs the extra ``cli``; nothing here may import typer or rich.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

_EXTRA = frozenset({"rich", "typer"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 0 done, 1 failed, 2 wrong input, 130 cancelled."""
    try:
        from midthought import _cli
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        print(
            f"error: the command line needs {missing!r}, which is not installed\n\n"
            "hint: pip install 'midthought[cli]'",
            file=sys.stderr,
        )
        return 2
    return _cli.main(sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
