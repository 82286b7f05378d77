"""The archive as a recall uses it: what was archived since is indexed first, for a moment [SPEC 7, 8]."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from foldmark.core.errors import FoldmarkError
from foldmark.core.recall import Filters
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
    _bring_up(environment, patterns, tell)
    with opened(archive_folder(environment), filters, model) as archive:
        yield archive


def _bring_up(environment: Mapping[str, str], patterns: Sequence[str], tell: Callable[[str], object]) -> None:
    end = time.monotonic() + SECONDS

    def watch(done: int, total: int) -> None:
        if done < total and time.monotonic() > end:
            tell(f"{total - done:,} bytes of archived sessions are not indexed yet; `foldmark sync` does that")
            raise _EnoughError

    try:
        catch_up(environment, patterns, watch)
    except _EnoughError:
        pass
    except FoldmarkError as error:
        tell(f"what was archived last may be missing: {error}")
