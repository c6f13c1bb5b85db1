"""Sweeps of ``midthought simulate``: the same turns under a range of settings, and a plot."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from midthought.policies import Policy
from midthought.review import Faults, Report, simulate

from ._errors import CommandError

__all__ = ["plot", "swept"]

Point = tuple[dict[str, object], Report]


def swept(
    policy: Policy,
    faults: Faults,
    sweeps: Sequence[str],
    *,
    turns: int,
    seed: int,
    note: Callable[[str], None],
) -> list[Point]:
    """Simulate every combination of one or two ``key=first..last`` or ``key=a,b,c``."""
    if len(sweeps) > 2:
        raise CommandError(f"{len(sweeps)} sweeps, expected one or two", "leave some out")
    axes = [_axis(sweep) for sweep in sweeps]
    points: list[Point] = []
    for values in itertools.product(*(values for _, values in axes)):
        setting: dict[str, object] = dict(zip((key for key, _ in axes), values, strict=True))
        changed = policy
        for key, value in setting.items():
            changed = _with(changed, key, value)
        points.append((setting, simulate(changed, faults, turns=turns, seed=seed)))
        note(", ".join(f"{k} = {v}" for k, v in setting.items()))
    return points


#: A sweep of more values is a slip of the finger.
_MOST_VALUES = 1000


def _axis(sweep: str) -> tuple[str, Sequence[float | int]]:
    key, _, said = sweep.partition("=")
    hint = "write limits.attempts=1..8 or backoff.continuation.initial_s=0.5,1,2"
    values: Sequence[float | int]
    try:
        if ".." in said:
            first, last = (int(v) for v in said.split("..", 1))
            values = range(first, last + 1)
        else:
            values = [float(v) if "." in v else int(v) for v in said.split(",")]
    except ValueError:
        raise CommandError(f"--sweep {sweep!r} cannot be read", hint) from None
    if not values:
        raise CommandError(f"--sweep {sweep!r} is empty: the first value is the lower one", hint)
    if len(values) > _MOST_VALUES:
        raise CommandError(f"--sweep {sweep!r} has more than {_MOST_VALUES} values", hint)
    return key, values


def _with(policy: Policy, key: str, value: object) -> Policy:
    data: Any = policy.model_dump(mode="json", exclude_none=True)
    *folders, last = key.split(".")
    place = data
    for folder in folders:
        place = place.get(folder) if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place:
        raise CommandError(f"--sweep: the policy has no {key!r}", "midthought show lists its keys")
    place[last] = value
    try:
        return Policy.model_validate(data)
    except ValueError as error:
        said = str(error).splitlines()[2].strip() if "\n" in str(error) else str(error)
        raise CommandError(f"--sweep {key} = {value}: {said}", "correct the range") from None


def plot(points: Sequence[Point]) -> str:
    """Healed share and p95 of the added time over the first key, a line per second value."""
    keys = list(points[0][0])
    groups: dict[object, list[Point]] = {}
    for point in points:
        groups.setdefault(point[0].get(keys[1]) if len(keys) > 1 else None, []).append(point)
    panels: tuple[tuple[str, Callable[[Report], float], float | None], ...] = (
        ("healed share", _healed, 1.0),
        ("p95 added, s", _added, None),
    )
    xs = sorted({float(str(p[0][keys[0]])) for p in points})
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="760" height="340" '
        'font-family="sans-serif" font-size="12">'
        '<rect width="760" height="340" fill="#ffffff"/>'
    ]
    for number, (title, value, top) in enumerate(panels):
        most = top or max([value(r) for _, r in points] + [1e-9])
        parts.append(_panel(60 + number * 370, title, keys[0], xs, most))
        for line, (name, group) in enumerate(groups.items()):
            coords = [
                (_x(60 + number * 370, float(str(s[keys[0]])), xs), 260 - 200 * value(r) / most)
                for s, r in group
            ]
            colour = _COLOURS[line % len(_COLOURS)]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in coords)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in coords
            ]
            if name is not None and number == 0:
                said = escape(f"{keys[1]} = {name}")
                parts.append(f'<text x="70" y="{80 + 16 * line}" fill="{colour}">{said}</text>')
    return "".join([*parts, "</svg>\n"])


def _healed(report: Report) -> float:
    return report.figures[0].healed_share


def _added(report: Report) -> float:
    return report.figures[0].added_p95_s


_COLOURS = ("#1d4ed8", "#b45309", "#15803d", "#a21caf", "#b91c1c", "#4b5563")


def _x(left: float, value: float, xs: Sequence[float]) -> float:
    span = (xs[-1] - xs[0]) or 1.0
    return left + 280 * (value - xs[0]) / span


def _panel(left: float, title: str, key: str, xs: Sequence[float], most: float) -> str:
    ticks = "".join(
        f'<text x="{_x(left, x, xs):.1f}" y="278" text-anchor="middle">{x:g}</text>' for x in xs
    )
    return (
        f'<text x="{left}" y="40" font-size="14">{escape(title)}</text>'
        f'<path d="M{left} 60V260H{left + 290}" fill="none" stroke="#9ca3af"/>'
        f'<text x="{left - 6}" y="64" text-anchor="end">{most:.3g}</text>'
        f'<text x="{left - 6}" y="264" text-anchor="end">0</text>{ticks}'
        f'<text x="{left + 140}" y="300" text-anchor="middle">{escape(key)}</text>'
    )
