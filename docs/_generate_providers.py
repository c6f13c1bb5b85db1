"""Write providers.md from the policies that ship: what each assumes of its provider, with sources.

    python docs/generate.py            write it with the other pages
    python docs/generate.py --check    exit 1, with a diff, where it is out of date

Facts come from the resolved policies alone; only how a dialect says that a reply is whole, which is
the dialect's own code, stands here as words.
"""

from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path

from midthought.policies import SIGNING_DIALECTS, FailureKind, Policy, Stop, load_policy
from midthought.policies._schema import Classify, RetryHint

__all__ = ["providers_page"]

#: Words and errors that every policy of the Chat dialect inherits; told once.
SHARED = "chat-base"

COMPLETE = {
    "anthropic_messages": "`message_delta` says a `stop_reason`",
    "anthropic_vertex": "`message_delta` says a `stop_reason`",
    "bedrock_converse": "`messageStop` has come",
    "bedrock_invoke": "`message_delta` says a `stop_reason`",
    "cohere_v2": "`message-end` says a `finish_reason`",
    "gemini": "a candidate says a `finishReason`, or `promptFeedback` a `blockReason`",
    "ollama": 'a line says `"done": true` with a `done_reason`',
    "openai_chat": "a choice says a `finish_reason`; `[DONE]` alone proves nothing",
    "openai_responses": "`response.completed` or `response.incomplete` has come",
}

INTRO = """\
# Providers

What the policies that ship assume of each provider, and do about it. This page is made from them
(`make docs`), so it says what the engine does; the files under `policies/` have a comment with
source and date beside each fact. Facts were read in documentation, SDKs, servers' source and public
issues, and checked against recorded streams and errors; none was tried against a paid API. What
nobody could say is said to be unknown there, and gets the safe default: the model is *instructed*.

| word | how a broken reply goes on |
|---|---|
| resume | the provider's own resume of the same reply, where the request was prepared for it |
| prefill | the request ends with the assistant's partial message; the text joins exactly |
| instruct | a short user message after the partial asks for the rest; any chat model understands |

A strategy that a request rules out is passed over, and the next one is taken; so is one that a
server turns out to refuse.
"""


def providers_page() -> str:
    """The whole page."""
    shipped = [policy for policy in _shipped() if policy.provider]
    lines = [INTRO, *_overview(shipped)]
    for policy in shipped:
        lines += ["", f"## {policy.name}", "", *_section(policy)]
    return "\n".join([*lines, "", *_shared()]) + "\n"


def _shipped() -> list[Policy]:
    """Every policy in the package, whatever else is on the search path."""
    folder = Path(str(resources.files("midthought.policies")))
    found = [load_policy(path) for path in folder.glob("*.toml")]
    return sorted(found, key=lambda policy: policy.name)


def _overview(shipped: Iterable[Policy]) -> Iterator[str]:
    yield "| policy | what it is | dialect | goes on by | reasoning in the history | checked |"
    yield "|---|---|---|---|---|---|"
    for policy in shipped:
        ways = dict.fromkeys(" → ".join(each) for _, each, _ in _strategies(policy))
        cells = (
            f"[{policy.name}](#{policy.name})",
            policy.about.title,
            f"`{policy.dialect}`",
            " or ".join(ways),
            _thinking(policy),
            policy.about.checked,
        )
        yield f"| {' | '.join(_cell(text) for text in cells)} |"


def _section(policy: Policy) -> Iterator[str]:
    where = f"`{policy.base_url}`" if policy.base_url else "an address of your own"
    key = f"key in `{policy.auth.key_env}`" if policy.auth.key_env else "no key"
    yield f"{policy.about.title}: {where}, {key}."
    yield ""
    yield f"- **complete when** {_complete(policy)}"
    yield f"- **goes on by** {_goes_on(policy)}"
    if any("prefill" in each for _, each, _ in _strategies(policy)):
        yield f"- **prefill** {_prefill(policy)}"
    yield f"- **reasoning** {_thinking(policy)}"
    yield f"- **silence** means a dead connection after {policy.clocks.liveness_s:g} s"
    yield f"- **a wait is told in** {_waits(policy.retry_hints)}"
    yield f"- **overflow** {_errors(policy, FailureKind.context_overflow)}"
    passing = (FailureKind.rate_limited, FailureKind.overloaded)
    yield f"- **limits that pass** {_errors(policy, *passing)}"
    yield f"- **limits that do not** {_errors(policy, FailureKind.quota_exhausted)}"
    yield f"- **safety stops** {_safety(policy)}; refused {_errors(policy, FailureKind.blocked)}"
    yield f"- **sources** {'; '.join(policy.about.source)}, checked {policy.about.checked}"


# --- one fact each --------------------------------------------------------------------------------


def _complete(policy: Policy) -> str:
    told = COMPLETE.get(policy.dialect)
    if told is None:
        raise SystemExit(
            f"error: how a reply of {policy.dialect!r} is known to be whole is nowhere said"
            f"\n\nhint: add a line to COMPLETE in docs/{Path(__file__).name}"
        )
    if policy.stream.done_is_terminal:
        told += ", or `[DONE]` came"
    if failures := policy.stream.failures:
        told += f"; not when that is {_words(failures)}, which are failures"
    return told


def _strategies(policy: Policy) -> list[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """(patterns, strategies, source): the entries that say how, then what holds for the rest."""
    found = []
    for entry in policy.models:
        own = (entry.model_extra or {}).get("continuation", {}).get("strategies")
        if own:
            found.append((entry.match, tuple(own), entry.source or ""))
    return [*found, ((), policy.continuation.strategies, "")]


def _goes_on(policy: Policy) -> str:
    parts = []
    for patterns, ways, source in _strategies(policy):
        who = _words(patterns) if patterns else "other models" if parts else "every model"
        told = f" ({source})" if source else ""
        parts.append(f"{' → '.join(ways)}: {who}{told}")
    return "; ".join(parts)


def _prefill(policy: Policy) -> str:
    prefill = policy.continuation.prefill
    marks = [f"`{key}` in the message" for key in prefill.message]
    for entry in policy.models:
        own = (entry.model_extra or {}).get("continuation", {}).get("prefill", {})
        who = _words(entry.match)
        marks += [f"`{key}` in the message, for {who}" for key in own.get("message", {})]
    marks += [f"`{key} = {str(value).lower()}`" for key, value in prefill.request.items()]
    marks += [f"at `{prefill.base_url_suffix}`"] if prefill.base_url_suffix else []
    told = f"by {', '.join(marks)}" if marks else "without a parameter"
    told += "; the answer repeats the prefix" if prefill.echoes else ""
    if prefill.forbidden_with:
        told += f"; not with {_words(prefill.forbidden_with)}"
    return told


def _thinking(policy: Policy) -> str:
    thinking = policy.blocks.thinking
    chat = policy.dialect == "openai_chat"
    if thinking.closed == "discard" or (chat and thinking.history_field is None):
        told = "is left out"
    elif thinking.history_field:
        told = f"goes back in `{thinking.history_field}`"
    elif thinking.closed == "keep_if_signed" or policy.dialect in SIGNING_DIALECTS:
        told = "goes back unchanged if it is signed"
    else:
        told = "goes back as it came"
    if thinking.tags:
        told += f"; comes as text between {_words(thinking.tags)}"
    return told


def _waits(hints: Iterable[RetryHint]) -> str:
    """Places in the order in which they are looked at."""
    places = []
    for hint in hints:
        name = hint.header or hint.json_path
        places.append(f"`{name}`" if name else "the message")
    return ", ".join(dict.fromkeys(places))


def _errors(policy: Policy, *kinds: FailureKind) -> str:
    """The rows of some kinds that are this provider's own; those that all share are told once."""
    shared = _inherited(policy)
    own = [_row(row) for row in policy.classify if row.kind in kinds and row not in shared]
    if policy.dialect == "openai_chat":
        own.append(f"the [shared ones](#{SHARED})")
    return "; ".join(own) or "by the status alone"


def _inherited(policy: Policy) -> tuple[Classify, ...]:
    name = SHARED if policy.dialect == "openai_chat" else "base"
    return load_policy(name).classify


def _row(row: Classify) -> str:
    facts = [f"code {_words(row.code)}"] if row.code else []
    facts += [f"message {_code(row.message)}"] if row.message else []
    facts += [f"HTTP {', '.join(str(status) for status in row.status)}"] if row.status else []
    told = " and ".join(facts)
    about = [row.scope] if row.scope else []
    about += [row.source] if row.source else []
    return f"{told} ({'; '.join(about)})" if about else told


def _safety(policy: Policy) -> str:
    stops = [word for word, stop in policy.stream.stops.items() if stop is Stop.safety]
    return _words(stops) if stops else "none"


def _shared() -> Iterator[str]:
    policy = load_policy(SHARED)
    yield f"## {SHARED}\n"
    yield "Rows that every policy of the Chat dialect shares, after its own.\n"
    for title, kind in (
        ("overflow", FailureKind.context_overflow),
        ("limits that pass", FailureKind.rate_limited),
        ("overloaded", FailureKind.overloaded),
        ("limits that do not", FailureKind.quota_exhausted),
        ("refused", FailureKind.blocked),
        ("prefill refused", FailureKind.prefill_rejected),
    ):
        rows = (row for row in policy.classify if row.kind is kind)
        yield f"- **{title}** {'; '.join(filter(None, map(_row, rows)))}"
    yield f"- **sources** {'; '.join(policy.about.source)}, checked {policy.about.checked}"


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
