"""The program that `_local_model.py` runs: a llama-server until its standard input is closed.

Imports nothing of ours; its one argument is the settings as JSON.
"""

import json
import sys
from typing import Any


def serve(settings: dict[str, Any]) -> None:
    """Start the server, print where it listens, and wait."""
    import xllamacpp  # type: ignore[import-untyped, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = settings["model"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = settings["context_tokens"]
    params.n_parallel = settings["parallel"]
    params.n_ubatch = settings["batch_tokens"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = 0  # else it keeps a copy of every prompt's state, up to 8 GiB
    params.warmup = params.ui = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    print(f"listening {server.listening_address}", flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
