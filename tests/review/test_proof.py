"""What the prover finds in policies made for it, and where it says that it is."""

import time
from pathlib import Path

import pytest

from midthought.policies import FailureKind, list_policies, load_policy, register_guard_name
from midthought.review import KINDS, Proof, prove, worst_case
from midthought.statemachine import register_guard


def _prove(tmp_path: Path, text: str, extends: str = "base") -> Proof:
    path = tmp_path / "mine.toml"
    path.write_text(f'extends = ["{extends}"]\n{text}', "utf-8")
    return prove(path)


def _kinds(proof: Proof, *severities: str) -> set[str]:
    return {f.kind for f in proof.findings if f.severity in (severities or ("error", "warning"))}


@pytest.mark.parametrize("name", [info.name for info in list_policies()])
def test_shipped_policies_are_proved(name: str) -> None:
    """Every policy that ships has neither an error nor a warning."""
    assert set() == _kinds(prove(name))


def test_all_of_them_take_no_time() -> None:
    """All shipped policies are proved in less CPU time than ten seconds."""
    started = time.process_time()
    for info in list_policies():
        prove(info.name)

    assert time.process_time() - started < 10


def test_place_of_a_finding(tmp_path: Path) -> None:
    """A finding names the file, line and path where the value is written, in a parent too."""
    proof = _prove(tmp_path, "[clocks]\nheaders_s = 10\nliveness_s = 0\n")
    (finding,) = [f for f in proof.findings if f.kind == "dead-clock"]
    (storm,) = [f for f in proof.findings if "'storm'" in f.fault.found]

    assert (str(tmp_path / "mine.toml"), 4) == (finding.fault.file, finding.fault.line)
    assert "clocks.liveness_s" == finding.fault.path
    assert storm.fault.file.endswith("base.toml") and storm.fault.line


def test_what_no_file_writes_has_no_line(tmp_path: Path) -> None:
    """A value of the defaults is told at the file that was asked for."""
    rule = '[[rules.append]]\nname = "x"\non = { failure = ["runaway"], in_a_row = 99 }\n'
    proof = _prove(tmp_path, rule + 'action = "retry"\nlimit = 1\n')

    assert {"impossible-rule"} == _kinds(proof)


def test_faults_of_the_loader_are_findings(tmp_path: Path) -> None:
    """What the loader refuses is reported in the same way, all of it."""
    proof = _prove(tmp_path, "[limits]\nattemps = 3\n[clocks]\nheaders_s = true\n")

    assert ["load", "load"] == [finding.kind for finding in proof.findings]
    assert proof.worst is None and not proof.is_safe


SHADOW = """
[[rules.prepend]]
name = "all"
on = { failure = ["overloaded", "rate_limited"] }
action = "stop"
[[rules.append]]
name = "late"
on = { failure = ["rate_limited"], status = [429] }
action = "retry"
limit = 1
"""


def test_a_shadowed_rule_names_what_is_before_it(tmp_path: Path) -> None:
    """A rule that is never reached is an error, with the names of the rules that take its place."""
    found = [f for f in _prove(tmp_path, SHADOW).findings if f.kind == "shadowed-rule"]

    assert ["'storm' behind all", "'late' behind all"] == [f.fault.found for f in found]


def test_a_mistake_for_some_models_is_found(tmp_path: Path) -> None:
    """An entry of [[models]] is proved like the policy, and told with its patterns."""
    proof = _prove(tmp_path, '[[models]]\nmatch = ["old-*"]\nlimits.attempts = 1\n')
    (finding,) = [f for f in proof.findings if f.severity == "error"]

    assert (("old-*",), 4, "zero-limit") == (finding.models, finding.fault.line, finding.kind)
    assert [(("old-*",), 1)] == [(models, worst.requests) for models, worst in proof.by_models]


TWO = """
exhaust.remove = ["runaway"]
[[rules.append]]
name = "first"
on = { failure = ["runaway"] }
action = "retry"
limit = 1
[[rules.append]]
name = "second"
on = { failure = ["runaway"] }
action = "retry"
limit = 1
"""


def test_a_rule_behind_one_that_is_used_up_is_alive(tmp_path: Path) -> None:
    """Two rules of one condition with a limit each are no shadow: the second follows the first."""
    assert set() == _kinds(_prove(tmp_path, TWO))
    assert {"shadowed-rule"} == _kinds(_prove(tmp_path, TWO.replace('"retry"', '"stop"')))


PATIENT = """
[[machine.states]]
name = "queued"
role = "wait"
[[machine.transitions]]
trigger = "committed"
source = "committing"
dest = "queued"
when = ["wait_too_long"]
[[machine.transitions]]
trigger = "waited"
source = "queued"
dest = "continuing"
"""


def test_a_machine_that_sleeps_long_waits_has_no_bound_of_its_own(tmp_path: Path) -> None:
    """Where long waits are slept, limits.wait_s bounds nothing, and the report says so."""
    text = "limits.wait_s = 30\n" + PATIENT
    proof = _prove(tmp_path, text)

    assert "slow-wait" in _kinds(proof, "note") and proof.is_safe
    assert proof.worst is not None and proof.worst.wait_s > 30


LIMBO = """
[[machine.states]]
name = "limbo"
role = "wait"
[[machine.transitions]]
trigger = "finished"
source = "streaming"
dest = "limbo"
when = ["turn_complete"]
[[machine.transitions]]
trigger = "waited"
source = "limbo"
dest = "continuing"
"""


def test_a_state_behind_guards_that_never_hold_is_found(tmp_path: Path) -> None:
    """A way on paper is no way: a reply that finished cannot have failed."""
    assert {"unreachable-state", "unreachable-row"} == _kinds(_prove(tmp_path, LIMBO))


def test_guards_of_a_host_are_taken_both_ways(tmp_path: Path) -> None:
    """A host's guard may say yes or no: what lies behind it is reached."""
    try:
        register_guard("night_in_the_proof", lambda turn: False)
    except ValueError:
        register_guard_name("night_in_the_proof")
    text = PATIENT.replace('"wait_too_long"', '"night_in_the_proof", "not_turn_complete"')

    assert set() == _kinds(_prove(tmp_path, text))


def test_a_guard_of_a_host_before_the_promises_is_found(tmp_path: Path) -> None:
    """At night a turn that is complete would go on without a request: the engine would raise."""
    register_guard_name("noon_in_the_proof")
    text = PATIENT.replace("wait_too_long", "noon_in_the_proof")

    assert "no-plan" in _kinds(_prove(tmp_path, text))


def test_a_way_to_the_flaw_is_told(tmp_path: Path) -> None:
    """A flaw of the machine comes with a way from the beginning to it."""
    rows = (
        '[[machine.transitions]]\ntrigger = "failed"\nsource = "streaming"\ndest = "continuing"\n'
    )
    proof = _prove(tmp_path, rows + "replace = true\n")
    (finding,) = [f for f in proof.findings if f.kind == "no-plan"]

    assert "way: streaming, failed -> continuing" in finding.fault.hint


def test_a_policy_without_rules_is_proved(tmp_path: Path) -> None:
    """No rule, no second request: the worst case is one."""
    kinds = ", ".join(f'"{kind.value}"' for kind in FailureKind)
    proof = _prove(tmp_path, f"rules = []\nexhaust = [{kinds}]\n")

    assert proof.is_safe and proof.worst is not None
    assert (1, 0.0, 0) == (proof.worst.requests, proof.worst.hinted_wait_s, proof.worst.repeats)


def test_recovery_switched_off_costs_nothing() -> None:
    """`enabled = false` sends one request, whatever the rules say."""
    policy = load_policy("base").model_copy(update={"enabled": False})

    assert 1 == worst_case(policy).requests


def test_every_kind_says_why() -> None:
    """Each kind of finding has a title and a reason that are sentences of their own."""
    for name, kind in KINDS.items():
        assert name == name.lower() and kind.title[0].isupper() and kind.why.endswith("."), name
