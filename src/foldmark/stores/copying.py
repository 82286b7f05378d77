"""Records copied from any database and into it (see `foldmark.core.records`)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from foldmark.core.agents import AgentRecord
from foldmark.core.codec import checksum
from foldmark.core.errors import DamagedError
from foldmark.core.events import is_replayed
from foldmark.core.records import (
    Beside,
    CodingSession,
    Copied,
    CopiedAgent,
    CopiedEnd,
    CopiedEvent,
    CopiedMail,
    CopiedMemo,
    CopiedSent,
    Numbers,
)
from foldmark.stores.appender import Appender
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row
from foldmark.stores.snapshot import LogSnapshot
from foldmark.stores.transaction import LogTransaction

PAGE = 256
"""Number of rows read at once."""

_NAMES: dict[type, str] = {
    CopiedMail: "copied_mail",
    CopiedSent: "copied_sent",
    CopiedMemo: "copied_memos",
    CodingSession: "copied_sessions",
}
"""The names of the statements that read a page."""


class SqlCopyingView(LogSnapshot):
    """Reads records to copy."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        begin = {self._key(agent): (agent, id) for agent, id in after.items()}
        for row, damaged in self._copied_events({key: id for key, (_, id) in begin.items()}):
            agent, since = begin.get(row[1], ("", row[0]))
            if row[0] > since:
                yield _event(agent, row, damaged)

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[tuple[Row, bool]]:
        """Yield the rows of events after an id for each agent's key, those of a tree in order; others may be among
        them."""
        raise NotImplementedError

    def copied(self, kind: type[Copied], agents: Collection[str] | None = None, after: int = 0) -> Iterator[Copied]:
        of = None if agents is None else [self._key(agent) for agent in agents]
        made: dict[type, Callable[[Row], Any]] = {
            CopiedEnd: _end,
            CopiedMail: lambda row: CopiedMail(*row),
            CopiedSent: _sent,
            CopiedMemo: self._copied_memo,
            CodingSession: self._copied_session,
        }
        rows = self._copied_ends(of) if kind is CopiedEnd else self._copied_pages(kind, of, after)
        for row, damaged in rows:
            if damaged:
                raise DamagedError(f"{kind.__name__} {row[0]}: a text is not UTF-8 any more; run `foldmark doctor`")
            yield made[kind](row)

    def _copied_pages(self, kind: type, of: list[int] | None, after: int) -> Iterator[tuple[Row, bool]]:
        name = _NAMES[kind]
        bound: Bindings = {"after": after, "limit": PAGE}
        if kind in (CopiedMail, CopiedSent):
            bound |= {"whole": of is None, "agents": self._keys_of(of or ())}
        while rows := list(self._rows(name, **bound)):
            yield from rows
            bound["after"] = rows[-1][0][0]

    def _copied_ends(self, of: list[int] | None) -> Iterable[tuple[Row, bool]]:
        return self._rows("copied_ends", whole=of is None, agents=self._keys_of(of or ()))

    def _keys_of(self, keys: Iterable[int]) -> Any:
        """Return keys of agents, bound for a statement."""
        return self._list(keys)

    def _copied_memo(self, row: Row) -> CopiedMemo:
        id, event, agent, actor, created_at, content, tags = row
        return CopiedMemo(id, event, agent, actor, created_at, content, tuple(sorted(self._tags(tags))))

    def _copied_session(self, row: Row) -> CodingSession:
        return structs.replace(self._session_of(row[1:]), id=row[0])

    def erased(self, agents: Collection[str]) -> Iterator[tuple[int, str, int]]:
        for id, key, by in self._run("erased", agents=self._keys_of(map(self._key, agents))):
            yield id, self._id(key), by

    def kept_texts(self, hashes: Collection[str]) -> dict[str, str]:
        return dict(self._run("kept_texts", hashes=self._list(sorted(hashes)))) if hashes else {}

    def numbers(self) -> Numbers:
        return Numbers(*self._run("numbers")[0])


def _event(agent: str, row: Row, damaged: bool) -> CopiedEvent:
    *columns, apart, by, content, data, sum = row
    try:
        texts = [each.encode() if isinstance(each, str) else each for each in (content, data)]
        damaged = damaged or (by is None and sum is not None and checksum(columns, texts[0], texts[1]) != sum)
        content, data = (None if each is None else each.decode() for each in texts)
    except (UnicodeError, TypeError, AttributeError):
        damaged = True
    id, _, turn, kind, dialect, actor, created_at, interrupted, call_id, answers = columns
    if damaged:
        raise DamagedError(
            f"event {id} of agent {agent[:8]} is not as it was recorded: it cannot be copied. `foldmark doctor` says "
            "what is wrong with it; its turn can be erased with `/message remove`"
        )
    fixed = (id, agent, turn, kind, dialect, actor, created_at, bool(interrupted), call_id, answers)
    return CopiedEvent(*fixed, bool(apart), by, content, data)


def _end(row: Row) -> CopiedEnd:
    agent, killer, killed_by, died_at, deleted_by, deleted_at, archived = row
    killed = None if died_at is None else (killer, killed_by, died_at)
    return CopiedEnd(agent, killed, None if deleted_at is None else (deleted_by, deleted_at), archived)


def _sent(row: Row) -> CopiedSent:
    *fields, data, question = row
    try:
        made = msgspec.json.decode(data, type=dict)
        question = made.pop("question", question)
        data = msgspec.json.encode(made).decode()
    except (msgspec.MsgspecError, RecursionError):
        pass  # it cannot be read in the copy either
    return CopiedSent(*fields, data, question)  # type: ignore[call-arg]


class SqlCopying(LogTransaction):
    """Takes copied records."""

    def settle(self) -> None:
        """Write pending changes."""
        raise NotImplementedError

    def take_agents(self, agents: Sequence[CopiedAgent]) -> None:
        with self.whole():
            for agent in agents:
                record = AgentRecord(agent.id, agent.name, agent.parent, agent.fork_event, agent.created_at)
                self._create(record, agent.place)

    def take_events(self, events: Sequence[CopiedEvent]) -> None:
        self.settle()
        with self.whole():
            self._take_ids(events)
            appenders = dict[str, Appender]()
            for event in events:
                if event.agent not in appenders:
                    appenders[event.agent] = self._taker(event.agent)
                appenders[event.agent].take(event)
            self._taken(appenders)
            for agent in sorted({event.agent for event in events if is_replayed(event.kind, event.data)}):
                self._write("forget_fold", **self._of(agent))

    def _take_ids(self, events: Sequence[CopiedEvent]) -> None:
        """Reserve the ids of these events. Raises StoreError if they are taken."""

    def _taker(self, agent_id: str) -> Appender:
        """Return an appender that takes events with their ids."""
        raise NotImplementedError

    def _taken(self, appenders: Mapping[str, Appender]) -> None:
        """Write where the agents stand."""
        raise NotImplementedError

    def take(self, records: Sequence[Beside], texts: Mapping[str, str] = {}) -> None:
        with self.whole():
            for sha256, text in sorted(texts.items()):
                self._write("keep_text", hash=sha256, text=text)
            for record in records:
                self._take(record)

    def _take(self, record: Beside) -> None:
        fields = structs.asdict(record)
        match record:
            case CopiedMail():
                fields |= {"sender": self._key(record.sender), **self._of(record.recipient)}
                self._take_mail(fields)
            case CopiedSent():
                self._take_sent({**fields, **self._of(record.agent)})
            case CopiedMemo():
                tags = fields.pop("tags")
                self._take_memo({**fields, "agent": None if record.agent is None else self._key(record.agent)})
                for tag in tags:
                    self._write("tag_memo", tag=tag, memo=record.id)
                self._index_memo(record.id, record.content, " ".join(tags))
            case CodingSession():
                self._write("take_session", **{**fields, "worker_id": self._worker(record.worker_id)})

    def _take_mail(self, row: Bindings) -> None:
        self._write("take_mail", **row)

    def _take_memo(self, row: Bindings) -> None:
        """Record a memo without its tags and words; `event` is the newest event before it."""
        raise NotImplementedError

    def _take_sent(self, row: Bindings) -> None:
        """Record a request; its `question` stands beside its `data`."""
        raise NotImplementedError

    def take_numbers(self, numbers: Numbers) -> None:
        raise NotImplementedError
