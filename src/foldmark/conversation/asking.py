"""How a command reaches the person who typed it while it runs."""

from collections.abc import Callable

from msgspec import Struct

from foldmark.core.ports import Progress


class Asking(Struct, frozen=True):
    """`confirm` puts a question that is answered yes or no (None: nobody is there to ask); `progress` is told how far
    long work has come."""

    confirm: Callable[[str], bool] | None = None
    progress: Progress | None = None


NOBODY = Asking()
"""Nobody is there."""
