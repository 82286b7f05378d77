"""Events of the class metadata: anyone appends them at any time, and nobody else's append notices [SPEC 2]."""

from dataclasses import dataclass
from typing import Any

import pytest

from foldmark.core.agents import Change, deleted, killed
from foldmark.core.errors import CommandError, ConflictError
from foldmark.core.events import REQUEST_KINDS, Draft
from foldmark.core.ports import Store
from foldmark.core.segments import END, Segment
from foldmark.testing.parts.connections import changes
from foldmark.testing.suite import (
    HARD,
    NOW,
    Suite,
    append,
    call,
    draft,
    erase,
    fork,
    hashed,
    read,
    request,
    result,
    roll_back,
    save_memo,
    usage,
)


@dataclass(frozen=True)
class _Asked:
    """A request with a text of each kind of owner."""

    texts: dict[str, str]
    draft: Draft


def _asked(memo: int, question: str, **more: Any) -> _Asked:
    texts = hashed(HARD, "the memo", question)
    return _Asked(texts, request(dict(zip(("config", f"memo {memo}", "question"), texts, strict=True)), **more))


def _of_kind(kind: str) -> Draft:
    return usage(x=HARD) if kind == "usage" else request()


def _record(store: Store, agent: str, asked: _Asked) -> int:
    with store.write() as writing:
        writing.keep_texts(asked.texts)
        return writing.append(agent, None, [asked.draft])[0]


class MetadataTests(Suite):
    """Metadata moves no head and disturbs no append, and the texts of requests are erased with their last owner."""

    @pytest.mark.parametrize("kind", REQUEST_KINDS)
    def test_metadata_moves_no_head(self, store: Store, agent: str, other: Store, kind: str) -> None:
        (opened,) = append(store, agent, draft())
        (beside,) = append(other, agent, _of_kind(kind))
        assert beside > opened
        for each in (store, other):
            with each.read() as moment:
                record = moment.head(agent).record
                assert moment.agent(agent) == record
                assert (record.head, record.last, record.open_turn, record.newest) == (opened, beside, opened, opened)
                assert record.next_possible > beside
                assert (moment.event(beside).kind, moment.event(beside).turn_id) == (kind, opened)  # type: ignore[union-attr]
                assert [event.id for event in moment.messages((Segment(agent, 1, END),))] == [opened]
                assert [event.id for event in moment.events_after(agent, 0, 9)] == [opened, beside]
                assert [event.id for event in moment.recent(kind, agent, END, 2)] == [beside]
                assert list(moment.ids((Segment(agent, 1, END),))) == [opened]
                assert (moment.operations(agent), moment.newest_of(agent, beside)) == ([], {})
        (answer,) = append(store, agent, draft("assistant"), expected=opened)
        assert answer > beside
        with other.read() as moment:
            assert moment.head(agent).record.head == moment.head(agent).record.last == answer

    def test_nothing_is_expected_of_metadata(self, store: Store, agent: str) -> None:
        (first,) = append(store, agent, draft())
        append(store, agent, draft("assistant"))
        (late,) = append(store, agent, usage(), expected=first)
        assert read(store, [late])[0].kind == "usage"
        for drafts in ([draft()], [usage(), draft()], [draft(), usage()], []):
            with pytest.raises(ConflictError):
                append(store, agent, *drafts, expected=first)
        with pytest.raises(ConflictError):
            append(store, agent, draft(), expected=late)

    def test_a_decision_holds_whatever_metadata_comes_between(self, store: Store, agent: str, other: Store) -> None:
        """Also in the middle of a turn, between a call and its result, which stay one exchange."""
        with store.read() as moment:
            head = moment.head(agent).record.head
        for drafts in ([draft()], [call("c0"), call("c1")], [result("c0", 0)], [draft("assistant")]):
            for kind in REQUEST_KINDS:
                append(other, agent, _of_kind(kind))
            if drafts[0].kind == "tool_result":
                with store.read() as moment:
                    calls = moment.waiting(agent)
                drafts = [result(f"c{number}", each.id) for number, each in enumerate(calls)]
            head = append(store, agent, *drafts, expected=head)[-1]
        with store.read() as moment:
            assert moment.apart_results(agent, head) == moment.waiting(agent) == []
            assert moment.head(agent).record.own.messages == 6

    def test_a_keyed_append_returns_only_its_own_ids(self, store: Store, agent: str, other: Store) -> None:
        with store.write() as writing:
            ids = writing.append(agent, None, [draft(), usage()], key="k")
        append(other, agent, usage(), usage())
        with other.write() as writing:
            assert writing.append(agent, ids[0], [draft(), usage()], key="k") == ids
            (only,) = writing.append(agent, None, [usage()], key="of metadata")
        append(store, agent, usage())
        with store.write() as writing:
            assert writing.append(agent, None, [usage()], key="of metadata") == [only]

    def test_changes_tell_the_class(self, store: Store, agent: str) -> None:
        begin = changes(store).cursor
        ids = append(store, agent, draft(), request(), usage(), draft("assistant"))
        found = changes(store, begin).changes
        kinds = ("user", "request", "usage", "assistant")
        assert found == [Change(agent, id, kind) for id, kind in zip(ids, kinds, strict=True)]
        assert [each.about_request for each in found] == [False, True, True, False]

    def test_a_transaction_sees_its_own_metadata(self, store: Store, agent: str) -> None:
        append(store, agent, draft())
        with store.write() as writing:
            before = writing.head(agent).record
            given = writing.next_id(agent)
            (id,) = writing.append(agent, None, [usage()])
            after = writing.head(agent).record
            assert (after.head, after.last, id) == (before.head, id, given)
            assert writing.next_id(agent) > id
        roll_back(store, lambda writing: writing.append(agent, None, [usage(), usage()]))
        with store.read() as moment:
            assert moment.head(agent).record == after

    def test_an_ended_agent_takes_metadata_until_it_is_deleted(self, store: Store, agent: str, neighbour: str) -> None:
        append(store, agent, draft(), draft("turn_ended", ""))
        with store.write() as writing:
            writing.append(agent, None, [killed(neighbour, "human", NOW)])
            writing.append(agent, None, [usage(), request()])
        with store.write() as writing:
            erase(writing, agent, 0)
            writing.append(agent, None, [deleted("human", NOW)])
        with pytest.raises(CommandError, match="deleted"):
            append(store, agent, usage())

    def test_an_agent_that_asked_has_begun(self, store: Store, agent: str) -> None:
        waits, asked = fork(store, agent), fork(store, agent)
        append(store, asked, request())
        append(store, waits, usage())
        with store.read() as moment:
            assert [each.id for each in moment.unstarted()] == [waits]
            assert moment.fates(agent) == {waits: "waits", asked: "begun"}

    # Texts of requests

    def test_a_text_stays_while_something_owns_it(self, store: Store, agent: str, neighbour: str) -> None:
        memo = save_memo(store, "the memo")
        (turn,) = append(store, agent, draft())
        first, again = _asked(memo, "secret"), _asked(memo, "other secret", number=2)
        ids = [_record(store, agent, each) for each in (first, again)]
        (other_turn,) = append(store, neighbour, draft())
        _record(store, neighbour, _asked(memo, "secret"))
        texts = {**first.texts, **again.texts}
        with store.read() as moment:
            assert moment.kept_texts([*texts, "0" * 64]) == texts
        append(store, agent, draft("turn_ended", ""))
        with store.write() as writing:
            erase(writing, agent, turn)
        with store.read() as moment:  # the neighbour asked the same
            assert moment.kept_texts(texts) == hashed(HARD, "the memo", "secret")
            assert [event.data for event in moment.events(ids)] == [first.draft.data, again.draft.data]
        append(store, neighbour, draft("turn_ended", ""))
        with store.write() as writing:
            erase(writing, neighbour, other_turn)
            writing.remove_memo(memo)
        with store.read() as moment:
            assert moment.kept_texts(texts) == hashed(HARD)
        for each in (agent, neighbour):
            with store.write() as writing:
                erase(writing, each, 0)
                writing.append(each, None, [deleted("human", NOW)])
        with store.read() as moment:
            assert moment.kept_texts(texts) == {}
            assert moment.recent("request", agent, END, 9) == []
            assert [event.data for event in moment.events(ids)] == [None, None]

    def test_what_was_erased_in_the_source_of_a_copy_is_disowned(
        self, store: Store, agent: str, neighbour: str
    ) -> None:
        asked = _asked(7, "what?")
        for each in (agent, neighbour):
            _record(store, each, asked)
        gone = hashed("the memo", "what?")
        with store.write() as writing:
            writing.disown(agent, gone)
        with store.read() as moment:  # the neighbour has them still
            assert moment.kept_texts(asked.texts) == asked.texts
        with store.write() as writing:
            writing.disown(neighbour, gone)
        with store.read() as moment:
            assert moment.kept_texts(asked.texts) == hashed(HARD)
        for each in (agent, neighbour):  # the question belongs to no turn, so that its loss would be damage
            with store.write() as writing:
                erase(writing, each, 0)

    def test_a_failed_transaction_keeps_no_text(self, store: Store, agent: str) -> None:
        texts = hashed("lost")

        def act(writing: Any) -> None:
            writing.keep_texts(texts)
            writing.append(agent, None, [request(dict(zip(("config",), texts, strict=True)))])

        roll_back(store, act)
        with store.read() as moment:
            assert moment.kept_texts(texts) == {}
            assert moment.recent("request", agent, END, 9) == []

    @pytest.mark.parametrize(
        "data", [None, {}, {"hashes": 7}, {"hashes": {"memo x": "0", "memo": "1", "question": "2"}}]
    )
    def test_any_data_of_a_request_is_kept(self, store: Store, agent: str, data: dict[str, Any] | None) -> None:
        """A log may have been made by another version. Only the check for damage complains."""
        (id,) = append(store, agent, draft("request", "", data=data))
        assert (read(store, [id])[0].data or None) == (data or None)
        assert any(f"event {id}, is not readable" in line for line in store.damage())
        with store.write() as writing:
            writing.append(agent, None, [draft(), draft("turn_ended", "")])
            erase(writing, agent, 0)
