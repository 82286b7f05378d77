"""A transaction is recorded as a whole or not at all, and ids increase within a tree [SPEC 2]."""

from uuid import uuid4

import pytest

from foldmark.core.agents import AgentRecord, Size, deleted, killed, mailed, renamed
from foldmark.core.errors import CommandError, ConflictError, DamagedError, StoreError
from foldmark.core.events import Draft
from foldmark.core.ports import Head, Snapshot, Store, Transaction
from foldmark.core.replay import birth
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import NOW, Suite, add_fork, add_root, append, draft, fork, read, roll_back, root


def contents(moment: Snapshot, agent: str) -> list[str]:
    """Return the texts of an agent's messages."""
    return [event.content for event in moment.messages((Segment(agent, 1, END),))]


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

    # The expected head

    def test_an_unexpected_head_is_a_conflict_and_writes_nothing(self, store: Store) -> None:
        agent, neighbour = root(store), root(store)
        (first,) = append(store, agent, draft(), expected=0)
        append(store, neighbour, draft())  # events of other agents do not count
        before = head_and_texts(store, agent)
        for wrong in (0, first - 1, first + 1):
            with pytest.raises(ConflictError) as caught:
                append(store, agent, draft(content="lost"), expected=wrong)
            assert (caught.value.agent, caught.value.expected, caught.value.found) == (agent, wrong, first)
        assert head_and_texts(store, agent) == before
        (second,) = append(store, agent, draft(), expected=first)
        (third,) = append(store, agent, draft())
        assert first < second < third

    def test_the_expected_head_counts_what_the_transaction_appended(self, store: Store, agent: str) -> None:
        with store.write() as writing:
            ids = writing.append(agent, 0, [draft(), draft("assistant")])
            assert writing.head(agent).record.head == ids[-1]
            with pytest.raises(ConflictError):
                writing.append(agent, 0, [draft(content="lost")])
            ids += writing.append(agent, ids[-1], [draft()])
            record = writing.head(agent).record
            assert (record.head, record.open_turn, record.own.messages) == (ids[-1], ids[0], 3)
        assert [event.id for event in read(store, ids)] == ids

    def test_only_one_of_two_appends_succeeds(self, store: Store, agent: str, other: Store) -> None:
        (first,) = append(store, agent, draft())
        heads = [head_and_texts(each, agent)[0].record.head for each in (store, other)]
        assert heads == [first, first]
        append(other, agent, draft(content="won"), expected=heads[1])
        with pytest.raises(ConflictError):
            append(store, agent, draft(content="lost"), expected=heads[0])
        assert texts_of(store, agent) == texts_of(other, agent) == ["hello", "won"]

    # Appends that may be repeated

    def test_an_append_with_a_key_is_recorded_once(self, store: Store, other: Store) -> None:
        agent, neighbour = root(store), root(store)
        with store.write() as writing:
            ids = writing.append(agent, 0, [draft(content="one"), draft(content="two")], key="a \0 key")
            assert writing.append(agent, 0, [draft(content="one"), draft(content="two")], key="a \0 key") == ids
        (later,) = append(other, agent, draft(content="later"))
        with other.write() as writing:
            # A repeated append still expects the old head.
            assert writing.append(agent, 0, [draft(content="again")], key="a \0 key") == ids
            (theirs,) = writing.append(neighbour, 0, [draft(content="theirs")], key="a \0 key")
            (third,) = writing.append(agent, later, [draft(content="third")], key="another")
        roll_back(store, lambda writing: writing.append(agent, None, [draft(content="lost")], key="lost"))
        with store.write() as writing:
            (fourth,) = writing.append(agent, third, [draft(content="fourth")], key="lost")
        assert texts_of(other, agent) == ["one", "two", "later", "third", "fourth"]
        assert texts_of(other, neighbour) == ["theirs"]
        assert len({*ids, later, theirs, third, fourth}) == 6

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

    def test_a_new_agent_is_rolled_back_with_its_first_events(self, store: Store) -> None:
        def make(writing: Transaction) -> str:
            agent = add_root(writing, "new")
            writing.append(agent, 0, [draft()])
            return agent

        roll_back(store, make)
        with store.read() as moment:
            assert moment.named("new") is None
        with store.write() as writing:
            agent = make(writing)
        with store.read() as moment:
            record = moment.named("new")
            assert record is not None
            assert (record.id, record.open_turn, record.own) == (agent, record.head, (1, 2))

    def test_a_taken_name_is_an_error(self, store: Store, other: Store) -> None:
        first = root(store, "taken")
        with pytest.raises(StoreError):
            root(other, "taken")
        second = root(other)
        with pytest.raises(StoreError), store.write() as writing:
            writing.append(second, None, [renamed("taken", "human", NOW)])
        with store.read() as moment:
            assert [(each.id, each.name) for each in moment.agents()] == [(first, "taken"), (second, second)]

    def test_one_transaction_appends_to_several_agents(self, store: Store, other: Store) -> None:
        with store.write() as writing:
            first, second = add_root(writing), add_root(writing)
            one = writing.append(first, 0, [draft(content="one"), draft(content="two")])
            (theirs,) = writing.append(second, 0, [draft(content="theirs")])
            one += writing.append(first, one[-1], [draft("turn_ended", "")])
            at = writing.next_id(second)
            child = str(uuid4())
            writing.create_agent(AgentRecord(child, None, second, at, NOW), birth(child, at), Size(0, 0))
            assert writing.append(second, theirs, [draft("fork", "", data={"child": child, "start": []})]) == [at]
            (born,) = writing.append(child, 0, [draft(content="child")])
            with pytest.raises(ConflictError):
                writing.append(second, theirs, [draft(content="lost")])
            inside = writing.agents()
            assert [(each.id, each.head, each.open_turn, each.messages) for each in inside] == [
                *((first, one[-1], None, 2), (second, at, theirs, 1), (child, born, born, 1))
            ]
            assert [writing.agent(each.id) for each in inside] == inside
            assert [writing.head(each.id).record for each in inside] == inside
            assert [each.record for each in writing.overview()] == inside
            assert writing.children(second) == inside[2:]
            assert (writing.named(first), writing.root_of(child)) == (inside[0], second)
            assert writing.unstarted() == []
            assert writing.size((Segment(first, 1, END),)) == inside[0].own
        for each in (store, other):
            with each.read() as moment:
                assert moment.agents() == inside
                assert [contents(moment, agent) for agent in (first, second, child)] == [
                    *(["one", "two"], ["theirs"], ["child"])
                ]

    def test_late_writes_are_visible_to_every_read(self, store: Store) -> None:
        agent, child = root(store), str(uuid4())
        later = "2026-03-02T12:00:00.000000Z"
        spoken = Draft(kind="user", content="hello", created_at=later)
        with store.write() as writing:
            (at,) = writing.append(agent, 0, [draft("fork", "", data={"child": child, "start": []})])
            writing.create_agent(AgentRecord(child, None, agent, at, NOW), birth(child, at), Size(0, 0))
        with store.write() as writing:
            assert [each.id for each in writing.unstarted()] == [child]
            assert writing.fates(agent) == {child: "waits"}
            (first,) = writing.append(child, 0, [spoken])
            assert writing.unstarted() == []
            assert writing.fates(agent) == {child: "begun"}
            (second,) = writing.append(agent, at, [spoken])
            assert [(each.record.head, each.last_used) for each in writing.overview()] == [
                *((second, later), (first, later))
            ]

    def test_an_agent_that_ended_accepts_nothing_more(self, store: Store) -> None:
        dead, gone = root(store), root(store)
        with store.write() as writing:
            ids = writing.append(dead, 0, [draft()])
            writing.append(gone, 0, [draft("turn_ended", "")])
            writing.append(dead, None, [killed(gone, "human", NOW)])
            writing.append(gone, None, [deleted("human", NOW)])
            with pytest.raises(CommandError, match="dead"):
                writing.append(dead, None, [draft("mark", "", data={"name": "M"})])
            with pytest.raises(CommandError, match="deleted"):
                writing.append(gone, None, [draft()])
            ids += writing.append(dead, ids[0], [draft("turn_ended", "")])
        assert head_and_texts(store, dead)[0].record.head == ids[-1]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_appending_does_not_disturb_a_reader(
        self, store: Store, agent: str, neighbour: str, newest_first: bool
    ) -> None:
        ids = append(store, agent, *[draft()] * 600)
        found = []
        with store.write() as writing:
            for event in writing.messages((Segment(agent, 1, ids[-1]),), newest_first=newest_first):
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

    def test_the_next_id_is_known_in_advance(self, store: Store, agent: str, neighbour: str) -> None:
        for _ in range(2):
            with store.write() as writing:
                given = writing.next_id(agent)
                assert writing.next_id(agent) == given
                (theirs,) = writing.append(neighbour, None, [draft()])
                assert writing.message_before(neighbour, END) is not None  # a read that includes late writes
                ids = writing.append(agent, None, [draft(content=str(given)), draft()])
                assert ids[0] == given != theirs
        roll_back(store, lambda writing: writing.next_id(agent))
        (later,) = append(store, agent, draft())
        assert later > ids[-1]

    # Pages

    @pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 700])
    def test_messages_are_read_in_both_directions(self, store: Store, agent: str, neighbour: str, count: int) -> None:
        """Two agents append alternately, so that a page of one agent spans events of the other."""
        ids: list[int] = []
        for at in range(0, count, 50):
            ids += append(store, agent, *(draft(content=str(n)) for n in range(at, min(at + 50, count))))
            append(store, neighbour, draft(content="other"))
        segments = (Segment(agent, 1, END),)
        with store.read() as moment:
            assert [event.id for event in moment.messages(segments)] == ids
            newest_first = [event.content for event in moment.messages(segments, newest_first=True)]
            assert newest_first == [str(n) for n in reversed(range(count))]
            assert moment.size(segments).messages == count
            assert list(moment.ids(segments)) == ids[::-1]
