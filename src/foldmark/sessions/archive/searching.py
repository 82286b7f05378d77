"""Search the messages of archived sessions (see `foldmark.core.search.Index`) [SPEC 7, 8].

The index has the words and the place of each message, and the session files have the texts. So only a few neighbours
are read. A message in several files, such as a trimmed copy, is found once.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Progress
from foldmark.core.search import (
    ANY,
    Excerpt,
    Filters,
    IndexedMessage,
    RankedMessage,
    SearchResult,
    Term,
    TermQuery,
    is_unfound,
)
from foldmark.recall.embeddings.model import DEFAULT
from foldmark.recall.searching import COUNTED, expression, extrapolated, holding, joined
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import IndexFile
from foldmark.sessions.archive.reading import excerpt, read, texts_at
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import index_for
from foldmark.sessions.archive.vectors import ArchiveVectors
from foldmark.settings.given import Settings
from foldmark.stores.queries import listed
from foldmark.stores.rows import Row

if TYPE_CHECKING:
    from foldmark.recall.embeddings.stored import StoredVectors

REACH = 2
"""Maximum number of neighbours to read on each side."""


@contextmanager
def recallable(
    given: Settings,
    filters: Filters,
    tell: Callable[[str], object],
    seconds: float,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator["ArchiveIndex | None"]:
    """Index newly archived sessions, as `index_for` with these limits, then open the archive as `opened`. `tell` is
    called with a text about missing messages."""
    try:
        if left := index_for(seconds, os.environ, given.sync_exclude, progress, stop):
            tell(f"{left:,} bytes of archived sessions are not indexed yet; the next search goes on with that")
    except FoldmarkError as error:
        tell(f"the newest archived sessions may be missing: {error}")
    with opened(archive_folder(os.environ), filters, given.recall_model) as archive:
        yield archive


@contextmanager
def opened(archive: Path, filters: Filters = ANY, model: str = DEFAULT) -> Iterator["ArchiveIndex | None"]:
    """Open an archive for a search; by meaning, it uses the vectors of `model`. Yield None if nothing is archived yet.

    Raises IndexFileError, also inside the block.
    """
    if not (archive / index.NAME).is_file():
        yield None
        return
    with index.connected(archive, write=False) as db:
        yield ArchiveIndex(archive, db, filters, model)


class ArchiveIndex:
    """One search's view of an archive."""

    def __init__(self, archive: Path, db: IndexFile, filters: Filters, model: str) -> None:
        self._archive, self._db, self._model = archive, db, model
        self.vectors = ArchiveVectors(archive, db)
        self._meanings: StoredVectors | None = None
        self._filters = {
            "since": _milliseconds(filters.since),
            "before": _milliseconds(filters.before),
            "agent": filters.agent or None,
            "tool": filters.tool.lower() if filters.tool else None,
            "role": filters.role or None,
            "visible": filters.visible,
            "files": listed(self._files(filters.project)) if filters.project else None,
        }

    def _files(self, project: str) -> list[int]:
        """Return the files whose folder names contain `project`, in any case. SQLite folds the case of ASCII only."""
        return [
            id
            for _, id, *_, cwd, folder in self._db.run("files")
            if project.casefold() in f"{cwd or ''}\n{folder}".casefold()
        ]

    def meanings(self) -> "StoredVectors":
        from foldmark.recall.embeddings.model import kept
        from foldmark.recall.embeddings.stored import StoredVectors

        if self._meanings is None:
            self._meanings = StoredVectors(self.vectors, kept(self._model))
        return self._meanings

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        newest, found = self._newest(), []
        for term in terms:
            ((held, last),) = self._db.run("counted", wanted=holding(term), most=COUNTED)
            found.append(extrapolated(held, last, newest))
        return newest, found

    def _newest(self) -> int:
        return int(self._db.run("newest")[0][0])

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        return [id for each in wanted for id in self._best(each, limit)]

    def _best(self, wanted: TermQuery, limit: int) -> list[int]:
        first = 0 if wanted.share >= 1 else int(self._newest() * (1 - wanted.share))
        most = 2 * limit
        while True:
            found = self._db.run("best", wanted=expression(wanted), first=first, most=most, **self._filters)
            # Of several copies, keep the one that no trim has cut, otherwise the oldest.
            best: dict[int, tuple[Any, ...]] = {}
            for key, tool, role, *row in found:
                if self._is_findable(tool, role):
                    best[key] = min(best.get(key, tuple(row)), tuple(row))
            if len(best) >= limit or len(found) < most:
                return [id for _, id in best.values()][:limit]
            most *= 4

    def passing(self, ids: Sequence[int]) -> list[int]:
        """Return, for each of these messages with vectors, the copy that `best` would return, if one passes the
        filters."""
        return [id for each in ids for (id,) in self._db.run("passing", id=each, **self._filters)]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        rows = self._db.run("around", ids=listed(ids), reach=min(reach, REACH))
        fits = self._fitting({row[2] for row in rows}, set(ids))
        files = defaultdict[int, dict[int, list[Row]]](lambda: defaultdict(list))
        for place, file, *row in rows:
            files[file][place].append(tuple(row))
        return [run for file, lists in files.items() for run in self._read(file, [*lists.values()], fits)]

    def _fitting(self, ids: set[int], first: set[int]) -> set[int]:
        """Return the messages that pass the filters; of several copies, preferably the one among `first`."""
        rows = self._db.run("fitting", ids=listed(ids), **self._filters)
        copies: dict[int, int] = {}
        for key, tool, role, _, id in sorted(rows, key=lambda row: (row[4] not in first, *row[3:])):
            if self._is_findable(tool, role):
                copies.setdefault(key, id)
        return set(copies.values())

    def _is_findable(self, tool: str | None, role: str) -> bool:
        return not is_unfound(tool, None if role == self._filters["role"] else role)

    def results(self, places: Sequence[RankedMessage]) -> list[SearchResult | None]:
        """Return each message without its snippet, and None for a second copy."""
        keys: set[int] = set()
        found: list[SearchResult | None] = []
        for place in places:
            rows = self._db.run("result", id=place.id)
            if not rows:
                found.append(None)
                continue
            ((key, kind, session, project, role, tool, moment, name, line),) = rows
            path, at = str(index.path_of(name, self._archive)), index.time_of(moment)
            once = SearchResult(kind, session, project, role, tool, at, False, 0.0, "", file=path, line=line)
            found.append(None if key in keys else once)
            keys.add(key)
        return found

    def read(self, named: str, reach: int) -> Excerpt:
        return excerpt(read(self._archive, named, reach, archived_only=True))

    def _read(self, file: int, lists: Sequence[Sequence[Row]], fits: set[int]) -> list[list[IndexedMessage]]:
        """Return the texts at these places of a file; none if the file no longer has them."""
        rows = {row for rows in lists for row in rows}
        texts = texts_at(self._db, self._archive, file, (row[:4] for row in rows))
        if len(texts) < len(rows):
            return []
        runs = [
            [IndexedMessage(id, texts[id], index.time_of(moment) or "", id in fits) for id, _, _, _, moment in rows]
            for rows in lists
        ]
        return list(joined(runs))


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
