"""The vectors of archived messages, in the index of the archive (see `foldmark.core.search.Vectors`) [SPEC 7, 8].

Only messages of a person or a model have vectors. Their texts are read from the session files. A message in several
files, as in a trimmed copy, has its vectors once, with the first copy in the index. A rebuilt index has none.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
from msgspec import json

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import Coverage, Embedded, Unembedded
from foldmark.sessions.archive import index
from foldmark.sessions.archive.reading import searched
from foldmark.sessions.session_file import SessionFile

_PAGE = 10_000
_SPOKEN = "m.role IN ('user', 'assistant')"
_FIRST = (
    f"{_SPOKEN} AND NOT EXISTS "
    "(SELECT 1 FROM messages o WHERE o.key = m.key AND o.role IN ('user', 'assistant') AND o.id < m.id)"
)
_TO_EMBED = (
    "SELECT m.id, m.file, m.line, m.offset, m.part FROM messages m "
    f"WHERE m.id > ? AND m.id <= ? AND {_FIRST} ORDER BY m.id LIMIT ?"
)
_BEFORE = (
    "SELECT line, offset, part FROM messages WHERE file = ?1 AND (offset, part) < (?2, ?3) "
    "ORDER BY offset DESC, part DESC LIMIT 1"
)
_VECTORS = (
    "SELECT m.id, v.vectors FROM json_each(?) asked JOIN messages m ON m.id = asked.value "
    "JOIN messages o ON o.key = m.key AND o.role IN ('user', 'assistant') "
    f"JOIN vectors v ON v.message = o.id AND v.embedder = ? WHERE {_SPOKEN}"
)
_COVERAGE = (
    f"SELECT (SELECT count(*) FROM messages m WHERE {_FIRST} AND m.id <= ?1), "
    f"(SELECT count(*) FROM messages m WHERE {_FIRST}), "
    "(SELECT coalesce(sum(length(vectors)), 0) FROM vectors WHERE embedder = ?2) "
    "+ (SELECT coalesce(sum(length(signatures)), 0) FROM signatures WHERE embedder = ?2)"
)


@contextmanager
def opened(archive: Path) -> Iterator["ArchiveVectors"]:
    """Open the vectors of an archive for writing.

    Raises IndexFileError, also inside the block, and also if the index is missing or of another version: only `syncing`
    rebuilds it.
    """
    index.open_index(archive, write=False).close()
    with index.connected(archive, write=True) as db:
        yield ArchiveVectors(archive, db)


class ArchiveVectors:
    """The vectors of one archive. Not for several threads at once."""

    def __init__(self, archive: Path, db: apsw.Connection) -> None:
        self._archive, self._db = archive, db

    def embedders(self) -> dict[str, int]:
        return dict(self._rows("SELECT fingerprint, until FROM embedders"))

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        ((last,),) = self._rows("SELECT coalesce(max(id), 0) FROM messages")
        rows = self._rows(_TO_EMBED, until, last, limit)
        found: dict[int, Unembedded] = {}
        for file in dict.fromkeys(row[1] for row in rows):
            found |= self._read(file, [(id, *at) for id, of, *at in rows if of == file])
        messages = [found.get(id) or Unembedded(id, "", "") for id, *_ in rows]
        return messages, rows[-1][0] if len(rows) == limit else last, last

    def save_vectors(self, fingerprint: str, embedded: Sequence[Embedded], until: int) -> None:
        there = "SELECT id, ?, ? FROM messages WHERE id = ?"
        with index.transaction(self._db):
            self._rows("INSERT INTO embedders (fingerprint) VALUES (?) ON CONFLICT DO NOTHING", fingerprint)
            key, _ = self._embedder(fingerprint)
            for id, vectors, signature in embedded:
                self._rows(f"INSERT OR REPLACE INTO vectors {there}", key, vectors, id)
                self._rows(f"INSERT OR REPLACE INTO signatures {there}", key, signature, id)
            self._rows("UPDATE embedders SET until = max(until, ?) WHERE key = ?", until, key)

    def signatures(self, fingerprint: str, after: int) -> Iterator[tuple[int, bytes]]:
        key, _ = self._embedder(fingerprint)
        page = "SELECT message, signatures FROM signatures WHERE message > ? AND embedder = ? ORDER BY message LIMIT ?"
        while rows := self._rows(page, after, key, _PAGE):
            yield from rows
            after = rows[-1][0]

    def vectors(self, fingerprint: str, event_ids: Sequence[int]) -> list[bytes]:
        key, _ = self._embedder(fingerprint)
        found = dict(self._rows(_VECTORS, json.encode(event_ids).decode(), key))
        return [found.get(id, b"") for id in event_ids]

    def remove_vectors(self, fingerprint: str) -> None:
        with index.transaction(self._db):
            key, _ = self._embedder(fingerprint)
            for table, column in (("vectors", "embedder"), ("signatures", "embedder"), ("embedders", "key")):
                self._rows(f"DELETE FROM {table} WHERE {column} = ?", key)

    def coverage(self, fingerprint: str) -> Coverage:
        key, until = self._embedder(fingerprint)
        return Coverage(*self._rows(_COVERAGE, until, key)[0])

    def _embedder(self, fingerprint: str) -> tuple[int | None, int]:
        found = self._rows("SELECT key, until FROM embedders WHERE fingerprint = ?", fingerprint)
        return found[0] if found else (None, 0)

    def _read(self, file: int, rows: Sequence[tuple[int, ...]]) -> dict[int, Unembedded]:
        """Return the messages at these places of a file, each with the text before it; none if the file has changed."""
        ((name, kind),) = self._rows("SELECT path, kind FROM files WHERE id = ?", file) or [(b"", "")]
        found = {}
        with suppress(FoldmarkError), SessionFile(index.path_of(name, self._archive)) as session:
            for id, line, offset, part in rows:
                before = [_text(session, kind, *place) for place in self._rows(_BEFORE, file, offset, part)]
                found[id] = Unembedded(id, _text(session, kind, line, offset, part), "".join(before))
        return found

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._db.execute(sql, values).fetchall()


def _text(session: SessionFile, kind: str, line: int, offset: int, part: int) -> str:
    try:
        return searched(session.reread(line, offset).value, kind, part)
    except FoldmarkError:
        return ""
