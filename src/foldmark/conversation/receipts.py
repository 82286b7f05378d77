"""What an operation did to the context, as every interface tells it [SPEC 4]."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from foldmark.core.ports import Size
from foldmark.core.segments import Segments, subtract


class Result(Struct, frozen=True):
    """The answer to a command.

    `text` is for a person; `event_id` is the operation's, None if none was recorded; `data` is JSON. For an operation
    it holds `operation`, `actor`, and the sizes `left`, `returned`, `before` and `after`, each with `messages` and
    `tokens`, beside what is the operation's own (`child` of a fork, `widened` of a filter).
    """

    text: str
    event_id: int | None = None
    data: dict[str, Any] = {}


class Change(Struct, frozen=True):
    """The size of the context before and after an operation, and of what left and came back."""

    before: Size
    after: Size
    left: Size
    returned: Size

    def data(self) -> dict[str, Any]:
        """The sizes as JSON."""
        return {name: getattr(self, name)._asdict() for name in ("left", "returned", "before", "after")}


def change(before: Segments, after: Segments, total: Size, size: Callable[[Segments], Size]) -> Change:
    """Compare two contexts, given the size of the first; `size` gives that of what left and came back."""
    gone = subtract(before, after)
    left = total if gone == before else size(gone)
    returned = size(subtract(after, before))
    return Change(total, total.less(left).plus(returned), left, returned)
