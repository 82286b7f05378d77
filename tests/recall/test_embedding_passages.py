"""Splitting a long message into passages (SPEC 7)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.text.highlights import LONGEST, MOST, passages

SENTENCE = "This sentence says something about the plan. "


@pytest.mark.parametrize("text", ["", " \n\t", "\u2028"])
def test_an_empty_text_has_no_passages(text: str) -> None:
    assert passages(text) == []


def test_a_short_text_is_one_passage() -> None:
    assert passages("  fold\n\nmark ") == ["fold\n\nmark"]
    assert passages("a" * LONGEST) == ["a" * LONGEST]
    assert passages("a" * LONGEST + "\n ") == ["a" * LONGEST]
    assert passages("a" * LONGEST + "b") == ["a" * LONGEST, "b"]


@pytest.mark.parametrize("between", ["\n\n", "\n \t\n", "\n"])
def test_cuts_are_at_the_best_place(between: str) -> None:
    parts = [SENTENCE * 11 + "x" * (7 * number) + "." for number in range(5)]
    assert passages(between.join(parts)) == parts


def test_a_cut_prefers_a_paragraph_to_a_line_and_a_sentence_to_a_word() -> None:
    paragraph = SENTENCE * 10 + "\n\n"
    assert passages(paragraph + "a line\n" * 60)[0] == paragraph.strip()
    assert passages(SENTENCE * 10 + "word " * 100)[0] == (SENTENCE * 10).strip()


def test_text_with_more_tokens_is_cut_shorter() -> None:
    assert max(map(len, passages("语言" * 500))) == LONGEST // 4
    assert passages("我们讨论了数据库。" * 50)[0].endswith("。")
    assert max(map(len, passages("{}[]();" * 100))) == LONGEST // 3


@pytest.mark.parametrize("between", [" ", "\n", "\n\n", ". ", "", "  \n" * 300])
def test_the_end_of_a_very_long_text_is_kept(between: str) -> None:
    text = "begin" + between + between.join(f"n{number:05}" for number in range(20_000)) + between + "the end" + between
    found = passages(text)
    assert len(found) == MOST
    assert found[0].startswith("begin")
    assert found[-1].endswith("the end" + between.strip())
    assert all(len(each) <= LONGEST for each in found)


def test_a_huge_text_is_not_read_as_a_whole() -> None:
    for text in ("word " * 2_000_000, " " * 10_000_000, "x" * 10_000_000, "\n" * 10_000_000 + "x"):
        assert len(passages(text)) <= MOST


@given(st.text(st.sampled_from("ab.!语{ \n\t\ud800\x00\u2028é"), max_size=60), st.integers(1, 200))
def test_no_text_is_lost_up_to_the_maximum_of_passages(text: str, times: int) -> None:
    text *= times
    found = passages(text)
    assert all(each == each.strip() and each for each in found)
    assert len(found) <= MOST
    if len(found) < MOST:
        assert "".join("".join(found).split()) == "".join(text.split())
    for each in found:
        assert each in text
