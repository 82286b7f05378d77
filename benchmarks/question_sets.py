"""Recall on a set of questions: how much of the expected evidence a search finds [SPEC 7; docs/reference/recall.md].

SET is JSON Lines: questions with the ids of the messages that answer them, and optionally the messages themselves.
These are searched in their own log; without messages, the database `--db` is searched, and ids are those that `foldmark
search` prints. docs/reference/recall.md describes the format and the columns. Nothing is written.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

import foldmark
from foldmark.core import selections
from foldmark.core.codec import timestamp
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.search import ANY, Filters, Mode
from foldmark.core.wording import count, one_line
from foldmark.log import Log
from foldmark.log.search import message_named
from foldmark.recall.query import read

SHOWN = 160
"""Maximum number of characters shown of a message that was not found."""

Role = Literal["user", "assistant"]

_Id = Annotated[str, Meta(min_length=1)] | int


class Message(NamedTuple):
    """A message of a set, in its line `line`. `id` is unique in its conversation; `at` is ISO 8601 or None."""

    line: int
    id: str
    conversation: str
    role: Role
    text: str
    at: str | None


class Question(NamedTuple):
    """A question, and its evidence: ids of messages or events, each once; none if no answer is known.

    `conversation` is the conversation of the evidence, None for any; `category` is any word by which results are
    grouped.
    """

    line: int
    text: str
    evidence: tuple[str, ...]
    conversation: str | None
    category: str | None


class QuestionSet(NamedTuple):
    """The questions and messages of a set; `messages` is empty if a database is searched."""

    messages: list[Message]
    questions: list[Question]


class _Said(Struct):
    id: _Id
    text: str
    conversation: _Id = ""
    role: Role = "user"
    at: str | None = None


class _Line(Struct):
    message: _Said | None = None
    question: str | None = None
    evidence: list[_Id] | None = None
    conversation: _Id | None = None
    category: _Id | None = None


def parse(lines: Iterable[bytes]) -> QuestionSet:
    """Parse a set from its lines; unknown keys are ignored. Raises CommandError that names the line."""
    found = QuestionSet([], [])
    for number, line in enumerate(lines, 1):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.strip():
            continue
        try:
            _add(found, number, msgspec.json.decode(line, type=_Line))
        except msgspec.ValidationError as error:
            raise CommandError(f"line {number}: {error}; docs/reference/recall.md describes the format") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommandError(f"line {number} is not JSON: {error}") from None
        except (CommandError, ValueError) as error:
            raise CommandError(f"line {number}: {error}") from None
    if not any(question.evidence for question in found.questions):
        raise CommandError("there is no question with evidence in it, so there is nothing to measure")
    if found.messages:
        places(found)
    return found


def places(asked: QuestionSet) -> list[list[int]]:
    """Return the positions of each question's evidence among the set's messages. Raises CommandError that names the
    line if evidence is missing or is in several conversations, or if an id occurs twice."""
    known: dict[str, dict[str, int]] = defaultdict(dict)
    by_id: dict[str, list[int]] = defaultdict(list)
    for at, message in enumerate(asked.messages):
        if message.id in known[message.conversation]:
            before = asked.messages[known[message.conversation][message.id]].line
            raise CommandError(f"line {message.line}: message '{message.id:.80}' was there before, in line {before}")
        known[message.conversation][message.id] = at
        by_id[message.id].append(at)
    return [[_place(question, each, known, by_id) for each in question.evidence] for question in asked.questions]


def _add(found: QuestionSet, number: int, line: _Line) -> None:
    said = line.message
    if (said is None) == (line.question is None):
        raise CommandError('a line has either a "message" or a "question"; docs/reference/recall.md describes it')
    if said is not None:
        at = None if said.at is None else timestamp(said.at)
        found.messages.append(Message(number, str(said.id), str(said.conversation), said.role, said.text, at))
    elif line.question is not None:
        if line.evidence is None:
            raise CommandError('a question needs "evidence": the ids of the messages that answer it, [] for none')
        read(line.question)
        evidence = tuple(dict.fromkeys(map(str, line.evidence)))
        where, category = (None if each is None else str(each) for each in (line.conversation, line.category))
        found.questions.append(Question(number, line.question, evidence, where, category))


def _place(
    question: Question, id: str, known: Mapping[str, Mapping[str, int]], by_id: Mapping[str, Sequence[int]]
) -> int:
    where = question.conversation
    if where is not None and where not in known:
        raise CommandError(f"line {question.line}: no message is in a conversation '{where:.80}'")
    there = by_id.get(id, ()) if where is None else [known[where][id]] if id in known[where] else ()
    if not there:
        in_it = "" if where is None else f" in conversation '{where:.80}'"
        raise CommandError(f"line {question.line}: there is no message '{id:.80}'{in_it}")
    if len(there) > 1:
        raise CommandError(
            f"line {question.line}: several conversations have a message '{id:.80}'; name one with \"conversation\""
        )
    return there[0]


class Answer(NamedTuple):
    """The result of a search for a question: the rank from 1 of each piece of evidence in its order, None if it was not
    found; the seconds of the search; the snippet of the first hit, "" if there was none."""

    question: Question
    ranks: tuple[int | None, ...]
    seconds: float
    first: str


class Figures(Struct, frozen=True):
    """Averages over questions: by k, the share of a question's evidence among the first k hits (recall) and the share
    of questions with any evidence among them (hit); and the reciprocal rank of the first evidence found (0 if none
    was)."""

    questions: int
    recall: dict[int, float]
    hit: dict[int, float]
    mrr: float


def figures(answers: Sequence[Answer], ks: Sequence[int]) -> Figures:
    """Return the averages over one or more answers, at each k."""
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
    """Return the figures of each category, numbers in their order; questions without a category are left out."""
    found: dict[str, list[Answer]] = defaultdict(list)
    for answer in answers:
        if answer.question.category is not None:
            found[answer.question.category].append(answer)
    order = sorted(found, key=lambda name: (not name.isdecimal(), len(name) if name.isdecimal() else 0, name))
    return {name: figures(found[name], ks) for name in order}


def worst(answers: Sequence[Answer], k: int, number: int) -> list[Answer]:
    """Return the answers with the least evidence among the first k, the worst first; answers with all of it are left
    out."""

    def quality(answer: Answer) -> tuple[float, float]:
        return recall(answer.ranks, k), -min((rank for rank in answer.ranks if rank), default=inf)

    return sorted((each for each in answers if recall(each.ranks, k) < 1), key=quality)[:number]


def below(figures: Mapping[str, Figures], other: Mapping[str, Figures]) -> list[tuple[str, int]]:
    """Return the categories, each with the k at which recall is below that of `other`."""
    return [
        (name, k) for name, each in figures.items() for k, share in each.recall.items() if share < other[name].recall[k]
    ]


class Asked(NamedTuple):
    """A question, the events that are its evidence, and the filters of its search."""

    question: Question
    events: tuple[int, ...]
    filters: Filters


def of_set(log: Log, asked: QuestionSet, *, apart: bool) -> list[Asked]:
    """Return the questions with evidence of a set, whose messages become conversations of `log`, which is empty.

    With `apart`, a question is asked only in its conversation, if it names one and there are several.
    """
    agents = {}
    events: dict[int, int] = {}
    for number, name in enumerate(dict.fromkeys(message.conversation for message in asked.messages), 1):
        agent = agents[name] = log.agent(f"conversation {number}")
        with agent.batch():
            for at, said in enumerate(asked.messages):
                if said.conversation == name:
                    events[at] = agent.append(said.role, said.text, created_at=said.at, verbatim=True)
            agent.end_turn()
    found = []
    for question, there in zip(asked.questions, places(asked), strict=True):
        where = question.conversation
        filters = ANY if where is None or not apart or len(agents) == 1 else Filters(agent=agents[where].id)
        found.append(Asked(question, tuple(events[at] for at in there), filters))
    return [each for each in found if each.events]


def embedded(log: Log, modes: Sequence[Mode]) -> None:
    """Embed the messages of `log` if a mode needs vectors. Raises EmbeddingError."""
    if "vector" in modes or "both" in modes:
        log.meanings().bring_up(_tell)


def of_database(log: Log, asked: QuestionSet, *, apart: bool) -> list[Asked]:
    """Return the questions with evidence of a set without messages, asked in `log`; ids of evidence are 8 or work:8.

    With `apart`, a question is asked only in the conversation that it names. Raises CommandError that names the line.
    """
    found = []
    for question in asked.questions:
        try:
            agent = None if question.conversation is None else log.find(question.conversation).id
            events = tuple(_event(log, id, agent) for id in question.evidence)
        except CommandError as error:
            raise CommandError(f"line {question.line}: {error}") from None
        found.append(Asked(question, events, Filters(agent=agent) if agent and apart else ANY))
    return [each for each in found if each.events]


def answered(log: Log, asked: Asked, mode: Mode, limit: int) -> Answer:
    """Return the result of a search for a question. Raises CommandError for an unavailable mode."""
    began = perf_counter()
    hits = log.search(asked.question.text, limit, asked.filters, mode)
    seconds = perf_counter() - began
    ranks = {hit.event_id: rank for rank, hit in enumerate(hits, 1)}
    return Answer(asked.question, tuple(map(ranks.get, asked.events)), seconds, hits[0].snippet if hits else "")


def measure(log: Log, asked: Sequence[Asked], modes: Sequence[Mode], limit: int) -> dict[Mode, list[Answer]]:
    """Return the answers in each mode."""
    found: dict[Mode, list[Answer]] = {mode: [] for mode in modes}
    for done, each in enumerate(asked, 1):
        for mode in modes:
            found[mode].append(answered(log, each, mode, limit))
        _tell(done, len(asked))
    return found


def _tell(done: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{total} ", end="", file=sys.stderr, flush=True)


def texts(log: Log, events: Sequence[int]) -> list[str]:
    """Return the texts of these messages."""
    with log.store.read() as moment:
        return [event.content if (event := selections.event(moment, id)) else "" for id in events]


def _event(log: Log, named: str, agent: str | None) -> int:
    id = message_named(log, named)
    with log.store.read() as moment:
        event = None if id is None else selections.event(moment, id)
    if event is None or not event.content:
        raise CommandError(
            f"'{named:.80}' is no message that can be found; `foldmark search` tells their ids, as in work:8"
        )
    if agent is not None and event.agent_id != agent:
        raise CommandError(f"message {event.id} is not in the conversation that the question names")
    return event.id


_ALL = "all"

Texts = Callable[[Question], Sequence[str]]
"""Returns the texts of a question's evidence, in its order."""


def table(mode: str, answers: Sequence[Answer], ks: Sequence[int], beside: Sequence[Answer] = ()) -> list[str]:
    """Return a table of the figures of all answers and of each category; figures below those of `beside` are marked."""
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
    return [*shown, f"Median {median(answer.seconds for answer in answers) * 1000:.1f} ms a query."]


def misses(mode: str, answers: Sequence[Answer], k: int, number: int, texts: Texts) -> list[str]:
    """Return lines about the questions with the least evidence found, their evidence, and the first hit instead."""
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


def _rows(answers: Sequence[Answer], ks: Sequence[int]) -> dict[str, Figures]:
    return {_ALL: figures(answers, ks)} | {f"category {name}": each for name, each in by_category(answers, ks).items()}


def summary(file: str, asked: QuestionSet, *, apart: bool) -> list[str]:
    """Return lines about the measurement: the number of questions with and without evidence, and where they were
    asked."""
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


def main() -> int:
    """Read, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", type=Path, nargs="?")
    parser.add_argument("--db", help="where the questions are asked if SET has no messages")
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 20], help="after how many hits")
    parser.add_argument("--mode", choices=["auto", "text", "vector", "both", "all"], default="auto")
    parser.add_argument("--scope", choices=["conversation", "all"], default="conversation")
    parser.add_argument("--misses", type=int, default=0, help="show the N worst as well")
    options = parser.parse_args()
    if options.set is None:
        print("not measured: name a set of questions; docs/reference/recall.md describes the format")
        return 0
    ks, apart = sorted(set(options.k)), options.scope == "conversation"
    modes: Sequence[Mode] = ("text", "vector", "both") if options.mode == "all" else (options.mode,)
    try:
        with options.set.open("rb") as lines:
            wanted = parse(lines)
        if not wanted.messages and options.db is None:
            parser.error("the set has no messages: name the database with --db")
        own = bool(wanted.messages)
        with foldmark.open(":memory:" if own else options.db, create=own) as log:
            asked = (of_set if own else of_database)(log, wanted, apart=apart)
            if own:
                embedded(log, modes)
            measured = measure(log, asked, modes, max(ks))
            print("\n".join(summary(str(options.set), wanted, apart=apart)))
            for mode, answers in measured.items():
                beside = measured["text"] if mode == "both" and options.mode == "all" else ()
                print("\n".join(["", *table(mode, answers, ks, beside)]))
            events = {each.question: each.events for each in asked}
            for mode, answers in measured.items() if options.misses else ():
                print("\n".join(misses(mode, answers, max(ks), options.misses, lambda q: texts(log, events[q]))))
    except (FoldmarkError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
