"""A scriptable upstream that breaks on purpose, for tests of anything that reads LLM streams.

The public door of the testing kit. It stands alone: nothing else of midthought is imported, and no
test framework either.
"""

from ._answers import Answer
from ._cases import Case, load_cases
from ._cut import cut, event_borders, play
from ._cutter import Cut, Cutter
from ._errors import PortUnavailable, SceneError, ScriptError, UnsupportedStep, UpstreamError
from ._local_model import LocalModel, LocalModelUnavailable, local_model_missing
from ._port import refused_port
from ._record import RecordedRequest
from ._script import Attempt, Step
from ._server import FaultyUpstream

__all__ = [
    "Answer",
    "Attempt",
    "Case",
    "Cut",
    "Cutter",
    "FaultyUpstream",
    "LocalModel",
    "LocalModelUnavailable",
    "PortUnavailable",
    "RecordedRequest",
    "SceneError",
    "ScriptError",
    "Step",
    "UnsupportedStep",
    "UpstreamError",
    "cut",
    "event_borders",
    "load_cases",
    "local_model_missing",
    "play",
    "refused_port",
]
