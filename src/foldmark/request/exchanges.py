"""Find messages that belong together: exchanges around a call, ranges of ids, and the messages that summaries replace
[SPEC 1, 3].

The cost of each look-up depends on its exchange, not on the turn or the history.

For the provider that reads it, a native summary replaces its source messages [SPEC 5.7]. Any other provider gets the
context of the same operations without the summary, as after `/restore`. A later summary also replaces the sources of an
earlier one, so that nothing is sent twice, whichever of them is restored.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise

from foldmark.core import selections
from foldmark.core.assembly.eviction import blocks_of, forms
from foldmark.core.codec import operation_of
from foldmark.core.events import Event, Summary
from foldmark.core.ports import Snapshot
from foldmark.core.replay import Recorded, advance, counting, recorded, taken_back
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, subtract
from foldmark.core.turns import Exchange, Message, exchange_of, whole
from foldmark.request.standing import Standing, of_kind, showing


def exchanges(moment: Snapshot, at: Standing, calls: Iterable[Message]) -> list[Exchange]:
    """Return the exchanges of these calls. Other messages are ignored."""
    runs, lineage = _runs(moment, {call.id: call for call in calls if call.kind == "tool_call"}), at.lineage
    answers: dict[int | None, list[Message]] = {}
    for result in moment.results([call for _, run in runs for call in run]):
        if contains(lineage, result.agent_id, result.id):  # other agents may also have answered inherited calls
            answers.setdefault(result.answers, []).append(result)
    return [exchange_of(run, before, [each for c in run for each in answers.get(c.id, ())]) for before, run in runs]


def _runs(moment: Snapshot, calls: Mapping[int, Message]) -> list[tuple[Message | None, list[Message]]]:
    """Return the maximal runs of consecutive calls of one turn that contain these calls, each with the message before
    it.

    One statement reads a few messages around each call, then eight times as many around the ends that are still open.
    """
    known: dict[int, Message] = {}
    before: dict[int, int | None] = {}
    behind: dict[int, int | None] = {}

    def follow(call: Message, way: Mapping[int, int | None]) -> tuple[list[Message], int | None]:
        """Return the known rest of the run in one direction, and the id next to it, 0 if unknown."""
        found: list[Message] = []
        while following := way.get((found or [call])[-1].id, 0):
            if known[following].kind != "tool_call" or known[following].turn_id != call.turn_id:
                return found, following
            found.append(known[following])
        return found, following

    unread, count, runs = calls, 4, list[tuple[Message | None, list[Message]]]()
    while unread:
        for place, near in zip(unread.values(), moment.next_to(list(unread.values()), count), strict=True):
            ids = [each.id for each in near]
            known |= zip(ids, near, strict=True)
            including = bisect_right(ids, place.id)
            # With fewer neighbours than requested, there is nothing beyond the outermost one.
            before |= {**({ids[0]: None} if 0 < including < count else {}), **dict(pairwise(ids[::-1]))}
            behind |= {**({ids[-1]: None} if ids and len(ids) - including < count else {}), **dict(pairwise(ids))}
        unread, done, runs = {}, set[int](), []
        for call in calls.values():
            if call.id in done or call.id not in known:  # an erased message belongs to no exchange
                continue
            (earlier, text), (later, following) = follow(call, before), follow(call, behind)
            run = [*reversed(earlier), call, *later]
            unread |= {run[end].id: run[end] for end, neighbour in ((0, text), (-1, following)) if neighbour == 0}
            runs.append((known[text] if text else None, run))
            done |= {each.id for each in run}
        count *= 8
    return runs


def messages_in(moment: Snapshot, segments: Segments) -> list[Message]:
    """Return the messages inside segments, without their texts."""
    return [Message(e.id, e.agent_id, e.turn_id, e.kind, e.answers) for e in moment.select(segments)]


def still_open(moment: Snapshot, at: Standing) -> list[Exchange]:
    """Return the exchanges of the open turn that wait for a result, except for calls that left the context."""
    visible, waiting = at.visible, selections.waiting(moment, at.record.id)
    return exchanges(moment, at, [call for call in waiting if contains(visible, call.agent_id, call.id)])


def closure(moment: Snapshot, at: Standing, messages: Sequence[Message]) -> list[Message]:
    """Return the rest of every exchange that `messages` touch, visible or not: invisible messages may be restored."""
    calls = {message.id: message for message in messages if message.kind == "tool_call"}
    answered = {each.answers for each in messages if each.kind == "tool_result" and each.answers is not None}
    found = exchanges(moment, at, [*calls.values(), *moment.lookup(sorted(answered - calls.keys()))])
    return moment.lookup(sorted(whole([message.id for message in messages], found)))


def visible_after(moment: Snapshot, at: Standing, position: int) -> Segments:
    """Return this agent's own visible events after a position, without the summaries that replace only earlier
    messages."""
    own = intersect(at.visible, [Segment(at.record.id, position + 1, END)])
    return subtract(own, [Segment(at.record.id, each, each) for each in summaries_before(moment, at, position)])


def summaries_before(moment: Snapshot, at: Standing, position: int, agents: Iterable[str] = ()) -> tuple[int, ...]:
    """Return the visible summaries of these agents, by default this one, after a position that replace only earlier
    messages [SPEC 5.7]. A summary counts as replacing nothing of agents that are not named."""
    later = normal(Segment(agent, position + 1, at.newest) for agent in agents or (at.record.id,))
    found = dict[int, str]()
    # One may replace another: in the order of the log, whatever agents recorded them.
    for event in sorted(moment.select(later, "summary", expected=END), key=lambda event: event.id):
        operation = operation_of(event)
        replaced = intersect(operation.ranges if isinstance(operation, Summary) else (), later)
        # It counts only if everything that it replaces after the position is such a summary, so nothing else is lost.
        if moment.size(replaced).messages == sum(contains(replaced, owner, other) for other, owner in found.items()):
            found[event.id] = event.agent_id
    return tuple(each for each, owner in found.items() if contains(at.visible, owner, each))


def calls_before(moment: Snapshot, agent_id: str, event_id: int) -> list[Message]:
    """Return the run of calls that ends with the newest message up to `event_id`, or directly before its results."""
    message = selections.message_before(moment, agent_id, event_id)
    while message is not None and message.kind == "tool_result":
        message = selections.message_before(moment, agent_id, message.id - 1)
    found: list[Message] = []
    while message is not None and message.kind == "tool_call" and (not found or message.turn_id == found[0].turn_id):
        found.append(message)
        message = selections.message_before(moment, agent_id, message.id - 1)
    return found


def ranges_of(moment: Snapshot, at: Standing, messages: Iterable[Message]) -> Segments:
    """Return the ranges of `messages`: each reaches to just before its agent's next message [SPEC 3]."""
    return normal(until_next(moment, at, [(message.agent_id, message.id) for message in messages]))


def until_next(moment: Snapshot, at: Standing, places: Sequence[tuple[str, int]]) -> list[Segment]:
    """Return a segment from each of these events to just before its agent's next message."""
    behind = iter(moment.bounds(tuple(Segment(agent, event + 1, END) for agent, event in places)))
    following = next(behind, None)
    found = []
    for agent, event in places:
        # The last message of an agent has no next one: the bounds found next belong to another agent, or are earlier.
        if following is not None and following.agent == agent and following.first > event:
            found.append(Segment(agent, event, following.first - 1))
            following = next(behind, None)
        else:
            found.append(Segment(agent, event, at.record.head if agent == at.record.id else END))
    return found


def reaching(moment: Snapshot, at: Standing, ranges: Segments) -> Segments:
    """Return visible `ranges`, each extended to just before its agent's next message. Events after the last message
    belong to it; they may be hidden now and visible later [SPEC 3]."""
    # One statement reads the messages in each range and after it; ranges without a message have no bounds.
    parts = (part for each in ranges for part in (each, Segment(each.agent, each.last + 1, END)))
    found = deque(moment.bounds(tuple(parts)))
    reached: list[Segment] = []
    for agent, first, last in ranges:
        inside = bool(found) and found[0].agent == agent and first <= found[0].first <= last
        if inside:
            found.popleft()
        follows = found.popleft() if found and found[0].agent == agent and found[0].first > last else None
        if inside:
            end = follows.first - 1 if follows else at.record.head if agent == at.record.id else END
            reached.append(Segment(agent, first, end))
    return normal((*ranges, *reached))


def visible_except(moment: Snapshot, at: Standing, stays: Iterable[int]) -> Segments:
    """Return the visible segments without these messages, the rest of their exchanges, and `system` messages."""
    kept = [*moment.lookup(stays), *moment.lookup(of_kind(moment, at, "system", at.visible))]
    return subtract(at.visible, ranges_of(moment, at, [*kept, *closure(moment, at, kept)]))


def read_by(moment: Snapshot, at: Standing, reads: Callable[[Event], bool]) -> Standing:
    """Return the standing of the agent for a provider: without native summaries that the provider does not read.

    Inherited summaries stay: their sources were not handed down. So do summaries without sources in the log.
    """
    own = (Segment(at.record.id, 1, at.newest),)
    shown = of_kind(moment, at, "summary", intersect(at.visible, own))
    if not any(_is_foreign(moment, at, each, reads) for each in shown):
        return at
    operations = recorded(selections.operations(moment, at.record.id))
    back = taken_back(operations)
    out, behind = set[int](), normal(Segment(at.record.id, each, each) for each in shown)
    # Newest first: leaving out a summary brings back the summaries that it replaced, which may be foreign as well.
    for event_id, operation in reversed(operations):
        present = event_id not in back and contains(behind, at.record.id, event_id)
        if isinstance(operation, Summary) and present and _is_foreign(moment, at, event_id, reads):
            out.add(event_id)
            behind = normal((*behind, *operation.ranges))
    return _without(moment, at, operations, back | out)


def _without(moment: Snapshot, at: Standing, operations: Sequence[Recorded], out: Collection[int]) -> Standing:
    fold = advance(at.origin, counting(at.record.id, operations, out.__contains__))
    return showing(moment, at, fold.segments)


def read_as(reader: str) -> Callable[[Event], bool]:
    """Return a predicate that is True for summaries that a provider with this form can read (`eviction`)."""
    return lambda event: bool(blocks_of(event, reader))


def _is_foreign(moment: Snapshot, at: Standing, event_id: int, reads: Callable[[Event], bool]) -> bool:
    event = selections.event(moment, event_id)
    return event is not None and bool(forms(event)) and bool((event.data or {}).get("ranges")) and not reads(event)
