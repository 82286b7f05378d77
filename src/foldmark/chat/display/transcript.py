"""The transcript: an agent's lineage, page by page, as a person reads it.

A page shows the messages in the context, the marks, the edge of the window, a line for each operation, and an
expandable line for messages that left the context. Cost grows with the page and the operations, not with the history.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from foldmark.chat.display.operated import brief, line
from foldmark.core import selections
from foldmark.core.agents import Size
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import Event, Mark
from foldmark.core.ports import Snapshot
from foldmark.core.request import ERROR
from foldmark.core.segments import END, Segment, Segments, contains, intersect, normal, since, subtract, until
from foldmark.core.wording import count, title
from foldmark.cost.messages import OUT, SENT, NextMessages
from foldmark.operations.history import OperationEntry, kept_out, operations
from foldmark.request.standing import Standing

LIMIT = 40
"""Minimum number of messages on a page, if there are enough. A page holds whole turns unless a turn is longer than a
page."""

COUNTED = 500
"""Maximum number of messages behind a page whose calls are counted for the size of the turn that goes on there."""

_CALLS = ("tool_call", "tool_result")

TITLE = 160
"""Maximum number of characters of a tool call's title."""


class TurnSize(NamedTuple):
    """The size of a turn, shown next to the message that opened it. `calls` is the number of its tool calls; 0 if it
    goes on for more than `COUNTED` messages after its page."""

    tokens: int
    calls: int
    pinned: bool


class Said(Struct, frozen=True):
    """A message that is text. `opens` is the size of its turn if the message opened the turn. `outside` is True if it
    is in the context but not in the next request, `left` if it is not in the context."""

    id: int
    turn: int | None
    kind: str
    actor: str
    text: str
    interrupted: bool = False
    opens: TurnSize | None = None
    outside: bool = False
    left: bool = False


class Call(Struct, frozen=True):
    """A tool call with its result, and the `tokens` of both. `result` is the result's event, or None before it arrives.
    `evicted` is the operation that evicted the result, 0 for an operation of the parent."""

    id: int
    name: str
    about: str
    text: str
    tokens: int
    result: int | None
    evicted: int | None = None

    @property
    def failed(self) -> bool:
        """True if the result is an error."""
        return self.text.startswith(ERROR)


class ToolCallGroup(Struct, frozen=True):
    """Consecutive tool calls of one turn."""

    id: int
    calls: tuple[Call, ...]
    outside: bool = False
    left: bool = False

    @property
    def line(self) -> str:
        """`4 tool calls · Read tags.py, Bash pytest …`."""
        named = ", ".join(f"{call.name} {call.about}".strip() for call in self.calls[:2])
        more = " …" if len(self.calls) > 2 else ""
        return f"{count(len(self.calls), 'tool call')} · {named}{more}"


class Flag(Struct, frozen=True):
    """A mark in force."""

    id: int
    name: str


class WindowEdge(Struct, frozen=True):
    """The beginning of the window, and the size of the context before it."""

    id: int
    before: Size

    @property
    def line(self) -> str:
        """`the window begins here · before it 48 messages, 21K, not sent`."""
        before = f"{count(self.before.messages, 'message')}, {brief(self.before.tokens)}"
        return f"the window begins here · before it {before}, not sent"


class Operated(Struct, frozen=True):
    """An operation at its place in time. `back` is the command that undoes it, which `line` does not name."""

    id: int
    line: str
    back: str | None


class Gap(Struct, frozen=True):
    """Messages that left the context, as one line. `id` is the first event of `segments`. `operation` is the one that
    keeps them out of the context; None if the log does not record it."""

    id: int
    segments: Segments
    line: str
    back: str | None
    operation: int | None
    opened: bool = False


class _Step(NamedTuple):
    """A tool call or its result, before consecutive calls are merged into one entry."""

    event: Event
    tokens: int
    outside: bool
    left: bool

    @property
    def id(self) -> int:
        return self.event.id


Entry: TypeAlias = Said | ToolCallGroup | Flag | WindowEdge | Operated | Gap


class Page(Struct, frozen=True):
    """Entries with ids from `first` to `last`, and whether there are `older` and `newer` ones. `newest` is the agent's
    newest event."""

    entries: tuple[Entry, ...]
    first: int
    last: int
    newest: int

    @property
    def older(self) -> bool:
        """True if there are older entries."""
        return self.first > 0

    @property
    def newer(self) -> bool:
        """True if there are newer entries."""
        return self.last < END


def page(
    moment: Snapshot,
    at: Standing,
    coming: NextMessages,
    *,
    before: int = END,
    after: int | None = None,
    opened: Segments = (),
    folder: str = "",
) -> Page:
    """Return the page of an agent's transcript that ends before event `before`, or begins after event `after`.

    Messages that left the context are shown only if they are in `opened`. Paths in `folder` are relative to it.
    """
    lineage = until(at.lineage, at.newest)
    shown = normal((*at.visible, *intersect(lineage, opened)))
    if after is None:
        read = moment.select(until(shown, before - 1), newest_first=True, expected=LIMIT + 1)
        messages, beyond = _whole_turns(read)
        first, last = messages[-1].id if beyond else 0, before - 1 if before < END else END
        messages.reverse()
    else:
        messages, beyond = _whole_turns(moment.select(since(shown, after + 1), expected=LIMIT + 1))
        first, last = after + 1, beyond - 1 if beyond else END
    entries = operations(moment, at)
    rows: list[Entry] = [*_gaps(at, subtract(lineage, at.visible), entries, (first, last), opened)]
    hidden = subtract(lineage, shown)
    for each in entries:
        if first <= each.event.id <= last and not contains(hidden, at.record.id, each.event.id):
            rows += _operated(at, each)
    rows.sort(key=lambda row: row.id)
    if len(rows) > LIMIT:  # many operations with no messages between them
        first, last = (rows[-LIMIT].id, last) if after is None else (first, rows[LIMIT].id - 1)
        rows = [row for row in rows if first <= row.id <= last]
        messages = [message for message in messages if first <= message.id <= last]
    edge = coming.edge
    if edge.first is not None and edge.before and first <= edge.first <= last:
        rows.append(WindowEdge(edge.first, coming.whole(moment.size(coming.before(moment)))))
    said = _messages(moment, at, coming, shown, messages, last)
    return Page(_in_order(moment, coming, rows, said, entries, at.fold.evicted, folder), first, last, at.newest)


def page_at(
    moment: Snapshot, at: Standing, coming: NextMessages, event_id: int, opened: Segments = (), folder: str = ""
) -> tuple[Page, Segments]:
    """Return the page with event `event_id`, and the opened segments, including the gap that contains the event.

    Raises CommandError if the event is not in the agent's lineage.
    """
    event = selections.event(moment, event_id)
    lineage = until(at.lineage, at.newest)
    if event is None or not contains(lineage, event.agent_id, event_id):
        raise CommandError(f"event {event_id} is not in this conversation")
    gone = subtract(lineage, at.visible)
    within = [segment for segment in gone if contains((segment,), event.agent_id, event_id)]
    opened = normal((*opened, *within))
    begin = min(event_id, event.answers or event_id, event.turn_id or event_id)
    if moment.size((Segment(event.agent_id, begin, event_id),)).messages > LIMIT // 2:
        begin = event.answers or event_id
    return page(moment, at, coming, after=begin - 1, opened=opened, folder=folder), opened


def _whole_turns(read: Iterator[Event]) -> tuple[list[Event], int]:
    """Return the next messages without an incomplete turn, and the id of the message after them, or 0. A turn longer
    than a page is split between its tool calls."""
    found: list[Event] = []
    for message in read:
        in_run = bool(found) and message.kind in _CALLS and found[-1].kind in _CALLS
        if len(found) >= LIMIT and (not in_run or len(found) >= 2 * LIMIT):
            break
        found.append(message)
    else:
        return found, 0
    if any(each.turn_id != message.turn_id for each in found):
        while found[-1].turn_id == message.turn_id:
            message = found.pop()
    return found, message.id


def _gaps(
    at: Standing, gone: Segments, entries: Sequence[OperationEntry], span: tuple[int, int], opened: Segments
) -> Iterator[Gap]:
    """Yield the gaps that begin inside `span`, one for each operation and place, without their lines."""
    first, last = span
    near = tuple(each for each in gone if each.last >= first and each.first <= last)
    for segment, entry in kept_out(near, entries):
        if first <= segment.first <= last:
            by, back = (None, None) if entry is None else (entry.event.id, entry.back)
            yield Gap(segment.first, (segment,), "", back, by, bool(intersect((segment,), opened)))


def _operated(at: Standing, entry: OperationEntry) -> list[Entry]:
    event = entry.event
    if not isinstance(operation_of(event), Mark):
        return [Operated(event.id, line(entry, back=False), None if entry.by is not None else entry.back)]
    return [Flag(event.id, name) for name, place in at.fold.marks.items() if place == event.id]


def _messages(
    moment: Snapshot, at: Standing, coming: NextMessages, shown: Segments, messages: Sequence[Event], last: int
) -> Iterator[Said | _Step]:
    """Yield the text messages and the steps of calls, in order."""
    sizes: dict[int | None, TurnSize] = {}
    for message in messages:
        tokens, calls, pinned = sizes.get(message.turn_id, TurnSize(0, 0, message.turn_id in at.fold.pins))
        sizes[message.turn_id] = TurnSize(
            tokens + coming.tokens(message), calls + (message.kind == "tool_call"), pinned
        )
    if messages and last < END and any(message.id == messages[-1].turn_id for message in messages):
        turn = messages[-1].turn_id  # the page may end inside it
        sizes[turn] = _whole_size(moment, at, coming, shown, messages[-1], sizes[turn])
    for event in messages:
        place = coming.place(event)
        left, outside = place == OUT, place not in (OUT, SENT)
        if event.kind in _CALLS:
            yield _Step(event, coming.tokens(event), outside, left)
        elif event.content.strip() or event.interrupted or event.id == event.turn_id:
            opens = sizes[event.turn_id] if event.id == event.turn_id else None
            yield Said(
                *(event.id, event.turn_id, event.kind, event.actor, event.content.strip("\n")),
                *(event.interrupted, opens, outside, left),
            )


def _whole_size(
    moment: Snapshot, at: Standing, coming: NextMessages, shown: Segments, last: Event, known: TurnSize
) -> TurnSize:
    """Return the size of the turn of the last message of a page; `known` is that of its part on the page. Cost does not
    grow with the turn, except by the logarithm of its length."""
    (around,) = moment.next_to(moment.lookup([last.id]), COUNTED)
    behind = [each for each in around if each.id > last.id]
    rest = [*takewhile(lambda each: each.turn_id == last.turn_id or each.kind == "summary", behind)]
    end, calls = rest[-1].id if rest else last.id, 0
    if len(rest) < COUNTED:
        calls = known.calls + sum(e.kind == "tool_call" and contains(shown, e.agent_id, e.id) for e in rest)
    else:
        end = _end_of_turn(moment, last, end, at.newest)
    size = coming.inside(moment, intersect(shown, (Segment(last.agent_id, last.turn_id or 0, end),)))
    return TurnSize(size.tokens, calls, known.pinned)


def _end_of_turn(moment: Snapshot, inside: Event, low: int, high: int) -> int:
    """Return the last message of a turn, given one that is `inside`, and ids between which the turn ends."""
    while low < high:
        middle = (low + high + 1) // 2
        found = selections.message_after(moment, inside.agent_id, middle - 1)
        while found is not None and found.kind == "summary":  # a turn of its own in the middle of another
            found = selections.message_after(moment, inside.agent_id, found.id)
        if found is not None and found.turn_id == inside.turn_id:
            low = found.id
        else:
            high = middle - 1
    return low


def _in_order(
    moment: Snapshot,
    coming: NextMessages,
    rows: Iterable[Entry],
    said: Iterable[Said | _Step],
    entries: Sequence[OperationEntry],
    evicted: Mapping[int, int],
    folder: str,
) -> tuple[Entry, ...]:
    """Return all entries in the order of the log. Consecutive calls are merged into one entry, and so are gaps of one
    operation."""
    found: list[Entry] = []
    run: list[_Step] = []
    behind: list[Entry] = []

    def end_run() -> None:
        if run:
            found.append(_calls(run, evicted, folder))
        found.extend(behind)
        run.clear()
        behind.clear()

    for each in sorted((*rows, *said), key=lambda each: (each.id, isinstance(each, Said | _Step))):
        if isinstance(each, _Step):
            if run and (run[-1].event.turn_id, *run[-1][2:]) != (each.event.turn_id, *each[2:]):
                end_run()
            run.append(each)
        elif isinstance(each, Operated | Flag) and run:  # a model's operation follows the calls around it
            behind.append(each)
        else:
            end_run()
            before = found[-1] if found else None
            if isinstance(each, Gap) and isinstance(before, Gap) and each.operation == before.operation:
                segments, opened = (*before.segments, *each.segments), before.opened or each.opened
                found[-1] = Gap(before.id, segments, "", each.back, each.operation, opened)
            elif isinstance(each, Operated) and isinstance(before, Gap) and each.id == before.operation:
                found[-1] = replace(before, line=each.line)
            else:
                found.append(each)
    end_run()
    by_id = {entry.event.id: entry for entry in entries}
    return tuple(_worded(moment, coming, each, by_id) if isinstance(each, Gap) else each for each in found)


def _worded(moment: Snapshot, coming: NextMessages, gap: Gap, entries: Mapping[int, OperationEntry]) -> Gap:
    if gap.line:
        return gap
    size, entry = moment.size(gap.segments), entries.get(gap.operation or 0)
    if entry is not None and size == entry.left:
        return replace(gap, line=line(entry, back=False))
    return replace(
        gap, line=f"✂ {count(size.messages, 'message')}, {brief(coming.whole(size).tokens)} left the context"
    )


def _calls(run: Sequence[_Step], evicted: Mapping[int, int], folder: str) -> ToolCallGroup:
    asked = {step.id for step in run if step.event.kind == "tool_call"}
    results = {step.event.answers: step for step in run if step.event.kind == "tool_result"}
    calls = []
    for step in run:
        event = step.event
        if event.kind == "tool_call":
            name = str((event.data or {}).get("name"))
            calls.append(
                _call(event.id, name, about(event.content, folder), step.tokens, results.get(event.id), evicted)
            )
        elif event.answers not in asked:  # its call is on another page
            calls.append(_call(event.id, "result", f"of call {event.answers or '?'}", 0, step, evicted))
    return ToolCallGroup(run[0].id, tuple(calls), run[0].outside, run[0].left)


def _call(id: int, name: str, what: str, tokens: int, result: _Step | None, evicted: Mapping[int, int]) -> Call:
    if result is None:
        return Call(id, name, what, "", tokens, None)
    text, tokens = result.event.content.strip("\n"), tokens + result.tokens
    return Call(id, name, what, text, tokens, result.id, evicted.get(result.id))


def about(arguments: str, folder: str = "") -> str:
    """Return the subject of a tool call on one line: the first text among its JSON arguments. A path in `folder` is
    relative to it."""
    try:
        found = msgspec.json.decode(arguments) if len(arguments) < 100_000 else arguments
    except (msgspec.MsgspecError, ValueError, RecursionError):
        found = arguments
    if isinstance(found, dict):
        found = next((value for value in found.values() if isinstance(value, str)), arguments if found else "")
    text = found if isinstance(found, str) else arguments
    return title(text.removeprefix(f"{folder}/") if folder else text, TITLE)
