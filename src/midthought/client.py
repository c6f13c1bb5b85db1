"""The native clients: one surface, sync and async, over the same machine."""

from ._async_client import AsyncClient, AsyncStream
from ._call import PreparedCall
from ._capabilities import Capabilities
from ._reply import Reply, ToolCall
from ._sync_client import Client, Stream

__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Capabilities",
    "Client",
    "PreparedCall",
    "Reply",
    "Stream",
    "ToolCall",
]
