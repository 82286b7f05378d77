"""Records to copy from any database (see `foldmark.core.records`)."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import structs

from foldmark.core.agents import Mail
from foldmark.core.codec import checksum
from foldmark.core.errors import DamagedError
from foldmark.core.records import (
    CodingSession,
    Copied,
    CopiedEnd,
    CopiedEvent,
    CopiedMemo,
    CopiedSent,
    Numbers,
)
from foldmark.stores.reader import Row
from foldmark.stores.snapshot import LogSnapshot

PAGE = 256
"""Number of rows read at once."""


class CopyingSnapshot(LogSnapshot, Protocol):
    """A moment that also reads records to copy."""

    def copied_events(self, after: Mapping[str, int]) -> Iterator[CopiedEvent]:
        begin = {self._key(agent): (agent, id) for agent, id in after.items()}
        for row, damaged in self._copied_events({key: id for key, (_, id) in begin.items()}):
            agent, since = begin.get(row[1], ("", row[0]))
            if row[0] > since:
                yield _event(agent, row, damaged)

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[tuple[Row, bool]]:
        """Yield the rows of events after an id for each agent's key, those of a tree in order; others may be among
        them."""

    def copied(self, kind: type[Copied], agents: Collection[str] | None = None, after: int = 0) -> Iterator[Copied]:
        forms: dict[type, tuple[str, Callable[[Row], Any]]] = {
            CopiedEnd: ("copied_ends", _end),
            Mail: ("copied_mail", lambda row: Mail(*row)),
            CopiedSent: ("copied_sent", _sent),
            CopiedMemo: ("copied_memos", lambda row: structs.replace(CopiedMemo(*row), tags=self._tags(row[-1]))),
            CodingSession: ("copied_sessions", lambda row: structs.replace(self._coding_session(row[1:]), id=row[0])),
        }
        name, make = forms[kind]
        keys = None if agents is None else self._list([self._key(agent) for agent in agents])
        rows: list[tuple[Row, bool]] = [((after,), False)]
        while rows:
            rows = list(self._rows(name, agents=keys, after=rows[-1][0][0], limit=PAGE))
            for row, damaged in rows:
                if damaged:
                    raise DamagedError(f"{kind.__name__} {row[0]}: a text is not valid UTF-8; run `foldmark doctor`")
                yield make(row)
            if kind is CopiedEnd:  # these have no ids, and come all at once
                return

    def erased(self, agents: Collection[str]) -> Iterator[tuple[int, str, int]]:
        for id, key, by in self._run("erased", agents=self._list([self._key(agent) for agent in agents])):
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
        record = msgspec.json.decode(data, type=dict)
        question = record.pop("question", question)
        data = msgspec.json.encode(record).decode()
    except (msgspec.MsgspecError, RecursionError):
        pass  # it cannot be read in the copy either
    return CopiedSent(*fields, data, question)  # type: ignore[call-arg]
