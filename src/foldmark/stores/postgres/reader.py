"""Run the named statements of a PostgreSQL database (see `foldmark.stores.reader`)."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from foldmark.core.errors import StoreError
from foldmark.core.events import Event
from foldmark.core.replay import Fold
from foldmark.core.segments import Segments
from foldmark.core.turns import Message
from foldmark.stores import reader
from foldmark.stores.postgres.connection import STATEMENTS, Ints, PostgresSession, Texts
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row

BLOCK = 4096
"""Number of ids that a tree takes at once. `queries.sql` has it as a number of bits (12)."""

_NOBODYS = -1
"""The root of ids that belong to no tree."""

SHARED = 0
"""The root of a block whose ids belong to several trees, copied from another database."""

_SEEN = 10_000
"""Number of events whose owner is cached."""


class Known:
    """A store's cache of facts that never change: keys, uuids, and the tree of a key, a block of ids or an event that
    was `seen`."""

    def __init__(self) -> None:
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        self.roots: dict[int, int] = {}
        self.blocks: dict[int, int] = {}
        self.seen: dict[int, int] = {}
        self.fold = lru_cache(maxsize=64)(msgspec.json.Decoder(Fold).decode)

    def forget(self, agent_id: str) -> None:
        """Forget an agent whose creation was rolled back."""
        if (key := self.keys.pop(agent_id, None)) is not None:
            self.ids.pop(key, None)
            self.roots.pop(key, None)


class PostgresReader(reader.SqlReader):
    """Runs statements in a session."""

    def __init__(self, session: PostgresSession, known: Known) -> None:
        self._session, self._known = session, known
        self._keys, self._ids, self._fold = known.keys, known.ids, known.fold
        self._roots, self._blocks, self._seen = known.roots, known.blocks, known.seen

    def _check(self) -> None:
        """Raise StoreError if the block has ended or failed."""

    def _run(self, name: str, /, *bound: Any, **bindings: Any) -> list[Row]:
        self._check()
        return self._session.run(STATEMENTS[name], bindings)

    def _rows(self, name: str, /, **bindings: Any) -> list[tuple[Row, bool]]:
        return [(row, False) for row in self._run(name, **bindings)]

    def _list(self, values: Iterable[Any]) -> Ints | Texts:
        found = list(values)
        return Ints(found) if found and isinstance(found[0], int) else Texts(found)

    def _of(self, agent_id: str) -> Bindings:
        key = self._key(agent_id)
        return {"root": self._roots[key], "agent": key}

    def _within(self, segments: Segments) -> Bindings:
        agents = [self._key(agent) for agent, _, _ in segments]
        roots = {self._roots[key] for key in agents}
        if len(roots) > 1:
            raise StoreError("segments of several conversations cannot be read at once")
        firsts, lasts = Ints(first for _, first, _ in segments), Ints(last for _, _, last in segments)
        return {"root": next(iter(roots), _NOBODYS), "agents": Ints(agents), "firsts": firsts, "lasts": lasts}

    def _these(self, event_ids: Iterable[int]) -> Bindings:
        ids = Ints(event_ids)
        return {"roots": self._roots_of(ids), "ids": ids}

    def _roots_of(self, event_ids: Collection[int | None]) -> Ints:
        """Return the roots of the trees of events."""
        found = {id: self._seen[id] for id in event_ids if id is not None and id in self._seen}
        left = {id: id // BLOCK for id in event_ids if id is not None and id >= 0 and id not in found}
        if unknown := set(left.values()).difference(self._blocks):
            self._blocks.update(self._run("block_roots", blocks=Ints(unknown)))
        found |= {id: self._blocks[block] for id, block in left.items() if block in self._blocks}
        if among := [id for id, root in found.items() if root == SHARED]:
            found |= {**dict.fromkeys(among, _NOBODYS), **dict(self._run("event_roots", ids=Ints(among)))}
        return Ints(_NOBODYS if id is None else found.get(id, _NOBODYS) for id in event_ids)

    def _places(self, places: Sequence[Message]) -> Bindings:
        agents = Ints(self._key(each.agent_id) for each in places)
        roots = Ints(self._roots[key] for key in agents if key is not None)
        return {"roots": roots, "agents": agents, "ids": Ints(each.id for each in places)}

    def _know(self, agent_id: str, row: Sequence[Any]) -> None:
        key, root = row
        # Finding the key also finds the root.
        self._roots[key] = root
        self._keys[agent_id], self._ids[key] = key, agent_id

    def _id(self, key: int) -> str:
        if key not in self._ids:
            for agent_id, root in self._run("agent_id", key=key):
                self._know(agent_id, (key, root))
        return self._ids.get(key) or f"unknown agent {key}"

    def _sound(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        for row in rows:
            self._see(row[0], row[1])
        return super()._sound(rows)

    def _message(self, row: Sequence[Any]) -> Message:
        self._see(row[0], row[1])
        return super()._message(row)

    def _see(self, event_id: int, key: int) -> None:
        """Cache the tree of an event, unless its block tells it."""
        if self._blocks.get(event_id // BLOCK, SHARED) == SHARED and key in self._roots:
            if len(self._seen) >= _SEEN:
                self._seen.clear()
            self._seen[event_id] = self._roots[key]
