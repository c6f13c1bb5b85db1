"""What a check can find: the catalogue of its kinds, and one finding with its place.

Every kind says why it matters, so that a report needs no manual. Judges nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from midthought.policies import Fault

__all__ = ["KINDS", "Finding", "Kind", "Severity"]

Severity = Literal["error", "warning", "note"]


class Kind(NamedTuple):
    """A kind of finding."""

    severity: Severity
    title: str
    why: str


#: By name; names stay the same, so that a review tool may silence one of them.
KINDS: Mapping[str, Kind] = {
    # --- the file
    "load": Kind("error", "The policy cannot be loaded", "What cannot be loaded decides nothing."),
    # --- the machine
    "unreachable-state": Kind(
        "error", "A state is never entered", "What is written there never happens."
    ),
    "unreachable-row": Kind(
        "error", "A row of the machine is never taken", "Its guards can never all say yes there."
    ),
    "no-way-out": Kind(
        "error", "The turn can stand still", "Nothing but the caller or a deadline would end it."
    ),
    "free-cycle": Kind(
        "error", "A circle uses up no budget", "The turn could go round in it for ever."
    ),
    "no-row": Kind(
        "error", "Something happens that the state has no row for", "The engine would raise there."
    ),
    "no-plan": Kind(
        "error", "A request is due, and there is none to send", "The engine would raise there."
    ),
    "left-open": Kind(
        "error",
        "A state is entered while upstream is still open",
        "What arrives there belongs to a reply that nobody reads.",
    ),
    "skipped-wait": Kind(
        "error",
        "A request goes out without its wait",
        "Backoff and the provider's hints would not be kept.",
    ),
    "false-end": Kind(
        "error",
        "The turn ends with another outcome than it has",
        "The caller would trust a broken reply, or throw a whole one away.",
    ),
    "standstill": Kind(
        "error",
        "A reply that stands still goes on",
        "Continuations that bring nothing new would go on being paid for.",
    ),
    "sleeping-flaw": Kind(
        "note",
        "The machine is not made for a rule that finishes",
        "No rule of this policy accepts a partial reply; one that does would end wrongly there.",
    ),
    "overridden-row": Kind(
        "note", "A row of a parent is never taken", "Rows before it take all that it answers."
    ),
    "slow-wait": Kind(
        "note",
        "A wait over limits.wait_s is slept",
        "The worst case of the waits is the sum of all delays, and not limits.wait_s.",
    ),
    # --- the rules
    "shadowed-rule": Kind(
        "error", "A rule is never taken", "Rules before it take all that it answers."
    ),
    "impossible-rule": Kind(
        "error", "A rule can never match", "No failure and no stop has all the facts it asks for."
    ),
    "zero-limit": Kind(
        "error", "A limit of 0 switches something off", "It only looks like a rule."
    ),
    "idle-rule": Kind(
        "note", "A rule has nothing to work with", "It waits for something that is not set."
    ),
    "illegal-rule": Kind(
        "error", "A rule's action is never legal", "Wherever it matches it is passed over."
    ),
    "late-stop": Kind(
        "error",
        "A rule that stops comes too late",
        "The turn is recovered first, and stopped only when other rules are used up.",
    ),
    "unanswered-kind": Kind(
        "error",
        "A failure kind has no rule that could be taken",
        "It ends every turn; that is fine where exhaust says so.",
    ),
    "gap": Kind(
        "note", "Some failures of a kind have no rule", "They end the turn although others do not."
    ),
    "resend-after-output": Kind(
        "error",
        "A request could be sent again after its output was shown",
        "The caller would get the same text twice, or run a tool twice.",
    ),
    "never-waits-out": Kind(
        "error", "A delay never fits", "The turn would end before the request goes out."
    ),
    "no-hints": Kind(
        "warning", "No hint of the provider is waited for", "Every rate limit with a hint ends it."
    ),
    "too-much-paid": Kind(
        "warning",
        "A turn may send very many requests",
        "Each of them is paid for, and an overloaded provider gets them all.",
    ),
    # --- content
    "retraction": Kind(
        "error",
        "Shown content would have to be taken back",
        "On the wire nothing can be taken back; only a native host may (turn.retract).",
    ),
    "retracts": Kind(
        "note",
        "Shown content is taken back",
        "turn.retract is on: only for hosts that can, never on the wire.",
    ),
    "blind-instruction": Kind(
        "warning",
        "The instruction does not say where the reply ended",
        "Without {tail} the model guesses where to go on.",
    ),
    "fallback-loop": Kind(
        "error", "The fallback list comes back to a model", "The same model would be asked twice."
    ),
    "dead-clock": Kind("error", "A clock of 0 seconds", "Every attempt would time out at once."),
}


class Finding(NamedTuple):
    """One thing to know about a policy."""

    kind: str
    fault: Fault
    """Where it is, what stands there, what was expected, and what to do."""
    policy: str
    models: tuple[str, ...] = ()
    """Set where only an entry of ``[[models]]`` brings it in: its patterns."""

    @property
    def severity(self) -> Severity:
        """How bad it is: errors fail the check."""
        return KINDS[self.kind].severity
