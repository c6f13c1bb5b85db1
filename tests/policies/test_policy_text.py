"""A resolved policy as text: what is written loads again as the same policy, and names itself."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import (
    BLOCK_KINDS,
    FEATURES,
    FailureKind,
    Policy,
    Release,
    Stop,
    dump_policy,
    list_policies,
    load_policy,
    policy_digest,
)

SHIPPED = sorted(Path(__file__).parents[2].joinpath("policies").glob("*.toml"))


def again(policy: Policy, folder: Path) -> Policy:
    """The policy that its own text makes."""
    path = folder / "again.toml"
    path.write_text(dump_policy(policy), "utf-8")
    return load_policy(path)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_text_of_each_shipped_policy_loads_again(path: Path, tmp_path: Path) -> None:
    """What `dump_policy` writes needs no other file and is the same policy, to the digest."""
    policy = load_policy(path)
    copy = again(policy, tmp_path)

    assert policy == copy
    assert policy_digest(policy) == policy_digest(copy)
    assert "extends" not in tomllib.loads(dump_policy(policy))


@pytest.mark.parametrize("name", ["anthropic+strict", "openai-chat+strict"])
def test_text_of_a_sum_loads_again(name: str, tmp_path: Path) -> None:
    """The same holds for policies that were put together, and for one model's."""
    policy = load_policy(name)
    one = policy.for_model("claude-3-5-haiku-latest")

    assert policy == again(policy, tmp_path)
    assert one == again(one, tmp_path)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
seconds = st.floats(0, 1e9)
variants = st.fixed_dictionaries(
    {},
    optional={
        "about": st.fixed_dictionaries({"title": words, "source": st.lists(words, max_size=2)}),
        "headers": st.dictionaries(words, words, max_size=3),
        "exhaust": st.just(list(FailureKind)),
        "stream": st.fixed_dictionaries(
            {
                "merge": st.dictionaries(words, json_values, max_size=3),
                "stops": st.dictionaries(words, st.sampled_from(Stop), max_size=3),
                "failures": st.dictionaries(words, st.sampled_from(FailureKind), max_size=3),
            }
        ),
        "clocks": st.fixed_dictionaries({}, optional={"headers_s": seconds, "hook_s": seconds}),
        "limits": st.fixed_dictionaries({"attempts": st.integers(1, 1000)}),
        "blocks": st.fixed_dictionaries(
            {"text": st.fixed_dictionaries({"release": st.sampled_from(get_args(Release))})}
        ),
        "features": st.lists(
            st.fixed_dictionaries(
                {"feature": st.sampled_from(FEATURES), "equals": st.lists(json_values, max_size=2)},
                optional={"path": words, "above": st.floats(-1e9, 1e9)},
            ),
            max_size=3,
        ),
        "models": st.lists(
            st.fixed_dictionaries(
                {"match": st.lists(words, min_size=1, max_size=2)},
                optional={
                    "source": words,
                    "clocks": st.fixed_dictionaries({"headers_s": seconds}),
                    "exhaust": st.just({"append": ["auth"]}),
                },
            ),
            max_size=3,
        ),
    },
)


@given(variants)
def test_text_of_any_policy_loads_again(tmp_path_factory: Any, variant: dict[str, Any]) -> None:
    """Whatever a policy holds, quotes, emptiness and None included, its text is that policy."""
    base = load_policy("base").model_dump(mode="json", exclude_none=True)
    text = json.dumps({**base, **variant}, default=str)
    policy = Policy.model_validate_json(text, strict=True)
    copy = again(policy, tmp_path_factory.mktemp("variant"))

    assert policy == copy
    assert policy_digest(policy) == policy_digest(copy)


def test_none_is_left_out(tmp_path: Path) -> None:
    """A bound that is not set is not written, and is not set when the text is read."""
    policy = load_policy("base")
    text = tomllib.loads(dump_policy(policy))

    assert policy.clocks.deadline_s is None
    assert "deadline_s" not in text["clocks"]
    assert {"name", "on", "action", "limit", "backoff"} == set(text["rules"][0])


def test_digest_knows_content_only(tmp_path: Path) -> None:
    """Order of keys, comments, ways of writing and the place of the file make no difference."""
    one = tmp_path / "a.toml"
    one.write_text('extends = ["base"]\nname = "x"\n[limits]\nattempts = 3\nno_progress = 2\n')
    other = tmp_path / "sub" / "b.toml"
    other.parent.mkdir()
    other.write_text(
        '# the same\nlimits = { no_progress = 0x2, attempts = 3 }\nname = """x"""\n'
        'extends = ["base"]\nclocks.headers_s = 120\n'
    )
    digest = policy_digest(load_policy(one))

    assert digest == policy_digest(load_policy(other))
    assert 64 == len(digest)
    assert set("0123456789abcdef") >= set(digest)


def test_digest_is_the_same_in_another_process() -> None:
    """No order of sets or hashes gets into a digest."""
    program = (
        "from midthought.policies import load_policy, policy_digest;"
        "print(policy_digest(load_policy('anthropic')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
    )

    assert policy_digest(load_policy("anthropic")) == done.stdout.strip()


@pytest.mark.parametrize(
    "change",
    [
        "limits.attempts = 3",
        "rules.change.cut.limit = 4",
        "exhaust.append = ['auth']",
        "name = 'y'",
    ],
)
def test_digest_changes_with_the_content(tmp_path: Path, change: str) -> None:
    """Each change of a value is another digest."""
    path = tmp_path / "x.toml"
    path.write_text('extends = ["base"]\n', "utf-8")
    before = policy_digest(load_policy(path))
    path.write_text(f'extends = ["base"]\n{change}\n', "utf-8")

    assert before != policy_digest(load_policy(path))


def test_every_block_kind_has_a_table() -> None:
    """The kinds of the vocabulary and the tables of the schema are the same."""
    assert list(BLOCK_KINDS) == list(tomllib.loads(dump_policy(load_policy("base")))["blocks"])


def test_shipped_names_are_their_files() -> None:
    """A shipped policy is called by its file, so that a name leads to what records say."""
    names = {Path(info.path).stem: info.name for info in list_policies()}

    assert all(stem == name == load_policy(name).name for stem, name in names.items())
