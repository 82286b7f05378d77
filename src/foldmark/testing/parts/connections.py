"""Several connections and processes share one database and see each other's commits [SPEC 2, 9].

A killed process loses nothing that it committed. Each commit is read once and in order, and wakes every watch.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from foldmark.core.agents import Change, Changes
from foldmark.core.errors import CommandError
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import (
    LIMIT,
    NOW,
    Harness,
    SecondProcess,
    Suite,
    append,
    append_batches,
    append_in_turn,
    append_metadata,
    contents,
    draft,
    fork,
    head_and_texts,
    read,
    roll_back,
    root,
    stop_inside,
    texts_of,
)


class Connections(Suite):
    """Every connection sees the commits of all others in any process."""

    def test_several_threads_use_one_store(self, store: Store, agent: str) -> None:

        def work(number: int) -> tuple[int, bool]:
            (id,) = append(store, agent, draft(content=f"thread {number}"))
            with store.write() as writing:
                memo = writing.save_memo(f"thread{number} says hello", (f"tag{number % 3}",), None, "human", NOW)
            with store.read() as moment:
                (memos,) = moment.memos_with([([f"thread{number}"], END)], 5)
                return id, f"thread {number}" in contents(moment, agent) and [each.id for each in memos] == [memo]

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(40)))
        assert all(seen for _, seen in found)
        assert len({id for id, _ in found}) == len(texts_of(store, agent)) == 40
        with store.read() as moment:
            assert moment.memo_tags(5) == [("tag0", 14), ("tag1", 13), ("tag2", 13)]

    def test_a_process_killed_inside_a_transaction_leaves_nothing_of_it(
        self, store: Store, agent: str, other: Store, harness: Harness
    ) -> None:
        with closing(SecondProcess(harness.open, store.address, stop_inside, agent)) as process:
            process.begin()
            stored, lost = process.receive(), process.receive()
            before = head_and_texts(store, agent)
            assert before[1] == ["stored"]
            process.kill()
        assert head_and_texts(store, agent) == head_and_texts(other, agent) == before
        assert [event.content for event in read(store, stored)] == ["stored"]
        with store.read() as moment:
            assert [each.id for each in moment.agents()] == [agent]
            assert moment.memos(5) == []
        # The dead process blocks nobody, and its uncommitted ids name no events.
        (later,) = append(store, agent, draft(content="later"), expected=stored[0])
        assert later > stored[0]
        assert [event.content for event in read(store, lost)] in ([], ["later"])

    def test_a_process_killed_at_any_moment_loses_no_acknowledged_event(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        agent, size, stored = root(store), 5, 0
        for heard in range(3):
            with closing(SecondProcess(harness.open, store.address, append_batches, agent, size)) as process:
                process.begin()
                known = [process.receive() for _ in range(heard)]
                process.kill()
                known += process.receive_all()
            texts = texts_of(store, agent)
            assert texts == texts_of(other, agent)
            # Only the last batch can be stored without having been reported, and then it is stored whole.
            assert 0 <= len(texts) - stored - size * len(known) <= size
            assert len(texts) % size == 0
            expected = [f"{number}/{part}" for number in range(1, len(known) + 1) for part in range(size)]
            assert texts[stored : stored + len(expected)] == expected
            assert [event.content for batch in known for event in read(store, batch)] == expected
            assert list(store.damage()) == []
            stored = len(texts)


def changes(store: Store, after: str | None = None, limit: int = 100) -> Changes:
    """Return a page of changes as of now."""
    with store.read() as moment:
        return moment.changes(after, limit)


class ListeningTests(Suite):
    """A cursor skips no change. A watch wakes for every commit and for nothing else."""

    @pytest.mark.parametrize("cursor", ["", "x", "é", "-1", "1;2\0"])
    def test_an_invalid_cursor_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(CommandError, match="cursor"):
            changes(store, cursor)

    def test_two_processes_never_interleave(self, store: Store, other: Store, harness: Harness) -> None:
        """Each event of the shared agent directly follows the head that its writer had read. The batches that each
        process appends to its own agent, a fork of the shared one, are complete and in order. A third process appends
        metadata to the shared agent all the time, and disturbs neither."""
        times, parent = 20, root(store)
        own = [fork(store, parent), fork(store, parent)]
        begin = head_and_texts(store, parent)[0].record.head
        tree, known = tuple(Segment(each, 1, END) for each in (parent, *own)), list[int]()
        seen, cursor = list[Change](), changes(other).cursor
        processes = [SecondProcess(harness.open, store.address, append_in_turn, parent, each, times) for each in own]
        elsewhere = SecondProcess(harness.open, store.address, append_metadata, parent, times)
        with closing(other.watch()) as watch:
            for process in (*processes, elsewhere):
                process.begin()
            while len(seen) < 2 * times * 4 + times:
                with other.read() as moment:
                    found = sorted(event.id for event in moment.select(tree))
                assert found[: len(known)] == known, "a reader that has read a tree up to an id has missed nothing"
                known = found
                page = changes(other, cursor, 7)
                seen, cursor = seen + page.changes, page.cursor
                assert page.changes or watch.wait(LIMIT)
        pairs = sorted(pair for process in processes for pair in process.receive_all())
        beside = elsewhere.receive_all()
        for process in (*processes, elsewhere):
            process.close()
        assert len(pairs) == 2 * times
        assert [each.event_id for each in seen if each.about_request] == beside
        assert [head for head, _ in pairs] == [begin, *(id for _, id in pairs[:-1])]
        for each in (store, other):
            with each.read() as moment:
                messages = list(moment.select((Segment(parent, 1, END),)))
            assert [event.id for event in messages] == [id for _, id in pairs]
            batches = [f"{number}/{part}" for number in range(times) for part in range(3)]
            assert [texts_of(each, mine) for mine in own] == [batches, batches]
        assert changes(other, cursor).changes == []
        ids = [each.event_id for each in seen if each.event_id is not None]
        assert ids == sorted(set(ids))  # one tree
        assert len(ids) == len(seen) == 2 * times * 4 + times
        assert [(event.agent_id, event.id, event.kind) for event in read(store, ids)] == list(seen)

    def test_a_watch_wakes_for_every_commit(self, store: Store, agent: str, other: Store, harness: Harness) -> None:
        with closing(store.watch()) as watch, ThreadPoolExecutor(1) as pool:
            for act in (
                lambda: root(store),
                lambda: append(store, agent, draft()),
                lambda: append(other, agent, draft()),
            ):
                waiting = pool.submit(watch.wait, LIMIT)
                act()
                assert waiting.result()
                while watch.wait(0):
                    pass
            process = SecondProcess(harness.open, store.address, append_in_turn, agent, root(other), 1)
            while watch.wait(0):
                pass
            waiting = pool.submit(watch.wait, LIMIT)
            process.begin()
            assert waiting.result()
            process.receive_all()
            process.close()

    def test_a_watch_reports_a_commit_once_and_no_earlier_one(self, store: Store, agent: str) -> None:
        with closing(store.watch()) as first:
            append(store, agent, draft())
            with closing(store.watch()) as second:
                assert first.wait(LIMIT)
                assert not first.wait(0)
                assert not second.wait(0)
                roll_back(store, lambda writing: writing.append(agent, None, [draft(content="lost")]))
                assert not first.wait(0)
                append(store, agent, draft())
                append(store, agent, draft())
                assert first.wait(LIMIT)
                assert second.wait(LIMIT)
                assert not first.wait(0)

    def test_closing_ends_a_wait(self, store: Store, harness: Harness) -> None:
        with ThreadPoolExecutor(2) as pool:
            watch = store.watch()
            waiting = pool.submit(watch.wait, 10 * LIMIT)
            watch.close()
            assert not waiting.result(LIMIT)
            assert not watch.wait(10 * LIMIT)
            watch.close()
            closed = harness.fresh()
            waiting = pool.submit(closed.watch().wait, 10 * LIMIT)
            closed.close()
            assert not waiting.result(LIMIT)
