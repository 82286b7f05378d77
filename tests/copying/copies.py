"""Contents to copy, with every kind of record, and a store's answers about them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from foldmark.app import open_over
from foldmark.core import selections
from foldmark.core.agents import archived, deleted, killed, mailed, renamed, unarchived
from foldmark.core.events import Draft
from foldmark.core.ports import Head, Snapshot, Store, Transaction
from foldmark.log.doctor import examine
from foldmark.testing.compared import Compared, ask_agents, exact
from foldmark.testing.memory import MemoryStore
from foldmark.testing.suite import (
    HARD,
    NOW,
    add_fork,
    append,
    call,
    draft,
    erase,
    fork,
    hashed,
    request,
    root,
    usage,
)


def result(call_id: str, answers: int, **more: Any) -> Draft:
    """Return a tool result to append."""
    return draft("tool_result", "text", data={"call_id": call_id}, answers=answers, **more)


class ComparedCopies(Compared):
    """Moments of two stores with the same agents; a copy has no stored segments and no leases."""

    def __init__(self, ours: Snapshot, theirs: Snapshot) -> None:
        super().__init__(ours, theirs, MemoryStore())

    def head(self, agent_id: str, **how: Any) -> Head:
        """Compare the heads without what is not copied."""
        one: Head
        one, two = (
            each.head(agent_id, **how)._replace(cache=None, beside=frozenset()) for each in (self._one, self._two)
        )
        assert exact(one) == exact(two)
        return one


def same_agents(store: Store, other: Store, agents: Sequence[str]) -> None:
    """Assert that two stores give the same answers about these agents."""
    with store.read() as ours, other.read() as theirs:
        ask_agents(ComparedCopies(ours, theirs), list(agents), Random(len(agents)))


def same(store: Store, other: Store) -> None:
    """Assert that two stores give the same answers, and that the second is sound."""
    with store.read() as ours, other.read() as theirs:
        agents = [record.id for record in ours.agents()]
        assert [record.id for record in theirs.agents()] == agents
        both = ComparedCopies(ours, theirs)
        ask_agents(both, agents, Random(1))
        both.copied_events(dict.fromkeys(agents, 0))
        both.kept_texts(TEXTS)
        both.memos(100)
        both.memo_tags(100)
        both.copied_memos()
    sound(other)


def sound(store: Store) -> None:
    """Assert that a store is sound."""
    assert list(examine(open_over(store))) == []


TEXTS = hashed(HARD, "memo", "secret", "later")
"""The texts of the requests that `fill` and `change` record."""


def fill(store: Store) -> dict[str, str]:
    """Fill a store with every kind of record, and return its agents, named after their later changes."""
    work, gone, quiet = root(store, f"work {HARD}"), root(store, "gone"), root(store, "quiet")
    _, asked = append(store, work, draft(content=HARD, data={HARD: [2**70, 0.1]}), call("c0"))
    append(store, work, draft("assistant"), result("c0", asked, interrupted=True), draft("turn_ended", ""))
    append(store, work, draft(content="secret"))
    child = fork(store, work)
    append(store, child, draft(content="quartz"), call("c1"))
    append(store, gone, draft(content="gone"), draft("turn_ended", ""))
    texts = hashed(HARD, "memo", "secret")
    named = dict(zip(("config", "memo 2", "question"), texts, strict=True))
    with store.write() as writing:
        for name in ("x", "y", "z"):
            writing.save_memo(f"{name} {HARD}", ("x", name), work if name == "y" else None, "human", NOW)
        for text in (HARD, "carried"):
            writing.append(child, None, [mailed(work, text, "human", NOW)])
        data = {"mail": [{"id": selections.unread(writing, child)[1].id}]}
        writing.append(child, None, [draft(content="carried", data=data)])
        writing.keep_texts(texts)
        (sent,) = writing.append(work, None, [request(named)])
        writing.append(work, None, [usage(request=sent)])
        for agent in (gone, child):
            writing.append(agent, None, [request({name: named[name] for name in ("config", "memo 2")})])
        writing.append(quiet, None, [archived("human", NOW)])
    return {"work": work, "child": child, "gone": gone, "quiet": quiet}


def change(store: Store, agents: dict[str, str]) -> None:
    """Change the records made by `fill` in every possible way."""
    work, child, gone, quiet = agents.values()
    with store.write() as writing:
        head = writing.head(work).record
        turn = head.open_turn
        assert turn is not None
        writing.append(work, None, [draft("turn_ended", "")])
        erase(writing, work, turn, head.head, by=child)
        erase(writing, gone, 0)
        writing.append(gone, None, [deleted("human", NOW)])
        writing.append(child, None, [killed(quiet, "human", NOW)])
        writing.append(work, None, [renamed("gone", "human", NOW)])
        writing.append(quiet, None, [renamed(f"work {HARD}", "human", NOW)])
        writing.append(quiet, None, [unarchived("human", NOW)])
        writing.append(work, None, [archived("human", NOW)])
        writing.remove_memo(2)
        writing.remove_memo(writing.save_memo("never copied", (), None, "human", NOW))
        writing.keep_texts(hashed("later"))
        writing.append(work, None, [request(dict(zip(("config",), hashed("later"), strict=True)), number=2)])
        writing.append(add_fork(writing, work), None, [draft(content="quartz", actor="model")])


class SimulatedStop(Exception):  # noqa: N818 - not an error
    """The simulated end of the program."""


class StoppingStore:
    """A store whose program ends during a transaction, just before or just after its commit."""

    def __init__(self, store: Store, transactions: int, *, committed: bool) -> None:
        self.address = store.address
        self._store, self._left, self._committed = store, transactions, committed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """Open a transaction of the store; the program ends with the one after `transactions` others."""
        self._left -= 1
        with self._store.write() as writing:
            yield writing
            if self._left < 0 and not self._committed:
                raise SimulatedStop
        if self._left < 0:
            raise SimulatedStop
