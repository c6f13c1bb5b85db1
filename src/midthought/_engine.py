"""The sans-IO door: the machine with its policy's dialect chosen."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Mapping
from typing import Any

from midthought import statemachine
from midthought.policies import Policy, load_policy
from midthought.providers import AttemptReader, get_dialect
from midthought.statemachine import Rng

__all__ = ["Recovery"]


class Recovery(statemachine.Recovery):
    """One turn without IO: feed events and the time, carry out the effects.

    ``policy`` is a policy, a name or a path; ``request`` the provider's JSON body. ``rng`` gives
    uniform numbers in [0, 1) for jitter; give your own for replays. ``reader(attempt)`` makes what
    turns the bytes of an attempt into events.
    """

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        request: Mapping[str, Any],
        *,
        rng: Rng = random.random,
        hooks: Collection[str] = (),
        refused: Collection[str] = (),
        turn_id: str = "",
        run_id: str = "",
    ) -> None:
        found = policy if isinstance(policy, Policy) else load_policy(policy)
        self.dialect = get_dialect(found.dialect)
        super().__init__(
            found,
            request,
            self.dialect,
            rng=rng,
            hooks=hooks,
            refused=refused,
            turn_id=turn_id,
            run_id=run_id,
        )

    def reader(self, attempt: int) -> AttemptReader:
        """A reader for the bytes of ``attempt``."""
        return AttemptReader(
            self.policy,
            self.dialect,
            attempt,
            model=self.model,
            choices=self.dialect.choices(self.request),
        )
