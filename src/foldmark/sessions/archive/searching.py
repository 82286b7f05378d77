"""Search the messages of archived sessions (see `foldmark.core.search.Index`) [SPEC 7, 8].

The index has the words and the place of each message, and the session files have the texts. So only a few neighbours
are read. A message in several files, as in a trimmed copy, is found once.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
from msgspec import json

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import ANY, Excerpt, Filters, IndexedMessage, RankedMessage, SearchResult, Term, TermQuery
from foldmark.recall.embeddings.model import DEFAULT
from foldmark.recall.searching import COUNTED, expression, extrapolated, holding, joined
from foldmark.sessions.archive import index
from foldmark.sessions.archive.reading import excerpt, read, searched
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import index_for
from foldmark.sessions.archive.vectors import ArchiveVectors
from foldmark.sessions.session_file import SessionFile

if TYPE_CHECKING:
    from foldmark.log.embedding import LogVectors

REACH = 2
"""Maximum number of neighbours to read on each side."""

RECALL_SECONDS = 2.0
"""Maximum seconds that a recall spends on indexing. The next recall continues."""


@contextmanager
def recallable(
    environment: Mapping[str, str],
    patterns: Sequence[str],
    filters: Filters,
    tell: Callable[[str], object],
    model: str = DEFAULT,
) -> Iterator["ArchiveIndex | None"]:
    """Index newly archived sessions for at most `RECALL_SECONDS`, then open the archive as `opened`.

    Sessions in the folders `patterns` are not indexed. `tell` is called with a text about messages that are missing.
    """
    try:
        if left := index_for(RECALL_SECONDS, environment, patterns):
            tell(f"{left:,} bytes of archived sessions are not indexed yet; `foldmark sync` does that")
    except FoldmarkError as error:
        tell(f"the newest archived sessions may be missing: {error}")
    with opened(archive_folder(environment), filters, model) as archive:
        yield archive


@contextmanager
def opened(archive: Path, filters: Filters = ANY, model: str = DEFAULT) -> Iterator["ArchiveIndex | None"]:
    """Open an archive for a search, by meaning with the vectors of `model`. Yield None if nothing is archived yet.

    Raises IndexFileError, also inside the block.
    """
    if not (archive / index.NAME).is_file():
        yield None
        return
    with index.connected(archive, write=False) as db:
        yield ArchiveIndex(archive, db, filters, model)


class ArchiveIndex:
    """One search's view of an archive."""

    def __init__(self, archive: Path, db: apsw.Connection, filters: Filters, model: str) -> None:
        self._archive, self._db, self._model = archive, db, model
        self.vectors = ArchiveVectors(archive, db)
        self._meanings: LogVectors | None = None
        self._conditions, self._values = _conditions(filters)
        if filters.project:
            # SQLite folds the case of ASCII letters only.
            part, files = filters.project.casefold(), self._rows("SELECT id, coalesce(cwd, ''), project FROM files")
            fitting = [id for id, *names in files if part in "\n".join(names).casefold()]
            self._conditions += " AND f.id IN (SELECT value FROM json_each(?))"
            self._values.append(json.encode(fitting).decode())

    def meanings(self) -> "LogVectors":
        from foldmark.recall.embeddings.model import kept

        if self._meanings is None:
            embedder = kept(self._model)
            from foldmark.log.embedding import LogVectors

            self._meanings = LogVectors(self.vectors, embedder)
        return self._meanings

    def counted(self, terms: Sequence[Term]) -> tuple[int, list[int]]:
        newest, found = self._newest(), []
        for term in terms:
            sql = "SELECT count(*), max(id) FROM (SELECT rowid AS id FROM words WHERE words MATCH ? LIMIT ?)"
            ((held, last),) = self._rows(sql, holding(term), COUNTED)
            found.append(extrapolated(held, last, newest))
        return newest, found

    def _newest(self) -> int:
        return int(self._rows("SELECT coalesce(max(id), 0) FROM messages")[0][0])

    def best(self, wanted: Sequence[TermQuery], limit: int) -> list[int]:
        return [id for each in wanted for id in self._best(each, limit)]

    def _best(self, wanted: TermQuery, limit: int) -> list[int]:
        sql = (
            "SELECT m.key, f.why IS 'trim', m.id FROM words w JOIN messages m ON m.id = w.rowid "
            f"JOIN files f ON f.id = m.file WHERE w.words MATCH ? AND w.rowid >= ? {self._conditions} "
            "ORDER BY w.rank, m.id LIMIT ?"
        )
        first = 0 if wanted.share >= 1 else int(self._newest() * (1 - wanted.share))
        most = 2 * limit
        while True:
            found = self._rows(sql, expression(wanted), first, *self._values, most)
            # Of several copies, the one that no trim has cut, otherwise the oldest.
            best: dict[int, tuple[Any, ...]] = {}
            for key, *row in found:
                best[key] = min(best.get(key, tuple(row)), tuple(row))
            if len(best) >= limit or len(found) < most:
                return [id for _, id in best.values()][:limit]
            most *= 4

    def passing(self, ids: Sequence[int]) -> list[int]:
        """Return the copy that `best` would return of each of these messages with vectors, if one passes the
        filters."""
        copies = (
            "SELECT m.id FROM messages o JOIN messages m ON m.key = o.key AND m.role IN ('user', 'assistant') "
            f"JOIN files f ON f.id = m.file WHERE o.id = ? {self._conditions} ORDER BY f.why IS 'trim', m.id LIMIT 1"
        )
        return [id for each in ids for (id,) in self._rows(copies, each, *self._values)]

    def around(self, ids: Sequence[int], reach: int) -> list[list[IndexedMessage]]:
        places = defaultdict[int, list[list[tuple[Any, ...]]]](list)
        near = min(reach, REACH)
        # A message that another program has removed meanwhile has no row.
        where = (row for id in ids for row in self._rows("SELECT file, offset, part FROM messages WHERE id = ?", id))
        for file, offset, part in where:
            places[file].append(
                self._rows(
                    "SELECT * FROM ("
                    "SELECT * FROM (SELECT id, line, offset, part, moment FROM messages WHERE file = ?1 "
                    "AND (offset, part) <= (?2, ?3) ORDER BY offset DESC, part DESC LIMIT ?4 + 1) UNION ALL "
                    "SELECT * FROM (SELECT id, line, offset, part, moment FROM messages WHERE file = ?1 "
                    "AND (offset, part) > (?2, ?3) ORDER BY offset, part LIMIT ?4)) ORDER BY offset, part",
                    file,
                    offset,
                    part,
                    near,
                )
            )
        fits = self._fitting({row[0] for lists in places.values() for rows in lists for row in rows}, set(ids))
        return [run for file, lists in places.items() for run in self._read(file, lists, fits)]

    def _fitting(self, ids: set[int], first: set[int]) -> set[int]:
        """Return the messages that pass the filters; of several copies, the one among `first`."""
        rows = self._rows(
            "SELECT m.key, f.why IS 'trim', m.id FROM messages m JOIN files f ON f.id = m.file "
            f"WHERE m.id IN (SELECT value FROM json_each(?)) {self._conditions}",
            json.encode(list(ids)).decode(),
            *self._values,
        )
        copies: dict[int, int] = {}
        for key, _, id in sorted(rows, key=lambda row: (row[2] not in first, *row[1:])):
            copies.setdefault(key, id)
        return set(copies.values())

    def results(self, places: Sequence[RankedMessage]) -> list[SearchResult | None]:
        """Return each message without its snippet, and None for a second copy."""
        keys: set[int] = set()
        found: list[SearchResult | None] = []
        for place in places:
            rows = self._rows(
                "SELECT m.key, f.kind, f.session, coalesce(f.cwd, f.project), m.role, m.tool, m.moment, f.path, m.line "
                "FROM messages m JOIN files f ON f.id = m.file WHERE m.id = ?",
                place.id,
            )
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

    def _read(
        self, file: int, lists: Sequence[Sequence[tuple[Any, ...]]], fits: set[int]
    ) -> list[list[IndexedMessage]]:
        """Return the texts at these places of a file; none if the file no longer has them."""
        ((name, kind),) = self._rows("SELECT path, kind FROM files WHERE id = ?", file)
        texts: dict[int, str] = {}
        try:
            with SessionFile(index.path_of(name, self._archive)) as session:
                for id, line, offset, part, _ in sorted({row for rows in lists for row in rows}, key=itemgetter(2)):
                    texts[id] = searched(session.reread(line, offset).value, kind, part)
        except FoldmarkError:
            return []
        runs = [
            [IndexedMessage(id, texts[id], index.time_of(moment) or "", id in fits) for id, _, _, _, moment in rows]
            for rows in lists
        ]
        return list(joined(runs))

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, values).fetchall()


def _conditions(filters: Filters) -> tuple[str, list[Any]]:
    """Return the filters as SQL, without that for the project, and their values."""
    conditions: list[tuple[str, Any]] = []
    if filters.since:
        conditions.append(("m.moment >= ?", _milliseconds(filters.since)))
    if filters.before:
        conditions.append(("m.moment < ?", _milliseconds(filters.before)))
    if filters.agent:
        conditions.append(("substr(f.session, 1, length(?)) = ?", filters.agent))
    if filters.tool:
        conditions.append(("lower(m.tool) = ?", filters.tool.lower()))
    if filters.role:
        conditions.append(("m.role = ?", filters.role))
    if filters.visible is not None:
        conditions.append(("? IS NULL", 0))
    values = [value for sql, value in conditions for _ in range(sql.count("?"))]
    return "".join(f" AND {sql}" for sql, _ in conditions), values


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
