"""Conversations are brought into a database that has its own: with other ids, the same in all else (SPEC 2, 9)."""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import to_builtins

import foldmark
from foldmark.copying import AddedConversation, copy
from foldmark.core.records import IMPORTED_LINE
from foldmark.editing import answering
from foldmark.editing.offers import look
from foldmark.log.doctor import examine
from foldmark.operations.effects import NOBODY
from foldmark.request.layers import Covered, visible_hash
from foldmark.sending.rebuilding import rebuilt
from foldmark.sessions.conversion.importing import import_session

sys.path += [str(Path(__file__).parents[1] / "stores"), str(Path(__file__).parent)]

from renumbered import FAR, begin_far, compare, new_id

from every_kind import fill, shown
from planning_talk import IN_CHAT
from stored import connection


@pytest.fixture
def here(tmp_path: Path) -> Iterator[foldmark.Log]:
    """A database with conversations of its own."""
    with foldmark.open(tmp_path / "here.db", settings={}) as log:
        own = log.agent("own")
        for text in ("mine", "also mine"):
            own.append("user", text)
            own.end_turn()
        own.do("/memo add a memo of my own")
        yield log


@pytest.fixture
def there(tmp_path: Path) -> Iterator[foldmark.Log]:
    """A database with every kind of message and operation."""
    with foldmark.open(tmp_path / "there.db", settings={}) as log:
        fill(log)
        yield log


def agents_of(log: foldmark.Log, added: AddedConversation) -> dict[str, str]:
    """Return the agents of a conversation that kept their uuids."""
    found = {added.agent: added.agent}
    for agent in log.agents():
        if agent.standing().record.parent in found:
            found[agent.id] = agent.id
    return found


def brought(there: foldmark.Log, here: foldmark.Log, name: str = "work") -> AddedConversation:
    """Bring a conversation, and check that it is the same, and that nothing else has changed."""
    mine = shown(here.agent("own"))
    (added,) = copy(there.store, here.store, [name]).added
    compare(there, here, added, agents_of(there, added))
    assert shown(here.agent("own")) == mine
    assert list(examine(here)) == []
    return added


def test_a_conversation_comes_with_other_ids(there: foldmark.Log, here: foldmark.Log) -> None:
    added = brought(there, here)
    assert added.ids[0][2] > max(event.id for event in here.agent("own").events(0, 100))
    requests = [log.agent("work").request("openai", "gpt-5").body for log in (there, here)]
    ids = [re.sub(r"(id=|/restore )\d+", r"\1N", json.dumps(each)) for each in requests]
    assert ids[0] == ids[1]
    for query in ("parser", "日本語", "café"):
        assert {new_id(added)(hit.event_id) for hit in there.search(query, 200) if hit.agent_id == added.agent} == {
            hit.event_id for hit in here.search(query, 200) if hit.agent_id == added.agent
        }


def test_only_what_is_new_comes_the_next_time(there: foldmark.Log, here: foldmark.Log) -> None:
    first = brought(there, here)
    again = copy(there.store, here.store, ["work"])
    assert (again.events, again.mail, again.requests, again.erased) == (0, 0, 0, 0)
    here.agent("own").append("user", "between")
    work = there.agent("work")
    work.append_tool_result("waits", "text", dialect="anthropic")
    work.end_turn()
    work.do("/mark LATER")
    work.do("/undo")
    child = there.agent(work.do("/fork").data["child"])
    child.append("user", "to the new child")
    work.do(f"/send {child.id} hello")
    second = brought(there, here)
    assert second.events == 7
    assert len(second.ids) > len(first.ids)


def test_what_grew_here_goes_back(there: foldmark.Log, here: foldmark.Log) -> None:
    brought(there, here)
    here.agent("own").append("user", "between")
    work = here.agent("work")
    work.append_tool_result("waits", "text", dialect="anthropic")
    work.end_turn()
    work.do("/clear")
    work.append("user", "here only")
    work.end_turn()
    (ahead,) = copy(there.store, here.store, ["work"]).added
    assert (ahead.ahead, ahead.events) == (True, 0)
    (back,) = copy(here.store, there.store, ["work"]).added
    assert (back.ahead, back.events) == (False, 5)
    compare(here, there, back, agents_of(here, back))
    assert list(examine(there)) == []


def test_a_conversation_that_grew_in_both_is_refused_or_comes_a_second_time(
    there: foldmark.Log, here: foldmark.Log
) -> None:
    brought(there, here)
    for log in (there, here):
        log.agent("work").append("user", f"only in {log.store.address}")
    before = shown(here.agent("work"))
    with pytest.raises(foldmark.CommandError, match=r"'work' has grown in .*--as NAME"):
        copy(there.store, here.store, ["work"])
    assert shown(here.agent("work")) == before
    for events in (True, False):
        (added,) = copy(there.store, here.store, ["work"], called="work of there").added
        assert (added.name, added.events > 0) == ("work of there", events)
        second = here.agent("work of there")
        assert second.id == added.agent != there.agent("work").id
        assert [each.content for each in second.context().messages] == [
            each.content for each in there.agent("work").context().messages
        ]
        assert len(agents_of(here, added)) == 3
    assert shown(here.agent("work")) == before
    assert list(examine(here)) == []


def test_a_taken_name_is_refused(there: foldmark.Log, here: foldmark.Log) -> None:
    here.agent("work").append("user", "another one")
    with pytest.raises(foldmark.CommandError, match="another conversation named 'work'; nothing was copied"):
        copy(there.store, here.store, ["work"])
    with pytest.raises(foldmark.CommandError, match=r"has conversations that .* does not have"):
        copy(there.store, here.store)
    with pytest.raises(foldmark.CommandError, match="name it with --conversation"):
        copy(there.store, here.store, called="x")
    (added,) = copy(there.store, here.store, ["work"], called="second").added
    assert here.agent("second").id == added.agent


def test_an_erased_turn_is_erased_here_as_well(there: foldmark.Log, here: foldmark.Log) -> None:
    brought(there, here)
    work = there.agent("work")
    turn = next(each.turn_id for each in work.context().messages if each.turn_id)
    work.redact(turn)
    report = copy(there.store, here.store, ["work"])
    assert report.erased > 0
    brought(there, here)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *(("plan.later", value) for value in ('{"x": 5}', '{"1e3": {}}', "[[1]]", f'{{"{"9" * 5000}": {{}}}}')),
        *(("plan.told", value) for value in ('{"5": {"killed": 5}}', '{"5": {"children": [{"agent": 5}]}}')),
        *(("only", value) for value in ('{"ranges": 5}', '{"ranges": [1]}', '{"ranges": [["x", 1, "y"]]}')),
    ],
)
def test_a_record_of_another_form_stops_no_copy(tmp_path: Path, here: foldmark.Log, path: str, value: str) -> None:
    with foldmark.open(tmp_path / "there.db", settings={}) as there:
        agent = there.agent("work")
        agent.append("user", "one")
        agent.record_sent(agent.request("offline"))
        connection(there).execute(
            f"UPDATE events SET data = json_set(data, '$.{path}', json(?)), checksum = NULL WHERE kind = 'request'",
            (value,),
        )
        (added,) = copy(there.store, here.store, ["work"]).added
    assert here.agent("work").id == added.agent
    assert here.agent("work").next_request("offline").tokens > 0


def test_no_reference_keeps_its_old_id(tmp_path: Path, here: foldmark.Log) -> None:
    """All numbers in the data of events and requests are compared, so that a new kind of reference cannot be missed."""
    with foldmark.open(tmp_path / "far.db", settings={}) as far:
        begin_far(far)
        fill(far)
        everything_else(far, tmp_path)
        names = [agent.name for agent in far.agents() if agent.name not in (None, "before")]
        report = copy(far.store, here.store, names)
        assert len(report.added) == len(names) > 4
        for added in report.added:
            compare(far, here, added, agents_of(far, added))
        with here.store.read() as moment:
            events = list(moment.copied_events({agent.id: 0 for agent in here.agents()}))
        kinds = {(each.kind, key) for each in events for key in json.loads(each.data or "{}")}
        assert kinds >= PLACES, PLACES - kinds
        for each in events:
            assert not re.search(r"\b7\d{9}\b", each.data or ""), (each, each.data)
            if '"import"' in (each.data or ""):
                lines = list(IMPORTED_LINE.iter_unpack(b64decode(each.content)))
                assert any(first for _, first, *_ in lines)
                assert all(first < FAR for _, first, *_ in lines)
        assert list(examine(here)) == []


PLACES = {
    ("rewind", "position"),
    ("rewind", "inherited"),
    ("fork", "start"),
    ("filter", "planning"),
    ("drop", "ranges"),
    ("undo", "turn"),
    ("summary", "ranges"),
    ("restore", "target"),
    ("evict", "results"),
    ("pin", "turn"),
    ("redact", "turn"),
    ("turn_ended", "closes"),
    ("command", "planning"),
    ("command", "preview"),
    ("command", "suggested"),
    ("command", "import"),
    ("window_summary", "until"),
    ("user", "mail"),
    ("tool_result", "openai_agents"),
}
"""Kinds of events and members of their data that refer to other events."""


def everything_else(log: foldmark.Log, tmp_path: Path) -> None:
    """Record what `fill` does not: an import, offers, a summary of the window, requests that were sent. Sessions of a
    gateway are copied in tests/live/test_live_copies.py."""
    import_session(log, Path(foldmark.__file__).parent / "samples" / "notes-cli.jsonl", "imported")
    talk = log.agent("talk")
    for number in range(6):
        talk.append("user", f"About ticket {number}, " + "please look. " * 20)
        for each in range(2):
            call = f"c{number}{each}"
            talk.append_tool_call("Read", {"file_path": "a.py"}, call_id=call, dialect="anthropic")
            beside = {"openai_agents": {"with": talk.standing().newest}}
            talk.append_tool_result(call, "the same lines\n" * 50, dialect="anthropic", data=beside)
        talk.append("assistant", "It is done.")
        talk.end_turn()
        request = talk.request("anthropic", "claude-sonnet-4-5")
        talk.record_sent(request)
    talk.do("/suggest")
    with talk.reading() as (moment, at):
        first, *_, last = [each.id for each in moment.select(at.visible)][:9]
        covered = Covered(first, last, (first, last), visible_hash(moment, at.visible, last))
    talk.record("window_summary", "Five tickets.", data=to_builtins(covered), actor="model")
    talk.do("/mark BEFORE")
    talk.append("user", "to the child")
    child = log.agent(talk.do("/fork BEFORE").data["child"])
    child.append("user", "an inherited question")
    child.end_turn()
    child.do(f"/rewind {child.context().messages[0].turn_id}")
    talk.end_turn()
    talk.do("/forget ticket 3", asking=IN_CHAT)
    look(talk, None, NOBODY, actor="human", local=True)
    planning = log.agent("planning")
    planning.append("user", "about the parser")
    planning.end_turn()
    planning.do("/forget parser", asking=IN_CHAT)
    look(planning, None, NOBODY, actor="human", local=True)
    answering.answered(planning, "yes")
    sent = log.agent("sent to")
    talk.do(f"/send {sent.id} hello")
    sent.do("/check-mail")


@pytest.mark.parametrize("has_own", [True, False])
def test_a_memo_removed_after_the_copy_leaves_the_copy_too(tmp_path: Path, has_own: bool) -> None:
    """Memos are not copied with a conversation; their texts are, in its requests. Another memo has the same number."""
    log = foldmark.open(tmp_path / "source.db", settings={})
    agent = log.agent("talk")
    agent.do("/memo add the SECRETMEMO of the apple plan")
    agent.append("user", "apple plan please")
    assert "SECRETMEMO" in str(agent.request().body)
    agent.record_sent(agent.request())
    agent.append("assistant", "ok")
    agent.end_turn()
    path = tmp_path / "target.db"
    with foldmark.open(path, settings={}) as target:
        if has_own:
            target.agent("own").append("user", "mine")
            target.agent("own").do("/memo add nothing of the kind")
        copy(log.store, target.store, ["talk"])
        assert rebuilt(target.agent("talk"), 1).verdict == "identical"
        if has_own:
            target.agent("own").do("/memo remove 1 --yes")
            assert rebuilt(target.agent("talk"), 1).verdict == "identical"
        agent.do("/memo remove 1 --yes")
        for _ in range(2):
            copy(log.store, target.store, ["talk"])
            assert rebuilt(target.agent("talk"), 1).verdict == "erased"
            assert list(examine(target)) == []
        assert target.store.forget_erased()
    assert b"SECRETMEMO" not in path.read_bytes()
    log.close()
