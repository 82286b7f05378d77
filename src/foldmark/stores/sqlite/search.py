"""The messages of a log in SQLite, searchable (see `foldmark.core.search.Index`)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from foldmark.core.search import SearchScope, Term, TermQuery
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.searching import COUNTED, expression, extrapolated, holding
from foldmark.stores.queries import listed
from foldmark.stores.search import Row, StoredIndex

Run = Callable[[str, Mapping[str, Any]], list[Row]]
"""Runs the query of a name with its bindings."""


class SqliteIndex(StoredIndex):
    """The messages of an FTS5 index."""

    def __init__(self, run: Run, scope: SearchScope, keys: Sequence[int] | None) -> None:
        """`keys` are those of the scope's agents."""
        super().__init__(scope)
        self._run = run
        self._bound = {**self._filters, "agents": None if keys is None else listed(keys)}

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        rows = self._run("counted", {"wanted": listed(map(holding, terms)), "most": COUNTED})
        counts = [(msgspec.json.decode(counted, type=tuple[int, int | None]), newest) for counted, newest, _ in rows]
        found = [extrapolated(held, last, newest) for (held, last), newest in counts]
        return rows[0][2] if rows else 0, found

    def _best(self, wanted: Sequence[TermQuery], most: int) -> Iterable[Row]:
        asked = {"wanted": listed((expression(each), each.share) for each in wanted), "most": most}
        return self._run("best_fitting", {**asked, **self._bound}) if self._narrowed else self._run("best", asked)

    def _passing(self, ids: Sequence[int]) -> Iterable[Row]:
        return self._run("passing", {"ids": listed(ids), **self._bound})

    def _around(self, ids: Sequence[int], reach: int) -> Iterable[Row]:
        return self._run("around", {"ids": listed(ids), "reach": reach, "whole": LONGEST, "cut": NEIGHBOUR})
