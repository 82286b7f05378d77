"""Named statements of a database, and the values of their rows.

Each database derives a `SqlReader` and a `SqlWriter` of its own. A statement is given its bindings by name; the
database decides which bindings an agent, segments or ids take (`_of`, `_within`, `_these`).
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import starmap
from typing import Any, Self

from msgspec import ValidationError
from msgspec.structs import replace

from foldmark.core.agents import AgentRecord
from foldmark.core.codec import decode_data
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.replay import Fold
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores.rows import Row, check_types, unknown_agent, well_typed

Run = Callable[..., list[Row]]
"""Runs the statement of a name with its bindings."""

Bindings = dict[str, Any]


class SqlReader:
    """Runs statements. `_keys` and `_ids` are caches of agents."""

    _keys: dict[str, int]
    _ids: dict[int, str]
    _fold: Callable[[str], Fold]

    # Implemented by each database

    def _run(self, name: str, /, *bound: Any, **bindings: Any) -> list[Row]:
        raise NotImplementedError

    def _rows(self, name: str, /, **bindings: Any) -> Iterable[tuple[Row, bool]]:
        """Return the rows of a query, each with True if it holds invalid text."""
        raise NotImplementedError

    def _list(self, values: Iterable[Any]) -> Any:
        """Return values for one statement: one statement for each value would be slower."""
        raise NotImplementedError

    def _of(self, agent_id: str) -> Bindings:
        """Return bindings for an agent."""
        raise NotImplementedError

    def _within(self, segments: Segments) -> Bindings:
        """Return bindings for segments of one conversation and its forks."""
        raise NotImplementedError

    def _these(self, event_ids: Iterable[int]) -> Bindings:
        """Return bindings for events of any agent."""
        raise NotImplementedError

    def _places(self, places: Sequence[Message]) -> Bindings:
        """Return bindings for events together with their agents."""
        raise NotImplementedError

    def _settle(self) -> None:
        """Update tables whose rows a transaction writes late."""

    # Common to all databases

    def _key(self, agent_id: str) -> int:
        if agent_id not in self._keys:
            for row in self._run("agent_key", id=agent_id):
                self._know(agent_id, row)
        try:
            return self._keys[agent_id]
        except KeyError:
            raise unknown_agent(agent_id) from None

    def _know(self, agent_id: str, row: Sequence[Any]) -> None:
        """Cache an agent's key."""
        self._keys[agent_id], self._ids[row[0]] = row[0], agent_id

    def _id(self, key: int) -> str:
        if key not in self._ids:
            for (agent_id,) in self._run("agent_id", key=key):
                self._ids[key] = agent_id
        if key not in self._ids:
            return f"unknown agent {key}"  # the event is damaged; it is in nobody's lineage
        return self._ids[key]

    def _agent(self, row: Sequence[Any]) -> AgentRecord:
        *fields, deleted, key, root = row
        record = self._record((*fields, bool(deleted)))
        self._know(record.id, (key, root))
        return record

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        return AgentRecord(*fields)

    def _events(self, name: str, /, **bindings: Any) -> list[Event]:
        """Return the events of a query; an event with invalid text is marked as damaged."""
        found = list(self._rows(name, **bindings))
        if not found:
            return []
        rows, damaged = zip(*found, strict=True)
        if not any(damaged):
            with suppress(DamagedError, ValidationError):
                return self._sound(rows)
        return list(starmap(self._event, found))

    def _event(self, row: Sequence[Any], damaged: bool = False) -> Event:
        try:
            (event,) = self._sound([row])
        except (DamagedError, ValidationError):
            row, damaged = well_typed(row), True
            try:
                (event,) = self._sound([row])
            except DamagedError:  # returned without data; a replay reports a missing operation
                (event,) = self._sound([(*row[:5], None, *row[6:])])
        return replace(event, damaged=True) if damaged else event

    def _sound(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        """Return the events of undamaged rows. Raises DamagedError and ValidationError.

        Most reads pass here, and a call for each row or column would double the time.
        """
        check_types(rows)
        known = self._ids
        return [
            Event(
                id,
                known.get(key) or self._id(key),
                turn,
                kind,
                content,
                None if data is None else decode_data(kind, data),
                dialect,
                actor,
                tokens,
                created_at,
                interrupted != 0,
                answers,
            )
            for id, key, turn, kind, content, data, dialect, actor, tokens, created_at, interrupted, answers in rows
        ]

    def _message(self, row: Sequence[Any]) -> Message:
        id, key, turn, kind, answers = row
        return Message(id, self._id(key), turn, kind, answers)


class SqlWriter(SqlReader):
    """Runs statements inside a transaction."""

    def _write(self, name: str, /, **bindings: Any) -> None:
        """Run a statement without a result; perhaps only before the next one with a result."""
        raise NotImplementedError

    def whole(self) -> AbstractContextManager[Self]:
        """Write everything inside the block, which gets this transaction, or nothing. If the block raises after it has
        written something, the whole transaction is rolled back, and later use raises: half of a block is never
        committed."""
        raise NotImplementedError
