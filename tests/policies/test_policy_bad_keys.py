"""Keys, values and names that a policy file may not have: each is told with its place."""

from pathlib import Path
from typing import NamedTuple

import pytest

from midthought.policies import PolicyError, load_policy


class Bad(NamedTuple):
    """A file that extends base, and the one fault it has."""

    text: str
    line: int | None
    path: str
    found: str
    expected: str
    hint: str


RULE = '[[rules.append]]\nname = "x"\non = {{ {on} }}\naction = "{action}"\n{more}'
FAILED = 'failure = ["overloaded"]'


def _rule(on: str = FAILED, action: str = "retry", more: str = "limit = 1") -> str:
    return RULE.format(on=on, action=action, more=more)


STRUCTURE = {
    "an unknown key names the nearest one": Bad(
        "[limits]\nattemps = 3", 3, "limits.attemps", "'attemps'", "attempts", "attempts?"
    ),
    "an unknown key that is near to none is to be removed": Bad(
        "[limits]\nzzz = 3", 3, "limits.zzz", "'zzz'", "attempts, block_bytes", "remove it"
    ),
    "an unknown key of the root": Bad("ruels = 3", 2, "ruels", "'ruels'", "rules", "rules?"),
    "a word out of a list names the list and the nearest": Bad(
        '[blocks.text]\nopen = "kep"', 3, "blocks.text.open", '"kep"', '"keep", "discard"', "keep"
    ),
    "an unknown failure kind": Bad(
        'exhaust.append = ["overlaoded"]',
        2,
        "exhaust.append[0]",
        "overlaoded",
        "stalled",
        '"overloaded"?',
    ),
    "an unknown strategy": Bad(
        '[continuation]\nstrategies = ["prefil"]',
        3,
        "continuation.strategies[0]",
        "prefil",
        '"resume", "prefill", "instruct"',
        '"prefill"?',
    ),
    "an unknown edit of a request": Bad(
        _rule(more='edits = ["compac"]\nlimit = 1'),
        6,
        "rules.append[0].edits[0]",
        "compac",
        "drop_media",
        '"compact"?',
    ),
    "an unknown edit of an array": Bad(
        "[rules]\nprepnd = []", 3, "rules.prepnd", "'prepnd'", "prepend, append", "prepend?"
    ),
    "a negative limit": Bad(
        "[budgets.transient]\nlimit = -1",
        3,
        "budgets.transient.limit",
        "-1",
        "at least 0",
        "change",
    ),
    "a negative time": Bad(
        "clocks.headers_s = -0.5", 2, "clocks.headers_s", "-0.5", "a number (at least 0", "change"
    ),
    "a share above one": Bad(
        "backoff.transient.jitter = { up_to = 1.5 }",
        2,
        "backoff.transient.jitter",
        "a table",
        '"decorrelated" or a table { up_to = a number (at least 0',
        "change",
    ),
    "a number in quotes": Bad(
        '[limits]\nattempts = "20"',
        3,
        "limits.attempts",
        '"20"',
        "a whole number",
        "without quotes",
    ),
    "a fraction where a count belongs": Bad(
        "limits.attempts = 2.5", 2, "limits.attempts", "2.5", "a whole number", "change the value"
    ),
    "a word where an array belongs": Bad(
        'exhaust = "unknown"', 2, "exhaust", '"unknown"', "an array of", '["unknown"]'
    ),
    "a number where a table belongs": Bad(
        "limits = 3", 2, "limits", "3", "a table", "write a table"
    ),
    "one bracket where two belong": Bad(
        '[rules]\nname = "x"', 2, "rules", "one table", "an array", "[[rules]]"
    ),
    "a missing key": Bad(
        '[[rules.append]]\nname = "x"\non = { stop = ["pause"] }',
        2,
        "rules.append[0].action",
        "nothing",
        "a string",
        "add the key action",
    ),
    "a date, which JSON has not": Bad(
        "stream.merge = { d = 2026-12-01 }", 2, "stream.merge.d", "a date", "JSON", "quotes"
    ),
    "a number without end": Bad(
        "clocks.deadline_s = inf", 2, "clocks.deadline_s", "inf", "finite", "leave the key out"
    ),
    "a row that does not exist is not changed": Bad(
        "[rules.change.cutt]\nlimit = 1", 2, "rules.change.cutt", "'cutt'", "told, refuse", "'cut'?"
    ),
    "a row that does not exist is not removed": Bad(
        'rules.remove = ["zzz"]', 2, "rules.remove[0]", "'zzz'", "told, refuse", "remove the line"
    ),
    "rows without names are not removed": Bad(
        "classify.remove = ['x']", 2, "classify.remove[0]", '"x"', "prepend", "have no name"
    ),
    "an edit that is no array": Bad(
        "exhaust.append = 'unknown'", 2, "exhaust.append", '"unknown"', "an array", "two brackets"
    ),
    "a change that is no table": Bad(
        "rules.change = 3", 2, "rules.change", "3", "a table of tables", "[rules.change.cut]"
    ),
    "parents that are no array of names": Bad(
        'extends = "base"', 1, "extends", '"base"', "an array of names", 'extends = ["base"]'
    ),
    "states that are no rows": Bad(
        "machine.states = 3", 2, "machine.states", "3", "[[machine.states]]", "two brackets"
    ),
    "renames that are no table": Bad(
        "machine.rename = 3", 2, "machine.rename", "3", "a table of names", "[machine.rename]"
    ),
    "a name that is no string": Bad(
        "machine.rename.backoff = 3", 2, "machine.rename.backoff", "3", "name", "a string"
    ),
    "a state that does not exist is not renamed": Bad(
        'machine.rename.backof = "w"',
        2,
        "machine.rename.backof",
        "'backof'",
        "backoff",
        "'backoff'?",
    ),
}


NAMES = {
    "an unknown dialect": Bad(
        'dialect = "openai_chatt"', 2, "dialect", "'openai_chatt'", "anthropic_messages",
        "'openai_chat'?",
    ),
    "an unknown action": Bad(
        _rule(action="retyr"), 5, "rules.append[0].action", "'retyr'", "continue", "'retry'?"
    ),
    "an unknown budget": Bad(
        _rule(more='budget = "transiet"'), 6, "rules.append[0].budget", "'transiet'",
        "transient, malformed", "'transient'?",
    ),
    "an unknown backoff": Bad(
        _rule(more='limit = 1\nbackoff = "contination"'), 7, "rules.append[0].backoff",
        "'contination'", "continuation, transient", "'continuation'?",
    ),
    "an unknown feature": Bad(
        '[[features]]\nfeature = "thinkin"', 3, "features[0].feature", "'thinkin'",
        "structured_output", "'thinking'?",
    ),
    "an unknown feature of a strategy": Bad(
        "continuation.prefill.forbidden_with = ['tool']", 2,
        "continuation.prefill.forbidden_with[0]", "'tool'", "structured_output", "'tools'?",
    ),
    "an unknown row that mends": Bad(
        "wire.mend = ['bomb']", 2, "wire.mend[0]", "'bomb'", "event_name", "'bom'?"
    ),
    "a rule name twice": Bad(
        _rule().replace('"x"', '"cut"'), 3, "rules.append[0].name", "'cut'", "one rule",
        "[rules.change.NAME]",
    ),
    "a failure kind that nobody answers for": Bad(
        'exhaust.remove = ["runaway"]', 2, "exhaust", "no rule for runaway", "every kind",
        'exhaust.append = ["runaway"]',
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(bad, id=promise)
        for table in (STRUCTURE, NAMES)
        for promise, bad in table.items()
    ],
)
def test_bad_keys_and_names(tmp_path: Path, bad: Bad) -> None:
    """Each kind of mistake is one fault, at its place, with what is expected and what to do."""
    path = tmp_path / "mine.toml"
    extends = "" if "extends" in bad.text else 'extends = ["base"]\n'
    path.write_text(f"{extends}{bad.text}\n", "utf-8")
    with pytest.raises(PolicyError) as refused:
        load_policy(path)
    (fault,) = refused.value.faults

    assert (str(path), bad.path, bad.line) == (fault.file, fault.path, fault.line), fault
    assert bad.found in fault.found
    assert bad.expected in fault.expected
    assert bad.hint in fault.hint
