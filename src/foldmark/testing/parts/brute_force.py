"""Every read method agrees with brute force over random histories [SPEC 3, L3]."""

from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foldmark.core.events import METADATA_KINDS
from foldmark.core.ports import NEWEST_KINDS, Store
from foldmark.core.search import SearchScope
from foldmark.core.segments import END, Segment, Segments
from foldmark.testing.histories import (
    STEPS,
    RecordedHistory,
    Step,
    bare,
    ids_of,
    places_in,
    segments_of,
    size_of,
)
from foldmark.testing.parts.searching import terms_of
from foldmark.testing.suite import INDEXED, Suite, append, call, draft, erase, examples, result


class BruteForce(Suite):
    """A store gives the same answers as brute force over its events, even after some are erased."""

    @examples
    @given(steps=st.lists(STEPS, max_size=30), data=st.data())
    def test_whole_contexts_equal_brute_force(
        self, store: Store, other: Store, steps: list[Step], data: st.DataObject
    ) -> None:
        history = RecordedHistory(store)
        history.play(store, steps, other)
        segments: Segments = data.draw(segments_of(history))
        shown = history.inside(segments)
        with store.read() as moment:
            for agent in history.agents:
                record = moment.head(agent).record
                mine, messages = history.of(agent), history.inside((Segment(agent, 1, END),))
                assert record.head == max([event.id for event in mine if event.kind not in METADATA_KINDS], default=0)
                assert record.last == max([event.id for event in mine], default=0)
                assert moment.events_after(agent, 0, 1000) == mine
                assert record.open_turn == history.open_turn(agent)
                assert record.own == size_of(messages)
                assert moment.events([event.id for event in mine]) == mine
                assert moment.operations(agent) == history.operations(agent)
            expected = data.draw(st.sampled_from([1, 2, 8, 1000]))
            assert list(moment.messages(segments)) == shown
            assert list(moment.messages(segments, newest_first=True)) == shown[::-1]
            assert list(moment.messages(segments, expected=expected)) == shown
            assert moment.size(segments) == size_of(shown)
            assert list(moment.ids(segments)) == [event.id for event in reversed(shown)]
            assert list(moment.ids(segments, expected=expected)) == [event.id for event in reversed(shown)]
            assert moment.bounds(segments) == tuple(
                Segment(agent, inside[0].id, inside[-1].id)
                for agent, first, last in segments
                if (inside := history.inside((Segment(agent, first, last),)))
            )
            assert moment.opened(segments) == sorted(event.id for event in shown if event.turn_id == event.id)
            assert moment.tombstones(segments) == history.tombstones(segments)
            assert moment.kept_texts(list(history.texts)) == history.kept
            for kind in INDEXED:
                inside = history.of_kind(kind, segments)
                assert moment.of_kind(kind, segments) == [event.id for event in inside]
                assert moment.newest(kind, segments) == (inside[-1] if inside else None)
            summaries = [event for event in history.of_kind("summary", segments) if (event.data or {}).get("state")]
            assert moment.newest("summary", segments) == (summaries[-1] if summaries else None)

    @examples
    @given(steps=st.lists(STEPS, min_size=5, max_size=30), data=st.data())
    def test_single_events_equal_brute_force(
        self, store: Store, other: Store, steps: list[Step], data: st.DataObject
    ) -> None:
        history = RecordedHistory(store)
        history.play(store, steps, other)
        ids, places = ids_of(history), places_in(history)
        agent, at, until = (
            data.draw(st.sampled_from(history.agents)),
            data.draw(places),
            data.draw(places | st.just(END)),
        )
        most = data.draw(st.integers(1, 3))
        mine, messages = history.messages_of(agent), [bare(event) for event in history.messages]
        log = {event.id: event for event in history.events}
        calls = [message for message in mine if message.kind == "tool_call"]
        with store.read() as moment:
            assert moment.message_before(agent, at) == next((m for m in reversed(mine) if m.id <= at), None)
            assert moment.message_after(agent, at) == next((m for m in mine if m.id > at), None)
            assert moment.operations(agent, after=at, until=until) == [
                event for event in history.operations(agent) if at < event.id <= until
            ]
            for kind in INDEXED:
                recent = history.of_kind(kind, (Segment(agent, 0, until),))[::-1]
                assert moment.recent(kind, agent, until, most) == recent[:most]
            newest = {kind: history.of_kind(kind, (Segment(agent, 0, until),))[-1:] for kind in NEWEST_KINDS}
            assert moment.newest_of(agent, until) == {kind: newest[0] for kind, newest in newest.items() if newest}
            turns = data.draw(st.lists(ids, max_size=4))
            assert moment.turns(turns) == {turn: [m for m in messages if m.turn_id == turn] for turn in turns}
            for place in moment.surroundings([message.id for message in mine], most):
                turn = place.hit.turn_id
                begins = place.hit.event_id if turn is None else turn
                behind = [m.id for m in mine if turn is not None and m.turn_id == m.id and m.id > turn]
                assert [id for id, _ in place.behind] == [*behind[:most], END]
                counted = [begins, *(id for id, _ in place.behind)]
                assert [sum(m.id < id for m in mine) for id in counted] == [place.before, *(n for _, n in place.behind)]
                said = [m.id for m in mine if turn is not None and m.turn_id == turn and m.kind != "client"]
                asked = log.get(place.hit.event_id if place.hit.kind == "user" else said[0] if said else begins)
                assert place.asked == (asked.content if asked is not None and asked.kind == "user" else "")
            answers = [m for m in messages if m.answers in {call.id for call in calls}]
            assert moment.results(calls) == answers
            erased = [bare(event) for event in history.events if event.answers in {call.id for call in calls}]
            assert moment.results(calls, erased=True) == sorted(erased)
            assert moment.apart_results(agent, at) == [
                m for m in mine if m.id in history.apart and m.answers is not None and m.answers <= at < m.id
            ]
            waiting = history.waiting(agent)
            assert moment.waiting(agent) == waiting
            for call_id in ("c0", "c1"):
                named = [call for call in calls if (log[call.id].data or {})["call_id"] == call_id]
                found = [call for call in moment.calls(agent, call_id) if call.id not in history.gone]
                assert found == named[::-1]
                if (turn := history.open_turn(agent)) is not None:
                    open_calls = [call for call in waiting if call in named]
                    assert moment.waiting_call(agent, turn, call_id) == (open_calls[-1] if open_calls else None)
            wanted = data.draw(st.lists(ids, max_size=5))
            assert moment.lookup(wanted) == [bare(log[id]) for id in wanted if id in log]
            chosen = moment.lookup(wanted)
            assert moment.next_to(chosen, most) == [
                [m for m in beside if m.id <= place.id][-most:] + [m for m in beside if m.id > place.id][:most]
                for place in chosen
                for beside in [history.messages_of(place.agent_id)]
            ]
            for id in history.gone:
                by = moment.erased_by(id)
                assert by == log[history.gone[id]]
            assert moment.erased_by(at) is None or at in history.gone

    @pytest.mark.parametrize("at_once", [False, True])
    def test_whether_a_result_stands_apart_from_its_call(self, store: Store, agent: str, at_once: bool) -> None:
        """The events are appended in one transaction, or each in a separate one."""

        def stands_apart(call: int) -> bool:
            (answer,) = append(store, agent, result("c", call))
            with store.read() as moment:
                return answer in [message.id for message in moment.apart_results(agent, call)]

        with store.write() if at_once else nullcontext():
            _, one, two, three = append(store, agent, draft(), *[call("c")] * 3)
            assert not stands_apart(two)
            append(store, agent, draft("state"))
            assert not stands_apart(one), "records do not count"
            (four,) = append(store, agent, call("c"))
            assert (stands_apart(three), stands_apart(four)) == (True, False), "a result ends the run of calls"
            five, _ = append(store, agent, call("c"), draft("assistant", "text"))
            assert stands_apart(five)
            (six,) = append(store, agent, call("c"))
            assert (stands_apart(five), stands_apart(six)) == (True, False)
            (seven,) = append(store, agent, call("c"))
            append(store, agent, draft("turn_ended", ""))
            assert stands_apart(seven)

    def test_an_event_erased_in_its_own_transaction_leaves_nothing(self, store: Store, agent: str) -> None:
        with store.write() as writing:
            opener, asked = writing.append(agent, 0, [draft(content="quartz"), call("c1")])
            erase(writing, agent, opener, asked)
            assert writing.head(agent).record.own == (0, 0)
            (again,) = writing.append(agent, None, [call("c2")])
            (late,) = writing.append(agent, None, [result("c1", asked)])
            assert writing.apart_results(agent, asked) == writing.lookup([late]), "a new run of calls has begun"
            assert [message.id for message in writing.waiting(agent)] == [again]
        with store.read() as moment:
            segments = (Segment(agent, 1, END),)
            assert [event.id for event in moment.messages(segments)] == [again, late]
            assert moment.size(segments) == moment.head(agent).record.own
            assert moment.index(SearchScope()).counted(terms_of("quartz")) == (2, [0])

    @pytest.mark.parametrize("appended", [False, True])
    def test_a_turn_is_erased_beside_appends(self, store: Store, agent: str, neighbour: str, appended: bool) -> None:
        """The transaction may have already appended to the agent."""
        first, end, second, _ = append(
            store, agent, draft(content="gone"), draft("turn_ended", ""), draft(content="kept"), call("c1")
        )
        with store.write() as writing:
            if appended:
                writing.append(agent, None, [draft("assistant", "kept")])
            erase(writing, agent, first, end, by=neighbour)
            record = writing.head(agent).record
            assert record.own == writing.size((Segment(agent, 1, END),))
            assert record.messages == 2 + appended
            writing.append(agent, None, [draft("assistant", "later")])
        with store.read() as moment:
            own = moment.head(agent).record.own
            assert (own.messages, own) == (3 + appended, moment.size((Segment(agent, 1, END),)))
            assert [event.content for event in moment.events([first, second])] == ["", "kept"]

    def test_a_transaction_reads_what_it_has_written(self, store: Store, agent: str) -> None:
        with store.write() as writing:
            opener, asked = writing.append(agent, 0, [draft(content="é" * 9), call("c1")])
            assert [message.id for message in writing.waiting(agent)] == [asked]
            (answer,) = writing.append(agent, asked, [result("c1", asked)])
            assert writing.waiting(agent) == writing.apart_results(agent, asked) == []
            (text,) = writing.append(agent, None, [draft("assistant", "text")])
            segments = (Segment(agent, 1, END),)
            events = list(writing.messages(segments))
            assert [event.id for event in events] == [opener, asked, answer, text]
            assert writing.size(segments) == writing.head(agent).record.own == size_of(events)
            assert list(writing.ids(segments)) == [text, answer, asked, opener]
            erase(writing, agent, opener, text)
            assert list(writing.messages(segments)) == []
            assert list(writing.ids(segments)) == []
            assert writing.size(segments) == writing.head(agent).record.own == (0, 0)
            (later,) = writing.append(agent, None, [draft(content="later")])
            assert [event.id for event in writing.messages(segments)] == [later]
            assert writing.size(segments) == writing.head(agent).record.own == (1, 2)

    def test_a_whole_agent_is_erased(self, store: Store, agent: str, neighbour: str) -> None:
        ids = append(store, agent, draft(content="secret"), draft("scratchpad", "secret"), call("secret"))
        append(store, neighbour, draft(content="kept"))
        forked = {"child": "nobody", "start": [], "scratchpad": "secret", "settings": {"system": "secret"}}
        ids += append(store, agent, draft("fork", "", data=forked), draft("turn_ended", ""))
        with store.write() as writing:
            by = erase(writing, agent, 0)
        with store.read() as moment:
            left = moment.events([*ids, by])
            assert [event.id for event in left] == [*ids, by]
            assert "secret" not in repr(left)
            assert moment.head(agent).record.own == (0, 0)
            assert {moment.erased_by(id).id for id in ids[:-1]} == {by}  # type: ignore[union-attr]
            assert moment.size((Segment(agent, 1, END),)) == (0, 0)
            assert moment.size((Segment(neighbour, 1, END),)) == (1, 1)
