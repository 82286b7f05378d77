"""The words of messages in PostgreSQL. Nothing is indexed yet."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from foldmark.core.errors import StoreError
from foldmark.core.recall import Scope
from foldmark.stores.postgres.appender import Tree
from foldmark.stores.postgres.connection import Session

if TYPE_CHECKING:
    from foldmark.stores.postgres.snapshot import PostgresSnapshot


def index_words(session: Session, trees: Iterable[Tree]) -> None:
    """Have the words of what was appended (`Tree.unindexed`) written with the next statement."""
    for tree in trees:
        tree.unindexed.clear()


def unindex_words(session: Session, root: int, event_ids: Sequence[int]) -> None:
    """Have the words of some messages of a tree taken away with the next statement."""


def damage(moment: "PostgresSnapshot") -> Iterator[str]:
    """What is wrong with the index of words."""
    yield from ()


class PostgresIndex:
    """The messages of a log, to be searched."""

    def __init__(self, run: Callable[..., list[Any]], scope: Scope, keys: Sequence[int] | None) -> None:
        raise StoreError("searching in PostgreSQL is not there yet")
