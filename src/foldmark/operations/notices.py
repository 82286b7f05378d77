"""Notices in place of results whose call has left the context [SPEC 3].

A model that rewinds in the middle of a turn must learn afterwards that it did so, why, and what the question was;
otherwise it would try the same again. So the notice also quotes the messages that left.
"""

from foldmark.core import selections
from foldmark.core.events import Clear, Drop, Event, Filter, Operation, Rewind, Summary, Undo
from foldmark.core.ports import Snapshot
from foldmark.core.replay import recorded
from foldmark.core.segments import Segment, contains
from foldmark.core.turns import Message
from foldmark.core.wording import listing, one_line, quoted
from foldmark.request.exchanges import exchanges
from foldmark.request.planning import talk
from foldmark.request.standing import Standing

_ASKED = {"model": "at your request", "human": "by the user", "system": "by the system"}


def notice(moment: Snapshot, at: Standing, call: Message, call_id: str, result: str) -> str:
    """Return the text of the user message that replaces a result: the events since the call, and the result."""
    operations = selections.operations(moment, at.record.id, after=call.id)
    cause, more = "The call has left the context.", ""
    for event in reversed(operations):
        ((_, operation),) = recorded([event])
        if words := happened(operation):
            cause = f"{words} {_ASKED[event.actor]}{_times(moment, at, call, event, operation)}."
            if isinstance(operation, Clear | Rewind) and not _is_reported(moment, at, event):
                more = _lost_texts(moment, at, call) + _lost_results(moment, at, call)
            break
    begins = f"The result of call {one_line(call_id)}, which stood before that, begins:"
    return f"[Foldmark: {cause} {begins}]\n{quoted(result)}{more}"


def happened(operation: Operation) -> str | None:
    """Describe the effect of an operation that removed messages, as the beginning of a sentence; None for any other."""
    match operation:
        case Rewind(place=place):
            return f"Rewound to {place}"
        case Clear():
            return "Context cleared"
        case Drop(turns=(turn,)) | Undo(turn=turn):
            return f"Turn {turn} was taken out of the context"
        case Drop(turns=turns):
            return f"Turns {listing(turns)} were taken out of the context"
        case Filter(mode=mode):
            return f"A part of the context was removed (/{mode})"
        case Summary():
            return "A part of the context was replaced by a summary"
        case _:
            return None


def _times(moment: Snapshot, at: Standing, call: Message, event: Event, operation: Operation) -> str:
    """Return a remark on how often the model has returned to the same place in this turn, from the second time on."""
    if event.actor != "model" or call.turn_id is None or not isinstance(operation, Clear | Rewind):
        return ""
    since = recorded(selections.operations(moment, at.record.id, after=call.turn_id))
    same = [each for _, each in since if happened(each) == happened(operation)]
    return f", {len(same)} times in this turn now: try something else" if len(same) > 1 else ""


def _is_reported(moment: Snapshot, at: Standing, event: Event) -> bool:
    """Return True if another notice has already reported the operation."""
    newest = selections.message_before(moment, at.record.id, at.newest)
    return newest is not None and newest.id > event.id


def _lost_texts(moment: Snapshot, at: Standing, call: Message) -> str:
    """Return the model's text next to its call and the person's question, if these left with the call."""
    text = _text_of_call(moment, at, call)
    question = None if call.turn_id is None else selections.event(moment, call.turn_id)
    parts = []
    if text is not None and text.content.strip() and not _visible(at, text):
        parts.append(f"\n[Foldmark: With that call you had said:]\n{quoted(text.content)}")
    if question is not None and question.kind == "user" and question.actor == "human" and not _visible(at, question):
        parts.append(
            f"\n[Foldmark: The user's message of this turn, gone as well, begins:]\n{quoted(question.content)}"
        )
    return "".join(parts)


def _lost_results(moment: Snapshot, at: Standing, call: Message) -> str:
    """Return the results of the other calls of the same answer, if these left with the call [SPEC 3]."""
    parts = []
    for exchange in exchanges(moment, at, [call]):
        for result in moment.events(exchange.results):
            if result.answers != call.id and not _visible(at, result):
                head = f"[Foldmark: The result of call {one_line(result.call_id or '')}, gone as well, begins:]"
                parts.append(f"\n{head}\n{quoted(result.content)}")
    return "".join(parts)


def _text_of_call(moment: Snapshot, at: Standing, call: Message) -> Event | None:
    """Return the text message of the answer that made the call."""
    before = call
    while before.kind == "tool_call":
        found = selections.message_before(moment, before.agent_id, before.id - 1)
        if found is None or found.turn_id != call.turn_id:
            return None
        before = found
    return selections.event(moment, before.id) if before.kind == "assistant" else None


def _visible(at: Standing, event: Event) -> bool:
    return contains(at.visible, event.agent_id, event.id)


def shown(moment: Snapshot, at: Standing, call: Message, *, waits: bool) -> bool:
    """Return True if a call is in the context, or in the planning conversation that ends with this turn.

    A call that still `waits` for its result in the open turn was not erased, and is not looked up.
    """
    if at.fold.leaving is not None and contains(talk(moment, at), call.agent_id, call.id):
        return True
    return contains(at.fold.segments, call.agent_id, call.id) and (waits or _exists(moment, at, call))


def awaiting(moment: Snapshot, at: Standing, call_id: str) -> tuple[Message | None, bool]:
    """Return the newest call with this id in the lineage that waits for a result, or else the newest call; and True if
    it is answered. A call waits if it has no result, erased or not, or if all of its results have left the context and
    it has not: a client may send another result in place of one."""
    newest: Message | None = None
    lineage, visible = at.lineage, at.visible
    for agent_id in dict.fromkeys((at.record.id, *(segment.agent for segment in reversed(lineage)))):
        for call in moment.calls(agent_id, call_id):
            if not contains(lineage, call.agent_id, call.id):
                continue
            results = [r for r in moment.results([call], erased=True) if contains(lineage, r.agent_id, r.id)]
            left = contains(visible, call.agent_id, call.id) and not any(
                contains(visible, each.agent_id, each.id) for each in results
            )
            if not results or left:
                return call, False
            newest = newest or call
    return newest, newest is not None


def _exists(moment: Snapshot, at: Standing, call: Message) -> bool:
    return moment.size((Segment(call.agent_id, call.id, call.id),)).messages > 0
