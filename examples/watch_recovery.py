"""Record what recovery does: a callback for your own metrics, and a journal to read afterwards.

    python examples/watch_recovery.py

A faulty upstream on loopback stands in for the provider.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import midthought
from midthought.testing import Attempt, FaultyUpstream


def chunk(text: str | None, finish: str | None = None) -> str:
    """One chunk of a Chat stream."""
    delta = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({'id': 'c1', 'choices': [choice]})}\n\n"


ATTEMPTS = [
    Attempt([chunk("Everything breaks, "), chunk("but not "), {"fault": "rst"}]),
    Attempt([chunk("for long."), chunk(None, "stop"), "data: [DONE]\n\n"]),
]


def on_record(name: str, fields: Mapping[str, Any]) -> None:
    """Called for every record; names and fields are in docs/records.md."""
    print(f"{name:40} attempt {fields['attempt']}")


def main() -> None:
    """Run one turn and read its journal."""
    request = {"model": "demo", "messages": [{"role": "user", "content": "Comfort me."}]}
    with (
        tempfile.TemporaryDirectory() as folder,
        FaultyUpstream(ATTEMPTS) as upstream,
        midthought.journal.write_to(Path(folder) / "run.jsonl") as journal,
        midthought.Client(
            "openai-chat", base_url=upstream.url, api_key="none", on_record=on_record
        ) as client,
    ):
        turn = client.result(client.prepare(request))
        print(f"\n{turn.text!r}, {len(turn.attempts)} requests")
        records = list(midthought.journal.read(journal.path))
        print(f"{len(records)} records in the journal")


if __name__ == "__main__":
    main()
