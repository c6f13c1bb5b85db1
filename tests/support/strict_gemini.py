"""What the real Gemini API refuses, as far as it is known: a judge of request bodies.

Each refusal is one that the API's documentation or a public issue names; those are listed in
``policies/gemini.toml``. Imports nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["faults"]

Json = Mapping[str, Any]

#: Content that a part may hold; exactly one of them.
CONTENT = {
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
}
BESIDE = {"thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution"}
#: Keys of a request body; one that is not known is a 400 ("Unknown name … Cannot find field").
BODY = {
    "contents",
    "tools",
    "toolConfig",
    "safetySettings",
    "systemInstruction",
    "generationConfig",
    "cachedContent",
    "continuationToken",
}
#: Models that go on from a trailing model turn; a second list, kept by hand.
PREFILL = ("gemini-2.*", "gemini-3-*", "gemini-3.1-*", "gemini-pro-latest", "gemini-3.5-flash")


def faults(body: Json, *, model: str = "gemini-2.5-flash", first: Json | None = None) -> list[str]:
    """Why the API would refuse this body for this model; ``first`` is the body of request 0."""
    return list(_faults(body, model, first))


def _faults(body: Json, model: str, first: Json | None) -> Iterator[str]:
    if extra := set(body) - BODY:
        yield f"unknown names {sorted(extra)}: cannot find field"
    contents = body.get("contents")
    if not isinstance(contents, Sequence) or not contents:
        yield "contents is not specified"
        return
    for number, content in enumerate(contents):
        yield from _content(content, f"contents[{number}]")
    if contents[0].get("role", "user") != "user":
        yield "the first turn must be the user's"
    yield from _turns(contents)
    yield from _calls(contents, model)
    if contents[-1].get("role") == "model" and not _takes_prefill(body, model):
        yield "requests ending with a model turn are not supported"
    if first is not None and "continuationToken" in body:
        bare = {key: value for key, value in body.items() if key != "continuationToken"}
        if bare != first:
            yield "a continuation token goes with the same request only"
    cap = body.get("generationConfig", {}).get("maxOutputTokens")
    if cap is not None and cap < 1:
        yield "max_output_tokens must be positive"


def _takes_prefill(body: Json, model: str) -> bool:
    named = model.removeprefix("models/")
    takes = any(fnmatchcase(named, pattern) for pattern in PREFILL)
    config = body.get("generationConfig", {})
    return takes and config.get("responseMimeType") != "application/json"


def _content(content: Json, where: str) -> Iterator[str]:
    if content.get("role", "user") not in ("user", "model"):
        yield f"{where}: please use a valid role: user, model"
    parts = content.get("parts")
    if not parts:
        yield f"{where}.parts must not be empty"
        return
    for number, part in enumerate(parts):
        held = CONTENT & set(part)
        if extra := set(part) - CONTENT - BESIDE:
            yield f"{where}.parts[{number}]: unknown names {sorted(extra)}"
        if len(held) > 1:
            yield f"{where}.parts[{number}]: oneof field 'data' is already set"
        signed = bool(part.get("thoughtSignature"))
        if not held and not signed:
            yield f"{where}.parts[{number}]: required oneof field 'data' must have one initialized"
        if "text" in held and not part["text"].strip() and not signed:
            yield f"{where}.parts[{number}]: must have a text parameter"
        if part.get("thought") and not signed:
            yield f"{where}.parts[{number}]: a thought without its signature"


def _turns(contents: Sequence[Json]) -> Iterator[str]:
    roles = [content.get("role", "user") for content in contents]
    for number in range(1, len(roles)):
        if roles[number] == roles[number - 1] == "model":
            yield f"contents[{number}]: two model turns in a row"


def _named(content: Json, key: str) -> list[str]:
    return [part[key]["name"] for part in content.get("parts", ()) if key in part]


def _calls(contents: Sequence[Json], model: str) -> Iterator[str]:
    """Every call is answered in the next turn, and in Gemini 3 the first of a turn is signed."""
    for number, content in enumerate(contents):
        called = _named(content, "functionCall")
        after = contents[number + 1] if number + 1 < len(contents) else {}
        answered = _named(after, "functionResponse")
        if called and sorted(called) != sorted(answered):
            yield (
                f"contents[{number}]: the number of function response parts must equal that of "
                "the function call parts of the function call turn"
            )
        if _named(content, "functionResponse") and (
            not number or not _named(contents[number - 1], "functionCall")
        ):
            yield f"contents[{number}]: a function response without its function call"
        made = [part for part in content.get("parts", ()) if "functionCall" in part]
        if made and "gemini-3" in model and not made[0].get("thoughtSignature"):
            yield "function call is missing a thought_signature in functionCall parts"
