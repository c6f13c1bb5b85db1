"""Stories of recorded turns as one self-contained HTML page: no script, nothing loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ._run_file import Turn

__all__ = ["tell_html"]


def tell_html(
    turns: Sequence[Turn], stories: Mapping[str, str], pictures: Mapping[str, str]
) -> str:
    """By turn id: ``stories`` are what ``tell`` says, ``pictures`` painted diagrams as SVG."""
    parts = [_HEAD]
    for turn in turns:
        parts.append(f"<section>\n<h2>turn {escape(turn.turn_id)}</h2>\n{_time_line(turn)}\n")
        picture = pictures.get(turn.turn_id, "")
        if picture:
            parts.append(f"<div class=picture>{picture[picture.find('<svg') :]}</div>\n")
        parts.append(f"<pre>{escape(stories[turn.turn_id])}</pre>\n</section>\n")
    return "".join(parts) + "</main>\n</html>\n"


def _time_line(turn: Turn) -> str:
    """A bar: how long the turn was in each state, and the same in words."""
    spans = [(state, seconds) for state, seconds in _spans(turn) if seconds > 0]
    whole = sum(seconds for _, seconds in spans)
    bar = "".join(
        f'<span class="{_role(state)}" style="width:{seconds / whole:.3%}" '
        f'title="{escape(state)}: {seconds:.3f} s">'
        f"{escape(state) if seconds / whole > 0.08 else ''}</span>"
        for state, seconds in spans
    )
    said = ", ".join(f"{escape(state)} {seconds:.3f} s" for state, seconds in spans)
    return f"<div class=line>{bar}</div>\n<p class=said>{said or 'all at one moment'}</p>"


def _spans(turn: Turn) -> Iterator[tuple[str, float]]:
    changes = [r for r in turn.records if r["event"] == "llm_state_changed"]
    state = str(changes[0]["source"]) if changes else "running"
    since = float(turn.records[0]["at_s"])
    for change in changes:
        yield state, float(change["at_s"]) - since
        state, since = str(change["state"]), float(change["at_s"])
    yield state, float(turn.records[-1]["at_s"]) - since


def _role(state: str) -> str:
    return state if state in ("streaming", "backoff", "continuing") else "other"


_HEAD = """<!doctype html>
<html lang=en>
<meta charset=utf-8>
<meta name=viewport content="width=device-width">
<title>midthought: a recorded run</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #111827; background: #fff; margin: 0 }
main { max-width: 90rem; margin: 2rem auto; padding: 0 1rem }
pre { background: #f9fafb; border: 1px solid #e5e7eb; border-radius: 6px; padding: 1rem;
  overflow: auto }
.picture { margin: 1rem 0 }
.picture svg { max-width: 100%; height: auto }
.line { display: flex; height: 1.6rem; border-radius: 6px; overflow: hidden; margin-top: 1rem }
.line span { font-size: 12px; line-height: 1.6rem; text-align: center; overflow: hidden;
  white-space: nowrap; background: #fef3c7 }
.line .streaming { background: #bfdbfe }
.line .backoff { background: #d1d5db }
.line .continuing { background: #c7d2fe }
.said { margin: 0.2rem 0 1rem; color: #4b5563; font-size: 13px }
</style>
<main>
<h1>A recorded run</h1>
"""
