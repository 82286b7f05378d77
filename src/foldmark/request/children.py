"""The children of an agent and its unread mail, as its model is told of them in front of the newest message [SPEC 6].

What is told follows from the log and its tables alone. Within a turn it stays as it was sent first, so that the request
only grows; a person's message or fork brings it up to date.
"""

from collections.abc import Callable

from msgspec import structs

from foldmark.core.birth import AT_WORK, IDLE, WAITS, Child, Family, family_told
from foldmark.core.codec import operation_of
from foldmark.core.events import Event, Fork
from foldmark.core.ports import AgentRecord, Snapshot
from foldmark.core.segments import Segment, contains
from foldmark.core.wording import title
from foldmark.request.planning import planning
from foldmark.request.standing import Standing

SHOWN, KILLED = 8, 3
"""Living children and killed ones that are told of by name, the newest."""

LOOKED_BACK = 50
"""Messages of a parent among which the words are looked for that its model forked with."""


def family_of(moment: Snapshot, at: Standing) -> Family:
    """The children and the unread mail that the agent's next request tells of."""
    if _alone(at) or planning(moment, at) is not None or at.fold.closing is not None:
        return Family()
    sent = _sent(moment, at)
    if sent is None:
        return _now(moment, at)
    return _again(moment, at, sent)


def told_at(moment: Snapshot, at: Standing, settled: int, newest: int) -> dict[int, Family]:
    """What is told of children and mail, by the message in front of which it stands: what was sent since the boundary
    `settled` stays as it was, and the turn that message `newest` opened (0: the boundary's own) is told how things are.
    """
    if _alone(at) or planning(moment, at) is not None or at.fold.closing is not None:
        return {}
    sent = moment.answered_last(at.record.id)
    same = sent is not None and sent.makings.edge.settled == settled
    before = sent.makings.told if sent is not None and same else {}
    found = {place: _again(moment, at, family) for place, family in before.items()}
    if sent is None or (newest not in before and (not same or sent.event < newest)):
        found[newest] = _now(moment, at)
    return found


def _alone(at: Standing) -> bool:
    """Whether there is nothing to tell of, and never was."""
    return at.beside.isdisjoint(("mail", "children"))


def room_told(children: int) -> int:
    """The bytes that are kept free for what a message is told of so many children, and of mail."""
    return 300 + 120 * min(children, SHOWN)


def told(family: Family, content: Callable[[int], str], *, reads_mail: bool) -> str:
    """The line for a family, empty if there is nothing to tell; `content` is the text of an event."""
    goals = {child.goal: title(content(child.goal)) for child in family.children if child.goal}
    return family_told(family, goals, reads_mail=reads_mail)


def words_of(moment: Snapshot, at: Standing, fork: Event) -> Event | None:
    """What the model of agent `at` had said last in the turn in which it forked."""
    before = fork.id
    for _ in range(LOOKED_BACK):
        message = moment.message_before(fork.agent_id, before - 1)
        if message is None or message.turn_id != fork.turn_id:
            break
        if message.kind == "assistant":
            return moment.event(message.id)
        before = message.id
    return None


def _sent(moment: Snapshot, at: Standing) -> Family | None:
    """What the open turn's newest request told; None if there is none, or a person did something since."""
    turn = at.record.open_turn
    newest = moment.answered_last(at.record.id) if turn is not None else None
    if newest is None or newest.turn != turn:
        return None
    own = Segment(at.record.id, newest.event + 1, at.newest)
    said = any(each.kind == "user" and each.actor == "human" for each in moment.messages((own,)))
    forks = moment.operations(at.record.id, after=newest.event)
    if said or any(each.kind == "fork" and each.actor == "human" for each in forks):
        return None
    return newest.makings.told.get(0, Family())


def _now(moment: Snapshot, at: Standing) -> Family:
    store = moment
    mail = tuple(dict.fromkeys(each.sender for each in store.unread(at.record.id)))
    children = store.children(at.record.id)
    dead = set(store.killed_children(at.record.id)) if children else set()
    living = [record for record in children if record.id not in dead]
    shown = tuple(_living(moment, at, record) for record in living[-SHOWN:])
    killed = tuple(record.id for record in children if record.id in dead)
    return Family(shown, max(0, len(living) - SHOWN), killed[-KILLED:], mail)


def _again(moment: Snapshot, at: Standing, family: Family) -> Family:
    """The same, without quoting what has left the context meanwhile."""
    children = tuple(_child(moment, at, child.agent, child.state, child.goal, child.mark) for child in family.children)
    return structs.replace(family, children=children)


def _living(moment: Snapshot, at: Standing, record: AgentRecord) -> Child:
    begun = record.messages or moment.newest_sent(record.id, 1)
    state = AT_WORK if record.open_turn is not None else IDLE if begun else WAITS
    event = moment.event(record.fork_event)
    operation = operation_of(event) if event is not None else None
    if event is None or not isinstance(operation, Fork):
        return Child(record.id, state)
    goal = words_of(moment, at, event) if event.actor == "model" else None
    goal = goal or _asked(moment, at, operation)
    return _child(moment, at, record.id, state, goal.id if goal is not None else 0, operation.mark)


def _asked(moment: Snapshot, at: Standing, fork: Fork) -> Event | None:
    """The message of a person with which a child's start ends: its goal."""
    newest = next(moment.messages(fork.start, newest_first=True), None)
    return newest if newest is not None and newest.kind == "user" else None


def _child(moment: Snapshot, at: Standing, agent: str, state: str, goal: int, mark: str | None) -> Child:
    event = moment.event(goal) if goal else None
    shown = event is not None and contains(at.visible, event.agent_id, event.id)
    return Child(agent, state, goal if shown else 0, mark)
