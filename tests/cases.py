"""Many cases in one test that share an expensive setup."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*what: object) -> Iterator[None]:
    """Add the case to the message of a failure inside the block."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"case: {', '.join(repr(each)[:500] for each in what)}")
        raise
