"""Redaction: the events of a turn, and the agents affected by its erasure [SPEC 3, redact]."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.ports import Head, Snapshot, Transaction
from foldmark.core.segments import END, Segments, contains, intersect, until
from foldmark.operations.receipts import Outcome
from foldmark.request.exchanges import ranges_of
from foldmark.request.standing import Standing, birth_of

TRACES_MAY_STAY = (
    "A batch or another program has the database open, or the disk is full: traces may stay in the write-ahead log "
    "until every program has closed the database, or until you run `foldmark doctor --repair`."
)


class Erasure(Struct, frozen=True):
    """A turn to be erased: its owner, its id, the id of its last event, and the segments of its messages."""

    owner: str
    turn: int
    last: int
    ranges: Segments


def erasable(moment: Snapshot, at: Standing, turn_id: int) -> Erasure:
    """Return the erasure of a turn of this agent or of an inherited one, visible or not. Raises CommandError."""
    messages = moment.turns([turn_id])[turn_id] if 0 < turn_id < END else []
    lineage = at.lineage
    if not any(contains(lineage, message.agent_id, message.id) for message in messages):
        inside = next(iter(moment.lookup([turn_id])), None) if 0 < turn_id < END else None
        by = selections.erased_by(moment, turn_id) if inside is not None else None
        if inside is not None and by is not None:
            which = inside.turn_id or turn_id
            raise CommandError(f"turn {which} was erased already, by a {by.actor} at {by.created_at[:19]}Z")
        hint = "`/message list` lists the turns"
        if inside is not None and inside.turn_id is not None and contains(lineage, inside.agent_id, turn_id):
            hint = f"event {turn_id} belongs to turn {inside.turn_id}"
        raise CommandError(f"there is no turn {turn_id} in this conversation; {hint}")
    owner, last = messages[0].agent_id, messages[-1].id
    record = at.record if owner == at.record.id else moment.head(owner).record
    if record.open_turn == turn_id and record is not at.record:
        raise CommandError(f"turn {turn_id} is still open in agent {owner[:8]}; wait for its end, then repeat")
    following = selections.message_after(moment, owner, last)
    while following is not None and following.kind == "summary":  # inside the turn, whose metadata may follow it
        following = selections.message_after(moment, owner, following.id)
    return Erasure(owner, turn_id, following.id - 1 if following else record.last, ranges_of(moment, at, messages))


def heirs(moment: Snapshot, owner: str) -> Iterator[Head]:
    """Yield the heads of the agent and all its descendants: of every agent that may have inherited from it."""
    waiting = [owner]
    while waiting:
        head = moment.head(waiting.pop(0))
        yield head
        if "children" in head.beside:
            waiting += [child.id for child in moment.agents(parent=head.record.id)]


def erase(
    transaction: Transaction,
    owner: str,
    turn: int,
    last: int,
    by: int,
    recorded: Outcome | None = None,
    *,
    mail: Sequence[int] = (),
) -> None:
    """Erase a turn (see `Transaction.erase`) and update the stored size of each agent that inherited from its owner.

    `recorded` is the outcome of a redaction that was just recorded: its fold is stored as well.
    """
    transaction.erase(owner, turn, last, by, mail=mail)
    for record, cache, *_ in heirs(transaction, owner):
        if recorded is not None and record.id == recorded.fold.agent:
            transaction.save_fold(recorded.fold, recorded.context.less(record.own))
        elif cache is not None:
            visible = transaction.size(until(cache[0].segments, max(record.newest, by)))
            transaction.save_fold(cache[0], visible.less(record.own))


def others_losing(moment: Snapshot, at: Standing, erasure: Erasure) -> list[str]:
    """Return the agents other than this one that lose events of the turn, whether these are in the context or were
    taken out of it."""
    found = []
    for record, *_ in heirs(moment, erasure.owner):
        if record.id != at.record.id:
            born = birth_of(moment, record.id, record.fork_event)
            if moment.size(intersect(born.fold.segments, erasure.ranges)).messages:
                found.append(record.id)
    return found
