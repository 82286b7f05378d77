"""One transaction of the log in PostgreSQL (see `foldmark.core.ports.Transaction`).

Before it reads or writes anything in a conversation and its forks, it locks the row of the root agent, so that
transactions of one tree run one after another, and those of different trees in parallel. Pending events are written
before a read; agents' rows and the index of words are written once, when `settle` is called, instead of with every
event.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

from foldmark.core.agents import AgentRecord
from foldmark.core.errors import DamagedError, StoreError
from foldmark.core.ports import Head
from foldmark.core.records import CopiedEvent
from foldmark.core.segments import Segments
from foldmark.stores.postgres.appender import Tree
from foldmark.stores.postgres.connection import STATEMENTS, Ints, PostgresSession, Texts
from foldmark.stores.postgres.snapshot import BLOCK, Known, PostgresSnapshot, memo_words
from foldmark.stores.reader import Bindings, Row
from foldmark.stores.transaction import Appender, LogTransaction


class PostgresTransaction(LogTransaction, PostgresSnapshot):
    """The writes of one transaction, which `PostgresStore` begins and ends."""

    _index_tables = ("unindex_words", "unindex_long_words", "erase_vectors", "erase_signatures")

    def __init__(self, session: PostgresSession, known: Known) -> None:
        super().__init__(session, known)
        self._appenders: dict[str, Appender] = {}
        self._trees: dict[int, Tree] = {}
        self._undoing: list[Callable[[], None]] = []
        self._statements = 0
        self.id: str | None = None
        """The number of the transaction; None until it has locked something."""

    # Statements

    def _run(self, name: str, /, **bindings: Any) -> list[Row]:
        self._check()
        wanted = STATEMENTS[name]
        self._statements += wanted.writes
        self._write_events()
        return self._session.run(wanted, bindings)

    def _write(self, name: str, /, **bindings: Any) -> None:
        self._check()
        for each in bindings.values():
            if type(each) is str and not each.isascii():
                each.encode()  # an invalid value fails here instead of with the next statement
        self._statements += 1
        self._session.later(STATEMENTS[name], bindings)

    def identify(self) -> None:
        """Read the number of the transaction, unless it is already known."""
        if self.id is None:
            ((*_, self.id),) = self._run("transaction")

    @property
    def has_written(self) -> bool:
        """True if there is something to commit."""
        return self._written > 0

    @property
    def _written(self) -> int:
        """The number of statements written or pending."""
        return self._statements + sum(tree.recorded for tree in self._trees.values())

    def _write_events(self) -> None:
        for tree in self._trees.values():
            tree.write()

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

    def _for_agent(self, agent_id: str) -> Bindings:
        named = super()._for_agent(agent_id)
        self._tree(named["root"])
        return named

    def _for_segments(self, segments: Segments) -> Bindings:
        named = super()._for_segments(segments)
        if segments:
            self._tree(named["root"])
        return named

    def _tree(self, root: int) -> Tree:
        """Return a tree, locked until this transaction ends."""
        tree = self._trees.get(root)
        if tree is None:
            self._check()
            tree = self._trees[root] = Tree(root, self._session)
            self._session.later(STATEMENTS["lock"], {"root": root}, partial(self._locked, tree))
        return tree

    def _locked(self, tree: Tree, rows: list[Row]) -> None:
        for row in rows:
            tree.locked(row)
            self.id = row[-1]

    def _counted(self, root: int) -> Tree:
        """Return a tree with its counters."""
        tree = self._tree(root)
        if tree.position is None:
            self._session.flush()
        return tree

    def _draw(self, root: int) -> int:
        """Return the next id of a tree."""
        tree = self._counted(root)
        if tree.next_id > tree.last_id:
            ((number,),) = self._session.pool.run_alone("draw", name="blocks")
            # The first block is 0, and there is no event 0. A later block is above all ids of the tree.
            tree.next_id, tree.last_id = max(1, (number - 1) * BLOCK), number * BLOCK - 1
            self._blocks[number - 1] = root
            self._session.later(STATEMENTS["take_block"], {"block": number - 1, "root": root})
        tree.next_id, tree.is_ahead = tree.next_id + 1, True
        return tree.next_id - 1

    # Appending

    def _appender(self, agent_id: str) -> Appender:
        self._check()
        appender = self._appenders.get(agent_id)
        if appender is None:
            named = self._for_agent(agent_id)
            tree, key = self._trees[named["root"]], named["agent"]
            if key == tree.root:
                row = self._counted(tree.root).position
            else:
                row = next(iter(self._run("position", **named)), None)
            assert row is not None
            *state, turn, kind = row
            newest = None if kind is None else (turn, kind)
            appender = Appender(key, partial(self._draw, tree.root), tree, tuple(state), newest)
            self._appenders[agent_id] = appender
        return appender

    def _create(self, record: AgentRecord, place: int | None = None) -> None:
        key = self._place(place)
        if record.parent is None:
            root, parent = key, None
            tree = self._trees[root] = Tree(root, self._session)
            self._session.later(STATEMENTS["transaction"], {}, partial(self._locked, tree))
        else:
            named = self._for_agent(record.parent)
            root, parent = named["root"], named["agent"]
        if record.name is not None:
            self._take_name(record.name, root)
        self._cache_agent(record.id, (key, root))
        self._undoing.append(partial(self._known.forget, record.id))
        row = {"root": root, "key": key, "id": record.id, "name": record.name, "parent": parent}
        row |= {"fork_event": record.fork_event, "created_at": record.created_at, "born": self._counted(root).stamp}
        self._write("create_agent", **row)
        self._write("add_to_directory", id=record.id, key=key, root=root)

    def _place(self, place: int | None) -> int:
        """Return the key of a new agent. Keys order the agents, so a copied agent gets its original place if that is
        free."""
        if place is None or self._run("agent_id", key=place):
            ((key,),) = self._session.pool.run_alone("draw", name="agents")
            return int(key)
        self._session.pool.run_alone("raise_number", name="agents", value=place)
        return place

    # Beside the log

    def _name(self, agent_id: str, name: str | None) -> None:
        named = self._for_agent(agent_id)
        if name is not None:
            self._take_name(name, named["root"])
        if named["agent"] == named["root"]:
            self._write("free_names", root=named["root"], name=name)
        super()._name(agent_id, name)

    def _take_name(self, name: str, root: int) -> None:
        """Take a name for a conversation. Raises StoreError if another conversation has it."""
        if self._run("take_name", name=name, root=root):
            return
        self._statements -= 1  # nothing was written
        if self._run("named_root", name=name) != [(root,)]:
            raise StoreError(f"there is a conversation named '{name}' already; take another name")

    def _save_memo(self, row: Bindings) -> int:
        ((memo_id,),) = self._run("number_memo")
        self._write("save_memo", **row, id=memo_id)
        # Events appended from here on see the memo.
        self._write_events()
        for tree in self._trees.values():
            tree.newest_memo = memo_id
        return int(memo_id)

    def _index_memo(self, memo_id: int, content: str, tags: str) -> None:
        words = memo_words(f"{content} {tags}")
        self._write("index_memo", memo=memo_id, line=f" {' '.join(words)} ")
        self._write("index_memo_words", memo=memo_id, words=Texts(dict.fromkeys(words)))

    # Erasing: earlier versions of rows remain in the files until VACUUM runs

    def _rows_of(self, datas: Sequence[tuple[int, str | None]]) -> Bindings:
        return {"ids": Ints(id for id, _ in datas), "datas": Texts(data for _, data in datas)}

    def keep_texts(self, texts: Mapping[str, str]) -> None:
        self._write("share_texts")  # also without a text to add: the ones that are there must stay
        super().keep_texts(texts)

    def remove_memo(self, memo_id: int) -> None:
        # First: whoever records a request with this memo is either done before it is removed, or finds it removed.
        self._write("lock_texts")
        super().remove_memo(memo_id)

    def _erase_texts(self, hashes: Sequence[str]) -> None:
        if hashes:
            self._write("lock_texts")
        super()._erase_texts(hashes)

    # Copied records: events keep their ids, so several trees may have ids in one block. A tree that received events, or
    # has a block in which others received some, continues in a new block above all of them.

    def _take_ids(self, events: Sequence[CopiedEvent]) -> None:
        if not events:
            return
        self._session.pool.run_alone(
            "raise_number", name="blocks", value=max(event.id for event in events) // BLOCK + 1
        )
        roots = {agent: self._for_agent(agent)["root"] for agent in sorted({event.agent for event in events})}
        shared = sorted({(event.id // BLOCK, roots[event.agent]) for event in events})
        blocks = Ints(block for block, _ in shared)
        self._run("take_blocks", blocks=blocks, roots=Ints(root for _, root in shared))
        if self._run("event_roots", ids=Ints(event.id for event in events)):
            raise StoreError("events cannot be copied: other events already have their ids; run `foldmark doctor`")
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

    def _take_memo(self, row: Bindings) -> None:
        event = row.pop("event")
        self._write("save_memo", **row)
        self._write("take_memo_marks", memo=row["id"], event=event)

    def reserve_memos(self, highest: int) -> None:
        with self.whole():
            self._write("raise_number", name="memos", value=highest)

    # Reads under the lock

    def head(self, agent_id: str) -> Head:
        self._for_agent(agent_id)
        return super().head(agent_id)

    def agent(self, agent_id: str) -> AgentRecord | None:
        with suppress(DamagedError):
            self._for_agent(agent_id)
        return super().agent(agent_id)

    def named(self, name: str) -> AgentRecord | None:
        for (root,) in self._run("named_root", name=name):
            self._tree(root)
        return super().named(name)

    # Pending writes

    def settle(self) -> None:
        self._check()
        self._write_events()
        for appender in self._appenders.values():
            appender.finish()
        for tree in self._trees.values():
            tree.finish()
