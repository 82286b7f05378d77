"""Values are read back exactly as stored, with any Unicode and any JSON [SPEC 2]."""

from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.agents import AgentRecord, Size, mailed
from foldmark.core.errors import DamagedError
from foldmark.core.events import ACTORS, DIALECTS, Draft, Event
from foldmark.core.ports import Store
from foldmark.core.replay import Fold, birth
from foldmark.core.segments import END, Segment
from foldmark.testing.suite import (
    HARD,
    NOW,
    Suite,
    append,
    call,
    draft,
    examples,
    fork,
    request,
    result,
    roll_back,
    root,
    save_memo,
)

TEXTS = st.one_of(st.just(HARD), st.text(max_size=20))
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.sampled_from([2**53 + 1, 2**63, -(2**63) - 1, 2**70]))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
DATA = st.one_of(st.none(), st.dictionaries(TEXTS.filter(lambda key: key != "$v"), VALUES, min_size=1, max_size=3))
DRAFTS = st.builds(
    Draft,
    kind=st.sampled_from(("user", "assistant", "system", "tool", "state", "scratchpad", "usage", "record")),
    created_at=st.sampled_from((NOW, "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z")),
    content=TEXTS,
    data=DATA,
    dialect=st.one_of(st.none(), st.sampled_from(DIALECTS)),
    actor=st.sampled_from(ACTORS),
    interrupted=st.booleans(),
)
SHA256 = sha256(HARD.encode()).hexdigest()
GIVEN = ("kind", "content", "data", "dialect", "actor", "created_at", "interrupted", "answers")


def ordered(value: Any) -> Any:
    """Return a JSON value with the order of its keys and the types of its numbers."""
    match value:
        case dict():
            return [(key, ordered(item)) for key, item in value.items()]
        case list():
            return [list, *map(ordered, value)]
        case _:
            return type(value), value


def same(event: Event, appended: Draft) -> None:
    """Assert that an event equals the draft that was appended."""
    for name in GIVEN:
        assert getattr(event, name) == getattr(appended, name), name
    assert ordered(event.data) == ordered(appended.data)
    assert not event.damaged


class RoundTrips(Suite):
    """Every value is read back exactly as stored."""

    @examples
    @given(drafts=st.lists(DRAFTS, min_size=1, max_size=5))
    def test_any_event_is_read_as_it_was_stored(self, store: Store, drafts: list[Draft]) -> None:
        agent = root(store)
        ids = append(store, agent, *drafts)
        with store.read() as moment:
            events = moment.events(ids)
            assert events == [moment.event(id) for id in ids]
        assert [event.id for event in events] == ids
        for event, given_draft in zip(events, drafts, strict=True):
            assert event.agent_id == agent
            same(event, given_draft)

    def test_calls_and_results_are_read_as_they_were_stored(self, store: Store, agent: str) -> None:
        drafts = [
            draft("user", HARD, data={HARD: [2**70, -(2**70), 2**53 + 1, 0.1, {"b": None, "a": True}]}),
            call(HARD, HARD),
        ]
        ids = append(store, agent, *drafts)
        drafts.append(result(HARD, ids[1], interrupted=True, actor="system", dialect="gemini"))
        ids += append(store, agent, drafts[2])
        with store.read() as moment:
            for event, given_draft in zip(moment.events(ids), drafts, strict=True):
                same(event, given_draft)
                assert event.turn_id == ids[0]
            assert moment.event(ids[-1] + 10**6) is None
            assert moment.events([ids[2], 0, ids[0], ids[2], ids[-1] + 10**6]) == moment.events([ids[0], ids[2]])

    def test_data_that_is_not_json_is_refused(self, store: Store, agent: str) -> None:
        with store.write() as writing:
            with pytest.raises(ValueError, match="not JSON"):
                writing.append(agent, 0, [draft(data={"x": object()})])
            ids = writing.append(agent, 0, [draft()])
        with store.read() as moment:
            assert moment.head(agent).record.head == ids[0]
            assert moment.size((Segment(agent, 1, END),)) == Size(1, 2)

    def test_agents(self, store: Store) -> None:
        first, second = root(store, f"a {HARD}"), root(store)
        child = fork(store, first)
        grandchild = fork(store, child)
        with store.read() as moment:
            born = moment.head(first).record.head
            record = AgentRecord(
                child, None, first, born, NOW, head=moment.head(child).record.head, last=moment.head(child).record.head
            )
            assert moment.agent(child) == moment.head(child).record == record
            assert (record.newest, record.own) == (record.head, Size(0, 0))
            assert moment.named(f"a {HARD}") == AgentRecord(first, f"a {HARD}", None, 0, NOW, head=born, last=born)
            assert [each.id for each in moment.agents()] == [first, second, child, grandchild]
            assert [each.record for each in moment.overview()] == moment.agents()
            assert moment.children(first) == [record]
            assert moment.children(second) == []
            assert [moment.root_of(each) for each in (first, second, grandchild)] == [first, second, first]
            assert [each.id for each in moment.unstarted()] == [child, grandchild]
            assert moment.named(first) is moment.agent(f"a {HARD}") is None
            assert moment.head(grandchild).cache == (birth(grandchild, record.head), Size(0, 0))
            assert moment.outlines([grandchild, "nobody"]) == {grandchild: (birth(grandchild, record.head), ())}

    def test_an_agent_with_a_message_or_a_request_has_started(self, store: Store, agent: str) -> None:
        silent, speaking, answering = (fork(store, agent) for _ in range(3))
        append(store, speaking, draft())
        append(store, answering, request())
        with store.read() as moment:
            assert [each.id for each in moment.unstarted()] == [silent]
            assert moment.fates(agent) == {silent: "waits", speaking: "begun", answering: "begun"}

    def test_the_head_of_an_agent(self, store: Store, agent: str) -> None:
        kinds = ("system", "state", "scratchpad", "config", "command", "summary")
        older = append(store, agent, *(draft(kind, f"old {kind}") for kind in kinds))
        ids = append(store, agent, draft(), *(draft(kind, f"new {kind}", data={"x": HARD}) for kind in kinds[1:]))
        with store.read() as moment:
            head = moment.head(agent)
            assert head.record == moment.agent(agent) == moment.named(agent)
            assert (head.record.head, head.record.open_turn) == (ids[-1], ids[0])
            # There is no newer system message.
            newest = dict(zip(kinds[1:], ids[1:], strict=True)) | {"system": older[0]}
            assert {kind: event.id for kind, event in head.newest.items()} == newest
            assert all(event == moment.event(event.id) for event in head.newest.values())
            assert moment.newest_of(agent, END) == head.newest
            assert {kind: event.id for kind, event in moment.newest_of(agent, ids[0]).items()} == dict(
                zip(kinds, older, strict=True)
            )

    def test_a_head_names_what_exists_beside_the_agent(self, store: Store, agent: str, neighbour: str) -> None:
        """These are memos and mail of any agent, and its own forks."""

        def beside() -> list[set[str]]:
            with store.read() as moment:
                return [set(moment.head(each).beside) for each in (agent, neighbour)]

        assert beside() == [set(), set()]
        roll_back(store, lambda writing: writing.save_memo("lost", (), None, "human", NOW))
        assert beside() == [set(), set()]
        memo = save_memo(store, "kept")
        assert beside() == [{"memos"}, {"memos"}]
        fork(store, agent)
        assert beside() == [{"memos", "children"}, {"memos"}]
        with store.write() as writing:
            writing.append(neighbour, None, [mailed(agent, "mail", "human", NOW)])
            writing.remove_memo(memo)
            assert writing.head(neighbour).beside >= {"mail"}
        assert [each & {"mail", "children"} for each in beside()] == [{"children"}, {"mail"}]

    def test_stored_segments_are_read_as_they_were_stored(self, store: Store, agent: str) -> None:
        segments = (Segment(agent, 1, 2), Segment(str(agent), 5, END))
        fold = Fold(agent, segments, {HARD: 4, "A": 3}, (1, 2), 7, (3, 9), {4: 0, 2: 6})
        with store.write() as writing:
            writing.save_fold(birth(agent), Size(0, 0))
            writing.save_fold(fold, Size(-3, -40))
        with store.read() as moment:
            found, outline = moment.head(agent).cache, moment.outlines([agent])[agent]
        assert found == (fold, Size(-3, -40))
        assert outline == (fold, ())
        assert found is not None
        assert list(found[0].marks) == [HARD, "A"]
        assert isinstance(found[0].segments[0], Segment)

    def test_an_unknown_agent_is_damage(self, store: Store) -> None:
        with store.read() as moment:
            nowhere = (Segment("nobody", 1, 2),)
            for ask in (
                lambda: moment.head("nobody"),
                lambda: moment.size(nowhere),
                lambda: list(moment.messages(nowhere)),
            ):
                with pytest.raises(DamagedError, match="nobody"):
                    ask()
            assert moment.agent("nobody") is moment.named("nobody") is None

    def test_outlines_hold_the_events_of_planning_conversations(self, store: Store) -> None:
        one, two, three = root(store), root(store), root(store)
        (began,) = append(store, one, draft("command", "", data={"planning": {"mode": "forget"}}))
        append(
            store,
            two,
            draft("command", "", data={"other": 1}),
            draft("filter", "", data={"mode": "forget", "ranges": []}),
        )
        (ended,) = append(
            store, three, draft("filter", "", data={"mode": "forget", "ranges": [], "planning": [1, None]})
        )
        with store.read() as moment:
            outlines = moment.outlines([one, two, three])
            assert {agent: [event.id for event in each.planning] for agent, each in outlines.items()} == {
                one: [began],
                two: [],
                three: [ended],
            }
            assert outlines[three].planning == moment.operations(three)
