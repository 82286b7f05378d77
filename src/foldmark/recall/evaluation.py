"""Measure a search: recall over a set of questions with known answers [SPEC 7]."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct

from foldmark.recall.question_sets import Question


class Answer(NamedTuple):
    """The result of a question: the rank, from 1, of each evidence in its order, None if it was not found; the seconds
    that the search took; the snippet of the first hit, "" if there was none."""

    question: Question
    ranks: tuple[int | None, ...]
    seconds: float
    first: str


class Figures(Struct, frozen=True):
    """Averages over questions: by k, the share of a question's evidence among the first k hits (recall) and of
    questions with any among them (hit); and the reciprocal rank of the first evidence that was found (0 if none
    was)."""

    questions: int
    recall: dict[int, float]
    hit: dict[int, float]
    mrr: float


def figures(answers: Sequence[Answer], ks: Sequence[int]) -> Figures:
    """Return averages over at least one answer, at each k."""
    ranks = [answer.ranks for answer in answers]
    return Figures(
        len(answers),
        {k: fmean(recall(each, k) for each in ranks) for k in ks},
        {k: fmean(recall(each, k) > 0 for each in ranks) for k in ks},
        fmean(max((1 / rank for rank in each if rank), default=0.0) for each in ranks),
    )


def recall(ranks: Sequence[int | None], k: int) -> float:
    """Return the share of evidence among the first k."""
    return sum(rank is not None and rank <= k for rank in ranks) / len(ranks)


def by_category(answers: Sequence[Answer], ks: Sequence[int]) -> dict[str, Figures]:
    """Return the figures of each category, numbers in their order; none of questions without one."""
    found: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.question.category is not None:
            found[answer.question.category].append(answer)
    order = sorted(found, key=lambda name: (not name.isdecimal(), len(name) if name.isdecimal() else 0, name))
    return {name: figures(found[name], ks) for name in order}


def typical_seconds(answers: Sequence[Answer]) -> float:
    """Return the median seconds of a search."""
    return median(answer.seconds for answer in answers)


def worst(answers: Sequence[Answer], k: int, number: int) -> list[Answer]:
    """Return the answers with the least recall among the first k, the worst first, without perfect ones."""

    def quality(answer: Answer) -> tuple[float, float]:
        return recall(answer.ranks, k), -min((rank for rank in answer.ranks if rank), default=inf)

    return sorted((each for each in answers if recall(each.ranks, k) < 1), key=quality)[:number]


def below(figures: Mapping[str, Figures], other: Mapping[str, Figures]) -> list[tuple[str, int]]:
    """Return the categories, with k, in which recall is below another's."""
    return [
        (name, k) for name, each in figures.items() for k, share in each.recall.items() if share < other[name].recall[k]
    ]
