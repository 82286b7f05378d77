"""One search in several indexes: candidates, read and ranked together [SPEC 7].

The words of a query differ in cost. A word in every tenth message of a million selects so many messages that weighing
each would take seconds. Therefore the candidates are the messages with all words, and the messages with any of the
rarest words, for as many words as stay within `BUDGET` messages. The common words count when the candidates are ranked.
A word that alone exceeds the budget is searched in the newest part of an index.

An FTS5 index has the columns `text` and `parts` (`text.tokens.parts_of`) and the tokenizer `text.tokens.PORTER`. It
belongs to the log or to the archive.
"""

from collections.abc import Iterator, Mapping, Sequence

from foldmark.core.search import Index, IndexedMessage, Phrase, RankedMessage, Similarity, Term, TermQuery
from foldmark.recall.query import Query
from foldmark.recall.ranking import REACH, QueryTerm, Scored, query_terms, scored

COUNTED = 20_000
"""Maximum number of messages that are counted; the total is extrapolated."""

_JOINED = {"all": " AND ", "any": " OR "}


def expression(wanted: TermQuery) -> str:
    """Return the FTS5 expression for all or any of the terms."""
    return _JOINED[wanted.how].join(map(holding, wanted.terms))


def holding(term: Term) -> str:
    """Return the FTS5 expression for messages that hold a term."""
    return f"({' OR '.join(map(_quoted, term.phrases))})"


def extrapolated(counted: int, reached: int | None, newest: int | None) -> int:
    """Return the estimated total, given the number `counted` up to the id `reached`, and the `newest` id."""
    if counted < COUNTED or not reached or not newest:
        return counted
    return counted * max(newest, reached) // reached


def _quoted(phrase: Phrase) -> str:
    return '"' + " ".join(phrase.words).replace('"', '""') + '"' + (" *" if phrase.prefix else "")


def joined(lists: Sequence[Sequence[IndexedMessage]]) -> Iterator[list[IndexedMessage]]:
    """Yield lists of neighbours, each in the order of the conversation, merged into runs: overlapping lists become one
    run, which keeps the longest text of each message."""
    run: dict[int, IndexedMessage] = {}
    for each in sorted(filter(None, lists), key=lambda message: message[0].id):
        if run and each[0].id not in run:
            yield list(run.values())
            run = {}
        for message in each:
            if message.id not in run or len(message.text) > len(run[message.id].text):
                run[message.id] = message
    if run:
        yield list(run.values())


MOST_HITS = 1000
"""Maximum number of results of one search."""

BUDGET = 10_000
"""Maximum number of candidates in one index that the words of a query may select."""

ALL = 3
"""Factor of the budget for the rarest word if all words must occur together."""

FIRST, MOST = 30, 4000
"""Number of messages of one index that are read and ranked: at first, and at most if words in quotes exclude many."""

NEAREST = 100
"""Number of candidates in one index selected by their meaning."""

MEANING = 1.1
"""Weight of similarity in meaning relative to the score by words, which is 1 for the best message by words."""


def search(
    query: Query,
    limit: int,
    indexes: Sequence[Index],
    alike: Sequence[Similarity | None] = (),
    *,
    by_words: bool = True,
) -> list[RankedMessage]:
    """Return the best `limit` messages of all indexes, the best first: those with every term before those with some.

    `alike` is the similarity for each index, None if it has no vectors; without `by_words` only that counts.
    """
    counted = [index.counted(query.terms) for index in indexes]
    holders = [dict(zip(query.terms, each, strict=True)) for _, each in counted]
    total = {term: sum(each[term] for each in holders) for term in query.terms}
    weighed = query_terms(query.terms, query.idle, total, sum(messages for messages, _ in counted))
    found = []
    for number, index in enumerate(indexes):
        meaning = alike[number] if alike else None
        read = _read(index, query, weighed, holders[number], limit, meaning, by_words)
        cosines = _similarities(meaning, read) if meaning else {}
        usual = sum(cosines.values()) / max(1, len(cosines))
        found += [(number, each, cosines.get(each.said.id, usual)) for each in read]
    # If no message contains a significant word, scores by words mean nothing.
    best = max((each.score for _, each, _ in found if each.held), default=0.0) or float("inf")
    places = [
        RankedMessage(number, message.id, score / best * by_words + MEANING * cosine * tells, every, message.text)
        for number, (message, score, own, tells), cosine in found
        for every in (by_words and own == len(query.terms),)
    ]
    return sorted(places, key=lambda place: (not place.every, -place.score, -place.id))[:limit]


def _similarities(meaning: Similarity, read: Sequence[Scored]) -> dict[int, float]:
    """Return the similarities of those messages that have vectors. That others have none says nothing against them:
    they count like the usual one of these."""
    return {id: max(0.0, cosine) for id, cosine in meaning.of([each.said.id for each in read]).items()}


def _read(
    index: Index,
    query: Query,
    weighed: Sequence[QueryTerm],
    holders: Mapping[Term, int],
    limit: int,
    meaning: Similarity | None,
    by_words: bool,
) -> list[Scored]:
    """Read the candidates of an index, and return them scored by their words."""
    present = [term for term in query.terms if holders[term]] if by_words else []
    near = index.passing(meaning.nearest(max(NEAREST, limit))) if meaning else []
    most = max(FIRST, 2 * limit)
    while True:
        ids = _candidates(index, query.terms, present, holders, most) if present else []
        runs = index.around(ids, REACH) if ids else []
        known = {message.id for run in runs for message in run}
        runs += index.around([id for id in near if id not in known], 0) if near else []
        read = scored(
            runs, weighed, question=query.question, timed=query.timed, beside=query.beside, everything=bool(near)
        )
        if len(read) >= limit or len(ids) < most or most > MOST:
            return read
        most *= 4


def _candidates(
    index: Index, terms: Sequence[Term], present: Sequence[Term], counts: Mapping[Term, int], most: int
) -> list[int]:
    """Return the distinct ids of the candidates: messages with all terms, then those with the rare ones and, if these
    are not enough, those with the least common of the others."""
    wanted = []
    rare = sorted(present, key=lambda term: counts[term])
    if len(terms) > 1 and len(present) == len(terms):
        wanted.append(TermQuery("all", terms, min(1.0, ALL * BUDGET / counts[rare[0]])))
    within = [term for at, term in enumerate(rare) if sum(counts[w] for w in rare[: at + 1]) <= BUDGET] or rare[:1]
    wanted.append(TermQuery("any", within, min(1.0, BUDGET / counts[within[0]])))
    common = [TermQuery("any", [term], min(1.0, BUDGET / counts[term])) for term in rare if term not in within][:1]
    # If the rare terms cannot select enough messages, all terms are searched together.
    together = counts[rare[0]] + sum(counts[term] for term in within) < most
    found = index.best([*wanted, *common] if together else wanted, most)
    if common and not together and len(found) < most:
        found += index.best(common, most)
    return list(dict.fromkeys(found))
