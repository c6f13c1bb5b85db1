"""Files that are no policy, and several faults at once: all is told, with what to do next."""

import os
import pickle
from pathlib import Path

import pytest

from midthought.policies import (
    Fault,
    PolicyError,
    dump_policy,
    load_policy,
    register_dialect_name,
    register_guard_name,
)


def faults_of(path: str | os.PathLike[str]) -> tuple[Fault, ...]:
    """What a policy is refused for; each fault says what to do next."""
    with pytest.raises(PolicyError) as refused:
        load_policy(path)
    assert all(fault.found and fault.expected and fault.hint for fault in refused.value.faults)
    return refused.value.faults


def only(path: str | os.PathLike[str]) -> Fault:
    """The one fault that a policy is refused for."""
    (fault,) = faults_of(path)
    return fault


def write(path: Path, text: str | bytes) -> Path:
    """Write a file and return its path."""
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_unknown_name() -> None:
    """An unknown name is answered with the known ones and the nearest of them."""
    fault = only("antropic")

    assert "'antropic'" in fault.found
    assert {"anthropic", "base", "llamacpp"} <= set(fault.expected.split(", "))
    assert "'anthropic'?" in fault.hint
    assert "path of a file" in only("zzzzzz").hint
    assert "no policy" in only("z" * 300).found  # longer than a file's name may be


@pytest.mark.parametrize("names", ["anthropic+stric", "+strict", "anthropic+"])
def test_unknown_name_in_a_sum(names: str) -> None:
    """In `a+b` each name that is not known is told."""
    assert "no policy" in only(names).found


def test_no_such_file(tmp_path: Path) -> None:
    """A path without a file names a file beside it, or the known policies."""
    write(tmp_path / "team.toml", "")

    assert "team.toml" in only(tmp_path / "taem.toml").hint
    assert "'anthropic'?" in only("anthropic.toml").hint
    assert "anthropic, " in only(tmp_path / "no" / "zzz.toml").hint


def test_directory(tmp_path: Path) -> None:
    """A directory is no file, also one that is called like one."""
    (tmp_path / "a.toml").mkdir()

    assert "a directory" == only(tmp_path / "a.toml").found


def test_unreadable_file(tmp_path: Path) -> None:
    """A file that the system will not open is told with the system's reason."""
    loop = tmp_path / "loop.toml"
    loop.symlink_to(loop)
    fault = only(loop)

    assert "cannot be read" in fault.found
    assert "cannot be read" in only("a\0b.toml").found


def test_binary_file(tmp_path: Path) -> None:
    """Bytes that are no text are told by their place, and are not shown."""
    assert "at place 3" in only(write(tmp_path / "a.toml", b"abc\xff\xfe")).found
    assert "at place 2" in only(write(tmp_path / "b.toml", b"ab\0c")).found
    assert "UTF-8" in only(write(tmp_path / "c.toml", "ä = 1".encode("utf-16"))).hint


def test_too_large_file(tmp_path: Path) -> None:
    """More than 1 MiB is not read."""
    just = "#" * (1024 * 1024)

    assert "1048576 bytes" in only(write(tmp_path / "a.toml", just + "#")).found
    assert "bytes" not in str(faults_of(write(tmp_path / "b.toml", just)))


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("a = 1\nb = = 2\n", 2, "column 5"),
        ("[rules\n", 1, "column 7"),
        ('a = "x', 1, "end of document"),
        ("a = 1\na = 2\n", 2, "column 6"),
        ("\n\n[a]\n[a]\n", 4, "column 3"),
    ],
)
def test_not_toml(tmp_path: Path, text: str, line: int, column: str) -> None:
    """A slip of syntax is told with its line and column."""
    fault = only(write(tmp_path / "a.toml", text))

    assert (line, "TOML") == (fault.line, fault.expected)
    assert column in fault.found


@pytest.mark.parametrize("depth", [40, 5000])
def test_nested_without_end(tmp_path: Path, depth: int) -> None:
    """Nesting that would exhaust the stack is refused, not followed."""
    assert "nest" in only(write(tmp_path / "a.toml", f"a = {'[' * depth}{']' * depth}")).hint
    keys = ".".join(["a"] * depth)
    assert "nest" in only(write(tmp_path / "b.toml", f"{keys} = 1")).hint


def test_endless_number(tmp_path: Path) -> None:
    """A number that cannot be read is refused, not raised as something else."""
    assert "number" in only(write(tmp_path / "a.toml", f"a = {'9' * 5000}")).found


def test_newer_version(tmp_path: Path) -> None:
    """A file of a newer schema version is refused as a whole, before its keys are judged."""
    fault = only(write(tmp_path / "a.toml", 'schema_version = 2\nnew_key = 1\nextends = ["base"]'))

    assert (1, "schema_version", "2") == (fault.line, fault.path, fault.found)
    assert "newer midthought" in fault.hint


def test_circle(tmp_path: Path) -> None:
    """Parents that lead back are refused, with the way they take."""
    write(tmp_path / "a.toml", 'extends = ["b"]')
    write(tmp_path / "b.toml", 'extends = ["base", "c"]')
    write(tmp_path / "c.toml", '\nextends = ["a"]')
    fault = only(tmp_path / "a.toml")

    assert "a.toml -> b.toml -> c.toml -> a.toml" in fault.found
    assert (str(tmp_path / "c.toml"), 2, "extends[0]") == (fault.file, fault.line, fault.path)


def test_circle_of_one(tmp_path: Path) -> None:
    """A file that extends its own name, where there is no other of it, is a circle too."""
    assert "own.toml -> own.toml" in only(write(tmp_path / "own.toml", 'extends = ["own"]')).found


def test_unknown_parent(tmp_path: Path) -> None:
    """A parent that is not found is told where it is named, with the nearest name."""
    fault = only(write(tmp_path / "a.toml", '\n\nextends = ["base", "opnai-chat"]'))

    assert (3, "extends[1]") == (fault.line, fault.path)
    assert "'openai-chat'?" in fault.hint


def test_broken_parent(tmp_path: Path) -> None:
    """What is wrong with a parent is told with the parent's file, once, beside the child's own."""
    write(tmp_path / "parent.toml", 'extends = ["base"]\n\nlimits.attempts = -1')
    write(tmp_path / "other.toml", 'extends = ["parent"]')
    child = write(tmp_path / "child.toml", 'extends = ["parent", "other"]\nlimits.zzz = 1')
    found = [(Path(f.file).name, f.line, f.path) for f in faults_of(child)]

    assert [("child.toml", 2, "limits.zzz"), ("parent.toml", 3, "limits.attempts")] == found


def test_all_faults_at_once(tmp_path: Path) -> None:
    """Faults of every kind, in several places of a file, are one error, in the file's order."""
    text = """extends = ["base", "nobody"]
limts.attempts = 3
[clocks]
headers_s = -1
deadline_s = nan
[[rules.append]]
name = "x"
on = { failure = ["nothing"] }
action = "retry"
"""
    path = write(tmp_path / "a.toml", text)
    assert [1, 2, 4, 5, 8] == [fault.line for fault in faults_of(path)]

    path = write(tmp_path / "b.toml", text.replace(', "nobody"', ""))
    faults = faults_of(path)
    assert [2, 4, 5, 6, 8] == [fault.line for fault in faults]
    assert "no limit" in faults[3].found  # told although the file's structure is wrong elsewhere

    with pytest.raises(PolicyError, match="5 faults in policy 'b'") as refused:
        load_policy(path)
    assert isinstance(refused.value, ValueError)
    for fault in faults:
        assert str(fault) in str(refused.value)


def test_an_unknown_key_hides_nothing(tmp_path: Path) -> None:
    """A misspelt key is told beside what the rest of its table lacks."""
    path = write(
        tmp_path / "a.toml",
        'extends = ["base"]\nexhaust.remove = ["runaway"]\nrules.change.cut.limt = 3\n',
    )

    assert ["exhaust", "rules.change.cut.limt"] == [fault.path for fault in faults_of(path)]


def test_every_state_can_be_left(tmp_path: Path) -> None:
    """A machine of one's own needs its cancel, yield and deadline rows, and each role its own."""
    text = dump_policy(load_policy("base"))
    gone = 0
    for trigger in ("cancelled", "yielded", "deadline_passed", "opened", "failed", "waited"):
        row = f'[[machine.transitions]]\ntrigger = "{trigger}"\nsource = '
        assert row in text
        gone += text.count(row)
        text = text.replace(row, '[[machine.transitions]]\ntrigger = "answered"\nsource = ')
    faults = faults_of(write(tmp_path / "a.toml", text))
    missing = [fault for fault in faults if fault.found.startswith("no row for")]

    assert gone == len(missing)
    assert "no row for 'cancelled' in 'streaming'" in [fault.found for fault in missing]
    assert all("add one: trigger =" in fault.hint for fault in missing)


def test_a_row_given_twice_is_told(tmp_path: Path) -> None:
    """A row that a parent has already is not swallowed: it can never be reached."""
    path = write(
        tmp_path / "a.toml",
        'extends = ["base"]\n[[classify.append]]\nkind = "quota_exhausted"\nstatus = [402]\n',
    )

    assert "classify.append[0]" == only(path).path


def test_values_that_may_be_secrets_are_not_shown(tmp_path: Path) -> None:
    """A wrong value below headers or auth is told by its type only."""
    path = write(
        tmp_path / "a.toml",
        'extends = ["base"]\nheaders.authorization = ["sk-123"]\nheaders.x = 4711\n'
        "auth.prefix = 4712\n",
    )
    faults = faults_of(path)

    assert ["headers.authorization", "headers.x", "auth.prefix"] == [f.path for f in faults]
    assert not any(secret in str(faults) for secret in ("sk-123", "4711", "4712"))


def test_error_survives_pickling(tmp_path: Path) -> None:
    """A worker process can hand the error on, faults and all."""
    with pytest.raises(PolicyError) as refused:
        load_policy(write(tmp_path / "a.toml", "limits = 3"))
    copy = pickle.loads(pickle.dumps(refused.value))

    assert (refused.value.faults, str(refused.value)) == (copy.faults, str(copy))


def test_names_of_a_host_are_known(tmp_path: Path) -> None:
    """A guard or dialect that a host has registered by name is no mistake."""
    path = write(
        tmp_path / "a.toml",
        'extends = ["base"]\ndialect = "smoke_signals"\n[[machine.transitions]]\n'
        'trigger = "failed"\nsource = "streaming"\ndest = "exhausted"\nwhen = ["not_in_rain"]\n',
    )
    assert 2 == len(faults_of(path))
    register_dialect_name("smoke_signals")
    register_guard_name("in_rain")

    assert "smoke_signals" == load_policy(path).dialect


# --- entries for some models ----------------------------------------------------------------------


def test_wrong_entries_are_told_by_their_place(tmp_path: Path) -> None:
    """Each [[models]] entry is laid over the policy and judged, and told as models[n].key."""
    text = """extends = ["base"]
[[models]]
match = ["a*"]
[[models]]
match = ["b*"]
continuation.strategies = ["prefil"]
limits.attemps = 3
[[models]]
match = ["c*"]
dialect = "anthropic_messages"
[blocks.tool_use]
parallel = "all_or_none"
"""
    path = write(tmp_path / "a.toml", text.replace("[blocks", "[models.blocks"))
    found = [(fault.line, fault.path) for fault in faults_of(path)]

    assert [
        (6, "models[1].continuation.strategies[0]"),
        (7, "models[1].limits.attemps"),
        (10, "models[2].dialect"),
        (12, "models[2].blocks.tool_use.parallel"),
    ] == found


def test_what_an_entry_breaks_elsewhere_is_told_at_the_entry(tmp_path: Path) -> None:
    """A fault that only an entry brings about names the entry, wherever the fault shows."""
    text = """extends = ["base"]
[[models]]
match = ["a*"]
rules.change.cut.backoff = "nowhere"
[[models]]
match = ["b*"]
rules.remove = ["refuse"]
"""
    faults = faults_of(write(tmp_path / "a.toml", text))

    assert [(4, "models[0].rules.change.cut.backoff"), (5, "models[1].exhaust")] == [
        (fault.line, fault.path) for fault in faults
    ]


def test_entry_without_patterns(tmp_path: Path) -> None:
    """An entry says for which models it is."""
    path = write(tmp_path / "a.toml", 'extends = ["base"]\n[[models]]\nmatch = []\n[[models]]\n')
    faults = faults_of(path)

    assert ["models[0].match", "models[1].match"] == [fault.path for fault in faults]
    assert "non-empty" in faults[0].expected


def test_faults_of_the_policy_are_not_told_for_every_entry(tmp_path: Path) -> None:
    """What is wrong without the entries is told once."""
    text = 'extends = ["base"]\nwire.mend = ["x"]\n[[models]]\nmatch = ["a"]\n'

    assert "wire.mend[0]" == only(write(tmp_path / "a.toml", text)).path
