"""A prepared call: the request and its policy, captured, to be run once."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Mapping
from typing import Any

from midthought.policies import Policy
from midthought.providers import Dialect

from ._core import TurnCore
from ._errors import InvalidPreparedCall, InvalidRequest
from ._reply import Reply

__all__ = ["PreparedCall"]


class PreparedCall:
    """What ``client.prepare`` returns; immutable, runs once, then holds the turn.

    ``policy`` is the policy with the model's own settings laid over it. ``cancel``, ``abort`` and
    ``yield_`` may be called from any thread or task, in any state; the first one wins.
    """

    def __init__(
        self, owner: object, policy: Policy, dialect: Dialect, request: Mapping[str, Any]
    ) -> None:
        if not isinstance(request, Mapping):
            raise InvalidRequest(
                f"a request is a mapping like {{'model': …, 'messages': […]}}, "
                f"not {type(request).__name__}"
            )
        if request.get("stream") is False:
            raise InvalidRequest(
                "the request says stream = false, but recovery needs a stream: "
                "leave 'stream' out, or use the provider's SDK for this call"
            )
        try:
            json.dumps(request, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"the request is no JSON: {error}") from None
        self._owner = owner
        self._request = copy.deepcopy(dict(request))
        self._lock = threading.Lock()
        self._core: TurnCore | None = None
        self.dialect = dialect
        self.policy = policy.for_model(dialect.model(request))

    @property
    def request(self) -> dict[str, Any]:
        """A copy of the captured request."""
        return copy.deepcopy(self._request)

    def _start(self, owner: object, core: TurnCore) -> None:
        with self._lock:
            if owner is not self._owner:
                raise InvalidPreparedCall(
                    "this call was prepared by another client: prepare it with the one that runs it"
                )
            if self._core is not None:
                raise InvalidPreparedCall(
                    "a prepared call runs once: call client.prepare(...) again for another turn"
                )
            self._core = core

    @property
    def turn(self) -> Reply:
        """The turn, live while it runs; raises ``InvalidPreparedCall`` before it was started."""
        if self._core is None:
            raise InvalidPreparedCall("this call was not run yet: iterate client.stream(call)")
        return self._core.reply

    def cancel(self) -> None:
        """The caller does not want the turn any more; no request is sent after this."""
        self._tell("cancel")

    def abort(self) -> None:
        """The program is shutting down."""
        self._tell("abort")

    def yield_(self) -> None:
        """The caller takes over with what there is."""
        self._tell("yield")

    def _tell(self, what: str) -> None:
        with self._lock:
            core = self._core
        if core is None:
            raise InvalidPreparedCall(f"nothing to {what}: this call was not run yet")
        core.tell(what)
