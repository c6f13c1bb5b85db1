"""The story of a run file has a line for every record, and says what the records say."""

from __future__ import annotations

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from run_files import NAMES, recorded

from midthought.policies import load_policy
from midthought.review import RunFileError, read_run, tell, tell_html, transitions_of
from midthought.review._run_file import FIELDS

DOCS = Path(__file__).parents[2] / "docs" / "records.md"
#: First word of a record's line -> the records it is for.
WORDS = {
    "started": {"llm_turn_started"},
    "state": {"llm_state_changed"},
    "ended": {"llm_attempt_ended"},
    "interrupted": {"llm_stream_interrupted"},
    "decided": {"llm_recovery_decided"},
    "continuing": {"llm_stream_continuation_started"},
    "continued": {"llm_stream_continuation_completed"},
    "failed": {"llm_stream_continuation_failed"},
    "given up": {"llm_stream_continuation_exhausted"},
    "retried": {"llm_request_retried"},
    "seam": {"llm_seam_joined"},
    "dropped": {"discarded_partial_tool_use", "discarded_partial_thinking"},
    "aborted": {"llm_stream_aborted"},
    "refused": {"llm_hook_refused"},
    "finished": {"llm_turn_finished"},
    "exhausted": {"llm_turn_exhausted"},
}
LINE = re.compile(r"^ *(\d+\.\d{3}) s  (.{12}) (.*)$")


def story(tmp_path: Path, name: str) -> tuple[str, list[dict[str, Any]]]:
    """What is told of a recorded turn, and its records."""
    told = recorded(name)
    path = tmp_path / "run.jsonl"
    path.write_bytes(told.data)
    (turn,) = read_run(path).turns
    return tell(turn, told.policy), told.records


def grouped(text: str) -> list[tuple[str, str, str]]:
    """(time, word, what is said) of each record's lines."""
    found: list[tuple[str, str, str]] = []
    for line in text.splitlines()[3:]:
        match = LINE.match(line)
        if match:
            found.append((match[1], match[2].strip(), match[3]))
        elif line.strip() and line.startswith(" " * 24):
            time, word, said = found[-1]
            found[-1] = (time, word, f"{said}\n{line.strip()}")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_record_has_its_line(tmp_path: Path, name: str) -> None:
    """One line per record, in order, at its time, under the word for its name."""
    text, records = story(tmp_path, name)
    lines, start = grouped(text), records[0]["at_s"]

    assert len(records) == len(lines)
    for record, (time, word, _) in zip(records, lines, strict=True):
        assert record["event"] in WORDS[word]
        assert f"{record['at_s'] - start:.3f}" == time


@pytest.mark.parametrize("name", NAMES)
def test_nothing_contradicts_the_records(tmp_path: Path, name: str) -> None:
    """Each fact of a record that is a name or a decision stands in its line."""
    text, records = story(tmp_path, name)
    for record, (_, _, said) in zip(records, grouped(text), strict=True):
        for key in ("source", "state", "trigger", "rule", "action", "strategy", "error_kind",
                    "stop", "reason", "cause", "quality", "tool_name", "final_reason",
                    "completion_reason"):  # fmt: skip
            if record.get(key):
                assert str(record[key]) in said, (record["event"], key)
        for verdict in record.get("looked_at", ()):
            assert verdict["rule"] in said
            assert verdict["answer"] in said or verdict["answer"] == "taken"
        numbers = [int(n) for n in re.findall(r"\d+", said)]
        for key in ("attempts", "output_tokens", "committed_chars", "dropped_chars",
                    "received_chars", "kept_chars", "partial_input_bytes", "thinking_chars",
                    "discarded_output_tokens", "discarded_thinking"):  # fmt: skip
            if key in record:
                assert record[key] in numbers, (record["event"], key)


def test_the_turns_cover_every_record() -> None:
    """No record name is left out of the turns above, and docs/records.md lists the same ones."""
    seen = {record["event"] for name in NAMES for record in recorded(name).records}
    documented = set(re.findall(r"^### `(\w+)`", DOCS.read_text("utf-8"), re.MULTILINE))

    assert set(FIELDS) == seen == documented == set().union(*WORDS.values())


def test_fields_are_those_that_are_written() -> None:
    """Every field that a reader relies on is in every record of that name."""
    for name in NAMES:
        for record in recorded(name).records:
            assert set(FIELDS[record["event"]]) <= record.keys()


def test_how_much_was_left(tmp_path: Path) -> None:
    """With the turn's own policy, uses and budgets stand beside their limits."""
    text, _ = story(tmp_path, "anthropic: overloaded, then cut")

    assert "used before: rule busy 1, budget transient 1 of 10" in text


def test_limits_of_another_policy_are_not_told(tmp_path: Path) -> None:
    """A policy that is not the turn's says nothing about its limits."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(recorded("anthropic: overloaded, then cut").data)
    (turn,) = read_run(path).turns

    assert " of 10" not in tell(turn, load_policy("strict"))


# --- run files ----------------------------------------------------------------------------------


def test_a_torn_last_line(tmp_path: Path) -> None:
    """Whole records are used, the torn one is left out and said, wherever it was cut."""
    data = recorded("anthropic: cut in text").data
    whole = data.count(b"\n")
    path = tmp_path / "run.jsonl"
    for end in range(len(data) - 1, len(data) - 200, -7):
        path.write_bytes(data[:end])
        run = read_run(path)
        assert run.torn
        assert whole - 1 == len(run.turns[0].records)
        assert "the record ends here" in tell(run.turns[0])


def test_turns_of_one_file_are_told_apart(tmp_path: Path) -> None:
    """Records of turns that ran at the same time are sorted to their turns."""
    two = [recorded("anthropic: cut in text").data, recorded("chat: refused").data]
    lines = [
        line for pair in zip(*(d.splitlines(True) for d in two), strict=False) for line in pair
    ]
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    turns = read_run(path).turns

    assert 2 == len(turns)
    assert Counter(len(t.records) for t in turns) == Counter([len(lines) // 2] * 2)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no whole record"),
        (b"\n\n", "no whole record"),
        (b"{}\n", "run.jsonl:1 is no record"),
        (b"\x00\xff\n\x00", "run.jsonl:1 is no record"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "run.jsonl:1 is no record"),
        (b"\x00\xff no line break", "no whole record"),
        (b"[1, 2]\n", "run.jsonl:1 is no record"),
        (b"[" * 100_000 + b"\n", "run.jsonl:1 is no record"),
        (b'{"event": "llm_turn_started", "turn_id": "t"}\n', "without attempt, model"),
    ],
)
def test_what_is_no_run_file(tmp_path: Path, data: bytes, said: str) -> None:
    """Empty, binary, or something else: the message says what and where."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(data)
    with pytest.raises(RunFileError) as caught:
        read_run(path)

    assert said in str(caught.value)


def test_a_folder_and_nothing(tmp_path: Path) -> None:
    """A folder, and a file that is not there."""
    with pytest.raises(RunFileError, match="is a folder"):
        read_run(tmp_path)
    with pytest.raises(RunFileError, match="No such file"):
        read_run(tmp_path / "none.jsonl")


def test_a_record_of_a_newer_version(tmp_path: Path) -> None:
    """A record that this version does not know has a line that names it."""
    first = recorded("anthropic: nothing breaks").records[0]
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps({**first, "event": "llm_model_switched"}) + "\n", "utf-8")

    assert "llm_model_switched, which this version does not know" in tell(read_run(path).turns[0])


# --- the page -----------------------------------------------------------------------------------


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.loads += [v or "" for k, v in attrs if k in ("src", "href") and v]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    """The page has the story, the time line and the picture, runs no script and loads nothing."""
    told = recorded("anthropic: cut in text")
    path = tmp_path / "run.jsonl"
    path.write_bytes(told.data)
    turns = read_run(path).turns
    stories = {turns[0].turn_id: tell(turns[0])}
    page = _Page()
    page.feed(tell_html(turns, stories, {turns[0].turn_id: '<?xml version="1.0"?>\n<svg></svg>'}))

    assert stories[turns[0].turn_id] in page.text
    assert (1, 1, 0) == (page.tags["svg"], page.tags["pre"], page.tags["script"])
    assert [] == page.loads
    states = {t["state"] for t in transitions_of(turns[0])}
    assert "streaming" in page.text
    assert {"continuing", "backoff"} <= states


def test_the_page_escapes(tmp_path: Path) -> None:
    """Words of an upstream are words in the page, never markup."""
    first = {**recorded("anthropic: nothing breaks").records[0], "model": "<script>x</script>"}
    path = tmp_path / "run.jsonl"
    path.write_text(json.dumps(first) + "\n", "utf-8")
    turns = read_run(path).turns

    assert "<script" not in tell_html(turns, {turns[0].turn_id: tell(turns[0])}, {})
