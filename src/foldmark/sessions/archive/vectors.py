"""The vectors of archived messages, in the index of the archive (see `foldmark.core.search.Vectors`) [SPEC 7, 8].

Only messages of a person or a model have vectors. Their texts are read from the session files. A message in several
files, such as a trimmed copy, has its vectors once, with the first copy in the index. A rebuilt index has no vectors.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import Unembedded
from foldmark.formats.session_file import SessionFile
from foldmark.sessions.archive import index
from foldmark.sessions.archive.index import IndexFile
from foldmark.sessions.archive.reading import searched
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
        found: dict[int, Unembedded] = {}
        for file in dict.fromkeys(row[1] for row in rows):
            found |= self._read_file(file, [(id, *at) for id, of, *at in rows if of == file])
        messages = [found.get(id) or Unembedded(id, "", "") for id, *_ in rows]
        return messages, rows[-1][0] if len(rows) == limit else last, last

    def _read_file(self, file: int, rows: Sequence[tuple[int, ...]]) -> dict[int, Unembedded]:
        """Return the messages at these places of a file, each with the text before it; none if the file has changed."""
        ((name, kind),) = self._db.run("place", file=file) or [(b"", "")]
        found = {}
        with suppress(FoldmarkError), SessionFile(index.path_of(name, self._archive)) as session:
            for id, line, offset, part in rows:
                rows_before = self._db.run("message_before", file=file, offset=offset, part=part)
                before = [_text(session, kind, *place) for place in rows_before]
                found[id] = Unembedded(id, _text(session, kind, line, offset, part), "".join(before))
        return found


def _text(session: SessionFile, kind: str, line: int, offset: int, part: int) -> str:
    try:
        return searched(session.reread(line, offset).value, kind, part)
    except FoldmarkError:
        return ""
