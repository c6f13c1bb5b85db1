"""What a client costs over real sockets: raw httpx as the floor, ours, and the official SDKs.

All read the same reply of the same server to its end and look at every event. Each has one HTTP
client that keeps its connection, and none repeats a request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import httpx
import openai
from streams import DIALECTS, REQUESTS
from timing import Cost, measure, measure_async
from upstream import PATHS, PER_CHUNK, upstream

import midthought

__all__ = ["CLIENTS", "Case", "client_costs"]

CLIENTS = ("httpx + split + JSON", "midthought", "SDK")
#: A reply of one token costs what a turn costs beside its events; so many make one sample.
_SHORT_TURNS = 10


class Case(NamedTuple):
    """What is measured."""

    host: str
    """``sync`` or ``async``."""
    dialect: str
    reply: str
    """Events per chunk, or ``short``."""
    client: str


def client_costs(tokens: int, rounds: int) -> dict[Case, Cost]:
    """Microseconds per event of every client; per turn for the short reply."""
    with upstream(tokens) as url:
        costs = _sync(url, tokens, rounds)
        costs.update(asyncio.run(_async(url, tokens, rounds)))
    return costs


def _cases(host: str, reply: str) -> list[Case]:
    return [Case(host, dialect, reply, client) for dialect in DIALECTS for client in CLIENTS]


def _long(host: str) -> list[Case]:
    return [case for reply in PER_CHUNK if reply != "short" for case in _cases(host, reply)]


def _sync(url: str, tokens: int, rounds: int) -> dict[Case, Cost]:
    def turn(case: Case) -> Callable[[], None]:
        return _SYNC[case.client, case.dialect](f"{url}/{case.reply}", case.dialect)

    cases = {case: turn(case) for case in _long("sync")}
    short = {case: turn(case) for case in _cases("sync", "short")}
    return {
        **measure(cases, rounds=rounds, units=tokens),
        **measure(short, rounds=rounds, units=1, repeat=_SHORT_TURNS),
    }


async def _async(url: str, tokens: int, rounds: int) -> dict[Case, Cost]:
    def turn(case: Case) -> Callable[[], Awaitable[None]]:
        return _ASYNC[case.client, case.dialect](f"{url}/{case.reply}", case.dialect)

    cases = {case: turn(case) for case in _long("async")}
    short = {case: turn(case) for case in _cases("async", "short")}
    return {
        **await measure_async(cases, rounds=rounds, units=tokens),
        **await measure_async(short, rounds=rounds, units=1, repeat=_SHORT_TURNS),
    }


def _loads(rest: bytes) -> bytes:
    """Read the whole events in ``rest``; what is left of it."""
    *frames, rest = rest.split(b"\n\n")
    for frame in frames:
        for line in frame.split(b"\n"):
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                json.loads(line[6:])
    return rest


def _body(dialect: str) -> dict[str, Any]:
    return {**REQUESTS[dialect], "stream": True}


# --- sync -----------------------------------------------------------------------------------------


def _floor(url: str, dialect: str) -> Callable[[], None]:
    http = httpx.Client(timeout=None)

    def turn() -> None:
        rest = b""
        with http.stream("POST", url + PATHS[dialect], json=_body(dialect)) as response:
            for chunk in response.iter_raw():
                rest = _loads(rest + chunk)

    return turn


def _ours(url: str, dialect: str) -> Callable[[], None]:
    client = midthought.Client(dialect, base_url=url, api_key="none")

    def turn() -> None:
        for _ in client.stream(client.prepare(REQUESTS[dialect])):
            pass

    return turn


def _anthropic(url: str, dialect: str) -> Callable[[], None]:
    client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)

    def turn() -> None:
        for _ in client.messages.create(**_body(dialect)):
            pass

    return turn


def _openai(url: str, dialect: str) -> Callable[[], None]:
    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def turn() -> None:
        for _ in client.chat.completions.create(**_body(dialect)):
            pass

    return turn


# --- async ----------------------------------------------------------------------------------------


def _afloor(url: str, dialect: str) -> Callable[[], Awaitable[None]]:
    http = httpx.AsyncClient(timeout=None)

    async def turn() -> None:
        rest = b""
        async with http.stream("POST", url + PATHS[dialect], json=_body(dialect)) as response:
            async for chunk in response.aiter_raw():
                rest = _loads(rest + chunk)

    return turn


def _aours(url: str, dialect: str) -> Callable[[], Awaitable[None]]:
    client = midthought.AsyncClient(dialect, base_url=url, api_key="none")

    async def turn() -> None:
        async for _ in client.stream(client.prepare(REQUESTS[dialect])):
            pass

    return turn


def _aanthropic(url: str, dialect: str) -> Callable[[], Awaitable[None]]:
    client = anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0)

    async def turn() -> None:
        async for _ in await client.messages.create(**_body(dialect)):
            pass

    return turn


def _aopenai(url: str, dialect: str) -> Callable[[], Awaitable[None]]:
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    async def turn() -> None:
        async for _ in await client.chat.completions.create(**_body(dialect)):
            pass

    return turn


_FLOOR, _OURS, _SDK = CLIENTS
_SYNC = {(_FLOOR, d): _floor for d in DIALECTS} | {(_OURS, d): _ours for d in DIALECTS}
_SYNC |= {(_SDK, "anthropic"): _anthropic, (_SDK, "openai-chat"): _openai}
_ASYNC = {(_FLOOR, d): _afloor for d in DIALECTS} | {(_OURS, d): _aours for d in DIALECTS}
_ASYNC |= {(_SDK, "anthropic"): _aanthropic, (_SDK, "openai-chat"): _aopenai}
