"""Where a policy is looked for, by which names, and how files build on each other."""

import os
from pathlib import Path

import pytest

from midthought.policies import (
    FailureKind,
    PolicyError,
    dump_policy,
    list_policies,
    load_policy,
    policy_digest,
)

SHIPPED = {"anthropic", "base", "llamacpp", "openai-chat", "openai-compatible", "strict"}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with an empty user configuration and no variable set."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MIDTHOUGHT_POLICY_PATH", raising=False)
    return folder


def write(text: str, name: str = "mine.toml") -> Path:
    """Write a file below the project and return its path."""
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def _policy(about: str, extends: str = "base") -> str:
    return f'extends = ["{extends}"]\n[about]\ntitle = "{about}"\n'


def test_shipped_policies_are_known_by_name() -> None:
    """Every TOML file of the package is found by its name, wherever the process runs."""
    assert {info.name for info in list_policies()} >= SHIPPED
    for name in SHIPPED:
        assert load_policy(name).name == name


def test_search_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable's folders come first, in order, then the project, the user, the built-ins."""
    first, second, config = tmp_path / "first", tmp_path / "second", tmp_path / "config"
    monkeypatch.setenv("MIDTHOUGHT_POLICY_PATH", os.pathsep.join([str(first), "", str(second)]))
    titles = []
    for folder in (config / "midthought", Path("midthought"), second, first):
        folder.mkdir(parents=True)
        (folder / "anthropic.toml").write_text(_policy(str(folder)), "utf-8")
        titles.append(load_policy("anthropic").about.title)

    assert [str(config / "midthought"), "midthought", str(second), str(first)] == titles


def test_user_folder_without_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without XDG_CONFIG_HOME the user's folder is ~/.config/midthought."""
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    folder = tmp_path / ".config" / "midthought"
    folder.mkdir(parents=True)
    (folder / "ours.toml").write_text(_policy("ours"), "utf-8")

    assert "ours" == load_policy("ours").about.title


def test_list_takes_the_first_of_a_name() -> None:
    """The list shows what loading the name would load, sorted by name."""
    write(_policy("ours", "anthropic"), "midthought/anthropic.toml")
    listed = list_policies()
    ours = next(info for info in listed if info.name == "anthropic")

    assert ("ours", "anthropic_messages", "") == (ours.title, ours.dialect, ours.problem)
    assert Path("midthought/anthropic.toml") == Path(ours.path)
    assert sorted(info.name for info in listed) == [info.name for info in listed]


def test_list_survives_a_broken_file() -> None:
    """A file with faults is listed with the first of them and hides no other policy."""
    write('extends = ["base"]\nrules = 3', "midthought/broken.toml")
    listed = {info.name: info for info in list_policies()}

    assert "rules" in listed["broken"].problem
    assert "" == listed["broken"].dialect
    assert SHIPPED < set(listed)


@pytest.mark.parametrize("source", ["./own.toml", "own.toml", "sub/own", Path("own.toml")])
def test_paths_are_read_directly(source: str | Path) -> None:
    """A separator, the ending .toml or a Path means that file, not a name on the search path."""
    write(_policy("by path"), "own.toml")
    write(_policy("by path"), "sub/own")
    write(_policy("by name"), "midthought/own.toml")

    assert "by path" == load_policy(source).about.title
    assert "own" == load_policy(source).name


def test_own_name_is_not_inherited() -> None:
    """A child is called by its file or by what it says, never like its parent."""
    write('extends = ["anthropic"]', "a.toml")
    write('extends = ["anthropic"]\nname = "other"', "b.toml")

    assert ["a", "other"] == [load_policy(path).name for path in ("a.toml", "b.toml")]
    assert "" == load_policy("a.toml").about.title


def test_a_file_may_extend_its_own_name() -> None:
    """A project's anthropic.toml that extends "anthropic" builds on the one that ships."""
    write('extends = ["anthropic"]\nlimits.attempts = 3', "midthought/anthropic.toml")
    policy = load_policy("anthropic")

    assert (3, "https://api.anthropic.com") == (policy.limits.attempts, policy.base_url)


def test_siblings_come_first() -> None:
    """A parent is looked for beside the child before it is looked for elsewhere."""
    write('extends = ["base"]\nlimits.attempts = 3', "midthought/team.toml")
    write('extends = ["base"]\nlimits.attempts = 4', "sub/team.toml")
    write('extends = ["team"]', "sub/mine.toml")
    write('extends = ["./sub/team.toml"]', "by-path.toml")

    assert 4 == load_policy("sub/mine.toml").limits.attempts
    assert 4 == load_policy("by-path.toml").limits.attempts


def test_later_parents_lie_over_earlier_ones() -> None:
    """Of several parents the last one wins, and the file itself over all of them."""
    write('extends = ["base"]\nlimits.attempts = 1\nlimits.no_progress = 1', "one.toml")
    write(
        'extends = ["base"]\nlimits.attempts = 2\nlimits.no_progress = 2\nclocks.hook_s = 2',
        "two.toml",
    )
    write('extends = ["one", "two"]\nlimits.attempts = 3', "mine.toml")
    policy = load_policy("mine.toml")

    assert (3, 2, 2.0) == (policy.limits.attempts, policy.limits.no_progress, policy.clocks.hook_s)


def test_shared_parents_lie_at_the_bottom_once() -> None:
    """An overlay that extends base does not lay base over the provider before it."""
    write('extends = ["anthropic", "strict"]', "mine.toml")
    policy = load_policy("mine.toml")

    assert ("anthropic_messages", "discard") == (policy.dialect, policy.blocks.text.open)
    assert "https://api.anthropic.com" == policy.base_url
    assert load_policy("anthropic").classify == policy.classify


def test_names_are_joined_by_plus() -> None:
    """`a+b` is what a file with extends = ["a", "b"] is, and is called so."""
    write('extends = ["anthropic", "strict"]\nname = "anthropic+strict"', "mine.toml")
    joined = load_policy("anthropic+strict")

    assert "anthropic+strict" == joined.name
    assert policy_digest(load_policy("mine.toml")) == policy_digest(joined)


def test_without_extends_a_file_builds_on_nothing() -> None:
    """A file without extends has only the schema's defaults below it: no machine, no rules."""
    with pytest.raises(PolicyError) as refused:
        load_policy(write('dialect = "openai_chat"'))

    paths = [fault.path for fault in refused.value.faults]
    assert ["machine.states", "exhaust"] == paths
    assert 'extends = ["base"]' in str(refused.value)

    text = dump_policy(load_policy("base"))
    assert "extends" not in text
    assert FailureKind.unknown in load_policy(write(text)).exhaust


def test_byte_order_mark_and_crlf_are_read(project: Path) -> None:
    """A file as an editor on Windows writes it is the same policy."""
    text = 'extends = ["base"]\nname = "x"\nlimits.attempts = 3\n'
    (project / "a.toml").write_bytes(text.encode())
    (project / "b.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())

    assert policy_digest(load_policy("a.toml")) == policy_digest(load_policy("b.toml"))
