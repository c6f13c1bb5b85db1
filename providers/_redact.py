"""Messages that may be recorded: bounded, on one line, without credentials.

A provider's error text may repeat the key that was sent; a transport's may hold a URL with one.
Every message of a ``Failure`` goes through ``bounded``. Imports no IO.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["MESSAGE_CHARS", "REDACTED", "SEARCH_CHARS", "bounded", "redact"]

MESSAGE_CHARS: Final = 500
"""Longest message of a failure."""
SEARCH_CHARS: Final = 2000
"""So much of an error text is looked at, by patterns and by redaction."""
REDACTED: Final = "[redacted]"

# (what stays, what goes): the named group ``keep`` is put back before the mark.
_SECRETS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?P<keep>\bbearer\s+)(?!realm=|tokens?\b|auth)[A-Za-z0-9._~+/=*-]{6,}",
        r"(?P<keep>\bbasic\s+)(?=\S*[0-9=])[A-Za-z0-9+/=]{6,}",
        r"(?P<keep>\b(?:x-(?:goog-)?api-key|api[_-]?key|authorization|access[_-]?token|secret)"
        r"[\"']?\s*[:=]\s*[\"']?)(?!bearer|basic)[^\s\"',;&]{4,}",
        r"(?P<keep>\b(?:api )?(?:key|token) (?:provided|is|was)?:\s*[\"']?)[^\s\"',;]{4,}",
        r"(?P<keep>\bapi key:\s*[\"']?)[^\s\"',;]{4,}",
        r"(?P<keep>[?&](?:key|api_key|token|x-amz-signature|x-amz-credential|sig)=)[^\s&\"']+",
        r"(?P<keep>://)[^\s/@:]+:[^\s/@]+(?=@)",
        # Keys by their own shape.
        r"(?P<keep>)\b(?:sk|pk|rk|gsk|xai|hf|r8|nvapi|ghp|gho|github_pat|fw|csk|pplx)[-_]"
        r"[A-Za-z0-9_*.-]{8,}",
        r"(?P<keep>)\b(?:AKIA|ASIA)[A-Z0-9]{12,}",
        r"(?P<keep>)\bAIza[A-Za-z0-9_-]{20,}",
        r"(?P<keep>)\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?",
    )
)
_SPACES: Final = re.compile(r"\s+")


def redact(text: str) -> str:
    """``text`` with everything that looks like a credential replaced."""
    for secret in _SECRETS:
        text = secret.sub(rf"\g<keep>{REDACTED}", text)
    return text


def bounded(text: str) -> str:
    """``text`` on one line, redacted, at most 500 characters; a cut is marked."""
    # Cut only after the redaction, or half a key would no longer look like one.
    clean = _SPACES.sub(" ", redact(text[:SEARCH_CHARS])).strip()
    # Halves of surrogate pairs cannot be written anywhere.
    clean = clean.encode("utf-8", "replace").decode()
    return clean if len(clean) <= MESSAGE_CHARS else clean[: MESSAGE_CHARS - 1] + "…"
