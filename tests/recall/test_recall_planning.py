"""Planning conversations are never found: forgetting a topic does not make it harder to find (SPEC 4.2, 7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from foldmark.core import selections
from foldmark.core.search import Filters
from foldmark.core.segments import END
from foldmark.log.outlines import Spans, spans
from foldmark.log.search import search_everything
from planning_talk import Talk
from stored import stored

QUESTION = "what did we discuss about database schema?"


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    talk = Talk(tmp_path / "log.db")
    talk.exchange("Draft the database schema: notes and tags.", "Two tables and one that joins them.")
    talk.exchange("How do we deploy?", "By a pipeline.")
    return talk


def found(talk: Talk, query: str = QUESTION, **filters: Any) -> list[str]:
    """Return the texts that a search finds by their own words; `/recall` must find the same messages."""
    hits = search_everything(query, 50, Filters(**filters), log=talk.log, beside=False)
    recalled = talk.agent.do(f"/recall --limit 50 {query}").data["runs"]
    if not filters:
        assert {hit["event_id"] for run in recalled for hit in run["hits"]} == {hit.event_id for hit in hits}
        # Their neighbours may be found as well, but no planning message.
        beside = {hit.event_id for hit in talk.log.search(query, 50)} - {hit.event_id for hit in hits}
        with talk.log.store.read() as moment:
            judge = talk.log.outlines(moment)
            assert not any(judge.plans(talk.agent.id, id) for id in beside if id is not None)
    return [selections.event(stored(talk.log), hit.event_id).content for hit in hits]  # type: ignore[union-attr,arg-type]


def planned(talk: Talk) -> Spans:
    return spans(talk.agent.id, stored(talk.log).outlines([talk.agent.id])[talk.agent.id].planning)


def test_forgotten_messages_are_found_but_not_the_planning_conversation(talk: Talk) -> None:
    before = found(talk)
    talk.forget("database schema")
    assert found(talk) == before
    talk.applied()
    assert found(talk) == before
    assert found(talk, role="tool_call") == []
    assert found(talk, visible=False) == before
    talk.exchange("Back to the database schema.", "Yes?")
    assert "Back to the database schema." in found(talk)


def test_recall_knows_every_way_that_planning_ends(talk: Talk) -> None:
    agent = talk.agent
    before = found(talk)
    for end in ("/cancel", "/clear BEFORE", "/clear"):
        agent.do("/mark BEFORE")
        talk.forget("database schema")
        agent.do(end)
        assert found(talk) == before
    kept = talk.exchange("The schema of the database is done.", "Good.")
    assert len(found(talk)) > len(before)
    assert all(first <= last < kept[0] for first, last in planned(talk))
    assert len(planned(talk)) == 3


def test_an_open_planning_conversation_reaches_to_the_end(talk: Talk) -> None:
    talk.forget("database schema")
    (span,) = planned(talk)
    assert span == (talk.planning.first, END)  # type: ignore[union-attr]


def test_restoring_the_filter_changes_nothing_for_recall(talk: Talk) -> None:
    before = found(talk)
    talk.forget("database schema")
    done = talk.applied()
    talk.agent.do(f"/restore {done['filter_event_id']}")
    assert found(talk) == before


def test_filters_of_the_library_name_their_planning(talk: Talk) -> None:
    before = found(talk)
    said = talk.exchange("Please forget the database schema.", "Shall I?")
    talk.agent.apply_filter("forget", [1], planning=(said[0], said[-1]))
    assert found(talk) == before


def test_calls_of_the_tool_outside_of_planning_are_not_found_either(talk: Talk) -> None:
    before = found(talk)
    talk.says("Go on.")
    assert "error" in talk.tool(action="preview", mode="forget", criteria="database schema")
    talk.answers("Done.")
    assert found(talk) == before


def test_planning_does_not_crowd_out_other_messages(talk: Talk) -> None:
    said = talk.exchange("Which pipeline shall deploy the wiki?", "The pipeline that deploys the site.")
    for _ in range(12):
        talk.forget("pipeline deploy")
        talk.agent.do("/cancel")
    assert {hit.event_id for hit in talk.log.search("pipeline deploy", 2)} == {*said}


def test_planning_ends_a_run(talk: Talk) -> None:
    talk.exchange("The schema again.", "Yes.")
    (run,) = talk.agent.do("/recall schema").data["runs"]
    talk.forget("database schema")
    talk.agent.do("/cancel")
    talk.exchange("One more about the schema.", "Yes.")
    first, second = sorted(talk.agent.do("/recall schema").data["runs"], key=lambda each: each["first"])
    assert (first["turns"], first["messages"]) == (run["turns"], run["messages"])
    assert second["first"] == second["last"]
