"""One block of a store in PostgreSQL (see `foldmark.stores.block`).

Changes: transactions draw their numbers when they first write, and commit in any order. An event is stamped with the
number of its transaction, or with the stamp of the newest event of its tree if that is higher, so that stamps follow
the ids of a tree. A reader accepts events with stamps below the number of the oldest open transaction: no lower stamp
can be committed any more. A cursor is the place of the last change read: its stamp, its type (a new agent or an event)
and its id. A cursor that begins now also names the events that were already committed after a transaction
that was still open, as trees with their last ids.

Memos are numbered in the order of commits, because a transaction that saves one locks the counter until its end. At its
first event after a new memo, a tree records the newest memo at that time (`memo_marks`).
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

import msgspec
import psycopg

from foldmark.core.agents import Change, Changes
from foldmark.core.errors import StoreError
from foldmark.core.events import Event
from foldmark.core.ports import NEWEST_KINDS
from foldmark.core.replay import Fold
from foldmark.core.search import LogIndex, SearchScope
from foldmark.core.segments import END, Segments
from foldmark.core.turns import Message
from foldmark.stores.block import Reading
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pipeline, Statement, Texts
from foldmark.stores.rows import Bindings, Fetched, Row
from foldmark.stores.snapshot import PAGE
from foldmark.text.keywords import folded, spellings

BLOCK = 4096
"""Number of ids that a tree takes at once. `queries.sql` uses it as a number of bits (12)."""

_NO_ROOT = -1
"""The root of ids that belong to no tree."""

_SHARED = 0
"""The root of a block whose ids belong to several trees, copied from another database."""

_CACHED = 10_000
"""Number of events whose tree is cached."""


class Known:
    """A store's cache of facts that never change: keys, uuids, and the tree of a key, a block of ids or an event.
    `ahead` returns the seconds that the clock of leases is ahead of the database's; for tests."""

    def __init__(self, ahead: Callable[[], float]) -> None:
        self.ahead = ahead
        self.keys: dict[str, int] = {}
        self.ids: dict[int, str] = {}
        self.roots: dict[int, int] = {}
        self.blocks: dict[int, int] = {}
        self.events: dict[int, int] = {}
        self.fold = lru_cache(maxsize=64)(msgspec.json.Decoder(Fold).decode)

    def forget(self, agent_id: str) -> None:
        """Forget an agent whose creation was rolled back."""
        if (key := self.keys.pop(agent_id, None)) is not None:
            self.ids.pop(key, None)
            self.roots.pop(key, None)


_PLACE = r"[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,18}"


class PostgresReading(Reading):
    """The contents of the database in one block."""

    kinds = Texts(NEWEST_KINDS)
    cursor = re.compile(f"{_PLACE}(:{_PLACE})*", re.ASCII)

    def __init__(self, pipeline: Pipeline, known: Known) -> None:
        self.pipeline, self.known = pipeline, known
        self.keys, self.ids, self.fold = known.keys, known.ids, known.fold
        self._roots, self._blocks = known.roots, known.blocks

    def is_broken(self) -> bool:
        return self.pipeline.broken

    def end(self) -> None:
        with suppress(psycopg.Error, StoreError):  # nothing was written
            self.pipeline.end(*(() if self.pipeline.broken else ("COMMIT",)))

    # Statements

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        self.check()
        return self.pipeline.run(STATEMENTS[name], bindings)

    def rows(self, name: str, /, **bindings: Any) -> Fetched:
        rows = self.run(name, **bindings)
        # These two statements return two kinds of rows, in adjacent columns.
        if name == "head":
            rows = [row[:23] if row[0] is not None else (None, None, *row[23:]) for row in rows]
        elif name == "outlines":
            rows = [row[:5] if row[0] == 0 else (1, *row[5:]) for row in rows]
        return rows, ()

    def listed(self, values: Iterable[Any]) -> Ints | Texts:
        found = list(values)
        return Ints(found) if found and isinstance(found[0], int) else Texts(found)

    def for_agent(self, agent_id: str) -> Bindings:
        key = self.key(agent_id)
        return {"root": self._roots[key], "agent": key}

    def for_segments(self, segments: Segments) -> Bindings:
        agents = [self.key(agent) for agent, _, _ in segments]
        roots = {self._roots[key] for key in agents}
        if len(roots) > 1:
            raise StoreError("segments of several conversations cannot be read at once")
        firsts, lasts = Ints(first for _, first, _ in segments), Ints(last for _, _, last in segments)
        return {"root": next(iter(roots), _NO_ROOT), "agents": Ints(agents), "firsts": firsts, "lasts": lasts}

    def for_events(self, event_ids: Iterable[int]) -> Bindings:
        ids = Ints(event_ids)
        return {"roots": self._roots_of(ids), "ids": ids}

    def _roots_of(self, event_ids: Collection[int | None]) -> Ints:
        """Return the roots of the trees of events."""
        cached = self.known.events
        found = {id: cached[id] for id in event_ids if id is not None and id in cached}
        left = {id: id // BLOCK for id in event_ids if id is not None and id >= 0 and id not in found}
        if unknown := set(left.values()).difference(self._blocks):
            self._blocks.update(self.run("block_roots", blocks=Ints(unknown)))
        found |= {id: self._blocks[block] for id, block in left.items() if block in self._blocks}
        if among := [id for id, root in found.items() if root == _SHARED]:
            found |= {**dict.fromkeys(among, _NO_ROOT), **dict(self.run("event_roots", ids=Ints(among)))}
        return Ints(_NO_ROOT if id is None else found.get(id, _NO_ROOT) for id in event_ids)

    def for_messages(self, places: Sequence[Message]) -> Bindings:
        keys = [self.key(each.agent_id) for each in places]
        roots = Ints(self._roots[key] for key in keys)
        return {"roots": roots, "agents": Ints(keys), "ids": Ints(each.id for each in places)}

    def cache_agent(self, agent_id: str, row: Sequence[Any]) -> None:
        key, root = row
        # The look-up of the key also returns the root.
        self._roots[key] = root
        self.keys[agent_id], self.ids[key] = key, agent_id

    def decoded_events(self, rows: Sequence[Sequence[Any]]) -> list[Event]:
        for row in rows:
            self._cache_event(row[0], row[1])
        return super().decoded_events(rows)

    def message(self, row: Sequence[Any]) -> Message:
        self._cache_event(row[0], row[1])
        return super().message(row)

    def _cache_event(self, event_id: int, key: int) -> None:
        """Cache the tree of an event, unless its block determines the tree."""
        if self._blocks.get(event_id // BLOCK, _SHARED) == _SHARED and key in self._roots:
            if len(self.known.events) >= _CACHED:
                self.known.events.clear()
            self.known.events[event_id] = self._roots[key]

    def cache_block(self, event_id: int, root: int) -> None:
        """Cache the tree of an event's block."""
        self._blocks[event_id // BLOCK] = root

    def keys_of(self, agent_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Return the keys of agents, each with the key of its root. Raises DamagedError."""
        found = {agent: self.key(agent) for agent in agent_ids}
        return {agent: (key, self._roots[key]) for agent, key in found.items()}

    # Reads

    def now(self) -> str:
        return str(self.run("now", ahead=float(self.known.ahead()))[0][0])

    def changes_from_now(self) -> Changes:
        rows = self.run("changes_end")
        ((begin, *_), *_) = rows
        ahead = [(last, root, *ids) for _, root, last, *ids in rows if root is not None]
        until = max(ahead)[0] if ahead else 0
        return Changes([], _cursor((begin, 0, 0), until, [each[1:] for each in ahead]))

    def changes_after(self, after: str, limit: int) -> Changes:
        (stamp, source, id), *seen = [tuple(map(int, each.split("."))) for each in after.split(":")]
        (until, *_), *trees = seen or [(0,)]
        names = zip(("roots", "seen", "known"), zip(*trees, strict=True) if trees else ((), (), ()), strict=True)
        bound = {name: Ints(each) for name, each in names}
        rows = self.run("changes", stamp=stamp, source=source, id=id, **bound, limit=limit)
        found = [Change(self.id(agent), id if number else None, kind) for _, number, id, agent, kind in rows]
        return Changes(found, _cursor(rows[-1][:3], until, trees) if rows else after)

    def index(self, scope: SearchScope) -> LogIndex:
        from foldmark.stores.postgres.search import PostgresIndex

        keys = None if scope.agents is None else list(self.keys_of(scope.agents).values())
        return PostgresIndex(self, scope, self.search, self.cache_block, keys)

    def search(self, wanted: Statement, bindings: Mapping[str, Any]) -> list[Row]:
        """Run a statement of a search."""
        self.check()
        self.settle()
        return self.pipeline.run(wanted, bindings)

    def memos_before(self, events: Sequence[int]) -> list[Row]:
        found: list[Row] = []
        if END in events:
            ((newest,),) = self.run("newest_memo")
            found = [(number, newest) for number, id in enumerate(events) if id == END]
        if set(events) != {END}:
            rows = self.run("memo_before", **self.for_events(0 if id == END else id for id in events))
            found += [row for row in rows if events[row[0]] != END]
        return found

    def memos_holding(self, words: Sequence[str], most: int) -> list[Row]:
        ranges = [(number, *each) for number, word in enumerate(words) for each in _ranges(word)]
        numbers, firsts, lasts, rows = zip(*ranges, strict=True) if ranges else ((), (), (), ())
        bound = {"firsts": Texts(firsts), "lasts": Texts(lasts), "rows": Texts(rows)}
        return self.run("memos_with", numbers=Ints(numbers), **bound, most=most) if ranges else []

    def tags(self, stored: list[str] | None) -> list[str]:
        return stored or []

    def copied_events(self, after: Mapping[int, int]) -> Iterator[Fetched]:
        # Events are read tree by tree.
        begin: dict[int, int] = {}
        for key, since in after.items():
            root = self._roots[key]
            begin[root] = min(since, begin.get(root, since))
        for root, last in sorted(begin.items()):
            while (page := self.rows("copied_events", root=root, after=last, limit=PAGE))[0]:
                yield page
                last = page[0][-1][0]


def _cursor(place: Sequence[int], until: int, trees: Iterable[Sequence[int]]) -> str:
    """Return the cursor of a place. Up to stamp `until` it also names the ids of some trees that were already seen."""
    seen = [(until, 0, 0), *trees] if place[0] <= until else []
    return ":".join(".".join(map(str, each)) for each in (place, *seen))


def memo_words(text: str) -> list[str]:
    """Return the words of a memo, as `text.keywords` defines them."""
    return re.findall(r"[^\W_]+", folded(text))


def _ranges(word: str) -> list[tuple[str, str, str]]:
    """Return ranges of words: a memo must contain a word in one of them, and the adjacent words given ("": any)."""
    found = memo_words(word)
    if len(found) > 1:
        return [(found[0], found[0], f" {' '.join(found)} ")]
    ranges = []
    for one in found:
        exact, beginning = spellings(one) if one == folded(word) else ((one,), None)
        ranges += [(each, each, "") for each in exact]
        ranges += [] if beginning is None else [(beginning, f"{beginning}\U0010ffff", "")]
    return ranges
