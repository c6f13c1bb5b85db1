"""Google's APIs name the model in the URL: out of the body, into the path. Imports no IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from ._request import model_of

__all__ = ["path_of", "without_model"]

#: What some callers write before the name; the path has it already.
_PREFIX: Final = "models/"


def path_of(request: Mapping[str, Any], template: str) -> str:
    """The path with the request's model for ``{model}``; ``ValueError`` if it names none."""
    model = model_of(request).removeprefix(_PREFIX)
    if not model:
        raise ValueError(
            "the request names no model, which is part of the URL: "
            'add "model" to it, as in {"model": "gemini-3.7-flash", …}'
        )
    return template.replace("{model}", quote(model, safe="/@:"))


def without_model(body: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the body without the model."""
    return {key: value for key, value in body.items() if key != "model"}
