"""Long lines break between words at the terminal's width, in whatever pieces the text arrives (SPEC 9)."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.rendering import Wrapping


def wrapped(pieces: list[str], columns: int) -> str:
    wrapping = Wrapping(columns)
    return "".join(map(wrapping.feed, pieces)) + wrapping.flush()


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("the quick brown fox jumps over", 10, ["the quick", "brown fox", "jumps over"]),
        ("aaaa bbbbb cccc", 10, ["aaaa bbbbb", "cccc"]),
        ("one two\n\nthree", 20, ["one two", "", "three"]),
        ("  - the quick brown fox", 12, ["  - the", "  quick", "  brown fox"]),
        ("supercalifragilistic is a word", 10, ["supercalifragilistic", "is a word"]),
        ("a supercalifragilistic word", 10, ["a", "supercalifragilistic", "word"]),
        ("你好你好你好 abc", 7, ["你好你", "好你好", "abc"]),
        ("\u0301 aaaa", 4, ["\u0301", "aaaa"]),
        ("\x1b[1mbold\x1b[0m word", 9, ["\x1b[1mbold\x1b[0m word"]),
    ],
)
def test_lines_end_between_words(text: str, columns: int, lines: list[str]) -> None:
    assert wrapped([text], columns).split("\n") == lines
    assert wrapped(list(text), columns).split("\n") == lines


def test_output_without_a_terminal_is_not_wrapped() -> None:
    text = "a  b\t" * 1000
    assert wrapped([text], 0) == text


@given(st.lists(st.text("ab \n好é́"), max_size=20), st.integers(4, 12))
def test_no_line_is_too_wide_and_no_word_is_lost(pieces: list[str], columns: int) -> None:
    shown = wrapped(pieces, columns)
    assert shown.replace("好", " 好 ").split() == "".join(pieces).replace("好", " 好 ").split()
    for line in shown.split("\n"):
        wide = sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in line)
        assert wide <= columns or " " not in line.strip()
