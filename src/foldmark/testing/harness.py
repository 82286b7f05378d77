"""What a store hands to `StoreContract` beside itself: the few things that its protocol cannot do."""

from contextlib import AbstractContextManager
from enum import Enum
from typing import Protocol

from foldmark.core.ports import Store


class Damage(Enum):
    """What a failing disk, or a foreign program, does to a database behind the store's back.

    Each is done to one event, a message in the middle of its agent's log. Reading need not notice it: `foldmark doctor`
    has to.
    """

    CONTENT = "the first character of the event's content becomes another one"
    DATA = "the event's data is cut short, so that it is no JSON any more"
    SIZE = "the event's stored number of tokens is one more"
    SUM = "a stored sum of tokens that ends with the event is one more"
    COUNT = "a stored number of messages that ends with the event is one more"
    WEIGHT = "a stored sum of weights that ends with the event is one more"
    HEAD = "the agent's stored newest event is this one, although there are newer ones"
    FOLD = "the stored segments of the event's agent are cut short, so that they cannot be read any more"
    INDEX = "the event is missing from the index of words"


class Harness(Protocol):
    """What `StoreContract` needs to know of a store. Give it by overriding the fixture `harness`."""

    def fresh(self) -> Store:
        """Open a store over a new, empty database, another one each time. The suite closes it."""

    def open(self, address: str) -> Store:
        """Open the database at a `Store.address` once more, with a connection of its own.

        It is called in this process and in others, for which the harness is pickled: it must hold nothing that cannot
        be, and be of a class that another process can import. For a database that only one connection reaches, call
        `pytest.skip` with the reason.
        """

    def counting(self, store: Store) -> AbstractContextManager[list[str]]:
        """Collect the text of every statement that this store sends to its database while the block runs.

        Ask the driver or the database. BEGIN, COMMIT, ROLLBACK and savepoints may be among them: they do not count.
        """

    def plant(self, store: Store, damage: Damage, event_id: int) -> None:
        """Damage the database of a store, at one event, past the store itself.

        Where the database keeps nothing of the kind, call `pytest.skip` with the reason.
        """

    def move_clock(self, store: Store, seconds: float) -> AbstractContextManager[None]:
        """Move the clock behind `Transaction.now` while the block runs, for all connections of this process."""
