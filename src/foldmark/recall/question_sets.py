"""Sets of questions that measure a search: JSON Lines, described in docs/recall.md [SPEC 7].

A set has questions with the messages that answer them, and perhaps the messages themselves. Without these, a question's
evidence are events of a database.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from foldmark.core.codec import timestamp
from foldmark.core.errors import CommandError
from foldmark.recall.query import read

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
    """A question, and its evidence: distinct ids of messages or events; none if nothing answers it.

    `conversation` is where the evidence was said, None for anywhere; `category` groups the results.
    """

    line: int
    text: str
    evidence: tuple[str, ...]
    conversation: str | None
    category: str | None


class QuestionSet(NamedTuple):
    """A set of questions; `messages` is empty if a database is searched."""

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
    """Parse a set from its lines; unknown keys are passed over. Raises CommandError that names the line."""
    found = QuestionSet([], [])
    for number, line in enumerate(lines, 1):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
        if not line.strip():
            continue
        try:
            _add(found, number, msgspec.json.decode(line, type=_Line))
        except msgspec.ValidationError as error:
            raise CommandError(f"line {number}: {error}; docs/recall.md describes the format") from None
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
    """Return, for each question, the places of its evidence among the set's messages. Raises CommandError that names
    the line: for missing or ambiguous evidence, or an id that occurs twice."""
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
        raise CommandError('a line has either a "message" or a "question"; docs/recall.md describes the format')
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
