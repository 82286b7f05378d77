"""The blocks of `Store.read` and `Store.write`: one moment, one transaction, and the calls that each permits."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

import pytest

from foldmark.core.agents import AgentRecord, Size, renamed
from foldmark.core.errors import StoreError
from foldmark.core.ports import Store, Transaction
from foldmark.core.replay import birth
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import (
    NOW,
    Harness,
    Suite,
    add_root,
    append,
    contents,
    draft,
    head_and_texts,
    roll_back,
    root,
    texts_of,
)

HALF: dict[str, Callable[[Transaction, str], object]] = {
    "a batch": lambda writing, agent: writing.append(agent, None, [draft(content="half"), draft(data={"x": object()})]),
    "a memo": lambda writing, agent: writing.save_memo("half", ["\ud800"], None, "human", NOW),
    "a birth": lambda writing, agent: writing.create_agent(AgentRecord("half", "half", None, 0, NOW), birth("nobody")),
}
"""Calls that fail halfway, or before the store has written any part of them."""


class Blocks(Suite):
    """A block of `read` sees one consistent moment; a block of `write` is one serialized transaction."""

    def test_a_nested_block_joins_the_outer_one(self, store: Store, agent: str) -> None:
        with store.read() as moment:
            with store.read() as inner:
                assert inner.agent(agent) == moment.agent(agent)
            assert moment.agent(agent) is not None, "the end of the inner block does not end the moment"
        with store.write() as writing:
            with store.write() as inside, store.read() as reading:
                (id,) = inside.append(agent, 0, [draft()])
                assert writing.head(agent).record.head == reading.head(agent).record.head == id
            (later,) = writing.append(agent, id, [draft()])
        assert head_and_texts(store, agent)[0].record.head == later

    def test_nested_write_blocks_are_one_transaction(self, store: Store, agent: str, other: Store) -> None:

        def fail() -> None:
            with store.write() as outer:
                outer.append(agent, None, [draft(content="one")])
                with store.write() as inner:
                    inner.append(agent, None, [draft(content="two")])
                with store.read() as moment:
                    assert contents(moment, agent) == ["one", "two"]
                assert texts_of(other, agent) == []
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert texts_of(store, agent) == texts_of(other, agent) == []

    def test_nothing_is_written_inside_a_moment(self, store: Store, agent: str) -> None:
        with store.read() as moment:
            with pytest.raises(StoreError), store.write():
                pytest.fail("the block must not run")
            assert moment.agent(agent) is not None
        append(store, agent, draft())

    def test_a_moment_cannot_be_used_after_its_block(self, store: Store, agent: str, other: Store) -> None:
        with store.write() as writing:
            writing.append(agent, None, [draft()] * 600)
        with store.read() as moment:
            messages = moment.select((Segment(agent, 1, END),))
            next(messages)
        with store.read():
            for late in (
                lambda: moment.agent(agent),
                lambda: list(messages),
                lambda: writing.append(agent, None, [draft()]),
                lambda: writing.append(agent, None, [renamed("late", "human", NOW)]),
            ):
                with pytest.raises(StoreError):
                    late()
        assert len(texts_of(other, agent)) == 600
        # A reader that stopped halfway blocks nobody.
        append(other, agent, draft())
        assert other.forget_erased()

    def test_a_closed_store_refuses_reads_and_writes(self, harness: Harness) -> None:
        store = harness.fresh()
        agent = root(store)
        with store.read() as moment:
            store.close()
            with pytest.raises(StoreError):
                moment.agent(agent)
        for block in (store.read, store.write):
            with pytest.raises(StoreError), block():
                pytest.fail("the block must not run")

    def test_another_thread_never_sees_half_a_transaction(self, store: Store, agent: str) -> None:
        """It may wait for the end of the block, or read the moment before it."""
        seen: list[int] = []
        begun = Event()

        def look() -> None:
            begun.set()
            with store.read() as moment:
                seen.append(len(contents(moment, agent)))

        thread = Thread(target=look)
        with store.write() as writing:
            writing.append(agent, 0, [draft()])
            thread.start()
            begun.wait()
            writing.append(agent, None, [draft()])
        thread.join()
        assert seen in ([0], [2])

    def test_a_rollback_calls_the_registered_undo_functions(self, store: Store, agent: str) -> None:
        """This includes those of an inner block that succeeded. A commit calls none."""
        undone: list[str] = []

        def record(fail: bool) -> None:
            with store.write() as outer:
                outer.on_rollback(lambda: undone.append("outer"))
                with store.write() as inner:
                    inner.append(agent, None, [draft()])
                    inner.on_rollback(lambda: undone.append("inner"))
                assert undone == []
                if fail:
                    raise RuntimeError

        with pytest.raises(RuntimeError):
            record(fail=True)
        assert undone == ["inner", "outer"], "the last function is called first"
        undone.clear()
        record(fail=False)
        with suppress(RuntimeError), store.read() as moment:
            moment.on_rollback(lambda: undone.append("moment"))
            raise RuntimeError
        roll_back(store, lambda writing: writing.append(agent, None, [draft()]))
        assert undone == []

    # Parts that fail

    def test_a_failure_after_a_write_fails_the_whole_transaction(self, store: Store, agent: str) -> None:
        """A caller that catches the error can neither commit the rest nor use the transaction."""

        def go_on() -> None:
            with store.write() as writing:
                writing.append(agent, 0, [draft(content="one")])
                with suppress(ZeroDivisionError), store.write() as inner:
                    inner.append(agent, None, [draft(content="half"), renamed("half", "human", NOW)])
                    raise ZeroDivisionError
                for late in (
                    lambda: writing.append(agent, None, [draft()]),
                    lambda: writing.head(agent),
                    lambda: writing.save_fold(birth(agent), Size(0, 0)),
                    lambda: store.write().__enter__(),
                ):
                    with pytest.raises(StoreError):
                        late()

        with pytest.raises(StoreError):
            go_on()
        assert texts_of(store, agent) == []
        with store.read() as moment:
            assert [each.id for each in moment.agents()] == [agent]
            assert moment.agents(name=agent)
            assert moment.memos(5) == []
        append(store, agent, draft(content="again"), expected=0)

    @pytest.mark.parametrize("part", HALF)
    def test_a_failed_call_is_never_half_recorded(self, store: Store, agent: str, part: str) -> None:
        """The whole transaction fails, or it continues as if the call had not been made."""
        with suppress(StoreError), store.write() as writing:
            writing.append(agent, 0, [draft(content="one")])
            with suppress(Exception):
                HALF[part](writing, agent)
            writing.append(agent, None, [draft(content="two")])
        assert texts_of(store, agent) in ([], ["one", "two"])
        with store.read() as moment:
            assert [each.id for each in moment.agents()] == [agent]
            assert moment.memos(5) == []

    # One moment

    def test_a_moment_does_not_change(self, store: Store, agent: str, other: Store) -> None:
        """Nor does it keep others from writing, even while a reader has stopped between two pages."""
        texts = [str(number) for number in range(600)]
        append(store, agent, *(draft(content=text) for text in texts))
        with store.read() as moment:
            before = moment.head(agent), contents(moment, agent), moment.agents(), moment.memos(5)
            reading = iter(moment.select((Segment(agent, 1, END),)))
            assert next(reading).content == "0"
            append(other, agent, draft(content="meanwhile"))
            with other.write() as writing:
                add_root(writing)
                writing.save_memo("meanwhile", (), agent, "human", NOW)
            assert (moment.head(agent), contents(moment, agent), moment.agents(), moment.memos(5)) == before
            with store.read() as again:
                assert contents(again, agent) == texts
            assert [event.content for event in reading] == texts[1:]
        with store.read() as moment:
            assert contents(moment, agent) == [*texts, "meanwhile"]
            assert len(moment.agents()) == 2
            assert len(moment.memos(5)) == 1

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_appending_does_not_disturb_a_reader(self, store: Store, agent: str, newest_first: bool) -> None:
        ids, neighbour, found = append(store, agent, *[draft()] * 600), root(store), []
        with store.write() as writing:
            for event in writing.select((Segment(agent, 1, ids[-1]),), newest_first=newest_first):
                found.append(event.id)
                if len(found) % 100 == 0:
                    writing.append(agent, None, [draft(content="meanwhile")])
                    writing.append(neighbour, None, [draft(content="meanwhile")])
        assert found == (ids[::-1] if newest_first else ids)
