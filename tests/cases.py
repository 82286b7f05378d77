"""Many cases in one test, which share what is expensive to make."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*what: object) -> Iterator[None]:
    """Name the case in a failure inside the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(repr(each)[:500] for each in what)}")
        raise
