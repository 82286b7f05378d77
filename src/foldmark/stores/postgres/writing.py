"""One block of a store in PostgreSQL that writes (see `foldmark.stores.block`).

Before it reads or writes anything in a conversation and its forks, it locks the row of the root agent, so that
transactions of one tree run one after another, and those of different trees in parallel. Pending events are written
before a read; agents' rows and the index of words are written once, when `settle` is called, instead of with every
event.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from foldmark.core.agents import AgentRecord
from foldmark.core.errors import StoreError
from foldmark.core.records import CopiedEvent
from foldmark.core.segments import Segments
from foldmark.stores.appender import Appender
from foldmark.stores.block import Writing
from foldmark.stores.postgres.appender import Tree
from foldmark.stores.postgres.connection import STATEMENTS, Ints, Pipeline, Texts
from foldmark.stores.postgres.reading import BLOCK, Known, PostgresReading, memo_words
from foldmark.stores.rows import Bindings, Row


class PostgresWriting(PostgresReading, Writing):
    """The statements of one transaction. `finish` commits it on its connection (see `Commits.finish`)."""

    index_tables = ("unindex_words", "unindex_long_words", "erase_vectors", "erase_signatures")

    def __init__(self, pipeline: Pipeline, known: Known, finish: Callable[["PostgresWriting"], None]) -> None:
        super().__init__(pipeline, known)
        self._finish = finish
        self.appenders: dict[str, Appender] = {}
        self.undoing: list[Callable[[], None]] = []
        self._trees: dict[int, Tree] = {}
        self._statements = 0
        self.transaction: str | None = None
        """The number of the transaction; None until it has locked something."""

    # The block

    def commit(self) -> None:
        self.settle()
        self._finish(self)

    def end(self) -> None:
        self.pipeline.drop()

    # Statements

    def run(self, name: str, /, **bindings: Any) -> list[Row]:
        self.check()
        wanted = STATEMENTS[name]
        self._statements += wanted.writes
        self._write_events()
        return self.pipeline.run(wanted, bindings)

    def write(self, name: str, /, **bindings: Any) -> None:
        self.check()
        for each in bindings.values():
            if type(each) is str and not each.isascii():
                each.encode()  # an invalid value fails here instead of with the next statement
        self._statements += 1
        self.pipeline.later(STATEMENTS[name], bindings)

    def identify(self) -> str:
        """Return the number of the transaction."""
        if self.transaction is None:
            ((*_, self.transaction),) = self.run("transaction")
        return str(self.transaction)

    @property
    def written(self) -> int:
        """The number of statements written or pending."""
        return self._statements + sum(tree.recorded for tree in self._trees.values())

    def _write_events(self) -> None:
        for tree in self._trees.values():
            tree.write()

    @contextmanager
    def atomic(self) -> Iterator[Self]:
        self.check()
        before = self.written
        try:
            yield self
        except BaseException:
            if self.written != before:
                self.pipeline.broken = True
            raise

    # Locks

    def lock(self, agent_id: str) -> None:
        self.for_agent(agent_id)

    def for_agent(self, agent_id: str) -> Bindings:
        named = super().for_agent(agent_id)
        self._tree(named["root"])
        return named

    def for_segments(self, segments: Segments) -> Bindings:
        named = super().for_segments(segments)
        if segments:
            self._tree(named["root"])
        return named

    def agents(self, name: str, /, **bindings: Any) -> Iterator[AgentRecord]:
        if name == "agent_by_name":
            for (root,) in self.run("named_root", **bindings):
                self._tree(root)
        return super().agents(name, **bindings)

    def _tree(self, root: int) -> Tree:
        """Return a tree, locked until this transaction ends."""
        tree = self._trees.get(root)
        if tree is None:
            self.check()
            tree = self._trees[root] = Tree(root, self.pipeline)
            self.pipeline.later(STATEMENTS["lock"], {"root": root}, partial(self._locked, tree))
        return tree

    def _locked(self, tree: Tree, rows: list[Row]) -> None:
        for row in rows:
            tree.locked(row)
            self.transaction = row[-1]

    def _counted(self, root: int) -> Tree:
        """Return a tree with its counters."""
        tree = self._tree(root)
        if tree.position is None:
            self.pipeline.flush()
        return tree

    def _draw(self, root: int) -> int:
        """Return the next id of a tree."""
        tree = self._counted(root)
        if tree.next_id > tree.last_id:
            ((number,),) = self.pipeline.pool.run_alone("draw", name="blocks")
            # The first block is 0, and there is no event 0. A later block is above all ids of the tree.
            tree.next_id, tree.last_id = max(1, (number - 1) * BLOCK), number * BLOCK - 1
            self._blocks[number - 1] = root
            self.pipeline.later(STATEMENTS["take_block"], {"block": number - 1, "root": root})
        tree.next_id, tree.is_ahead = tree.next_id + 1, True
        return tree.next_id - 1

    # Appending

    def appender(self, agent_id: str) -> Appender:
        self.check()
        appender = self.appenders.get(agent_id)
        if appender is None:
            named = self.for_agent(agent_id)
            tree, key = self._trees[named["root"]], named["agent"]
            if key == tree.root:
                row = self._counted(tree.root).position
            else:
                row = next(iter(self.run("position", **named)), None)
            assert row is not None
            *state, turn, kind = row
            newest = None if kind is None else (turn, kind)
            appender = Appender(key, partial(self._draw, tree.root), tree, tuple(state), newest)
            self.appenders[agent_id] = appender
        return appender

    def settle(self) -> None:
        self.check()
        self._write_events()
        for appender in self.appenders.values():
            appender.finish()
        for tree in self._trees.values():
            tree.finish()

    # Agents

    def create(self, record: AgentRecord, at: int | None) -> None:
        key = self._place(at)
        if record.parent is None:
            root, parent = key, None
            tree = self._trees[root] = Tree(root, self.pipeline)
            self.pipeline.later(STATEMENTS["transaction"], {}, partial(self._locked, tree))
        else:
            named = self.for_agent(record.parent)
            root, parent = named["root"], named["agent"]
        if record.name is not None:
            self._take_name(record.name, root)
        self.cache_agent(record.id, (key, root))
        self.on_rollback(partial(self.known.forget, record.id))
        row = {"root": root, "key": key, "id": record.id, "name": record.name, "parent": parent}
        row |= {"fork_event": record.fork_event, "created_at": record.created_at, "born": self._counted(root).stamp}
        self.write("create_agent", **row)
        self.write("add_to_directory", id=record.id, key=key, root=root)

    def _place(self, place: int | None) -> int:
        """Return the key of a new agent. Keys order the agents, so a copied agent gets its original place if that is
        free."""
        if place is None or self.run("agent_id", key=place):
            ((key,),) = self.pipeline.pool.run_alone("draw", name="agents")
            return int(key)
        self.pipeline.pool.run_alone("raise_number", name="agents", value=place)
        return place

    def rename(self, agent_id: str, name: str | None) -> None:
        named = self.for_agent(agent_id)
        if name is not None:
            self._take_name(name, named["root"])
        if named["agent"] == named["root"]:
            self.write("free_names", root=named["root"], name=name)
        super().rename(agent_id, name)

    def _take_name(self, name: str, root: int) -> None:
        """Take a name for a conversation. Raises StoreError if another conversation has it."""
        if self.run("take_name", name=name, root=root):
            return
        self._statements -= 1  # nothing was written
        if self.run("named_root", name=name) != [(root,)]:
            raise StoreError(f"there is a conversation named '{name}' already; take another name")

    # Texts and memos

    def with_data(self, events: Sequence[tuple[int, str | None]]) -> Bindings:
        # Earlier versions of rows remain in the files until VACUUM runs.
        return {"ids": Ints(id for id, _ in events), "datas": Texts(data for _, data in events)}

    def hold_texts(self, *, to_erase: bool) -> None:
        self.write("lock_texts" if to_erase else "share_texts")

    def save_memo(self, row: Bindings) -> int:
        ((memo_id,),) = self.run("number_memo")
        self.write("save_memo", **row, id=memo_id)
        # Events appended from here on see the memo.
        self._write_events()
        for tree in self._trees.values():
            tree.newest_memo = memo_id
        return int(memo_id)

    def index_memo(self, memo_id: int, content: str, tags: str) -> None:
        words = memo_words(f"{content} {tags}")
        self.write("index_memo", memo=memo_id, line=f" {' '.join(words)} ")
        self.write("index_memo_words", memo=memo_id, words=Texts(dict.fromkeys(words)))

    # Copied records: events keep their ids, so several trees may have ids in one block. A tree that received events, or
    # has a block in which others received some, continues in a new block above all of them.

    def take_ids(self, events: Sequence[CopiedEvent]) -> None:
        if not events:
            return
        newest = max(event.id for event in events)
        self.pipeline.pool.run_alone("raise_number", name="blocks", value=newest // BLOCK + 1)
        roots = {agent: self.for_agent(agent)["root"] for agent in sorted({event.agent for event in events})}
        shared = sorted({(event.id // BLOCK, roots[event.agent]) for event in events})
        blocks = Ints(block for block, _ in shared)
        self.run("take_blocks", blocks=blocks, roots=Ints(root for _, root in shared))
        if self.run("event_roots", ids=Ints(event.id for event in events)):
            raise StoreError("events cannot be copied: other events already have their ids; run `foldmark doctor`")
        drawing = [root for (root,) in self.run("drawing", blocks=blocks)]
        for root in sorted({*roots.values(), *drawing}):
            tree = self._counted(root)
            tree.next_id, tree.is_ahead = max(tree.next_id, tree.last_id + 1), True
        self._blocks.update(self.run("block_roots", blocks=blocks))
        self.on_rollback(partial(self._forget, [block for block, _ in shared]))

    def _forget(self, blocks: Sequence[int]) -> None:
        """Forget the owners of these blocks after a rollback."""
        for block in blocks:
            self._blocks.pop(block, None)

    def take_memo(self, row: Bindings) -> None:
        event = row.pop("event")
        self.write("save_memo", **row)
        self.write("take_memo_marks", memo=row["id"], event=event)

    def reserve_memos(self, highest: int) -> None:
        self.write("raise_number", name="memos", value=highest)
