"""The schema says all there is to say: a line for each key, one default each, for editors too."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from midthought.policies import Policy, dump_policy, load_policy, policy_json_schema
from midthought.policies._shape import Shape, is_array, is_table, key_shapes, shape_at

POLICIES = Path(__file__).parents[2] / "policies"
Validator = pytest.importorskip("jsonschema").Draft202012Validator
VALIDATOR = Validator(policy_json_schema())


def models_below(model: Any) -> set[Any]:
    """Every pydantic model that stands somewhere below another."""
    found, todo = set(), [Shape(model)]
    while todo:
        shape = todo.pop()
        if shape.type in found:
            continue
        if keys := key_shapes(shape):
            found.add(shape.type)
            todo += keys.values()
        elif is_array(shape):
            todo.append(shape_at(shape, 0) or Shape(None))
        elif is_table(shape):
            todo.append(shape_at(shape, "any") or Shape(None))
    return found


def test_every_key_says_what_it_means() -> None:
    """Each key has a line of its own, which the documentation and editors show."""
    silent = [
        f"{model.__name__}.{key}"
        for model in models_below(Policy)
        for key, field in model.model_fields.items()
        if not field.description
    ]

    assert [] == silent


def test_defaults_of_a_table_are_its_own() -> None:
    """A table has the same defaults wherever it stands, so that merging cannot lose them."""
    odd = [
        f"{model.__name__}.{key}"
        for model in models_below(Policy)
        for key, field in model.model_fields.items()
        if key_shapes(Shape(type(field.default))) and type(field.default)() != field.default
    ]

    assert [] == odd


def test_json_schema_is_one() -> None:
    """The schema for editors is valid itself."""
    Validator.check_schema(policy_json_schema())


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.toml")), ids=lambda path: path.stem)
def test_json_schema_knows_what_ships(path: Path) -> None:
    """Every shipped file, and each of them resolved, is valid by the schema for editors."""
    for text in (path.read_text("utf-8"), dump_policy(load_policy(path))):
        assert [] == [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


@pytest.mark.parametrize(
    "text",
    [
        'extends = ["base"]\nmachine.rename = { backoff = "waiting" }',
        "backoff.transient.factor = 3.0",
        'exhaust = { remove = ["unknown"], prepend = [], append = ["auth"] }',
        'rules.change.cut = { limit = 3, on.failure.append = ["timeout"] }',
        'rules.remove = ["cut"]',
        '[[models]]\nmatch = ["x"]\ncontinuation.strategies = ["instruct"]\nrules.remove = ["cut"]',
        '[[models.append]]\nmatch = ["x"]\nlimits.attempts = 3',
        "backoff.x = { initial_s = 1, max_s = 2, jitter = { up_to = 0.5 } }",
        'classify.append = [{ kind = "auth", status = [401] }]',
    ],
)
def test_json_schema_knows_partial_files(text: str) -> None:
    """What a child may say, by any of the ways to edit, is valid by it."""
    assert [] == [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))]


@pytest.mark.parametrize(
    "text",
    [
        "limts = {}",
        "limits.attempts = -1",
        'limits.attempts = "3"',
        'exhaust = ["nothing"]',
        "rules.chnge = {}",
        '[[rules]]\nname = "x"',
        'classify.remove = ["x"]',
        "classify.change = {}",
        "machine.states.append = []",
        "[[models]]\nlimits.attempts = 3",
        '[[models]]\nmatch = ["x"]\ndialect = "openai_chat"',
        '[[models]]\nmatch = ["x"]\nlimits.attemps = 3',
        "backoff.transient.jitter = { up_to = 2 }",
        "extends = 'base'",
        'blocks.tool_use.open = "keep"',
    ],
)
def test_json_schema_refuses_what_the_loader_refuses(text: str) -> None:
    """An editor underlines what the loader would not take."""
    assert [] != list(VALIDATOR.iter_errors(tomllib.loads(text)))
