"""The seam: the join of two attempts' texts, for every setting, in whatever pieces they come.

T is what the caller saw, U all that was received, C what was sent back, R what the next attempt
says.
"""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midthought.policies import TextSeam
from midthought.statemachine import Joint, Seam
from midthought.statemachine._seam import split_word, trim_for_history

#: Seventy-one different words: no part of 12 characters stands in it twice.
STORY = " ".join(f"{n}w{n * 37 % 71}" for n in range(71)) + ". The end."


def seam(shown: str, trim: str = "trailing_whitespace", *, lost: str = "", **settings: Any) -> Seam:
    """A seam after ``shown``, where C is T trimmed as the setting says."""
    echoes = settings.pop("echoes", False)
    spec = TextSeam.model_validate({"trim": trim, "window": 200, "restart": True} | settings)
    sent = len(trim_for_history(shown, spec.trim, spec.word_max_chars))
    return Seam(shown, shown + lost, sent, spec, echoes=echoes, proof="exact")


def joined(join: Seam, *pieces: str, ended: bool = True) -> tuple[str, Joint | None]:
    """(what is released, how the seam came out) after these pieces."""
    released = "".join(join.feed(piece) for piece in pieces)
    released += join.end() if ended else ""
    return released, join.joint


def cut_into(text: str, borders: Sequence[int]) -> list[str]:
    """The text in pieces."""
    at = sorted({min(b, len(text)) for b in borders})
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


BORDERS = st.lists(st.integers(0, 400), max_size=8)
PLACES = st.integers(1, len(STORY) - 1)


# --- the words ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "head", "word"),
    [
        ("", "", ""),
        ("foo", "", "foo"),
        ("foo bar", "foo ", "bar"),
        ("foo bar ", "foo bar ", ""),
        ("foo\nbar", "foo\n", "bar"),
        ("foo\tbar", "foo\t", "bar"),
        ("foo\r\nbar", "foo\r\n", "bar"),
        ("foo\u00a0b\u00e4r", "foo\u00a0", "b\u00e4r"),
        ("caf\u00e9", "", "caf\u00e9"),
        ("a" * 24, "", "a" * 24),
        ("a" * 25, "a" * 25, ""),
        ("b " + "a" * 25, "b " + "a" * 25, ""),
        ("\u00e9 " + "a" * 25, "\u00e9 " + "a" * 25, ""),
        ("\u00e9" * 25, "\u00e9" * 25, ""),
        ("你好世界", "你好世界", ""),
        ("你好 wor", "你好 ", "wor"),
        ("你好wor", "你好", "wor"),
        ("かなカナ", "かなカナ", ""),
        ("สวัสดี", "สวัสดี", ""),
        ("안녕 하세", "안녕 ", "하세"),
        ("привет ми", "привет ", "ми"),
        ("\U00020000", "\U00020000", ""),
    ],
)
def test_split_word(text: str, head: str, word: str) -> None:
    """The word being written is the last run without white space, of 24 characters at most."""
    assert (head, word) == split_word(text, 24)


@given(st.text(st.sampled_from("ab \n你é\u00a0"), max_size=40), st.integers(1, 30))
def test_split_word_loses_nothing(text: str, most: int) -> None:
    """The two parts are the text, and the word holds no white space and no unspaced script."""
    head, word = split_word(text, most)

    assert (text, True) == (head + word, len(word) <= most)
    assert not any(c.isspace() or c == "你" for c in word)
    assert not word or not head or head[-1].isspace() or head[-1] == "你"


@pytest.mark.parametrize(
    ("text", "how", "sent"),
    [
        ("Hello wor", "none", "Hello wor"),
        ("Hello  ", "none", "Hello  "),
        ("Hello wor", "trailing_whitespace", "Hello wor"),
        ("Hello \n", "trailing_whitespace", "Hello"),
        ("Hello wor", "last_word", "Hello"),
        ("Hello wor ", "last_word", "Hello wor"),
        ("Hello", "last_word", "Hello"),
        (" Hello", "last_word", " Hello"),
        ("Hello " + "a" * 25, "last_word", "Hello " + "a" * 25),
        ("你好吗", "last_word", "你好吗"),
    ],
)
def test_trim_for_history(text: str, how: str, sent: str) -> None:
    """C is T without trailing white space, or without its last word; it is never empty."""
    assert sent == trim_for_history(text, how, 24)


# --- exact continuations --------------------------------------------------------------------------


@given(PLACES, st.sampled_from(["none", "trailing_whitespace", "last_word"]), BORDERS)
def test_an_exact_continuation(place: int, trim: str, borders: list[int]) -> None:
    """A model that goes on where C ends gives the uncut text, at every cut and in any pieces."""
    shown = STORY[:place]
    rest = STORY[len(trim_for_history(shown, trim, 24)) :]
    released, joint = joined(seam(shown, trim), *cut_into(rest, borders))

    assert STORY == shown + released
    assert joint is not None and not joint.mismatch


@pytest.mark.parametrize(
    ("rest", "released", "dropped"),
    [
        ("  and on", "and on", 2),
        ("\n and on", " and on", 1),
        ("and on", "and on", 0),
        (" and on", "and on", 1),
        ("   and on", " and on", 2),
        ("", "", 0),
        (" ", "", 1),
    ],
)
def test_white_space_that_was_left_out(rest: str, released: str, dropped: int) -> None:
    """R's leading white space is matched against what was left out of C, as far as it goes."""
    shown = "Here it stood" + ("\n\n" if rest.startswith("\n") else "  ")

    assert (released, Joint("exact", dropped)) == joined(seam(shown), rest)


def test_white_space_is_not_held_longer_than_needed() -> None:
    """As soon as R differs from what was left out, it is released: nothing waits for the end."""
    join = seam("Here it stood  ")

    assert ["", "and", " on"] == [join.feed(piece) for piece in (" ", "and", " on")]


def test_nothing_left_out_nothing_held() -> None:
    """Where C is T and neither restart nor repeat is looked for, R passes at once."""
    join = seam("Here it stood", "none", window=0, restart=False)

    assert ("H", Joint("exact", 0)) == (join.feed("H"), join.joint)


# --- the last word --------------------------------------------------------------------------------

WORD = "The quick bro"


@pytest.mark.parametrize(
    ("rest", "released"),
    [(" brown fox", "wn fox"), (" bro", ""), (" bro.", "."), (" brother", "ther")],
)
def test_the_last_word_proves_the_join(rest: str, released: str) -> None:
    """R must first write the left-out word again: that is swallowed, and is the proof."""
    assert (released, Joint("proved", 4)) == joined(seam(WORD, "last_word"), rest)


@given(BORDERS)
def test_the_last_word_in_any_pieces(borders: list[int]) -> None:
    """The proof does not depend on how R arrives."""
    assert ("wn fox", Joint("proved", 4)) == joined(
        seam(WORD, "last_word"), *cut_into(" brown fox", borders)
    )


@pytest.mark.parametrize("rest", [" red fox jumps", "brown fox", " brim"])
def test_another_last_word(rest: str) -> None:
    """A model that writes another word does not join: all of it is shown, and it is recorded."""
    assert (rest, Joint("uncertain", 0, mismatch=True)) == joined(seam(WORD, "last_word"), rest)


def test_another_last_word_rejected() -> None:
    """With `on_mismatch = "reject"` nothing of an answer that does not join is shown."""
    join = seam(WORD, "last_word", on_mismatch="reject")

    assert ("", Joint("uncertain", 0, mismatch=True)) == joined(join, " red", ended=False)


@pytest.mark.parametrize("rest", ["", " ", " br"])
def test_a_model_that_ends_inside_the_last_word(rest: str) -> None:
    """An answer that is only a beginning of the left-out word brings nothing new."""
    assert ("", Joint("uncertain", len(rest))) == joined(seam(WORD, "last_word"), rest)


# --- a repeat of the end --------------------------------------------------------------------------


@given(st.integers(60, 300), st.integers(12, 60), BORDERS)
def test_a_repeat_is_dropped(place: int, again: int, borders: list[int]) -> None:
    """R that begins with 12 or more of the last characters again is joined without them."""
    shown = STORY[:place]
    rest = STORY[place - again :]
    released, joint = joined(seam(shown, "none"), *cut_into(rest, borders))

    assert STORY == shown + released
    assert Joint("proved" if again == place else "uncertain", again) == joint


@given(st.integers(60, 300), st.integers(1, 11), BORDERS)
def test_a_short_repeat_is_no_repeat(place: int, again: int, borders: list[int]) -> None:
    """Fewer than 12 equal characters may be chance: nothing is dropped, nothing is guessed."""
    rest = STORY[place - again :]
    released, joint = joined(seam(STORY[:place], "none"), *cut_into(rest, borders))

    assert (rest, Joint("exact", 0)) == (released, joint)


@pytest.mark.parametrize(("again", "dropped"), [(40, 40), (41, 0)])
def test_a_repeat_is_looked_for_in_the_window(again: int, dropped: int) -> None:
    """Only the last `window` characters are searched for a repeat."""
    join = seam(STORY[:200], "none", window=40)
    _, joint = joined(join, STORY[200 - again :])

    assert joint is not None
    assert dropped == joint.dropped_chars


def test_without_a_window_no_repeat_is_looked_for() -> None:
    """`window = 0` switches the search off."""
    join = seam(STORY[:200], "none", window=0)

    assert STORY[150:] == joined(join, STORY[150:])[0]


def test_a_repeat_of_what_was_lost() -> None:
    """The repeat may reach into the word that was received and never shown: that is new text."""
    join = seam(STORY[:200], "none", lost=STORY[200:205])
    released, joint = joined(join, STORY[180:])

    assert (STORY[200:], Joint("uncertain", 20)) == (released, joint)


def test_a_repeat_that_turns_out_to_be_none() -> None:
    """Held text that stops being a repeat is released whole."""
    join = seam(STORY[:200], "none")
    held = join.feed(STORY[150:195])

    assert ("", STORY[150:195] + "!") == (held, join.feed("!"))


# --- a restart ------------------------------------------------------------------------------------


@given(st.integers(12, 300), BORDERS)
def test_a_restart_is_followed_silently(place: int, borders: list[int]) -> None:
    """R that is the whole reply again is swallowed up to T's end, then shown."""
    shown = STORY[:place]
    released, joint = joined(seam(shown, "none"), *cut_into(STORY, borders))

    assert (STORY, Joint("proved", place)) == (shown + released, joint)


def test_a_restart_is_followed_over_what_was_lost() -> None:
    """The fragment that was received but not shown is new to the caller, and shown once."""
    released, _ = joined(
        seam("Here it all began, wi", "none", lost="th a"), "Here it all began, with a"
    )

    assert "th a" == released


def test_a_restart_that_writes_another_end() -> None:
    """What was received and never shown need not come again: the caller knows nothing of it."""
    join = seam(STORY[:100], "none", lost="abcdef")
    released, joint = joined(join, STORY[:100] + "abc and so on")

    assert "abc and so on" == released
    assert joint is not None and (100, False) == (joint.dropped_chars, joint.mismatch)


@pytest.mark.parametrize("setting", [{"restart": False}, {"min_overlap": 60}])
def test_a_restart_is_not_always_looked_for(setting: dict[str, Any]) -> None:
    """`restart = false`, or a text shorter than the shortest repeat: R is just appended."""
    again = STORY[:50] + "!"
    join = seam(STORY[:50], "none", window=0, **setting)

    assert again == joined(join, again)[0]


def test_a_restart_that_changes_its_mind() -> None:
    """R that begins like the reply and then differs is shown whole, and recorded as uncertain."""
    again = STORY[:30] + "!" + STORY[31:]

    assert (again, Joint("uncertain", 0, mismatch=True)) == joined(seam(STORY[:200]), again)


def test_a_restart_that_changes_its_mind_rejected() -> None:
    """With `on_mismatch = "reject"` nothing of it is shown."""
    join = seam(STORY[:200], on_mismatch="reject")

    assert "" == join.feed(STORY[:30]) + join.feed("!") + join.feed("more")[:0]
    assert join.joint is not None and join.joint.mismatch


def test_a_beginning_that_is_equal_by_chance() -> None:
    """Fewer than 12 equal characters at the start are no restart."""
    rest = STORY[:11] + "! Something else"

    assert (rest, Joint("exact", 0)) == joined(seam(STORY[:200]), rest)


def test_an_answer_that_is_only_the_beginning_again() -> None:
    """A restart that ends before T's end has brought nothing new."""
    assert ("", Joint("uncertain", 30)) == joined(seam(STORY[:200]), STORY[:30])


def test_a_short_answer_equal_to_the_beginning() -> None:
    """… unless it is so short that it may be anything: then it is shown."""
    assert STORY[:8] == joined(seam(STORY[:200]), STORY[:8])[0]


# --- echoes ---------------------------------------------------------------------------------------


@given(st.integers(1, 200), BORDERS)
def test_an_echo_is_dropped(place: int, borders: list[int]) -> None:
    """A server that repeats the prefix is known to: even a short one is dropped."""
    shown = STORY[:place]
    released, joint = joined(seam(shown, echoes=True), *cut_into(STORY, borders))

    assert STORY == shown + released
    assert joint is not None and joint.quality == "proved"


def test_no_echo_where_there_should_be_one() -> None:
    """A server that did not repeat after all is believed."""
    assert "and so on" == joined(seam("Here it stood", echoes=True), "and so on")[0]


# --- cut again ------------------------------------------------------------------------------------


def test_a_cut_while_text_is_held() -> None:
    """An attempt that broke while it repeated brought nothing: what was held is dropped."""
    join = seam(STORY[:200])
    join.feed(STORY[:30])
    join.cut()

    assert Joint("uncertain", 30) == join.joint


def test_a_cut_after_the_join() -> None:
    """Once joined, a cut changes nothing."""
    join = seam("Here it stood  ")
    join.feed("and on")
    join.cut()

    assert Joint("exact", 0) == join.joint


# --- code fences ----------------------------------------------------------------------------------

CODE = "Look:\n```python\nprint(1)\n"


@given(BORDERS)
def test_a_fence_opened_again_is_dropped(borders: list[int]) -> None:
    """A model that opens the fence again in which the text ends is joined without that line."""
    released, joint = joined(seam(CODE, fences=True), *cut_into("```python\nprint(2)\n", borders))

    assert "print(2)\n" == released
    assert Joint("uncertain", len("```python\n")) == joint


def test_one_line_before_the_fence_is_dropped_with_it() -> None:
    """A sentence in front of the re-opened fence belongs to the restart."""
    released, joint = joined(seam(CODE, fences=True), "Here is the rest:\n```python\nprint(2)\n")

    assert ("print(2)\n", 28) == (released, joint.dropped_chars if joint else None)


@pytest.mark.parametrize(
    "rest",
    [
        "print(2)\n```\nDone.",
        "```\nDone.",
        "```ruby\nputs 2\n",
        "a = 1\nb = 2\n```python\n",
        "print(2)",
        "\n\nprint(2)\n",
    ],
)
def test_no_fence_opened_again(rest: str) -> None:
    """The end of the block, another fence, or code that goes on: nothing is dropped."""
    assert (rest, Joint("exact", 0)) == joined(seam(CODE, "none", fences=True), rest)


@pytest.mark.parametrize(
    "shown", ["No code\n", "```\nplain\n", "```python\nx\n```\n", "``` x ` y\n"]
)
def test_no_open_fence_nothing_held(shown: str) -> None:
    """Text that does not end inside a named fence is joined at once."""
    join = seam(shown, fences=True, restart=False, window=0)

    assert "```python\n" == join.feed("```python\n")


def test_a_fence_is_only_looked_for_where_the_policy_says_so() -> None:
    """`fences = false`: nothing is dropped."""
    assert "```python\nx" == joined(seam(CODE, fences=False), "```python\nx")[0]


@pytest.mark.parametrize(
    ("shown", "again"),
    [
        ("~~~ sql\nselect\n", "~~~ sql\n"),
        ("````md\n```python\nx\n```\n", "````md\n"),
        ("   ```python\nx\n", "```python\n"),
        ("```a\nx\n```\nText\n```b\ny\n", "```b\n"),
    ],
)
def test_what_an_open_fence_is(shown: str, again: str) -> None:
    """Tildes, longer fences round shorter ones, an indent: the last one that is open counts."""
    assert "rest" == joined(seam(shown, fences=True), again + "rest")[0]


def test_a_long_first_line_is_not_held_for_ever() -> None:
    """A line that grows beyond the window is no fence line: it is released as it stands."""
    join = seam(CODE, fences=True, window=40, restart=False)
    line = "x = '" + "a" * 60

    assert line == join.feed(line)


def test_blank_lines_before_the_fence() -> None:
    """Blank lines in front of the re-opened fence go with it."""
    assert "print(2)" == joined(seam(CODE, fences=True), "\n\n```python\nprint(2)")[0]


def test_a_fence_line_that_never_ends() -> None:
    """Held text that the reply's end leaves unfinished is no fence line, and is shown."""
    assert "```pyth" == joined(seam(CODE, fences=True), "```pyth")[0]


def test_the_dropped_fence_stays_known() -> None:
    """Ending the reply does not turn an uncertain seam into an exact one."""
    join = seam(CODE, fences=True)
    join.feed("```python\nprint(2)\n")
    before = join.joint
    join.end()

    assert before == join.joint


# --- any answer -----------------------------------------------------------------------------------

ALPHABET = st.text(st.sampled_from("ab c\n`"), max_size=60)


@given(ALPHABET, ALPHABET, st.text(st.sampled_from("ab"), max_size=3), BORDERS, st.booleans())
def test_only_a_beginning_is_ever_dropped(
    shown: str, rest: str, lost: str, borders: list[int], fences: bool
) -> None:
    """Whatever comes, what is released is R without its first characters: never altered text."""
    join = seam(shown, "last_word", lost=lost, fences=fences, min_overlap=4, window=40)
    released, joint = joined(join, *cut_into(rest, borders))

    assert rest.endswith(released)
    assert joint is not None
    assert len(rest) - len(released) == joint.dropped_chars


@given(ALPHABET, ALPHABET, BORDERS)
def test_pieces_do_not_matter(shown: str, rest: str, borders: list[int]) -> None:
    """R in one piece and in many gives the same text and the same verdict."""
    settings: dict[str, Any] = {"fences": True, "min_overlap": 4, "window": 40}
    whole = joined(seam(shown, **settings), rest)

    assert whole == joined(seam(shown, **settings), *cut_into(rest, borders))


@given(ALPHABET, ALPHABET)
def test_what_is_dropped_was_shown(shown: str, rest: str) -> None:
    """Without fences, all that is dropped stands in T already (or is its white space)."""
    join = seam(shown, min_overlap=4, window=40)
    released, _ = joined(join, rest)
    dropped = rest[: len(rest) - len(released)]

    assert dropped in shown
