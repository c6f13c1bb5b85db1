"""The kit stands alone, and its page says all of it."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import midthought.testing
from midthought.testing._faults import FAULTS, FRAMINGS, STEP_KEYS

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"

PROGRAM = """
import sys
import midthought
before = set(sys.modules)
import midthought.testing
ours = [name for name in set(sys.modules) - before if name.startswith("midthought")]
print([name for name in ours if not name.startswith("midthought.testing")])
foreign = {"pytest", "httpx", "anyio", "asyncio", "pydantic", "transitions"}
print(sorted(foreign & (set(sys.modules) - before)))
"""


def test_the_kit_imports_nothing_else_of_ours() -> None:
    """Importing it brings the package's own door and the kit; no client, no test framework."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)

    assert ("[]\n[]\n", "") == (done.stdout, done.stderr)


def test_the_public_names() -> None:
    """`__all__` is alphabetical, lists what the door shows, and each of it has a docstring."""
    names = midthought.testing.__all__
    shown = {name: thing for name, thing in vars(midthought.testing).items() if name[0] != "_"}
    explained = [
        thing for thing in shown.values() if inspect.isroutine(thing) or inspect.isclass(thing)
    ]

    assert sorted(shown) == names == sorted(names)
    assert all(thing.__doc__ for thing in explained)


def test_the_page_names_everything() -> None:
    """docs/testing.md has a word on every public name, framing, fault and kind of step."""
    words = set(re.findall(r"[\w-]+", PAGE.read_text("utf-8")))

    assert set() == {*midthought.testing.__all__, *FAULTS, *FRAMINGS, *STEP_KEYS} - words


def test_the_examples_of_the_page_run() -> None:
    """Each Python example of the page runs as it stands."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)

    assert examples
    for example in examples:
        done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True)
        assert (0, "") == (done.returncode, done.stderr), example
