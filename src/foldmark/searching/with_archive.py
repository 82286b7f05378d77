"""Search for commands and tools: the log and the archive, where that can be searched [SPEC 7]."""

from collections.abc import Callable
from typing import NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import ANY, ArchivedMessages, Filters, SearchResult, is_unfound
from foldmark.log.log import Log
from foldmark.searching.everything import search_everything

MOST = 300
"""Maximum number of results that are examined when some of them do not count."""


class RecallResults(NamedTuple):
    """The results, the best first, and in words what was not searched."""

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
) -> RecallResults:
    """Return the best results for `query`, at most `limit` that count. An archive that cannot be used is left out.

    `beside` and CommandError are as for `search_everything`.
    """
    missing: list[str] = []

    def searched(archive: ArchivedMessages | None) -> list[SearchResult]:
        most = limit
        while True:
            every = search_everything(query, most, filters, log=log, archive=archive, beside=beside)
            found = [each for each in every if not is_unfound(each.tool) and (counts is None or counts(each))]
            if len(found) >= limit or len(found) == len(every) or most >= MOST:
                return found[:limit]
            most = min(4 * most, MOST)

    if log.archive is None:
        return RecallResults(searched(None), missing)
    try:
        with log.archive(filters, missing.append) as archive:
            return RecallResults(searched(archive), missing)
    except FoldmarkError as error:
        found = searched(None)  # raises again every error that is not the archive's
        return RecallResults(found, [f"archived sessions were not searched: {error}"])
