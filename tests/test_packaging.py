"""What is on disk is what is installed: run on the editable install and again on the wheel."""

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from importlib import import_module, metadata, resources
from pathlib import Path

import pytest

import midthought

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGE_DIR: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
LINKED = ("policies", "providers", "statemachine")


def _is_editable() -> bool:
    origin = metadata.distribution("midthought").read_text("direct_url.json")
    return bool(origin and json.loads(origin).get("dir_info", {}).get("editable"))


def _code_folders() -> dict[str, Path]:
    """Every folder on disk that holds code of ours, by its import name."""
    found = {}
    for package, folder in PACKAGE_DIR.items():
        top = ROOT / folder
        for path in [top, *top.rglob("*")]:
            inside = path.relative_to(top).parts
            linked = package == "midthought" and inside and inside[0] in LINKED
            if path.is_dir() and not linked and any(path.glob("*.py")):
                found[".".join([package, *inside])] = path
    return found


def _data_files() -> list[tuple[str, Path]]:
    """Each file beside the code that is not code, with the package it belongs to."""
    return [
        (package, path)
        for package, folder in sorted(_code_folders().items())
        for path in sorted(folder.iterdir())
        if path.is_file() and path.suffix not in (".py", ".pyc") and not path.is_symlink()
    ]


def _modules() -> list[str]:
    return [
        package if path.stem == "__init__" else f"{package}.{path.stem}"
        for package, folder in sorted(_code_folders().items())
        for path in sorted(folder.glob("*.py"))
    ]


def test_every_code_folder_is_listed() -> None:
    """A folder with code that pyproject.toml forgets works in the checkout and not in the wheel."""
    assert sorted(_code_folders()) == sorted(PACKAGES)


def test_renamed_folders_are_listed() -> None:
    """Each package-dir entry names a folder that exists and a package that is listed."""
    assert set() == set(PACKAGE_DIR) - set(PACKAGES)
    assert [] == [folder for folder in PACKAGE_DIR.values() if not (ROOT / folder).is_dir()]


@pytest.mark.parametrize(
    ("package", "path"), _data_files(), ids=[path.name for _, path in _data_files()]
)
def test_data_files_are_shipped(package: str, path: Path) -> None:
    """Each policy and the typing marker are readable from the installed package, byte for byte."""
    assert path.read_bytes() == resources.files(package).joinpath(path.name).read_bytes()


@pytest.mark.parametrize("module", _modules())
def test_every_module_is_shipped(module: str) -> None:
    """Each module on disk has its file in the installed package."""
    package, _, name = module.rpartition(".")
    where = resources.files(module if module in PACKAGES else package)
    file = "__init__.py" if module in PACKAGES else f"{name}.py"

    assert where.joinpath(file).is_file()


def test_import_comes_from_the_install() -> None:
    """In the checkout the code is the checkout's; from a wheel it is site-packages'."""
    source = ROOT / "src" if _is_editable() else Path(sysconfig.get_path("purelib"))

    assert Path(midthought.__file__).is_relative_to(source)


@pytest.mark.parametrize("flags", [[], ["-I"], ["-P"]], ids=["plain", "isolated", "safe path"])
def test_import_works_from_anywhere(flags: list[str], tmp_path: Path) -> None:
    """All four folders import from a foreign folder that has their names as decoys."""
    for decoy in LINKED:
        (tmp_path / f"{decoy}.py").write_text("raise RuntimeError('the decoy was imported')\n")
    program = "from midthought import policies, providers, statemachine; print(policies.__name__)"
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert ("midthought.policies\n", "") == (done.stdout, done.stderr)


def test_version_is_one() -> None:
    """The installed metadata and `midthought.__version__` are read from the same line."""
    assert metadata.version("midthought") == midthought.__version__


def test_command_leads_to_main() -> None:
    """The console script is installed and points at `midthought.cli:main`."""
    scripts = metadata.entry_points(group="console_scripts", name="midthought")

    assert ["midthought.cli:main"] == [script.value for script in scripts]
    assert callable(import_module("midthought.cli").main)


def test_command_runs() -> None:
    """`midthought --help` answers on stdout, or names the missing extra, and never a traceback."""
    command = Path(sysconfig.get_path("scripts")) / "midthought"
    done = subprocess.run([command, "--help"], capture_output=True, text=True)

    if done.returncode == 2:
        assert "hint:" in done.stderr and "midthought[cli]" in done.stderr
    else:
        assert (0, "") == (done.returncode, done.stderr)
        assert "demo" in done.stdout


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="an unpacked sdist carries no links")
@pytest.mark.skipif(sys.platform == "win32", reason="a clone may have no symbolic links there")
@pytest.mark.parametrize("folder", LINKED)
def test_links_lead_to_the_folders(folder: str) -> None:
    """Type checkers and editors follow the links in src/midthought; they are relative."""
    assert f"../../{folder}" == os.readlink(ROOT / "src" / "midthought" / folder).replace(
        os.sep, "/"
    )


def test_requirements_are_bounded() -> None:
    """Every requirement of the library has a floor, and all but the dated ones a ceiling."""
    project = PROJECT["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    dated = ("xllamacpp",)

    assert [] == [
        line
        for line in [*project["dependencies"], *extras]
        if ">=" not in line or not ("<" in line or line.startswith(dated))
    ]
