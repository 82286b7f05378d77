"""Make a conversation of a JSON document [docs/reference/export.md].

The file may come from anybody. Each event is checked before it is recorded, and everything is one transaction: a wrong
event, an error or an interruption leaves nothing behind. All ids are given anew, and so are the references to them. The
store computes turns, sums and sizes again.

A document of a fork becomes a conversation of its own. What the fork inherited are its first events; the pins,
evictions, settings and scratchpad that it began with are recorded after them, as operations and events of the system.
"""

from collections import Counter
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct, field

from foldmark.core.assembly.media import counted
from foldmark.core.codec import operation_data, timestamp
from foldmark.core.errors import FoldmarkError
from foldmark.core.events import ROLES, Draft, Evict, Operation, Pin, Redact, Summary
from foldmark.core.ports import Progress, Transaction
from foldmark.core.segments import Segment
from foldmark.core.turns import place
from foldmark.core.wording import count, one_line
from foldmark.documents.checking import WrongEventError, check_settings, checked
from foldmark.documents.layout import CONTEXT_FORMAT, FORMAT, VERSION, Document, EventEntry, Head, Start
from foldmark.documents.past import carried_data, is_carried, without_consent
from foldmark.documents.references import CheckedRenumbering, NamedEvents
from foldmark.log import Agent, Log


class DocumentError(FoldmarkError):
    """A file is no document that can be imported, or cannot be read. Nothing was imported."""


class DocumentReport(Struct):
    """The result of an import of a document.

    `name` and `agent_id` are those of the new conversation. `events` counts the events of the document. `messages` maps
    kinds to counts, in and out of the context, without erased ones; `erased` counts those. `turns` counts the turns
    that messages began. `added` counts the events that were recorded for what a fork began with.
    """

    name: str = field(name="conversation")
    agent_id: str = field(name="agent")
    source: str = ""
    events: int = 0
    messages: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    operations: int = 0
    erased: int = 0
    added: int = 0


def import_document(
    log: Log, document: "DocumentFile", name: str | None = None, progress: Progress = lambda *_: None
) -> DocumentReport:
    """Import a document as conversation `name`, by default under the name that it had. `progress` receives the number
    of events done and of all. Raises DocumentError for a wrong event, and CommandError if there is a conversation of
    that name."""
    origin = document.document.conversation
    wanted = name if name is not None else origin.name or f"agent {origin.agent[:8]}"
    with log.creating(wanted) as agent, log.store.write() as transaction:
        report = _Writer(log, agent, transaction, document.document, document.label).write(progress)
    agent.context()  # its next append follows these events
    return report


class DocumentFile(NamedTuple):
    """A document that was read from a file, and the file's name for messages."""

    label: str
    document: Document


_WANTED = "name a document that `foldmark export --to json` wrote"


def read_document(file: Path) -> DocumentFile:
    """Read a document, which needs as much memory as the file is long. Its events are not checked yet. Raises
    DocumentError."""
    label = one_line(str(file))
    try:
        if file.exists() and not file.is_file():
            raise DocumentError(f"{label} is no file; {_WANTED}")
        text = file.read_bytes()
    except OSError as error:
        raise DocumentError(f"{label} cannot be read: {error.strerror or error}") from None
    text = text.removeprefix(b"\xef\xbb\xbf")
    try:
        head = msgspec.json.decode(text, type=Head)
        _check_format(label, head)
        return DocumentFile(label, msgspec.json.decode(text, type=Document))
    except RecursionError:
        raise DocumentError(f"{label} is nested too deeply to be a document of Foldmark; {_WANTED}") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise DocumentError(f"{label} is not a document of Foldmark: {_said(error)}") from None


def _check_format(label: str, head: Head) -> None:
    if head.format == CONTEXT_FORMAT:
        raise DocumentError(
            f"{label} has only the messages of a context and cannot be imported; export the conversation with "
            "--to json, without --context"
        )
    if head.format != FORMAT:
        raise DocumentError(f'{label} is not a document of Foldmark: its "format" is not "{FORMAT}"; {_WANTED}')
    if head.version != VERSION:
        raise DocumentError(
            f"{label} has version {str(head.version)[:20]} of the format, and this Foldmark reads {VERSION}; "
            "a newer Foldmark may read it"
        )


def _said(error: Exception) -> str:
    return one_line(str(error)[:200])


class _Writer:
    """Records the events of a document in a new conversation."""

    def __init__(self, log: Log, agent: Agent, transaction: Transaction, document: Document, label: str) -> None:
        self._log, self._agent, self._transaction = log, agent, transaction
        self._document, self._label = document, label
        origin = document.conversation
        self._to = CheckedRenumbering(dict.fromkeys((origin.agent, *origin.inherits), agent.id))
        self._named = NamedEvents(origin.agent, origin.inherits)
        self._newest = self._newest_inherited = 0
        self._report = DocumentReport(agent.name or agent.id, agent.id, origin.name or origin.agent)
        self._open_turn: int | None = None
        self._inherited_turn: int | None = None
        self._begun = not origin.inherits and document.start == Start()
        self._erased: dict[int, int] = {}

    def write(self, progress: Progress) -> DocumentReport:
        """Record everything, and the agent's fold. Raises DocumentError."""
        total = len(self._document.events)
        for number, raw in enumerate(self._document.events, 1):
            self._take(number, raw)
            if number % 100 == 0 or number == total:
                progress(number, total)
        try:
            self._begin()
        except (WrongEventError, msgspec.ValidationError) as error:
            raise DocumentError(f"{self._label}: start: {error}. Nothing was imported.") from None
        if self._erased:
            by, event = min(self._erased.items())
            raise DocumentError(
                f"{self._label}: event {event} was erased by operation {by}, which is not in the file. "
                "Nothing was imported."
            )
        agent, transaction = self._agent, self._transaction
        fold = agent.reader.replay(transaction)
        transaction.save_fold(fold, agent.reader.beside(transaction, fold))
        self._report.events = total
        return self._report

    def _take(self, number: int, raw: Raw) -> None:
        event = None
        try:
            event = msgspec.json.decode(raw, type=EventEntry)
            operation = checked(event, self._newest)
            self._to.current = event.id
            self._named.check(event, operation)
            if event.inherited and self._begun:
                raise WrongEventError("it is inherited, and follows events that are not")
            if not event.inherited:
                self._begin()
            if is_carried(event.kind, event.data):
                self._record(event, operation)
            self._newest = event.id
            if event.inherited:
                self._newest_inherited = event.id
        except RecursionError:
            raise self._wrong(number, event, "it is nested too deeply") from None
        except (msgspec.MsgspecError, ValueError, TypeError, KeyError) as error:
            raise self._wrong(number, event, str(error)) from None

    def _wrong(self, number: int, event: EventEntry | None, why: str) -> DocumentError:
        place = f"events[{number - 1}]" + (f", id {event.id}" if event is not None else "")
        return DocumentError(f"{self._label}: {place}: {why[:300]}. Nothing was imported.")

    def _record(self, event: EventEntry, operation: Operation | None) -> None:
        data = event.data
        if event.inherited:
            self._part(event)
            if event.kind == "turn_ended":
                data = operation = None
        if event.erased is not None and operation is None:
            data = _REMAINS.get(event.kind)
        elif data is not None:
            if operation is not None:
                data = self._ended(data)
            data = carried_data(event.kind, self._to.data(event.kind, data))
            if event.inherited and isinstance(operation, Summary):
                data = {**(data or {}), "ranges": self._places(operation)}
        new = self._append(event, data)
        turn, self._open_turn = place(event.kind, new, self._open_turn)
        is_message = event.kind in ROLES
        if is_message and event.kind != "summary" and event.turn is not None and not event.inherited:
            given = new if event.turn == event.id else self._to.id(event.turn)
            if given != turn:
                raise WrongEventError(f"it cannot be in turn {event.turn}: another turn is open, or none")
        self._to.add(event.id, new)
        self._to.current = event.id + 1
        self._count(event, operation, turn == new)
        if event.erased is not None:
            self._erased[event.erased] = event.id
        if isinstance(operation, Redact) and event.id in self._erased:
            last = self._to.id(self._erased.pop(event.id))
            self._transaction.erase(self._agent.id, self._to.beginning(operation.turn), last, new)

    def _ended(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return an operation's data with its ranges of ancestors limited to the inherited events."""
        own, end = self._document.conversation.agent, self._newest_inherited
        ranges = {name: data[name] for name in ("ranges", "inherited", "start") if name in data}
        return {**data, **{name: [_ended(each, own, end) for each in found] for name, found in ranges.items()}}

    def _places(self, summary: Summary) -> list[Segment]:
        """Return the place of an inherited summary. What it replaced was not inherited, so it takes nothing out. It
        still stands where that began, which only a range of its former agent says."""
        first = min(summary.ranges, key=attrgetter("first"), default=None)
        if first is None:
            return []
        before = self._to.id(first.first)
        return [Segment(first.agent, before, before)]

    def _count(self, event: EventEntry, operation: Operation | None, opens: bool) -> None:
        report = self._report
        report.operations += operation is not None and event.kind != "turn_ended"
        if event.kind in ROLES:
            report.turns += opens
            report.erased += event.erased is not None
            if event.erased is None:
                report.messages[event.kind] += 1

    def _append(self, event: EventEntry, data: dict[str, Any] | None) -> int:
        secrets, content = self._log.secrets, event.content
        if secrets:
            content, data = secrets.hidden(content), secrets.hidden_in(data)
        answers = None
        if event.answers is not None and event.kind == "tool_result":
            answers = self._to.id(event.answers) if self._named.has_call(event.answers) else None
        (new,) = self._transaction.append(
            self._agent.id,
            None,
            [
                Draft(
                    kind=event.kind,
                    created_at=timestamp(event.created_at),
                    content=content,
                    data=dict(counted(data) or {}) if data else None,
                    dialect=event.dialect,
                    actor=event.actor,
                    interrupted=event.interrupted,
                    answers=answers,
                )
            ],
        )
        return new

    # What a fork began with

    def _part(self, event: EventEntry) -> None:
        """End the open turn before an inherited message of another one: what lay between was not inherited."""
        if event.kind in ROLES and event.kind not in ("system", "summary"):
            if event.turn != self._inherited_turn:
                self._end_turn(event.created_at)
            self._inherited_turn = event.turn

    def _end_turn(self, time: str) -> None:
        if self._open_turn is not None:
            self._add("turn_ended", time)
            self._open_turn = None

    def _begin(self) -> None:
        """Record what the fork began with, after everything inherited and before its own events."""
        if self._begun:
            return
        self._begun = True
        start, time = self._document.start, self._document.conversation.created_at
        self._end_turn(time)
        if start.settings:
            check_settings(start.settings)
            self._add("config", time, "settings of the parent", {"settings": without_consent(start.settings)})
        if start.scratchpad is not None:
            self._add("scratchpad", time, start.scratchpad)
        for turn in start.pins:
            self._add("pin", time, data=operation_data(Pin(self._to.beginning(turn))))
        if start.evicted:
            self._named.check_results(start.evicted)
            self._add("evict", time, data=operation_data(Evict(tuple(map(self._to.id, start.evicted)))))

    def _add(self, kind: str, time: str, content: str = "", data: dict[str, Any] | None = None) -> None:
        event = EventEntry(0, kind, "system", time, content=content)
        self._append(event, data)
        self._report.added += 1


def _ended(segment: list[Any], own: str, end: int) -> list[Any]:
    agent, first, last = segment
    return segment if agent == own else [agent, first, min(last, end)]


_REMAINS = {"tool_call": {"call_id": "", "name": ""}, "tool_result": {"call_id": ""}}
"""Kind of an erased event -> the data with which it is recorded until it is erased again."""


def document_text(report: DocumentReport) -> str:
    """Return a report as text for a person."""
    messages = ", ".join(f"{number:,} {kind.replace('_', ' ')}" for kind, number in report.messages.items())
    turns = f"{count(report.turns, 'turn')} ({messages or 'no messages'})"
    lines = [f"Conversation '{report.name}': {turns}, {count(report.operations, 'operation')}"]
    if report.erased:
        lines.append(f"  erased before the export: {count(report.erased, 'message')}")
    if report.added:
        lines.append(f"  recorded for what the fork began with: {count(report.added, 'event')}")
    return "\n".join(lines)
