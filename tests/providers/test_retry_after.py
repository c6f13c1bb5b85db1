"""Wait hints: every place a provider may tell one, in the order of the rows, garbage as absent."""

import json
import math
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.providers._retry_after import retry_after_s

ERRORS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "errors"


class Row(NamedTuple):
    """A row as a policy holds it; places that it does not name are None."""

    header: str | None = None
    json_path: str | None = None
    message: str | None = None
    unit: str | None = None


IN_MS = Row(header="retry-after-ms", unit="ms")
IN_HEADER = Row(header="retry-after", unit="s_or_date")
IN_DETAILS = Row(json_path="error.details[].retryDelay", unit="duration")
IN_TEXT = Row(message=r"(?:try again|retry) in\s*(\d+(?:\.\d+)?)\s*(ms|s|seconds?|m|minutes?)\b")
AFTER_N = Row(message=r"try again after\s*(\d+)\s*(seconds?|minutes?)")
LONG_TEXT = Row(message=r"try again in\s*((?:\d+(?:\.\d+)?(?:ms|s|m|h))+)", unit="duration")
ALL = (IN_MS, IN_HEADER, IN_DETAILS, IN_TEXT, AFTER_N)

NOW = datetime(2026, 8, 19, 14, 35, 11, tzinfo=UTC)
DATE = "Wed, 19 Aug 2026 14:35:11 GMT"


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        # anthropic, openai, azure, cohere: facts/providers.md
        ({"retry-after": "3"}, 3.0),
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after-ms": "400"}, 0.4),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1.0),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "7200"}, 7200.0),
        ({"retry-after": "30s"}, 30.0),
        # the three forms of an HTTP date, against the response's own clock
        ({"date": DATE, "retry-after": "Wed, 19 Aug 2026 14:35:13 GMT"}, 2.0),
        ({"date": DATE, "retry-after": "Wednesday, 19-Aug-26 14:35:13 GMT"}, 2.0),
        ({"date": DATE, "retry-after": "Wed Aug 19 14:35:13 2026"}, 2.0),
        ({"date": DATE, "retry-after": "2026-08-19T14:36:11Z"}, 60.0),
        # absent
        ({}, None),
        ({"date": DATE}, None),
        ({"date": DATE, "retry-after": DATE}, None),
        ({"date": DATE, "retry-after": "Wed, 19 Aug 2026 14:35:10 GMT"}, None),
        *(
            ({"retry-after": text}, None)
            for text in "0,0.0,-1,-0,+1,nan,inf,-inf,Infinity,1e3,1_0,٣,0x10,soon,1 2,30 parsecs,,"
            "1e999,99999999999999999999,Wed 19,1760000000".split(",")
        ),
        ({"date": DATE, "retry-after": "Wed, 19 Aug 99999999999 14:35:13 GMT"}, None),
    ],
)
def test_headers(headers: dict[str, str], wait_s: float | None) -> None:
    """Milliseconds before seconds before a date; what is no number above zero is absent."""
    assert retry_after_s(ALL, headers) == wait_s


@pytest.mark.parametrize("skew_s", [-3600, 0, 3600])
def test_a_date_is_measured_by_the_clock_of_the_response(skew_s: int) -> None:
    """A local clock that is an hour wrong changes nothing while the response says its time."""
    headers = {"date": DATE, "retry-after": "Wed, 19 Aug 2026 14:35:13 GMT"}
    assert retry_after_s(ALL, headers, wall_now=NOW.timestamp() + skew_s) == 2.0


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone cannot be set here")
def test_a_date_without_a_zone_is_universal_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old HTTP form names no zone; the machine's own zone does not get in."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "XXX-9")
        time.tzset()
        headers = {"date": DATE, "retry-after": "Wed Aug 19 14:35:13 2026"}
        assert retry_after_s(ALL, headers) == 2.0
    time.tzset()


def test_a_date_counts_only_in_a_row_that_expects_one() -> None:
    """A row of seconds reads no date; a row's header may be written in any case."""
    headers = {"date": DATE, "retry-after": "Wed, 19 Aug 2026 14:35:13 GMT"}
    assert retry_after_s([Row(header="Retry-After", unit="s")], headers) is None
    assert retry_after_s([Row(header="Retry-After", unit="s_or_date")], headers) == 2.0


@pytest.mark.parametrize("date", [{}, {"date": "yesterday"}])
def test_a_date_without_a_clock_of_the_response_needs_ours(date: dict[str, str]) -> None:
    """Without a readable `Date` the time handed in counts; without both a date says nothing."""
    headers = {**date, "retry-after": "Wed, 19 Aug 2026 14:35:13 GMT"}
    assert retry_after_s(ALL, headers, wall_now=NOW.timestamp()) == 2.0
    assert retry_after_s(ALL, headers) is None


@pytest.mark.parametrize(
    ("delay", "wait_s"),
    [
        ("39s", 39.0), ("0.25s", 0.25), ("48.939935699s", 48.939935699), ("1m30s", 90.0),
        ("1h 2m 3s", 3723.0), ("20ms", 0.02), ("6m0s", 360.0), (39, 39.0), (1.5, 1.5),
        ("39", 39.0), ("0s", None), ("-3s", None), ("s", None), ("3 parsecs", None),
        ("3s later", None), (0, None), (-1, None), (True, None), (None, None), (math.nan, None),
        (math.inf, None), (10**400, None), ("9" * 400 + "s", None), ("400d", None),
        ({"seconds": 3}, None),
    ],
)  # fmt: skip
def test_body(delay: object, wait_s: float | None) -> None:
    """A duration in the body, at any place of a list; Google's `RetryInfo.retryDelay` is one."""
    body = {"error": {"code": 429, "details": [{"@type": "Help"}, {"retryDelay": delay}]}}
    assert retry_after_s(ALL, {}, body) == wait_s
    assert retry_after_s(ALL, {}, [body]) == wait_s


@pytest.mark.parametrize("body", [None, "", [], {}, {"error": "busy"}, {"error": {"details": {}}}])
def test_a_body_of_another_shape_tells_nothing(body: Any) -> None:
    """A path that the body does not have is absent, whatever stands in its place."""
    assert retry_after_s(ALL, {}, body) is None


@pytest.mark.parametrize(
    ("message", "wait_s"),
    [
        ("Rate limit reached for m in organization o. Please try again in 1.2s.", 1.2),
        ("Please try again in 20ms. Visit https://example.test", 0.02),
        ("please TRY AGAIN IN 3 SECONDS", 3.0),
        ("try again in 2 minutes", 120.0),
        ("Please retry in 48.939935699s.", 48.939935699),
        ("Your account is limited, please try again after 1 seconds", 1.0),
        ("try again in 0s, or try again in 4s", 4.0),
        ("Resource exhausted. Please try again later.", None),
        ("Too many tokens, please wait before trying again.", None),
        ("decrease input length or `max_tokens` and try again", None),
        ("try again in 5 parsecs", None),
        ("", None),
        ("x" * 5000 + " try again in 1s", None),
    ],
)
def test_message(message: str, wait_s: float | None) -> None:
    """The number and the unit that the provider wrote into its text."""
    assert retry_after_s(ALL, {}, None, message) == wait_s


def test_one_group_may_hold_a_whole_duration() -> None:
    """`1m12.5s` is not read as one minute where the row takes all of it."""
    assert retry_after_s([LONG_TEXT], {}, None, "Please try again in 1m12.5s.") == 72.5


def test_a_number_alone_is_in_the_unit_of_its_row() -> None:
    """A pattern with one group and no unit in it uses the row's; without one, seconds."""
    text = "wait 250 please"
    assert retry_after_s([Row(message=r"wait (\d+)", unit="ms")], {}, None, text) == 0.25
    assert retry_after_s([Row(message=r"wait (\d+)")], {}, None, text) == 250.0


def test_the_first_row_with_a_usable_value_wins() -> None:
    """The order is that of the rows, and a row that tells nothing usable is passed over."""
    headers = {"retry-after": "7"}
    body = {"error": {"details": [{"retryDelay": "5s"}]}}
    message = "try again in 3s"
    assert retry_after_s(ALL, headers, body, message) == 7.0
    assert retry_after_s(ALL, {"retry-after": "0"}, body, message) == 5.0
    assert retry_after_s(ALL, {}, {}, message) == 3.0
    assert retry_after_s((IN_TEXT, IN_HEADER), headers, body, message) == 3.0
    assert retry_after_s((), headers, body, message) is None


RESETS = {
    "date": DATE,
    "anthropic-ratelimit-tokens-reset": "2026-08-19T14:35:41Z",
    "x-ratelimit-reset-requests": "12ms",
    "x-ratelimit-reset-tokens": "6m0s",
    "x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 5000),
}


@pytest.mark.parametrize(
    ("row", "wait_s"),
    [
        (Row(header="anthropic-ratelimit-tokens-reset", unit="s_or_date"), 30.0),
        (Row(header="x-ratelimit-reset-requests", unit="duration"), 0.012),
        (Row(header="x-ratelimit-reset-tokens", unit="duration"), 360.0),
        (Row(header="x-ratelimit-reset", unit="epoch_ms"), 5.0),
    ],
)
def test_a_reset_time_is_a_hint_only_where_a_row_says_so(row: Row, wait_s: float) -> None:
    """When a window refills is not a wish to wait, unless the policy reads it as one."""
    assert retry_after_s(ALL, RESETS) is None
    assert retry_after_s((*ALL, row), RESETS) == pytest.approx(wait_s)


def test_a_unit_that_does_not_exist_is_refused() -> None:
    """The message names the unit and the ones that exist, also when nothing was sent."""
    with pytest.raises(ValueError, match=r"unknown unit 'weeks', expected one of: ms, s, "):
        retry_after_s([Row(header="retry-after", unit="weeks")], {})


values = st.text() | st.floats() | st.integers() | st.none() | st.booleans()
json_like = st.recursive(values, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.text() | st.floats().map(str) | st.datetimes().map(format_datetime), json_like, st.text())
def test_no_answer_makes_it_raise_or_wait_for_ever(text: str, body: Any, message: str) -> None:
    """Whatever a server sends, the result is absent or a finite wait, at most a year."""
    headers = {"Date": text, "Retry-After": text, "retry-after-ms": message}
    bodies = [body, {"error": {"details": body}}, {"error": {"details": [{"retryDelay": body}]}}]
    for each in bodies:
        for now in (None, 0.0, NOW.timestamp()):
            wait_s = retry_after_s(ALL, headers, each, f"try again in {message}", wall_now=now)
            assert wait_s is None or 0 < wait_s <= 366 * 86400


# Written by hand from the recorded bodies and headers. All others of the folder tell no wait.
RECORDED = {
    # retry-after-ms is 0, so retry-after counts
    "azure-429-real-error-scenarios-azure-grok-4-1-fast-non-reasoning-handl.json": 1.0,
    # RetryInfo says 48s, the text 48.939935699s: the row that comes first wins
    "google-429-real-error-scenarios-gemini-gemini-2-5-flash-handles-context.json": 48.0,
}


def recorded_answer(name: str) -> tuple[dict[str, str], Any, str]:
    """Headers, decoded body and error text of a recorded error."""
    record = json.loads((ERRORS / name).read_text("utf-8"))
    body = record["body"]
    error = body.get("error", body) if isinstance(body, dict) else body
    text = error.get("message", "") if isinstance(error, dict) else error
    return record["headers"], body, text if isinstance(text, str) else ""


@pytest.mark.skipif(not ERRORS.exists(), reason="the recorded errors are not beside the project")
def test_recorded_errors_tell_what_stands_in_them() -> None:
    """Of all recorded errors exactly the ones that tell a wait give one, and the right one."""
    names = sorted(path.name for path in ERRORS.glob("*.json"))
    told = {name: retry_after_s(ALL, *recorded_answer(name)) for name in names}
    assert {name: wait_s for name, wait_s in told.items() if wait_s is not None} == RECORDED
    google = recorded_answer(
        "google-429-real-error-scenarios-gemini-gemini-2-5-flash-handles-context.json"
    )
    assert retry_after_s((IN_TEXT, IN_DETAILS), *google) == 48.939935699


@pytest.mark.skipif(not ERRORS.exists(), reason="the recorded errors are not beside the project")
@pytest.mark.parametrize(
    "row",
    [
        Row(header="x-ratelimit-reset", unit="epoch_ms"),
        Row(json_path="error.metadata.headers.X-RateLimit-Reset", unit="epoch_ms"),
    ],
)
def test_a_recorded_window_that_ends_at_a_point_in_time(row: Row) -> None:
    """OpenRouter's free limit: sent at 13:56:55, open again at 13:57:00, in header and body."""
    answer = recorded_answer("openrouter-429-streaming.json")
    assert retry_after_s([row], *answer) == 5.0
