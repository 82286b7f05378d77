"""Kinds of operations are defined once, as classes in `foldmark.core.events`; the database names none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

import foldmark
from foldmark.core import events, selections
from foldmark.core.events import Draft
from foldmark.log.doctor import examine
from foldmark.stores import damage as checks
from foldmark.stores.queries import queries, schema
from stored import connection

NOW = "2026-03-01T12:00:00.000000Z"


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[foldmark.Log]:
    """The log of a Foldmark that knows one more kind of operation."""
    for module in (events, checks):
        monkeypatch.setattr(module, "OPERATION_KINDS", (*events.OPERATION_KINDS, "shelve"))
    with foldmark.open(":memory:", settings={}) as log:
        yield log


def test_a_new_kind_of_operation_needs_no_other_schema(log: foldmark.Log) -> None:
    agent = log.agent("work")
    with agent.batch():
        for number in range(30):
            agent.append("user", f"question {number}")
    agent.end_turn()
    marked = agent.do("/mark M").event_id
    drafts = [Draft(kind=kind, created_at=NOW, data={"turn": 1}) for kind in ("shelve", "record")]
    with log.store.write() as transaction:
        shelved, _ = transaction.append(agent.id, None, drafts)
    with log.store.read() as moment:
        assert [event.id for event in selections.operations(moment, agent.id)] == [marked, shelved]
        assert [event.kind for event in selections.operations(moment, agent.id, after=shelved - 1, until=shelved)] == [
            "shelve"
        ]
    listed = agent.call_tool("query_db", {"sql": "SELECT kind FROM operations ORDER BY id"})
    assert '"rows": [\n{"kind":"mark"},\n{"kind":"shelve"}\n]' in listed
    assert list(log.store.damage()) == []


def test_operations_are_read_by_one_index_lookup(log: foldmark.Log) -> None:
    wanted = queries("sqlite")["select operations"]
    plan = connection(log).execute(f"EXPLAIN QUERY PLAN {wanted}", {"segments": "[]", "page": 9}).fetchall()
    steps = [row[3] for row in plan if " events " in str(row[3])]
    assert steps == ["SEARCH events USING COVERING INDEX operations (agent=? AND id>? AND id<?)"]


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        ("UPDATE events SET replayed = 0 WHERE kind = 'drop'", "it is not marked as an operation"),
        ("UPDATE events SET replayed = 1 WHERE id = 1", "it is marked as an operation"),
    ],
)
def test_the_doctor_finds_events_wrongly_marked_as_operations(tmp_path: Path, damage: str, what: str) -> None:
    path = tmp_path / "log.db"
    with foldmark.open(path, settings={}) as log:
        agent = log.agent("work")
        agent.append("user", "question")
        agent.end_turn()
        agent.do("/context drop 1")
        assert list(examine(log)) == []
    db = apsw.Connection(str(path))
    db.execute(damage)
    db.close()
    with foldmark.open(path, settings={}) as log:
        assert [finding.text for finding in examine(log) if what in finding.text]


def test_each_kind_says_whether_it_can_be_restored_and_what_it_changes() -> None:
    """SPEC 3: which operations can be restored; 5.7: a mark is no boundary."""
    restorable = {each.__struct_config__.tag for each in events.Operation.__args__ if each.restorable}
    assert restorable == {
        *("clear", "mark", "rewind", "filter", "drop", "undo", "summary", "pin", "unpin", "evict", "restore")
    }
    assert set(events.BESIDE_KINDS) == {"mark", "fork"}
    assert set(events.OPERATION_KINDS) - {*events.BESIDE_KINDS, *events.CONTEXT_KINDS} == {"pin", "unpin", "evict"}


def test_the_format_describes_every_kind() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "development", "format.md").read_text("utf-8")
    table = page.split("\n## Operations\n")[1].split("\n\nAn operation's data")[0]
    described = {kind for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for kind in row.split("`")[1::2]}
    assert described == {*events.OPERATION_KINDS, "turn_ended"}


def test_the_format_describes_the_newest_schema() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "development", "format.md").read_text("utf-8")
    assert f"This page describes schema {schema('sqlite').number}." in page
