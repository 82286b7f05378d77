"""The messages of a log in SQLite, to be searched (see `foldmark.core.recall.Index`)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import apsw
import msgspec

from foldmark.core.codec import timestamp
from foldmark.core.errors import StoreError
from foldmark.core.ports import Hit
from foldmark.core.recall import Said, Scope, Term, Wanted, is_unfound
from foldmark.core.segments import END
from foldmark.recall.fts5 import COUNTED, expression, extrapolated, holding
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.runs import joined
from foldmark.stores.queries import listed

Rows = Callable[[], list[tuple[Any, ...]]]
"""Runs a query."""

Run = Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]
"""Runs the query of a name with what is bound to it."""

_MORE = 4
"""How many times as many are read at first as are wanted: some are left out, as those of planning conversations are."""


class _Message(NamedTuple):
    """A message that was read, without its text."""

    at: str
    agent: str
    name: str | None
    kind: str
    turn: int | None
    tool: str | None


class SqliteIndex:
    """One search's view of the log: the messages of `foldmark.core.ports.LogIndex`."""

    def __init__(self, run: Run, scope: Scope, keys: Sequence[int] | None) -> None:
        """`keys` are those of the scope's agents."""
        self._run, self._scope = run, scope
        self._agents = None if scope.agents is None else frozenset(scope.agents)
        filters = scope.filters
        self._narrowed = scope._replace(judge=None) != Scope()
        self._filters = {
            "agents": None if keys is None else listed(keys),
            "role": filters.role,
            "since": None if filters.since is None else timestamp(filters.since),
            "before": None if filters.before is None else timestamp(filters.before),
            "tool": None if filters.tool is None else filters.tool.lower(),
        }
        self._read: dict[int, _Message] = {}

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        rows = self._run("counted", {"wanted": listed(map(holding, terms)), "most": COUNTED})
        counts = [(msgspec.json.decode(counted, type=tuple[int, int | None]), newest) for counted, newest, _ in rows]
        found = [extrapolated(held, last, newest) for (held, last), newest in counts]
        return rows[0][2] if rows else 0, found

    def best(self, wanted: Sequence[Wanted], limit: int) -> list[int]:
        asked = {"wanted": listed((expression(each), each.share) for each in wanted)}
        most = _MORE * limit
        while True:
            if self._narrowed:
                rows = self._run("best_fitting", {**asked, **self._filters, "most": most})
            else:
                rows = self._run("best", {**asked, "most": most})
            read, found = [0] * len(wanted), [list[int]() for _ in wanted]
            self._meet(row[2] for row in rows)
            for number, id, agent, tool in rows:
                read[number] += 1
                if self._shows(agent, id) and self._is_findable(agent, id, tool):
                    found[number].append(id)
            if all(len(ids) >= limit or number < most for ids, number in zip(found, read, strict=True)):
                return [id for ids in found for id in ids[:limit]]
            most = END

    def passing(self, ids: Sequence[int]) -> list[int]:
        rows = self._run("passing", {"ids": listed(ids), **self._filters})
        self._meet(row[1] for row in rows)
        return [id for id, agent, tool in rows if self._shows(agent, id) and self._is_findable(agent, id, tool)]

    def around(self, ids: Sequence[int], reach: int) -> list[list[Said]]:
        bound = {"ids": listed(ids), "reach": reach, "whole": LONGEST, "cut": NEIGHBOUR}
        rows = sorted(self._run("around", bound), key=itemgetter(0, 1))
        self._meet(row[4] for row in rows)
        found: dict[str, dict[int, list[Said]]] = defaultdict(lambda: defaultdict(list))
        for place, id, text, *columns in rows:
            message = _Message(*columns)
            if self._is_findable(message.agent, id, message.tool):
                self._read[id] = message
                # Damage can change the types of columns.
                found[message.agent][place].append(Said(id, str(text), message.at, self._fits(id, message)))
        return [run for lists in found.values() for run in joined(list(lists.values()))]

    def hits(self, event_ids: Sequence[int]) -> list[Hit]:
        judge = self._scope.judge
        return [
            Hit(id, agent, name, kind, turn, at, 0.0, "", judge is not None and judge.shows(agent, id), tool)
            for id in event_ids
            for at, agent, name, kind, turn, tool in [self._read[id]]
        ]

    def _meet(self, agents: Iterable[str]) -> None:
        if self._scope.judge is not None:
            self._scope.judge.meet(agents)

    def _shows(self, agent: str, id: int) -> bool:
        """Whether a message fits the filter of what is visible."""
        wanted, judge = self._scope.filters.visible, self._scope.judge
        return wanted is None or (judge is not None and judge.shows(agent, id)) == wanted

    def _is_findable(self, agent: str, id: int, tool: str | None) -> bool:
        judge = self._scope.judge
        return not is_unfound(tool) and (judge is None or not judge.plans(agent, id))

    def _fits(self, id: int, message: _Message) -> bool:
        """Whether a message fits the filters, as `passing` has it."""
        if not self._narrowed:
            return True
        filters = self._filters
        since, before, tool = filters["since"], filters["before"], filters["tool"]
        return (
            (self._agents is None or message.agent in self._agents)
            and filters["role"] in (None, message.kind)
            and (since is None or message.at >= since)
            and (before is None or message.at < before)
            and (tool is None or (message.tool is not None and _lower(message.tool) == tool))
            and self._shows(message.agent, id)
        )


def _lower(text: str) -> str:
    """The text as SQLite's `lower` gives it, which knows no capital letters but those of ASCII."""
    return text.encode().lower().decode()


def damage(rows: Rows, check: Rows, *, writable: bool) -> Iterator[str]:
    """What is wrong with the index, given the queries `wrong_index_rows` and `wrong_index`, which needs a file that
    can be written to."""
    rebuild = "any SQLite shell rebuilds it: INSERT INTO search (search) VALUES ('rebuild')"
    ((missing, surplus),) = rows()
    if missing or surplus:
        yield f"search: {missing} messages are not in the index, {surplus} of its rows are no messages; {rebuild}"
    elif writable:
        try:
            check()
        except StoreError as error:
            if not isinstance(error.__cause__, apsw.CorruptError):
                raise
            yield f"search: the index holds other words than the messages; {rebuild}"
