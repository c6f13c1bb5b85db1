"""The seam: where the text of two attempts joins, and what is kept, held and dropped there.

The caller has seen T (``shown``), a prefix of everything received, U (``received``); the history
that was sent back carries C (``sent``), a prefix of T; the next attempt's text R arrives. R is
matched piece by piece against U: at the end of C (white space or a word that was left out), at U's
start (an echo or a restart), and near U's end (a repeat). While R could still be one of these it is
held; what T already has is dropped; the rest is released. Text is never altered in any other way.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from midthought.policies import TextSeam

from ._fence import FenceGuard, open_fence

__all__ = ["Joint", "Quality", "Seam", "split_word", "trim_for_history"]

Quality = Literal["exact", "proved", "uncertain"]

# Scripts that write no spaces between words: there a word is a character.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff"
)
_LAST_WORD = re.compile(rf"[^\s{_UNSPACED}]+\Z")


def split_word(text: str, most: int) -> tuple[str, str]:
    """``text`` as (whole words, the word being written); a run over ``most`` is not a word."""
    if not text or text[-1].isspace():
        return text, ""
    if text.isascii():
        word = text.rsplit(None, 1)[-1]
        return (text[: -len(word)], word) if len(word) <= most else (text, "")
    found = _LAST_WORD.search(text, max(0, len(text) - most - 1))
    if found is None or len(text) - found.start() > most:
        return text, ""
    return text[: found.start()], text[found.start() :]


def trim_for_history(text: str, how: str, most: int) -> str:
    """C for T: without trailing white space, and for ``last_word`` without its last word.

    Never empty: where dropping would leave nothing, the word stays.
    """
    if how == "none":
        return text
    if how == "last_word" and not text[-1:].isspace():
        head, _ = split_word(text, most)
        if head.strip():
            return head.rstrip()
    return text.rstrip()


class Joint(NamedTuple):
    """How a seam came out."""

    quality: Quality
    dropped_chars: int
    mismatch: bool = False


_NEVER = 1 << 60


class _Candidate:
    """R may be U from ``start`` on; ``covered`` once T's part of it was seen."""

    __slots__ = ("at", "breaks_at", "covered", "least", "start")

    def __init__(self, start: int, *, least: int, breaks_at: int = _NEVER) -> None:
        self.start = self.at = start
        #: Fewest equal characters that count.
        self.least = least
        #: A difference after so many equal characters is a mismatch, not a mere no.
        self.breaks_at = breaks_at
        self.covered = False


class Seam:
    """Feed R's text; get what may be released. After ``joint`` is set, text passes unchanged."""

    def __init__(
        self, shown: str, received: str, sent: int, spec: TextSeam, *, echoes: bool, proof: Quality
    ) -> None:
        self._u = received
        self._t = len(shown)
        self._sent = sent
        self._spec = spec
        self._proof = proof
        self._held: list[str] = []
        self._length = 0
        self._fence = FenceGuard(open_fence(shown) if spec.fences else None, spec.window)
        self._joint: Joint | None = None
        self._candidates = self._start(echoes)

    def _start(self, echoes: bool) -> list[_Candidate]:
        spec, found = self._spec, []
        left_out = self._u[self._sent : self._t]
        blank = not left_out or left_out.isspace()
        # White space that was left out need not be written again in full.
        self._enough = self._sent if blank else self._t
        if left_out and not blank:
            found.append(_Candidate(self._sent, least=1, breaks_at=0))
        elif left_out:
            # Of the white space that was left out any end may be written again, or any beginning.
            found += [_Candidate(at, least=0) for at in range(self._sent, self._t)]
        if self._t and (echoes or spec.restart):
            least = 1 if echoes else spec.min_overlap
            found.append(_Candidate(0, least=least, breaks_at=spec.min_overlap))
        return found

    def _repeats(self, begin: str) -> list[_Candidate]:
        """Where near its end U has what R begins with."""
        spec, u = self._spec, self._u
        if not spec.window:
            return []
        first = max(1, len(u) - spec.window)
        last = min(len(u) - spec.min_overlap, self._t - 1)
        places = (at for at in range(first, last + 1) if u[at] == begin)
        return [_Candidate(at, least=spec.min_overlap) for at in places]

    @property
    def joint(self) -> Joint | None:
        """How it came out; ``None`` while something may still be dropped."""
        if self._joint is None or not self._fence.done:
            return None
        fence = self._fence.dropped_chars
        if not fence:
            return self._joint
        return Joint("uncertain", self._joint.dropped_chars + fence, self._joint.mismatch)

    def feed(self, text: str) -> str:
        """Take more of R; returns what may be released now."""
        if self._joint is not None:
            return self._fence.feed(text)
        if not self._length and text:
            self._candidates += self._repeats(text[0])
        self._held.append(text)
        alive, broken = [], False
        for candidate in self._candidates:
            state = self._advance(candidate, text)
            if state == "alive":
                alive.append(candidate)
            broken = broken or state == "broken"
        self._length += len(text)
        self._candidates = alive
        if any(not c.covered for c in alive):
            return ""
        return self._decide(broken)

    def _advance(self, candidate: _Candidate, text: str) -> str:
        if candidate.covered:
            return "alive"
        same = _common(self._u[candidate.at : candidate.at + len(text)], text)
        candidate.at += same
        if candidate.at >= len(self._u):
            candidate.covered = True
        elif same < len(text):
            seen = candidate.at - candidate.start
            if (candidate.at >= self._enough and seen >= candidate.least) or not candidate.least:
                candidate.covered = True
            else:
                return "broken" if seen >= candidate.breaks_at else "dead"
        return "alive"

    def _decide(self, broken: bool) -> str:
        whole = [c for c in self._candidates if c.covered and c.at - c.start >= c.least]
        # White space that was left out is no proof of anything, a repeated text is.
        proved = [c for c in whole if c.least]
        if proved:
            best = min(proved, key=lambda c: c.start)
            return self._join(min(best.at, self._t) - best.start, self._proof_of(best))
        drop = max((min(c.at, self._t) - c.start for c in whole), default=0)
        return self._join(drop, "uncertain" if broken else self._proof, mismatch=broken)

    def _proof_of(self, candidate: _Candidate) -> Quality:
        """What was left out and came again is proof; a repeat may be the model's own words."""
        begin = self._u[: self._spec.min_overlap]
        if candidate.start == 0 and self._u.find(begin, 1) < 0:
            return "proved"
        return "proved" if candidate.start == self._sent else "uncertain"

    def _join(self, drop: int, quality: Quality, *, mismatch: bool = False) -> str:
        held = "".join(self._held)
        self._held.clear()
        self._joint = Joint(quality, drop, mismatch)
        if mismatch and self._spec.on_mismatch == "reject":
            return ""
        return self._fence.feed(held[drop:])

    def cut(self) -> None:
        """The attempt broke while its text was held: all of it repeats U, so it is dropped."""
        self._held.clear()
        self._joint = self._joint or Joint("uncertain", self._length)
        self._fence.end()

    def end(self) -> str:
        """R is complete: returns what was still held and is not a repeat."""
        return (self._settle() if self._joint is None else "") + self._fence.end()

    def _settle(self) -> str:
        for candidate in self._candidates:
            if candidate.covered:
                continue
            if candidate.least == 0:
                candidate.covered = True
            elif candidate.start == self._sent or (
                candidate.start == 0 and candidate.at >= self._spec.min_overlap
            ):
                # The whole answer is a beginning of what was shown: nothing of it is new.
                return self._join(self._length, "uncertain")
        return self._decide(False)


def _common(a: str, b: str) -> int:
    """Length of the common beginning; ``a`` is not the longer one."""
    if b.startswith(a):
        return len(a)
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
