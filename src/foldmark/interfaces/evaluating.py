"""`foldmark eval recall`: where each question is asked, which events answer it, and what a search makes of it."""

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from foldmark.core.errors import CommandError
from foldmark.core.ports import Progress
from foldmark.core.search import ANY, Filters, Mode
from foldmark.log import Log
from foldmark.recall.evaluation import Answer
from foldmark.recall.question_sets import Question, QuestionSet, places
from foldmark.searching.excerpts import message_named


class Asked(NamedTuple):
    """A question, the events that are its evidence, and where it is asked."""

    question: Question
    events: tuple[int, ...]
    filters: Filters


def of_set(log: Log, asked: QuestionSet, *, apart: bool) -> list[Asked]:
    """The questions with evidence of a set, whose messages become conversations of `log`, which is empty.

    With `apart` a question is asked in its conversation alone, if it names one and there are several.
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


def embedded(log: Log, modes: Sequence[Mode], progress: Progress) -> None:
    """Make the vectors of what is in `log`, if a mode needs any. Raises EmbeddingError."""
    if "vector" in modes or "both" in modes:
        log.meanings().bring_up(progress)


def of_database(log: Log, asked: QuestionSet, *, apart: bool) -> list[Asked]:
    """The questions with evidence of a set without messages, asked in `log`: evidence are its messages, 8 or work:8.

    With `apart` a question is asked in the conversation alone that it names. Raises CommandError that names the line.
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
    """What a search makes of a question. Raises CommandError for a mode that there is not."""
    began = perf_counter()
    hits = log.search(asked.question.text, limit, asked.filters, mode)
    seconds = perf_counter() - began
    ranks = {hit.event_id: rank for rank, hit in enumerate(hits, 1)}
    return Answer(asked.question, tuple(map(ranks.get, asked.events)), seconds, hits[0].snippet if hits else "")


def measure(
    log: Log,
    asked: Sequence[Asked],
    modes: Sequence[Mode],
    limit: int,
    progress: Progress,
) -> tuple[dict[Mode, list[Answer]], bool]:
    """The answers in each mode, and whether that was interrupted, so that only the first questions have any."""
    found: dict[Mode, list[Answer]] = {mode: [] for mode in modes}
    try:
        for done, each in enumerate(asked, 1):
            answers = [answered(log, each, mode, limit) for mode in modes]
            for mode, answer in zip(modes, answers, strict=True):
                found[mode].append(answer)
            progress(done, len(asked))
    except KeyboardInterrupt:
        return found, True
    return found, False


def texts(log: Log, events: Sequence[int]) -> list[str]:
    """What these messages say."""
    with log.store.read() as moment:
        return [event.content if (event := moment.event(id)) else "" for id in events]


def _event(log: Log, named: str, agent: str | None) -> int:
    id = message_named(log, named)
    with log.store.read() as moment:
        event = None if id is None else moment.event(id)
    if event is None or not event.content:
        raise CommandError(
            f"'{named:.80}' is no message that can be found; `foldmark search` tells their ids, as in work:8"
        )
    if agent is not None and event.agent_id != agent:
        raise CommandError(f"message {event.id} is not in the conversation that the question names")
    return event.id
