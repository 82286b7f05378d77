"""Copies keep all ids, can be made in any number of steps, and are refused if the target has its own contents."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foldmark.copying import copy, steps
from foldmark.core import selections
from foldmark.core.agents import AgentRecord
from foldmark.core.errors import CommandError, DamagedError, StoreError
from foldmark.core.ports import Snapshot, Store
from foldmark.core.records import CopiedEvent
from foldmark.core.search import SearchScope
from foldmark.core.segments import END, Segment
from foldmark.request.standing import end_of
from foldmark.testing.compared import terms_of
from foldmark.testing.copies import TEXTS, SimulatedStop, StoppingStore, change, fill, same, same_agents, sound
from foldmark.testing.histories import STEPS, History, Step
from foldmark.testing.suite import (
    HARD,
    NOW,
    Damage,
    Harness,
    SecondProcess,
    Suite,
    append,
    call,
    copy_into,
    draft,
    erase,
    examples,
    hashed,
    root,
    save_memo,
    send,
)


def _without_ids(moment: Snapshot, agent: str) -> list[Any]:
    """Return a store's answers about an agent, without event ids."""
    own = (Segment(agent, 1, END),)
    messages, operations, gone = (
        list(moment.select(own)),
        selections.operations(moment, agent),
        list(selections.tombstones(moment, own)),
    )
    by = [selections.erased_by(moment, each.id) for each in gone]
    found = [*messages, *operations, *gone, *by]
    words = [None if each is None else (each.kind, each.content, each.created_at, each.interrupted) for each in found]
    return [words, moment.size(own), end_of(moment, agent), [each.fate for each in moment.agents(parent=agent)]]


class CopyingTests(Suite):
    """A copy is complete, and a target with its own contents is refused."""

    @pytest.fixture
    def target(self, harness: Harness) -> Iterator[Store]:
        """A second, empty database, which is checked for damage after the test."""
        target = harness.fresh()
        yield target
        assert list(target.damage()) == []
        target.close()

    @pytest.fixture(autouse=True)
    def _small_pages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(steps, "EVENTS", 4)
        monkeypatch.setattr(steps, "AT_ONCE", 2)

    @settings(examples, max_examples=min(25, examples.max_examples // 3))
    @given(steps=st.lists(STEPS, max_size=16), more=st.lists(STEPS, max_size=8))
    def test_a_copy_answers_as_the_original(
        self, store: Store, target: Store, steps: list[Step], more: list[Step]
    ) -> None:
        """This also holds for a copy made in two steps, with turns erased between them."""
        history = History(store)
        for part in (steps, more):
            history.play(store, part)
            copy(store, target, (history.agents[0], history.agents[2]))
            same_agents(store, target, history.agents)

    def test_everything_is_copied_with_all_later_changes(self, store: Store, target: Store) -> None:
        agents = fill(store)
        first = copy(store, target)
        same(store, target)
        assert (first.conversations, first.agents, first.events, first.compared) == (3, 4, 19, 19)
        assert (first.mail, first.requests, first.memos, first.erased) == (2, 3, 3, 0)
        with target.read() as moment:
            assert [moment.lease(record.id) for record in moment.agents()] == [None] * 4
            assert moment.kept_texts(TEXTS) == hashed(HARD, "memo", "secret")
            assert moment.kept_texts([*hashed(HARD), "0" * 64]) == hashed(HARD)
        change(store, agents)
        second = copy(store, target)
        same(store, target)
        assert (second.erased, second.requests) == (4, 1)
        with target.read() as moment:
            assert moment.kept_texts(TEXTS) == hashed(HARD, "later")
            assert {each.agent_id for each in selections.erased(moment, agents.values())} == {
                agents["work"],
                agents["gone"],
            }
        again = copy(store, target)
        assert (again.events, again.requests, again.mail, again.memos, again.erased) == (0,) * 5
        assert again.hash == second.hash != first.hash

    @settings(examples, max_examples=min(25, examples.max_examples // 3))
    @given(steps=st.lists(STEPS, max_size=16), more=st.lists(STEPS, max_size=8))
    def test_a_database_in_use_gets_a_conversation_with_other_ids(
        self, store: Store, target: Store, steps: list[Step], more: list[Step]
    ) -> None:
        """The target goes on with its own conversations between two copies, and after them."""
        history = History(store)
        own = root(target)
        names = (history.agents[0], history.agents[2])
        for part in (steps, more):
            append(target, own, draft(), draft("turn_ended", ""))
            history.play(store, part)
            copy(store, target, names)
            with store.read() as ours, target.read() as theirs:
                for agent in history.agents:
                    assert _without_ids(ours, agent) == _without_ids(theirs, agent)
        append(target, own, draft())

    def test_copied_messages_are_found(self, store: Store, target: Store) -> None:
        """This also holds for messages between others that were copied earlier."""
        first, second = root(store, "first"), root(store, "second")
        for number in range(4):
            for agent in (first, second):
                append(store, agent, draft(content=f"quartz {number}"), call(f"{number}", "quartz"))
        turn, last = append(store, second, draft("turn_ended", ""), draft(content="fjord"), draft("turn_ended", ""))[1:]
        for names, found in ((["second"], [8, 1]), (["first"], [16, 1])):
            copy(store, target, names)
            with target.read() as moment:
                assert moment.index(SearchScope()).counted([*terms_of("quartz"), *terms_of("fjord")])[1] == found
        with store.write() as writing:
            erase(writing, second, turn, last)
        copy(store, target)
        with target.read() as moment:
            assert moment.index(SearchScope()).counted([*terms_of("quartz"), *terms_of("fjord")])[1] == [16, 0]

    def test_a_copy_goes_back(self, store: Store, target: Store) -> None:
        """Changes made in the copy are copied to the original, which has not changed since."""
        agents = fill(store)
        copy(store, target)
        change(target, agents)
        copy(target, store)
        same(target, store)

    def test_names_are_taken_at_once(self, store: Store, target: Store) -> None:
        """Two agents may swap their names, and one may lose its name."""
        one, two, three = root(store, "one"), root(store, "two"), root(store, "three")
        with store.write() as writing:
            writing.take_names({one: "two", two: "one", three: None})
            assert [record.name for record in writing.agents()] == ["two", "one", None]
        with pytest.raises(StoreError), store.write() as writing:
            writing.take_names({three: "one"})

    def test_memos_are_taken_with_their_ids(self, store: Store, target: Store) -> None:
        fill(store)
        with store.read() as ours, target.write() as writing:
            for at, record in enumerate(ours.agents(), 1):
                writing.create_agent(record, at=at)
            found = list(ours.copied_memos())
            writing.take_memos(found)
            assert list(writing.copied_memos()) == found
            assert list(writing.copied_memos(found[0].id)) == found[1:]

    def test_new_ids_follow_the_copied_ones(self, store: Store, target: Store) -> None:
        agents = fill(store)
        change(store, agents)
        copy(store, target)
        with store.read() as moment:
            *_, newest = moment.copied_memos()
            heads = [record.last for record in moment.agents()]
            assert (newest.id, newest.is_removed) == (4, True)
        (event,) = append(target, agents["work"], draft())
        assert event > max(heads)
        other = root(target)
        assert append(target, other, draft())[0] > max(heads)
        with target.write() as writing:
            assert writing.save_memo("new", (), None, "human", NOW) > newest.id
            writing.take_memos([newest])
            assert writing.save_memo("new", (), None, "human", NOW) > newest.id + 1
        with store.write() as writing:
            writing.remove_memo(writing.save_memo("new", (), None, "human", NOW))

    @pytest.mark.parametrize("committed", [False, True])
    def test_an_interrupted_copy_resumes(self, store: Store, harness: Harness, committed: bool) -> None:
        agents = fill(store)
        with closing(harness.fresh()) as target:
            stops = self._stopping(store, target, committed)
            assert stops > 4
            change(store, agents)
            assert self._stopping(store, target, committed) > 4
            same(store, target)

    @staticmethod
    def _stopping(store: Store, target: Store, committed: bool) -> int:
        """Repeat a copy, stopping it after different numbers of transactions, until one completes. Return the number of
        stopped copies."""
        for number in range(100):
            try:
                copy(store, StoppingStore(target, number % (3 if committed else 4), committed=committed))
            except SimulatedStop:
                sound(target)
            else:
                return number
        pytest.fail("the copy never completes")

    def test_a_killed_copy_resumes(self, store: Store, target: Store, other: Store, harness: Harness) -> None:
        agents = fill(store)
        for number in range(40):
            append(store, agents["work"], draft(content=f"quartz {number}"))
        for heard in (3, 9, 5):
            with closing(
                SecondProcess(harness.open, store.address, copy_into, harness.open, target.address)
            ) as process:
                process.begin()
                for _ in range(heard):
                    process.receive()
                    process.resume()
                process.kill()
            sound(target)
        copy(other, target)
        same(store, target)

    def test_conversations_are_copied_one_by_one(self, store: Store, target: Store) -> None:
        """This also holds if their events are between others that were copied earlier."""
        first, second, third = (root(store, name) for name in ("first", "second", "third"))
        for number in range(4):
            for agent in (first, second, third):
                append(store, agent, draft(content=f"quartz {number} {agent}"), call(f"{number}"))
        send(store, second, third, "mail")
        save_memo(store, "a memo", agent=second)
        report = copy(store, target, ["second"])
        assert (report.conversations, report.events, report.memos) == (1, 8, 0)
        with pytest.raises(CommandError, match="Copy them as well: --conversation second"):
            copy(store, target, ["third"])
        copy(store, target, ["first"])
        copy(store, target, ["third", second.upper()])
        with target.read() as theirs:
            everyone = [record.id for record in theirs.agents()]
            assert theirs.memos(5) == []
        same_agents(store, target, everyone)
        copy(store, target)
        same(store, target)

    def test_a_damaged_event_is_not_copied(self, store: Store, target: Store, harness: Harness) -> None:
        damaged = harness.fresh()
        agent = root(damaged)
        ids = append(damaged, agent, *(draft(content=f"quartz {number}") for number in range(9)))
        harness.plant(damaged, Damage.CONTENT, ids[6])
        with pytest.raises(DamagedError, match=f"event {ids[6]} .* is not as it was recorded"):
            copy(damaged, target)
        with target.read() as moment:
            assert [event.id for event in selections.events_after(moment, agent, 0, 100)] == ids[:4]
        damaged.close()

    def test_records_are_taken_whole(self, store: Store, agent: str, target: Store) -> None:
        append(store, agent, draft(content="one"), draft(content="two"))
        with store.read() as moment:
            one, two = moment.copied_events({agent: 0})
            assert list(moment.copied_events({agent: one.id})) == [two]
            assert list(moment.copied_events({agent: two.id})) == list(moment.copied_events({})) == []
        record = AgentRecord(agent, "name", None, 0, NOW)

        def take(events: list[CopiedEvent]) -> None:
            with target.write() as writing:
                writing.create_agent(record, at=5)
                writing.take_events(events)

        for wrong in ([two, one], [one, one], [one, replace(two, agent="nobody")]):
            with pytest.raises(StoreError):
                take(wrong)
            with target.read() as moment:
                assert moment.agents() == []
        take([one])
        with target.write() as writing:
            assert selections.waiting(writing, agent) == []
            writing.take_events([two])
            assert [event.content for event in writing.select((Segment(agent, 1, END),))] == ["one", "two"]
            (three,) = writing.append(agent, two.id, [draft(content="three")])
        assert three > two.id
        with pytest.raises(StoreError), target.write() as writing:
            writing.take_events([replace(two, id=three)])
        with pytest.raises(StoreError), target.write() as writing:
            writing.create_agent(AgentRecord("another", "name", None, 0, NOW), at=6)
        with target.write() as writing:
            gone = replace(two, id=three + 1, content="", data=None, redacted=three + 1)
            writing.take_events([gone])
            writing.take_erased(agent, [gone.id], two.id)
            assert [(each.id, each.erased_by) for each in selections.erased(writing, [agent])] == [(gone.id, two.id)]
            assert [event.id for event in writing.select((Segment(agent, 1, END),))] == [one.id, two.id, three]
