"""One transaction of the log in PostgreSQL (see `foldmark.core.ports.Transaction`).

Before it reads or writes anything of a conversation and its forks, it locks the row of the root agent: so transactions
of one tree take place one after another, those of different trees side by side.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import msgspec

from foldmark.core.agents import AgentRecord
from foldmark.core.assembly.sent import RequestRecord
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.segments import Segments
from foldmark.stores.postgres.appender import PostgresAppender, Tree
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pool, PostgresSession, Texts
from foldmark.stores.postgres.copying import PostgresCopying
from foldmark.stores.postgres.erasing import Erasing
from foldmark.stores.postgres.lineage import PostgresLineage
from foldmark.stores.postgres.memos import PostgresMemos
from foldmark.stores.postgres.reader import BLOCK, Known
from foldmark.stores.postgres.snapshot import Ahead, PostgresSnapshot
from foldmark.stores.postgres.words import index_words
from foldmark.stores.reader import Bindings
from foldmark.stores.rows import Row


class PostgresTransaction(PostgresCopying, Erasing, PostgresLineage, PostgresMemos, PostgresSnapshot):
    """The writes of one transaction, which `PostgresStore` begins and ends.

    Pending events are written before a read; agents' rows at the end: once, when `settle` is called.
    """

    def __init__(self, session: PostgresSession, pool: Pool, known: Known, ahead: Ahead) -> None:
        super().__init__(session, known, ahead)
        self._pool = pool
        self._appenders: dict[str, PostgresAppender] = {}
        self._trees: dict[int, Tree] = {}
        self._undoing: list[Callable[[], None]] = []
        self._statements = 0
        self.id: str | None = None
        """The number of the transaction, after it has locked anything."""

    # Statements

    def _run(self, name: str, /, *bound: Any, **bindings: Any) -> list[Row]:
        self._check()
        wanted = STATEMENTS[name]
        self._statements += wanted.writes
        self._write_events()
        return self._session.run(wanted, bindings)

    def _write(self, name: str, /, **bindings: Any) -> None:
        self._check()
        for each in bindings.values():
            if type(each) is str and not each.isascii():
                each.encode()  # an invalid value fails here, not with the next statement
        self._statements += 1
        self._session.later(STATEMENTS[name], bindings)

    def identify(self) -> None:
        """Read the number of the transaction, unless it is known already."""
        if self.id is None:
            ((*_, self.id),) = self._run("transaction")

    @property
    def has_written(self) -> bool:
        """True if there is anything to commit."""
        return self._written > 0

    @property
    def _written(self) -> int:
        """The number of statements written or pending."""
        return self._statements + sum(tree.recorded for tree in self._trees.values())

    def _write_events(self) -> None:
        for tree in self._trees.values():
            tree.write(self._session)

    @contextmanager
    def whole(self) -> Iterator[Self]:
        self._check()
        before = self._written
        try:
            yield self
        except BaseException:
            if self._written != before:
                self._session.broken = True
            raise

    # Locks

    def _of(self, agent_id: str) -> Bindings:
        named = super()._of(agent_id)
        self._tree(named["root"])
        return named

    def _within(self, segments: Segments) -> Bindings:
        named = super()._within(segments)
        if segments:
            self._tree(named["root"])
        return named

    def _tree(self, root: int) -> Tree:
        """Return a tree, locked until this transaction ends."""
        tree = self._trees.get(root)
        if tree is None:
            self._check()
            tree = self._trees[root] = Tree(root)
            self._session.later(STATEMENTS["lock"], {"root": root}, partial(self._locked, tree))
        return tree

    def _locked(self, tree: Tree, rows: list[Row]) -> None:
        tree.locked(rows)
        for row in rows:
            self.id = row[-1]

    def _counted(self, root: int) -> Tree:
        """Return a tree with its counters."""
        tree = self._tree(root)
        if tree.position is None:
            self._session.flush()
        return tree

    def _draw(self, tree: Tree) -> int:
        if tree.position is None:
            self._session.flush()
        return tree.draw(self._take_block)

    def _take_block(self, tree: Tree) -> None:
        ((number,),) = self._pool.beside("draw", name="blocks")
        # The first block is 0, and there is no event 0. A later one is above all that the tree has.
        tree.next_id, tree.last_id = max(1, (number - 1) * BLOCK), number * BLOCK - 1
        self._blocks[number - 1] = tree.root
        self._session.later(STATEMENTS["take_block"], {"block": number - 1, "root": tree.root})

    # Appending

    def _appender(self, agent_id: str) -> PostgresAppender:
        self._check()
        appender = self._appenders.get(agent_id)
        if appender is None:
            named = self._of(agent_id)
            tree, key = self._trees[named["root"]], named["agent"]
            if key == tree.root:
                row = self._counted(tree.root).position
            else:
                row = next(iter(self._run("position", **named)), None)
            assert row is not None
            newest = partial(self._newest_message, named)
            appender = PostgresAppender(tree, key, partial(self._draw, tree), row, newest)
            appender.end = self.end(agent_id) if appender.ended else None
            self._appenders[agent_id] = appender
        return appender

    def _newest_message(self, named: Bindings, until: int) -> Any:
        found = self._run("newest_message", **named, until=until)
        return tuple(found[0]) if found else None

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        key = self._place(place)
        if record.parent is None:
            root, parent = key, None
            tree = self._trees[root] = Tree(root)
            self._session.later(STATEMENTS["transaction"], {}, partial(self._locked, tree))
        else:
            named = self._of(record.parent)
            root, parent = named["root"], named["agent"]
        if record.name is not None:
            self._take_name(record.name, root)
        self._know(record.id, (key, root))
        self._undoing.append(partial(self._known.forget, record.id))
        row = {"root": root, "key": key, "id": record.id, "name": record.name, "parent": parent}
        self._write("create_agent", **row, fork_event=record.fork_event, created_at=record.created_at)
        self._write("add_to_directory", id=record.id, key=key, root=root)
        self._write("add_life", root=root, agent=key, kind="born")

    def _place(self, place: int | None) -> int:
        """Return the key of a new agent. Keys order the agents, so a copied agent gets its original place if that is
        free."""
        if place is None or self._run("agent_id", key=place):
            ((key,),) = self._pool.beside("draw", name="agents")
            return int(key)
        self._pool.beside("raise_number", name="agents", value=place)
        return place

    # Beside the log

    def send(self, sender: str, recipient: str, content: str, actor: str, sent_at: str) -> int:
        each = {"sender": self._key(sender), "actor": actor, "sent_at": sent_at, "content": content}
        named = self._of(recipient)
        tree = self._counted(named["root"])
        mail_id = self._draw(tree)
        self._write("send_mail", **named, **each, id=mail_id, stamp=tree.stamp)
        self._write("had_mail")
        return mail_id

    def carried(self, mail_id: int, event_id: int) -> None:
        (root,) = self._roots_of([event_id])  # mail belongs to its recipient's tree
        self._write("carried", root=root, mail=mail_id, event=event_id)

    def kill(self, agent_id: str, killer: str, actor: str, died_at: str) -> None:
        super().kill(agent_id, killer, actor, died_at)
        self._write("end_agent", **self._of(agent_id))
        self._write("add_life", **self._of(agent_id), kind="killed")

    def delete(self, agent_id: str, actor: str, deleted_at: str) -> None:
        super().delete(agent_id, actor, deleted_at)
        self._write("end_agent", **self._of(agent_id))
        self._write("add_life", **self._of(agent_id), kind="deleted")

    def archive(self, agent_id: str, archived_at: str | None) -> None:
        if archived_at is not None or self.archived(agent_id) is not None:
            super().archive(agent_id, archived_at)
            self._write("add_life", **self._of(agent_id), kind="unarchived" if archived_at is None else "archived")

    def _name(self, agent_id: str, name: str | None) -> None:
        named = self._of(agent_id)
        if name is not None and self._take_name(name, named["root"]):
            self._write("add_life", **named, kind="renamed")
        if named["agent"] == named["root"]:
            self._write("free_names", root=named["root"], name=name)
        super()._name(agent_id, name)

    def _take_name(self, name: str, root: int) -> bool:
        """Take a name for a conversation; return False if it has it already. Raises StoreError if another one has
        it."""
        if self._run("take_name", name=name, root=root):
            return True
        self._statements -= 1  # nothing was written
        if self._run("named_root", name=name) != [(root,)]:
            raise StoreError(f"there is a conversation named '{name}' already; take another name")
        return False

    def _record_sent(self, row: Bindings) -> int:
        # The tree's ids: a request has a unique one in the whole database, which it keeps in a copy.
        sent_id = self._draw(self._counted(row["root"]))
        self._write("record_sent", **row, id=sent_id)
        return sent_id

    def _made(self, record: RequestRecord) -> Bindings:
        memos = [int(name.removeprefix("memo ")) for name in record.hashes if name.startswith("memo ")]
        hashes = Texts(dict.fromkeys(record.hashes.values()))
        said = {"purpose": record.purpose, "question": record.question, "hashes": hashes, "memos": Ints(memos)}
        return {**super()._made(msgspec.structs.replace(record, question=None)), **said}

    def _know_memo(self, memo_id: int) -> None:
        self._write_events()
        for tree in self._trees.values():
            tree.newest_memo = memo_id

    # Reads under the lock

    def _head(self, agent_id: str) -> Iterable[tuple[Row, bool]]:
        self._of(agent_id)
        return super()._head(agent_id)

    def agent(self, agent_id: str) -> AgentRecord | None:
        with suppress(DamagedError):
            self._of(agent_id)
        return super().agent(agent_id)

    def named(self, name: str) -> AgentRecord | None:
        for (root,) in self._run("named_root", name=name):
            self._tree(root)
        return super().named(name)

    # Pending writes

    def settle(self) -> None:
        """Send pending changes with the next statement."""
        self._check()
        self._write_events()
        index_words(self._session, self._trees.values())
        for appender in self._appenders.values():
            appender.finish(self._session)
        for tree in self._trees.values():
            tree.finish(self._session)

    def _settle(self) -> None:
        self.settle()
