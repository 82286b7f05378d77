"""The vectors of archived messages, in the index of the archive (see `foldmark.core.search.Vectors`) [SPEC 7, 8].

Only messages of a person or a model have vectors. Their texts are read from the session files. A message in several
files, such as a trimmed copy, has its vectors once, with the first copy in the index. A rebuilt index has no vectors.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from foldmark.core.search import Unembedded
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import IndexFile
from foldmark.sessions.archive.reading import texts_at
from foldmark.stores.vectors import SqlVectors


@contextmanager
def opened(archive: Path) -> Iterator["ArchiveVectors"]:
    """Open the vectors of an archive for writing.

    Raises IndexFileError, also inside the block. An index that is missing or of another version is such an error: only
    `syncing` rebuilds it.
    """
    index.open_index(archive, write=False).close()
    with index.connected(archive, write=True) as db:
        yield ArchiveVectors(archive, db)


class ArchiveVectors(SqlVectors):
    """The vectors of one archive. Not safe for several threads at once."""

    def __init__(self, archive: Path, db: IndexFile) -> None:
        super().__init__(lambda: nullcontext(db), lambda: index.transaction(db))
        self._archive, self._db = archive, db

    def unembedded(self, until: int, limit: int) -> tuple[list[Unembedded], int, int]:
        ((last,),) = self._db.run("newest")
        rows = self._db.run("to_embed", until=until, last=last, most=limit)
        own, before = dict[int, str](), dict[int, str]()
        for file in {row[1] for row in rows}:
            inside = [row for row in rows if row[1] == file]
            own |= texts_at(self._db, self._archive, file, ((id, *place[:3]) for id, _, *place in inside))
            others = ((id, *place[3:]) for id, _, *place in inside if place[3] is not None)
            before |= texts_at(self._db, self._archive, file, others)
        messages = [Unembedded(id, own.get(id, ""), before.get(id, "") if id in own else "") for id, *_ in rows]
        return messages, rows[-1][0] if len(rows) == limit else last, last
