"""The commands of ``midthought``, behind the extra ``cli``: one module per command, thin.

Data goes to stdout and everything else to stderr; what a program may want to read has ``--json``.
"""

from ._app import help_pages, main

__all__ = ["help_pages", "main"]
