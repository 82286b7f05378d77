"""Named statements of a database, and the values of their rows, which may be damaged.

Each database derives its own `SqlReader` and `SqlWriter`. A statement gets its bindings by name. The
database decides which bindings represent an agent, segments or events (`_for_agent`, `_for_segments`, `_for_events`,
`_for_messages`).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Protocol, Self

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from foldmark.core.agents import AgentRecord, mail_of
from foldmark.core.codec import checksum_of, decode_data
from foldmark.core.errors import DamagedError
from foldmark.core.events import Event
from foldmark.core.replay import Fold
from foldmark.core.segments import Segments
from foldmark.core.turns import Message

Row = tuple[Any, ...]

Fetched = tuple[list[Row], Collection[int]]
"""Rows, and the indices of those in which U+FFFD replaces invalid UTF-8."""

Bindings = dict[str, Any]


class SqlReader(Protocol):
    """Runs statements. `_keys` and `_ids` cache the keys and uuids of agents.

    The methods that every database has to implement have no body. This class and those derived
    from it are protocols, so that mypy reports a database that lacks one of them.
    """

    _keys: dict[str, int]
    _ids: dict[int, str]
    _fold: Callable[[str], Fold]

    # To be implemented

    def _run(self, name: str, /, *bound: Any, **bindings: Any) -> list[Row]:
        """Return the rows of a query. Invalid UTF-8 is replaced by U+FFFD."""

    def _rows(self, name: str, /, **bindings: Any) -> Fetched:
        """Return the rows of a query, and the indices of those with invalid text."""

    def _list(self, values: Iterable[Any]) -> Any:
        """Return values for a single statement: one statement per value would be slower."""

    def _for_agent(self, agent_id: str) -> Bindings:
        """Return bindings for an agent."""

    def _for_segments(self, segments: Segments) -> Bindings:
        """Return bindings for segments of one conversation and its forks."""

    def _for_events(self, event_ids: Iterable[int]) -> Bindings:
        """Return bindings for events of any agent."""

    def _for_messages(self, places: Sequence[Message]) -> Bindings:
        """Return bindings for events together with their agents."""

    def _check(self) -> None:
        """Raise StoreError if the block has ended or failed."""
        return

    def settle(self) -> None:
        """Write the pending rows of a transaction."""
        return

    # Common to all databases

    def _key(self, agent_id: str) -> int:
        if agent_id not in self._keys:
            for row in self._run("agent_key", id=agent_id):
                self._cache_agent(agent_id, row)
        try:
            return self._keys[agent_id]
        except KeyError:
            raise unknown_agent(agent_id) from None

    def _cache_agent(self, agent_id: str, row: Sequence[Any]) -> None:
        """Cache an agent's key."""
        self._keys[agent_id], self._ids[row[0]] = row[0], agent_id

    def _id(self, key: int) -> str:
        if key not in self._ids:
            for agent_id, *more in self._run("agent_id", key=key):
                self._cache_agent(agent_id, (key, *more))
        # An event of an unknown agent is damaged and in no agent's lineage.
        return self._ids.get(key) or f"unknown agent {key}"

    def _agent(self, row: Sequence[Any]) -> AgentRecord:
        *fields, key, root = row
        record = self._record(fields)
        self._cache_agent(record.id, (key, root))
        return record

    def _record(self, fields: Sequence[Any]) -> AgentRecord:
        return AgentRecord(*fields)

    def _events(self, name: str, /, **bindings: Any) -> list[Event]:
        """Return the events of a query; an event with invalid text is marked as damaged."""
        rows, damaged = self._rows(name, **bindings)
        if not rows:
            return []
        if not damaged:
            with suppress(DamagedError, ValidationError):
                return self._decoded_events(rows)
        return [self._event(row, place in damaged) for place, row in enumerate(rows)]

    def _event(self, row: Sequence[Any], damaged: bool = False) -> Event:
        try:
            (event,) = self._decoded_events([row])
        except (DamagedError, ValidationError):
            row, damaged = well_typed(row), True
            try:
                (event,) = self._decoded_events([row])
            except DamagedError:  # returned without data; a replay reports a missing operation
                (event,) = self._decoded_events([(*row[:5], None, *row[6:])])
        return replace(event, damaged=True) if damaged else event

    def _decoded_events(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        """Return the events of undamaged rows. Raises DamagedError and ValidationError.

        Most reads use this method, and a call for each row or column would double the time.
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


class SqlWriter(SqlReader, Protocol):
    """Runs statements inside a transaction."""

    def _write(self, name: str, /, **bindings: Any) -> None:
        """Run a statement without a result. It may be delayed until the next one with a result."""

    def whole(self) -> AbstractContextManager[Self]:
        """Write everything inside the block, which gets this transaction, or nothing. If the block raises after it has
        written something, the whole transaction is rolled back and later use raises, so half of a block is never
        committed."""


# Rows of a damaged database


class EventRow(Struct, array_like=True, frozen=True, gc=False):
    """The types of an event's columns."""

    id: int
    agent: int
    turn: int | None
    kind: str
    content: str
    data: str | None
    dialect: str | None
    actor: str
    tokens: int
    created_at: str
    interrupted: int
    answers: int | None


class _Page(Struct, array_like=True, gc=False):
    rows: list[EventRow]


def check_types(rows: Sequence[Sequence[Any]]) -> None:
    """Raise ValidationError if a column of an event has the wrong type."""
    convert((rows,), _Page)  # a type other than a struct would be inspected on every call


def well_typed(row: Sequence[Any]) -> Row:
    """Return an event's row with None, an empty text or 0 for columns of the wrong type: a flipped bit can turn a text
    into a null or a number."""
    return tuple(_typed(value, type) for value, type in zip(row, EventRow.__annotations__.values(), strict=True))


def _typed(value: Any, type: Any) -> Any:
    try:
        return convert(value, type)
    except ValidationError:
        return type() if type in (int, str) else None


def carried_mail(data: str | None) -> list[int]:
    """Return the ids of the mail that a message carries, given its stored data."""
    try:
        return mail_of(decode_data("user", data)) if data is not None and '"mail"' in data else []
    except DamagedError:
        return []


def unknown_agent(agent_id: str) -> DamagedError:
    """Return the error for an agent that the log names but the database lacks."""
    return DamagedError(f"an event names agent {agent_id[:8]}, which the database does not have; run `foldmark doctor`")


def fault(head: bytes | None, content: bytes | None, data: bytes | None, stored: int | None) -> str | None:
    """Return the fault of an event; None if it is sound. Without a checksum only its UTF-8 is checked."""
    if head is None or content is None:
        return "a required column is missing"
    for name, raw in (("row", head), ("content", content), ("data", data or b"")):
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            return f"its {name} is not valid UTF-8 at byte {error.start + 1}"
    if stored is not None and checksum_of(head, content, data) != stored:
        return "it does not match its checksum: bytes have changed on the disk"
    return None
