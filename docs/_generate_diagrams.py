"""The pictures in docs/diagrams: the machine of every shipped policy, as SVG."""

from collections.abc import Callable
from functools import partial
from importlib import resources

from midthought.policies import load_policy
from midthought.review import dot, render, view_of

__all__ = ["diagrams", "shipped"]


def shipped() -> list[str]:
    """Names of the policies that come with midthought."""
    folder = resources.files("midthought.policies")
    files = (entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return sorted(name.removesuffix(".toml") for name in files)


def diagrams() -> dict[str, Callable[[], str]]:
    """A page for each policy."""
    return {f"diagrams/{name}.svg": partial(_draw, name) for name in shipped()}


def _draw(name: str) -> str:
    return render(dot(view_of(load_policy(name))), "svg").decode()
