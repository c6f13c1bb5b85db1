"""What servers turned out to refuse: remembered by a client, given to the machine as a fact."""

from __future__ import annotations

import threading
from collections.abc import Collection

__all__ = ["Capabilities"]


class Capabilities:
    """Refused continuation strategies per (policy, base URL, model, request features).

    Thread-safe; share one between clients that talk to the same servers.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: dict[tuple[str, ...], frozenset[str]] = {}

    @staticmethod
    def _key(policy: str, base_url: str, model: str, features: Collection[str]) -> tuple[str, ...]:
        asked = [f for f in ("tools", "thinking", "structured_output") if f in features]
        return (policy, base_url, model, *asked)

    def refused(
        self, policy: str, base_url: str, model: str, features: Collection[str]
    ) -> frozenset[str]:
        """Strategies not to try again."""
        return self._refused.get(self._key(policy, base_url, model, features), frozenset())

    def learn(
        self,
        policy: str,
        base_url: str,
        model: str,
        features: Collection[str],
        refused: Collection[str],
    ) -> None:
        """Remember what this turn found out."""
        if not refused:
            return
        key = self._key(policy, base_url, model, features)
        with self._lock:
            self._refused[key] = self._refused.get(key, frozenset()) | frozenset(refused)
