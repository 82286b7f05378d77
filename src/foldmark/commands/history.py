"""The past of a context: its operations and checkpoints, why an event is sent or not, and the context at other moments:
`/operations`, `/marks`, `/context explain | at | diff` [SPEC 4].
"""

from collections.abc import Callable, Sequence
from typing import Any

from foldmark.commands.live_request import explained, is_live
from foldmark.commands.registry import CommandCall, command
from foldmark.commands.show import context_json, context_text, message_json, message_line, turn_title
from foldmark.core import selections
from foldmark.core.agents import Size
from foldmark.core.events import Event
from foldmark.core.ports import Snapshot
from foldmark.core.request import Request
from foldmark.core.segments import Segment
from foldmark.core.turns import Turn, newest_turns
from foldmark.core.wording import count, one_line, title
from foldmark.cost.messages import NOT_SENT, SENT, NextMessages, next_messages
from foldmark.log import Result
from foldmark.operations.differences import MOST_TURNS, Difference, difference
from foldmark.operations.history import (
    Explanation,
    MarkEntry,
    OperationEntry,
    everything_done,
    explain,
    marks,
    sized,
)
from foldmark.request.standing import Standing
from foldmark.request.usage import left_out

LISTED = 20
"""Number of operations that are listed by default."""

NEWEST_TURNS = 200
"""Number of newest turns of a past context that are shown."""


@command("operations [N]", at_once=True)
def list_operations(call: CommandCall) -> Result:
    """List the newest operations, in force or taken back, and how to take each back."""
    newest = call.listed(LISTED, "operations")
    with call.agent.reading() as (moment, at):
        found = everything_done(moment, at)
    shown = found[-newest:]
    lines = [_line(done, call.agent.log.given.minute(done.event.created_at)) for done in shown]
    if older := len(found) - len(shown):
        lines.insert(0, f"{count(older, 'older operation')}; /operations {len(found)} lists all")
    text = "\n".join(lines) or "There is no operation yet."
    return Result(text, None, {"operations": [done.data() for done in shown], "older": older})


def _line(done: OperationEntry, time: str) -> str:
    return " · ".join([f"{done.event.id:>6}", *done.parts(time), *([done.back] if done.back else [])])


@command("marks", at_once=True)
def _marks(call: CommandCall) -> Result:
    """List the checkpoints and how many messages follow each."""
    with call.agent.reading() as (moment, at):
        found = marks(moment, at)
    text = (
        "\n".join(_mark(mark, call.agent.log.given.minute(mark.event.created_at)) for mark in found)
        or "No checkpoint yet. Use /mark."
    )
    return Result(text, None, {"marks": [mark.data() for mark in found]})


def _mark(mark: MarkEntry, time: str) -> str:
    event = mark.event
    parts = [f"{mark.name} · event {event.id} · {time} · {event.actor}"]
    parts += [f"reason: {one_line(event.reason)}"] if event.reason else []
    parts.append(f"{sized(mark.behind)} after it" if mark.first else "nothing after it")
    parts += [title(mark.first.content)] if mark.first and mark.first.kind == "user" else []
    parts += [f"/rewind {mark.name}"] if mark.first else []
    return " · ".join(parts)


@command("context explain ID", at_once=True)
def _explain(call: CommandCall) -> Result:
    """Say why an event is or is not in the request."""
    event_id = call.number("ID")
    with call.agent.reading() as (moment, at):
        found = explain(moment, at, event_id)
        if is_live(call.agent):
            where, in_request, why = explained(found)
        else:
            coming = next_messages(call.agent, moment, at)
            where, in_request, why = _explained(coming, found)
        if in_request and found.event.kind == "tool_result":
            why += _edited(moment, at)
    lines = [message_line(found.event), *([_effect(found.did)] if found.did else []), f"It is {where}: {why}."]
    data = {
        "event": message_json(found.event),
        "in_context": found.in_context,
        "reason": found.reason,
        "because": list(map(_operation, found.because)),
        "did": found.did.data() if found.did else None,
        "in_request": in_request,
        "why": why,
    }
    return Result("\n".join(lines), None, data)


def _edited(moment: Snapshot, at: Standing) -> str:
    """Describe the results that the provider itself left out of the newest request. Providers report only their
    number."""
    event = selections.newest(moment, "usage", (Segment(at.record.id, 1, at.last),))
    altered = (event.data or {}).get("altered") if event is not None else None
    known = [entry for entry in altered if isinstance(entry, dict)] if isinstance(altered, list) else []
    omitted = left_out(known)
    return f"; because of provider_editing, {omitted}, the oldest first" if omitted else ""


def _operation(event: Event) -> dict[str, Any]:
    return {"id": event.id, "operation": event.kind, "actor": event.actor, "reason": event.reason}


def _effect(done: OperationEntry) -> str:
    """Describe the effect of an operation, and whether it is in force."""
    event = done.event
    took = f": {done.took}" if done.took else ""
    reason = f" Reason: {one_line(event.reason)}." if event.reason else ""
    text = f"What it did: {done.words}, by a {event.actor} at {event.created_at[:19]}Z{took}.{reason}"
    if done.back is None:
        return text
    if done.by is not None:
        return f"{text} Operation {done.by} took it back; {done.back} would bring it into force again."
    return f"{text} It is in force; {done.back} takes it back."


def _explained(coming: NextMessages, found: Explanation) -> tuple[str, bool, str]:
    """Return where an event is, whether the next request holds it, and why."""
    in_request, why = _in_request(coming.request, found)
    if in_request:
        return SENT, in_request, why
    event = found.event
    if found.reason in ("operation", "visible", "evicted"):
        return coming.place(event), in_request, why
    return NOT_SENT, in_request, why


def _in_request(request: Request | None, found: Explanation) -> tuple[bool, str]:
    event = found.event
    if request is None:
        return False, f"{found.text}; no request can be made at the moment"
    manifest, edge = request.manifest, request.manifest.edge
    for part in manifest.parts:
        if part.event == event.id:
            how = part.how if not part.about else f"{part.how} ({part.about})"
            return True, f"{found.text}; sent {how} in layer '{part.layer}'"
    if not found.in_context:
        return False, f"{found.text}; it is sent with the next turn" if found.reason == "in force" else found.text
    for left in manifest.left_out:
        if left.event == event.id:
            return False, f"{left.why}: {left.detail}"
    if edge.why == "planning":
        return False, f"the planning conversation is sent alone until it ends ({edge.reason})"
    keep = f"; `/pin {event.turn_id}` keeps it" if event.turn_id is not None else ""
    return False, f"the window begins at event {edge.first}, after it ({edge.reason}){keep}"


@command("context at ID", at_once=True)
def _at(call: CommandCall) -> Result:
    """Show the context as it was after event ID: its size, and its newest 200 turns."""
    event_id = call.number("ID")
    context = call.agent.at(event_id)
    name = call.agent.name or call.agent.id
    # A context may have a million messages: show only the newest, and its size.
    turns = newest_turns(reversed(context.messages), NEWEST_TURNS)
    older = context.size.messages - sum(len(turn.messages) for turn in turns)
    data = {**context_json(call.agent.id, context, turns), "older_messages": older}
    with call.agent.reading() as (moment, at):
        coming = next_messages(call.agent, moment, at)
    return Result(context_text(name, context, turns, older, coming.tokens, call.agent.log.given.minute), None, data)


@command("context diff ID [ID2]", at_once=True)
def _diff(call: CommandCall) -> Result:
    """Show the changes of the context from event ID to ID2, or to now."""
    agent = call.agent
    first, second = call.number("ID"), call.get("ID2")
    with agent.log.store.read() as moment:
        then = agent.stood(moment, first)
        now = agent.standing_in(moment) if second is None else agent.stood(moment, call.number("ID2"))
        found, coming = difference(moment, then, now), next_messages(agent, moment, agent.standing_in(moment))
        before, after = coming.of(then), coming.of(now)
        ids = {
            name: [each.id for each in moment.select(ranges)]
            for name, ranges in (("left", found.left), ("came", found.came))
        }
    data = {
        "from": then.newest,
        "to": now.newest,
        "before": before._asdict(),
        "after": after._asdict(),
        **ids,
        "operations": list(map(_operation, found.operations)),
        "marks": {"before": then.fold.marks, "after": now.fold.marks},
        "pins": {"before": list(then.fold.pins), "after": list(now.fold.pins)},
        "evicted": {"before": sorted(then.fold.evicted), "after": sorted(now.fold.evicted)},
        "state": dict(zip(("before", "after"), found.states, strict=True)),
        "scratchpad": dict(zip(("before", "after"), found.scratchpads, strict=True)),
    }
    return Result("\n".join(difference_lines(found, before, after, coming.tokens)), None, data)


def difference_lines(found: Difference, before: Size, after: Size, tokens_of: Callable[[Event], int]) -> list[str]:
    """Return a difference as lines for a person, with the sizes of its contexts `before` and `after` and the tokens of
    its messages."""
    sizes = " → ".join(sized(each, recorded=False) for each in (before, after))
    lines = [f"From event {found.before.newest} to {found.after.newest}: {sizes}"]
    lines += [
        f"  {each.id:>6} {each.kind} (by a {each.actor})" + (f": {one_line(each.reason)}" if each.reason else "")
        for each in found.operations
    ]
    lines += [*_turns("−", found.turns_left, tokens_of), *_turns("+", found.turns_came, tokens_of)]
    lines += [f"mark {mark.name}: {_place(mark.before)} → {_place(mark.after)}" for mark in found.marks]
    pins = {**dict.fromkeys(found.pinned, "pinned"), **dict.fromkeys(found.unpinned, "unpinned")}
    lines += [f"turn {turn}: {what}" for turn, what in sorted(pins.items())]
    results = {**dict.fromkeys(found.evicted, "evicted"), **dict.fromkeys(found.sent_again, "sent again")}
    lines += [f"result {result}: {what}" for result, what in sorted(results.items())]
    both = (("state block", found.states), ("scratchpad", found.scratchpads))
    return lines + [f"the {what} changed" for what, (was, now) in both if was != now]


def _turns(sign: str, turns: Sequence[Turn], tokens_of: Callable[[Event], int]) -> list[str]:
    lines = [
        f"{sign} turn {turn.id or '-'}: {count(len(turn.messages), 'message')}, "
        f"~{sum(map(tokens_of, turn.messages)):,} tokens · {turn_title(turn.messages)}"
        for turn in turns[-MOST_TURNS:]
    ]
    return [f"{sign} … and older turns", *lines] if len(turns) > MOST_TURNS else lines


def _place(event_id: int | None) -> str:
    return "not set" if event_id is None else f"at event {event_id}"


OPERATIONS = (list_operations, _marks)
POINTS = (_explain, _at, _diff)
