"""Search the messages of a log in SQLite (see `foldmark.core.search.Index`)."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from foldmark.core.search import SearchScope, Term, TermQuery
from foldmark.recall.ranking import LONGEST, NEIGHBOUR
from foldmark.recall.searching import COUNTED, expression, extrapolated, holding
from foldmark.stores.block import Reading
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row
from foldmark.stores.search import StoredIndex


class SqliteIndex(StoredIndex):
    """The messages of an FTS5 index."""

    def __init__(self, block: Reading, scope: SearchScope) -> None:
        super().__init__(block, scope)
        keys = None if scope.agents is None else listed(map(block.key, scope.agents))
        self._bound = {**self._filters, "agents": keys}

    def _run(self, name: str, **bindings: Any) -> list[Row]:
        self._block.settle()
        return self._block.run(name, **bindings)

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        rows = self._run("counted", wanted=listed(map(holding, terms)), most=COUNTED)
        counts = [(msgspec.json.decode(counted, type=tuple[int, int | None]), newest) for counted, newest, _ in rows]
        found = [extrapolated(count, last, newest) for (count, last), newest in counts]
        return rows[0][2] if rows else 0, found

    def _best(self, wanted: Sequence[TermQuery], most: int) -> Iterable[Row]:
        queries = listed((expression(each), each.share) for each in wanted)
        if self._narrowed:
            return self._run("best_fitting", wanted=queries, most=most, **self._bound)
        return self._run("best", wanted=queries, most=most)

    def _passing(self, ids: Sequence[int]) -> Iterable[Row]:
        return self._run("passing", ids=listed(ids), **self._bound)

    def _around(self, ids: Sequence[int], reach: int) -> Iterable[Row]:
        return self._run("around", ids=listed(ids), reach=reach, whole=LONGEST, cut=NEIGHBOUR)
