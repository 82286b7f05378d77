"""Recall as commands and tools use it: the log with the archive, as far as that can be searched [SPEC 7]."""

from collections.abc import Callable
from typing import NamedTuple

from foldmark.core.errors import FoldmarkError
from foldmark.core.search import ANY, ArchivedMessages, Filters, SearchResult, is_unfound
from foldmark.log.log import Log
from foldmark.searching.everything import search_everything

MOST = 300
"""Messages and memos that are looked at, at most, where some of them do not count."""


class RecallResults(NamedTuple):
    """What was found, the best first, and what was not searched, in words."""

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
    """What of everything fits `query` best, at most `limit` that count. An archive that cannot be used is left out.

    `beside` is as for, and CommandError is raised as by, `search_everything`.
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
        found = searched(None)  # raises again whatever is not the archive's
        return RecallResults(found, [f"archived sessions were not searched: {error}"])
