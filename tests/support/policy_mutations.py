"""Single mistakes that a person can make in a policy, made by program in a whole one.

Each kind is a function of a policy's data that yields mutants: a label, and the data with one
mistake in it. ``HARMLESS`` says which mutants a check rightly lets pass, and why.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from midthought.policies import DIALECT_STRATEGIES, SIGNING_DIALECTS

__all__ = ["HARMLESS", "KINDS", "Data", "harmless"]

Data = dict[str, Any]
Mutants = Iterator[tuple[str, Data]]
Kind = Callable[[Data], Mutants]

KINDS: dict[str, Kind] = {}

#: Mutants that may pass, as ``kind`` or ``kind: label`` (shell patterns), with the reason.
HARMLESS: dict[str, str] = {
    # --- the machine
    "rows swapped: assessed turn_complete": "both rows lead to the same state",
    "rows swapped: committed turn_complete": "both rows lead to the same state",
    "rows swapped: committed no_progress": "both rows lead to the same state",
    "row leads elsewhere: streaming finished -> interrupted": "it is assessed, and ends",
    "row leads elsewhere: committing committed wait_too_long -> interrupted": (
        "the next rule is tried; every try uses one up"
    ),
    "row leads elsewhere: committing committed wait_too_long -> backoff": (
        "long waits are slept; a note says so, and the worst case counts them"
    ),
    "rows swapped: committed accepts_partial": "no rule accepts a partial; a note says so",
    "row leads elsewhere: committing committed accepts_partial -> *": (
        "no rule accepts a partial; a note says that one that did would end wrongly"
    ),
    # --- rules
    "rule removed: *": "recovers less, but every kind is still answered; what ends is a note",
    "rules swapped: *": "both are still reached; which of two is asked first is a choice",
    "rule first: *": "it is taken first until its budget is used up; the others are still reached",
    "rule last: *": "no rule before it takes all of what it answers",
    "a copy of a rule behind it: *": "a second count of its own; limits.attempts bounds them all",
    "limit raised: *": "limits.attempts bounds every turn, and the worst case is printed",
    "backoff dropped: *": "each use is counted, and the worst case shows the shorter waits",
    "condition dropped: *": "the engine passes over what is not legal; the rule only answers more",
    "partial turned round: *": "recovers less; the engine passes over what is not legal",
    "attempts at most": "the rules' own limits bound the turn; more than 50 is a warning",
    "jitter none": "the waits are shorter, never longer",
    "hints refused": "a warning: some teams end a turn rather than wait",
    "no bound on standstill": "limits.attempts and the rules' limits end the turn all the same",
    "recovery off": "the stream is passed through; that is what the switch is for",
    # --- content
    "retraction": "native hosts can take text back; a note says that the wire cannot",
    "unsigned thinking: never signed": "this provider signs no thinking: nothing to lose",
    "text not kept: * with retraction": "turn.retract is on, so what is shown may be taken back",
    "shown pictures dropped: * with retraction": "turn.retract is on, as for text",
    "retry after output: * with retraction": "turn.retract is on, so the caller sees it once",
    "tail forgotten": "a warning: the reply still goes on, only joined less well",
    "grace of 0 s": "the reply is complete by then; only its usage may be missing",
}


def harmless(kind: str, label: str) -> str:
    """Why a mutant may pass; empty where it must be refused."""
    names = (kind, f"{kind}: {label}")
    found = [why for key, why in HARMLESS.items() if any(fnmatchcase(n, key) for n in names)]
    return found[0] if found else ""


def _kind(name: str) -> Callable[[Kind], Kind]:
    def add(kind: Kind) -> Kind:
        KINDS[name] = kind
        return kind

    return add


def _put(name: str, path: str, *values: Any) -> None:
    """A kind that sets one key."""

    def kind(data: Data) -> Mutants:
        for value in values:
            mutant = copy.deepcopy(data)
            table = mutant
            *ways, last = path.split("/")
            for way in ways:
                table = table[int(way)] if isinstance(table, list) else table.setdefault(way, {})
            table[last] = value
            yield f"{path} = {value!r}", mutant

    KINDS[name] = kind


def _each(data: Data, rows: str) -> Iterator[tuple[int, Data, Data]]:
    """Each row of an array (``machine.transitions``, ``rules``) in a copy of its own."""
    *ways, last = rows.split(".")
    count = len((data[ways[0]] if ways else data)[last])
    for at in range(count):
        mutant = copy.deepcopy(data)
        array = (mutant[ways[0]] if ways else mutant)[last]
        yield at, mutant, array[at]


def _row(row: Data) -> str:
    return " ".join([row["trigger"], *row.get("when", ())])


def _rows(data: Data) -> list[Data]:
    rows: list[Data] = data["machine"]["transitions"]
    return rows


def _name(data: Data, role: str) -> str:
    return next(str(s["name"]) for s in data["machine"]["states"] if s["role"] == role)


# --- the machine: states --------------------------------------------------------------------------


@_kind("state removed")
def _(data: Data) -> Mutants:
    for at, mutant, state in _each(data, "machine.states"):
        del mutant["machine"]["states"][at]
        yield state["name"], mutant


@_kind("state removed with its rows")
def _(data: Data) -> Mutants:
    for at, mutant, state in _each(data, "machine.states"):
        name = state["name"]
        del mutant["machine"]["states"][at]
        mutant["machine"]["transitions"] = [
            row for row in _rows(mutant) if name not in (row["source"], row["dest"])
        ]
        yield name, mutant


@_kind("state that nothing leads to")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    _add_state(mutant, "lonely", "wait")
    _rows(mutant).append({"trigger": "waited", "source": "lonely", "dest": "continuing"})
    yield "lonely", mutant


def _add_state(data: Data, name: str, role: str) -> None:
    data["machine"]["states"].append({"name": name, "role": role})
    ends = {"cancelled": "aborted", "yielded": "aborted", "deadline_passed": "exhausted"}
    _rows(data).extend({"trigger": t, "source": name, "dest": dest} for t, dest in ends.items())


@_kind("state twice")
def _(data: Data) -> Mutants:
    for at, mutant, state in _each(data, "machine.states"):
        mutant["machine"]["states"].insert(at, dict(state))
        yield state["name"], mutant


@_kind("role changed")
def _(data: Data) -> Mutants:
    for _at, mutant, state in _each(data, "machine.states"):
        state["role"] = "wait" if state["role"] != "wait" else "stream"
        yield state["name"], mutant


@_kind("role unknown")
def _(data: Data) -> Mutants:
    for _at, mutant, state in _each(data, "machine.states"):
        state["role"] = "loiter"
        yield state["name"], mutant


@_kind("outcome without a state")
def _(data: Data) -> Mutants:
    for _at, mutant, state in _each(data, "machine.states"):
        if state["role"] == "final":
            state["outcome"] = "completed" if state["name"] != "completed" else "aborted"
            yield state["name"], mutant


@_kind("beginning elsewhere")
def _(data: Data) -> Mutants:
    for _at, mutant, state in _each(data, "machine.states"):
        if state["role"] != "stream":
            mutant["machine"]["initial"] = state["name"]
            yield state["name"], mutant


# --- the machine: rows ----------------------------------------------------------------------------


@_kind("row removed")
def _(data: Data) -> Mutants:
    for at, mutant, row in _each(data, "machine.transitions"):
        del _rows(mutant)[at]
        yield f"{row['source']} {_row(row)}", mutant


@_kind("row twice")
def _(data: Data) -> Mutants:
    for at, mutant, row in _each(data, "machine.transitions"):
        _rows(mutant).insert(at, dict(row))
        yield f"{row['source']} {_row(row)}", mutant


@_kind("row leads elsewhere")
def _(data: Data) -> Mutants:
    names = [state["name"] for state in data["machine"]["states"]]
    for at, row in enumerate(_rows(data)):
        there = row["source"] if row["dest"] == "=" else row["dest"]
        for name in names:
            if name != there:
                mutant = copy.deepcopy(data)
                _rows(mutant)[at]["dest"] = name
                yield f"{row['source']} {_row(row)} -> {name}", mutant


@_kind("guard dropped")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        if row.get("when"):
            label = f"{row['source']} {_row(row)}"
            row["when"] = []
            yield label, mutant


@_kind("guard turned round")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        if row.get("when"):
            label = f"{row['source']} {_row(row)}"
            row["when"] = [f"not_{row['when'][0]}", *row["when"][1:]]
            yield label, mutant


@_kind("guard that nobody knows")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        row["when"] = [*row.get("when", ()), "is_tuesday"]
        yield f"{row['source']} {_row(row)}", mutant


@_kind("guard that can never hold")
def _(data: Data) -> Mutants:
    for at, mutant, row in _each(data, "machine.transitions"):
        if row["trigger"] == "finished" and row.get("when"):
            new = {**row, "when": ["turn_complete"]}  # nothing has failed there
            _rows(mutant).insert(at, new)
            yield row["source"], mutant


@_kind("last row with a guard")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        if not row.get("when"):
            row["when"] = ["recoverable"]
            yield f"{row['source']} {row['trigger']}", mutant


@_kind("rows swapped")
def _(data: Data) -> Mutants:
    for at, row in enumerate(_rows(data)[:-1]):
        after = _rows(data)[at + 1]
        if (row["source"], row["trigger"]) == (after["source"], after["trigger"]):
            mutant = copy.deepcopy(data)
            rows = _rows(mutant)
            rows[at], rows[at + 1] = rows[at + 1], rows[at]
            yield _row(row), mutant


@_kind("trigger unknown")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        row["trigger"] += "_"
        yield f"{row['source']} {row['trigger']}", mutant


@_kind("source unknown")
def _(data: Data) -> Mutants:
    for _at, mutant, row in _each(data, "machine.transitions"):
        row["source"] += "_"
        yield f"{row['source']} {row['trigger']}", mutant


@_kind("way out of an end")
def _(data: Data) -> Mutants:
    for _at, mutant, state in _each(data, "machine.states"):
        if state["role"] == "final":
            row = {"trigger": "opened", "source": state["name"], "dest": _name(data, "stream")}
            _rows(mutant).append(row)
            yield state["name"], mutant


@_kind("circle of two waits")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    wait = _name(mutant, "wait")
    _add_state(mutant, "longer", "wait")
    _lead(mutant, wait, "waited", "longer")
    _rows(mutant).append({"trigger": "waited", "source": "longer", "dest": wait})
    yield wait, mutant


@_kind("wait without an end")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    wait = _name(mutant, "wait")
    _lead(mutant, wait, "waited", "=")
    yield wait, mutant


@_kind("question that asks itself again")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    wait, resume = _name(mutant, "wait"), _name(mutant, "resume")
    for name, other in (("approval", "second"), ("second", "approval")):
        _add_state(mutant, name, "ask")
        _rows(mutant).append({"trigger": "answered", "source": name, "dest": other})
        _rows(mutant).append({"trigger": "refused", "source": name, "dest": "exhausted"})
    _lead(mutant, wait, "waited", "approval", resume)
    yield wait, mutant


@_kind("question without an answer")
def _(data: Data) -> Mutants:
    for missing in ("answered", "refused"):
        mutant = copy.deepcopy(data)
        wait, resume = _name(mutant, "wait"), _name(mutant, "resume")
        _add_state(mutant, "approval", "ask")
        ways = {"answered": resume, "refused": _name(mutant, "assess")}
        for trigger, dest in ways.items():
            if trigger != missing:
                _rows(mutant).append({"trigger": trigger, "source": "approval", "dest": dest})
        _lead(mutant, wait, "waited", "approval")
        yield missing, mutant


@_kind("question where nothing is planned")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    _add_state(mutant, "approval", "ask")
    for trigger in ("answered", "refused"):
        dest = _name(mutant, "assess")
        _rows(mutant).append({"trigger": trigger, "source": "approval", "dest": dest})
    _lead(mutant, _name(mutant, "stream"), "failed", "approval")
    yield "failed", mutant


@_kind("refusal that goes on")
def _(data: Data) -> Mutants:
    for role in ("wait", "resume", "stream"):
        mutant = copy.deepcopy(data)
        _lead(mutant, _name(mutant, "commit"), "refused", _name(mutant, role))
        yield role, mutant


def _lead(data: Data, source: str, trigger: str, dest: str, old: str | None = None) -> None:
    for row in _rows(data):
        if (row["source"], row["trigger"]) == (source, trigger):
            if old is None or row["dest"] == old:
                row["dest"] = dest


# --- rules ----------------------------------------------------------------------------------------


def _on_rules(name: str, change: Callable[[Data, Data], bool]) -> None:
    """A kind that changes each rule for which ``change(rule, data)`` says that it did."""

    def kind(data: Data) -> Mutants:
        for _at, mutant, rule in _each(data, "rules"):
            if change(rule, mutant):
                yield rule["name"], mutant

    KINDS[name] = kind


def _sets(key: str, value: Any) -> Callable[[Data, Data], bool]:
    """Sets a key that the rule has."""

    def change(rule: Data, data: Data) -> bool:
        if key not in rule:
            return False
        rule[key] = value
        return True

    return change


def _asks(key: str, value: Any, when: Callable[[Data], bool] = lambda rule: True) -> Any:
    def change(rule: Data, data: Data) -> bool:
        if not when(rule):
            return False
        rule["on"] = {**rule["on"], key: value}
        return True

    return change


def _goes_on(rule: Data) -> bool:
    return rule["action"] not in ("stop", "finish")


_on_rules("action unknown", _sets("action", "try_harder"))
_on_rules("action that is not there yet", _sets("action", "park"))
_on_rules("budget unknown", _sets("budget", "transiet"))
_on_rules("backoff unknown", _sets("backoff", "contination"))
_on_rules("limit of 0", _sets("limit", 0))
_on_rules("limit below 0", _sets("limit", -1))
_on_rules("limit raised", _sets("limit", 1000))
_on_rules("limit of 0 s", _sets("limit_s", 0.0))
_on_rules("limit in quotes", _sets("limit", "5"))
_on_rules("key unknown", lambda rule, data: bool(rule.update(retries=3)) or True)
_on_rules("kind unknown", _asks("failure", ["overload"]))
_on_rules("stop unknown", _asks("stop", ["lenght"]))
_on_rules("fact unknown", _asks("visible", True))
_on_rules("failure and stop", _asks("stop", ["length"], lambda rule: "failure" in rule["on"]))
_on_rules("no condition", lambda rule, data: bool(rule.update(on={})) or True)
_on_rules(
    "count that no turn reaches",
    _asks("in_a_row", 5000, lambda rule: "in_a_row" in rule["on"] and rule["action"] != "fallback"),
)
_on_rules(
    "continue with nothing kept",
    _asks("partial", False, lambda rule: rule["action"] in ("continue", "resume_")),
)


@_kind("retry after output")
def _(data: Data) -> Mutants:
    for _at, mutant, rule in _each(data, "rules"):
        if rule["action"] == "retry" and "attempt_visible" in rule["on"]:
            rule["on"]["attempt_visible"] = True
            yield f"{rule['name']}{_retracts(data)}", mutant


def _retracts(data: Data) -> str:
    return " with retraction" if data["turn"]["retract"] else ""


@_kind("limit and budget dropped")
def _(data: Data) -> Mutants:
    for _at, mutant, rule in _each(data, "rules"):
        if _goes_on(rule):
            rule.pop("limit", None)
            rule.pop("budget", None)
            yield rule["name"], mutant


@_kind("backoff dropped")
def _(data: Data) -> Mutants:
    for _at, mutant, rule in _each(data, "rules"):
        if rule.pop("backoff", None):
            yield rule["name"], mutant


@_kind("condition dropped")
def _(data: Data) -> Mutants:
    for _at, mutant, rule in _each(data, "rules"):
        for key in ("attempt_visible", "partial"):
            if key in rule["on"] and len(rule["on"]) > 1:
                other = copy.deepcopy(mutant)
                here = next(r for r in other["rules"] if r["name"] == rule["name"])
                del here["on"][key]
                yield f"{rule['name']} {key}", other


@_kind("partial turned round")
def _(data: Data) -> Mutants:
    for _at, mutant, rule in _each(data, "rules"):
        if rule["action"] == "retry" and rule["on"].get("partial") is False:
            rule["on"]["partial"] = True
            yield rule["name"], mutant


@_kind("rule removed")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        del mutant["rules"][at]
        yield rule["name"], mutant


@_kind("rule twice")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        mutant["rules"].insert(at, copy.deepcopy(rule))
        yield rule["name"], mutant


@_kind("a copy of a rule behind it")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        mutant["rules"].insert(at + 1, {**copy.deepcopy(rule), "name": "again"})
        yield rule["name"], mutant


@_kind("a copy that shares the budget, or stops")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        if ("budget" in rule and "limit" not in rule) or rule["action"] == "stop":
            mutant["rules"].insert(at + 1, {**copy.deepcopy(rule), "name": "again"})
            yield rule["name"], mutant


@_kind("rules swapped")
def _(data: Data) -> Mutants:
    for at in range(len(data["rules"]) - 1):
        mutant = copy.deepcopy(data)
        rules = mutant["rules"]
        rules[at], rules[at + 1] = rules[at + 1], rules[at]
        yield f"{rules[at + 1]['name']}, {rules[at]['name']}", mutant


@_kind("rule first")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        if at:
            mutant["rules"].insert(0, mutant["rules"].pop(at))
            yield rule["name"], mutant


@_kind("rule last")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        if at < len(data["rules"]) - 1:
            mutant["rules"].append(mutant["rules"].pop(at))
            yield rule["name"], mutant


@_kind("stop behind those that it should stop")
def _(data: Data) -> Mutants:
    for at, mutant, rule in _each(data, "rules"):
        if rule["name"] == "same_time":
            mutant["rules"].append(mutant["rules"].pop(at))
            yield rule["name"], mutant


@_kind("stop for everything first")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    for partial in (True, False):
        on = {"partial": partial}
        mutant["rules"].insert(0, {"name": f"never_{partial}", "on": on, "action": "stop"})
    yield "stop", mutant


@_kind("refusal asked again")
def _(data: Data) -> Mutants:
    for action in ("retry", "continue"):
        mutant = copy.deepcopy(data)
        on = {"stop": ["safety"]}
        mutant["rules"].append({"name": "insist", "on": on, "action": action, "limit": 1})
        yield action, mutant


@_kind("kind without an answer")
def _(data: Data) -> Mutants:
    for at, kind in enumerate(data["exhaust"]):
        if not any(kind in rule["on"].get("failure", ()) for rule in data["rules"]):
            mutant = copy.deepcopy(data)
            del mutant["exhaust"][at]
            yield kind, mutant


@_kind("kind with an answer that is never given")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    mutant["exhaust"].remove("runaway")
    on = {"failure": ["runaway"]}
    mutant["rules"].append({"name": "later", "on": on, "action": "park", "limit": 1})
    yield "runaway", mutant


@_kind("budget of 0")
def _(data: Data) -> Mutants:
    for name in data["budgets"]:
        mutant = copy.deepcopy(data)
        mutant["budgets"][name]["limit"] = 0
        yield name, mutant


@_kind("budget removed")
def _(data: Data) -> Mutants:
    for table in ("budgets", "backoff"):
        for name in data[table]:
            mutant = copy.deepcopy(data)
            del mutant[table][name]
            yield f"{table}.{name}", mutant


@_kind("delays out of order")
def _(data: Data) -> Mutants:
    for name in data["backoff"]:
        for change in ({"initial_s": 1e4}, {"factor": 0.5}, {"initial_s": -1.0}, {"jitter": "some"},
                       {"jitter": {"up_to": 2.0}}):  # fmt: skip
            mutant = copy.deepcopy(data)
            mutant["backoff"][name].update(change)
            yield f"{name} {change}", mutant


@_kind("jitter none")
def _(data: Data) -> Mutants:
    for name in data["backoff"]:
        mutant = copy.deepcopy(data)
        mutant["backoff"][name]["jitter"] = "none"
        yield name, mutant


_put("one request only", "limits/attempts", 1)
_put("no request at all", "limits/attempts", 0)
_put("attempts at most", "limits/attempts", 1000)
_put("no wait fits", "limits/wait_s", 0.0)
_put("hints refused", "limits/max_retry_after_s", 0.0)
_put("no bound on standstill", "limits/no_progress", 0)
_put("limits out of range", "limits/event_bytes", 0, -1)
_put("time in quotes", "clocks/headers_s", "120")
_put("grace of 0 s", "clocks/finish_grace_s", 0.0)
_put("clock of 0 s: headers", "clocks/headers_s", 0.0)
_put("clock of 0 s: content", "clocks/first_content_s", 0.0)
_put("clock of 0 s: silence", "clocks/liveness_s", 0.0)
_put("clock of 0 s: progress", "clocks/progress_s", 0.0)
_put("deadline of 0 s", "clocks/deadline_s", 0.0)
_put("deadline before the first retry", "clocks/deadline_s", 0.1)
_put("endless deadline", "clocks/deadline_s", float("inf"))
_put("recovery off", "enabled", False)

# --- content --------------------------------------------------------------------------------------

_put("half a tool call kept", "blocks/tool_use/open", "keep")
_put("half a thought kept", "blocks/thinking/open", "keep")
_put("half a server tool kept", "blocks/server_tool/open", "keep")
_put("half a picture kept", "blocks/media/open", "keep")
_put("tool call shown while it is written", "blocks/tool_use/release", "live", "word")
_put("server tool shown while it is written", "blocks/server_tool/release", "live")
_put("all or none, but shown one by one", "blocks/tool_use/parallel", "all_or_none")
_put("shown tool calls dropped", "blocks/tool_use/closed", "discard")
_put("retraction", "turn/retract", True)
_put("block unknown", "blocks/tool", {"open": "keep"})
_put("one tag", "blocks/thinking/tags", ["<think>"])
_put("no strategy", "continuation/strategies", [])
_put("strategy twice", "continuation/strategies", ["instruct", "instruct"])
_put("strategy unknown", "continuation/strategies", ["guess"])
_put("feature unknown", "continuation/instruct/forbidden_with", ["toolz"])
_put("slip in the instruction", "continuation/instruct/message", "It ended with {tial}.")
_put("tail forgotten", "continuation/instruct/message", "Continue.")
_put("mend unknown", "wire/mend", ["boom"])
_put("repeats too short", "seam/instruct/min_overlap", 1)
_put("window below the overlap", "seam/instruct/window", 5)
_put("cap of 0", "cap/floor", 0)
_put("dialect unknown", "dialect", "openai_chatt")
_put("newer format", "schema_version", 2)
_put("no name", "name", "")
_put("table unknown", "limit", {"attempts": 3})
_put("table in place of a list", "rules", {"name": "busy"})
_put("fallback to the same model", "fallback", ["m-1", "m-1"])
_put("stop that is none", "stream/stops", {"done": "finished"})
_put("hint without a place", "retry_hints", [{"unit": "s"}])
_put("hint without a number", "retry_hints", [{"message": "try again later", "unit": "s"}])
_put("endless regular expression", "classify", [{"kind": "overloaded", "message": "(a+)+"}])
_put("meaning unknown", "classify", [{"kind": "overload", "status": [529]}])
_put(
    "meaning that is never reached",
    "classify",
    [{"kind": "overloaded", "status": [500, 529]}, {"kind": "server_error", "status": [529]}],
)
_put("machine for one model", "models", [{"match": ["m"], "machine": {"initial": "backoff"}}])
_put("no model", "models", [{"match": [], "limits": {"attempts": 3}}])
_put("mistake for one model", "models", [{"match": ["m"], "limits": {"attempts": 1}}])
_put("slip for one model", "models", [{"match": ["m"], "limit": {"attempts": 3}}])


@_kind("shown pictures dropped")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    mutant["blocks"]["media"]["closed"] = "discard"
    yield f"media{_retracts(data)}", mutant


@_kind("text not kept")
def _(data: Data) -> Mutants:
    for kind in ("text", "refusal"):
        for key in ("open", "closed"):
            mutant = copy.deepcopy(data)
            before = mutant["blocks"].setdefault(kind, {}).get(key, "keep")
            mutant["blocks"][kind][key] = "discard"
            if before != "discard":
                yield f"{kind} {key}{_retracts(data)}", mutant


@_kind("unsigned thinking")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    mutant["blocks"]["thinking"]["closed"] = "keep"
    yield "signed" if data["dialect"] in SIGNING_DIALECTS else "never signed", mutant


@_kind("strategy that the dialect has not")
def _(data: Data) -> Mutants:
    can = DIALECT_STRATEGIES[data["dialect"]]
    for strategy in ("resume", "prefill", "instruct"):
        if strategy not in can:
            mutant = copy.deepcopy(data)
            mutant["continuation"]["strategies"] = [strategy]
            yield strategy, mutant


@_kind("models that fall back to each other")
def _(data: Data) -> Mutants:
    mutant = copy.deepcopy(data)
    mutant["fallback"] = ["m-1"]
    mutant["models"] = [
        {"match": ["m-1"], "fallback": ["m-2"]},
        {"match": ["m-2"], "fallback": ["m-1"]},
    ]
    yield "m-1, m-2", mutant
