"""Search everything: messages of all conversations, memos, archived sessions of coding agents [SPEC 7]; and read a
message with its neighbours.

There is one ranking: the weight of a word is computed over everything, so that scores are comparable.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import NamedTuple

from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.agents import check_limit
from foldmark.core.codec import stored_time
from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Event
from foldmark.core.ports import Snapshot
from foldmark.core.records import Memo, MemosView
from foldmark.core.search import (
    ANY,
    ArchivedMessages,
    Excerpt,
    Filters,
    Hit,
    Index,
    IndexedMessage,
    Mode,
    PassageMessage,
    RankedMessage,
    SearchResult,
    Similarity,
    Term,
    TermQuery,
)
from foldmark.core.segments import contains
from foldmark.core.wording import one_line
from foldmark.log.log import Log
from foldmark.log.outlines import Neighbour, message, similarities
from foldmark.recall.query import read
from foldmark.recall.ranking import query_terms, terms_held
from foldmark.recall.searching import MOST_HITS, search
from foldmark.text.highlights import snippet, spans

MOST_MEMOS = 2000
"""Number of newest memos that are searched."""


class _Source(NamedTuple):
    messages: Index
    similarity: Similarity | None
    results: Callable[[Sequence[RankedMessage]], Iterable[SearchResult | None]]


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
    """Return the messages and memos of a log, and the messages of archived sessions, that match `query` best. Either
    source may be left out.

    Any text is a query, as in `Log.search`, which also explains `mode`; memos are found only by their words. Without
    `beside`, a question does not find messages that are merely next to a hit.

    Raises CommandError if `query` contains no word, or if there are no vectors in mode vector.
    """
    check_limit(limit, MOST_HITS)
    wanted = read(query)
    if not beside:
        wanted = wanted._replace(beside=False)
    in_log, in_archive = similarities(query, mode, (log, archive))
    # Opened only now: `similarities` may wait for a thread that reads vectors from the store.
    with log.store.read() if log else nullcontext() as moment:
        sources: list[_Source] = []
        if log is not None and moment is not None:
            messages, memos = log.index(moment, filters), MemoIndex(moment, filters)
            sources.append(_Source(messages, in_log, lambda found: map(_message, log.hits(messages, wanted, found))))
            sources.append(_Source(memos, None, memos.results))
        if archive is not None:
            sources.append(_Source(archive, in_archive, archive.results))
        indexes, alike = [each.messages for each in sources], [each.similarity for each in sources]
        places = search(wanted, limit, indexes, alike, by_words=mode != "vector")
        results: dict[RankedMessage, SearchResult | None] = {}
        for number, source in enumerate(sources):
            own = [place for place in places if place.source == number]
            results |= zip(own, source.results(own), strict=True)
        found = []
        for place in places:
            if (each := results[place]) is not None:
                line = each.snippet or snippet(place.text or each.tool or "", wanted.terms)
                marks = each.highlights or tuple(spans(line, wanted.terms))
                found.append(
                    replace(each, all_words=place.every, score=place.displayed_score, snippet=line, highlights=marks)
                )
        return found


class MemoIndex:
    """The memos of a database; there are few, so all of them are read."""

    def __init__(self, moment: MemosView, filters: Filters) -> None:
        nobody = filters.agent or filters.project or filters.role or filters.tool or filters.visible is not None
        memos = [] if nobody else moment.memos(MOST_MEMOS)
        self.memos = {memo.id: memo for memo in memos if _in_time(memo, filters)}
        self._texts = {
            id: IndexedMessage(id, f"{memo.content}\n{' '.join(memo.tags)}") for id, memo in self.memos.items()
        }
        self._held: dict[Term, set[int]] = {}

    def results(self, places: Sequence[RankedMessage]) -> list[SearchResult]:
        """Return the memos at these places, in the same order."""
        found = (self.memos[place.id] for place in places)
        return [
            SearchResult("memo", str(memo.id), ", ".join(memo.tags), "memo", None, memo.created_at, False, 0.0, "")
            for memo in found
        ]

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
            self._held[term] = {id for id, text in self._texts.items() if terms_held(text, weighed)}
        return self._held[term]

    def passing(self, ids: Sequence[int]) -> list[int]:
        return [id for id in ids if id in self._texts]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        return [[self._texts[id]] for id in ids]


def _in_time(memo: Memo, filters: Filters) -> bool:
    at = stored_time(memo.created_at)
    return (filters.since is None or at >= filters.since) and (filters.before is None or at < filters.before)


def _message(hit: Hit) -> SearchResult:
    name = hit.agent_name or hit.agent_id[:8]
    found = SearchResult(
        "conversation", hit.agent_id, name, hit.kind, hit.tool, hit.created_at, False, 0.0, hit.snippet
    )
    return replace(found, highlights=hit.highlights, event_id=hit.event_id, visible=hit.visible)


_NUMBER = re.compile("[0-9]{1,18}")
_PLACE = re.compile(r"(.*):([0-9]{1,18})", re.DOTALL)


def message_named(log: Log, named: str) -> int | None:
    """Return the message named by EVENT_ID or NAME:EVENT_ID, NAME as in `Log.find`; None if the text may name something
    else. Raises CommandError for a message that is not in the named conversation."""
    with log.store.read() as moment:
        if _NUMBER.fullmatch(named):
            event = selections.event(moment, int(named))
            return event.id if event is not None and event.kind in ROLES else None
        match = _PLACE.fullmatch(named)
        if match is None:
            return None
        try:
            agent = log.find(match[1])
        except CommandError:
            return None
        event = selections.event(moment, int(match[2]))
        if event is not None and contains(agent.standing_in(moment).lineage, event.agent_id, event.id):
            return message(moment, event.id).id
        owner = _owner_note(moment, event)
    raise CommandError(f"there is no message {match[2]} in {agent.name or agent.id[:8]}{owner}")


def message_excerpt(log: Log, event_id: int, reach: int) -> Excerpt:
    """Return a message with its neighbours. Raises CommandError."""
    with log.store.read() as moment:
        found = log.around(event_id, reach)
        record = moment.agent(found[0].event.agent_id)
        assert record is not None
        name = f"conversation '{record.name}', " if record.name else ""
        return Excerpt(f"{name}agent {record.id[:8]}", tuple(_line(moment, each, event_id) for each in found))


def _line(moment: Snapshot, neighbour: Neighbour, wanted: int) -> PassageMessage:
    event, note = neighbour.event, "" if neighbour.visible else "out"
    if event.erased_by and (by := selections.event(moment, event.erased_by)):
        note = f"erased by a {by.actor} on {by.created_at[:10]}"
    call = selections.event(moment, event.answers) if event.kind == "tool_result" and event.answers else event
    tool = (call.data or {}).get("name") if call and event.kind in ("tool_call", "tool_result") else None
    tool, text = tool if isinstance(tool, str) else None, event.content or _without_text(event)
    place = f"message {event.id}", str(event.id)
    return PassageMessage(*place, event.kind, tool, event.created_at, text, event.id == wanted, note)


def _without_text(event: Event) -> str:
    """Return a substitute for the text of a message without one: the types of its blocks, which may be any values."""
    blocks = (event.data or {}).get("blocks")
    kinds = [each.get("type") for each in blocks if isinstance(each, dict)] if isinstance(blocks, list) else []
    return ", ".join(f"[{kind}]" for kind in kinds)


def _owner_note(moment: Snapshot, event: Event | None) -> str:
    record = moment.agent(event.agent_id) if event else None
    return f"; it belongs to {one_line(record.name or record.id[:8])}" if record else ""
