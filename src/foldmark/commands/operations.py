"""`/operations` and `/marks`: past operations and how to undo them, and the marks to return to [SPEC 4]."""

from foldmark.commands.registry import Command, CommandCall
from foldmark.core.agents import minute
from foldmark.core.errors import CommandError
from foldmark.core.wording import count, one_line, title
from foldmark.log import Result
from foldmark.operations.history import MarkEntry, OperationEntry, marks, operations, sized

LISTED = 20
"""Number of operations that are listed by default."""


def listed(call: CommandCall) -> Result:
    """List the newest operations of the agent, oldest first; argument N is their number."""
    newest = LISTED if call.get("N") is None else call.number("N")
    if not newest:
        raise CommandError(
            f"N is a number from 1, how many operations to list; without it the newest {LISTED} are listed"
        )
    with call.agent.reading() as (moment, at):
        found = operations(moment, at)
    shown = found[-newest:]
    lines = [_line(done) for done in shown]
    if older := len(found) - len(shown):
        lines.insert(0, f"{count(older, 'older operation')}; /operations {len(found)} lists all")
    text = "\n".join(lines) or "There is no operation yet."
    return Result(text, None, {"operations": [done.data() for done in shown], "older": older})


def _line(done: OperationEntry) -> str:
    event = done.event
    parts = [f"{event.id:>6} · {minute(event.created_at)} · {event.actor} · {done.words}"]
    parts += [f"reason: {one_line(event.reason)}"] if event.reason else []
    parts += [done.took] if done.took else []
    parts += [f"taken back by {done.by}"] if done.by is not None else []
    parts += [done.back] if done.back else []
    return " · ".join(parts)


def _marks(call: CommandCall) -> Result:
    with call.agent.reading() as (moment, at):
        found = marks(moment, at)
    text = "\n".join(map(_mark, found)) or "No checkpoint yet. Use /mark."
    return Result(text, None, {"marks": [mark.data() for mark in found]})


def _mark(mark: MarkEntry) -> str:
    event = mark.event
    parts = [f"{mark.name} · event {event.id} · {minute(event.created_at)} · {event.actor}"]
    parts += [f"reason: {one_line(event.reason)}"] if event.reason else []
    parts.append(f"{sized(mark.behind)} after it" if mark.first else "nothing after it")
    parts += [title(mark.first.content)] if mark.first and mark.first.kind == "user" else []
    parts += [f"/rewind {mark.name}"] if mark.first else []
    return " · ".join(parts)


OPERATIONS = (
    Command(
        "operations",
        "[N]",
        "List the newest operations, in force or taken back, and how to take each back.",
        listed,
        at_once=True,
    ),
    Command("marks", "", "List the checkpoints with what lies after each.", _marks, at_once=True),
)
