"""Records copied from SQLite and into it (see `foldmark.stores.copying`).

Ids follow the order of all commits, and no index holds an agent's events alone: events are read in one pass over the
whole log.
"""

from collections.abc import Iterator, Mapping, Sequence

import apsw
import msgspec

from foldmark.core.agents import AgentRecord
from foldmark.core.records import CopiedEvent, Numbers
from foldmark.stores import copying
from foldmark.stores.appender import Appender
from foldmark.stores.copying import PAGE
from foldmark.stores.queries import listed
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row
from foldmark.stores.sqlite.appender import ImportedWordIndex, SqliteAppender


class SqliteCopyingView(copying.SqlCopyingView):
    """Reads records to copy."""

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[tuple[Row, bool]]:
        last = min(after.values(), default=0)
        ((end,),) = self._run("newest_head", agents=listed(after))
        while rows := list(self._rows("copied_events", after=last, end=end, limit=PAGE)):
            yield from rows
            last = rows[-1][0][0]


class SqliteCopying(copying.SqlCopying):
    """Takes copied records."""

    _db: apsw.Connection
    _sql: dict[str, str]

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        parent = None if record.parent is None else self._key(record.parent)
        each = {"id": record.id, "name": record.name, "fork_event": record.fork_event, "created_at": record.created_at}
        self._write("create_agent", **each, parent=parent, place=place)

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        self._taken_words = ImportedWordIndex(self._db, self._sql)
        super().take_events(events)
        self._appenders.clear()  # their state is outdated

    def _take_ids(self, events: Sequence[CopiedEvent]) -> None:
        if events:
            self._write("embed_again", until=min(event.id for event in events) - 1)

    def _taker(self, agent_id: str) -> SqliteAppender:
        key = self._key(agent_id)
        ((*row, _, weight, messages, tokens),) = self._run("position", key)
        row += weight, messages, tokens
        return SqliteAppender(self._db, self._sql, key, lambda: 0, self._taken_words, tuple(row))

    def _taken(self, appenders: Mapping[str, Appender]) -> None:
        self._taken_words.index()
        for appender in appenders.values():
            assert isinstance(appender, SqliteAppender)
            appender.finish()

    def _take_memo(self, row: Bindings) -> None:
        self._write("take_memo", **row)

    def _take_sent(self, row: Bindings) -> None:
        question = row.pop("question")
        if question is not None:
            row["data"] = msgspec.json.encode({**msgspec.json.decode(row["data"]), "question": question}).decode()
        self._write("take_sent", **row)

    def take_numbers(self, numbers: Numbers) -> None:
        with self.whole():
            for name, number in numbers._asdict().items():
                for query in ("raise_number", "begin_number"):
                    self._write(query, name=name, number=number)
