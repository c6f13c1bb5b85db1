"""Write the key reference in policies.md from the schema, or check that it is current.

    python docs/_generate_policies.py            write it
    python docs/_generate_policies.py --check    exit 1, with a diff, where it is out of date

The reference stands between two marks; the rest of the page is written by hand.
"""

import difflib
import functools
import json
import sys
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from midthought import policies
from midthought.policies._shape import (
    Shape,
    choices,
    describe,
    is_array,
    is_table,
    key_shapes,
    shape_at,
)

PAGE = Path(__file__).parent / "policies.md"
BEGIN = "<!-- generated from the schema: make docs -->"
END = "<!-- end of the generated part -->"

KINDS = tuple(kind.value for kind in policies.FailureKind)
STOPS = tuple(stop.value for stop in policies.Stop)
NAMED = {KINDS: "failure kind", STOPS: "stop"}


def render() -> str:
    """The whole page, with the reference as the code has it now."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + "\n\n" + "\n".join([*words(), *reference()]) + "\n" + END + after


def words() -> Iterator[str]:
    """The words that a policy may use."""
    yield "### Words\n"
    yield "| where | words |\n|---|---|"
    for where, known in (
        ("failure kind", KINDS),
        ("stop", STOPS),
        ("trigger of the machine", policies.TRIGGERS),
        ("guard of the machine", policies.GUARDS),
        ("strategy", policies.STRATEGIES),
        ("feature of a request", policies.FEATURES),
        ("row of `wire.mend`", policies.MENDS),
        ("edit of a request", policies.EDITS),
        ("dialect", policies.DIALECTS),
    ):
        yield f"| {where} | {', '.join(f'`{word}`' for word in known)} |"
    yield "\n| action | the next request | edits on it |\n|---|---|---|"
    for name, action in policies.ACTIONS.items():
        edits = ", ".join(f"`{edit}`" for edit in action.edits)
        yield f"| `{name}` | {HOWS[action.how]} | {edits or '–'} |"
    yield ""


HOWS = {
    "retry": "this attempt's request once more, where nothing of it was shown",
    "continue": "what is kept of the reply, and then its rest",
    "again": "`continue` where something is kept, else `retry`",
    "resume": "the provider's own resume of the same reply",
    "replay": "the first request once more, followed silently while it says what was shown",
    "park": "none until the provider's reset, if the caller agreed to wait",
    "finish": "none: the partial is the turn",
    "stop": "none: the turn ends with the failure",
}


def reference() -> Iterator[str]:
    """One table of keys for each table of a file."""
    root = policies.Policy
    yield "### Keys of the file\n"
    yield from rows(root, "", only_values=True)
    for key, shape in key_shapes(Shape(root)).items():
        yield from tables(key, shape)


def tables(path: str, shape: Shape) -> Iterator[str]:
    """The tables at a path and below it."""
    title = f"[{path}]"
    if is_array(shape):
        shape, title = shape_at(shape, 0) or shape, f"[[{path}]]"
    elif is_table(shape) and not key_shapes(shape):
        shape, path = shape_at(shape, "NAME") or shape, f"{path}.NAME"
        title = f"[{path}]"
    keys = key_shapes(shape)
    if not keys:
        return
    model: type[BaseModel] = shape.type
    yield f"### {title}\n"
    yield (model.__doc__ or "").replace("``", "`").strip() + "\n"
    yield from rows(model, path)
    for key, inner in keys.items():
        if key_shapes(inner) or is_array(inner):
            yield from tables(f"{path}.{key}", inner)


def rows(model: type[BaseModel], path: str, only_values: bool = False) -> Iterator[str]:
    """A table of the keys of one table; at the root without those that are tables themselves."""
    yield "| key | holds | default | example | meaning |\n|---|---|---|---|---|"
    for key, field in model.model_fields.items():
        shape = key_shapes(Shape(model))[key]
        is_below = key_shapes(shape) or (
            (is_array(shape) or is_table(shape))
            and key_shapes(shape_at(shape, 0) or shape_at(shape, "x") or shape)
        )
        if only_values and is_below:
            continue
        meaning = " ".join((field.description or "").replace("``", "`").split())
        holds = "table" if is_below and not is_array(shape) else kind_of(shape)
        shown = "below" if is_below else example(path, key, field)
        cells = (f"`{key}`", holds, default(field), shown, meaning)
        yield f"| {' | '.join(map(cell, cells))} |"
    yield ""


def kind_of(shape: Shape) -> str:
    """What a key holds, long lists of words by their name."""
    if (named := NAMED.get(choices(shape))) is not None:
        return f"array of {named}s" if is_array(shape) else named
    inner = [kind for kind in get_args(shape.type) if NAMED.get(choices(Shape(kind)))]
    if is_table(shape) and inner:
        return f"table of {NAMED[choices(Shape(inner[0]))]}s"
    return describe(shape).removeprefix("a ").removeprefix("an ")


def default(field: FieldInfo) -> str:
    """The default as TOML writes it."""
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if value is None:
        return "–"
    if isinstance(value, BaseModel):
        return "below"
    if isinstance(value, dict | tuple) and not value:
        return "`{}`" if isinstance(value, dict) else "`[]`"
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text}`"


#: Words that stand between a list of tables and its rows where a file edits what it inherits.
EDITS = ("prepend", "append", "change")
LONGEST_EXAMPLE = 90


@functools.cache
def used() -> dict[tuple[str, str], Any]:
    """(table, key) -> a value that a shipped policy gives it: the first short one."""
    found: dict[tuple[str, str], Any] = {}
    folder = resources.files("midthought.policies")
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            _collect(tomllib.loads(file.read_text("utf-8")), "", found)
    return found


def _collect(table: dict[str, Any], path: str, found: dict[tuple[str, str], Any]) -> None:
    for key, value in table.items():
        below = f"{path}.{key}" if path else key
        if path in ("budgets", "backoff"):
            below = f"{path}.NAME"
        rows = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
        tables = [row for row in rows if isinstance(row, dict)]
        if key in EDITS:
            inner = [v for row in tables for v in row.values()] if key == "change" else tables
            tables, below = [row for row in inner if isinstance(row, dict)], path
        for row in tables:
            _collect(row, below, found)
        edited = isinstance(value, dict) and {*EDITS, "remove"} & value.keys()
        said = value not in ("", [], {}) and len(_toml(value)) <= LONGEST_EXAMPLE
        if key not in (*EDITS, "remove") and said and not edited:
            found.setdefault((path, key), value)


def _toml(value: Any) -> str:
    return tomli_w.dumps({"x": value}, multiline_strings=False).removeprefix("x = ").strip()


#: For keys that no shipped policy sets and whose default is no example.
BY_HAND: dict[tuple[str, str], str] = {
    ("", "enabled"): "false",
    ("", "fallback"): '["env:FALLBACK_MODEL_ID"]',
    ("", "headers"): '{ "x-team" = "search" }',
    ("clocks", "deadline_s"): "900.0",
    ("continuation.instruct", "bridge"): '"Go on."',
    ("continuation.resume", "prepare"): "{ request = { background = true } }",
    ("limits", "extra_input_tokens"): "200000",
    ("machine.states", "outcome"): '"completed"',
    ("machine.transitions", "replace"): "true",
    ("", "exhaust"): '["context_overflow", "runaway"]',
    ("rules", "hint"): '"ask for less at once"',
    ("rules", "edits"): '["strip_thinking"]',
    ("rules.on", "code"): '["slow_down"]',
    ("rules.on", "scope"): '["day"]',
    ("rules.on", "turn_visible"): "false",
    ("classify", "h2_code"): '["REFUSED_STREAM"]',
    ("features", "above"): "1.0",
}


def example(path: str, key: str, field: FieldInfo) -> str:
    """A value as TOML writes it: one that is shipped, one by hand, or the default."""
    if (path, key) in BY_HAND:
        return f"`{BY_HAND[path, key]}`"
    if (path, key) in used():
        one_line = " ".join(_toml(used()[path, key]).split())
        return f"`{one_line}`"
    told = default(field)
    return told if told.startswith("`") else "–"


def cell(text: str) -> str:
    """Text that may stand in a table."""
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write or check, and return the exit status."""
    if arguments not in ([], ["--check"]):
        print(f"error: unknown arguments {arguments!r}\n\nhint: --check, or none", file=sys.stderr)
        return 2
    old, new = PAGE.read_text("utf-8"), render()
    if not arguments:
        PAGE.write_text(new, "utf-8", newline="\n")
        return 0
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), "docs/policies.md", "now", lineterm=""
    )
    diff = list(lines)
    print("\n".join(diff) or "docs/policies.md: current")
    if diff:
        print("\nhint: make docs", file=sys.stderr)
    return 1 if diff else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
