"""What `foldmark eval recall` found, as tables and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from foldmark.core.search import Mode
from foldmark.core.wording import count, one_line
from foldmark.recall.evaluation import Answer, Figures, below, by_category, figures, recall, typical_seconds, worst
from foldmark.recall.question_sets import Question, QuestionSet

SHOWN = 160
"""Characters that are shown of a message that was not found."""

_ALL = "all"

Texts = Callable[[Question], Sequence[str]]
"""The texts of a question's evidence, in its order."""


def table(mode: str, answers: Sequence[Answer], ks: Sequence[int], beside: Sequence[Answer] = ()) -> list[str]:
    """The figures of all answers and of each category; what is below those `beside` is marked."""
    rows = _rows(answers, ks)
    lower = set(below(rows, _rows(beside, ks))) if beside else set()
    head = [mode, "questions", *(f"recall@{k}" for k in ks), *(f"hit@{k}" for k in ks), "MRR"]
    lines = [head]
    for name, each in rows.items():
        recalls = [f"{share:.3f}{'<' if (name, k) in lower else ''}" for k, share in each.recall.items()]
        hits = [f"{share:.3f}" for share in each.hit.values()]
        lines.append([one_line(name), f"{each.questions:,}", *recalls, *hits, f"{each.mrr:.3f}"])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    shown = ["  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])]) for line in lines]
    return [*shown, f"Median {typical_seconds(answers) * 1000:.1f} ms a query."]


def verdict(text: Sequence[Answer], both: Sequence[Answer], ks: Sequence[int]) -> str:
    """Where meaning as well as words finds less than words alone."""
    lower = below(_rows(both, ks), _rows(text, ks))
    if not lower:
        return "both is nowhere below text."
    return f"both is below text: {', '.join(f'{one_line(name)} at {k}' for name, k in lower)}."


def misses(mode: str, answers: Sequence[Answer], k: int, number: int, texts: Texts) -> list[str]:
    """The questions of which least was found, what answers them, and what was found first instead."""
    lines = []
    for answer in worst(answers, k, number):
        question, found = answer.question, sum(rank is not None for rank in answer.ranks)
        where = "" if question.conversation is None else f", {one_line(question.conversation)}"
        lines += ["", f"{mode}: {found} of {len(answer.ranks)} among the first {k}: {one_line(question.text)}"]
        lines[-1] += f" (line {question.line}{where})"
        for id, rank, text in zip(question.evidence, answer.ranks, texts(question), strict=True):
            lines.append(f"  {f'rank {rank}' if rank else 'missing'}, {one_line(id)}: {one_line(text[:SHOWN])}")
        if answer.first:
            lines.append(f"  found first: {one_line(answer.first)}")
    return lines or ["", f"{mode}: all evidence is among the first {k}."]


def data(measured: Mapping[Mode, Sequence[Answer]], ks: Sequence[int]) -> list[dict[str, Any]]:
    """The figures and every question of each mode, as JSON."""
    found = []
    for mode, answers in measured.items():
        told = {"mode": mode, **_figures(figures(answers, ks)), "median_ms": round(typical_seconds(answers) * 1000, 3)}
        told["categories"] = {name: _figures(each) for name, each in by_category(answers, ks).items()}
        if mode == "both" and (text := measured.get("text")):
            lower = below(_rows(answers, ks), _rows(text, ks))
            told["below_text"] = [{"category": None if name == _ALL else name, "k": k} for name, k in lower]
        found.append({**told, "questions": [_question(answer, max(ks)) for answer in answers]})
    return found


def _rows(answers: Sequence[Answer], ks: Sequence[int]) -> dict[str, Figures]:
    return {_ALL: figures(answers, ks)} | {f"category {name}": each for name, each in by_category(answers, ks).items()}


def _figures(each: Figures) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(each, str_keys=True)
    return {"measured": told.pop("questions"), **told}


def _question(answer: Answer, k: int) -> dict[str, Any]:
    asked = answer.question
    return {
        "line": asked.line,
        "question": asked.text,
        "conversation": asked.conversation,
        "category": asked.category,
        "evidence": asked.evidence,
        "found": answer.ranks,
        "recall": recall(answer.ranks, k),
    }


def summary(file: str, asked: QuestionSet, *, apart: bool) -> list[str]:
    """What was measured: how many questions with evidence, and without, asked where."""
    number = sum(1 for each in asked.questions if each.evidence)
    without = len(asked.questions) - number
    left = f" ({without:,} more without, left out)" if without else ""
    where = f"{count(len(asked.messages), 'message')} of its own" if asked.messages else "the database"
    lines = [f"{one_line(file)}: {count(number, 'question')} with evidence{left}, asked of {where}."]
    if any(each.conversation is not None for each in asked.questions):
        lines.append(
            "A question that names a conversation is asked in that one alone; --scope all asks everywhere."
            if apart
            else "Every question is asked everywhere; --scope conversation keeps to the conversation that it names."
        )
    return lines
