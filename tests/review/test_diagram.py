"""Diagrams say what the policy's table says, and nothing else."""

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from midthought.policies import Policy, list_policies, load_policy
from midthought.review import (
    Paint,
    diagram_text,
    dot,
    ladder_dot,
    ladder_of,
    ladder_text,
    mermaid,
    render,
    view_of,
)

BASE = load_policy("base")
WAITING = """
name = "waiting"
extends = ["openai-chat"]
[[machine.states]]
name = "cooldown"
role = "wait"
[[machine.transitions]]
trigger = "waited"
source = "backoff"
dest = "cooldown"
replace = true
[[machine.transitions]]
trigger = "waited"
source = "cooldown"
dest = "continuing"
"""


def rows(policy: Policy) -> Counter[tuple[str, str, str]]:
    """(source, trigger, dest) of every row, without the ones every live state has."""
    always = {"cancelled", "yielded", "deadline_passed"}
    return Counter(
        (row.source, row.trigger, row.source if row.dest == "=" else row.dest)
        for row in policy.machine.transitions
        if row.trigger not in always
    )


def test_mermaid_has_every_row_once() -> None:
    """Each row of the table is one arrow with its trigger, and there is no other arrow."""
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)", mermaid(view_of(BASE)), re.MULTILINE)

    assert rows(BASE) == Counter((s, t, d) for s, d, t in drawn)


def test_every_line_of_mermaid_is_of_its_grammar() -> None:
    """Nothing but transitions, classes and comments: no label breaks a line or a statement."""
    view, paint = view_of(BASE), Paint(taken={("streaming", "failed", "interrupted")})
    lines = mermaid(view, paint).splitlines()
    allowed = re.compile(
        r"    (\w+|\[\*\]) --> (\w+|\[\*\])(: [^:;#%]*(: [^:;#%]*)?)?"
        r"|    %% .*|    classDef \w+ [\w:#,]+|    class [\w,]+ \w+"
    )

    assert ["---", "title: base", "---", "stateDiagram-v2"] == lines[:4]
    assert [] == [line for line in lines[4:] if not allowed.fullmatch(line)]


def test_start_and_finals_are_marked() -> None:
    """The diagram has a beginning, and each final state an end."""
    drawn = mermaid(view_of(BASE))

    assert "[*] --> streaming" in drawn
    assert 3 == len(re.findall(r"^    \w+ --> \[\*\]$", drawn, re.MULTILINE))


def test_guards_and_limits_stand_on_the_edges() -> None:
    """A guard is written in brackets, a limit with its number from the policy."""
    policy = BASE.model_copy(update={"limits": BASE.limits.model_copy(update={"attempts": 7})})
    drawn = diagram_text(view_of(policy))

    assert "assessed [turn_complete]" in drawn
    assert "at most 7 requests" in drawn


def test_text_shows_every_state(tmp_path: Path) -> None:
    """An added state is drawn like the shipped ones, with the rows every live state has."""
    path = tmp_path / "waiting.toml"
    path.write_text(WAITING, "utf-8")
    drawn = diagram_text(view_of(load_policy(path)))

    assert "cooldown  (wait)" in drawn
    assert "→ cooldown" in drawn
    cooldown = drawn[drawn.index("○ cooldown") :]
    assert "cancelled" in cooldown.split("\n\n")[0]


@pytest.mark.parametrize("name", ["base", "anthropic", "strict"])
def test_svg_is_the_same_every_time(name: str) -> None:
    """The same policy gives the same bytes, and they are well-formed SVG with every state in it."""
    view = view_of(load_policy(name))
    first, second = render(dot(view), "svg"), render(dot(view), "svg")
    root = ElementTree.fromstring(first)
    words = " ".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("text"))

    assert first == second
    assert [] == [node.name for node in view.nodes if node.name not in words]


def test_paint_marks_what_a_turn_took() -> None:
    """The edges of a recorded way are marked in every form that a person reads."""
    paint = Paint(taken={("streaming", "failed", "interrupted")})
    view = view_of(BASE)

    assert "● failed" in diagram_text(view, paint)
    assert "taken: failed" in mermaid(view, paint)
    assert 1 == dot(view, paint).count('color="#1d4ed8", fontcolor')
    assert "taken" in render(dot(view, paint), "svg").decode()


def test_ladder_keeps_the_order_of_the_rules() -> None:
    """Under each failure kind stand its rules in the order they are tried, with their bounds."""
    drawn = ladder_text(ladder_of(load_policy("anthropic")))
    overloaded = drawn[drawn.index("\noverloaded") :].split("\n\n")[0]

    places = [overloaded.index(word) for word in ("storm", "busy", "cut")]
    assert places == sorted(places)
    assert "10 of budget transient" in overloaded
    assert "waits 1, 2, 4 … 16 s" in overloaded


def test_ladder_svg_has_every_rule() -> None:
    """Every rule of the policy is in the picture."""
    policy = load_policy("anthropic")
    picture = render(ladder_dot(ladder_of(policy)), "svg").decode()

    assert [] == [rule.name for rule in policy.rules if rule.name not in picture]


@pytest.mark.parametrize("name", [info.name for info in list_policies()])
def test_the_ladder_is_in_the_order_of_the_rules(name: str) -> None:
    """From top to bottom the picture lists the kinds as the rules first name them."""
    ladder = ladder_of(load_policy(name))
    root = ElementTree.fromstring(render(ladder_dot(ladder), "svg"))
    heights: dict[str, float] = {}
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        heights.setdefault("".join(element.itertext()).strip(), float(element.attrib["y"]))
    first_of_rule: dict[str, float] = {}
    for kind, rungs in ladder.rows:
        first_of_rule.setdefault(rungs[0].rule, heights[kind])

    assert sorted(first_of_rule.values()) == list(first_of_rule.values())


@pytest.mark.parametrize("name", [info.name for info in list_policies()])
def test_no_label_lies_over_another_or_a_state(name: str) -> None:
    """In the picture of every shipped policy texts keep their distance from each other."""
    root = ElementTree.fromstring(render(dot(view_of(load_policy(name))), "svg"))
    boxes = []
    for element in root.iter("{http://www.w3.org/2000/svg}text"):
        said = "".join(element.itertext()).strip("\u00a0 ")
        x, y = float(element.attrib["x"]), float(element.attrib["y"])
        size = float(element.attrib["font-size"])
        wide = len(said) * size * 0.5
        left = {"start": x, "end": x - wide}.get(
            element.attrib.get("text-anchor", ""), x - wide / 2
        )
        boxes.append((said, left, left + wide, y - size * 0.7, y))
    over = [
        (a[0], b[0])
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if a[1] < b[2] and b[1] < a[2] and a[3] < b[4] and b[3] < a[4]
    ]

    assert [] == over
