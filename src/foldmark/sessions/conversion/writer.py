"""Writing a planned import into a conversation: turns, what left the context, compactions [SPEC 8]."""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from foldmark.conversation import Agent, decide
from foldmark.conversation.exchanges import closure, ranges_of
from foldmark.conversation.standing import Standing
from foldmark.core.errors import CommandError
from foldmark.core.events import Summary
from foldmark.core.ports import Progress
from foldmark.core.segments import subtract
from foldmark.sessions.claude.blocks import Call, Part, Reading, Result, Text
from foldmark.sessions.claude.chain import PlannedTurn
from foldmark.sessions.claude.index import Entry, Usage
from foldmark.sessions.places import Kind
from foldmark.sessions.session_file import Record, SessionFile

_STEP = 1 << 18


class Form(Struct, frozen=True):
    """Whose session it is: the name of the `source`, the dialect of its messages, and how a record is read."""

    source: Kind
    dialect: str
    read: Callable[[Any], Reading]


class Meter:
    """Tells how far the import is, in steps that are worth showing."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self._total, self._progress, self._told = total, progress, 0

    def reach(self, done: int) -> None:
        if self._progress and done - self._told >= _STEP:
            self._told = done
            self._progress(done, self._total)

    def finish(self) -> None:
        if self._progress:
            self._progress(self._total, self._total)


class Writer:
    """Appends planned turns to a conversation, and counts."""

    def __init__(self, agent: Agent, session: SessionFile, form: Form, meter: Meter) -> None:
        self._agent, self._session, self._form, self._meter = agent, session, form, meter
        self.messages: Counter[str] = Counter()
        self.turns = self.kept = self.dropped = 0
        self._hidden: list[int] = []
        self._events: dict[int, range] = {}

    def write(self, turn: PlannedTurn) -> None:
        if turn.keeps is not None and self._summarize(turn.steps[0].entry, turn.keeps):
            return
        first: int | None = None
        for step in turn.steps:
            entry = step.entry
            self._meter.reach((self._session.size + 3 * entry.offset) // 4)
            record = self._session.reread(entry.line, entry.offset)
            reading = self._form.read(record.value)
            for part in reading.parts:
                if isinstance(part, Result) and part.call_id in step.astray:
                    continue
                event_id = self._append(part, entry.moment)
                first = first or event_id
                begun = self._events.get(entry.line)
                self._events[entry.line] = range(begun.start if begun else event_id, event_id + 1)
                self.messages[part.kind] += 1
            if step.astray or not reading.complete:
                self._keep(record, entry.moment)
            if step.usage:
                self._record_usage(step.usage, entry.moment)
        if first is None:
            return
        self._agent.end_turn(created_at=turn.steps[-1].entry.moment, interrupted=turn.interrupted)
        self.turns += 1
        if not turn.shown:
            self._hidden.append(first)

    def drop(self) -> None:
        """Take the turns that are not shown out of the context, many at once: so those side by side leave one gap."""
        for turn in self._hidden:
            self._agent.operate(partial(decide.drop, wanted=[turn]))
        self.dropped += len(self._hidden)
        self._hidden.clear()

    def _summarize(self, entry: Entry, keeps: frozenset[int]) -> bool:
        """Record a compaction; False if there is nothing in front of it that it could stand for."""
        self.drop()  # a summary stands for what is shown
        record = self._session.reread(entry.line, entry.offset)
        reading = self._form.read(record.value)
        texts = [part for part in reading.parts if isinstance(part, Text)]
        stays = [event_id for line in keeps for event_id in self._events.get(line, ())]
        try:
            receipt = self._agent.operate(
                partial(_standing_for, stays=stays),
                actor="system",
                content="\n\n".join(text.text for text in texts),
                created_at=entry.moment,
            )
        except CommandError:
            return False
        if not reading.complete or any(text.data for text in texts):
            self._keep(record, entry.moment)
        self._events[entry.line] = range(receipt.event_id, receipt.event_id + 1)
        self.messages["summary"] += 1
        self.turns += 1
        return True

    def _append(self, part: Part, moment: datetime | None) -> int:
        agent, dialect = self._agent, self._form.dialect
        if isinstance(part, Call):
            return agent.append_tool_call(
                part.name, part.args, call_id=part.call_id, dialect=dialect, created_at=moment, data=part.data
            )
        if isinstance(part, Result):
            return agent.append_tool_result(
                part.call_id, part.text, dialect=dialect, is_error=part.is_error, created_at=moment, data=part.data
            )
        # What stands in a session stays as it is: a block at its end is not of this conversation's models.
        return agent.append(part.kind, part.text, created_at=moment, data=part.data, dialect=dialect, verbatim=True)

    def _keep(self, record: Record, moment: datetime | None) -> None:
        data = {"source": self._form.source, "type": record.type, "record": record.value}
        self._agent.record("record", data=data, created_at=moment)
        self.kept += 1

    def _record_usage(self, usage: Usage, moment: datetime | None) -> None:
        self._agent.record("usage", data=usage._asdict(), created_at=moment)


def _standing_for(at: Standing, stays: list[int]) -> Summary:
    """A summary of everything that is shown but the events that stay, each with its whole exchange."""
    decided = decide.summary(at, None)
    kept = list(at.store.lookup(stays))
    ranges = subtract(decided.ranges, ranges_of(at, [*kept, *closure(at, kept)]))
    if not at.store.size(ranges).messages:
        raise CommandError("there is nothing to summarize")
    return replace(decided, ranges=ranges)
