"""Describe an agent's operations, say which are in force, and explain their effect on each event [SPEC 4].

Used for lists, differences and `/context explain`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.agents import AgentRecord, Size
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import (
    OPERATION_KINDS,
    ROLES,
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
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded, taken_back, taken_back_by
from foldmark.core.segments import END, Segment, Segments, contains, intersect, subtract
from foldmark.core.wording import count, listing, one_line
from foldmark.operations import places
from foldmark.operations.changes import CHANGE_KINDS, SettingChange, change_with, changes
from foldmark.operations.receipts import ThinkingChange
from foldmark.request.exchanges import visible_after
from foldmark.request.standing import Standing, latest

CRITERIA = 60
"""Maximum number of characters of a filter's criteria that are shown."""


class OperationEntry(Struct, frozen=True):
    """A recorded operation: its description, the sizes that left and came back, and the id of the `restore` in force
    that undid it (None if it is in force). `back` is the command that undoes or redoes it; `thoughts` is its effect on
    the model's thinking."""

    event: Event
    words: str
    left: Size
    returned: Size
    by: int | None = None
    back: str | None = None
    thoughts: ThinkingChange = ThinkingChange()

    @property
    def took(self) -> str:
        """`2 messages (~71 recorded tokens) left`; empty if nothing left or came back."""
        messages = moves(((self.left, "left"), (self.returned, "came back")))
        return ", ".join((*messages, *self.thoughts.lines()))

    def parts(self, time: str) -> list[str]:
        """Return what a person reads about the operation, which was recorded at `time`: time, actor, words, reason,
        what it took, and the restore that undid it."""
        parts = [time, self.event.actor, self.words]
        parts += [f"reason: {one_line(self.event.reason)}"] if self.event.reason else []
        parts += [self.took] if self.took else []
        return parts + ([f"taken back by {self.by}"] if self.by is not None else [])

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
    """A mark in force: the event that set it, the size that a rewind to it would remove, and the first of these
    messages."""

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


def everything_done(moment: Snapshot, at: Standing) -> list[OperationEntry]:
    """Return all operations of the agent, and the changes of its settings and of its scratchpad by a person or a model,
    oldest first. Cost grows with their number."""
    changed = [_change_entry(each) for each in changes(moment, at) if each.is_listed]
    return sorted([*operations(moment, at), *changed], key=lambda entry: entry.event.id)


def _change_entry(change: SettingChange) -> OperationEntry:
    event, none = change.event, Size(0, 0)
    return OperationEntry(event, change.words, none, none, change.by, f"/restore {change.by or event.id}")


def operations(moment: Snapshot, at: Standing) -> list[OperationEntry]:
    """Return all operations of the agent, oldest first. Cost grows with the number of operations."""
    events = [event for event in selections.operations(moment, at.record.id) if event.kind != "turn_ended"]
    restores = taken_back_by(recorded(events))
    return [_entry(event, restores) for event in events]


def _entry(event: Event, restores: dict[int, int]) -> OperationEntry:
    """Return the entry of an operation; `restores` are those in force, target -> restore."""
    operation = operation_of(event)
    receipt = (event.data or {}).get("receipt") or {}
    left, returned = (Size(**receipt.get(way, {"messages": 0, "tokens": 0})) for way in ("left", "returned"))
    by = restores.get(event.id)
    back = f"/restore {by or event.id}" if operation.restorable else None
    return OperationEntry(
        event, words(operation), left, returned, by, back, ThinkingChange(**receipt.get("thinking", {}))
    )


def newest_restorable(moment: Snapshot, at: Standing) -> int | None:
    """Return the newest operation in force that `/restore` can undo, except restores; None if there is none.

    Restoring it repeatedly walks back through the operations.
    """
    pairs = recorded(selections.operations(moment, at.record.id))
    back = taken_back(pairs)
    walked = (id for id, done in pairs if done.restorable and not isinstance(done, Restore) and id not in back)
    return max(walked, default=None)


def marks(moment: Snapshot, at: Standing) -> list[MarkEntry]:
    """Return the marks in force, oldest first."""
    found, names = [], {event_id: name for name, event_id in at.fold.marks.items()}
    for event in moment.events(list(names)):
        _, _, position = places.marked(moment, at, names[event.id])
        removed = visible_after(moment, at, position)
        first = next(moment.select(removed), None)
        found.append(MarkEntry(names[event.id], event, moment.size(removed), first))
    return found


def words(operation: Operation) -> str:
    """Describe an operation in a few words: `rewind to 'X'`."""
    match operation:
        case Mark(name=name):
            return f"mark '{name}'"
        case Clear():
            return "clear"
        case Rewind(place=place):
            return f"rewind to {place}"
        case Fork(child=child, place=place):
            return f"fork of child {child[:8]}" + (f" from {place}" if place else "")
        case Filter(planning=(_, _), criteria=None, before=before, after=after) if before == after:
            return "end of a planning conversation without a filter"
        case Filter(mode=mode, criteria=criteria):
            about = one_line((criteria or "")[:CRITERIA])
            return f"{mode} '{about}'" if about else mode
        case Drop(turns=turns):
            return f"drop of {ids_named('turn', turns)}"
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
            return f"eviction of {ids_named('result', results)}"
        case Redact(turn=turn):
            return f"erasure of {f'turn {turn}' if turn else 'everything'}"
        case PlanningEnded(closes=closes):
            return f"end of the planning conversation of filter {closes}"


def summed_up(operation: Summary) -> str:
    """Describe the messages that a summary replaces: `A..B`, `everything after 'X'`, `everything`."""
    if operation.span is not None:
        return operation.span
    return "everything" if operation.mark is None else f"everything after '{operation.mark}'"


def ids_named(noun: str, ids: Sequence[int]) -> str:
    """Return `turn 5`, `turns 5, 7, 9`."""
    return f"{noun} {ids[0]}" if len(ids) == 1 else f"{noun}s {listing(ids)}"


def sized(size: Size, noun: str = "message", *, recorded: bool = True) -> str:
    """Return `2 messages (~71 recorded tokens)`: the tokens as they were counted when the messages were recorded. Those
    in a request are not `recorded`: `2 messages (~65 tokens)`."""
    return f"{count(size.messages, noun)} (~{count(size.tokens, 'recorded token' if recorded else 'token')})"


def moves(moved: Iterable[tuple[Size, str]], noun: str = "message", *, recorded: bool = True) -> list[str]:
    """Return `2 messages (~71 recorded tokens) left` for each size that is not empty, by its verb."""
    return [f"{sized(size, noun, recorded=recorded)} {verb}" for size, verb in moved if size.messages]


def kept_out(gone: Segments, entries: Sequence[OperationEntry]) -> Iterator[tuple[Segment, OperationEntry | None]]:
    """Yield the segments that left a context, each with the newest operation in force that keeps it out, or None if the
    log does not record it."""
    targets = {entry.by: entry for entry in entries if entry.by is not None}
    for entry in reversed(entries):
        if not gone:
            return
        if entry.by is None:
            mine = intersect(gone, _hides(entry, gone, targets.get(entry.event.id)))
            gone = subtract(gone, mine)
            yield from ((segment, entry) for segment in mine)
    yield from ((segment, None) for segment in gone)


def _hides(entry: OperationEntry, gone: Segments, target: OperationEntry | None) -> Iterable[Segment]:
    """Return the ranges that an operation in force keeps out. `target` is the operation that it restored."""
    event, operation = entry.event, operation_of(entry.event)
    match operation:
        case Clear():
            return [Segment(agent, 0, event.id) for agent in {segment.agent for segment in gone}]
        case Rewind():
            return operation.cut(event.agent_id, event.id)
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            return ranges
        case Restore() if target is not None and target.event.kind == "summary":  # its text left the context with it
            return [Segment(target.event.agent_id, target.event.id, target.event.id)]
        case _:
            return ()


class Explanation(Struct, frozen=True):
    """The explanation of an event: its place in or out of the context, and why.

    `reason` is `visible`, `evicted`, `operation`, `in force` (a state, a scratchpad), `metadata`, `erased`, `elsewhere`
    or `not inherited`; `text` says it in words. The operations that keep the event out are listed oldest first; each of
    them is sufficient. `did` is the effect of the event, if it is an operation.
    """

    event: Event
    in_context: bool
    reason: str
    text: str
    because: tuple[Event, ...] = ()
    did: OperationEntry | None = None


def explain(moment: Snapshot, at: Standing, event_id: int) -> Explanation:
    """Return why event `event_id` is or is not in this agent's context, and its effect if it is an operation of the
    lineage.

    Raises CommandError for an unknown id.
    """
    found = _explained(moment, at, event_id)
    event = found.event
    if event.kind in CHANGE_KINDS and event.agent_id == at.record.id:
        change = change_with(changes(moment, at), event_id)
        return found if change is None else replace(found, did=_change_entry(change))
    if event.kind not in OPERATION_KINDS or found.reason in ("elsewhere", "not inherited"):
        return found
    own = event.agent_id == at.record.id
    later = (
        selections.operations(moment, event.agent_id, after=event.id) if own else []
    )  # a restore comes after its target
    restores = taken_back_by(recorded(later))
    return replace(found, did=_entry(event, restores))


def _explained(moment: Snapshot, at: Standing, event_id: int) -> Explanation:
    event = selections.event(moment, event_id) if 0 < event_id < END else None
    if event is None:
        raise CommandError(f"there is no event {event_id}; `/message list` shows turns, `/context show` what is sent")
    by = None if event.erased_by is None else selections.event(moment, event.erased_by)
    if by is not None:
        text = f"its content was erased by a {by.actor} at {by.created_at[:19]}Z (event {by.id}), for good"
        return Explanation(event, False, "erased", text, (by,))
    if not contains(at.lineage, event.agent_id, event_id):
        return _elsewhere(moment, at, event)
    visible = contains(at.visible, event.agent_id, event_id)
    if event.kind not in ROLES and (visible or event.kind != "state"):
        return Explanation(event, False, *_metadata(moment, at, event))
    if visible and event_id in at.fold.evicted:
        return _evicted(moment, at, event)
    if visible:
        return Explanation(event, True, "visible", "no operation in force takes it out")
    because = _in_force(moment, at, partial(_keeps_out, moment, at, event))
    text = f"taken out by {_described(because)}; {_restoring(because)} would bring it back"
    return Explanation(event, False, "operation", text, tuple(because))


def _described(because: Iterable[Event]) -> str:
    """Return the operations, each with its actor, time and reason."""
    return ", ".join(
        f"{_kind(each)} {each.id} (by a {each.actor}, {each.created_at[:19]}Z"
        + (f", reason: {one_line(each.reason)})" if each.reason else ")")
        for each in because
    )


def _restoring(because: Iterable[Event]) -> str:
    return " and ".join(f"/restore {each.id}" for each in because)


def _evicted(moment: Snapshot, at: Standing, event: Event) -> Explanation:
    """Return why a visible result is sent as a placeholder."""
    because = _in_force(moment, at, lambda _, each, __: isinstance(each, Evict) and event.id in each.results)
    if not because:
        text = "evicted before this agent was forked; only its parent can take that back"
        return Explanation(event, True, "evicted", text)
    text = f"evicted by {_described(because)}; {_restoring(because)} would send it as it was"
    return Explanation(event, True, "evicted", text, tuple(because))


def _metadata(moment: Snapshot, at: Standing, event: Event) -> tuple[str, str]:
    """Return the reason and the text of an event that is not a message."""
    match event.kind:
        case "state":
            newest, noun = latest(moment, at, "state", at.visible), "state block"
        case "scratchpad" if event.agent_id == at.record.id:
            newest, noun = at.newest_of.get("scratchpad"), "scratchpad"
        case "window_summary":
            text = "a window summary: it is sent while it is valid and the window begins after it"
            return "metadata", text
        case kind if kind in OPERATION_KINDS:
            return "metadata", "an operation itself is never sent"
        case _:
            return "metadata", f"a {_kind(event)} event is never sent to a model"
    if newest is None or newest.id == event.id:
        return "in force", f"it is the {noun} in force"
    return "metadata", f"a newer {noun}, event {newest.id}, is in force"


def _elsewhere(moment: Snapshot, at: Standing, event: Event) -> Explanation:
    record: AgentRecord | None = at.record
    while record is not None and record.parent is not None:
        if record.parent == event.agent_id:
            return Explanation(event, False, "not inherited", _not_inherited(moment, at, record, event))
        record = moment.agent(record.parent)
    text = f"it belongs to agent {event.agent_id[:8]}, and agents never see each other's events"
    return Explanation(event, False, "elsewhere", text)


def _not_inherited(moment: Snapshot, at: Standing, child: AgentRecord, event: Event) -> str:
    """Return why an event was not handed down to this agent. The event belongs to the parent of `child`, which is this
    agent or an ancestor of it."""
    if event.id > child.fork_event:
        child_name = "this agent" if child.id == at.record.id else f"agent {child.id[:8]}, above this one,"
        return f"{child_name} was forked before it, with event {child.fork_event}; nothing later is handed down"
    born = selections.event(moment, at.record.fork_event)
    operation = operation_of(born) if born else None
    after = ""
    if isinstance(operation, Fork) and not operation.is_full:
        after = f" after mark {operation.place}" if operation.turn is None else f" from {operation.place} on"
    return f"this agent was forked without it: it inherited only the events that its parent showed then{after}"


def _in_force(moment: Snapshot, at: Standing, wanted: Callable[[int, Operation, frozenset[int]], bool]) -> list[Event]:
    """Return the agent's operations in force that are `wanted`, a function of their id, their content and the ids of
    the operations taken back."""
    operations = selections.operations(moment, at.record.id)
    pairs = recorded(operations)
    back = taken_back(pairs)
    return [
        event
        for event, (id, operation) in zip(operations, pairs, strict=True)
        if id not in back and wanted(id, operation, back)
    ]


def _keeps_out(
    moment: Snapshot, at: Standing, event: Event, id: int, operation: Operation, back: frozenset[int]
) -> bool:
    """Return True if an operation in force keeps an event out of the context."""
    match operation:
        case Clear():
            return event.id < id
        case Rewind():
            return contains(operation.cut(at.record.id, id), event.agent_id, event.id)
        case Restore(target=target):  # a summary is also a message: when it is taken back, its own text leaves
            return target == event.id and target in back
        case Filter(ranges=ranges, planning=(_, None)):
            return event.id <= _planning_end(moment, at, id) and contains(ranges, event.agent_id, event.id)
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            return contains(ranges, event.agent_id, event.id)
        case _:
            return False


def _planning_end(moment: Snapshot, at: Standing, filter_id: int) -> int:
    """Return the id of the event that closed a planning conversation, `END` if it is still open."""
    pairs = recorded(selections.operations(moment, at.record.id, after=filter_id))
    back = taken_back(pairs)
    for id, operation in pairs:
        if isinstance(operation, PlanningEnded) or (isinstance(operation, Clear | Rewind) and id not in back):
            return id
    return END


def _kind(event: Event) -> str:
    return event.kind.replace("_", " ")
