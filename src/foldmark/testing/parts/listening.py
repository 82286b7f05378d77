"""What was committed, by whichever process, is read once and in order, and wakes whoever waits for it [SPEC 9]."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from foldmark.core.agents import LIVES, MAIL, Change, Changes, Watch
from foldmark.core.errors import CommandError, StoreError
from foldmark.core.ports import Store, Transaction
from foldmark.testing.elsewhere import LIMIT, Elsewhere, append_in_turn
from foldmark.testing.harness import Harness
from foldmark.testing.parts.inbox import send
from foldmark.testing.suite import NOW, Suite, append, draft, fork, read, roll_back, root


def changes(store: Store, after: str | None = None, limit: int = 100) -> Changes:
    """A page of changes as of now."""
    with store.read() as moment:
        return moment.changes(after, limit)


def pages(store: Store, after: str, limit: int) -> list[Change]:
    """All changes behind a cursor, read page by page."""
    found: list[Change] = []
    while (page := changes(store, after, limit)).changes:
        assert len(page.changes) <= limit
        assert page.cursor != after
        found += page.changes
        after = page.cursor
    return found


class ListeningTests(Suite):
    """Cursors skip nothing; a watch wakes for every commit and for nothing else."""

    @pytest.fixture
    def watch(self, store: Store) -> Iterator[Watch]:
        """A watch of `store`."""
        with closing(store.watch()) as watch:
            yield watch

    def test_changes_begin_now_and_are_read_once(self, store: Store) -> None:
        agent = root(store)
        append(store, agent, draft(content="before"))
        assert changes(store).changes == []
        begin = changes(store).cursor
        ids = append(store, agent, draft(), draft("state", "Goal: x"), draft("turn_ended", ""))
        child = fork(store, agent)
        send(store, agent, child, "one", "two")
        roll_back(store, lambda writing: writing.append(agent, None, [draft(content="lost")]))
        (late,) = append(store, child, draft(content="late"))
        with store.read() as moment:
            (forked,) = [event.id for event in moment.events_after(agent, ids[-1], 10)]
        kinds = zip([*ids, forked], ("user", "state", "turn_ended", "fork"), strict=True)
        expected = [*(Change(agent, id, kind) for id, kind in kinds), Change(child, late, "user")]
        for limit in (1, 2, 3, 100):
            found = pages(store, begin, limit)
            assert [each for each in found if each.event_id is not None] == expected
            assert [each for each in found if each.kind == MAIL] == [Change(child, None, MAIL)] * 2
            assert [each for each in found if each.kind in LIVES] == [Change(child, None, "born")]
            assert len(found) == len(expected) + 3
        assert changes(store, changes(store).cursor).changes == []

    def test_what_becomes_of_agents_is_told_once(self, store: Store, other: Store) -> None:
        """Of those of one agent in order; nothing for what failed, nor for what was so already."""
        begin = changes(other).cursor
        first, second = root(store, "first"), root(store, "second")
        child = fork(store, first)

        def act(writing: Transaction) -> None:
            writing.kill(child, first, "model", NOW)
            writing.rename(first, "other")
            writing.archive(first, NOW)
            writing.archive(second, None)

        roll_back(store, act)
        with store.write() as writing:
            act(writing)
        with other.write() as writing:
            writing.archive(first, None)
            writing.rename(second, "second")
            writing.archive(second, NOW)
            writing.delete(second, "human", NOW)
        lives = {
            first: ["born", "renamed", "archived", "unarchived"],
            second: ["born", "archived", "deleted"],
            child: ["born", "killed"],
        }
        for limit in (1, 2, 100):
            found = [each for each in pages(store, begin, limit) if each.kind in LIVES]
            assert {each.event_id for each in found} == {None}
            assert {agent: [each.kind for each in found if each.agent_id == agent] for agent in lives} == lives
            assert len(found) == sum(map(len, lives.values()))

    def test_a_cursor_is_good_in_every_connection(self, store: Store, other: Store) -> None:
        agent, begin = root(store), changes(other).cursor
        (first,) = append(store, agent, draft())
        page = changes(other, begin)
        assert page.changes == [Change(agent, first, "user")]
        (second,) = append(other, agent, draft())
        assert changes(store, page.cursor).changes == [Change(agent, second, "user")]

    @pytest.mark.parametrize("cursor", ["", "x", "é", "-1", "1;2\0"])
    def test_what_is_no_cursor_is_refused(self, store: Store, cursor: str) -> None:
        with pytest.raises(CommandError, match="cursor"):
            changes(store, cursor)

    def test_what_is_not_committed_is_no_change(self, store: Store) -> None:
        agent = root(store)
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

    def test_while_two_processes_append_a_third_misses_nothing(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        """They take turns on one agent, and each writes batches to another one of the same tree."""
        times, parent = 20, root(store)
        own = [fork(store, parent), fork(store, parent)]
        seen, cursor = list[Change](), changes(other).cursor
        processes = [Elsewhere(harness.open, store.address, append_in_turn, parent, each, times) for each in own]
        with closing(other.watch()) as watch:
            for process in processes:
                process.begin()
            while len(seen) < 2 * times * 4:
                page = changes(other, cursor, 7)
                seen, cursor = seen + page.changes, page.cursor
                assert page.changes or watch.wait(LIMIT)
        for process in processes:
            process.rest()
            process.close()
        assert changes(other, cursor).changes == []
        ids = [each.event_id for each in seen if each.event_id is not None]
        assert ids == sorted(set(ids))  # one tree
        assert len(ids) == len(seen) == 2 * times * 4
        assert [(event.agent_id, event.id, event.kind) for event in read(store, ids)] == list(seen)

    def test_a_watch_wakes_for_a_commit_of_this_process(self, store: Store, watch: Watch) -> None:
        with ThreadPoolExecutor(1) as pool:
            for act in (root, lambda store: append(store, root(store), draft())):
                waiting = pool.submit(watch.wait, LIMIT)
                act(store)
                assert waiting.result()
                while watch.wait(0):
                    pass

    def test_a_watch_wakes_for_a_commit_of_another_connection(
        self, store: Store, other: Store, harness: Harness
    ) -> None:
        agent = root(store)
        with closing(store.watch()) as watch, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(watch.wait, LIMIT)
            append(other, agent, draft())
            assert waiting.result()
            process = Elsewhere(harness.open, store.address, append_in_turn, agent, root(other), 1)
            while watch.wait(0):
                pass
            waiting = pool.submit(watch.wait, LIMIT)
            process.begin()
            assert waiting.result()
            process.rest()
            process.close()

    def test_a_watch_wakes_once_and_for_nothing_that_was_before(self, store: Store) -> None:
        agent = root(store)
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
