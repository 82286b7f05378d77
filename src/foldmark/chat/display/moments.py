"""The moments of an agent's timeline: its operations on a line, and its context and request at each moment.

A step leads to the next message or operation; records such as state blocks and settings are skipped. Cost grows with
the operations and the turns shown, not with the history.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping

from msgspec import Struct
from rich.cells import cell_len

from foldmark.chat.display.operated import WHO, told
from foldmark.commands.history import difference_lines
from foldmark.commands.show import context_text, message_line, rebuilt_text, request_text
from foldmark.core import selections
from foldmark.core.agents import Size
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import Event
from foldmark.core.wording import one_line
from foldmark.cost.messages import next_messages
from foldmark.log import Agent
from foldmark.operations.differences import difference
from foldmark.operations.history import OperationEntry, operations, sized
from foldmark.request.recorded import request_at
from foldmark.request.standing import showing
from foldmark.sending.rebuilding import rebuilt

MOST_TURNS = 30
"""Maximum number of turns shown of a past context: the newest."""

MOST_CHARACTERS, BEGINNING = 40_000, 2_000
"""Maximum characters shown of a context or a request, and how many of them come from its beginning."""

HERE, SECOND = "█", "◆"


class MomentList(Struct, frozen=True):
    """An agent's operations by the ids of their events, oldest first, with its first and its newest event; both are 0
    without events. The first event of a fork is the one that created it."""

    first: int
    newest: int
    operations: Mapping[int, OperationEntry]
    places: tuple[int, ...]

    def operation_before(self, event_id: int) -> int:
        """Return the newest operation before an event; the first event if there is none."""
        place = bisect_left(self.places, event_id)
        return self.places[place - 1] if place else self.first

    def operation_after(self, event_id: int) -> int:
        """Return the oldest operation after an event; the event itself if there is none."""
        place = bisect_right(self.places, event_id)
        return self.places[place] if place < len(self.places) else event_id

    def line(self, at: int, second: int | None, width: int) -> str:
        """Return the timeline as `width` columns, with a sign for each operation. If several share a column, the newest
        one's sign is shown."""
        if not self.newest:
            return "─" * width
        cells = ["─"] * width
        for event_id, entry in self.operations.items():
            sign = told(operation_of(entry.event), entry.words)[0]
            cells[self._column(event_id, width)] = sign if cell_len(sign) == 1 else "┼"
        if second is not None:
            cells[self._column(second, width)] = SECOND
        cells[self._column(at, width)] = HERE
        return "".join(cells)

    def _column(self, event_id: int, width: int) -> int:
        return (event_id - self.first) * (width - 1) // max(1, self.newest - self.first)


def timeline(agent: Agent) -> MomentList:
    """Return the timeline of an agent. Cost grows with its operations."""
    with agent.reading() as (moment, at):
        done = {entry.event.id: entry for entry in operations(moment, at)}
        first = at.record.fork_event or next((event.id for event in selections.events_after(moment, agent.id, 0, 1)), 0)
    return MomentList(first, at.newest, done, tuple(done))


def before(agent: Agent, line: MomentList, event_id: int) -> int:
    """Return the newest message or operation before an event; the first event if there is none."""
    with agent.log.store.read() as moment:
        message = selections.message_before(moment, agent.id, max(0, event_id - 1))
    return max(message.id if message is not None else line.first, line.operation_before(event_id))


def after(agent: Agent, line: MomentList, event_id: int) -> int:
    """Return the oldest message or operation after an event; the event itself if there is none."""
    with agent.log.store.read() as moment:
        message = selections.message_after(moment, agent.id, event_id)
    found = [
        each for each in (message.id if message is not None else 0, line.operation_after(event_id)) if each > event_id
    ]
    return min(found, default=event_id)


class Past(Struct, frozen=True):
    """A moment. `head` describes the event, its reason, and the sizes of the context before and after; `shown` is the
    context or request at that moment, and `changed` lists the changes."""

    head: str
    shown: str
    changed: str


def past(agent: Agent, line: MomentList, at: int, second: int | None = None, *, request: bool = False) -> Past:
    """Return the moment after event `at` with its context or `request`, and the changes made by the event or between it
    and a `second` event. Raises CommandError for an event outside the agent's lineage."""
    with agent.log.store.read() as moment:
        now = agent.stood(moment, at)
        earlier = at - 1 if second is None else second
        begins = earlier < max(1, line.first)
        then = showing(moment, now, ()) if begins else agent.stood(moment, earlier)
        found = difference(moment, *((then, now) if earlier <= at else (now, then)))
        coming = next_messages(agent, moment, agent.standing_in(moment))
        before, after = coming.of(found.before), coming.of(found.after)
        event = selections.event(moment, at)
    entry = line.operations.get(at)
    head = _head(event, entry, agent.log.given.minute, *((before, after) if second is None else (None, None)))
    changed = difference_lines(found, before, after, coming.tokens)
    if second is None:
        changed[0] = "Changed with this event:" if changed[1:] else "Nothing changed in the context with this event."
    shown = _request(agent, at) if request else _context(agent, at)
    return Past(head, _ends(shown), "\n".join(changed))


def _ends(text: str) -> str:
    """Return a text. If it is too long, its middle is left out."""
    cut = len(text) - MOST_CHARACTERS
    if cut <= 0:
        return text
    return f"{text[:BEGINNING]}\n\n… {cut:,} characters …\n\n{text[BEGINNING + cut :]}"


def _head(
    event: Event | None,
    entry: OperationEntry | None,
    time_of: Callable[[str], str],
    before: Size | None,
    after: Size | None,
) -> str:
    if event is None:
        return "There is no event with this id; the context is that of the event before it."
    who = WHO.get(event.actor, event.actor)
    what = message_line(event).strip().splitlines()[0].partition(" ")[2] if entry is None else entry.words
    parts = [f"{time_of(event.created_at)} · {who} · {one_line(what)}"]
    parts += [f"reason: {one_line(event.reason)}"] if entry is not None and event.reason else []
    parts += [f"taken back by {entry.by}"] if entry is not None and entry.by is not None else []
    if before is not None and after is not None:
        parts.append(f"context {sized(before, recorded=False)} → {sized(after, recorded=False)}")
    return " · ".join(parts)


def _context(agent: Agent, at: int) -> str:
    context = agent.at(at)
    turns = context.turns(MOST_TURNS)
    older = context.size.messages - sum(len(turn.messages) for turn in turns)
    with agent.reading() as (moment, now):
        tokens_of = next_messages(agent, moment, now).tokens
    return context_text(agent.name or agent.id, context, turns, older, tokens_of, agent.log.given.minute)


def _request(agent: Agent, at: int) -> str:
    """Return the newest request up to a moment, rebuilt. If none had been sent yet, return the request that would have
    been."""
    with agent.log.store.read() as moment:
        sent = request_at(moment, agent.id, at)
        standing = agent.stood(moment, at)
    if sent is not None:
        return rebuilt_text(agent, rebuilt(agent, sent.number))
    request = agent.next_request(at=standing)
    opening = f"No request was sent up to event {at}. With the settings of now, this one would have been:"
    return request_text(opening, agent.at(at), request)


def way_back(agent: Agent, entry: OperationEntry) -> tuple[str, str]:
    """Return the question whether to undo an operation, with the cost, and the command that undoes it. Writes nothing.
    Raises CommandError if the operation cannot be undone."""
    if entry.back is None:
        raise CommandError(f"the {entry.words} cannot be taken back")
    preview = agent.do(f"{entry.back} --preview").text
    return f"{preview}\n\nCarry out {entry.back}?", entry.back
