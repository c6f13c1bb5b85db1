"""What is wrong with blocks, instructions, fallback lists, clocks and limits of a policy."""

from __future__ import annotations

from collections.abc import Iterator

from midthought.policies import BLOCK_KINDS, Policy

from ._rule_proof import Lead
from ._worst import worst_case

__all__ = ["content_leads"]

_CLOCKS = ("headers_s", "first_content_s", "liveness_s", "progress_s")

#: More requests than this in one turn are worth a second look.
_MANY = 50


def content_leads(policy: Policy) -> Iterator[Lead]:
    """Everything that is neither machine nor rule."""
    yield from _blocks(policy)
    yield from _instruction(policy)
    yield from _fallback(policy)
    yield from _bounds(policy)


def _blocks(policy: Policy) -> Iterator[Lead]:
    """What is shown and then not kept has to be taken back."""
    for name in BLOCK_KINDS:
        rule = getattr(policy.blocks, name)
        if name == "thinking" or rule.release == "turn":
            continue  # the host shows thinking of which it knows that it may go
        allowed = policy.turn.retract and name != "tool_use"  # a shown call may be running
        hint = 'keep it, or set release = "turn"; a native host may set turn.retract = true'
        if rule.closed == "discard" and not allowed:
            found = f'closed = "discard" with release = "{rule.release}"'
            yield Lead("retraction", ("blocks", name, "closed"), found, '"keep"', hint)
        if rule.open == "discard" and name in ("text", "refusal") and rule.release != "closed":
            found = f'open = "discard" with release = "{rule.release}"'
            if not allowed:
                yield Lead("retraction", ("blocks", name, "open"), found, '"keep"', hint)
    if policy.turn.retract:
        hint = "use it with a native host only"
        yield Lead("retracts", ("turn", "retract"), "true", "false on the wire", hint)


def _instruction(policy: Policy) -> Iterator[Lead]:
    said = policy.continuation.instruct.message
    if "instruct" in policy.continuation.strategies and "{tail}" not in said:
        path = ("continuation", "instruct", "message")
        hint = "put {tail} where the last characters shall stand"
        yield Lead("blind-instruction", path, "a message without {tail}", "{tail} in it", hint)


def _fallback(policy: Policy) -> Iterator[Lead]:
    """A model that is named twice, or that its own list leads back to."""
    for place, name in enumerate(policy.fallback):
        if name in policy.fallback[:place]:
            hint = "name each model once"
            yield Lead("fallback-loop", ("fallback", place), f"{name!r} again", "another", hint)
        elif name in _led_to(policy, name):
            hint = "take it out of one of the two lists"
            found = f"{name!r}, whose own list leads back to it"
            yield Lead("fallback-loop", ("fallback", place), found, "lists that end", hint)


def _led_to(policy: Policy, model: str) -> set[str]:
    """Models that a model falls back to by lists of its own ``[[models]]`` entries."""
    found: set[str] = set()
    todo = [model]
    while todo:
        name = todo.pop()
        entry = next((entry for entry in policy.models if entry.fits(name)), None)
        if entry is not None and "fallback" in (entry.model_extra or {}):
            own = set(policy.for_model(name).fallback)
            todo += own - found
            found |= own
    return found


def _bounds(policy: Policy) -> Iterator[Lead]:
    for name in _CLOCKS:
        if getattr(policy.clocks, name) == 0:
            hint = "write seconds, or take the line out for the default"
            yield Lead("dead-clock", ("clocks", name), "0", "more than 0", hint)
    if policy.limits.max_retry_after_s == 0 and policy.enabled and policy.rules:
        path = ("limits", "max_retry_after_s")
        yield Lead("no-hints", path, "0", "seconds that may be waited for", "write 20 or more")
    requests = worst_case(policy).requests
    if requests > _MANY:
        hint = "lower limits.attempts or the limits of the rules"
        path = ("limits", "attempts")
        yield Lead("too-much-paid", path, f"up to {requests} requests", f"{_MANY} or less", hint)
