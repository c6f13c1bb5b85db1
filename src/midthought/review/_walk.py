"""Every way through a machine: which states and rows a turn can come to, and what goes wrong there.

Explores all moments of a turn: the state, whether upstream is open, what is being dealt with and
whether a request is planned. Guards are asked as the engine asks them; facts that a policy's rules
decide, and a host's own guards, are taken both ways. So no way of a real turn is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from midthought.policies import GUARDS, MachineTable, Transition

from ._guards import GuardFacts, says
from ._moments import ANSWERS, HOST, Moment, Step, asked, happens, told, wrong_end

__all__ = ["Flaw", "Walk", "walk"]


class Flaw(NamedTuple):
    """Something that goes wrong: its kind, the row (or state) that leads there, and the way."""

    kind: str
    place: tuple[str | int, ...]
    found: str
    expected: str
    hint: str
    way: str


class Walk(NamedTuple):
    """What was found."""

    states: frozenset[str]
    edges: frozenset[tuple[str, str, str]]
    rows: frozenset[int]
    """Rows of the table that can be taken."""
    long_waits: bool
    """A wait over ``limits.wait_s`` can be slept."""
    flaws: tuple[Flaw, ...]


@lru_cache(maxsize=64)
def walk(machine: MachineTable, *, finishes: bool = True) -> Walk:
    """Explore a machine that the loader takes; ``finishes``: a rule may accept the partial."""
    return _Walker(machine, finishes=finishes).run()


class _Walker:
    def __init__(self, machine: MachineTable, *, finishes: bool) -> None:
        self.machine = machine
        self.answers = [answer for answer in ANSWERS if finishes or answer != "finish"]
        self.roles = {state.name: state.role for state in machine.states}
        self.outcomes = {s.name: s.outcome or s.name for s in machine.states if s.role == "final"}
        self.cells: dict[tuple[str, str], list[tuple[int, Transition]]] = {}
        for place, row in enumerate(machine.transitions):
            self.cells.setdefault((row.source, row.trigger), []).append((place, row))
        self.came: dict[Moment, tuple[Moment | None, str, int]] = {}
        self.next: dict[Moment, set[Moment]] = {}
        """What follows by itself, without the caller or a deadline."""
        self.broken: set[Moment] = set()
        """Where the engine would raise."""
        self.edges: set[tuple[str, str, str]] = set()
        self.rows: set[int] = set()
        self.long_waits = False
        self.flaws: dict[tuple[str, tuple[str | int, ...]], Flaw] = {}

    def run(self) -> Walk:
        first = Moment(self.machine.initial, open=True)
        self.came[first] = (None, "", -1)
        todo = [first]
        while todo:
            moment = todo.pop()
            for step in self._steps(moment):
                after = self._after(step)
                if after is None:
                    self.broken.add(moment)
                    continue
                if step.trigger not in HOST:
                    self.next.setdefault(moment, set()).add(after)
                if after not in self.came:
                    self.came[after] = (moment, step.trigger, step.place)
                    todo.append(after)
        self._standing()
        self._circles()
        states = frozenset(moment.state for moment in self.came)
        flaws = tuple(self.flaws.values())
        return Walk(states, frozenset(self.edges), frozenset(self.rows), self.long_waits, flaws)

    # --- what can happen --------------------------------------------------------------------------

    def _steps(self, moment: Moment) -> Iterator[Step]:
        """Every row that can be taken from here, whatever happens."""
        for trigger, before in happens(moment, self.roles[moment.state], self.answers):
            cell = self.cells.get((before.state, trigger))
            if cell is None:
                self.broken.add(moment)
                self._no_row(moment, trigger)
                continue
            for facts in asked(before, self.roles[before.state]):
                for guests in self._guests(cell):
                    for place, row in cell:
                        if all(_holds(name, facts, guests) for name in row.when):
                            yield Step(trigger, before, place, row, facts)
                            break

    def _guests(self, cell: list[tuple[int, Transition]]) -> Iterator[dict[str, bool]]:
        """All answers of guards that a host brought."""
        names = {name.removeprefix("not_") for _, row in cell for name in row.when}
        own = sorted(names - set(GUARDS))
        for said in product((False, True), repeat=len(own)):
            yield dict(zip(own, said, strict=True))

    # --- what follows -----------------------------------------------------------------------------

    def _after(self, step: Step) -> Moment | None:
        """The moment after a step; ``None`` where the engine would have raised."""
        before, row = step.before, step.row
        dest = row.source if row.dest == "=" else row.dest
        self.rows.add(step.place)
        self.edges.add((row.source, row.trigger, dest))
        if step.trigger in HOST:
            return Moment(dest)
        role = self.roles[dest]
        if role == "final":
            self._end(step, self.outcomes[dest])
            return Moment(dest)
        if step.trigger == "answered" and self.roles[row.source] == "commit" and dest != row.source:
            hint = 'write dest = "=": the plan is committed from there'
            self._flaw("no-row", step, "the state of role commit", hint)
            return None
        after = before._replace(state=dest)
        if step.trigger == "committed":
            after = after._replace(fits=step.facts.wait_fits)
            idle = 0 < step.facts.no_progress_limit <= step.facts.idle_continuations
            # A row that asks for something else goes on because of that.
            if idle and (not row.when or "no_progress" in row.when):
                self._flaw("standstill", step, "the end of the turn", "let it lead to exhausted")
        if dest == before.state:
            return after
        return self._entered(step, after, role)

    def _entered(self, step: Step, after: Moment, role: str) -> Moment | None:
        planned = after.plan in ("go", "finish")
        if after.open and role not in ("stream", "resume"):
            hint = "lead there when the attempt has failed or finished"
            self._flaw("left-open", step, "a state that follows the stream", hint)
            return None
        if role == "stream" and not after.open:
            return after  # nothing will come: found as standing still
        if role == "assess":
            return Moment(after.state, failed=after.failed, whole=after.whole)
        if role == "commit":
            if step.trigger != "assessed":
                return after
            plan = "none" if after.failed and after.whole else after.answer
            return after._replace(plan=plan)
        if role == "ask" and not planned:
            self._flaw("no-plan", step, "a state without a plan", "ask after committed only")
            return None
        if role == "wait" and after.plan == "go":
            self.long_waits |= not after.fits
            return after._replace(waited=True)
        if role == "resume" and not after.open:
            if after.plan != "go":
                hint = "go there from committed, by way of a state of role wait"
                self._flaw("no-plan", step, "a state that needs no request", hint)
                return None
            if not after.waited:
                hint = "go there by way of a state of role wait"
                self._flaw("skipped-wait", step, "a state of role wait before it", hint)
            return Moment(after.state, open=True)
        return after

    def _end(self, step: Step, outcome: str) -> None:
        wrong = wrong_end(step, outcome)
        if wrong and not self._is_guest(step.row):
            self._flaw("false-end", step, wrong, "change dest, or ask the guard that tells them")

    def _is_guest(self, row: Transition) -> bool:
        return any(name.removeprefix("not_") not in GUARDS for name in row.when)

    # --- what is wrong ----------------------------------------------------------------------------

    def _flaw(self, kind: str, step: Step, expected: str, hint: str) -> None:
        row = step.row
        found = f"{row.trigger!r} in {row.source!r} leads to {row.dest!r}"
        if kind == "false-end":
            found += f" {told(step)}"
        way = self._way(step.before, step)
        place = ("machine", "transitions", step.place)
        self.flaws.setdefault((kind, place), Flaw(kind, place, found, expected, hint, way))

    def _state_flaw(self, kind: str, moment: Moment, found: str, expected: str, hint: str) -> None:
        names = [state.name for state in self.machine.states]
        place = ("machine", "states", names.index(moment.state))
        flaw = Flaw(kind, place, found, expected, hint, self._way(moment))
        self.flaws.setdefault((kind, place), flaw)

    def _no_row(self, moment: Moment, trigger: str) -> None:
        found = f"no row for {trigger!r} in {moment.state!r}, where it can happen"
        hint = f"add one, or let {self._last(moment)!r} lead to a state that has it"
        self._state_flaw("no-row", moment, found, f"a row for {trigger!r}", hint)

    def _standing(self) -> None:
        """Moments from which no end is reached unless the caller or a deadline makes one."""
        alive = {m for m in self.came if self.roles[m.state] == "final"} | self.broken
        back: dict[Moment, set[Moment]] = {}
        for moment, afters in self.next.items():
            for after in afters:
                back.setdefault(after, set()).add(moment)
        todo = list(alive)
        while todo:
            fresh = back.get(todo.pop(), set()) - alive
            alive |= fresh
            todo += fresh
        for moment in self.came.keys() - alive:
            found = f"{moment.state!r} with nothing to come"
            hint = "lead to a state in which something happens"
            self._state_flaw("no-way-out", moment, found, "a way on to an end", hint)

    def _circles(self) -> None:
        """Circles in which no rule is used: every use of one is counted, and requests are too."""
        free = {
            moment: [after for after in afters if not self._pays(moment, after)]
            for moment, afters in self.next.items()
        }
        colour: dict[Moment, int] = {}
        for start in free:
            self._dive(start, free, colour)

    def _dive(
        self, start: Moment, free: dict[Moment, list[Moment]], colour: dict[Moment, int]
    ) -> None:
        stack = [(start, iter(free.get(start, ())))] if start not in colour else []
        colour.setdefault(start, 1)
        while stack:
            moment, afters = stack[-1]
            after = next(afters, None)
            if after is None:
                colour[moment] = 2
                stack.pop()
            elif colour.get(after) == 1:
                found = f"a circle through {after.state!r} and {moment.state!r}"
                hint = "let one of its rows lead on"
                self._state_flaw("free-cycle", after, found, "a way that ends", hint)
            elif after not in colour:
                colour[after] = 1
                stack.append((after, iter(free.get(after, ()))))

    def _pays(self, moment: Moment, after: Moment) -> bool:
        role = self.roles[after.state]
        entered = moment.state != after.state
        return entered and ((role == "commit" and after.plan != "none") or role == "resume")

    # --- the way there ----------------------------------------------------------------------------

    def _last(self, moment: Moment) -> str:
        return self.came[moment][1] or "the beginning"

    def _way(self, moment: Moment, step: Step | None = None) -> str:
        """States and triggers from the beginning, the shortest that was found."""
        parts: list[str] = [f"{step.trigger} -> {step.row.dest}"] if step is not None else []
        known = moment if moment in self.came else None
        if known is None:  # the moment of a step: what happened was added to where the turn was
            known = next((m for m in self.came if m.state == moment.state), None)
        while known is not None:
            before, trigger, _ = self.came[known]
            parts.append(f"{trigger} -> {known.state}" if trigger else known.state)
            known = before
        return ", ".join(reversed(parts))


def _holds(name: str, facts: GuardFacts, guests: dict[str, bool]) -> bool:
    word = name.removeprefix("not_")
    said = guests[word] if word in guests else says(word, facts)
    return said is not name.startswith("not_")
