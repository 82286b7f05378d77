"""How a command or a tool reaches the person it works for while it runs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from foldmark.core.ports import Progress

if TYPE_CHECKING:
    from foldmark.operations.effects import Result

Decision = Literal["yes", "always", "no", "never"]
"""A person's word on a tool: this once, or from now on in this conversation."""


class Asking(Struct, frozen=True):
    """`confirm` puts a question that is answered yes or no (None: nobody is there to ask); `progress` is told how far
    long work has come; `approve` puts the question whether a tool may run: (tool, what it would do); `operated` is told
    of each operation that a model's tool has carried out."""

    confirm: Callable[[str], bool] | None = None
    progress: Progress | None = None
    approve: Callable[[str, str], Decision] | None = None
    operated: "Callable[[Result], None]" = lambda _: None


NOBODY = Asking()
"""Nobody is there."""
