"""Why an event is in the context or not: which operations did it [SPEC 4, `/context explain`]."""

from msgspec import Struct

from foldmark.conversation.decide import recorded
from foldmark.conversation.standing import Standing
from foldmark.core.errors import CommandError
from foldmark.core.events import ROLES, Clear, Drop, Event, Filter, Operation, Restore, Rewind, Summary, Undo
from foldmark.core.ports import AgentRecord
from foldmark.core.replay import taken_back
from foldmark.core.segments import END, Segment, contains


class Explanation(Struct, frozen=True):
    """Whether an event is in the context; the operations that keep it out, each by itself, oldest first; and why in
    words. `reason` is `visible`, `operation`, `metadata`, `erased`, `elsewhere` or `not inherited`."""

    event: Event
    in_context: bool
    reason: str
    text: str
    because: tuple[Event, ...] = ()


def explain(at: Standing, event_id: int) -> Explanation:
    """Why event `event_id` is in this agent's context or not. Raises CommandError for an id that there is not."""
    event = at.store.event(event_id) if 0 < event_id < END else None
    if event is None:
        raise CommandError(f"there is no event {event_id}; `/message list` shows turns, `/context show` what is sent")
    by = at.store.erased_by(event_id)
    if by is not None:
        text = f"its content was erased by a {by.actor} at {by.created_at[:19]}Z (event {by.id}), for good"
        return Explanation(event, False, "erased", text, (by,))
    if not contains(at.lineage, event.agent_id, event_id):
        return _elsewhere(at, event)
    visible = contains(at.visible, event.agent_id, event_id)
    if event.kind not in ROLES and (visible or event.kind != "state"):
        return Explanation(event, False, "metadata", _metadata(at, event))
    if visible:
        return Explanation(event, True, "visible", "no operation in force takes it out")
    because = _keeping_out(at, event)
    names = ", ".join(f"{_kind(each)} {each.id} (by a {each.actor}, {each.created_at[:19]}Z)" for each in because)
    again = " and ".join(f"/restore {each.id}" for each in because)
    return Explanation(event, False, "operation", f"taken out by {names}; {again} would bring it back", tuple(because))


def _metadata(at: Standing, event: Event) -> str:
    match event.kind:
        case "state":
            newest, what = at.store.newest("state", at.visible), "state block"
        case "scratchpad" if event.agent_id == at.record.id:
            newest, what = at.store.newest("scratchpad", (Segment(at.record.id, 1, at.newest),)), "scratchpad"
        case "window_summary":
            return "a summary of what the window has passed: sent while it is true and the window begins behind it"
        case _:
            return f"a {_kind(event)} event is never sent to a model"
    if newest is None or newest.id == event.id:
        return f"it is the {what} in force"
    return f"a newer {what}, event {newest.id}, is in force"


def _elsewhere(at: Standing, event: Event) -> Explanation:
    if event.agent_id == at.record.id or event.agent_id in _ancestors(at):
        text = "this agent was forked without it: its start holds what its parent showed then, from the mark onward"
        return Explanation(event, False, "not inherited", text)
    text = f"it belongs to agent {event.agent_id[:8]}, and agents never see each other's events"
    return Explanation(event, False, "elsewhere", text)


def _ancestors(at: Standing) -> list[str]:
    found: list[str] = []
    record: AgentRecord | None = at.record
    while record is not None and record.parent is not None:
        found.append(record.parent)
        record = at.store.agent(record.parent)
    return found


def _keeping_out(at: Standing, event: Event) -> list[Event]:
    operations = at.store.operations(at.record.id)
    pairs = recorded(operations)
    back = taken_back(pairs)
    found = [
        each
        for each, (id, operation) in zip(operations, pairs, strict=True)
        if id not in back and _takes_out(at, id, operation, event)
    ]
    # A summary is a message as well: taken back, its own text leaves with it.
    if event.id in back:
        restores = [each for each, (_, operation) in zip(operations, pairs, strict=True) if _restores(operation, event)]
        found = sorted([*found, *(each for each in restores if each.id not in back)], key=lambda each: each.id)
    return found


def _restores(operation: Operation, event: Event) -> bool:
    return isinstance(operation, Restore) and operation.target == event.id


def _takes_out(at: Standing, id: int, operation: Operation, event: Event) -> bool:
    match operation:
        case Clear():
            return event.id < id
        case Rewind(position=position):
            return event.agent_id == at.record.id and position < event.id <= id
        case Filter(ranges=ranges, planning=(_, None)):
            end = _closed(at, id)
            return event.id <= end and contains(ranges, event.agent_id, event.id)
        case Filter(ranges=ranges) | Drop(ranges=ranges) | Undo(ranges=ranges) | Summary(ranges=ranges):
            return contains(ranges, event.agent_id, event.id)
        case _:
            return False


def _closed(at: Standing, filter_id: int) -> int:
    """The id of the event that closed a planning conversation, `END` if it is still going on."""
    for event in at.store.operations(at.record.id, after=filter_id):
        if event.kind == "turn_ended":
            return event.id
    return END


def _kind(event: Event) -> str:
    return event.kind.replace("_", " ")
