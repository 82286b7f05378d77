"""Write a planned import into a conversation: its turns, its compactions, and changes of the context [SPEC 8]."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foldmark.core.errors import CommandError
from foldmark.core.events import Summary
from foldmark.core.ports import Progress, Snapshot
from foldmark.core.request import Compacted
from foldmark.core.segments import Segments, contains, intersect, subtract
from foldmark.log import Agent
from foldmark.operations import decide, summaries
from foldmark.operations.notices import awaiting, shown
from foldmark.request.exchanges import closure, ranges_of
from foldmark.request.standing import Standing
from foldmark.sessions.chain import PlannedRecord, PlannedTurn
from foldmark.sessions.conversion.imported import ImportedLine, ImportedSession, packed
from foldmark.sessions.formats import SessionFormat
from foldmark.sessions.messages import (
    NOTHING,
    CallMessage,
    Part,
    RecordEntry,
    RecordMessages,
    ResultMessage,
    TextMessage,
)
from foldmark.sessions.session_file import SessionFile, SessionRecord

_STEP = 1 << 18
_SAYS_NOTHING = ImportedLine(0, 0, 0)
_LEFT, _CAME_BACK = "the session went back behind it", "the session came back to it"


class ContextMeter:
    """Reports the progress of an import in steps of at least `_STEP` bytes."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._reported = total, progress, 0

    def reach(self, done: int) -> None:
        if self._progress and done - self._reported >= _STEP:
            self._reported = done
            self._progress(done, self._total)

    def finish(self) -> None:
        if self._progress:
            self._progress(self._total, self._total)


class ImportReport(Struct):
    """The result of an import.

    `lines` counts the lines of the file, including blank ones. `records` maps each type to the number of its lines that
    were read, the most frequent type first; "(no type)" and "(not an object)" are among them. `broken` lists the lines
    that are not JSON, with the reason. `messages` maps kinds to counts, in and out of the context. `turns` counts all
    turns, `dropped` those out of the context. `kept` counts the lines that are kept as `record` events, with or without
    usable messages.

    `again` is True if the session was imported before. Then the counts cover only new content. `left` counts the turns
    that left the context because the session went back to a point before them, `returned` those that came back.
    """

    name: str = field(name="conversation")
    agent_id: str = field(name="agent")
    lines: int = 0
    records: dict[str, int] = {}
    broken: list[tuple[int, str]] = []
    messages: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    dropped: int = 0
    kept: int = 0
    again: bool = False
    left: int = 0
    returned: int = 0


class ImportWriter:
    """Appends planned turns to a conversation, except lines that it already has, and counts them in `report`."""

    def __init__(
        self,
        agent: Agent,
        session: SessionFile,
        kept: SessionFormat,
        meter: ContextMeter,
        imported: ImportedSession,
        report: ImportReport,
        model: str | None = None,
    ) -> None:
        """`model` is the session's model, None if it is not known."""
        self._model = model
        self._agent, self._session, self._format, self._meter, self._report = agent, session, kept, meter, report
        self.begin = agent.standing().newest + 1
        self.lines = bytearray()
        self.hidden: dict[int, int] = {}
        self.back: list[int] = []
        self._hidden: list[int] = []
        self._leaving: list[tuple[int, list[int]]] = []
        self._events: dict[int, range] = {}
        self._imported, self._ranges = imported, imported.segments(self.begin)
        self._calls: set[str] = set()

    def write(self, turn: PlannedTurn, known: Mapping[int, ImportedLine] = {}) -> None:
        """Append a turn without the lines that are already `known`. Those leave the context or return to it."""
        steps = turn.steps
        if known:
            self._know(turn, known)
            steps = [step for step in steps if step.entry.line not in known]
        if not steps or (turn.keeps is not None and self._summarize(steps[0].entry, turn.keeps)):
            return
        events: list[int] = []
        held: tuple[RecordEntry, ResultMessage] | None = None
        for step in steps:
            entry = step.entry
            self._meter.reach((self._session.size + 3 * entry.offset) // 4)
            record = self._session.reread(entry.line, entry.offset)
            reading = NOTHING if entry.repeats else self._read(record)
            astray = [*step.astray, *self._unasked(reading)] if self._report.again else step.astray
            for part in reading.parts:
                if isinstance(part, ResultMessage) and part.call_id in astray:
                    continue
                if entry.raised and part.kind == "client" and held is not None and held[1].plain:
                    held = held[0], _with(held[1], part)  # the client sends it at the end of the result
                    continue
                events += self._write_parts(held)
                held = (entry, part) if isinstance(part, ResultMessage) else None
                events += self._write_parts((entry, part) if held is None else None)
            if astray or not reading.complete:
                self._keep(record, entry.moment)
            if step.usage:
                self._agent.record("usage", data=step.usage._asdict(), created_at=entry.moment)
        events += self._write_parts(held)
        first = events[0] if events else 0
        self._note(steps, first)
        if not events:
            return
        self._agent.end_turn(created_at=steps[-1].entry.moment, interrupted=turn.interrupted)
        self._report.turns += 1
        if not turn.shown:
            self._hidden.append(first)

    def _read(self, record: SessionRecord) -> RecordMessages:
        """Return the messages of a record without the client's own instructions."""
        reading = self._format.messages(record.value)
        told = [(part.data or {}).get("told") for part in reading.parts if part.kind == "client"]
        return NOTHING if any(self._format.is_instruction(each, self._model) for each in told) else reading

    def _write_parts(self, one: tuple[RecordEntry, Part] | None) -> list[int]:
        """Append a message, if there is one, and return its id."""
        if one is None:
            return []
        entry, part = one
        event_id = self._append(part, entry.moment)
        begun = self._events.get(entry.line)
        self._events[entry.line] = range(begun.start if begun else event_id, event_id + 1)
        self._report.messages[part.kind] += 1
        return [event_id]

    def drop(self) -> None:
        """Drop the turns that are not shown, all at once, so that neighbours leave one gap in the context.

        Known summaries go first, because their messages are in the context again without them.
        """
        for _, events in self._leaving:
            with self._agent.log.store.read() as moment:
                summaries = [each.id for each in moment.lookup(events) if each.kind == "summary"]
            for each in summaries:
                self._restore(each, _LEFT)
        for group, events in self._leaving:
            self.hidden[group] = self._leave(events)
        self._leaving.clear()
        for turn in self._hidden:
            self.hidden[turn] = self._agent.operate(partial(decide.drop, wanted=[turn])).event_id
        self._report.dropped += len(self._hidden)
        self._hidden.clear()

    def _summarize(self, entry: RecordEntry, keeps: frozenset[int]) -> bool:
        """Record a compaction. Return False if nothing before it can be replaced."""
        self.drop()  # a summary replaces only shown messages
        record = self._session.reread(entry.line, entry.offset)
        reading = self._format.messages(record.value)
        texts = [part for part in reading.parts if isinstance(part, TextMessage)]
        stays = [event_id for line in keeps for event_id in self._events.get(line, ())]
        form = self._form(reading)
        if form is None:
            decision = partial(_standing_for, stays=stays, imported=self._ranges)
        else:
            decision = partial(summaries.provider_summary, form=form, within=self._ranges)
        try:
            receipt = self._agent.operate(
                decision,
                actor="system",
                content="\n\n".join(text.text for text in texts),
                created_at=entry.moment,
            )
        except CommandError:
            return False
        if not reading.complete or any(text.data for text in texts):
            self._keep(record, entry.moment)
        self._events[entry.line] = range(receipt.event_id, receipt.event_id + 1)
        self.lines += packed(entry.key, ImportedLine(receipt.event_id, 1, receipt.event_id))
        self._report.messages["summary"] += 1
        self._report.turns += 1
        return True

    def _form(self, reading: RecordMessages) -> dict[str, Any] | None:
        """Return the history that a compaction holds, in the form of the session's provider, or None."""
        if not reading.history:
            return None
        compacted = Compacted(reading.history, "")
        return summaries.provider_form(self._agent.log.secrets, compacted, self._format.provider or "")

    def _know(self, turn: PlannedTurn, known: Mapping[int, ImportedLine]) -> None:
        """Remove the inactive lines of a turn from the context, or bring active ones back."""
        own = [(step.entry, known[step.entry.line]) for step in turn.steps if step.entry.line in known]
        self._events.update((entry.line, line.events) for entry, line in own)
        messages = [(entry, line) for entry, line in own if line.length]
        if turn.shown:
            groups = dict.fromkeys(line.group for _, line in messages if line.group in self._imported.hidden)
            for group in groups:
                if group not in self.back:
                    self._restore(self._imported.hidden[group], _CAME_BACK)
                    self.back.append(group)
                    self._report.returned += 1
            return
        stayed = self._imported.hidden.keys() - set(self.back)
        leaving = [(entry, line) for entry, line in messages if line.group not in stayed]
        if not leaving:
            return
        events = [event_id for _, line in leaving for event_id in line.events]
        group = min(events)
        self._leaving.append((group, events))
        for entry, line in leaving:
            self.lines += packed(entry.key, ImportedLine(line.first, line.length, group))
        self._report.left += 1

    def _leave(self, events: list[int]) -> int:
        """Remove events from the context. Return the operation, or 0 if the context has none of them."""
        done = 0
        visible = self._agent.standing().visible
        events = [event_id for event_id in events if contains(visible, self._agent.id, event_id)]
        if events:
            decision = partial(decide.filter, mode="forget", ids=events, planning=None, criteria=None)
            done = self._agent.operate(decision, actor="system", reason=_LEFT).event_id
        return done

    def _restore(self, operation: int, reason: str) -> None:
        """Undo an operation, unless it does not exist or a person has undone it."""
        with suppress(CommandError):
            self._agent.operate(
                lambda moment, at: decide.restore(moment, at, operation, self._agent.past.is_back),
                actor="system",
                reason=reason,
            )

    def _unasked(self, reading: RecordMessages) -> list[str]:
        """Return the results that stay out of the context, because their call was imported earlier and has left it."""
        ids = [part.call_id for part in reading.parts if isinstance(part, ResultMessage)]
        ids = [call_id for call_id in ids if call_id not in self._calls]
        if not ids:
            return []
        with self._agent.reading() as (moment, at):
            calls = {call_id: awaiting(moment, at, call_id)[0] for call_id in ids}
            return [id for id, call in calls.items() if call is not None and not shown(moment, at, call, waits=False)]

    def _note(self, steps: Sequence[PlannedRecord], group: int) -> None:
        for step in steps:
            events = self._events.get(step.entry.line)
            line = ImportedLine(events.start, len(events), group) if events else _SAYS_NOTHING
            self.lines += packed(step.entry.key, line)

    def _append(self, part: Part, time: datetime | None) -> int:
        agent, dialect = self._agent, self._format.dialect
        if isinstance(part, CallMessage):
            self._calls.add(part.call_id)
            return agent.append_tool_call(
                part.name, part.args, call_id=part.call_id, dialect=dialect, created_at=time, data=part.data
            )
        if isinstance(part, ResultMessage):
            return agent.append_tool_result(
                part.call_id, part.text, dialect=dialect, is_error=part.is_error, created_at=time, data=part.data
            )
        # Verbatim, because a state block at the end of a message is not from this conversation's model.
        return agent.append(part.kind, part.text, created_at=time, data=part.data, dialect=dialect, verbatim=True)

    def _keep(self, record: SessionRecord, time: datetime | None) -> None:
        data = {"source": self._format.name, "type": record.type, "record": record.value}
        self._agent.record("record", data=data, created_at=time)
        self._report.kept += 1


def _with(result: ResultMessage, part: Part) -> ResultMessage:
    """Return a result with what the client told behind it."""
    assert isinstance(part, TextMessage)
    texts = (result.text.strip(), part.text.strip())
    return replace(result, text="\n\n".join(filter(None, texts)))


def _standing_for(moment: Snapshot, at: Standing, stays: list[int], imported: Segments) -> Summary:
    """Return a summary of all shown imported events except those that stay and their whole exchanges.

    Coding agents send it as the user's text, behind what stays.
    """
    decided = summaries.summary(moment, at, None)
    kept = list(moment.lookup(stays))
    ranges = subtract(intersect(decided.ranges, imported), ranges_of(moment, at, [*kept, *closure(moment, at, kept)]))
    if not moment.size(ranges).messages:
        raise CommandError("there is nothing to summarize")
    return replace(decided, ranges=ranges, role="user", last=bool(stays))
