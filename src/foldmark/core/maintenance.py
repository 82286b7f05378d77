"""Looking after a database: the part of a store that finds damage and leaves no trace of what was erased."""

from collections.abc import Iterator
from typing import Protocol


class Maintenance(Protocol):
    """What looks after a database."""

    narrowed: bool
    """Whether others could read the database until it was opened, and cannot any more."""

    def forget_erased(self) -> bool:
        """Leave no trace of erased content in the files beside the database; False if somebody is still reading one, or
        the disk is full."""

    def damage(self) -> Iterator[str]:
        """What is wrong with the database, its events or its stored sums, one line each; nothing if it is sound.

        What cannot be read is one of these lines, and the rest is checked all the same.
        """

    def unchecked(self) -> int:
        """How many events were recorded before there were checksums: a changed byte in these is not found."""
