"""How one file lies over another, as docs/policies.md states it."""

from pathlib import Path

import pytest

from midthought.policies import FailureKind, Policy, load_policy


def load(folder: Path, text: str, name: str = "mine.toml") -> Policy:
    """Load a policy that extends base from its text."""
    path = folder / name
    path.write_text(f'extends = ["base"]\n{text}', "utf-8")
    return load_policy(path)


BASE = load_policy("base")
RULES = [rule.name for rule in BASE.rules]


def names(policy: Policy) -> list[str]:
    """Names of the rules, in order."""
    return [rule.name for rule in policy.rules]


def test_tables_merge_key_by_key(tmp_path: Path) -> None:
    """A key that a child sets changes; every other key of the table stays."""
    policy = load(tmp_path, "[backoff.transient]\nmax_s = 99.0\n[clocks]\nheaders_s = 7")

    assert (
        BASE.backoff["transient"].model_copy(update={"max_s": 99.0}) == policy.backoff["transient"]
    )
    assert BASE.clocks.model_copy(update={"headers_s": 7.0}) == policy.clocks
    assert BASE.backoff["continuation"] == policy.backoff["continuation"]


def test_defaults_of_a_place_survive_a_partial_table(tmp_path: Path) -> None:
    """Setting one key of a table leaves the others at the defaults of that very place."""
    policy = load(
        tmp_path,
        '[blocks.text]\nrelease = "word"\n[blocks.media]\nclosed = "discard"\n'
        "[seam.instruct]\nwindow = 300",
    )

    assert ("keep", "closed") == (policy.blocks.text.open, policy.blocks.media.release)
    seam = policy.seam.instruct
    assert ("word", 12, True, 300) == (seam.release, seam.hold_first, seam.fences, seam.window)


def test_scalars_replace(tmp_path: Path) -> None:
    """A value that is no table replaces the one below, also where one of them is a table."""
    one = load(tmp_path, "[backoff.transient]\njitter = 'full'", "one.toml")
    (tmp_path / "two.toml").write_text(
        'extends = ["one"]\nbackoff.transient.jitter = { up_to = 0.5 }', "utf-8"
    )

    assert "full" == one.backoff["transient"].jitter
    assert 0.5 == load_policy(tmp_path / "two.toml").backoff["transient"].jitter.up_to  # type: ignore[union-attr]


def test_arrays_replace(tmp_path: Path) -> None:
    """An array is replaced as a whole, whether it holds words or tables."""
    kinds = ", ".join(f'"{kind}"' for kind in FailureKind)
    policy = load(
        tmp_path,
        f'exhaust = [{kinds}]\n[[rules]]\nname = "only"\naction = "stop"\n'
        'on = { failure = ["auth"] }',
    )

    assert tuple(FailureKind) == policy.exhaust
    assert ["only"] == names(policy)


def test_rows_go_before_and_after(tmp_path: Path) -> None:
    """`prepend` and `append` put rows before and after the parent's, in the order written."""
    row = '[[rules.{}]]\nname = "{}"\naction = "stop"\non = {{ stop = ["pause"] }}\n'
    text = row.format("append", "y") + row.format("prepend", "a") + row.format("prepend", "b")

    assert ["a", "b", *RULES, "y"] == names(load(tmp_path, text))


def test_rows_are_removed_by_name(tmp_path: Path) -> None:
    """`remove` takes rows out, before anything is added, so that a name is free again."""
    text = """
        rules.remove = ["storm", "told"]
        [[rules.append]]
        name = "storm"
        action = "stop"
        on = { failure = ["overloaded"] }
    """
    kept = [name for name in RULES if name not in ("storm", "told")]

    assert [*kept, "storm"] == names(load(tmp_path, text))


def test_rows_are_changed_in_place(tmp_path: Path) -> None:
    """`change` lays keys over a row of that name and leaves its place and its other keys."""
    policy = load(
        tmp_path,
        "exhaust.append = ['blocked']\n[rules.change.cut]\nlimit = 8\n"
        "[rules.change.refuse.on.failure]\nremove = ['blocked']",
    )
    at = RULES.index("cut")
    refuse = policy.rules[RULES.index("refuse")]

    assert names(policy) == RULES
    assert BASE.rules[at].model_copy(update={"limit": 8}) == policy.rules[at]
    assert FailureKind.blocked not in refuse.on.failure
    assert FailureKind.auth in refuse.on.failure


def test_arrays_of_words_are_edited(tmp_path: Path) -> None:
    """Words are removed, put before and put after; a word that is there is not put twice."""
    policy = load(
        tmp_path,
        "[wire.mend]\nremove = ['bom']\nprepend = ['tool_index']\n"
        "append = ['no_data', 'repeat_id']",
    )
    kept = [word for word in BASE.wire.mend if word != "bom"]

    assert ("tool_index", *kept, "repeat_id") == policy.wire.mend


def test_a_default_array_is_edited(tmp_path: Path) -> None:
    """An array that no file has set yet has the schema's default below it."""
    policy = load(tmp_path, "continuation.instruct.forbidden_with.append = ['tools']")

    assert ("n", "structured_output", "tools") == policy.continuation.instruct.forbidden_with


def test_free_json_merges_at_every_depth(tmp_path: Path) -> None:
    """What is merged into requests is JSON of the provider's: no key of it means anything here."""
    load(tmp_path, "[stream.merge.a]\nappend = [1]\nb = { c = 1, d = 1 }", "one.toml")
    (tmp_path / "two.toml").write_text(
        'extends = ["one"]\nstream.merge.a = { append = [2], b = { d = 2 } }', "utf-8"
    )

    merged = load_policy(tmp_path / "two.toml").stream.merge
    assert {"a": {"append": [2], "b": {"c": 1, "d": 2}}} == merged


# --- the machine ----------------------------------------------------------------------------------


def cell(policy: Policy, source: str, trigger: str) -> list[tuple[str, tuple[str, ...]]]:
    """Destination and guards of the rows of a cell, in order."""
    rows = policy.machine.transitions
    return [(r.dest, r.when) for r in rows if (r.source, r.trigger) == (source, trigger)]


ROW = """
[[machine.transitions]]
trigger = "committed"
source = "committing"
dest = "exhausted"
when = ["not_recoverable"]
"""


def test_rows_of_a_cell_go_before_the_parents(tmp_path: Path) -> None:
    """A child's row is tried before the parent's rows of its cell, and no other cell changes."""
    policy = load(tmp_path, ROW)
    mine = ("exhausted", ("not_recoverable",))

    assert [mine, *cell(BASE, "committing", "committed")] == cell(policy, "committing", "committed")
    others = [row for row in policy.machine.transitions if row.when != ("not_recoverable",)]
    assert list(BASE.machine.transitions) == others


def test_a_row_takes_the_place_of_one_with_its_guards(tmp_path: Path) -> None:
    """The parent's row for the same guards, which would never be reached, falls away."""
    policy = load(tmp_path, ASKING)
    dests = {when: dest for dest, when in cell(policy, "committing", "committed")}

    assert "asking" == dests["wait_too_long",]
    assert len(cell(BASE, "committing", "committed")) == len(dests)


def test_rows_replace_a_cell_on_demand(tmp_path: Path) -> None:
    """With `replace = true` in one of its rows a child's cell stands alone; the order is gone."""
    text = """
        [[machine.transitions]]
        trigger = "finished"
        source = "streaming"
        dest = "interrupted"
        when = ["needs_recovery", "recoverable"]
        [[machine.transitions]]
        trigger = "finished"
        source = "streaming"
        dest = "completed"
        replace = true
    """
    policy = load(tmp_path, text)

    assert [("interrupted", ("needs_recovery", "recoverable")), ("completed", ())] == cell(
        policy, "streaming", "finished"
    )
    assert not any(row.replace for row in policy.machine.transitions)


ASKING = """
[[machine.states]]
name = "asking"
role = "ask"
[[machine.transitions]]
trigger = "committed"
source = "committing"
dest = "asking"
when = ["wait_too_long"]
[[machine.transitions]]
trigger = "answered"
source = "asking"
dest = "backoff"
[[machine.transitions]]
trigger = "refused"
source = "asking"
dest = "exhausted"
"""


def test_added_states_can_be_left(tmp_path: Path) -> None:
    """Cancel, yield and deadline are written for a state that a child adds."""
    policy = load(tmp_path, ASKING)

    for trigger, end in (
        ("cancelled", "aborted"),
        ("yielded", "aborted"),
        ("deadline_passed", "exhausted"),
    ):
        assert [(end, ())] == cell(policy, "asking", trigger)


def test_states_change_by_name(tmp_path: Path) -> None:
    """A state of a name the parent has is that state; others come after."""
    policy = load(tmp_path, ASKING + '[[machine.states]]\nname = "backoff"\nrole = "wait"')

    assert [*BASE.machine.states, policy.machine.states[-1]] == list(policy.machine.states)
    assert "asking" == policy.machine.states[-1].name


def test_states_are_renamed(tmp_path: Path) -> None:
    """`machine.rename` changes names everywhere, and outcomes stay what they were."""
    policy = load(
        tmp_path,
        '[machine.rename]\nstreaming = "live"\nexhausted = "gave_up"\n'
        '[[machine.transitions]]\ntrigger = "failed"\nsource = "live"\ndest = "gave_up"\n'
        'when = ["not_recoverable"]',
    )
    states = {state.name: state for state in policy.machine.states}
    said = {name for row in policy.machine.transitions for name in (row.source, row.dest)}

    assert "live" == policy.machine.initial
    assert "exhausted" == states["gave_up"].outcome
    assert not said & {"streaming", "exhausted"}
    assert ("gave_up", ("not_recoverable",)) == cell(policy, "live", "failed")[0]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_overlays_keep_their_order(tmp_path: Path, order: tuple[str, str]) -> None:
    """Rows that two overlays put first stand in the order of the overlays, the last one first."""
    for name in order:
        (tmp_path / f"{name}.toml").write_text(
            f'extends = ["base"]\n[[rules.prepend]]\nname = "{name}"\naction = "stop"\n'
            'on = { stop = ["pause"] }',
            "utf-8",
        )
    parents = ", ".join(f'"{name}"' for name in order)
    (tmp_path / "mine.toml").write_text(f"extends = [{parents}]", "utf-8")

    assert [*reversed(order), *RULES] == names(load_policy(tmp_path / "mine.toml"))
