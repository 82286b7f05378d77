"""The bar below the meter: the kinds of content in the context, each with its name and tokens."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from foldmark.chat.display.operated import brief
from foldmark.cost.filling import ContextShare, merged
from foldmark.rendering import harmless

FREE = "free"
"""The kind of the part that is left up to the limit."""

LONGEST = 20
"""Maximum columns of a name. The names of other programs' tools are long."""


class BarPiece(NamedTuple):
    """A part of the bar: its share, and its text, which fills its columns."""

    share: ContextShare
    text: str


def pieces(shares: Sequence[ContextShare], free: int, width: int) -> list[BarPiece]:
    """Return the parts of a bar of `width` columns: each as wide as its share, but wide enough for its name. The
    smallest parts are merged as `other` until names take at most five sixths of the width and the shares show."""
    rest, found, least = [ContextShare(FREE, FREE, free)] if free else [], list[ContextShare](), list[int]()
    for most in range(len(shares), 0, -1):
        found = [*merged(shares, most), *rest]
        least = [cell_len(_label(each)) + 1 for each in found]
        if 6 * sum(least) <= 5 * width:
            break
    total = sum(each.tokens for each in found) or 1
    wanted = [max(0, each.tokens * width / total - own) for each, own in zip(found, least, strict=True)]
    spare, more = max(0, width - sum(least)), sum(wanted) or 1
    ends = [round(spare * sum(wanted[: number + 1]) / more) for number in range(len(found))]
    widths = [own + end - before for own, end, before in zip(least, ends, [0, *ends], strict=False)]
    return [BarPiece(each, set_cell_size(f"▏{_label(each)}", own)) for each, own in zip(found, widths, strict=True)]


def _label(share: ContextShare) -> str:
    name = harmless(share.name)
    return f"{name if cell_len(name) <= LONGEST else set_cell_size(name, LONGEST - 1) + '…'} {brief(share.tokens)}"


class Bar(Widget, can_focus=True):
    """The content of the context. Choosing a part shows its turns."""

    DEFAULT_CSS = """
    Bar { height: 1; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "part", show=False),
        Binding("right", "move(1)", "part", show=False),
        Binding("enter", "choose", "its turns"),
    ]

    class Chosen(Message):
        """Asks for the turns of a share."""

        def __init__(self, share: ContextShare) -> None:
            super().__init__()
            self.share = share

    def __init__(self) -> None:
        super().__init__()
        self._shares: tuple[ContextShare, ...] = ()
        self._free = self._at = 0

    def fill(self, shares: Sequence[ContextShare], free: int) -> None:
        """Show these shares and the number of `free` tokens."""
        self._shares, self._free = tuple(shares), free
        self.refresh()

    @property
    def pieces(self) -> list[BarPiece]:
        """The parts as they are shown."""
        return pieces(self._shares, self._free, self.size.width)

    def render_line(self, y: int) -> Strip:
        """Draw the bar."""
        found, style = self.pieces, self.rich_style
        self._at = min(self._at, max(0, len(found) - 1))
        chosen = Style(reverse=True) if self.has_focus else Style()
        drawn = [
            Segment(each.text, style + chosen if number == self._at else style + Style(dim=each.share.kind == FREE))
            for number, each in enumerate(found)
        ]
        return Strip(drawn).adjust_cell_length(self.size.width, style)

    def on_click(self, event: Click) -> None:
        """Choose the clicked part."""
        end = 0
        for number, each in enumerate(self.pieces):
            end += cell_len(each.text)
            if event.x < end:
                self._at = number
                self.action_choose()
                break

    def action_move(self, by: int) -> None:
        """Mark the part `by` places further right."""
        self._at = max(0, min(self._at + by, len(self.pieces) - 1))
        self.refresh()

    def action_choose(self) -> None:
        """Show the turns of the marked part."""
        if self.pieces and (share := self.pieces[self._at].share).kind != FREE:
            self.post_message(self.Chosen(share))
