"""`foldmark import`: a coding agent's session becomes a conversation [SPEC 8, 9].

Two passes: the first reads ids and flags of every record (`claude_index`) and from them plans turns and branches
(`claude_chain`); the second reads each record again where it lies in the file and appends it. Everything is one
transaction: an import that is interrupted leaves nothing of the session behind.

All lines end up in the conversation, but broken ones, which the report names. A record that is not a message, or has
something in it that cannot be used as one, is kept whole as a `record` event. Branches that are not active are turns
that `/context drop` took out of the context, so `/restore` brings them back. A compaction's summary is a user message
like any other, as Claude Code writes it; what it stands for stays in the context.
"""

import os
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from foldmark.conversation import Agent, Log, decide
from foldmark.conversation.log import is_uuid
from foldmark.core.ports import Progress
from foldmark.sessions.claude import NOT_AN_OBJECT, Broken, Record, SessionFile, SessionFileError
from foldmark.sessions.claude_blocks import Call, Part, Result, read_message
from foldmark.sessions.claude_chain import PlannedTurn, plan
from foldmark.sessions.claude_index import Usage, index

_DIALECT = "anthropic"
_SOURCE = "claude"
_STEP = 1 << 18


class ImportReport(Struct, frozen=True):
    """What an import did.

    `lines` is how many the file has, blank ones counted; `records` is type -> how many lines, the most frequent type
    first, with "(no type)" and "(not an object)" among them; `broken` names every line that is not JSON, and why.
    `messages` is kind -> count, in and out of the context; `turns` counts all of them, `dropped` those that are out of
    it; `kept` is how many lines are kept as data (`record` events), usable messages beside it or not.
    """

    name: str
    agent_id: str
    lines: int
    records: dict[str, int]
    broken: list[tuple[int, str]]
    messages: dict[str, int]
    turns: int
    dropped: int
    kept: int


def import_session(
    log: Log, path: str | os.PathLike[str], name: str | None = None, progress: Progress | None = None
) -> ImportReport:
    """Import a Claude Code session as a new conversation `name` (default: `default_name`).

    `progress` is told of bytes done, out of the size of the file; the first pass is worth a quarter of them.
    Raises SessionFileError for a file that cannot be read as a session, CommandError if the conversation exists.
    """
    name = default_name(path) if name is None else name
    log.check_new(name)
    check(path)
    with SessionFile(path) as session:
        meter = _Meter(session.size, progress)
        records: Counter[str] = Counter()
        broken: list[tuple[int, str]] = []
        entries = index(_first_pass(session, meter, records, broken))
        with log.creating(name) as agent:
            writer = _Writer(agent, session, meter)
            for turn in plan(entries):
                writer.write(turn)
            writer.drop()
            meter.finish()
    return ImportReport(
        name=name,
        agent_id=agent.id,
        lines=session.line_count,
        records=dict(sorted(records.items(), key=lambda item: (-item[1], item[0]))),
        broken=broken,
        messages=dict(writer.messages),
        turns=writer.turns,
        dropped=len(writer.dropped),
        kept=writer.kept,
    )


def check(path: str | os.PathLike[str]) -> None:
    """Raise SessionFileError unless the file can be read and a line of it is a JSON object; reads no further."""
    with SessionFile(path) as session:
        records: Counter[str] = Counter()
        broken: list[tuple[int, str]] = []
        if all(record.type == NOT_AN_OBJECT for record in _first_pass(session, _Meter(0, None), records, broken)):
            raise SessionFileError(f"{session.label} is not a Claude Code session: {_complaint(records, broken)}")


def default_name(path: str | os.PathLike[str]) -> str:
    """The file's name without its ending, as far as it is printable; `claude-` and eight characters of a uuid."""
    stem = "".join(char for char in Path(path).stem if char.isprintable()).strip()[:200]
    return f"claude-{stem[:8]}" if is_uuid(stem) else stem or "claude-session"


def _first_pass(
    session: SessionFile, meter: "_Meter", records: Counter[str], broken: list[tuple[int, str]]
) -> Iterator[Record]:
    for line in session.lines():
        if isinstance(line, Broken):
            broken.append((line.line, line.reason))
        else:
            records[line.type] += 1
            meter.reach(line.offset // 4)
            yield line


def _complaint(records: Counter[str], broken: list[tuple[int, str]]) -> str:
    if records:
        return "no line of it is a JSON object"
    if broken:
        return f"no line of it is JSON (line {broken[0][0]}: {broken[0][1]})"
    return "it is empty"


class _Meter:
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


class _Writer:
    """Appends planned turns to a conversation, and counts."""

    def __init__(self, agent: Agent, session: SessionFile, meter: _Meter) -> None:
        self._agent, self._session, self._meter = agent, session, meter
        self.messages: Counter[str] = Counter()
        self.turns = self.kept = 0
        self.dropped: list[int] = []

    def write(self, turn: PlannedTurn) -> None:
        first: int | None = None
        for step in turn.steps:
            entry = step.entry
            self._meter.reach((self._session.size + 3 * entry.offset) // 4)
            record = self._session.reread(entry.line, entry.offset)
            reading = read_message(record.value)
            for part in reading.parts:
                if isinstance(part, Result) and part.call_id in step.astray:
                    continue
                event_id = self._append(part, entry.moment)
                first = first or event_id
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
            self.dropped.append(first)

    def drop(self) -> None:
        """Take the turns that are not shown out of the context, at the end: so those side by side leave one gap."""
        for turn in self.dropped:
            self._agent.operate(partial(decide.drop, turn_id=turn))

    def _append(self, part: Part, moment: datetime | None) -> int:
        agent = self._agent
        if isinstance(part, Call):
            return agent.append_tool_call(
                part.name, part.args, call_id=part.call_id, dialect=_DIALECT, created_at=moment, data=part.data
            )
        if isinstance(part, Result):
            return agent.append_tool_result(
                part.call_id, part.text, dialect=_DIALECT, is_error=part.is_error, created_at=moment, data=part.data
            )
        # What stands in a session stays as it is: a block at its end is not of this conversation's models.
        return agent.append(part.kind, part.text, created_at=moment, data=part.data, dialect=_DIALECT, verbatim=True)

    def _keep(self, record: Record, moment: datetime | None) -> None:
        data = {"source": _SOURCE, "type": record.type, "record": record.value}
        self._agent.record("record", data=data, created_at=moment)
        self.kept += 1

    def _record_usage(self, usage: Usage, moment: datetime | None) -> None:
        self._agent.record("usage", data=usage._asdict(), created_at=moment)
