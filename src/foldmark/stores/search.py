"""Search the messages of a log in any database (see `foldmark.core.search.Index`)."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Protocol

import msgspec
from msgspec.structs import replace

from foldmark.core.codec import timestamp
from foldmark.core.search import Hit, IndexedMessage, SearchScope, Surroundings, TermQuery, is_unfound
from foldmark.core.segments import END
from foldmark.recall.searching import joined
from foldmark.stores.block import Reading
from foldmark.stores.rows import Row

_MORE = 4
"""Factor for the number of rows read at first: some are excluded, such as those of planning conversations."""

_BEGINNING = 2000


class MessageStatements(Protocol):
    """The statements of one search, which each database implements."""

    def _best(self, wanted: Sequence[TermQuery], most: int) -> Iterable[Row]:
        """Return the best messages for each query that pass all filters but the judge, at most `most`, best first: the
        index of the query, the message, its agent, its tool and its kind."""

    def _passing(self, ids: Sequence[int]) -> Iterable[Row]:
        """Return those of these messages that pass the same filters: the message, its agent, its tool and its kind."""

    def _around(self, ids: Sequence[int], reach: int) -> Iterable[Row]:
        """Return each of these messages and its neighbours: the index in `ids`, the message, its text (perhaps cut),
        its time, its agent and the name of the agent, its kind, its turn and its tool."""


class StoredIndex(MessageStatements):
    """One search's view of the log: the messages of `foldmark.core.search.LogIndex`. Each database derives its own."""

    def __init__(self, block: Reading, scope: SearchScope) -> None:
        self._block, self._scope = block, scope
        self._agents = None if scope.agents is None else frozenset(scope.agents)
        self._narrowed = scope._replace(judge=None) != SearchScope()
        filters = scope.filters
        self._filters = {
            "role": filters.role,
            "since": None if filters.since is None else timestamp(filters.since),
            "before": None if filters.before is None else timestamp(filters.before),
            "tool": None if filters.tool is None else filters.tool.lower(),
        }
        self._read: dict[int, Hit] = {}

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        most = _MORE * limit
        while True:
            rows = list(self._best(wanted, most))
            read, found = [0] * len(wanted), [list[int]() for _ in wanted]
            self._meet(row[2] for row in rows)
            for number, id, agent, tool, kind in rows:
                read[number] += 1
                if self._shows(agent, id) and self._is_findable(agent, id, tool, kind):
                    found[number].append(id)
            if all(len(ids) >= limit or number < most for ids, number in zip(found, read, strict=True)):
                return [id for ids in found for id in ids[:limit]]
            most = END

    def passing(self, ids: Sequence[int]) -> list[int]:
        rows = list(self._passing(ids))
        self._meet(row[1] for row in rows)
        return [
            id for id, agent, tool, kind in rows if self._shows(agent, id) and self._is_findable(agent, id, tool, kind)
        ]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        rows = sorted(self._around(ids, reach), key=itemgetter(0, 1))
        self._meet(row[4] for row in rows)
        found: dict[str, dict[int, list[IndexedMessage]]] = defaultdict(lambda: defaultdict(list))
        for place, id, text, at, agent, name, kind, turn, tool in rows:
            if self._is_findable(agent, id, tool, kind):
                self._read[id] = hit = Hit(id, agent, name, kind, turn, at, 0.0, "", tool=tool)
                # Damage can change the types of columns.
                found[agent][place].append(IndexedMessage(id, str(text), at, self._fits(hit)))
        return [run for lists in found.values() for run in joined(list(lists.values()))]

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        judge = self._scope.judge
        read = [self._read[id] for id in event_ids]
        return [replace(hit, visible=judge is not None and judge.shows(hit.agent_id, hit.event_id)) for hit in read]

    def surroundings(self, event_ids: Sequence[int], turns: int) -> list[Surroundings]:
        given = self._block.for_events(event_ids)
        rows = self._block.run("surroundings", **given, turns=turns, beginning=_BEGINNING, end=END)
        found = []
        for id, agent, name, kind, turn, at, tool, text, places in rows:
            hit = Hit(id, agent, name, kind, turn, at, 0.0, "", False, tool)
            (_, before), *behind = sorted((place, messages) for place, messages in msgspec.json.decode(places))
            # Damage can change the types of columns.
            found.append(Surroundings(hit, str(text or ""), before, behind))
        return found

    def _meet(self, agents: Iterable[str]) -> None:
        if self._scope.judge is not None:
            self._scope.judge.meet(agents)

    def _shows(self, agent: str, id: int) -> bool:
        """Return True if a message passes the visibility filter."""
        wanted, judge = self._scope.filters.visible, self._scope.judge
        return wanted is None or (judge is not None and judge.shows(agent, id)) == wanted

    def _is_findable(self, agent: str, id: int, tool: str | None, kind: str) -> bool:
        judge = self._scope.judge
        asked = kind == self._filters["role"]
        return not is_unfound(tool, None if asked else kind) and (judge is None or not judge.plans(agent, id))

    def _fits(self, message: Hit) -> bool:
        """Return True if a message passes the filters, like `passing`."""
        if not self._narrowed:
            return True
        filters = self._filters
        since, before, tool = filters["since"], filters["before"], filters["tool"]
        return (
            (self._agents is None or message.agent_id in self._agents)
            and filters["role"] in (None, message.kind)
            and (since is None or message.created_at >= since)
            and (before is None or message.created_at < before)
            and (tool is None or (message.tool is not None and _lower(message.tool) == tool))
            and self._shows(message.agent_id, message.event_id)
        )


def _lower(text: str) -> str:
    """Return the text with only ASCII letters lower-cased, as some databases do."""
    return text.encode().lower().decode()
