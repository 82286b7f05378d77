"""A transaction is recorded as a whole or not at all, and ids increase within a tree [SPEC 2]."""

import pytest

from foldmark.core.agents import mailed
from foldmark.core.errors import ConflictError, DamagedError
from foldmark.core.ports import Head, Snapshot, Store
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import NOW, Suite, add_fork, append, draft, fork, roll_back, root


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

    def test_only_one_of_two_appends_succeeds(self, store: Store, agent: str, other: Store) -> None:
        (first,) = append(store, agent, draft())
        heads = [head_and_texts(each, agent)[0].record.head for each in (store, other)]
        assert heads == [first, first]
        append(other, agent, draft(content="won"), expected=heads[1])
        with pytest.raises(ConflictError):
            append(store, agent, draft(content="lost"), expected=heads[0])
        assert texts_of(store, agent) == texts_of(other, agent) == ["hello", "won"]

    # All or nothing

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

    # Ids

    def test_ids_of_a_tree_increase_in_the_order_of_commits(self, store: Store, agent: str, other: Store) -> None:
        """This holds for all writers and all agents of the tree. There may be gaps, and ids of other trees are
        unrelated."""
        tree, stranger = [agent, fork(store, agent)], root(other)
        tree.append(fork(other, tree[1]))
        found = [0]
        for number in range(12):
            append(other, stranger, draft())
            each = append((store, other)[number % 2], tree[number % 3], draft(), draft("assistant"))
            assert found[-1] < each[0] < each[1]
            found += each
        with store.read() as moment:
            born = [record.fork_event for record in moment.agents() if record.id in tree]
            assert born == sorted(born)
            for child in tree[1:]:
                record = moment.agent(child)
                assert record is not None
                assert record.fork_event < record.head
            assert [moment.agent(each).newest for each in tree] == found[-5::2]  # type: ignore[union-attr]

    def test_a_failed_transaction_moves_no_id_back(self, store: Store, agent: str, other: Store) -> None:
        (first,) = append(store, agent, draft())
        roll_back(store, lambda writing: writing.append(agent, None, [draft()]))
        (second,) = append(other, agent, draft())
        assert first < second
