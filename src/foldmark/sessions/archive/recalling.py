"""The archive as a recall uses it: what was archived since is indexed first, for a moment [SPEC 7, 8]."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Progress
from foldmark.core.search import Filters
from foldmark.recall.embeddings.model import DEFAULT
from foldmark.sessions.archive.searching import ArchiveIndex, opened
from foldmark.sessions.archive.storing import archive_folder
from foldmark.sessions.archive.syncing import catch_up

SECONDS = 2.0
"""How long a recall may spend on indexing; the next one goes on with what is left."""


class _EnoughError(Exception):
    """No more indexing now."""


@contextmanager
def recallable(
    environment: Mapping[str, str],
    patterns: Sequence[str],
    filters: Filters,
    tell: Callable[[str], object],
    model: str = DEFAULT,
) -> Iterator[ArchiveIndex | None]:
    """The archive, to be searched, by meaning with the vectors of `model`; None if nothing is archived. `patterns` are
    folders that are not to be indexed.

    `tell` is told what is missing. Raises IndexFileError, also inside.
    """
    try:
        if left := bring_up(environment, patterns, SECONDS):
            tell(f"{left:,} bytes of archived sessions are not indexed yet; `foldmark sync` does that")
    except FoldmarkError as error:
        tell(f"what was archived last may be missing: {error}")
    with opened(archive_folder(environment), filters, model) as archive:
        yield archive


def bring_up(
    environment: Mapping[str, str],
    patterns: Sequence[str],
    seconds: float,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Index what was archived since, for so many seconds at most, or until `stop`; how many bytes are left.

    `patterns` and `progress` as for `syncing.sync`. Raises FoldmarkError as `catch_up`.
    """
    end, left = time.monotonic() + seconds, 0

    def watch(done: int, total: int) -> None:
        nonlocal left
        left = total - done
        if left > 0 and (stop() or time.monotonic() > end):
            raise _EnoughError
        if progress:
            progress(done, total)

    try:
        catch_up(environment, patterns, watch)
    except _EnoughError:
        return left
    return 0
