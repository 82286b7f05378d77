"""Copies are complete, resume wherever they were interrupted, and can be made conversation by conversation.

The contract says that every store reads and takes records as the store in memory does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.copying import copy, steps
from foldmark.core import selections
from foldmark.core.errors import CommandError
from foldmark.core.ports import Snapshot, Store, Transaction
from foldmark.core.segments import END, Segment
from foldmark.request.standing import end_of

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from copies import TEXTS, SimulatedStop, StoppingStore, change, fill, same, same_agents, sound

from foldmark.testing import Harness
from foldmark.testing.histories import STEPS, History, Step
from foldmark.testing.suite import HARD, SecondProcess, append, call, draft, examples, hashed, root, save_memo, send


@pytest.fixture
def harness(on_each_store: Harness) -> Harness:
    return on_each_store


@pytest.fixture
def store(harness: Harness) -> Iterator[Store]:
    with closing(harness.fresh()) as store:
        yield store


@pytest.fixture
def target(harness: Harness) -> Iterator[Store]:
    with closing(harness.fresh()) as target:
        yield target
        assert list(target.damage()) == []


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "EVENTS", 4)
    monkeypatch.setattr(steps, "AT_ONCE", 2)


def test_everything_is_copied_with_all_later_changes(store: Store, target: Store) -> None:
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
        erased = {each.agent_id for each in selections.erased(moment, agents.values())}
        assert erased == {agents["work"], agents["gone"]}
    again = copy(store, target)
    assert (again.events, again.requests, again.mail, again.memos, again.erased) == (0,) * 5
    assert again.hash == second.hash != first.hash


@settings(examples, max_examples=min(25, examples.max_examples // 3))
@given(steps=st.lists(STEPS, max_size=16), more=st.lists(STEPS, max_size=8))
def test_a_database_in_use_gets_a_conversation_with_other_ids(
    store: Store, target: Store, steps: list[Step], more: list[Step]
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
                assert without_ids(ours, agent) == without_ids(theirs, agent)
    append(target, own, draft())


def without_ids(moment: Snapshot, agent: str) -> list[Any]:
    """Return a store's answers about an agent, without event ids."""
    own = (Segment(agent, 1, END),)
    messages, operations = list(moment.select(own)), selections.operations(moment, agent)
    gone = list(selections.tombstones(moment, own))
    by = [selections.erased_by(moment, each.id) for each in gone]
    found = [*messages, *operations, *gone, *by]
    words = [None if each is None else (each.kind, each.content, each.created_at, each.interrupted) for each in found]
    return [words, moment.size(own), end_of(moment, agent), [each.fate for each in moment.agents(parent=agent)]]


@pytest.mark.parametrize("committed", [False, True])
def test_an_interrupted_copy_resumes(store: Store, harness: Harness, committed: bool) -> None:
    agents = fill(store)
    with closing(harness.fresh()) as target:
        stops = stopping(store, target, committed)
        assert stops > 4
        change(store, agents)
        assert stopping(store, target, committed) > 4
        same(store, target)


def stopping(store: Store, target: Store, committed: bool) -> int:
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


def test_a_killed_copy_resumes(store: Store, target: Store, harness: Harness) -> None:
    agents = fill(store)
    for number in range(40):
        append(store, agents["work"], draft(content=f"quartz {number}"))
    for heard in (3, 9, 5):
        with closing(SecondProcess(harness.open, store.address, copy_into, harness.open, target.address)) as process:
            process.begin()
            for _ in range(heard):
                process.receive()
                process.resume()
            process.kill()
        sound(target)
    with closing(harness.open(store.address)) as other:
        copy(other, target)
    same(store, target)


def test_conversations_are_copied_one_by_one(store: Store, target: Store) -> None:
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


def copy_into(store: Store, connection: Connection, open: Callable[[str], Store], address: str) -> None:
    """Copy everything into the database at `address` in small steps. Report each step and wait for `resume`."""
    steps.EVENTS, steps.AT_ONCE = 4, 2
    target = open(address)
    write = target.write

    @contextmanager
    def announced() -> Iterator[Transaction]:
        with write() as writing:
            yield writing
        connection.send("done")
        connection.recv()

    target.write = announced  # type: ignore[method-assign]
    copy(store, target)
    target.close()
