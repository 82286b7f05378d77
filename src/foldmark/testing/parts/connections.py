"""Several connections and processes share one database and see each other's commits [SPEC 2, 9].

A killed process loses nothing that it committed. Each commit is read once and in order, and wakes every watch.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from foldmark.core.agents import BORN, LIVES, Change, Changes, Size, archived, deleted, killed, renamed, unarchived
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import BESIDE, Store, Transaction
from foldmark.core.replay import Fold
from foldmark.core.segments import END, Segment
from foldmark.testing.parts.transactions import contents, head_and_texts, texts_of
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
    call,
    draft,
    erase,
    fork,
    read,
    result,
    roll_back,
    root,
    save_memo,
    send,
    stop_inside,
)


class Connections(Suite):
    """Every connection sees the commits of all others in any process."""

    def test_stored_events_are_visible_to_another_connection(self, store: Store, agent: str, other: Store) -> None:
        (opener, asked) = append(store, agent, draft(), call("c1"))
        append(store, agent, result("c1", asked), draft("state", "Goal: x"), draft("turn_ended", ""))
        child = fork(store, agent)
        save_memo(store, "a memo", "x", "y", agent=agent)
        send(store, agent, child, "mail")
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

    def test_changes_by_others_are_seen_at_once(self, store: Store, agent: str, other: Store) -> None:
        """A store may cache only values that no other connection can change."""
        for number in range(3):
            for writer, reader in ((store, other), (other, store)):
                append(writer, agent, draft(content=f"{number}"), draft("state", f"Goal: {number}"))
                fold = Fold(agent, (Segment(agent, number + 1, END),), {f"M{number}": 1}, at=number)
                with writer.write() as writing:
                    writing.save_fold(fold, Size(number, number))
                    writing.append(agent, None, [renamed(f"name {number} {writer is store}", "human", NOW)])
                with reader.read() as moment:
                    head = moment.head(agent)
                    assert head.cache == (fold, Size(number, number))
                    assert head.newest["state"].content == f"Goal: {number}"
                    assert moment.named(f"name {number} {writer is store}") == head.record

    def test_a_head_is_current_after_every_kind_of_write(self, store: Store, agent: str, other: Store) -> None:
        """A store that caches heads drops them in time."""

        def beside() -> set[str]:
            with store.read() as here, other.read() as there:
                assert here.head(agent) == there.head(agent)
                return set(here.head(agent).beside)

        assert beside() == set()
        send(store, root(store), agent, "mail")
        assert beside() == {"mail"}
        save_memo(store, "a memo")
        assert beside() == {"mail", "memos"}
        fork(store, agent)
        assert beside() == set(BESIDE)
        for each in (draft("config", "x = 1", data={"settings": {}}), draft("mark", "here"), draft("turn_ended", "")):
            append(store, agent, each)
            assert beside() == set(BESIDE)

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

    def test_a_reader_never_finds_an_id_below_one_that_it_has_seen(
        self, store: Store, agent: str, other: Store
    ) -> None:
        """Ids increase in the order of commits, so a reader that has read a tree up to an id has missed nothing."""
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


def changes(store: Store, after: str | None = None, limit: int = 100) -> Changes:
    """Return a page of changes as of now."""
    with store.read() as moment:
        return moment.changes(after, limit)


def pages(store: Store, after: str, limit: int) -> list[Change]:
    """Return all changes after a cursor, read page by page."""
    found: list[Change] = []
    while (page := changes(store, after, limit)).changes:
        assert len(page.changes) <= limit
        assert page.cursor != after
        found += page.changes
        after = page.cursor
    return found


class ListeningTests(Suite):
    """A cursor skips no change. A watch wakes for every commit and for nothing else."""

    def test_changes_begin_now_and_are_read_once(self, store: Store, agent: str) -> None:
        append(store, agent, draft(content="before"))
        assert changes(store).changes == []
        begin = changes(store).cursor
        ids = append(store, agent, draft(), draft("state", "Goal: x"), draft("turn_ended", ""))
        child = fork(store, agent)
        mail = send(store, agent, child, "one", "two")
        roll_back(store, lambda writing: writing.append(agent, None, [draft(content="lost")]))
        (late,) = append(store, child, draft(content="late"))
        with store.read() as moment:
            (forked,) = [event.id for event in moment.events_after(agent, ids[-1], 10)]
        kinds = zip([*ids, forked], ("user", "state", "turn_ended", "fork"), strict=True)
        expected = [Change(agent, id, kind) for id, kind in kinds]
        expected += [*(Change(child, id, "mail") for id in mail), Change(child, late, "user")]
        for limit in (1, 2, 3, 100):
            found = pages(store, begin, limit)
            assert [each for each in found if each.event_id is not None] == expected
            assert [each for each in found if each.event_id is None] == [Change(child, None, BORN)]
        assert changes(store, changes(store).cursor).changes == []

    def test_each_change_of_an_agent_is_reported_once(self, store: Store, other: Store) -> None:
        """Changes of one agent come in order. A rolled-back change is not reported."""
        begin = changes(other).cursor
        first, second = root(store, "first"), root(store, "second")
        child = fork(store, first)

        def act(writing: Transaction) -> None:
            writing.append(child, None, [killed(first, "model", NOW)])
            writing.append(first, None, [renamed("other", "human", NOW)])
            writing.append(first, None, [archived("human", NOW)])

        roll_back(store, act)
        with store.write() as writing:
            act(writing)
        with other.write() as writing:
            writing.append(first, None, [unarchived("human", NOW)])
            writing.append(second, None, [renamed("second", "human", NOW)])
            writing.append(second, None, [archived("human", NOW)])
            erase(writing, second, 0)
            writing.append(second, None, [deleted("human", NOW)])
        lives = {
            first: ["born", "renamed", "archived", "unarchived"],
            second: ["born", "renamed", "archived", "deleted"],
            child: ["born", "killed"],
        }
        for limit in (1, 2, 100):
            found = [each for each in pages(store, begin, limit) if each.kind in LIVES]
            assert all((each.event_id is None) == (each.kind == BORN) for each in found)
            assert {agent: [each.kind for each in found if each.agent_id == agent] for agent in lives} == lives
            assert len(found) == sum(map(len, lives.values()))

    def test_a_cursor_is_valid_in_every_connection(self, store: Store, other: Store) -> None:
        agent, begin = root(store), changes(other).cursor
        (first,) = append(store, agent, draft())
        page = changes(other, begin)
        assert page.changes == [Change(agent, first, "user")]
        (second,) = append(other, agent, draft())
        assert changes(store, page.cursor).changes == [Change(agent, second, "user")]

    @pytest.mark.parametrize("cursor", ["", "x", "é", "-1", "1;2\0"])
    def test_an_invalid_cursor_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(CommandError, match="cursor"):
            changes(store, cursor)

    def test_uncommitted_events_are_no_changes(self, store: Store, agent: str) -> None:
        with store.write() as writing:
            writing.append(agent, None, [draft()])
            with pytest.raises(StoreError, match="committed"):
                writing.changes(None, 1)

    def test_the_events_of_an_agent_are_read_in_pages(self, store: Store) -> None:
        agents = root(store), root(store)
        ids: dict[str, list[int]] = {agent: [] for agent in agents}
        for _ in range(5):
            for agent in agents:
                ids[agent] += append(store, agent, draft(), draft("usage", ""), draft("turn_ended", ""))
        for agent in agents:
            for limit in (1, 4, 15, 100):
                with store.read() as moment:
                    after, found = 0, list[int]()
                    while page := moment.events_after(agent, after, limit):
                        assert len(page) <= limit
                        assert page[0].id > after
                        assert page == moment.events([event.id for event in page])
                        found += [event.id for event in page]
                        after = found[-1]
                assert found == ids[agent]
        with store.write() as writing:
            appended = writing.append(agents[0], None, [draft(content="now")])
            assert [event.id for event in writing.events_after(agents[0], ids[agents[0]][-1], 5)] == appended

    def test_two_processes_never_interleave(self, store: Store, other: Store, harness: Harness) -> None:
        """Each event of the shared agent directly follows the head that its writer had read. The batches that each
        process appends to its own agent, a fork of the shared one, are complete and in order. A third process appends
        metadata to the shared agent all the time, and disturbs neither."""
        times, parent = 20, root(store)
        own = [fork(store, parent), fork(store, parent)]
        begin = head_and_texts(store, parent)[0].record.head
        seen, cursor = list[Change](), changes(other).cursor
        processes = [SecondProcess(harness.open, store.address, append_in_turn, parent, each, times) for each in own]
        elsewhere = SecondProcess(harness.open, store.address, append_metadata, parent, times)
        with closing(other.watch()) as watch:
            for process in (*processes, elsewhere):
                process.begin()
            while len(seen) < 2 * times * 4 + times:
                page = changes(other, cursor, 7)
                seen, cursor = seen + page.changes, page.cursor
                assert page.changes or watch.wait(LIMIT)
        found = sorted(pair for process in processes for pair in process.receive_all())
        beside = elsewhere.receive_all()
        for process in (*processes, elsewhere):
            process.close()
        assert len(found) == 2 * times
        assert [each.event_id for each in seen if each.about_request] == beside
        assert [head for head, _ in found] == [begin, *(id for _, id in found[:-1])]
        for each in (store, other):
            with each.read() as moment:
                messages = list(moment.messages((Segment(parent, 1, END),)))
            assert [event.id for event in messages] == [id for _, id in found]
            batches = [f"{number}/{part}" for number in range(times) for part in range(3)]
            assert [texts_of(each, mine) for mine in own] == [batches, batches]
        assert changes(other, cursor).changes == []
        ids = [each.event_id for each in seen if each.event_id is not None]
        assert ids == sorted(set(ids))  # one tree
        assert len(ids) == len(seen) == 2 * times * 4 + times
        assert [(event.agent_id, event.id, event.kind) for event in read(store, ids)] == list(seen)

    def test_a_watch_wakes_for_a_commit_of_this_process(self, store: Store) -> None:
        with closing(store.watch()) as watch, ThreadPoolExecutor(1) as pool:
            for act in (root, lambda store: append(store, root(store), draft())):
                waiting = pool.submit(watch.wait, LIMIT)
                act(store)
                assert waiting.result()
                while watch.wait(0):
                    pass

    def test_a_watch_wakes_for_a_commit_of_another_connection(
        self, store: Store, agent: str, other: Store, harness: Harness
    ) -> None:
        with closing(store.watch()) as watch, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(watch.wait, LIMIT)
            append(other, agent, draft())
            assert waiting.result()
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
