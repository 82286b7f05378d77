"""Records copied from PostgreSQL and into it (see `foldmark.stores.copying`).

Events are read tree by tree. Copied events keep their ids, so that several trees may have ids of one block. A tree that
took events, or has a block in which others took some, continues in a new one above all of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from foldmark.core.assembly.sent import RequestRecord
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.records import Beside, CodingSession, CopiedEvent, Numbers
from foldmark.stores import copying
from foldmark.stores.appender import Appender
from foldmark.stores.copying import PAGE
from foldmark.stores.postgres.appender import PostgresAppender, Tree
from foldmark.stores.postgres.connection import Ints, Pool, PostgresSession
from foldmark.stores.postgres.reader import BLOCK
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row


class PostgresCopyingView(copying.SqlCopyingView):
    """Reads records to copy."""

    _roots: dict[int, int]

    def _copied_events(self, after: Mapping[int, int]) -> Iterator[tuple[Row, bool]]:
        begin: dict[int, int] = {}
        for key, since in after.items():
            root = self._roots[key]
            begin[root] = min(since, begin.get(root, since))
        for root, last in sorted(begin.items()):
            rows: list[tuple[Row, bool]] = [((), False)] * PAGE
            while len(rows) == PAGE:
                rows = list(self._rows("copied_events", root=root, after=last, limit=PAGE))
                yield from rows
                last = rows[-1][0][0] if rows else last

    def _keys_of(self, keys: Any) -> Ints:
        return Ints(keys)


class PostgresCopying(copying.SqlCopying):
    """Takes copied records."""

    _pool: Pool
    _session: PostgresSession
    _trees: dict[int, Tree]
    _blocks: dict[int, int]

    def _counted(self, root: int) -> Tree:
        """Return a tree with its counters."""
        raise NotImplementedError

    def _appender(self, agent_id: str) -> PostgresAppender:
        raise NotImplementedError

    def _take_ids(self, events: Sequence[CopiedEvent]) -> None:
        if not events:
            return
        self._pool.beside("raise_number", name="blocks", value=max(event.id for event in events) // BLOCK + 1)
        roots = {agent: self._of(agent)["root"] for agent in sorted({event.agent for event in events})}
        shared = sorted({(event.id // BLOCK, roots[event.agent]) for event in events})
        blocks = Ints(block for block, _ in shared)
        self._run("take_blocks", blocks=blocks, roots=Ints(root for _, root in shared))
        if self._run("event_roots", ids=Ints(event.id for event in events)):
            raise StoreError("events cannot be copied: other ones have their ids already; run `foldmark doctor`")
        drawing = [root for (root,) in self._run("drawing", blocks=blocks)]
        for root in sorted({*roots.values(), *drawing}):
            tree = self._counted(root)
            tree.next_id, tree.is_ahead = max(tree.next_id, tree.last_id + 1), True
        self._blocks.update(self._run("block_roots", blocks=blocks))
        self.on_rollback(partial(self._forget, [block for block, _ in shared]))

    def _forget(self, blocks: Sequence[int]) -> None:
        """Forget the owners of these blocks after a rollback."""
        for block in blocks:
            self._blocks.pop(block, None)

    def _taker(self, agent_id: str) -> PostgresAppender:
        return self._appender(agent_id)

    def _taken(self, appenders: Mapping[str, Appender]) -> None:
        self.settle()

    def take(self, records: Sequence[Beside], texts: Mapping[str, str] = {}) -> None:
        super().take(records, texts)
        if any(isinstance(record, CodingSession) for record in records):
            self._run("number_sessions")

    def _take_mail(self, row: Bindings) -> None:
        tree = self._counted(row["root"])
        self._write("take_mail", **row, stamp=tree.stamp)
        self._write("had_mail")

    def _take_sent(self, row: Bindings) -> None:
        try:
            made = self._made(msgspec.json.decode(row["data"], type=RequestRecord))
        except (msgspec.MsgspecError, RecursionError):
            what = f"what request {row['id']} was made of is not readable: it cannot be copied; run `foldmark doctor`"
            raise DamagedError(what) from None
        kept = {"purpose": made["purpose"], "hashes": made["hashes"], "memos": made["memos"]}
        self._write("take_sent", **{**row, **kept})

    def _take_memo(self, row: Bindings) -> None:
        event = row.pop("event")
        self._write("save_memo", **row)
        self._write("take_memo_marks", memo=row["id"], event=event)

    def take_numbers(self, numbers: Numbers) -> None:
        with self.whole():
            self._write("raise_number", name="memos", value=numbers.memos)
            highest = max(numbers.mail, numbers.sent)
            self._write("raise_number", name="blocks", value=highest // BLOCK + 1 if highest else 0)
