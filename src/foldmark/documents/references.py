"""Check what the events of a document name: events before them, and agents that the document tells of."""

from collections.abc import Collection, Iterable, Iterator

from foldmark.copying.renumbering import Renumbering
from foldmark.core.events import Drop, Evict, Filter, Fork, Operation, Redact, Restore, Rewind, Summary, Undo
from foldmark.core.segments import END, Segment
from foldmark.documents.checking import WrongEventError
from foldmark.documents.layout import EventEntry


class CheckedRenumbering(Renumbering):
    """New ids for the events of a document. Raises WrongEventError for an id that is not below `current`, the id in the
    document of the event that names it."""

    current = 0

    def id(self, old: int) -> int:
        self._check(old)
        return super().id(old)

    def beginning(self, old: int) -> int:
        self._check(old)
        return super().beginning(old)

    def _check(self, old: int) -> None:
        if not (0 <= old < self.current or old == END):
            raise WrongEventError(f"it names event {old}, which is not before it")


class NamedEvents:
    """The events so far that others may name, by their ids in the document, its `agent` and that agent's
    `ancestors`."""

    def __init__(self, agent: str, ancestors: Collection[str]) -> None:
        self._agent, self._agents = agent, {agent, *ancestors}
        self._restorable, self._calls, self._results = set[int](), set[int](), set[int]()

    def check(self, event: EventEntry, operation: Operation | None) -> None:
        """Check an event, then add it. Raises WrongEventError if it names an event or an agent that it cannot name."""
        if operation is not None:
            self._check_operation(event.id, operation)
            if operation.restorable and not event.inherited:
                self._restorable.add(event.id)
        if event.answers is not None:
            if event.kind != "tool_result":
                raise WrongEventError("only a tool_result answers a call")
            if not (event.answers in self._calls or (event.inherited and 0 < event.answers < event.id)):
                raise WrongEventError(f"it answers event {event.answers}, which is no earlier tool_call")
        if event.kind == "tool_call":
            self._calls.add(event.id)
        elif event.kind == "tool_result":
            self._results.add(event.id)

    def has_call(self, id: int) -> bool:
        """Return True if this event is a tool call. An inherited result may lack its call."""
        return id in self._calls

    def check_results(self, ids: Iterable[int]) -> None:
        """Raise WrongEventError unless all of these events are tool results."""
        if wrong := [id for id in ids if id not in self._results]:
            raise WrongEventError(f"it evicts event {wrong[0]}, which is no earlier tool_result")

    def _check_operation(self, id: int, operation: Operation) -> None:
        if isinstance(operation, Restore) and operation.target not in self._restorable:
            raise WrongEventError(f"it restores event {operation.target}, which is no earlier operation to restore")
        if isinstance(operation, Evict):
            self.check_results(operation.results)
        closing = isinstance(operation, Filter) and operation.planning is not None and operation.planning[1] is None
        for agent, first, last in _ranges(operation):
            # A summary of messages that a fork did not inherit only tells its place.
            if agent not in self._agents and not isinstance(operation, Summary):
                raise WrongEventError(f"it names agent {agent[:40]!r}, which the file does not tell of")
            # Only the planning conversation of a filter, and what an ancestor recorded, have no end.
            endless = last == END and (closing or agent != self._agent)
            if not 0 <= first <= last or first > id or (last >= id and not endless):
                raise WrongEventError(f"it names the events {first} to {last}, which are not before it")


def _ranges(operation: Operation) -> Iterator[Segment]:
    match operation:
        case Rewind(inherited=ranges) | Fork(start=ranges):
            yield from ranges
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            yield from ranges
        case Redact(ranges=ranges):
            yield from ranges
        case _:
            return
