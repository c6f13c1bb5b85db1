"""The next continuation: strategy, history that goes back, instruction, output cap, and its seam.

Pure functions and one small value; ``_recovery`` calls them while it commits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from midthought.policies import Instruct, Policy, TextSeam

from ._blocks import Block
from ._build import Continue
from ._seam import Quality, Seam, trim_for_history

__all__ = ["allowed_strategies", "make_order", "make_seam", "next_cap", "text_seam"]


def allowed_strategies(
    policy: Policy,
    features: Collection[str],
    refused: Collection[str],
    kept: Sequence[Block],
    resumes: Collection[str] = (),
) -> tuple[str, ...]:
    """Strategies that this request and what is kept of the reply allow, the preferred first.

    ``resumes``: ``resume`` and ``poll``, as far as the provider can do them now; where the policy
    names ``resume``, ``poll`` comes right after it.
    """
    if any(b.kind == "tool_use" for b in kept):
        return ()  # nothing is built on a call of this turn that nobody has answered
    have = set(features)
    if any(b.kind == "server_tool" for b in kept):
        have.add("tool_calls_in_last")
    forbidden = {
        "prefill": policy.continuation.prefill.forbidden_with,
        "instruct": policy.continuation.instruct.forbidden_with,
    }
    found: list[str] = []
    for name in policy.continuation.strategies:
        if name == "resume":
            found += [how for how in ("resume", "poll") if how in resumes]
        elif not have.intersection(forbidden[name]):
            found.append(name)
    return tuple(name for name in found if name not in refused)


#: The provider repeats its own words: nothing is trimmed, nothing is looked for.
_EXACT = TextSeam(trim="none", window=0, restart=False)


def text_seam(policy: Policy, strategy: str) -> TextSeam:
    """The seam settings of a strategy."""
    if strategy in ("resume", "poll"):
        return _EXACT.model_copy(update={"on_mismatch": policy.seam.resume.on_mismatch})
    return policy.seam.prefill if strategy == "prefill" else policy.seam.instruct


def _trim(spec: TextSeam, features: Collection[str]) -> str:
    if "deterministic" in features and spec.deterministic_trim is not None:
        return spec.deterministic_trim
    return spec.trim


def make_order(
    policy: Policy,
    strategy: str,
    kept: Sequence[Block],
    features: Collection[str],
    cap: int | None,
) -> Continue:
    """The continuation's order: kept blocks with the last text trimmed, instruction and cap."""
    spec = text_seam(policy, strategy)
    blocks = list(kept)
    if blocks and blocks[-1].kind == "text":
        last = blocks[-1]
        # A cited block is not cut: its citations count its characters.
        how = "none" if last.citations else _trim(spec, features)
        sent = trim_for_history(last.text, how, spec.word_max_chars)
        blocks[-1] = msgspec.structs.replace(last, parts=[sent])
    said = None
    if strategy == "instruct":
        said = _instruction(policy.continuation.instruct, _text(kept))
    return Continue(strategy=strategy, blocks=tuple(blocks), instruction=said, cap=cap)


def _instruction(words: Instruct, shown: str) -> str:
    tail = msgspec.json.encode(shown[-words.tail_chars :]).decode()
    seam = words.seam_space if shown[-1:].isspace() else words.seam_no_space
    return words.message.replace("{seam}", seam).replace("{tail}", tail)


def _text(blocks: Sequence[Block]) -> str:
    return "".join(b.text for b in blocks if b.kind == "text")


def make_seam(policy: Policy, order: Continue, kept: Sequence[Block]) -> Seam:
    """The seam between what was shown and the answer to ``order``."""
    spec = text_seam(policy, order.strategy)
    prefill = order.strategy == "prefill"
    shown = _text(kept)
    lost = kept[-1].lost if kept and kept[-1].kind == "text" else ""
    quality: Quality = "uncertain" if order.strategy == "instruct" else "exact"
    sent = order.sent_chars if order.sent_chars is not None else len(_text(order.blocks))
    return Seam(
        shown,
        shown + lost,
        sent,
        spec,
        echoes=prefill and policy.continuation.prefill.echoes,
        proof=quality,
    )


def next_cap(policy: Policy, own: int | None, produced: int, wanted: str | int) -> int | None:
    """Output cap of the next request in tokens; never above the caller's own.

    ``wanted`` is the rule's ``cap``: ``fresh``, ``remaining`` or a number.
    """
    if isinstance(wanted, int):
        return wanted
    if own is None or wanted == "fresh":
        return None
    floor = max(policy.cap.floor, int(own * policy.cap.floor_share))
    return min(own, max(floor, own - produced))
