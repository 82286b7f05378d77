"""Run the checks of a database."""

from collections.abc import Callable, Iterator, Sequence

from foldmark.core.errors import StoreError


def found_by(checks: Sequence[Callable[[], Iterator[str]]]) -> Iterator[str]:
    """Yield a line for each fault that the checks find. An unreadable part is such a line, once, and the other checks
    go on."""
    failed = set()
    for check in checks:
        try:
            yield from check()
        except StoreError as error:
            if str(error) not in failed:
                failed.add(str(error))
                yield f"database: {error}"
