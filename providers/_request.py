"""Request bodies as data: read and change them by dotted paths, never in place.

Every function returns new dicts and copies only what it changes; the caller's request is shared,
not touched. Rows of a policy (``[[features]]``, ``[cap]``) are read here, so that no dialect
repeats it. Imports no IO.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

from midthought.policies import Policy

__all__ = [
    "NOT_EXECUTED",
    "MISSING",
    "append_messages",
    "assemble",
    "base_request",
    "ends_with_role",
    "features_of",
    "fill",
    "get_path",
    "is_set",
    "merge",
    "model_of",
    "own_cap",
    "with_cap",
    "with_path",
    "without_path",
]

Json = dict[str, Any]

#: What ``get_path`` answers where there is nothing; ``None`` is a value.
MISSING: Final = object()

#: What a tool call is answered with that nobody will run: the turn was ended before it.
NOT_EXECUTED: Final = "Interrupted before this call was executed. It had no effect."

#: Anthropic refuses a smaller manual thinking budget.
LEAST_THINKING_BUDGET: Final = 1024


def get_path(data: Any, path: str) -> Any:
    """The value at ``a.b.-1.c``, or ``MISSING``; whole numbers index lists."""
    for key in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(key, MISSING)
        elif isinstance(data, list | tuple):
            try:
                data = data[int(key)]
            except (ValueError, IndexError):
                return MISSING
        else:
            return MISSING
    return data


def with_path(data: Mapping[str, Any], path: str, value: Any) -> Json:
    """A copy of ``data`` with ``value`` at the dotted ``path``; tables on the way are made."""
    key, _, rest = path.partition(".")
    copy = dict(data)
    if rest:
        below = copy.get(key)
        value = with_path(below if isinstance(below, Mapping) else {}, rest, value)
    copy[key] = value
    return copy


def without_path(data: Mapping[str, Any], path: str) -> Json:
    """A copy of ``data`` without the value at the dotted ``path``; other keys stay as they are."""
    key, _, rest = path.partition(".")
    copy = dict(data)
    if not rest:
        copy.pop(key, None)
    elif isinstance(below := copy.get(key), Mapping):
        copy[key] = without_path(below, rest)
    return copy


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> Json:
    """``over`` laid on ``base``: tables are merged at every depth, any other value is replaced."""
    copy = dict(base)
    for key, value in over.items():
        below = copy.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = merge(below, value)
        copy[key] = value
    return copy


def fill(base: Mapping[str, Any], defaults: Mapping[str, Any]) -> Json:
    """``defaults`` put in where ``base`` says nothing; what ``base`` sets, ``None`` too, stays."""
    return merge(defaults, base) if defaults else dict(base)


def is_set(value: Any) -> bool:
    """A value counts as given when it is neither missing nor null, false, or empty; 0 is given."""
    if value is MISSING or value is None or value is False:
        return False
    return not (isinstance(value, str | Mapping | list | tuple) and not value)


def features_of(request: Mapping[str, Any], policy: Policy) -> frozenset[str]:
    """Features that the policy's ``[[features]]`` rows find in this request."""
    found = set()
    for row in policy.features:
        if row.feature in found:
            continue
        value = True if row.path is None else get_path(request, row.path)
        if row.above is not None:
            holds = _is_number(value) and value > row.above
        elif row.equals:
            # 1 == True in Python, but not in a request.
            holds = any(
                value == wanted and isinstance(value, bool) is isinstance(wanted, bool)
                for wanted in row.equals
            )
        else:
            holds = is_set(value)
        if holds:
            found.add(row.feature)
    return frozenset(found)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def model_of(request: Mapping[str, Any]) -> str:
    """The request's ``model``, or an empty string."""
    model = request.get("model")
    return model if isinstance(model, str) else ""


def own_cap(request: Mapping[str, Any], policy: Policy) -> int | None:
    """The request's own output cap: the first of ``[cap] fields`` that holds a number."""
    for path in policy.cap.fields:
        value = get_path(request, path)
        if _is_number(value):
            return int(value)
    return None


def with_cap(request: Mapping[str, Any], policy: Policy, cap: int | None) -> Json:
    """A copy with the output cap ``cap`` (tokens), in the field that the request uses already.

    ``cap`` is used as it is: the floor is the machine's. A thinking budget must stay ``floor``
    below it (a provider refuses the request otherwise): the cap is raised up to the request's own,
    else the budget is lowered, but not below 1024, else both are left as the caller set them.
    """
    fields = policy.cap.fields
    if cap is None or not fields:
        return dict(request)
    field = next((path for path in fields if _is_number(get_path(request, path))), fields[0])
    floor, path = policy.cap.floor, policy.cap.thinking_budget
    budget = get_path(request, path) if path else MISSING
    if path is None or not _is_number(budget) or cap >= budget + floor:
        return with_path(request, field, cap)
    most = max(cap, own_cap(request, policy) or 0)
    if budget + floor <= most:
        return with_path(request, field, int(budget) + floor)
    if LEAST_THINKING_BUDGET + floor <= most:
        lowered = max(LEAST_THINKING_BUDGET, cap - floor)
        return with_path(with_path(request, field, lowered + floor), path, lowered)
    return dict(request)


def base_request(request: Mapping[str, Any], policy: Policy) -> Json:
    """The body of request 0: the caller's, with ``[stream] merge`` where the caller set nothing."""
    return fill(request, policy.stream.merge)


def ends_with_role(messages: Any, role: str) -> bool:
    """Whether the last message of a list has this role."""
    return bool(
        isinstance(messages, list | tuple)
        and messages
        and isinstance(messages[-1], Mapping)
        and messages[-1].get("role") == role
    )


def append_messages(
    request: Mapping[str, Any], added: Sequence[Mapping[str, Any]], *, replace_last: bool = False
) -> Json:
    """A copy of ``request`` with ``added`` after its messages, or in the place of the last one."""
    own = list(request.get("messages") or ())
    if replace_last:
        del own[-1:]
    return {**request, "messages": [*own, *added]}


def assemble(body: Json, policy: Policy, *, strategy: str, cap: int | None) -> tuple[Json, str]:
    """Body and base URL suffix of a continuation: the cap, and what ``prefill`` merges in."""
    body = with_cap(body, policy, cap)
    if strategy != "prefill":
        return body, ""
    prefill = policy.continuation.prefill
    return merge(body, prefill.request), prefill.base_url_suffix
