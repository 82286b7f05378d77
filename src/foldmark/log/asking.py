"""Callbacks with which a running command or tool reaches the person it works for."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from foldmark.core.ports import Progress

if TYPE_CHECKING:
    from foldmark.operations.effects import Result

Decision = Literal["yes", "always", "no", "never"]
"""A person's decision on a tool: this once, or from now on in this conversation."""


class Asking(Struct, frozen=True):
    """The callbacks: `confirm` asks a yes-or-no question (None: nobody is there to answer); `progress` receives the
    progress of long work; `approve` asks whether a tool may run: (tool, what it would do); `operated` receives each
    operation that a model's tool has carried out."""

    confirm: Callable[[str], bool] | None = None
    progress: Progress | None = None
    approve: Callable[[str, str], Decision] | None = None
    operated: "Callable[[Result], None]" = lambda _: None


NOBODY = Asking()
"""Nobody to ask."""
