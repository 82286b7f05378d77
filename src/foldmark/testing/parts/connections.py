"""Several connections and processes over one database; what is killed takes nothing along [SPEC 2]."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from foldmark.core.agents import Size
from foldmark.core.ports import Store
from foldmark.core.records import CodingSession
from foldmark.core.replay import Fold
from foldmark.core.segments import END, Segment
from foldmark.testing.elsewhere import Elsewhere, append_batches, append_in_turn, stop_inside
from foldmark.testing.harness import Harness
from foldmark.testing.parts.transactions import contents, told
from foldmark.testing.suite import NOW, Suite, append, call, draft, fork, read, result, root


class Connections(Suite):
    """What one connection stored, every other one has, in this process or another."""

    def test_what_is_stored_is_there_in_another_connection(self, store: Store, other: Store) -> None:
        agent = root(store)
        (opener, asked) = append(store, agent, draft(), call("c1"))
        append(store, agent, result("c1", asked), draft("state", "Goal: x"), draft("turn_ended", ""))
        child = fork(store, agent)
        with store.write() as writing:
            writing.save_memo("a memo", ("x", "y"), agent, "human", NOW)
            writing.send(agent, child, "mail", "human", NOW)
        with store.read() as one, other.read() as two:
            for moment in (one, two):
                assert [each.id for each in moment.agents()] == [agent, child]
            assert one.agents() == two.agents()
            assert one.head(agent) == two.head(agent)
            segments = (Segment(agent, 1, END),)
            assert list(one.messages(segments)) == list(two.messages(segments))
            assert one.turns([opener]) == two.turns([opener])
            assert one.memos(5) == two.memos(5)
            assert one.unread(child) == two.unread(child)
            assert one.size(segments) == two.size(segments)

    def test_what_others_change_is_seen_at_once(self, store: Store, other: Store) -> None:
        """A store may keep what it read only as far as nobody can change it."""
        agent = root(store)
        for number in range(3):
            for writer, reader in ((store, other), (other, store)):
                append(writer, agent, draft(content=f"{number}"), draft("state", f"Goal: {number}"))
                fold = Fold(agent, (Segment(agent, number + 1, END),), {f"M{number}": 1}, at=number)
                with writer.write() as writing:
                    writing.save_fold(fold, Size(number, number))
                    writing.rename(agent, f"name {number} {writer is store}")
                with reader.read() as moment:
                    head = moment.head(agent)
                    assert head.cache == (fold, Size(number, number))
                    assert head.newest["state"].content == f"Goal: {number}"
                    assert moment.named(f"name {number} {writer is store}") == head.record

    def test_several_threads_use_one_store(self, store: Store) -> None:
        agent = root(store)

        def work(number: int) -> tuple[int, bool]:
            (id,) = append(store, agent, draft(content=f"thread {number}"))
            with store.write() as writing:
                memo = writing.save_memo(f"thread{number} says hello", (f"tag{number % 3}",), None, "human", NOW)
                writing.save_coding_session(CodingSession("claude", str(number % 10), "/s"))
            with store.read() as moment:
                (memos,) = moment.memos_with([([f"thread{number}"], END)], 5)
                return id, f"thread {number}" in contents(moment, agent) and [each.id for each in memos] == [memo]

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(40)))
        assert all(seen for _, seen in found)
        assert len({id for id, _ in found}) == len(told(store, agent)[1]) == 40
        with store.read() as moment:
            assert moment.memo_tags(5) == [("tag0", 14), ("tag1", 13), ("tag2", 13)]
            assert len(moment.coding_sessions()) == 10

    def test_what_is_killed_inside_a_transaction_leaves_nothing_of_it(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        agent = root(store)
        with closing(Elsewhere(harness.open, store.address, stop_inside, agent)) as process:
            process.begin()
            stored, lost = process.heard(), process.heard()
            before = told(store, agent)
            assert before[1] == ["stored"]
            process.kill()
        assert told(store, agent) == told(other, agent) == before
        assert [event.content for event in read(store, stored)] == ["stored"]
        with store.read() as moment:
            assert [each.id for each in moment.agents()] == [agent]
            assert moment.memos(5) == []
        # The dead process holds nobody up, and what it began has no id that means anything.
        (later,) = append(store, agent, draft(content="later"), expected=stored[0])
        assert later > stored[0]
        assert [event.content for event in read(store, lost)] in ([], ["later"])

    def test_what_is_killed_at_any_moment_loses_nothing_that_it_had_back(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        agent, size, stored = root(store), 5, 0
        for heard in range(3):
            with closing(Elsewhere(harness.open, store.address, append_batches, agent, size)) as process:
                process.begin()
                known = [process.heard() for _ in range(heard)]
                process.kill()
                known += process.rest()
            texts = told(store, agent)[1]
            assert texts == told(other, agent)[1]
            # At most the batch under way is there without anybody having been told; it is there as a whole.
            assert 0 <= len(texts) - stored - size * len(known) <= size
            assert len(texts) % size == 0
            expected = [f"{number}/{part}" for number in range(1, len(known) + 1) for part in range(size)]
            assert texts[stored : stored + len(expected)] == expected
            assert [event.content for batch in known for event in read(store, batch)] == expected
            assert list(store.damage()) == []
            stored = len(texts)

    def test_two_processes_never_interleave(self, store: Store, other: Store, harness: Harness) -> None:
        """Each event of the agent that both write to stands directly behind the head that its writer had read; what
        each writes to an agent of its own is all there, in order."""
        agent, own, times = root(store), [root(store), root(store)], 20
        processes = [Elsewhere(harness.open, store.address, append_in_turn, agent, each, times) for each in own]
        for process in processes:
            process.begin()
        found = sorted(pair for process in processes for pair in process.rest())
        for process in processes:
            process.close()
        assert len(found) == 2 * times
        assert [head for head, _ in found] == [0, *(id for _, id in found[:-1])]
        for each in (store, other):
            with each.read() as moment:
                messages = list(moment.messages((Segment(agent, 1, END),)))
            assert [event.id for event in messages] == [id for _, id in found]
            batches = [f"{number}/{part}" for number in range(times) for part in range(3)]
            assert [told(each, mine)[1] for mine in own] == [batches, batches]

    def test_who_has_seen_an_id_never_finds_a_lower_one_later(self, store: Store, other: Store) -> None:
        """Ids increase in commit order: a reader that has read a tree up to an id has missed nothing before it."""
        agent = root(store)
        child = fork(store, agent)
        tree = (Segment(agent, 1, END), Segment(child, 1, END))

        def write(writer: Store, mine: str) -> None:
            for _ in range(30):
                append(writer, mine, draft(), draft())

        seen: list[int] = []
        with ThreadPoolExecutor(2) as pool:
            writers = [pool.submit(write, other, agent), pool.submit(write, store, child)]
            while len(seen) < 120:
                done = all(each.done() for each in writers)
                with other.read() as moment:
                    ids = sorted(event.id for event in moment.messages(tree))
                assert ids[: len(seen)] == seen
                seen = ids
                assert not done or len(seen) == 120
            for each in writers:
                each.result()
