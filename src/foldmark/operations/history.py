"""Describe an agent's operations and whether they still count: for lists, explanations and differences [SPEC 4]."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from foldmark.core.codec import operation_of
from foldmark.core.events import (
    Clear,
    Drop,
    Event,
    Evict,
    Filter,
    Fork,
    Mark,
    Operation,
    Pin,
    PlanningEnded,
    Redact,
    Restore,
    Rewind,
    Summary,
    Undo,
    Unpin,
)
from foldmark.core.ports import Size, Snapshot
from foldmark.core.replay import recorded
from foldmark.core.wording import count, listing, one_line
from foldmark.operations import decide
from foldmark.operations.receipts import ThinkingChange
from foldmark.request.exchanges import behind
from foldmark.request.standing import Standing

CRITERIA = 60
"""Maximum number of characters of a filter's criteria that are shown."""


class OperationEntry(Struct, frozen=True):
    """A recorded operation: its description, what left and came back then, and the id of the `restore` in force that
    undid it (None: it counts). `back` is the command that undoes or redoes it; `thoughts` is its effect on the model's
    thinking."""

    event: Event
    words: str
    left: Size
    returned: Size
    by: int | None = None
    back: str | None = None
    thoughts: ThinkingChange = ThinkingChange()

    @property
    def took(self) -> str:
        """`2 messages (~71 tokens) left`; empty if nothing left or came back."""
        both = ((self.left, "left"), (self.returned, "came back"))
        messages = [f"{sized(size)} {how}" for size, how in both if size.messages]
        return ", ".join((*messages, *self.thoughts.told()))

    def data(self) -> dict[str, Any]:
        """Return the entry as JSON."""
        return {
            "id": self.event.id,
            "operation": self.event.kind,
            "actor": self.event.actor,
            "reason": self.event.reason,
            "created_at": self.event.created_at,
            "words": self.words,
            "left": self.left._asdict(),
            "returned": self.returned._asdict(),
            **self.thoughts.data(),
            "in_force": self.by is None,
            "taken_back_by": self.by,
            "back": self.back,
        }


class MarkEntry(Struct, frozen=True):
    """A mark in force: the event that set it, and what a rewind to it would remove."""

    name: str
    event: Event
    behind: Size
    first: Event | None

    def data(self) -> dict[str, Any]:
        """Return the entry as JSON."""
        return {
            "name": self.name,
            "event": self.event.id,
            "actor": self.event.actor,
            "reason": self.event.reason,
            "created_at": self.event.created_at,
            "after": self.behind._asdict(),
            "first": self.first.id if self.first else None,
        }


def operations(moment: Snapshot, at: Standing) -> list[OperationEntry]:
    """Return all operations of the agent, oldest first. Cost grows with the number of operations."""
    events = [event for event in moment.operations(at.record.id) if event.kind != "turn_ended"]
    restores = _restores(events)
    return [done(event, restores) for event in events]


def done(event: Event, restores: dict[int, int]) -> OperationEntry:
    """Return the entry of an operation; `restores` are those in force, target -> restore."""
    operation = operation_of(event)
    receipt = (event.data or {}).get("receipt") or {}
    left, returned = (Size(**receipt.get(way, {"messages": 0, "tokens": 0})) for way in ("left", "returned"))
    by = restores.get(event.id)
    back = f"/restore {by or event.id}" if operation.restorable else None
    return OperationEntry(
        event, words(operation), left, returned, by, back, ThinkingChange(**receipt.get("thinking", {}))
    )


def one(moment: Snapshot, at: Standing, event: Event) -> OperationEntry:
    """Return the entry of one operation of any agent."""
    own = event.agent_id == at.record.id
    return done(event, _restores(moment.operations(at.record.id, after=event.id)) if own else {})


def _restores(events: list[Event]) -> dict[int, int]:
    """Return target -> restore in force. A restore comes after its target, so later operations suffice."""
    found: dict[int, int] = {}
    for id, operation in reversed(recorded(events)):
        if isinstance(operation, Restore) and id not in found:
            found[operation.target] = id
    return found


def marks(moment: Snapshot, at: Standing) -> list[MarkEntry]:
    """Return the marks in force, oldest first."""
    found, names = [], {event_id: name for name, event_id in at.fold.marks.items()}
    for event in moment.events(list(names)):
        _, _, position = decide.marked(moment, at, names[event.id])
        there = behind(moment, at, position)
        first = next(moment.messages(there), None)
        found.append(MarkEntry(names[event.id], event, moment.size(there), first))
    return found


def words(operation: Operation) -> str:
    """Describe an operation in a few words: `rewind to 'X'`."""
    match operation:
        case Mark(name=name):
            return f"mark '{name}'"
        case Clear():
            return "clear"
        case Rewind(mark=mark):
            return f"rewind to '{mark}'"
        case Fork(child=child, mark=mark):
            return f"fork of child {child[:8]}" + (f" from '{mark}'" if mark is not None else "")
        case Filter(mode=mode):
            return _filtered(mode, operation)
        case Drop(turns=turns):
            return f"drop of {turns_named(turns)}"
        case Undo(turn=turn):
            return f"undo of turn {turn}"
        case Summary(span=None, native=form) if form:
            return f"compaction by {listing(form)}"
        case Summary():
            return f"summary of {summed_up(operation)}"
        case Restore(target=target):
            return f"restore of operation {target}"
        case Pin(turn=turn):
            return f"pin of turn {turn}"
        case Unpin(turn=turn):
            return f"end of the pin of turn {turn}"
        case Evict(results=results):
            return f"eviction of {results_named(results)}"
        case Redact(turn=turn):
            return f"erasure of {f'turn {turn}' if turn else 'everything'}"
        case PlanningEnded(closes=closes):
            return f"end of the planning conversation of filter {closes}"


def _filtered(mode: str, operation: Filter) -> str:
    if operation.planning is not None and operation.criteria is None and operation.before == operation.after:
        return "end of a planning conversation without a filter"
    about = one_line((operation.criteria or "")[:CRITERIA])
    return f"{mode} '{about}'" if about else mode


def summed_up(operation: Summary) -> str:
    """Describe what a summary replaces: `A..B`, `what stood after 'X'`, `everything`."""
    if operation.span is not None:
        return operation.span
    return "everything" if operation.mark is None else f"what stood after '{operation.mark}'"


def turns_named(turns: tuple[int, ...]) -> str:
    """Return `turn 5`, `turns 5, 7, 9`."""
    return f"turn {turns[0]}" if len(turns) == 1 else f"turns {listing(turns)}"


def results_named(results: Sequence[int]) -> str:
    """Return `result 5`, `results 5, 7, 9`."""
    return f"result {results[0]}" if len(results) == 1 else f"results {listing(results)}"


def sized(size: Size) -> str:
    """Return `2 messages (~71 tokens)`."""
    return f"{count(size.messages, 'message')} (~{count(size.tokens, 'token')})"
