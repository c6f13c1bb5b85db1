"""A policy to begin with: a commented file that says what it builds on, and passes its own check.

Its comments show what the parents say, so that a person sees what may be changed, and from what.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import PurePath
from typing import Any

from midthought.policies import (
    DIALECTS,
    Fault,
    Policy,
    PolicyError,
    known_dialects,
    list_policies,
    load_policy,
)

__all__ = ["new_policy"]

#: Which shipped policy speaks a dialect without the manners of one provider, or with the fewest.
_PARENTS = {
    "anthropic_messages": "anthropic",
    "bedrock_converse": "bedrock-converse",
    "bedrock_invoke": "anthropic-bedrock",
    "cohere_v2": "cohere",
    "gemini": "gemini",
    "ollama": "ollama",
    "openai_chat": "openai-compatible",
    "openai_responses": "openai-responses",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def new_policy(
    name: str, *, dialect: str | None = None, extends: str | None = None, folder: str = "."
) -> str:
    """The text of a policy file ``name`` (or the file's path) over a dialect or other policies.

    ``extends`` may join several by ``+``; a parent that is a path is told from ``folder``, where
    the file will stand. Raises ``PolicyError`` for what does not exist.
    """
    own = PurePath(name.replace("\\", "/")).name.removesuffix(".toml")
    if not _NAME.fullmatch(own):
        raise _refused(name, f"the name {own!r}", "letters, digits, '-', '_' and '.'", "rename it")
    if extends is not None:
        policy = load_policy(extends)
        parents = [_from(parent, folder) for parent in _parts(extends)]
        return _text(own, parents, policy, own_dialect=None)
    if dialect not in known_dialects():
        found, expected = f"unknown dialect {dialect!r}", ", ".join(known_dialects())
        raise _refused(name, found, expected, "take one of these")
    parent = _PARENTS.get(str(dialect), "base")
    policy = load_policy(parent)
    return _text(own, [parent], policy, own_dialect=None if dialect in DIALECTS else dialect)


def _is_path(parent: str) -> bool:
    return parent.endswith(".toml") or len(PurePath(parent).parts) > 1


def _parts(extends: str) -> list[str]:
    """A path may hold a ``+``, a name may not."""
    return [extends] if _is_path(extends) else extends.split("+")


def _from(parent: str, folder: str) -> str:
    """A parent as the new file has to call it."""
    if not _is_path(parent):
        return parent
    way = os.path.relpath(os.path.expanduser(parent), folder).replace(os.sep, "/")
    return way if way.endswith(".toml") else f"./{way}"


def _refused(name: str, found: str, expected: str, hint: str) -> PolicyError:
    return PolicyError(name, [Fault("", None, "", found, expected, hint)])


def _text(name: str, parents: list[str], policy: Policy, *, own_dialect: str | None) -> str:
    shipped = {info.name: info.title for info in list_policies()}
    about = "; ".join(f"{parent}: {shipped.get(parent) or 'a file'}" for parent in parents)
    strategies = ", ".join(_toml(each) for each in policy.continuation.strategies)
    rules = [rule for rule in policy.rules if rule.limit is not None and rule.action != "stop"]
    rule = next((rule for rule in rules if rule.action == "continue"), rules[0] if rules else None)
    parts = [
        f"# {name}: what is not said here is as in {' and '.join(parents)}.",
        f"# {about}",
        "# Lines that begin with # change nothing; they show what holds now.",
        f"# See it whole: midthought show {name}      Prove it: midthought check {name}",
        "",
        f"extends = [{', '.join(map(_toml, parents))}]",
        f"name = {_toml(name)}",
    ]
    if own_dialect is not None:
        parts.append(f"dialect = {_toml(own_dialect)}")
    parts += [
        "",
        "# Where requests go, without the path.",
        f"# base_url = {_toml(policy.base_url or 'https://api.example.com/v1')}",
        "",
        "[about]",
        f"title = {_toml(f'{name}, over ' + ' and '.join(parents))}",
        "",
        "# The environment variable that holds the key; a key itself never stands in a policy.",
        "# [auth]",
        f"# key_env = {_toml(policy.auth.key_env or 'EXAMPLE_API_KEY')}",
        "",
        "# Bounds of one turn, whatever its rules still allow.",
        "# [limits]",
        f"# attempts = {policy.limits.attempts}              # requests",
        f"# wait_s = {policy.limits.wait_s:.1f}             # all waits together",
        f"# max_retry_after_s = {policy.limits.max_retry_after_s:.1f}   # longest wait for a limit",
        "",
        "# How long silence may last.",
        "# [clocks]",
        f"# first_content_s = {policy.clocks.first_content_s:.1f}",
        f"# liveness_s = {policy.clocks.liveness_s:.1f}",
        "",
        "# How a broken reply goes on, the preferred way first.",
        "# [continuation]",
        f"# strategies = [{strategies}]",
    ]
    if rule is not None:
        parts += [
            "",
            f"# A rule of the parents, changed where it stands ({rule.action}).",
            f"# [rules.change.{rule.name}]",
            f"# limit = {rule.limit}",
        ]
    parts += [
        "",
        "# What an error of this provider means; rows here come before the parents'.",
        "# [[classify.prepend]]",
        '# kind = "overloaded"',
        '# message = "all workers are busy"',
        "",
        "# Settings for some models only.",
        "# [[models]]",
        '# match = ["old-*"]',
        f"# clocks.first_content_s = {policy.clocks.first_content_s:.1f}",
    ]
    return "\n".join(parts) + "\n"


def _toml(text: Any) -> str:
    """A string as TOML writes it; JSON's escapes are among TOML's."""
    return json.dumps(text, ensure_ascii=False)
