"""Pick a broken LLM reply up mid-thought: a recovery policy engine for streams.

The public door. ``load_policy`` reads a policy, ``Client`` and ``AsyncClient`` stream turns with
recovery, ``Recovery`` is the machine alone, ``journal`` writes what happened as JSON Lines.
"""

from midthought import journal
from midthought._engine import Recovery
from midthought._errors import (
    ClosedClient,
    InvalidHeader,
    InvalidPreparedCall,
    InvalidRequest,
    InvalidTransition,
    MidthoughtError,
    MissingKey,
    RecoveryExhausted,
)
from midthought._version import __version__
from midthought.client import (
    AsyncClient,
    AsyncStream,
    Capabilities,
    Client,
    PreparedCall,
    Reply,
    Stream,
    ToolCall,
)
from midthought.policies import Policy, PolicyError, list_policies, load_policy
from midthought.statemachine import (
    BlockClosed,
    BlockDelta,
    BlockStarted,
    Failure,
    Retracted,
    StateChanged,
    StopKnown,
    TurnFinished,
    UsageReported,
    register_guard,
)

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "BlockClosed",
    "BlockDelta",
    "BlockStarted",
    "Capabilities",
    "Client",
    "ClosedClient",
    "Failure",
    "InvalidHeader",
    "InvalidPreparedCall",
    "InvalidRequest",
    "InvalidTransition",
    "MidthoughtError",
    "MissingKey",
    "Policy",
    "PolicyError",
    "PreparedCall",
    "Recovery",
    "RecoveryExhausted",
    "Reply",
    "Retracted",
    "StateChanged",
    "StopKnown",
    "Stream",
    "ToolCall",
    "TurnFinished",
    "UsageReported",
    "__version__",
    "journal",
    "list_policies",
    "load_policy",
    "register_guard",
]
