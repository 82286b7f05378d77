"""Finding what belongs together: exchanges around a call, and the ranges that ids stand for [SPEC 1, 3].

Each look-up costs its own exchange, never the turn or the history.
"""

from collections.abc import Iterable, Sequence

from foldmark.conversation.standing import Standing
from foldmark.core.codec import operation_of
from foldmark.core.events import Summary
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.core.turns import Exchange, Message, exchange_of, whole


def exchanges(at: Standing, calls: Iterable[Message]) -> list[Exchange]:
    """The exchanges that these calls are of; what is no call is passed over."""
    found: dict[int, Exchange] = {}
    for call in calls:
        if call.kind == "tool_call" and call.id not in found:
            run = _run(at.store, call)
            if call not in run:
                continue  # it was erased, and is in no exchange any more
            exchange = exchange_of(run, at.store.message_before(call.agent_id, run[0].id - 1), _results(at, run))
            found.update(dict.fromkeys(exchange.calls, exchange))
    return list(dict.fromkeys(found.values()))


def _results(at: Standing, calls: Sequence[Message]) -> list[Message]:
    """The results of calls, as far as they are of this lineage: others may have answered what they inherited, too."""
    lineage = at.lineage
    return [result for result in at.store.results(calls) if contains(lineage, result.agent_id, result.id)]


def _run(store: Store, call: Message) -> list[Message]:
    """The consecutive calls of one turn around a call, in order."""
    run = calls_before(store, call.agent_id, call.id)[::-1]
    following = store.message_after(call.agent_id, call.id)
    while following is not None and following.kind == "tool_call" and following.turn_id == call.turn_id:
        run.append(following)
        following = store.message_after(call.agent_id, following.id)
    return run


def still_open(at: Standing) -> list[Exchange]:
    """The exchanges of the open turn that wait for the result of a call; one that left the context waits no more."""
    visible = at.visible
    return exchanges(at, [call for call in at.store.waiting(at.record.id) if contains(visible, call.agent_id, call.id)])


def closure(at: Standing, messages: Sequence[Message]) -> list[Message]:
    """The rest of every exchange that `messages` touch, visible or not: what is invisible may be brought back."""
    tools = [message for message in messages if message.kind in ("tool_call", "tool_result")]
    found = exchanges(at, at.store.lookup(message.answers or message.id for message in tools))
    return list(at.store.lookup(sorted(whole([message.id for message in messages], found))))


def behind(at: Standing, position: int) -> Segments:
    """This agent's own visible events after a position, without the summaries that replace only what lies before it."""
    own = intersect(at.visible, [Segment(at.record.id, position + 1, END)])
    return subtract(own, [Segment(at.record.id, each, each) for each in summaries_before(at, position)])


def summaries_before(at: Standing, position: int) -> tuple[int, ...]:
    """The agent's own visible summaries after a position that replace only what lies before it [SPEC 5.7]."""
    own, visible = at.record.id, at.visible
    there, found = (Segment(own, position + 1, at.newest),), dict[int, None]()
    for each in at.store.of_kind("summary", there):  # one may stand for another
        replaced = intersect(_replaced(at, each), there)
        if at.store.size(replaced).messages == sum(contains(replaced, own, other) for other in found):
            found[each] = None
    return tuple(each for each in found if contains(visible, own, each))


def _replaced(at: Standing, summary_id: int) -> Segments:
    event = at.store.event(summary_id)
    operation = operation_of(event) if event is not None else None
    return operation.ranges if isinstance(operation, Summary) else ()


def calls_before(store: Store, agent_id: str, event_id: int) -> list[Message]:
    """The run of calls that the newest message up to `event_id` is of, or is a result directly behind."""
    message = store.message_before(agent_id, event_id)
    while message is not None and message.kind == "tool_result":
        message = store.message_before(agent_id, message.id - 1)
    found: list[Message] = []
    while message is not None and message.kind == "tool_call" and (not found or message.turn_id == found[0].turn_id):
        found.append(message)
        message = store.message_before(agent_id, message.id - 1)
    return found


def ranges_of(at: Standing, messages: Iterable[Message]) -> Segments:
    """What the ids of `messages` stand for: each the range to just before its agent's next message [SPEC 3]."""
    found = list(messages)
    behind = iter(at.store.bounds(tuple(Segment(m.agent_id, m.id + 1, END) for m in found)))
    following = next(behind, None)
    ranges = []
    for m in found:
        # Of those that nothing follows there are no bounds: what comes next is then another's, or stands before it.
        if following is not None and following.agent == m.agent_id and following.first > m.id:
            ranges.append(Segment(m.agent_id, m.id, following.first - 1))
            following = next(behind, None)
        else:
            ranges.append(Segment(m.agent_id, m.id, at.record.head if m.agent_id == at.record.id else END))
    return normal(ranges)


def until_next(at: Standing, agent_id: str, event_id: int) -> int:
    following = at.store.message_after(agent_id, event_id)
    if following is not None:
        return following.id - 1
    return at.record.head if agent_id == at.record.id else END
