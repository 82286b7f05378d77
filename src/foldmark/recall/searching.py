"""One search in several indexes: what comes into question, read and ranked together [SPEC 7].

The words of a query differ in what they cost: one that stands in every tenth message of a million brings so many that
weighing each would take seconds. So the rare ones decide what comes into question, as many as stay within `BUDGET`
messages, besides what holds all of them; what the common ones add shows when those texts are ranked. A word that alone
goes beyond it is looked for in the newest part of an index.
"""

from collections.abc import Mapping, Sequence

from foldmark.core.recall import Index, Place, Term
from foldmark.recall.query import Query
from foldmark.recall.ranking import REACH, asked, scored

BUDGET = 10_000
"""Messages of one index that the words of a query may bring into question."""

ALL = 3
"""How many times as many there may be of the rarest word where all words are to stand together."""

FIRST, MOST = 30, 4000
"""Messages of one index that are read and ranked: at first, and at most where words in quotes rule many out."""


def search(query: Query, limit: int, indexes: Sequence[Index]) -> list[Place]:
    """The best `limit` messages of all indexes, the best first: those with every term before those with some."""
    held = [{term: index.frequency(term) for term in query.terms} for index in indexes]
    total = {term: sum(each[term] for each in held) for term in query.terms}
    weighed = asked(query.terms, query.idle, total, sum(index.indexed() for index in indexes))
    found = []
    for number, index in enumerate(indexes):
        there = [term for term in query.terms if held[number][term]]
        most = max(FIRST, 2 * limit)
        while there:
            ids = _candidates(index, query.terms, there, held[number], most)
            runs = index.around(ids, REACH)
            places = [
                Place(number, said.id, score, own == len(query.terms), said.text)
                for said, score, own in scored(runs, weighed, question=query.question)
            ]
            if len(places) >= limit or len(ids) < most or most > MOST:
                found += places
                break
            most *= 4
    return sorted(found, key=lambda place: (not place.every, -place.score, -place.id))[:limit]


def _candidates(
    index: Index, terms: Sequence[Term], there: Sequence[Term], held: Mapping[Term, int], most: int
) -> list[int]:
    """Ids of what comes into question, each once: what holds all terms, then what holds the rare ones."""
    found: list[int] = []
    if len(terms) > 1 and len(there) == len(terms):
        found += index.best("all", terms, most, min(1.0, ALL * BUDGET / min(held[term] for term in terms)))
    rare = sorted(there, key=lambda term: held[term])
    within = [term for at, term in enumerate(rare) if sum(held[each] for each in rare[: at + 1]) <= BUDGET] or rare[:1]
    found += index.best("any", within, most, min(1.0, BUDGET / held[within[0]]))
    return list(dict.fromkeys(found))
