"""A comparison says what changed in meaning, and only that."""

from pathlib import Path

from midthought.policies import dump_policy, load_policy
from midthought.review import compare


def write(folder: Path, name: str, text: str) -> Path:
    """A policy file."""
    path = folder / f"{name}.toml"
    path.write_text(text, "utf-8")
    return path


def test_the_same_policy_written_otherwise(tmp_path: Path) -> None:
    """A resolved copy of a policy means the same, although the text is another."""
    policy = load_policy("anthropic")
    copy = load_policy(write(tmp_path, "copy", dump_policy(policy)))

    assert compare(policy, copy).empty


def test_a_changed_limit_is_one_change(tmp_path: Path) -> None:
    """One number changed: one change with its path, and the worst case with it."""
    text = 'name = "mine"\nextends = ["anthropic"]\n[limits]\nattempts = 3\n'
    found = compare(load_policy("anthropic"), load_policy(write(tmp_path, "mine", text)))

    assert [("limits.attempts", 20, 3)] == [tuple(change) for change in found.settings]
    assert (20, 3) == (found.before.requests, found.after.requests)
    assert found.after.wait_s < found.before.wait_s


def test_rules_added_removed_and_reordered(tmp_path: Path) -> None:
    """Rules are compared by name: gone, new, changed, and their order."""
    before = load_policy("anthropic")
    rules = list(before.rules)
    swapped = before.model_copy(update={"rules": (rules[1], rules[0], *rules[2:-1])})
    found = compare(before, swapped)

    assert [f"rules.{rules[-1].name}", "rules (order)"] == [c.path for c in found.rules]


def test_rows_of_the_machine() -> None:
    """A row that is gone is a removed edge; the way back shows it as added."""
    before = load_policy("base")
    rows = tuple(row for row in before.machine.transitions if "accepts_partial" not in row.when)
    after = before.model_copy(
        update={"machine": before.machine.model_copy(update={"transitions": rows})}
    )

    (gone,) = [e for e in compare(before, after).removed if e.guards == ("accepts_partial",)]
    assert ("committing", "committed", "completed") == (gone.source, gone.trigger, gone.dest)
    assert gone.guards in [e.guards for e in compare(after, before).added]
