"""Find the call that a result answers, and whether that call is still shown [SPEC 3]."""

from foldmark.core.ports import Snapshot
from foldmark.core.segments import Segment, contains
from foldmark.core.turns import Message
from foldmark.request.planning import talk
from foldmark.request.standing import Standing


def shown(moment: Snapshot, at: Standing, call: Message, *, waits: bool) -> bool:
    """Return True if a call is in the context, or in the planning conversation that ends with this turn.

    A call that still `waits` for its result in the open turn was not erased, and is not looked up.
    """
    if at.fold.leaving is not None and contains(talk(moment, at), call.agent_id, call.id):
        return True
    return contains(at.fold.segments, call.agent_id, call.id) and (waits or _there(moment, at, call))


def awaiting(moment: Snapshot, at: Standing, call_id: str) -> tuple[Message | None, bool]:
    """Return the newest call with this id in the lineage that has no result, erased or not, or else the newest; and
    True if that is answered."""
    newest: Message | None = None
    lineage = at.lineage
    for agent_id in dict.fromkeys((at.record.id, *(segment.agent for segment in reversed(lineage)))):
        for call in moment.calls(agent_id, call_id):
            if not contains(lineage, call.agent_id, call.id):
                continue
            if not any(contains(lineage, r.agent_id, r.id) for r in moment.results([call], erased=True)):
                return call, False
            newest = newest or call
    return newest, newest is not None


def _there(moment: Snapshot, at: Standing, call: Message) -> bool:
    return moment.size((Segment(call.agent_id, call.id, call.id),)).messages > 0
