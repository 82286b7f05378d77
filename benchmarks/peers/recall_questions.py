"""Messages and questions about them: recorded ones, and a conversation that the suite makes itself."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import coding_recall
import locomo
from question_sets import Answer, Question, places


class Said(NamedTuple):
    """A message; several of the same `place` count as one."""

    conversation: str
    role: str
    text: str
    at: str | None
    place: str


class Asked(NamedTuple):
    """A question and the places that answer it."""

    text: str
    places: tuple[str, ...]
    category: str


class Collection(NamedTuple):
    """Messages that are searched together, and questions about them."""

    name: str
    messages: list[Said]
    asked: list[Asked]

    def places(self, positions: Sequence[int]) -> list[str]:
        """Return the places of messages."""
        return [self.messages[position].place for position in positions]

    def answers(self, hits: Sequence[Sequence[str]]) -> list[Answer]:
        """Return the ranks of what answers each question, given the places of its hits."""
        found = []
        for line, (asked, each) in enumerate(zip(self.asked, hits, strict=True), 1):
            ranks = {place: rank for rank, place in reversed(list(enumerate(each, 1)))}
            question = Question(line, asked.text, asked.places, None, asked.category)
            found.append(Answer(question, tuple(map(ranks.get, asked.places)), 0.0, ""))
        return found


def coding(folder: Path, files: Sequence[str]) -> Collection:
    """Return coding sessions with the questions about them. Raises OSError if a session is missing."""
    asked = [
        Asked(each.text, each.evidence, each.category or "")
        for each, there in coding_recall.questions()
        if there[0][0] in files
    ]
    messages = []
    for name in files:
        kind = "codex" if name.startswith("codex") else "claude"
        for line, role, text, at in coding_recall.spoken(folder / name, kind):
            messages.append(Said(Path(name).stem, role, text, at, f"{name}:{line}"))
    return Collection("coding", messages, asked)


def coding_files() -> list[str]:
    """Return the sessions that the questions are about."""
    return list(dict.fromkeys(file for _, there in coding_recall.questions() for file, _ in there))


def talks(file: Path) -> Iterator[Collection]:
    """Yield the conversations of a LoCoMo file, whose messages are `(date) Speaker: text`."""
    for number, talk in enumerate(json.loads(file.read_text(encoding="utf-8")), 1):
        lines = locomo.as_set(list(locomo.converted(talk, "dated")))
        messages = [Said("talk", each.role, each.text, each.at, each.id) for each in lines.messages]
        asked = [
            Asked(question.text, tuple(dict.fromkeys(lines.messages[at].id for at in there)), question.category or "")
            for question, there in zip(lines.questions, places(lines), strict=True)
            if there
        ]
        yield Collection(f"locomo {number}", messages, asked)


_SERVICES = ("billing", "catalogue", "gateway", "mailer", "invoice", "search", "session", "stock", "parcel", "report")
_PEOPLE = ("Ada", "Barbara", "Edsger", "Frances", "Grace", "Tony")
_FACTS = (
    ("port", "The {service} service listens on port {number}.", "Which socket is the {service} service bound to?"),
    ("key", "{person} keeps the deploy key of the {service} service.", "Who may release the {service} service?"),
    ("limit", "The {service} service refuses more than {number} requests a minute.", "How is {service} throttled?"),
    ("store", "The {service} service writes its rows to the cluster in {place}.", "Where is data of {service} saved?"),
    ("bug", "The {service} service crashed because a list was empty.", "What made the {service} service fail?"),
    ("choice", "We moved the {service} service to Rust, for its start was slow.", "Why was {service} rewritten?"),
)
"""A fact, and a question for it in other words."""

_SAME = {
    "port": "On which port does the {service} service listen?",
    "key": "Who keeps the deploy key of the {service} service?",
    "limit": "How many requests a minute does the {service} service refuse?",
    "store": "Where does the {service} service write its rows?",
    "bug": "Why had the {service} service crashed?",
    "choice": "Why did we move the {service} service to Rust?",
}
_REPLIES = ("In {place}, since last week.", "{person} does, until {number} is done.", "Not before number {number}.")
_IDLE = (
    "I looked at the {service} service again, and there is nothing new about it.",
    "The tests of the {service} service take a while, so let us go on with the {other} service.",
    "{person} asks whether the {service} service and the {other} service can wait.",
    "Thanks. What about the {service} service?",
    "I read the log of the {service} service: {number} lines, none of them of interest.",
)
_PLACES = ("Dublin", "Frankfurt", "Oregon", "Osaka", "Sydney")


def made() -> Collection:
    """Return one conversation of 420 messages with 150 questions: in the words of the answer, in other words, and about
    replies that do not name what they are about."""
    dice = random.Random(7)
    pieces: list[list[tuple[str, str, Asked | None]]] = []
    for service in _SERVICES:
        for name, fact, other in _FACTS:
            told = _filled(fact, service, dice)
            about = Asked(_SAME[name].format(service=service), (told,), "same words")
            pieces.append([("assistant", told, about)])
            pieces[-1].append(("", "", Asked(other.format(service=service), (told,), "other words")))
        for number, (what, reply) in enumerate(
            zip(("the backups of", "the alerts of", "the next release of"), _REPLIES, strict=True)
        ):
            question = ("Where do we keep {}", "Who answers {}", "When is {}")[number].format(what)
            answer = _filled(reply, service, dice)
            about = Asked(f"{question} the {service} service?", (f"{service} {number}",), "replies")
            pieces.append([("user", f"And {what} the {service} service: what did we say?", None)])
            pieces[-1].append(("assistant", answer, about))
    pieces += [[("user", _filled(_IDLE[number % len(_IDLE)], None, dice), None)] for number in range(300)]
    dice.shuffle(pieces)
    messages = list[Said]()
    questions = list[Asked]()
    for role, text, asked in (each for piece in pieces for each in piece):
        if text:
            own = asked.places[0] if asked else f"idle {len(messages)}"
            messages.append(Said("made", role, text, None, own))
        if asked:
            questions.append(asked)
    return Collection("made", messages, questions)


def _filled(text: str, service: str | None, dice: random.Random) -> str:
    one, two = dice.sample(_SERVICES, 2)
    return text.format(
        service=service or one,
        other=two,
        person=dice.choice(_PEOPLE),
        place=dice.choice(_PLACES),
        number=dice.randrange(20, 9000),
    )
