"""Maintenance of a database: the part of a store that finds damage and removes the traces of erased content."""

from collections.abc import Iterator
from typing import Protocol


class Maintenance(Protocol):
    """Maintains a database."""

    narrowed: bool
    """True if others could read the database until it was opened, and no longer can."""

    def forget_erased(self) -> bool:
        """Remove all traces of erased content from the files beside the database. Return False if another process is
        still reading one, or the disk is full."""

    def damage(self) -> Iterator[str]:
        """Yield one line for each fault of the database, its events or its stored sums; nothing if it is sound.

        A part that cannot be read is one such line; the other parts are still checked.
        """

    def unchecked(self) -> int:
        """Return the number of events recorded before checksums existed. A changed byte in these is not found."""
