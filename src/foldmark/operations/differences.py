"""The difference between a context at two moments [SPEC 4, `/context diff`]."""

from collections.abc import Iterable

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segments, subtract
from foldmark.core.turns import Turn, newest_turns
from foldmark.request.standing import Standing, state_of

MOST_TURNS = 50
"""Maximum number of turns of each kind whose messages are read."""


class MovedMark(Struct, frozen=True):
    """A mark that was set, moved or lost: its events, None where it was not set."""

    name: str
    before: int | None
    after: int | None


class Difference(Struct, frozen=True):
    """The change of a context between two standings of its agent.

    `left` and `came` are the segments that only one of them shows, `turns_left` and `turns_came` their newest turns,
    one more than `MOST_TURNS` if there are older ones; `operations` are those recorded in between, in either direction.
    `states` and `scratchpads` are the texts before and after.
    """

    before: Standing
    after: Standing
    left: Segments
    came: Segments
    turns_left: tuple[Turn, ...]
    turns_came: tuple[Turn, ...]
    operations: tuple[Event, ...]
    states: tuple[str | None, str | None]

    @property
    def scratchpads(self) -> tuple[str | None, str | None]:
        """The scratchpads before and after."""
        return self.before.scratchpad, self.after.scratchpad

    @property
    def marks(self) -> tuple[MovedMark, ...]:
        """The marks that were set, moved or lost, by name."""
        was, now = self.before.fold.marks, self.after.fold.marks
        names = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
        return tuple(MovedMark(name, was.get(name), now.get(name)) for name in names)

    @property
    def pinned(self) -> tuple[int, ...]:
        """The turns that were pinned."""
        return _only(self.after.fold.pins, self.before.fold.pins)

    @property
    def unpinned(self) -> tuple[int, ...]:
        """The turns that were unpinned."""
        return _only(self.before.fold.pins, self.after.fold.pins)

    @property
    def evicted(self) -> tuple[int, ...]:
        """The tool results that were evicted."""
        return _only(self.after.fold.evicted, self.before.fold.evicted)

    @property
    def sent_again(self) -> tuple[int, ...]:
        """The tool results that are no longer evicted."""
        return _only(self.before.fold.evicted, self.after.fold.evicted)


def difference(moment: Snapshot, before: Standing, after: Standing) -> Difference:
    """Return the difference between two standings of the same agent. Cost grows with the operations and with the turns
    read, not with the number of messages that left or came."""
    left, came = subtract(before.visible, after.visible), subtract(after.visible, before.visible)
    first, last = sorted((before.newest, after.newest))
    events = selections.operations(moment, after.record.id, after=first, until=last)
    operations = tuple(event for event in events if event.kind != "turn_ended")
    states = [state_of(moment, place) for place in (before, after)]
    was, now = (None if state is None else state.content for state in states)
    turns = (_newest(moment, left), _newest(moment, came))
    return Difference(before, after, left, came, *turns, operations, (was, now))


def _newest(moment: Snapshot, segments: Segments) -> tuple[Turn, ...]:
    return tuple(newest_turns(moment.select(segments, newest_first=True), MOST_TURNS + 1))


def _only(these: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted({*these} - {*others}))
