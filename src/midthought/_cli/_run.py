"""``midthought run``: one prompt through a policy, the reply to stdout while it arrives."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from urllib.parse import urlsplit

from loguru import logger

from midthought import Client, Failure, Policy, Reply, load_policy
from midthought.journal import Journal

from ._errors import CommandError
from ._requests import Prompt, request_body
from ._rows import RowTeller, without_user
from ._story import Story
from ._terminal import Terminal
from ._text import BareText
from ._turn import Teller, run_turn

__all__ = ["journal_to", "prompt_text", "run"]

#: What to do about a failure that no policy hint speaks of.
_HINTS = {
    "auth": "the key was refused: look at {key}",
    "connect": "is the server there? see base_url in the policy, or --base-url",
    "not_found": "look at --model and --base-url: the server knows no such thing",
    "context_overflow": "ask for less: the prompt does not fit the model",
    "quota_exhausted": "the account has no quota left; waiting a little will not help",
}


def run(
    terminal: Terminal,
    policy_name: str,
    prompt: Prompt,
    *,
    base_url: str | None,
    journal: str | None,
    as_json: bool,
) -> int:
    """Run one turn; returns the exit status."""
    policy = load_policy(policy_name)
    _check_place(policy, base_url)
    _check_key(policy)
    body = request_body(prompt, policy)
    teller: Teller = RowTeller(terminal) if as_json else Story(BareText(terminal), terminal.err)
    with (
        journal_to(journal),
        Client(policy, base_url=base_url, on_record=teller.record) as client,
    ):
        reply = run_turn(client, client.prepare(body), teller)
    return _verdict(terminal, reply, policy)


def _verdict(terminal: Terminal, reply: Reply, policy: Policy) -> int:
    if reply.outcome == "completed":
        if reply.incomplete:
            terminal.warning(f"the reply is incomplete: the model stopped by {reply.stop!r}")
        return 0
    count, failure = len(reply.attempts), reply.failure
    what = reply.reason if failure is None else f"{failure.kind.value}: {failure.message}"
    tried = f"{count} request{'s' if count > 1 else ''}"
    hint = reply.hint or _hint(failure, policy)
    raise CommandError(f"the turn was {reply.outcome} after {tried}: {what}", hint, 1)


def _hint(failure: Failure | None, policy: Policy) -> str:
    if failure is not None and failure.retry_after_s is not None:
        return f"the server says to come back in {failure.retry_after_s:g} s"
    known = _HINTS.get(failure.kind.value) if failure is not None else None
    if known is None:
        return "what arrived stands above; --journal FILE writes down what was tried"
    return known.format(key=policy.auth.key_env or "what the server wants")


def _check_place(policy: Policy, base_url: str | None) -> None:
    url = base_url or policy.base_url
    if not url:
        raise CommandError(
            f"policy {policy.name!r} says nothing about where requests go",
            "add --base-url URL; an overlay goes after its provider, as in anthropic+strict",
        )
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise CommandError(
            f"base_url is {without_user(url)!r}, expected http://HOST or https://HOST",
            "correct --base-url, or base_url in the policy",
        )


def _check_key(policy: Policy) -> None:
    name = policy.auth.key_env
    if name is None:
        return
    key = os.environ.get(name, "")
    if not key:
        raise CommandError(
            f"policy {policy.name!r} needs an API key", f"set {name} in the environment"
        )
    if not (key.isascii() and key.isprintable()):
        raise CommandError(
            f"the API key in {name} holds characters that no HTTP header may carry",
            "set it again, without a line break or anything that is not ASCII",
        )


def prompt_text(words: Sequence[str]) -> str:
    """The prompt of the command line; ``-`` reads it from stdin."""
    if not words:
        raise CommandError(
            "there is no prompt", "midthought run -p POLICY 'PROMPT', or - for stdin"
        )
    if len(words) > 1:
        raise CommandError(
            f"expected one prompt, got {len(words)} words", "put the prompt in quotes"
        )
    text = _stdin() if words[0] == "-" else words[0]
    if not text.strip():
        raise CommandError("the prompt is empty", "say something, or - and give it on stdin")
    return text


def _stdin() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"stdin is no text: byte {error.start} is not UTF-8", "save the prompt as UTF-8"
        ) from None


@contextmanager
def journal_to(path: str | None) -> Iterator[None]:
    """Write the records of the block to a run file, if there is a path."""
    logger.remove()  # records go to the file, not to the terminal as well
    try:
        journal = nullcontext() if path is None else Journal(path)
    except OSError as error:
        raise CommandError(
            f"the journal {path!r} cannot be written: {error.strerror}",
            "name a file in a folder that you may write to",
        ) from None
    with journal:
        yield
