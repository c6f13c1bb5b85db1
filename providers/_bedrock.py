"""What both Bedrock dialects share: frames, exceptions, the model in the path, the key.

Rule: a request's body holds no model, its path does. Imports no IO.

What a client of ours can send is a request with a key in a header: a Bedrock API key (a bearer
token). IAM keys sign the method, path, headers and body of each request (Signature Version 4), and
headers that are made once cannot do that; they are refused where the client is made, not by a 403
later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec

from midthought.policies import Policy
from midthought.statemachine import Request

from ._aws_frames import AWSFramer, parser
from ._dialect import ErrorFacts
from ._http_errors import error_facts
from ._json import decode_json
from ._sse import Frame, Framer

__all__ = [
    "CONTENT_TYPES",
    "EVENTS",
    "chunk_bytes",
    "exception_facts",
    "framer",
    "model_of",
    "ready",
    "with_model",
]

Json = dict[str, Any]

CONTENT_TYPES: Final = ("application/vnd.amazon.eventstream",)
EVENTS: Final = CONTENT_TYPES[0]

_ACCESS_KEY_ID: Final = re.compile(r"(?:AKIA|ASIA)[A-Z0-9]{12,32}(?::.*)?", re.DOTALL)
#: The status that each exception has over HTTP (botocore's model of the service), in lower case.
_STATUS: Final = {
    "internalserverexception": 500,
    "modelstreamerrorexception": 424,
    "modeltimeoutexception": 408,
    "serviceunavailableexception": 503,
    "throttlingexception": 429,
    "validationexception": 400,
}
#: Where the caller's request may name the model: as boto3 does, or as the Anthropic SDK does.
_MODEL_KEYS: Final = ("modelId", "model")


class _Chunk(msgspec.Struct, rename={"value": "bytes"}, gc=False):
    value: bytes


_decode_chunk: Final = msgspec.json.Decoder(_Chunk).decode


def chunk_bytes(data: bytes) -> bytes:
    """What a ``chunk`` event carries in base64; raises what ``REFUSED`` names where it is none."""
    return _decode_chunk(data).value


def framer(policy: Policy) -> Framer:
    """Messages of the event stream."""
    return AWSFramer(policy.limits.event_bytes)


def ready(api_key: str | None) -> None:
    """Raise where a client could not work: no parser installed, or a key that signs requests."""
    parser()
    if api_key is not None and _ACCESS_KEY_ID.fullmatch(api_key.strip()):
        raise ValueError(
            "this is an IAM access key, which signs requests (SigV4); this client sends a key in a "
            "header: pass a Bedrock API key, or set AWS_BEARER_TOKEN_BEDROCK"
        )


def model_of(request: Mapping[str, Any]) -> str:
    """Model or inference profile of the request, or an empty string."""
    found = (request.get(key) for key in _MODEL_KEYS)
    return next((name for name in found if isinstance(name, str) and name), "")


def with_model(body: Json, path: str, suffix: str, drop: tuple[str, ...] = ()) -> Request:
    """The request with its model in the path instead of the body.

    ``drop``: other keys to leave out. ``ValueError`` without a model: there is no path then.
    """
    model = model_of(body)
    if not model or model in (".", ".."):
        raise ValueError("the request names no model: set modelId, which goes into the path")
    kept = {key: value for key, value in body.items() if key not in (*_MODEL_KEYS, *drop)}
    url = path.replace("{model}", quote(model, safe=":"))
    return Request(kept, base_url_suffix=suffix, path=url)


def exception_facts(frame: Frame) -> ErrorFacts:
    """The error that an exception frame states; its name is the first code.

    A ``modelStreamErrorException`` also brings the words and the status of the model's own server.
    """
    try:
        body = decode_json(frame.data or b"{}")
    except ValueError:
        body = {}
    stated = error_facts(body, 400) or ErrorFacts()
    original = body.get("originalMessage") if isinstance(body, Mapping) else None
    words = [text for text in (stated.message, original) if isinstance(text, str) and text]
    name = frame.event or ""
    codes = (name, *stated.codes) if name else stated.codes
    return ErrorFacts(": ".join(dict.fromkeys(words)), codes, _STATUS.get(name.lower()), body)
