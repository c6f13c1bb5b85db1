"""How the demo is shown: to a person as a story, to a program as rows. Knows no upstream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from rich.text import Text

from midthought.policies import Policy

from ._rows import RowTeller
from ._story import Story
from ._tally import Tally, total
from ._terminal import Terminal
from ._text import StageText
from ._turn import Teller

__all__ = ["Act", "Result", "Stage", "stage_for"]


@dataclass(frozen=True)
class Act:
    """One turn of the demo; ``says`` has what upstream does to attempt 0, 1, …"""

    prompt: str
    title: str
    says: Sequence[str]


@dataclass(frozen=True)
class Result:
    """How an act went."""

    act: Act
    tally: Tally
    equal: bool
    """Text and tool calls are those of the uncut reply."""
    healed: bool


class Stage(Protocol):
    """Shows the demo."""

    def opening(
        self, what: str, url: str, policy: Policy, model: str, changes: Sequence[str]
    ) -> None: ...

    def begin(self, act: Act) -> Teller: ...

    def over(self, result: Result) -> None: ...

    def closing(self, results: Sequence[Result]) -> None: ...


def stage_for(terminal: Terminal, *, as_json: bool) -> Stage:
    """The stage for a person, or for a program."""
    return RowStage(terminal) if as_json else TextStage(terminal)


class TextStage:
    """For a person."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._began = time.monotonic()
        self._acts = 0

    def opening(
        self, what: str, url: str, policy: Policy, model: str, changes: Sequence[str]
    ) -> None:
        """Say what is real and what is staged."""
        self._print(("midthought demo", "bold"))
        self._print(f"{what[:1].upper()}{what[1:]} on {url} breaks real HTTP streams;")
        self._print(f"the client heals them by the shipped policy {policy.name!r} (model {model}).")
        self._print((f"Shortened for the demo, in seconds: {', '.join(changes)}", "dim"))

    def begin(self, act: Act) -> Teller:
        """The title and the prompt; then the turn tells itself."""
        self._acts += 1
        self._print()
        self._print((f"{self._acts}. {act.title}", "bold"))
        self._print(("> ", "dim"), act.prompt)
        told = dict(enumerate(act.says))
        return Story(StageText(self._terminal), self._terminal.out, told.get)

    def over(self, result: Result) -> None:
        """Say whether it is the uncut reply."""
        verdict = "equal to the uncut reply" if result.equal else "NOT equal to the uncut reply"
        self._print(
            "  ", (f"{'reply':<12}", ""), (verdict, "green" if result.equal else "bold red")
        )

    def closing(self, results: Sequence[Result]) -> None:
        """The sums."""
        sums, healed = total(result.tally for result in results), sum(r.healed for r in results)
        spent = time.monotonic() - self._began
        times = sums.restart_output_tokens / max(1, sums.output_tokens)
        paid = _tokens(sums.output_tokens, sums.input_tokens)
        again = _tokens(sums.restart_output_tokens, sums.restart_input_tokens)
        self._print()
        self._print(("summary", "bold"))
        for name, facts in (
            ("turns", f"{healed} of {len(results)} healed, in {spent:.1f} s"),
            ("attempts", f"{sums.requests} requests, {sums.breaks} of them broken"),
            ("rescued", f"about {sums.rescued_tokens} tokens out of broken streams"),
            ("discarded", f"about {sums.discarded_tokens} tokens"),
            ("paid", f"about {paid}"),
            ("restarting", f"at each break: about {again}, {times:.1f} times the output"),
        ):
            self._print(f"  {name:<12}{facts}")

    def _print(self, *parts: str | tuple[str, str]) -> None:
        self._terminal.out.print(Text.assemble(*parts))


def _tokens(output: int, input_: int | None) -> str:
    return f"{output} tokens of output" + ("" if input_ is None else f" and {input_} of input")


class RowStage:
    """For a program."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def opening(
        self, what: str, url: str, policy: Policy, model: str, changes: Sequence[str]
    ) -> None:
        """One row."""
        facts = {"upstream": what, "url": url, "policy": policy.name, "model": model}
        self._terminal.row({"type": "demo_started", **facts, "changed": list(changes)})

    def begin(self, act: Act) -> Teller:
        """One row, then the turn's."""
        self._terminal.row({"type": "act_started", "title": act.title, "breaks": list(act.says)})
        return RowTeller(self._terminal)

    def over(self, result: Result) -> None:
        """One row."""
        facts = {"equal": result.equal, "healed": result.healed, **asdict(result.tally)}
        self._terminal.row({"type": "act_finished", "title": result.act.title, **facts})

    def closing(self, results: Sequence[Result]) -> None:
        """One row."""
        sums = asdict(total(result.tally for result in results))
        healed = all(result.healed for result in results)
        self._terminal.row({"type": "demo_finished", "healed": healed, **sums})
