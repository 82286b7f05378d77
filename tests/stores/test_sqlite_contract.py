"""What `foldmark.core.ports.Store` promises, of the SQLite store; brute force over its events says what is right."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foldmark.core.errors import ConflictError, DamagedError, StoreError
from foldmark.core.events import MESSAGE_KINDS, OPERATION_KINDS, Draft, Event
from foldmark.core.ports import AgentRecord, Size
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import END, Segment, Segments, contains, normal
from foldmark.core.turns import Message, place
from foldmark.stores.sqlite import SqliteStore

NOW = "2026-03-01T12:00:00.000000Z"


def draft(kind: str = "user", content: str = "hello", **more: Any) -> Draft:
    return Draft(kind=kind, content=content, created_at=NOW, **more)


def call(call_id: str) -> Draft:
    return draft("tool_call", "{}", data={"call_id": call_id, "name": "probe"})


def born(store: SqliteStore, *names: str) -> None:
    for name in names:
        store.create_agent(AgentRecord(f"uuid-{name}", name, None, 0, NOW), birth(f"uuid-{name}"), Size(0, 0))


def append(store: SqliteStore, agent: str, *drafts: Draft) -> list[int]:
    with store.appending(agent, None) as appender:
        return [appender.add(each) for each in drafts]


def everything(store: SqliteStore) -> list[Event]:
    """All events, one by one."""
    found = []
    while event := store.event(len(found) + 1):
        found.append(event)
    return found


@pytest.fixture(params=["memory", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(":memory:" if request.param == "memory" else str(tmp_path / "log.db"))
    born(store, "a", "b")
    yield store
    store.close()


def test_an_event_comes_back_as_it_was_given(store: SqliteStore) -> None:
    data = {"call_id": "c1", "name": "read", "nested": [1, {"é": None}]}
    given = [
        draft("user", "a\0b é 😀\r\n", dialect="openai", actor="human", data={"x": 2**70}),
        draft("tool_call", "{}", data=data, actor="model"),
        draft("tool_result", "text", data={"call_id": "c1"}, answers=2, interrupted=True, actor="system"),
        draft("config", "", actor="system"),
    ]
    ids = append(store, "uuid-a", *given)
    assert ids == [1, 2, 3, 4]
    for id, each in zip(ids, given, strict=True):
        event = store.event(id)
        assert event is not None
        assert (event.id, event.agent_id, event.turn_id) == (id, "uuid-a", 1)
        for name in ("kind", "content", "data", "dialect", "actor", "created_at", "interrupted", "answers"):
            assert getattr(event, name) == getattr(each, name)
    assert store.event(5) is None


def test_what_is_stored_is_there_in_another_connection(tmp_path: Path) -> None:
    path = str(tmp_path / "log.db")
    first = SqliteStore(path)
    born(first, "a")
    append(first, "uuid-a", draft(), draft("assistant", "hi"))
    second = SqliteStore(path, create=False)
    assert everything(second) == everything(first)
    assert second.head("uuid-a") == first.head("uuid-a")
    first.close()
    second.close()


def test_agents(store: SqliteStore) -> None:
    with store.appending("uuid-a", 0) as appender:
        at = appender.add(draft("fork", "", data={"child": "uuid-c", "start": []}))
        store.create_agent(AgentRecord("uuid-c", None, "uuid-a", at, NOW), birth("uuid-c", at), Size(0, 0))
    child = AgentRecord("uuid-c", None, "uuid-a", 1, NOW)
    assert store.agent("uuid-c") == child
    assert store.children("uuid-a") == [child]
    assert store.children("uuid-b") == []
    assert [each.id for each in store.agents()] == ["uuid-a", "uuid-b", "uuid-c"]
    assert store.named("a") == store.head("uuid-a").record
    assert store.head("uuid-a").record == AgentRecord("uuid-a", "a", None, 0, NOW, head=1)
    assert store.named("uuid-a") is None
    assert store.agent("nobody") is None
    assert store.head("uuid-c")[:2] == (child, (birth("uuid-c", at), Size(0, 0)))


def test_the_stored_segments_come_back_as_they_were(store: SqliteStore) -> None:
    fold = Fold("uuid-a", (Segment("uuid-b", 1, 2), Segment("uuid-a", 5, END)), {"M é": 4, "A": 3}, (1, 2), 7)
    store.save_fold(birth("uuid-a"), Size(0, 0))
    store.save_fold(fold, Size(-3, -40))
    found = store.head("uuid-a").cache
    assert found == (fold, Size(-3, -40))
    assert list(found[0].marks) == ["M é", "A"]
    assert isinstance(found[0].segments[0], Segment)


def test_an_unknown_agent_is_damage(store: SqliteStore) -> None:
    for ask in (
        lambda: store.head("nobody"),
        lambda: store.size((Segment("nobody", 1, 2),)),
        lambda: list(store.messages((Segment("nobody", 1, 2),))),
    ):
        with pytest.raises(DamagedError, match="nobody"):
            ask()


# Transactions (SPEC 2)


def test_an_unexpected_head_is_a_conflict_and_writes_nothing(store: SqliteStore) -> None:
    append(store, "uuid-a", draft())
    append(store, "uuid-b", draft())  # another agent's events do not matter
    before = everything(store)
    with pytest.raises(ConflictError, match="newest event is 1, expected 0") as caught, store.appending("uuid-a", 0):
        pytest.fail("the block must not run")
    assert (caught.value.agent, caught.value.expected, caught.value.found) == ("uuid-a", 0, 1)
    assert everything(store) == before
    with store.appending("uuid-a", 1) as appender:
        assert (appender.head, appender.open_turn) == (1, 1)
        appender.add(draft())
        assert appender.head == 3


@pytest.mark.parametrize("error", [RuntimeError("x"), KeyboardInterrupt(), ConflictError("a", 1, 2)])
def test_a_block_that_raises_leaves_nothing(store: SqliteStore, error: BaseException) -> None:
    append(store, "uuid-a", draft())
    store.save_fold(birth("uuid-a"), Size(0, 0))
    before = (everything(store), store.agents(), store.head("uuid-a"))

    def fail() -> None:
        with store.appending("uuid-a", 1) as appender:
            at = appender.add(draft())
            store.create_agent(AgentRecord("uuid-c", None, "uuid-a", at, NOW), birth("uuid-c", at), Size(0, 0))
            store.save_fold(birth("uuid-c", at), Size(0, 0))
            store.save_fold(birth("uuid-a", 99), Size(1, 2))
            raise error

    with pytest.raises(type(error)):
        fail()
    assert (everything(store), store.agents(), store.head("uuid-a")) == before
    # An agent made later must not be taken for the one that never was.
    born(store, "d")
    append(store, "uuid-d", draft(content="mine"))
    assert [event.agent_id for event in everything(store)] == ["uuid-a", "uuid-d"]
    with pytest.raises(DamagedError):
        store.head("uuid-c")
    assert list(store.damage()) == []


def test_an_agent_made_with_its_first_events_is_not_made_without_them(store: SqliteStore) -> None:
    record = AgentRecord("uuid-n", "new", None, 0, NOW)

    def make(fail: bool) -> None:
        with store.appending("uuid-n", 0, record) as appender:
            appender.add(draft())
            if fail:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        make(fail=True)
    assert store.named("new") is None
    make(fail=False)
    assert store.named("new") == AgentRecord("uuid-n", "new", None, 0, NOW, head=1, open_turn=1, messages=1, tokens=2)


def test_data_that_is_not_json_is_refused_and_the_block_can_go_on(store: SqliteStore) -> None:
    with store.appending("uuid-a", 0) as appender:
        with pytest.raises(ValueError, match="not JSON"):
            appender.add(draft(data={"x": object()}))
        assert appender.add(draft()) == 1
    assert len(everything(store)) == 1
    assert list(store.damage()) == []


def test_one_transaction_at_a_time(store: SqliteStore) -> None:
    with store.appending("uuid-a", 0) as appender:
        appender.add(draft())
        with pytest.raises(StoreError, match="batch is under way"), store.appending("uuid-b", 0):
            pytest.fail("the block must not run")
    assert [event.agent_id for event in everything(store)] == ["uuid-a"]


# Reading


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512, 700])
def test_messages_are_read_in_pages_in_both_directions(store: SqliteStore, count: int) -> None:
    """Two agents take turns, so that a page of one lies between the events of the other."""
    with store.appending("uuid-a", None) as appender:
        ids = [appender.add(draft(content=str(n))) for n in range(count)]
    append(store, "uuid-b", draft(content="other"))
    segments = (Segment("uuid-a", 1, END),)
    assert [event.id for event in store.messages(segments)] == ids
    assert [event.content for event in store.messages(segments, newest_first=True)] == [
        str(n) for n in reversed(range(count))
    ]
    assert store.size(segments).messages == count


@pytest.mark.parametrize("newest_first", [False, True])
def test_what_is_appended_while_reading_does_not_disturb(store: SqliteStore, newest_first: bool) -> None:
    with store.appending("uuid-a", None) as appender:
        ids = [appender.add(draft()) for _ in range(600)]
    read = []
    for event in store.messages((Segment("uuid-a", 1, ids[-1]),), newest_first=newest_first):
        read.append(event.id)
        if len(read) % 100 == 0:
            append(store, "uuid-a", draft(content="meanwhile"))
    assert read == (ids[::-1] if newest_first else ids)


def test_a_reader_that_stops_holds_up_nobody(tmp_path: Path) -> None:
    store, other = SqliteStore(str(tmp_path / "log.db")), SqliteStore(str(tmp_path / "log.db"))
    born(store, "a")
    with store.appending("uuid-a", None) as appender:
        for _ in range(600):
            appender.add(draft())
    reading = store.messages((Segment("uuid-a", 1, END),))
    assert next(reading).id == 1
    append(other, "uuid-a", draft())
    busy, pages, done = other._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, pages, done) == (0, 0, 0)
    assert next(reading).id == 2
    store.close()
    other.close()


# Brute force over random logs

KINDS = (
    "user user assistant tool_call tool_call tool_result summary system state scratchpad mark clear turn_ended usage"
)
STEP = st.tuples(st.sampled_from(("a", "a", "b")), st.sampled_from(KINDS.split()), st.integers(0, 5))


def play(store: SqliteStore, steps: list[tuple[str, str, int]]) -> list[Event]:
    """Append what the steps say, two at a time; results answer one of the agent's open calls or none."""
    born(store, "a", "b")
    unanswered: dict[str, list[int]] = {"a": [], "b": []}
    for n, (name, kind, pick) in enumerate(steps):
        answers = None
        data: dict[str, Any] | None = {"call_id": f"c{pick % 2}"} if kind.startswith("tool_") else None
        if kind == "tool_result" and unanswered[name]:
            answers = unanswered[name].pop(pick % len(unanswered[name]))
        apart = answers is not None and pick > 2
        ids = append(store, f"uuid-{name}", draft(kind, "é" * pick + str(n), data=data, answers=answers, apart=apart))
        if kind == "tool_call":
            unanswered[name] += ids
    return everything(store)


def message(event: Event) -> Message:
    return Message(event.id, event.agent_id, event.turn_id, event.kind, event.answers)


@given(st.lists(STEP, max_size=30), st.data())
def test_everything_equals_brute_force(steps: list[tuple[str, str, int]], data: st.DataObject) -> None:
    store = SqliteStore(":memory:")
    events = play(store, steps)
    ids = st.integers(0, len(events) + 2)
    agents = st.sampled_from(("uuid-a", "uuid-b"))
    messages = [event for event in events if event.kind in MESSAGE_KINDS]

    # Ids, turns and sizes.
    assert [event.id for event in events] == list(range(1, len(steps) + 1))
    open_turns: dict[str, int | None] = {}
    for event in events:
        turn, open_turns[event.agent_id] = place(event.kind, event.id, open_turns.get(event.agent_id))
        assert event.turn_id == turn
        size = len(event.content.encode()) + (len('{"call_id":"c0"}') if event.data else 0)
        assert event.tokens == (size + 3) // 4
    for agent in ("uuid-a", "uuid-b"):
        record = store.head(agent).record
        assert record.head == max([event.id for event in events if event.agent_id == agent], default=0)
        assert record.open_turn == open_turns.get(agent)
        own = [event.tokens for event in messages if event.agent_id == agent]
        assert record.own == Size(len(own), sum(own))
        assert store.operations(agent) == [
            event for event in events if event.agent_id == agent and event.kind in OPERATION_KINDS
        ]

    # Ranges.
    segments: Segments = normal(data.draw(st.lists(st.builds(Segment, agents, ids, ids | st.just(END)), max_size=5)))
    shown = [event for s in segments for event in messages if event.agent_id == s[0] and s[1] <= event.id <= s[2]]
    assert list(store.messages(segments)) == shown
    assert list(store.messages(segments, newest_first=True)) == shown[::-1]
    assert store.size(segments) == Size(len(shown), sum(event.tokens for event in shown))
    for kind in ("state", "scratchpad", "system"):
        of_kind = [e.id for e in events if e.kind == kind and contains(segments, e.agent_id, e.id)]
        assert sorted(store.of_kind(kind, segments)) == of_kind
        agent, last, most = data.draw(agents), data.draw(ids | st.just(END)), data.draw(st.integers(1, 3))
        recent = [e for e in reversed(events) if e.kind == kind and e.agent_id == agent and e.id <= last]
        assert store.recent(kind, agent, last, most) == recent[:most]

    # Single events.
    agent, at = data.draw(agents), data.draw(ids)
    mine = [message(event) for event in messages if event.agent_id == agent]
    assert store.message_before(agent, at) == next((m for m in reversed(mine) if m.id <= at), None)
    assert store.message_after(agent, at) == next((m for m in mine if m.id > at), None)
    assert store.turns([at])[at] == [message(event) for event in messages if event.turn_id == at]
    assert store.results([m for m in mine if m.kind == "tool_call"]) == [
        message(event) for m in mine if m.kind == "tool_call" for event in messages if event.answers == m.id
    ]
    apart = [
        m
        for m in mine
        if m.answers and m.id > at >= m.answers and len(events[m.id - 1].content.strip("0123456789")) > 2
    ]
    assert store.apart_results(agent, at) == apart
    answered = {event.answers for event in events}
    calls = [m for m in mine if m.kind == "tool_call"]
    assert store.waiting(agent) == [m for m in calls if m.turn_id == open_turns.get(agent) and m.id not in answered]
    c1 = [m for m in calls if (events[m.id - 1].data or {}).get("call_id") == "c1"]
    assert list(store.calls(agent, "c1")) == c1[::-1]
    wanted = data.draw(st.lists(ids, max_size=5))
    assert list(store.lookup(wanted)) == [message(events[id - 1]) for id in wanted if 0 < id <= len(events)]

    assert list(store.damage()) == []
    store.close()


@given(st.lists(STEP, min_size=1, max_size=20), st.data())
def test_the_newest_of_a_kind(steps: list[tuple[str, str, int]], data: st.DataObject) -> None:
    """Inside the segments the highest id wins; in a lineage, the ancestor's segments lie before the descendant's."""
    store = SqliteStore(":memory:")
    events = play(store, steps)
    cut = data.draw(st.integers(0, len(events)))
    segments = normal([Segment("uuid-a", 1, cut), Segment("uuid-b", cut + 1, END)])
    for kind in ("state", "scratchpad", "system"):
        inside = [e for e in events if e.kind == kind and contains(segments, e.agent_id, e.id)]
        assert store.newest(kind, segments) == (inside[-1] if inside else None)
    store.close()


@settings(max_examples=20)
@given(st.lists(STEP, min_size=3, max_size=20), st.sampled_from(("tokens", "sum", "nth", "content")))
def test_damage_finds_what_does_not_add_up(steps: list[tuple[str, str, int]], column: str) -> None:
    """L3 rests on stored sums: whatever falsifies one is found."""
    store = SqliteStore(":memory:")
    play(store, [*steps, ("a", "user", 1)])
    assert list(store.damage()) == []
    value = "'something longer than it was'" if column == "content" else f"{column} + 1"
    store._db.execute(
        f"UPDATE events SET {column} = {value} WHERE id = (SELECT max(id) FROM events WHERE nth NOT NULL)"
    )
    assert [line for line in store.damage() if line.startswith("agent uuid-a: ")]
    store.close()
