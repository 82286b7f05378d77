"""Recall, hits and ranks over answers (SPEC 7)."""

from __future__ import annotations

import pytest

from foldmark.recall.evaluation import Answer, below, by_category, figures, recall, typical_seconds, worst
from foldmark.recall.question_sets import Question


def answer(*ranks: int | None, category: str | None = None, seconds: float = 0.0, text: str = "what?") -> Answer:
    evidence = tuple(f"m{number}" for number in range(len(ranks)))
    return Answer(Question(1, text, evidence, None, category), ranks, seconds, "")


@pytest.mark.parametrize(
    ("ranks", "k", "share"),
    [((1,), 1, 1.0), ((2,), 1, 0.0), ((2,), 2, 1.0), ((None,), 1000, 0.0), ((1, None, 7, 3), 5, 0.5), ((5, 6), 5, 0.5)],
)
def test_recall_is_the_share_of_evidence_among_the_first(ranks: tuple[int | None, ...], k: int, share: float) -> None:
    assert recall(ranks, k) == share


def test_every_question_counts_the_same_however_much_evidence_it_has() -> None:
    found = figures([answer(1), answer(None, None, None, 2)], (1, 2, 5))
    assert found.questions == 2
    assert found.recall == {1: 0.5, 2: 0.625, 5: 0.625}
    assert found.hit == {1: 0.5, 2: 1.0, 5: 1.0}


def test_the_first_evidence_gives_the_reciprocal_rank() -> None:
    assert figures([answer(4, 2, None), answer(None), answer(1)], (5,)).mrr == pytest.approx((1 / 2 + 0 + 1) / 3)


def test_categories_apart_numbers_in_their_order() -> None:
    answers = [answer(1, category=name) for name in ("10", "9", "why", "2", "2", "when", "9" * 5000)]
    found = by_category([*answers, answer(None)], (5,))
    assert list(found) == ["2", "9", "10", "9" * 5000, "when", "why"]
    assert [each.questions for each in found.values()] == [2, 1, 1, 1, 1, 1]
    assert {each.recall[5] for each in found.values()} == {1.0}


def test_time_is_the_median() -> None:
    assert typical_seconds([answer(1, seconds=seconds) for seconds in (9.0, 0.1, 0.3)]) == 0.3


def test_the_worst_come_first_and_what_was_found_is_none_of_them() -> None:
    answers = [
        answer(1, text="found"),
        answer(1, None, text="half, first"),
        answer(9, None, text="half, late"),
        answer(None, text="nothing"),
        answer(30, text="too late"),
    ]
    assert [each.question.text for each in worst(answers, 10, 9)] == [
        "nothing",
        "too late",
        "half, late",
        "half, first",
    ]
    assert [each.question.text for each in worst(answers, 10, 1)] == ["nothing"]


def test_below_names_each_category_and_k() -> None:
    text = {"all": figures([answer(3)], (1, 5)), "why": figures([answer(1)], (1, 5))}
    both = {"all": figures([answer(9)], (1, 5)), "why": figures([answer(2)], (1, 5))}
    assert below(both, text) == [("all", 5), ("why", 1)]
    assert below(text, both) == []
