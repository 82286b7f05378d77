"""The local matcher: decide which messages a criterion is about, without a model [SPEC 4.2].

It reads words as search does (the same terms, stems and weights, and vectors if there are any) and is deterministic.
Search ranks messages; the matcher decides: a message matches if it reaches a threshold. A conversation stays on a topic
over several turns without naming it each time, so neighbouring turns that share enough significant words with a hit
match too.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, takewhile
from math import sqrt

from foldmark.core.events import Event
from foldmark.core.search import Phrase, Similarity, Term
from foldmark.recall.criteria import Clause, parse_criteria
from foldmark.recall.ranking import LONGEST, QueryTerm, occurrences, query_terms, rarity
from foldmark.text.selection import Candidate, by_turn, candidate, message_text
from foldmark.text.tokens import parts_of, stems, words
from foldmark.text.vocabulary import COMMON, FUNCTION, NODS

ASKED, OTHER = 0.3, 0.6
"""The share of a clause's terms, by weight, that a user's message must contain, and the share for any other message."""

ALIKE = 0.12
"""Minimum cosine between the weighted words of two neighbouring turns on one topic."""

REACH = 3
"""Number of turns on each side of a match that can continue its topic."""

LONG = 120
"""Number of words up to which one occurrence suffices; a longer message needs proportionally more."""

MEANT = 0.3
"""Minimum similarity in meaning of a user's message that matches without any word of the clause."""

_LOOKED_UP = 500
"""Number of messages whose vectors are read at a time."""

_PLAIN = frozenset(stems(" ".join(FUNCTION | NODS | COMMON)))
"""Stems that turns on different topics share easily."""

_QUOTE = re.compile("“[^“”]{0,500}”")
_IDENTIFIER = re.compile(r"(?<![^\W_])([^\W\d_]{2,})[0-9]+(?![^\W_])")
_RELATED = {"i": "y", "y": "i", "is": "id", "id": "is", "us": "ud", "ud": "us"}
"""Endings in which Porter's stems of related words differ: deployed, deployment; decided, decision."""

Alike = Callable[[str], Similarity | None]
"""Returns the similarity of messages to a text; None without vectors."""


def match(
    criteria: str, messages: Iterable[Event], *, alike: Alike | None = None, keep_going: bool = True
) -> tuple[int, ...]:
    """Return the ids of the messages, among those given in order, that `criteria` is about; in the order given.

    `messages` are iterated at most twice, and no more than one turn of them is held at a time.

    Clauses joined by commas, "and" or "or" match separately; messages about the part after "except" or "but not" are
    left out; "messages 45-67" are ids. A word that fewer messages contain weighs more. A word with digits ("ticket7")
    is searched for whole, and a message without it does not match. With `alike`, messages close in meaning match as
    well. If a user message matches, its whole turn matches and, with `keep_going`, so do the neighbouring turns that
    share enough significant words with it, and those after it that say nothing new ("go on"). Any other message matches
    alone. `system` messages never match.

    Raises CommandError if the criterion contains no word to search for.
    """
    asked_for = parse_criteria(criteria)
    matcher = _Matcher(messages, (*asked_for.clauses, *asked_for.unwanted), alike, keep_going)
    chosen = matcher.chosen(asked_for.clauses) if asked_for.clauses else {row.id for row in matcher.rows}
    chosen -= matcher.chosen(asked_for.unwanted)
    return tuple(row.id for row in matcher.rows if row.id in chosen)


class _Matcher:
    """The messages that the clauses of a criterion are compared with; each is read once for all of them.

    `rows` are the messages without their texts; for the terms only their occurrences are kept, by position.
    """

    def __init__(
        self, messages: Iterable[Event], clauses: Iterable[Clause], alike: Alike | None, keep_going: bool
    ) -> None:
        self._messages, self._alike, self._keep_going = messages, alike, keep_going
        every = list(dict.fromkeys(term for clause in clauses for term in clause.terms))
        self._place = {term: place for place, term in enumerate(every)}
        looked_for = [_related(each) for each in query_terms(every, (), dict.fromkeys(every, 0), 0)]
        self.rows: list[Candidate] = []
        self._occurrences: dict[int, tuple[Sequence[int], int]] = {}
        for message in _messages_of(messages):
            if every:
                counts, length = occurrences(_text(message), looked_for)
                if any(counts):
                    self._occurrences[len(self.rows)] = counts, length
            self.rows.append(candidate(message))
        self._turns = by_turn(self.rows)

    def chosen(self, clauses: Iterable[Clause]) -> set[int]:
        """Return the ids of messages that any of the clauses is about."""
        chosen: set[int] = set()
        for clause in clauses:
            if clause.id_spans:
                chosen |= {
                    row.id for row in self.rows if any(first <= row.id <= last for first, last in clause.id_spans)
                }
            else:
                hits = self._hits(clause)
                chosen |= hits | self._with_turns(hits, _identifiers(clause))
        return chosen

    def _hits(self, clause: Clause) -> set[int]:
        """Return ids of the messages that hold enough of the terms, by weight, or are close to the clause in
        meaning."""
        places = [self._place[term] for term in clause.terms]
        holders = [sum(1 for counts, _ in self._occurrences.values() if counts[place]) for place in places]
        weights = [rarity(number, len(self.rows)) if number else 0.0 for number in holders]
        named = [place for place, term in zip(places, clause.terms, strict=True) if _has_digits(term)]
        chosen = set() if named else self._close_in_meaning(clause.text)
        if not any(weights):
            return chosen
        # A term in no message weighs as much as the rest on average: it might have made the difference.
        average = sum(weights) / sum(1 for weight in weights if weight)
        total = sum(weight or average for weight in weights)
        for at, (counts, length) in self._occurrences.items():
            row = self.rows[at]
            if named and not any(counts[place] for place in named):
                continue
            needed = max(1.0, length / LONG)
            found = (w * min(1.0, counts[place] / needed) for w, place in zip(weights, places, strict=True))
            if sum(found) >= (ASKED if row.kind == "user" else OTHER) * total:
                chosen.add(row.id)
        return chosen

    def _close_in_meaning(self, text: str) -> set[int]:
        """Return ids of user messages that are close to a text in meaning."""
        likeness = self._alike(text) if self._alike else None
        ids = iter([row.id for row in self.rows if row.kind == "user"] if likeness else ())
        found: set[int] = set()
        while likeness and (some := list(islice(ids, _LOOKED_UP))):
            found |= {id for id, cosine in likeness.of(some).items() if cosine >= MEANT}
        return found

    def _with_turns(self, hits: set[int], identifiers: frozenset[str]) -> set[int]:
        """Return the ids of the whole turns whose user messages are among the hits, and of those that continue their
        topic."""
        turns = self._turns
        taken = {index for index, turn in enumerate(turns) if any(row.id in hits for row in turn if row.kind == "user")}
        if self._keep_going and taken:
            taken |= _neighbours(taken, turns, self._messages, identifiers)
        return {row.id for index in taken for row in turns[index]}


def _text(message: Event) -> str:
    """Return a message's own words, and the letters of its identifiers, so that `ticket` also matches ticket7."""
    own = unicodedata.normalize("NFKC", _own(message)[:LONGEST])
    letters = dict.fromkeys(_IDENTIFIER.findall(own))
    return f"{own} {' '.join(letters)}" if letters else own


def _own(message: Event) -> str:
    """Return the text of a message. A model's quotes are removed, because they are about other messages."""
    return _QUOTE.sub(" ", message.content) if message.kind == "assistant" else message_text(message)


def _related(term: QueryTerm) -> QueryTerm:
    """Return a term with the stems of related words."""
    if term.word is None or len(term.word) < 5:
        return term
    ending = next((each for each in _RELATED if term.word.endswith(each)), None)
    if ending is None:
        return term
    other = Phrase((term.word.removesuffix(ending) + _RELATED[ending],))
    return term._replace(phrases=(*term.phrases, other), word=None)


def _has_digits(term: Term) -> bool:
    return any(char.isdigit() for word in term.phrases[0].words for char in word)


def _identifiers(clause: Clause) -> frozenset[str]:
    return frozenset(word for term in clause.terms if _has_digits(term) for word in term.phrases[0].words)


def _messages_of(messages: Iterable[Event]) -> Iterable[Event]:
    return (message for message in messages if message.role not in (None, "system"))


def _neighbours(
    taken: set[int],
    turns: Sequence[Sequence[Candidate]],
    messages: Iterable[Event],
    identifiers: frozenset[str],
) -> set[int]:
    """Return the turns up to `REACH` away from those taken that share enough with the turn in between."""
    runs = list(_runs_beside(taken, len(turns)))
    compared = {index for run in runs for pair in run for index in pair}
    topics, silent_turns, holders = _topics(compared, turns, messages)
    joined: set[int] = set()
    for run in runs:
        for nearer, index in run:
            topic, before = topics[index], topics[nearer]
            if _names_another(topic, identifiers):
                break
            silent = index > nearer and not topic and index in silent_turns
            if not silent and not _are_alike(topic, before, holders, len(turns)):
                break
            joined.add(index)
    return joined


def _runs_beside(taken: set[int], number: int) -> Iterator[list[tuple[int, int]]]:
    """Yield, for each side of each taken turn, the turns up to `REACH` away and up to the next taken turn, as pairs:
    the neighbour on the way to it, and the turn."""
    for begin in taken:
        for step in (1, -1):
            away = range(begin + step, begin + step * (REACH + 1), step)
            free = takewhile(lambda index: index not in taken and 0 <= index < number, away)
            yield [(index - step, index) for index in free]


def _topics(
    compared: set[int], turns: Sequence[Sequence[Candidate]], messages: Iterable[Event]
) -> tuple[dict[int, frozenset[str]], set[int], Counter[str]]:
    """Return the topics of the compared turns, the silent turns, and the number of turns with each stem."""
    places = {_turn_of(turn[0]): index for index, turn in enumerate(turns)}
    topics: dict[int, frozenset[str]] = dict.fromkeys(compared, frozenset())
    silent: set[int] = set()
    holders: Counter[str] = Counter()
    for turn, group in groupby(_messages_of(messages), _turn_of):
        events, index = list(group), places[turn]
        topic = _topic(events)
        holders.update(topic)
        if index in compared:
            topics[index] |= topic
            silent.update([index] if _is_silent(events) else [])
    return topics, silent, holders


def _turn_of(message: Event | Candidate) -> int:
    return message.id if message.turn_id is None else message.turn_id


def _topic(turn: Sequence[Event]) -> frozenset[str]:
    """Return the significant stems of the user's and the model's texts. The words of tool results do not count, because
    neither the user nor the model chose them."""
    text = "\n".join(_own(row)[:LONGEST] for row in turn if row.kind in ("user", "assistant"))
    found = {*stems(text), *stems(parts_of(text))} - _PLAIN
    return frozenset(stem for stem in found if 1 < len(stem) <= 64)


def _names_another(topic: frozenset[str], identifiers: frozenset[str]) -> bool:
    """Return True if a turn names a sibling of an identifier (ticket8 instead of ticket7) but not the identifier
    itself."""
    kinds = {word.rstrip("0123456789") for word in identifiers} - {""}
    named = {word for word in topic if word[-1:].isdigit() and word.rstrip("0123456789") in kinds}
    return bool(named) and named.isdisjoint(identifiers)


def _is_silent(turn: Sequence[Event]) -> bool:
    """Return True if the user says nothing new in it."""
    texts = [words(row.content[:400]) for row in turn if row.kind == "user"]
    return bool(texts) and all(map(_is_filler, texts))


def _is_filler(found: Sequence[str]) -> bool:
    return bool(found) and all(word in FUNCTION or word in NODS or len(word) == 1 for word in found)


def _are_alike(some: frozenset[str], others: frozenset[str], holders: Mapping[str, int], turns: int) -> bool:
    shared = some & others
    lengths = [sum(rarity(holders[term], turns) ** 2 for term in each) for each in (shared, some, others)]
    return len(shared) > 1 and lengths[0] >= ALIKE * sqrt(lengths[1] * lengths[2]) > 0
