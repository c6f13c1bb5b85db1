"""Regular expressions of a policy: bounded ones pass, whatever could run away is refused."""

import re

import pytest

from midthought.policies._regex import regex_fault

BOUNDED = [
    "prompt is too long",
    r"a{0,3}(?:bc){0,4}x?",
    r"try again in {1,3}(\d{1,6}(?:\.\d{1,6})?) {0,2}(ms|s)\b",
    r"[*+?{}()|]{1,2}\*\+\{2,\}",
    r"[]*+]x[^]+*]",
    r"(?P<n>\d{1,3})(?P=n)(?<=a)b(?<!c)d(?=e)(?!f)",
    r"(?:a|b|c) limit",
    "x{3}(?:ab){5}",
    "a{}b",
    "|".join(f"overflow text {n} of many servers?" for n in range(10)),
]
UNBOUNDED = [
    "a*",
    "a+",
    "a+?",
    "a{2,}",
    "a{,}",
    "(?:ab)*",
    "[a-z]+",
    ".*",
    r"\d+",
    "(a)+",
    "a{1,}?",
]
NESTED = [
    "(a{1,9}){1,9}",
    "((a?)b){2}",
    "(?:a|aa){1,20}",
    "(?:a|b){3}",
    "(?P<x>a{0,2}){2}",
    "(?:(?:x?y)z){0,5}",
]


@pytest.mark.parametrize("pattern", BOUNDED)
def test_bounded(pattern: str) -> None:
    """What repeats a known number of times, without ways that multiply, is accepted."""
    assert regex_fault(pattern) is None


@pytest.mark.parametrize("pattern", UNBOUNDED)
def test_unbounded(pattern: str) -> None:
    """A repetition without an end is refused, and told how to write it."""
    reason = regex_fault(pattern)

    assert reason is not None
    assert "without an end" in reason.found
    assert "{0,n}" in reason.hint


@pytest.mark.parametrize("pattern", NESTED)
def test_nested(pattern: str) -> None:
    """A repeated group that repeats or branches inside could take exponential time."""
    reason = regex_fault(pattern)

    assert reason is not None
    assert "itself repeats" in reason.found


@pytest.mark.parametrize("pattern", ["(?i)x", "(?x: a*)", "(?s-i:x)"])
def test_flags(pattern: str) -> None:
    """Inline flags change what the other checks read."""
    reason = regex_fault(pattern)

    assert reason is not None
    assert "flags" in reason.found


@pytest.mark.parametrize("pattern", ["(", "[a", "a{3,1}", "(?P<1>a)", "**"])
def test_does_not_compile(pattern: str) -> None:
    """What is no expression is refused in the words of the compiler."""
    reason = regex_fault(pattern)

    assert reason is not None
    assert "does not compile" in reason.found


def test_ways_are_counted() -> None:
    """Ranges in a row multiply; those of different branches do not."""
    wide = "a{0,49}"

    assert regex_fault(wide) is None
    assert regex_fault(f"{wide}|{wide}|(?:{wide}|{wide})") is None
    for pattern in (wide * 2, f"(?:{wide}x){wide}", f"(?:a|{wide}b){wide}"):
        reason = regex_fault(pattern)
        assert reason is not None
        assert "2500 ways" in reason.found


def test_the_widest_that_passes_is_fast() -> None:
    """The bound is worth something: the worst expression that is let through ends."""
    pattern = re.compile(r"(?:.{0,43})(?:.{0,43})!", re.DOTALL)
    assert regex_fault(pattern.pattern) is None
    assert pattern.search("x" * 500) is None
