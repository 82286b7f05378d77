"""A transaction is recorded as a whole or not at all, and ids increase within a tree [SPEC 2]."""

import pytest

from foldmark.core.agents import mailed
from foldmark.core.errors import ConflictError, DamagedError
from foldmark.core.ports import Head, Snapshot, Store
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import NOW, Suite, add_fork, append, draft, root


def contents(moment: Snapshot, agent: str) -> list[str]:
    """Return the texts of an agent's messages."""
    return [event.content for event in moment.select((Segment(agent, 1, END),))]


def texts_of(store: Store, agent: str) -> list[str]:
    """Return the texts of an agent's messages, read in a separate moment."""
    with store.read() as moment:
        return contents(moment, agent)


def head_and_texts(store: Store, agent: str) -> tuple[Head, list[str]]:
    """Return the head of an agent, and the texts of its messages."""
    with store.read() as moment:
        return moment.head(agent), contents(moment, agent)


class Transactions(Suite):
    """Transactions are atomic and ordered."""

    @pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), ConflictError("a", 1, 2)])
    def test_a_block_that_raises_leaves_nothing(self, store: Store, other: Store, error: BaseException) -> None:
        agent = root(store)
        append(store, agent, draft())
        with store.read() as moment:
            before = head_and_texts(store, agent), moment.agents(), moment.memos(5), moment.lease(agent)
        lost: list[int] = []
        children: list[str] = []

        def fail() -> None:
            with store.write() as writing:
                lost.extend(writing.append(agent, None, [draft(content="lost")]))
                children.append(add_fork(writing, agent))
                writing.append(children[0], None, [draft(content="lost")])
                writing.save_memo("lost", ("x",), agent, "human", NOW)
                writing.append(children[0], None, [mailed(agent, "lost", "human", NOW)])[0]
                raise error

        with pytest.raises(type(error)):
            fail()
        # A later agent must not be mistaken for the rolled-back one.
        later = root(other)
        append(other, later, draft(content="mine"))
        with store.read() as moment:
            assert (head_and_texts(store, agent), moment.agents()[:-1], moment.memos(5), moment.lease(agent)) == before
            assert [event for event in moment.events(lost) if event.content == "lost"] == []
            assert contents(moment, later) == ["mine"]
            with pytest.raises(DamagedError):
                moment.head(children[0])

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_appending_does_not_disturb_a_reader(
        self, store: Store, agent: str, neighbour: str, newest_first: bool
    ) -> None:
        ids = append(store, agent, *[draft()] * 600)
        found = []
        with store.write() as writing:
            for event in writing.select((Segment(agent, 1, ids[-1]),), newest_first=newest_first):
                found.append(event.id)
                if len(found) % 100 == 0:
                    writing.append(agent, None, [draft(content="meanwhile")])
                    writing.append(neighbour, None, [draft(content="meanwhile")])
        assert found == (ids[::-1] if newest_first else ids)
