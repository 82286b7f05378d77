"""Search a log together with the archive of this machine's coding sessions [SPEC 7]."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import ANY, ArchivedMessages, Filters, SearchResult
from foldmark.log import Log
from foldmark.log.search import search_everything

MOST = 300
"""Maximum number of results to examine if some of them do not count."""

INDEXING = 2.0
"""Maximum seconds that a recall spends on indexing."""


class RecallResults(NamedTuple):
    """The results, best first, and descriptions of the sources that were not searched."""

    found: list[SearchResult]
    missing: list[str]


def search_with_archive(
    log: Log,
    query: str,
    limit: int,
    filters: Filters = ANY,
    counts: Callable[[SearchResult], bool] | None = None,
    *,
    beside: bool = True,
    archived: bool = False,
) -> RecallResults:
    """Return the best results for `query`, at most `limit` of those accepted by `counts`. An archive that cannot be
    used is left out. With `archived`, only the archive is searched.

    `beside` and CommandError are as for `search_everything`.
    """
    missing: list[str] = []
    own = None if archived else log

    def searched(archive: ArchivedMessages | None) -> list[SearchResult]:
        most = limit
        while True:
            every = search_everything(query, most, filters, log=own, archive=archive, beside=beside)
            found = every if counts is None else [*filter(counts, every)]
            if len(found) >= limit or len(found) == len(every) or most >= MOST:
                return found[:limit]
            most = min(4 * most, MOST)

    try:
        with archive_beside(log, filters, missing.append) as archive:
            return RecallResults(searched(archive), missing)
    except FoldmarkError as error:
        found = searched(None)  # an error that did not come from the archive is raised again
        return RecallResults(found, [f"archived sessions were not searched: {error}"])


def archive_beside(
    log: Log, filters: Filters, report: Callable[[str], object]
) -> AbstractContextManager[ArchivedMessages | None]:
    """Open the archive that is searched together with a log, and report missing sessions as text. Yield None if nothing
    is archived, for a log that is kept away from the sessions, and for one in memory."""
    if not log.given.knows_sessions or log.store.address == ":memory:":
        return nullcontext()
    from foldmark.sessions.archive.searching import recallable

    return recallable(log.given, filters, report, INDEXING)
