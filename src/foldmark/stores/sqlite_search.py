"""The messages of a log in SQLite, to be searched (see `foldmark.core.recall.Index`)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import apsw
from msgspec import json

from foldmark.core.codec import timestamp
from foldmark.core.errors import StoreError
from foldmark.core.recall import Said, Scope, Term, Wanted
from foldmark.recall.fts5 import COUNTED, expression, extrapolated
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.runs import joined

Rows = Callable[[], list[tuple[Any, ...]]]
"""Runs a query."""

Run = Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]
"""Runs the query of a name with what is bound to it."""

_ALL = -1


class SqliteIndex:
    """One search's view of the log."""

    def __init__(self, run: Run, id_of: Callable[[int], str], scope: Scope, keys: Sequence[int] | None) -> None:
        """`keys` are those of the scope's agents."""
        self._run, self._id_of, self._fits = run, id_of, scope.fits
        filters = scope.filters
        self._filters = None
        if scope != Scope():
            self._filters = {
                "agents": None if keys is None else json.encode(keys).decode(),
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
        if self._filters is None:
            return [id for (id,) in self._run("best", {**asked, "most": limit})]
        most = limit if self._fits is None else _ALL
        rows = self._run("best_fitting", {**asked, **self._filters, "most": most})
        fitting = (id for id, key in rows if self._fits is None or self._fits(self._id_of(key), id))
        return list(islice(fitting, limit))

    def passing(self, ids: Sequence[int]) -> list[int]:
        if self._filters is None:
            return list(ids)
        rows = self._run("passing", {"ids": json.encode(ids).decode(), **self._filters})
        return [id for id, key in rows if self._fits is None or self._fits(self._id_of(key), id)]

    def around(self, ids: Sequence[int], reach: int) -> list[list[Said]]:
        found: dict[int, list[list[Said]]] = defaultdict(list)
        for id in ids:
            ((agent,),) = self._run("agent_of", {"id": id})
            bound = {"id": id, "agent": agent, "reach": reach, "whole": LONGEST, "cut": NEIGHBOUR}
            rows = sorted(self._run("around", bound))
            found[agent].append([Said(*row) for row in rows])
        runs = [run for lists in found.values() for run in joined(lists)]
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
