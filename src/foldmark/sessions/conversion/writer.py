"""Write a planned import into a conversation: its turns, its compactions, and changes of the context [SPEC 8]."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from foldmark.core import selections
from foldmark.core.codec import operation_of
from foldmark.core.errors import CommandError
from foldmark.core.events import Summary
from foldmark.core.ports import Progress, Snapshot
from foldmark.core.request import Compacted
from foldmark.core.segments import Segments, contains, intersect, subtract
from foldmark.editing.evicting import eviction
from foldmark.formats.chain import PlannedRecord, PlannedTurn
from foldmark.formats.messages import NOTHING, RecordEntry, RecordMessages
from foldmark.formats.session_file import SessionFile, SessionRecord
from foldmark.formats.session_format import SessionFormat
from foldmark.log import Agent
from foldmark.operations import decide, summaries
from foldmark.operations.notices import awaiting, shown
from foldmark.overlay.ledger import append_part, leave
from foldmark.request.exchanges import ranges_of
from foldmark.request.standing import Standing
from foldmark.sessions.conversion.imported import ImportedLine, ImportedSession, packed
from foldmark.sessions.conversion.measured import Amount, Measured, SessionTokens, size_of, total
from foldmark.wires.parts import CallMessage, Part, ResultMessage, TextMessage

_STEP = 1 << 18
_SAYS_NOTHING = ImportedLine(0, 0, 0)
_LEFT, _CAME_BACK = "the session went back behind it", "the session came back to it"
_UNSENT, _ANSWERED = "the client does not send it", "its result came"
_EDITED, _PLACEHOLDER = "an edit in the session took it out", "the client sends a placeholder"
_PUT_BACK = "the client sends it again"


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
    turns, `dropped` those out of the context. `unsent` counts the calls, results and lines of thinking that the client
    leaves out when it resumes the session. `kept` counts the lines that are kept as `record` events, with or without
    usable messages.

    `again` is True if the session was imported before. Then the counts of messages and turns cover only new content.
    `left` counts the turns that left the context because the session went back to a point before them, `returned` those
    that came back.
    """

    name: str = field(name="conversation")
    agent_id: str = field(name="agent")
    lines: int = 0
    records: dict[str, int] = {}
    broken: list[tuple[int, str]] = []
    messages: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    dropped: int = 0
    unsent: int = 0
    kept: int = 0
    again: bool = False
    left: int = 0
    returned: int = 0
    tokens: SessionTokens | None = None


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
        measured: Measured | None = None,
        edited: int = 0,
    ) -> None:
        """`model` is the session's model, None if it is not known. `measured` is what the import before has measured,
        None if this import begins anew. Only what follows the line `edited`, that of the last edit (0: none), is
        measured: some of what precedes it has left."""
        self._model = model
        self.measured = Measured() if measured is None else measured
        if edited:
            self.measured.compacted(None)
        self._sizes: dict[int, Amount] = {}
        self._sent_lines: set[int] = set()
        self._agent, self._session, self._format, self._meter, self._report = agent, session, kept, meter, report
        self.begin = agent.standing().last + 1
        self.lines = bytearray()
        self.hidden: dict[int, int] = {}
        self.back: list[int] = []
        self._hidden: list[int] = []
        self._leaving: list[tuple[int, list[int], str]] = []
        self._away: list[tuple[list[tuple[RecordEntry, ImportedLine]], str]] = []
        self._grouped: dict[int, dict[int, tuple[bytes, ImportedLine]]] = {}
        self._gone: dict[int, set[int]] = {}
        self._events: dict[int, range] = {}
        self._imported, self._ranges = imported, imported.segments(self.begin)
        self._calls: set[str] = set()
        self._noted: dict[bytes, ImportedLine] = {}
        self._edited = edited

    def write(self, turn: PlannedTurn, known: Mapping[int, ImportedLine] = {}) -> None:
        """Append a turn without the lines that are already `known`. Those leave the context or return to it."""
        steps = turn.steps
        if known:
            self._know(turn, known)
            steps = [step for step in steps if step.entry.line not in known or _may_come(step, known[step.entry.line])]
            if turn.keeps is not None and not steps:
                line = known[turn.steps[0].entry.line]
                if covers := self._covers(line, turn.spared):
                    self._restore(line.first, _PUT_BACK)
                if covers or self._is_undone(line):
                    self._summarize(turn, known, in_place=covers)
                return
        makes_up = any(step.made for step in turn.steps)
        if (not steps and not makes_up) or (turn.keeps is not None and self._summarize(turn, known)):
            return
        events: list[int] = self._make_up(turn) if known else []
        held: tuple[RecordEntry, ResultMessage] | None = None
        self._sent_lines = {step.entry.line for step in steps if turn.shown and step.sent}
        for step in steps:
            entry = step.entry
            self._meter.reach((self._session.size + 3 * entry.offset) // 4)
            record = self._session.reread(entry.line, entry.offset)
            reading = NOTHING if entry.repeats else self._read(record)
            astray = [*step.astray, *self._unasked(reading)] if self._report.again else step.astray
            if entry.line in known and len(astray) >= len(reading.parts):
                continue  # kept already
            for part in reading.parts:
                if isinstance(part, ResultMessage) and part.call_id in astray:
                    continue
                if entry.raised and part.kind == "client" and held is not None and held[1].plain:
                    held = held[0], _with(held[1], part)  # the client sends it at the end of the result
                    continue
                events += self._write_parts(held)
                held = (entry, part) if isinstance(part, ResultMessage) else None
                events += self._write_parts((entry, part) if held is None else None)
            for call_id, text in step.made:
                events += self._write_parts(held)
                held = None
                made = ResultMessage(call_id, text, is_error=True)
                self._append(made, entry.moment)
                self._measure(entry, made)
                begun = self._events[entry.line].start
                self._events[entry.line] = range(begun, self._agent.standing().last + 1)
            if astray or not reading.complete:
                kept = self._keep(record, entry.moment)
                if entry.line not in self._events and reading.parts:
                    self._events[entry.line] = range(kept, kept)
            self._report.unsent += len(step.astray) + (not step.sent and not step.left)
            if step.usage:
                self._agent.record("usage", data=step.usage._asdict(), created_at=entry.moment)
                if turn.shown and entry.line > self._edited:
                    self.measured.answered(step.usage)
        events += self._write_parts(held)
        first = events[0] if events else 0
        sent = [each.start for step in steps if step.sent and (each := self._events.get(step.entry.line))]
        self._note(steps, min(sent, default=first))
        if not events:
            return
        self._agent.end_turn(created_at=turn.steps[-1].entry.moment, interrupted=turn.interrupted)
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
        self._measure(entry, part)
        begun = self._events.get(entry.line)
        self._events[entry.line] = range(begun.start if begun else event_id, event_id + 1)
        self._report.messages[part.kind] += 1
        return [event_id]

    def _measure(self, entry: RecordEntry, part: Part) -> None:
        if entry.line in self._sent_lines and entry.line > self._edited:
            size = self.measured.add(part, entry.message_id or entry.response)
            self._sizes[entry.line] = total((self._sizes.get(entry.line, Amount()), size))

    def drop(self) -> None:
        """Drop the turns that are not shown, all at once, so that neighbours leave one gap in the context.

        Known summaries go first, because their messages are in the context again without them.
        """
        self._leave_away()
        for _, events, _ in self._leaving:
            with self._agent.log.store.read() as moment:
                summaries = [each.id for each in moment.lookup(events) if each.kind == "summary"]
            for each in summaries:
                self._restore(each, _LEFT)
        for group, events, reason in self._leaving:
            self.hidden[group] = self._leave(events, reason)
        self._leaving.clear()
        for turn in self._hidden:
            self.hidden[turn] = 0
            with suppress(CommandError):  # its results left with their calls, and it has nothing else
                self.hidden[turn] = self._agent.operate(partial(decide.drop, wanted=[turn])).event_id
        for group, gone in self._gone.items():  # what stays gets a group of its own
            for first in self._grouped.get(group, {}).keys() - gone:
                key, line = self._grouped[group].pop(first)
                self._pack(key, line._replace(group=first))
        self._report.dropped += len(self._hidden)
        self._hidden.clear()

    def _summarize(self, turn: PlannedTurn, known: Mapping[int, ImportedLine], *, in_place: bool = False) -> bool:
        """Record a compaction. Return False if nothing before it can be replaced. `in_place`: the summary stands at the
        first message that it replaces, because what follows it is known.

        Known lines that follow it stay in their place: it may preserve them, or come back after them.
        """
        entry = turn.steps[0].entry
        self.drop()  # a summary replaces only shown messages
        record = self._session.reread(entry.line, entry.offset)
        reading = self._format.messages(record.value)
        texts = [part for part in reading.parts if isinstance(part, TextMessage)]
        before = [event_id for line in turn.keeps or () for event_id in self._events.get(line, ())]
        own = list(known[entry.line].events) if entry.line in known else []
        behind = [event_id for line in known.keys() - self._events.keys() for event_id in known[line].events]
        form = self._form(reading)
        if form is None:
            last = bool(before) and not in_place
            stays = [*before, *own, *behind]
            decision = partial(_standing_for, stays=stays, last=last, imported=self._ranges)
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
        if own:
            self._leave(own, _LEFT)
            self._pack(entry.key, known[entry.line]._replace(length=0))  # the next line is in its place
        if not own and (not reading.complete or any(text.data for text in texts)):
            self._keep(record, entry.moment)
        self._events[entry.line] = range(receipt.event_id, receipt.event_id + 1)
        sizes = [*map(size_of, texts), *(self._sizes[line] for line in turn.keeps or () if line in self._sizes)]
        is_known = form is None and self._sizes.keys() >= set(turn.keeps or ())
        self.measured.compacted(total(sizes) if is_known else None)
        self._pack(entry.key, ImportedLine(receipt.event_id, 1, receipt.event_id))
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
        """Bring active lines of a turn back. Its inactive lines leave the context in `drop`."""
        own = [(step, known[step.entry.line]) for step in turn.steps if step.entry.line in known]
        self._events.update((step.entry.line, line.events) for step, line in own)
        messages = [(step, line) for step, line in own if line.length]
        for step, line in messages:
            self._grouped.setdefault(line.group, {})[line.first] = step.entry.key, line
        if turn.shown:
            for group in dict.fromkeys(line.group for step, line in messages if is_sent(step)):
                self._bring_back(group)
        away = [(step.entry, line) for step, line in messages if not (turn.shown and is_sent(step))]
        edited = {step.entry.line for step, _ in messages if step.left}
        for reason, lines in (
            (_EDITED, [each for each in away if each[0].line in edited]),
            (_UNSENT if turn.shown else _LEFT, [each for each in away if each[0].line not in edited]),
        ):
            if lines:
                self._away.append((lines, reason))

    def _leave_away(self) -> None:
        """Prepare the leave of inactive lines, except those that left before and did not come back with others."""
        stayed = self._imported.hidden.keys() - set(self.back)
        for lines, reason in self._away:
            leaving = [(entry, line) for entry, line in lines if line.group not in stayed]
            if not leaving:
                continue
            lines[:] = [each for each in lines if each not in leaving]
            events = [event_id for _, line in leaving for event_id in line.events]
            group = min(events)
            self._leaving.append((group, events, reason))
            self._gone.setdefault(group, set()).update(line.first for _, line in leaving)
            for entry, line in leaving:
                self._pack(entry.key, ImportedLine(line.first, line.length, group))
            if reason == _UNSENT:
                self._report.unsent += len(leaving)
            else:
                self._report.left += 1

    def _bring_back(self, group: int) -> None:
        """Bring a group back that an import removed from the context."""
        if group not in self._imported.hidden or group in self.back:
            return
        operation = self._imported.hidden[group]
        with self._agent.log.store.read() as moment:
            event = selections.event(moment, operation)
        waited = event is not None and event.reason == _UNSENT
        self._restore(operation, _ANSWERED if waited else _CAME_BACK)
        self.back.append(group)
        self._report.returned += not waited

    def _covers(self, line: ImportedLine, spared: Iterable[int]) -> bool:
        """Return True if a known compaction replaces messages that an edit has put back."""
        events = [event_id for each in spared for event_id in self._events.get(each, ())]
        if not events or self._is_undone(line):
            return False
        with self._agent.log.store.read() as moment:
            event = selections.event(moment, line.first)
            replaced = operation_of(event) if event is not None and event.kind == "summary" else None
        return isinstance(replaced, Summary) and any(
            contains(replaced.ranges, self._agent.id, event_id) for event_id in events
        )

    def _is_undone(self, line: ImportedLine) -> bool:
        """Return True if a known compaction replaces nothing now: it came back, or is a message in the context."""
        if line.group in self.back:
            return True
        with self._agent.reading() as (moment, at):
            said = [each for each in moment.lookup(line.events) if each.kind != "summary"]
            return any(contains(at.visible, each.agent_id, each.id) for each in said)

    def _make_up(self, turn: PlannedTurn) -> list[int]:
        """Append the results that the client makes up now for known calls, and return their events."""
        made = [(step, *each) for step in turn.steps for each in step.made if step.entry.line in self._events]
        with self._agent.reading() as (moment, at):
            open = [each for each in made if not awaiting(moment, at, each[1])[1]]
        return [self._append(ResultMessage(call, text, is_error=True), step.entry.moment) for step, call, text in open]

    def _leave(self, events: list[int], reason: str) -> int:
        """Remove events, and the results of the calls among them, from the context. Return the id of the operation, or
        0 if none of them was in the context."""
        visible = self._agent.standing().visible
        with self._agent.log.store.read() as moment:
            calls = [each for each in moment.lookup(events) if each.kind == "tool_call"]
            events = sorted({*events, *(each.id for each in moment.results(calls))})
        events = [event_id for event_id in events if contains(visible, self._agent.id, event_id)]
        return leave(self._agent, events, reason) if events else 0

    def _restore(self, operation: int, reason: str) -> None:
        """Undo an operation, unless it does not exist or a person has undone it."""
        with suppress(CommandError):
            self._agent.operate(
                lambda moment, at: decide.restore(moment, at, operation, self._agent.past.is_back),
                actor="system",
                reason=reason,
            )

    def _unasked(self, reading: RecordMessages) -> list[str]:
        """Return the results that stay out of the context, because their call was imported earlier, and has left it or
        got a result that the client made up."""
        ids = [part.call_id for part in reading.parts if isinstance(part, ResultMessage)]
        ids = [call_id for call_id in ids if call_id not in self._calls]
        if not ids:
            return []
        with self._agent.reading() as (moment, at):
            calls = {call_id: awaiting(moment, at, call_id) for call_id in ids}
            return [
                id
                for id, (call, answered) in calls.items()
                if call is not None and (answered or not shown(moment, at, call, waits=False))
            ]

    def _note(self, steps: Sequence[PlannedRecord], group: int) -> None:
        """Note the lines of new records, and schedule the removal of those of a shown turn that the client does not
        send. Those that an edit took out are one group."""
        gone = (step.entry.line for step in steps if step.left and not step.sent)
        edited = [event_id for line in gone for event_id in self._events.get(line, ())]
        for step in steps:
            events = self._events.get(step.entry.line)
            own = events.start if events is not None else 0
            if events and step.sent:
                own = group
            elif events and step.left:
                own = min(edited)
            elif events:
                self._leaving.append((own, list(events), _UNSENT))
            line = _SAYS_NOTHING if events is None else ImportedLine(events.start, len(events), own)
            self._pack(step.entry.key, line)
        if edited:
            self._leaving.append((min(edited), edited, _EDITED))

    def _pack(self, key: bytes, line: ImportedLine) -> None:
        self.lines += packed(key, line)
        self._noted[key] = line

    def note_copies(self, entries: Sequence[RecordEntry], known: Mapping[int, ImportedLine]) -> None:
        """Note for each copy the messages of the record that it repeats."""
        keys = {entry.line: entry.key for entry in entries}
        for entry in entries:
            if entry.copies is not None:
                line = entry.copies[-1] if entry.copies else 0
                found = self._noted.get(keys.get(line, b""), known.get(line, _SAYS_NOTHING))
                self.lines += packed(entry.key, found)

    def evict(self, wanted: Iterable[tuple[int, str]]) -> tuple[tuple[int, int], ...]:
        """Evict these results, named by their lines and the ids of their calls, and take back earlier evictions of
        others. Return what imports have evicted now: results and operations."""
        newest = self._imported.newest
        before = dict(newest.evicted if newest else ())
        results: set[int] = set()
        with self._agent.log.store.read() as moment:
            for line, call in wanted:
                found = moment.events(self._events.get(line, ()))
                results |= {each.id for each in found if each.kind == "tool_result" and each.call_id == call}
        for operation in {before[each] for each in before.keys() - results}:
            self._restore(operation, _PUT_BACK)
            before = {each: by for each, by in before.items() if by != operation}
        with self._agent.reading() as (_, at):
            new = sorted(results - before.keys() - at.fold.evicted.keys())
            new = [each for each in new if contains(at.visible, self._agent.id, each)]
        if new:
            done = self._agent.operate(partial(eviction, wanted=new), actor="system", reason=_PLACEHOLDER).event_id
            before |= dict.fromkeys(new, done)
        return tuple(before.items())

    def _append(self, part: Part, time: datetime | None) -> int:
        if isinstance(part, CallMessage):
            self._calls.add(part.call_id)
        return append_part(self._agent, part, self._format.dialect, time)

    def _keep(self, record: SessionRecord, time: datetime | None) -> int:
        data = {"source": self._format.name, "type": record.type, "record": record.value}
        self._report.kept += 1
        return self._agent.record("record", data=data, created_at=time)


def _with(result: ResultMessage, part: Part) -> ResultMessage:
    """Return a result with what the client told behind it."""
    assert isinstance(part, TextMessage)
    texts = (result.text.strip(), part.text.strip())
    return replace(result, text="\n\n".join(filter(None, texts)))


def is_sent(step: PlannedRecord) -> bool:
    """Return True if the record of a shown turn is in the context."""
    results = step.entry.results
    return step.sent and not (results and set(results) <= set(step.astray))


def _may_come(step: PlannedRecord, line: ImportedLine) -> bool:
    """Return True if results of a line that were kept as data may belong to the context now."""
    return line.waits and is_sent(step)


def _standing_for(moment: Snapshot, at: Standing, stays: list[int], last: bool, imported: Segments) -> Summary:
    """Return a summary of all shown imported events except those that stay.

    Coding agents send it as the user's text. It stands behind what stays before it if it is `last`.
    """
    decided = summaries.summary(moment, at, None)
    kept = list(moment.lookup(stays))
    ranges = subtract(intersect(decided.ranges, imported), ranges_of(moment, at, kept))
    if not moment.size(ranges).messages:
        raise CommandError("there is nothing to summarize")
    return replace(decided, ranges=ranges, role="user", last=last)
