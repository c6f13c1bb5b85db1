"""What the sync and the async client share: configuration, preparing, and building requests."""

from __future__ import annotations

import os
import random
import uuid
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec

from midthought.policies import Policy, load_policy
from midthought.providers import get_dialect
from midthought.statemachine import Connection, Phase, Request, Rng

from ._call import PreparedCall
from ._capabilities import Capabilities
from ._core import Sink, TurnCore
from ._errors import ClosedClient, InvalidHeader, InvalidPreparedCall, MissingKey, RecoveryExhausted
from ._records import record

__all__ = ["STOP_CALL_S", "BaseClient", "Hook", "Opening", "connection_phase", "exhausted"]

#: How long a provider's stop call may take; the caller has left and waits for it.
STOP_CALL_S = 5.0
#: The machine's clock ends the wait for a response; the HTTP library's stands behind it.
MARGIN_S = 5.0

#: A host hook: gets the failure kind and the caller's request, returns the request to go on with,
#: or
#: ``None`` to refuse. Async clients take coroutine functions too.
Hook = Callable[[str, dict[str, Any]], Any]


class Opening:
    """One HTTP exchange being opened: its timeouts, and whether its connection is a new one."""

    def __init__(self, headers_s: float, liveness_s: float, *, fresh: bool) -> None:
        #: httpx hands this very dict to its connection, which reads it anew for the body.
        self.timeout: dict[str, float | None] = {
            "connect": headers_s + MARGIN_S,
            "read": headers_s + MARGIN_S,
            "write": headers_s + MARGIN_S,
            "pool": headers_s + MARGIN_S,
        }
        self.read_s = liveness_s
        self._new = fresh
        self.phase = "connect"
        self.network_stream: Any = None
        """Of a connection that was made for this exchange: lets a blocked wait be ended."""

    def saw(self, name: str, info: Mapping[str, Any]) -> None:
        """A trace event of the transport."""
        if name in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self.network_stream = info.get("return_value")
        if name.startswith("connection.connect_"):
            self._new = True
        elif name.endswith("send_request_body.complete"):
            self.phase = "response"

    def responded(self) -> None:
        """From now on the read timeout is the liveness clock's."""
        self.timeout["read"] = self.read_s

    @property
    def connection(self) -> Connection:
        """``new`` or ``reused``."""
        return "new" if self._new else "reused"


class BaseClient:
    """Configuration of a client; thread-safe, immutable but for ``capabilities``."""

    def __init__(
        self,
        policy: Policy | str | os.PathLike[str],
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        on_record: Sink | None = None,
        hooks: Mapping[str, Hook] | None = None,
        capabilities: Capabilities | None = None,
        rng: Rng | None = None,
        run_id: str | None = None,
    ) -> None:
        self.policy = policy if isinstance(policy, Policy) else load_policy(policy)
        self.dialect = get_dialect(self.policy.dialect)
        self.base_url = (base_url or self.policy.base_url).rstrip("/")
        if not self.base_url.startswith(("http://", "https://")):
            raise ValueError(
                f"base_url is {self.base_url!r}, expected http://… or https://…: "
                "set base_url in the policy or pass base_url="
            )
        self._headers = {**self.dialect.headers(self.policy, self._key(api_key)), **(headers or {})}
        for header, value in self._headers.items():
            if not (value.isascii() and value.isprintable()):
                raise InvalidHeader(
                    f"header {header!r} has characters that HTTP cannot carry: "
                    "look for a line break or an accent in the API key or in headers="
                )
        self._on_record = on_record
        self._hooks = dict(hooks or {})
        self.capabilities = capabilities if capabilities is not None else Capabilities()
        self._rng: Rng = rng or random.random
        self.run_id = run_id or uuid.uuid4().hex
        self._closed = False
        self._running: weakref.WeakSet[TurnCore] = weakref.WeakSet()

    def _key(self, given: str | None) -> str | None:
        name = self.policy.auth.key_env
        if given or name is None:
            return given
        found = os.environ.get(name, "").strip()
        if not found:
            raise MissingKey(
                f"policy {self.policy.name!r} needs an API key: "
                f"set {name} in the environment or pass api_key="
            )
        return found

    def prepare(self, request: Mapping[str, Any]) -> PreparedCall:
        """Capture ``request`` (the provider's own JSON body) and its policy; sends nothing.

        Raises ``InvalidRequest`` for what cannot be streamed and ``ClosedClient`` after ``close``.
        """
        self._check_open()
        return PreparedCall(self, self.policy, self.dialect, request)

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedClient("this client is closed: make a new one")

    def _end_turns(self) -> None:
        self._closed = True
        for core in list(self._running):
            core.tell("abort")

    def _begin(self, call: PreparedCall) -> TurnCore:
        self._check_open()
        if not isinstance(call, PreparedCall):
            raise InvalidPreparedCall(
                f"a turn is run from a prepared call, not from a {type(call).__name__}: "
                "client.stream(client.prepare(request))"
            )
        features = self.dialect.features(call._request, call.policy)
        core = TurnCore(
            call.policy,
            self.dialect,
            call._request,
            rng=self._rng,
            sink=self._record,
            hooks=tuple(self._hooks),
            refused=self.capabilities.refused(
                call.policy.name, self.base_url, self.dialect.model(call._request), features
            ),
            turn_id=uuid.uuid4().hex,
            run_id=self.run_id,
        )
        call._start(self, core)
        self._running.add(core)
        return core

    def _record(self, name: str, fields: Mapping[str, Any]) -> None:
        record(name, fields)
        if self._on_record is not None:
            self._on_record(name, fields)

    def _learn(self, core: TurnCore) -> None:
        features = self.dialect.features(core.machine.request, core.policy)
        self.capabilities.learn(
            core.policy.name, self.base_url, core.machine.model, features, core.machine.refused
        )

    def _http_request(
        self, core: TurnCore, request: Request
    ) -> tuple[str, str, dict[str, str], bytes | None]:
        """Method, URL, headers and body of an upstream request."""
        path = request.path
        if path is None:
            path = self.dialect.url(request.body, core.policy)
        url = f"{self.base_url}{request.base_url_suffix}{path}"
        headers = {**self._headers, **request.headers}
        if request.method != "POST":
            return request.method, url, headers, None
        headers["content-type"] = "application/json"
        return request.method, url, headers, msgspec.json.encode(request.body)


def connection_phase(error: httpx.TransportError, opening: Opening) -> Phase:
    """``connect`` while no connection stood, else ``response``."""
    connecting = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    return "connect" if connecting else "response"


def exhausted(core: TurnCore) -> RecoveryExhausted:
    """The exception for a turn that did not complete."""
    turn = core.machine.turn
    retry_at = None
    if turn.retry_at_s is not None:
        retry_at = datetime.now(UTC) + timedelta(seconds=turn.retry_at_s)
    what = turn.failure.kind.value if turn.failure is not None else turn.reason
    detail = f": {turn.failure.message}" if turn.failure is not None else ""
    tried = f"{len(turn.attempts)} request{'s' if len(turn.attempts) != 1 else ''}"
    hint = turn.hint or "turn.messages holds a valid history of what was kept"
    message = f"the turn was {turn.outcome} after {tried} ({what}{detail}); {hint}"
    return RecoveryExhausted(message, core.reply, retry_at)
