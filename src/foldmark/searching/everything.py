"""Search everything: messages of all conversations, memos, archived sessions of coding agents [SPEC 7].

There is one ranking: the weight of a word is computed over everything, so that scores can be compared.
"""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext

from msgspec.structs import replace

from foldmark.core.codec import stored_time
from foldmark.core.memos import Memo, MemosView
from foldmark.core.ports import Hit
from foldmark.core.search import (
    ANY,
    ArchivedMessages,
    Filters,
    Index,
    IndexedMessage,
    Mode,
    RankedMessage,
    SearchResult,
    Term,
    TermQuery,
)
from foldmark.log.log import Log
from foldmark.log.similarity import similarities
from foldmark.recall.highlights import snippet, spans
from foldmark.recall.query import read
from foldmark.recall.ranking import query_terms, terms_held
from foldmark.recall.searching import check_limit, search

MOST_MEMOS = 2000
"""Number of newest memos that are searched."""


def search_everything(
    query: str,
    limit: int = 10,
    filters: Filters = ANY,
    *,
    log: Log | None = None,
    archive: ArchivedMessages | None = None,
    mode: Mode = "auto",
    beside: bool = True,
) -> list[SearchResult]:
    """Return the messages and memos that match `query` best, of a log and of archived sessions, as far as given.

    Any text is a query, as in `Log.search`, which also explains `mode`; memos are found by their words alone. Without
    `beside`, a question does not find messages that only stand next to a hit.

    Raises CommandError if there is no word in it, or no vector in mode vector.
    """
    check_limit(limit)
    wanted = read(query)
    if not beside:
        wanted = wanted._replace(beside=False)
    meant = similarities(query, mode, (log, None, archive))
    # Only now: `similarities` may wait for a thread that reads vectors from the store.
    with log.store.read() if log else nullcontext() as moment:
        memos = MemoIndex(moment, filters) if moment else None
        messages = log.index(moment, filters) if log and moment else None
        sources = (messages, memos, archive)
        indexes: list[Index] = [each for each in sources if each is not None]
        alike = [each for each, source in zip(meant, sources, strict=True) if source is not None]
        places = search(wanted, limit, indexes, alike, by_words=mode != "vector")
        told: dict[RankedMessage, SearchResult | None] = {}
        for number, index in enumerate(indexes):
            there = [place for place in places if place.source == number]
            if index is archive:
                told |= zip(there, archive.told(there), strict=True)
            elif index is memos:
                told |= {place: _memo(memos.memos[place.id]) for place in there}
            elif log is not None and messages is not None:
                told |= {
                    place: _message(hit) for place, hit in zip(there, log.hits(messages, wanted, there), strict=True)
                }
        found = []
        for place in places:
            if (each := told[place]) is not None:
                line = each.snippet or snippet(place.text or each.tool or "", wanted.terms)
                marks = each.highlights or tuple(spans(line, wanted.terms))
                found.append(
                    replace(each, all_words=place.every, score=place.told_score, snippet=line, highlights=marks)
                )
        return found


class MemoIndex:
    """The memos of a database; there are few, so all are read."""

    def __init__(self, moment: MemosView, filters: Filters) -> None:
        nobody = filters.agent or filters.project or filters.role or filters.tool or filters.visible is not None
        memos = [] if nobody else moment.memos(MOST_MEMOS)
        self.memos = {memo.id: memo for memo in memos if _said_then(memo, filters)}
        self._said = {
            id: IndexedMessage(id, f"{memo.content}\n{' '.join(memo.tags)}") for id, memo in self.memos.items()
        }
        self._held: dict[Term, set[int]] = {}

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        return len(self.memos), [len(self._holding(term)) for term in terms]

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        return [id for each in wanted for id in self._best(each)[:limit]]

    def _best(self, wanted: TermQuery) -> list[int]:
        fits = set.intersection if wanted.how == "all" else set.union
        weights: dict[int, float] = defaultdict(float)
        for ids in (holding := [self._holding(term) for term in wanted.terms]):
            for id in ids:
                weights[id] += 1 / len(ids)
        return sorted(fits(*holding), key=lambda each: (-weights[each], -each))

    def _holding(self, term: Term) -> set[int]:
        if term not in self._held:
            weighed = query_terms([term], (), {term: 0}, 0)
            self._held[term] = {id for id, said in self._said.items() if terms_held(said, weighed)}
        return self._held[term]

    def passing(self, ids: Sequence[int]) -> list[int]:
        return [id for id in ids if id in self._said]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        return [[self._said[id]] for id in ids]


def _said_then(memo: Memo, filters: Filters) -> bool:
    at = stored_time(memo.created_at)
    return (filters.since is None or at >= filters.since) and (filters.before is None or at < filters.before)


def _memo(memo: Memo) -> SearchResult:
    return SearchResult("memo", str(memo.id), ", ".join(memo.tags), "memo", None, memo.created_at, False, 0.0, "")


def _message(hit: Hit) -> SearchResult:
    name = hit.agent_name or hit.agent_id[:8]
    told = SearchResult("conversation", hit.agent_id, name, hit.kind, hit.tool, hit.created_at, False, 0.0, hit.snippet)
    return replace(told, highlights=hit.highlights, event_id=hit.event_id, visible=hit.visible)
