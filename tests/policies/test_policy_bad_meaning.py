"""Rules, blocks, patterns and machines that would break a promise are refused at load."""

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
ROW = '[[machine.transitions]]\ntrigger = "{}"\nsource = "{}"\ndest = "{}"\nwhen = [{}]'
FAILED = 'failure = ["overloaded"]'


def _rule(on: str = FAILED, action: str = "retry", more: str = "limit = 1") -> str:
    return RULE.format(on=on, action=action, more=more)


RULES = {
    "a rule without a condition": Bad(
        _rule(on=""), 4, "rules.append[0].on", "no condition", "one fact", "failure ="
    ),
    "a rule for a failure and a stop": Bad(
        _rule(on=FAILED + ', stop = ["pause"]'), 4, "rules.append[0].on", "failure and stop",
        "one of them", "two rules",
    ),
    "a rule that could go on for ever": Bad(
        _rule(more=""), 2, "rules.append[0]", "no limit", "a limit or a budget", "add limit"
    ),
    "a safety stop that is retried": Bad(
        _rule(on='stop = ["safety", "length"]'), 4, "rules.append[0].on.stop", "safety",
        "may be recovered", "neither retried nor continued",
    ),
    "a retry after output": Bad(
        _rule(on=FAILED + ", attempt_visible = true"), 5, "rules.append[0].action",
        "'retry' after output", "continue", "attempt_visible = false",
    ),
    "a continuation of nothing": Bad(
        _rule(on=FAILED + ", partial = false", action="continue"), 5, "rules.append[0].action",
        "partial = false", "retry", "partial = true",
    ),
    "a resume that no strategy allows": Bad(
        _rule(action="resume"), 5, "rules.append[0].action", "'resume'", "strategy",
        "continuation.strategies",
    ),
    "a first delay above the largest": Bad(
        "[backoff.transient]\ninitial_s = 50.0", 3, "backoff.transient.initial_s",
        "initial_s = 50 above max_s = 32", "at most max_s", "raise max_s",
    ),
    "a window below the shortest overlap": Bad(
        "seam.prefill.window = 5", 2, "seam.prefill.window", "window = 5", "min_overlap",
        "raise window",
    ),
    "a strategy twice": Bad(
        'continuation.strategies = ["instruct", "instruct"]', 2, "continuation.strategies",
        "twice", "strategies", "once",
    ),
    "no strategy": Bad(
        "continuation.strategies = []", 2, "continuation.strategies", "no strategy",
        "one or more", "name each",
    ),
}  # fmt: skip


BLOCKS = {
    "half a tool call is never kept": Bad(
        '[blocks.tool_use]\nopen = "keep"', 3, "blocks.tool_use.open", '"keep"', '"discard"',
        "change",
    ),
    "half a tool call is never shown": Bad(
        '[blocks.tool_use]\nrelease = "live"', 3, "blocks.tool_use.release", '"live"',
        '"closed", "turn"', "change",
    ),
    "half a call of the provider's tools is never shown": Bad(
        '[blocks.server_tool]\nrelease = "live"', 3, "blocks.server_tool.release", '"live"',
        '"paired"', "change",
    ),
    "half a thought is never kept": Bad(
        '[blocks.thinking]\nopen = "keep"', 3, "blocks.thinking.open", '"keep"', '"discard"',
        "change",
    ),
    "half a picture is never kept": Bad(
        '[blocks.media]\nopen = "keep"', 3, "blocks.media.open", '"keep"', '"discard"', "change"
    ),
    "unsigned thinking is not kept where it is refused": Bad(
        'dialect = "anthropic_messages"\n[blocks.thinking]\nclosed = "keep"', 4,
        "blocks.thinking.closed", '"keep"', '"keep_if_signed"', "unsigned",
    ),
    "one tag": Bad(
        'blocks.thinking.tags = ["<think>"]', 2, "blocks.thinking.tags", "1 tags", "two",
        '"</think>"',
    ),
    "all or none without waiting for the end": Bad(
        'blocks.tool_use.parallel = "all_or_none"', 2, "blocks.tool_use.parallel",
        'release = "closed"', 'release = "turn"', "taken back",
    ),
}  # fmt: skip


PROVIDER = {
    "a pattern that does not compile": Bad(
        "[[classify.prepend]]\nkind = 'unknown'\nmessage = '(a'", 4, "classify.prepend[0].message",
        "does not compile", "bounded regular expression", "correct it",
    ),
    "a pattern without an end": Bad(
        "[[classify.prepend]]\nkind = 'unknown'\nmessage = 'a.*b'", 4,
        "classify.prepend[0].message", "without an end", "bounded regular expression", "{0,n}",
    ),
    "a pattern in a pattern": Bad(
        "[[retry_hints.append]]\nmessage = '(a{1,9}){1,9}'", 3, "retry_hints.append[0].message",
        "itself repeats", "bounded regular expression", "write the group out",
    ),
    "a pattern of more than 400 characters": Bad(
        f"[[classify.prepend]]\nkind = 'unknown'\nmessage = '{'a' * 401}'", 4,
        "classify.prepend[0].message", "401 characters", "at most 400", "change the value",
    ),
    "a row that is never reached": Bad(
        "[[classify.append]]\nkind = 'unknown'\nstatus = [401]", 2, "classify.append[0]",
        "an earlier row takes", "can be reached", "move it before",
    ),
    "a hint that says no place": Bad(
        "[[retry_hints.append]]\nunit = 's'", 2, "retry_hints.append[0]", "nothing",
        "one of header, json_path, message", "one row for each place",
    ),
    "a hint without a number": Bad(
        "[[retry_hints.append]]\nmessage = 'again in 3 s'", 3, "retry_hints.append[0].message",
        "without a group", "a group for the wait", "brackets",
    ),
    "a slip in a template": Bad(
        "continuation.instruct.message = 'It ended with {tial}.'", 2,
        "continuation.instruct.message", "{tial}", "{tail}", "{tail}?",
    ),
}  # fmt: skip


MACHINE = {
    "an unknown trigger": Bad(
        ROW.format("canceled", "backoff", "aborted", ""), 3, "machine.transitions[0].trigger",
        "'canceled'", "cancelled, yielded", "'cancelled'?",
    ),
    "a transition from nowhere": Bad(
        ROW.format("failed", "streming", "exhausted", ""), 4, "machine.transitions[0].source",
        "'streming'", "streaming, interrupted", "'streaming'?",
    ),
    "a transition to nowhere": Bad(
        ROW.format("failed", "streaming", "exhaused", '"recoverable"'), 5,
        "machine.transitions[0].dest", "'exhaused'", "exhausted, aborted, =", "'exhausted'?",
    ),
    "an unknown guard": Bad(
        ROW.format("failed", "streaming", "exhausted", '"not_recoverble"'), 6,
        "machine.transitions[0].when[0]", "'not_recoverble'", "recoverable, stopped", "recoverable",
    ),
    "a guard that is near to none": Bad(
        ROW.format("failed", "streaming", "exhausted", '"zzz"'), 6,
        "machine.transitions[0].when[0]", "'zzz'", "recoverable, stopped", "register",
    ),
    "a way out of the end": Bad(
        ROW.format("failed", "completed", "streaming", ""), 4, "machine.transitions[0].source",
        "'completed'", "not final", "remove the row",
    ),
    "a last row with guards": Bad(
        ROW.format("opened", "backoff", "=", '"recoverable"'), 6, "machine.transitions[0].when",
        "'opened' in 'backoff'", "without guards", "without when",
    ),
    "a wait that leads to itself": Bad(
        ROW.format("waited", "backoff", "=", '"recoverable"') + "\n" + ROW.format(
            "waited", "backoff", "continuing", ""
        ) + "\nreplace = true",
        5, "machine.transitions[0].dest", "a circle", "goes on", "resume",
    ),
    "a cut that is a success": Bad(
        ROW.format("failed", "streaming", "completed", '"not_turn_complete"'),
        5, "machine.transitions[0].dest", "'failed' leads to 'completed'", "assessed", "assess",
    ),
    "a row before one that it hides": Bad(
        ROW.format("opened", "streaming", "=", "")
        + "\nreplace = true\n"
        + ROW.format("opened", "streaming", "interrupted", '"recoverable"'),
        2, "machine.transitions[0]", "'opened' in 'streaming'", "a chance", "move it behind",
    ),
    "a row that takes the parent's place without saying so": Bad(
        ROW.format("failed", "streaming", "interrupted", ""), 2, "machine.transitions[0]",
        "'failed' in 'streaming'", "a chance", "replace = true",
    ),
    "cancel must win": Bad(
        ROW.format("cancelled", "streaming", "interrupted", '"recoverable"'), 5,
        "machine.transitions[0].dest", "'cancelled' leads to 'interrupted'", "'aborted'",
        "end the turn",
    ),
    "a question that the promises need": Bad(
        ROW.format("finished", "streaming", "completed", "") + "\nreplace = true", 2,
        "machine.transitions[0]", "without the guard 'needs_recovery'", "needs_recovery",
        "never be tried",
    ),
    "a state that nothing leads to": Bad(
        '[[machine.states]]\nname = "pause"\nrole = "wait"\n'
        + ROW.format("waited", "pause", "continuing", ""),
        2, "machine.states[0]", "'pause'", "a way to it", 'dest = "pause"',
    ),
    "a second state of a role there is one of": Bad(
        '[[machine.states]]\nname = "two"\nrole = "assess"', 2, "machine.states",
        "2 states of role 'assess'", "exactly one", "keep one",
    ),
    "a final state whose outcome is not known": Bad(
        '[[machine.states]]\nname = "parked"\nrole = "final"', 2, "machine.states[0]", "'parked'",
        "the outcome", "completed, exhausted, aborted",
    ),
    "a second state for one outcome": Bad(
        '[[machine.states]]\nname = "parked"\nrole = "final"\noutcome = "exhausted"', 2,
        "machine.states", "2 final states for 'exhausted'", "one final state", "exactly one",
    ),
    "an outcome of a state that is not final": Bad(
        '[[machine.states]]\nname = "backoff"\nrole = "wait"\noutcome = "aborted"', 5,
        "machine.states[0].outcome", "an outcome", "final", "remove outcome",
    ),
    "a beginning that does not exist": Bad(
        '[machine]\ninitial = "streming"', 3, "machine.initial", "'streming'", "streaming",
        "'streaming'?",
    ),
    "a beginning that is no beginning": Bad(
        '[machine]\ninitial = "committing"', 3, "machine.initial", "'committing'",
        "role stream", "begin",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(bad, id=promise)
        for table in (RULES, BLOCKS, PROVIDER, MACHINE)
        for promise, bad in table.items()
    ],
)
def test_bad_meaning(tmp_path: Path, bad: Bad) -> None:
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
