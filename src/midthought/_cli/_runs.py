"""``midthought explain``, ``replay`` and ``simulate``: what happened, and what would have."""

from __future__ import annotations

from pathlib import Path

from midthought.policies import Policy, PolicyError, load_policy
from midthought.review import (
    Decision,
    DiagramError,
    Report,
    Turn,
    dot,
    load_faults,
    painted,
    policy_of,
    read_run,
    render,
    replay,
    simulate,
    tell,
    tell_html,
    transitions_of,
    view_of,
)

from ._errors import CommandError, check_place, write_file
from ._pictures import find_turn
from ._sweep import plot, swept
from ._terminal import Terminal

__all__ = ["explain", "replayed", "simulated"]


def explain(terminal: Terminal, run: str, *, turn: str | None, html: str | None) -> int:
    """Tell the story of a run file's turns."""
    if html is not None:
        check_place(html)
    turns = _turns(terminal, run, turn)
    policies = {turn.turn_id: _policy_of(terminal, turn) for turn in turns}
    stories = {turn.turn_id: tell(turn, policies[turn.turn_id]) for turn in turns}
    if html is None:
        terminal.data("\n".join(stories.values()))
        return 0
    write_file(html, tell_html(turns, stories, _pictures(terminal, turns, policies)))
    return 0


def _turns(terminal: Terminal, run: str, turn: str | None) -> tuple[Turn, ...]:
    """The turns that are asked for; a torn line is said."""
    found = read_run(run)
    if found.torn:
        terminal.warning(f"the last line of {Path(run).name} is torn: used up to there")
    return (find_turn(run, turn),) if turn is not None else found.turns


def _policy_of(terminal: Terminal, turn: Turn) -> Policy | None:
    """The policy that the turn had, where it is still to be found."""
    name = str(turn.records[0]["policy"])
    try:
        found = policy_of(turn, load_policy(name))
    except PolicyError:
        terminal.warning(f"policy {name!r} is not found: its limits and its picture are left out")
        return None
    if found is None:
        terminal.warning(f"policy {name!r} has changed since: its limits and picture are left out")
    return found


def _pictures(
    terminal: Terminal, turns: tuple[Turn, ...], policies: dict[str, Policy | None]
) -> dict[str, str]:
    pictures: dict[str, str] = {}
    for turn in turns:
        policy = policies[turn.turn_id]
        if policy is None:
            continue
        try:
            drawn = dot(view_of(policy), painted(transitions_of(turn)))
            pictures[turn.turn_id] = render(drawn, "svg").decode()
        except DiagramError as error:
            terminal.warning(f"no picture: {error}")
            break
    return pictures


def replayed(terminal: Terminal, run: str, policy: str, *, turn: str | None, as_json: bool) -> int:
    """Play recorded turns through another policy."""
    other = load_policy(policy)
    turns = _turns(terminal, run, turn)
    for one in turns:
        found = replay(one, other)
        if as_json:
            row = {"turn_id": one.turn_id, "same": found.same, **found._asdict()}
            terminal.row({k: _plain(v) for k, v in row.items()})
            continue
        terminal.data(f"turn {one.turn_id}\n")
        for title, decisions in (("recorded", found.recorded), (policy, found.replayed)):
            terminal.data(f"  {title}\n")
            for d in decisions:
                took = f"{d.rule} ({d.action}), waits {_span(d)}" if d.rule else "no rule"
                terminal.data(f"    attempt {d.attempt}: {d.ended} → {took}\n")
        same = "the same" if found.same else "not the same"
        terminal.data(f"  {found.outcome_recorded} → {found.outcome_replayed}: {same}\n\n")
    return 0


def _span(decision: Decision) -> str:
    shortest, longest = f"{decision.wait_s:.3g}", f"{decision.longest_s:.3g}"
    return f"{shortest} s" if shortest == longest else f"{shortest} to {longest} s"


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [v._asdict() if hasattr(v, "_asdict") else v for v in value]
    return value


def simulated(
    terminal: Terminal,
    name: str,
    faults: str,
    *,
    turns: int,
    seed: int,
    sweep: list[str],
    plot_file: str | None,
    as_json: bool,
) -> int:
    """Try a policy on a fleet of turns in virtual time."""
    if turns < 1:
        raise CommandError(f"--turns is {turns}, expected at least 1", "correct the number")
    if plot_file is not None and not sweep:
        raise CommandError("--plot shows a sweep, and there is none", "add --sweep KEY=1..8")
    if plot_file is not None:
        check_place(plot_file)
    model = load_faults(faults)
    policy = load_policy(name)
    if not sweep:
        report = simulate(
            policy,
            model,
            turns=turns,
            seed=seed,
            progress=lambda done: terminal.note(f"{done} of {turns} turns"),
        )
        _show(terminal, report, as_json=as_json)
        return 0
    points = swept(policy, model, sweep, turns=turns, seed=seed, note=terminal.note)
    for setting, report in points:
        if not as_json:
            terminal.data(", ".join(f"{k} = {v}" for k, v in setting.items()) + "\n")
        _show(terminal, report, as_json=as_json, setting=setting)
    if plot_file is not None:
        write_file(plot_file, plot(points))
    return 0


def _show(
    terminal: Terminal, report: Report, *, as_json: bool, setting: dict[str, object] | None = None
) -> None:
    if as_json:
        for figures in report.figures:
            row = {"policy": report.policy, "faults": report.faults, "seed": report.seed}
            terminal.row({**row, **(setting or {}), **figures._asdict()})
        return
    head = ("", "healed", "p50 added", "p95", "p99", "requests", "paid", "wasted")
    rows = [head]
    for f in report.figures:
        rows.append(
            (
                f.player,
                f"{f.healed_share:.1%} of {f.broken}",
                f"{f.added_p50_s:.1f} s",
                f"{f.added_p95_s:.1f} s",
                f"{f.added_p99_s:.1f} s",
                f"{f.requests_per_turn:.2f}",
                f"{f.paid_tokens}",
                f"{f.wasted_tokens}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
    lines = [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
    first = report.figures[0]
    terminal.data(f"{report.policy} on {report.faults}, {first.turns} turns, seed {report.seed}\n")
    terminal.data("\n".join(lines) + "\n")
