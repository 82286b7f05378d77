"""All that the server knows of archive and index: searching both with the log, and reading a session [SPEC 7, 8].

Before a search, what hooks have archived since is indexed, for a few seconds at most; the next search goes on with what
is left then.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from foldmark.app import nothing_to
from foldmark.core.errors import CommandError, FoldmarkError
from foldmark.core.search import Filters, SearchResult
from foldmark.log import Log
from foldmark.mcp.conversations import Conversations
from foldmark.sending.interruption import watched
from foldmark.sessions.archive.storing import archive_folder

if TYPE_CHECKING:
    from foldmark.core.ports import Progress
    from foldmark.core.search import Mode
    from foldmark.sessions.archive.reading import Passage

INDEXING = 5.0
"""Seconds that a search spends on bringing the index up to date."""


def find(
    conversations: Conversations, queries: Sequence[str], limit: int, filters: Filters, mode: "Mode"
) -> list[list[SearchResult]]:
    """The messages that fit each query best, of archive and log together. Raises CommandError where there is neither,
    or no word in a query, NoVectorsError, EmbeddingError, IndexFileError, StoreError."""
    from foldmark.log.search import search_everything
    from foldmark.sessions.archive.searching import opened

    model = conversations.setup.given.recall_model
    with _log(conversations) as log, opened(archive_folder(os.environ), filters, model) as archive:
        if archive is None and log is None:
            raise CommandError(nothing_to("search"))
        with watched() as cut:
            found = []
            for query in queries:
                if cut.is_set():
                    raise FoldmarkError("interrupted")
                found.append(search_everything(query, limit, filters, log=log, archive=archive, mode=mode))
            return found


def catch_up(conversations: Conversations, progress: "Progress") -> str | None:
    """Index what was archived since; what is not indexed yet afterwards, in words."""
    from foldmark.sessions.archive.syncing import index_for

    with watched() as cut:
        try:
            left = index_for(INDEXING, os.environ, conversations.setup.given.sync_exclude, progress, cut.is_set)
        except FoldmarkError as error:
            return f"what was archived last may be missing: {error}"
    return (
        f"{left:,} bytes of archived sessions are not indexed yet; the next search goes on with that" if left else None
    )


def passage(named: str) -> "Passage":
    """What an archived session says; no other file is read for a guest. Raises NoSessionError, SessionFileError,
    IndexFileError."""
    from foldmark.sessions.archive.reading import read

    return read(archive_folder(os.environ), named, archived_only=True)


@contextmanager
def _log(conversations: Conversations) -> Iterator[Log | None]:
    with conversations.log() if conversations.exist else nullcontext() as log:
        yield log
