"""The local matcher: decide which messages a criterion is about, without a model [SPEC 4.2].

It reads words as search does (the same terms, stems and weights, and vectors if there are any) and is deterministic.
Search ranks messages; the matcher decides: a message matches if it reaches a threshold. Turns beside a match do not
match for that: on real sessions, this took more other messages along than it found (`benchmarks/filter_matching.py`).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from foldmark.core.events import Event
from foldmark.core.search import Phrase, Similarity, Term
from foldmark.recall.criteria import Clause, parse_criteria
from foldmark.recall.numbered import Name, holds, names_in
from foldmark.recall.ranking import LONGEST, QueryTerm, occurrences, query_terms, rarity
from foldmark.text.selection import Candidate, by_turn, candidate, message_text

ASKED, OTHER = 0.3, 0.6
"""The share of a clause's terms, by weight, that a user's message must contain, and the share for any other message."""

LONG = 120
"""Number of words up to which one occurrence suffices; a longer message needs proportionally more. A name with a number
suffices in a user's message of any length."""

MEANT = 0.3
"""Minimum similarity in meaning of a user's message that matches without any word of the clause."""

_LOOKED_UP = 500
"""Number of messages whose vectors are read at a time."""

_QUOTE = re.compile("“[^“”]{0,500}”")
_IDENTIFIER = re.compile(r"(?<![^\W_])([^\W\d_]{2,})[0-9]+(?![^\W_])")
_RELATED = {"i": "y", "y": "i", "is": "id", "id": "is", "us": "ud", "ud": "us"}
"""Endings in which Porter's stems of related words differ: deployed, deployment; decided, decision."""

Alike = Callable[[str], Similarity | None]
"""Returns the similarity of messages to a text; None without vectors."""


def match(criteria: str, messages: Iterable[Event], *, alike: Alike | None = None) -> tuple[int, ...]:
    """Return the ids of the messages, among those given in order, that `criteria` is about; in the order given.

    Clauses joined by commas, "and" or "or" match separately; messages about the part after "except" or "but not" are
    left out; "messages 45-67" are ids. A word that fewer messages contain weighs more. A word with digits ("ticket7")
    is searched for whole, and so is a number with the word beside it ("ticket 3"); a message without it does not match.
    With `alike`, messages close in meaning match as well. If a user message matches, its whole turn matches. Any other
    message matches alone. `system` messages never match.

    Raises CommandError if the criterion contains no word to search for.
    """
    asked_for = parse_criteria(criteria)
    matcher = _Matcher(messages, (*asked_for.clauses, *asked_for.unwanted), alike)
    chosen = matcher.chosen(asked_for.clauses) if asked_for.clauses else {row.id for row in matcher.rows}
    chosen -= matcher.chosen(asked_for.unwanted)
    return tuple(row.id for row in matcher.rows if row.id in chosen)


class _Matcher:
    """The messages that the clauses of a criterion are compared with; each is read once for all of them.

    `rows` are the messages without their texts; for the terms only their occurrences are kept, by position.
    """

    def __init__(self, messages: Iterable[Event], clauses: Sequence[Clause], alike: Alike | None) -> None:
        self._alike = alike
        every = list(dict.fromkeys(term for clause in clauses for term in clause.terms))
        self._place = {term: place for place, term in enumerate(every)}
        looked_for = [_related(each) for each in query_terms(every, (), dict.fromkeys(every, 0), 0)]
        self.rows: list[Candidate] = []
        self._occurrences: dict[int, tuple[Sequence[int], int]] = {}
        self._names: dict[int, list[Name]] = {}
        named = any(clause.names for clause in clauses)
        for message in _messages_of(messages):
            if every:
                counts, length = occurrences(_text(message), looked_for)
                if any(counts):
                    self._occurrences[len(self.rows)] = counts, length
                    if named:
                        self._names[len(self.rows)] = names_in(_own(message)[:LONGEST])
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
                chosen |= self._with_turns(self._hits(clause))
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
            if clause.names and not all(holds(self._names[at], list(names)) for names in clause.names):
                continue
            if named and not clause.names and not any(counts[place] for place in named):
                continue
            needed = 1.0 if clause.names and row.kind == "user" else max(1.0, length / LONG)
            # A number may be part of a longer word there ("ticket3"), or of a range.
            times = [counts[place] or int(bool(clause.names) and place in named) for place in places]
            found = (w * min(1.0, number / needed) for w, number in zip(weights, times, strict=True))
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

    def _with_turns(self, hits: set[int]) -> set[int]:
        """Return the ids of the hits, and of the whole turns whose user messages are among them."""
        asked = [turn for turn in self._turns if any(row.id in hits for row in turn if row.kind == "user")]
        return hits | {row.id for turn in asked for row in turn}


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


def _messages_of(messages: Iterable[Event]) -> Iterable[Event]:
    return (message for message in messages if message.role not in (None, "system"))
