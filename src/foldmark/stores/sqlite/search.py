"""The messages of a log in SQLite, to be searched (see `foldmark.core.recall.Index`)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

import apsw

from foldmark.core.codec import timestamp
from foldmark.core.errors import StoreError
from foldmark.core.recall import Said, Scope, Term, Wanted, is_unfound
from foldmark.recall.fts5 import COUNTED, expression, extrapolated
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.runs import joined
from foldmark.stores.queries import listed

Rows = Callable[[], list[tuple[Any, ...]]]
"""Runs a query."""

Run = Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]
"""Runs the query of a name with what is bound to it."""

_ALL = -1

_LOOKED_UP = 200
"""Messages that are looked up at a time."""


class SqliteIndex:
    """One search's view of the log."""

    def __init__(self, run: Run, id_of: Callable[[int], str], scope: Scope, keys: Sequence[int] | None) -> None:
        """`keys` are those of the scope's agents."""
        self._run, self._id_of, self._fits, self._aside = run, id_of, scope.fits, scope.aside
        filters = scope.filters
        self._filters = None
        if scope._replace(aside=None) != Scope():
            self._filters = {
                "agents": None if keys is None else listed(keys),
                "role": filters.role,
                "since": None if filters.since is None else timestamp(filters.since),
                "before": None if filters.before is None else timestamp(filters.before),
                "tool": None if filters.tool is None else filters.tool.lower(),
            }

    def indexed(self) -> int:
        return int(self._run("indexed", {})[0][0])

    def frequency(self, term: Term) -> int:
        return extrapolated(*self._run("counted", {"expression": expression("any", [term]), "most": COUNTED})[0])

    def best(self, wanted: Wanted, terms: Sequence[Term], limit: int, share: float = 1.0) -> list[int]:
        first = 0 if share >= 1 else self._run("part", {"share": share})[0][0]
        asked = {"expression": expression(wanted, terms), "first": first}
        most = limit if self._fits is None else _ALL
        while True:
            if self._filters is None:
                rows = self._run("best", {**asked, "most": most})
            else:
                rows = self._run("best_fitting", {**asked, **self._filters, "most": most})
            found = list(islice(self._findable(self._fitting(rows)), limit))
            if len(found) == limit or most == _ALL or len(rows) < most:
                return found
            most *= 4

    def passing(self, ids: Sequence[int]) -> list[int]:
        if self._filters is None:
            return list(self._findable(ids))
        rows = self._run("passing", {"ids": listed(ids), **self._filters})
        return list(self._findable(self._fitting(rows)))

    def _fitting(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[int]:
        """The ids of those rows, (id, agent's key), that the scope lets through."""
        return (row[0] for row in rows if self._fits is None or self._fits(self._id_of(row[1]), row[0]))

    def _findable(self, ids: Iterable[int]) -> Iterator[int]:
        """Those of these messages that may be found at all, looked up some at a time."""
        rest = iter(ids)
        while some := list(islice(rest, _LOOKED_UP)):
            for id, key, tool in self._run("whose", {"ids": listed(some)}):
                if self._is_findable(id, key, tool):
                    yield id

    def _is_findable(self, id: int, key: int, tool: str | None) -> bool:
        return not is_unfound(tool) and (self._aside is None or not self._aside(self._id_of(key), id))

    def around(self, ids: Sequence[int], reach: int) -> list[list[Said]]:
        bound = {"ids": listed(ids), "reach": reach, "whole": LONGEST, "cut": NEIGHBOUR}
        found: dict[int, dict[int, list[Said]]] = defaultdict(lambda: defaultdict(list))
        for place, id, agent, text, at, tool in sorted(self._run("around", bound), key=itemgetter(0, 1)):
            if self._is_findable(id, agent, tool):  # damage can change the types of columns
                found[agent][place].append(Said(id, str(text), str(at)))
        runs = [run for lists in found.values() for run in joined(list(lists.values()))]
        if self._filters is None:
            return runs
        fitting = set(self.passing([said.id for run in runs for said in run]))
        return [[said._replace(fits=said.id in fitting) for said in run] for run in runs]


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
