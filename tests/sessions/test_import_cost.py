"""The cost of an import in statements for each line; the rows equal those of single appends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from session_records import assistant, call, jsonl, result, user

import foldmark
from foldmark.core import selections
from foldmark.log.doctor import examine
from foldmark.sessions.conversion.importing import import_session
from sampled import DEEP
from stored import connection, stored

LINES_A_TURN = 9


def session(turns: int) -> bytes:
    """Return turns of a prompt, two answers with a call each, their results, progress and an answer."""
    records: list[dict[str, Any]] = []

    def add(record: dict[str, Any]) -> None:
        record["uuid"], record["parentUuid"] = f"u{len(records)}", records[-1]["uuid"] if records else None
        records.append(record)

    for turn in range(turns):
        add(user(f"Please read file {turn}"))
        for step in ("a", "b"):
            usage = {"input_tokens": turn, "output_tokens": 1}
            add(assistant([call(f"c{turn}{step}", path=f"/work/{turn}")], response=f"m{turn}{step}", usage=usage))
            add({"type": "progress", "data": {"turn": turn}})
            add(user([result(f"c{turn}{step}", f"def parseHttpResponse{turn}(): quartz")]))
        add(assistant([{"type": "text", "text": "Done."}], response=f"m{turn}c"))
        add({"type": "progress", "data": {"turn": turn}})
    return jsonl(*records)


def statements(tmp_path: Path, turns: int) -> Counter[str]:
    """Return how often an import runs each statement."""
    path = tmp_path / f"{turns}.jsonl"
    path.write_bytes(session(turns))
    run: Counter[str] = Counter()

    def note(_: Any, sql: str, __: Any) -> bool:
        run[sql] += 1
        return True

    with foldmark.open(":memory:") as log:
        db = connection(log)
        db.exec_trace = note
        assert import_session(log, path).lines == turns * LINES_A_TURN
        db.exec_trace = None
    return run


def test_a_line_takes_few_statements(tmp_path: Path) -> None:
    few, many = statements(tmp_path, 10), statements(tmp_path, 90)
    assert (many.total() - few.total()) / (80 * LINES_A_TURN) < 4


def test_words_are_indexed_many_messages_at_once(tmp_path: Path) -> None:
    run = statements(tmp_path, 40)
    assert sum(times for sql, times in run.items() if "INTO search" in sql) == 1
    assert sum(times for sql, times in run.items() if sql.startswith("WITH made")) == 1  # index_parts


@pytest.mark.parametrize("turns", [3, 200 if DEEP else 40])
def test_an_import_equals_appends_one_by_one(tmp_path: Path, turns: int) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(session(turns))
    columns = "id, turn, kind, tokens, created_at, interrupted, call_id, answers, apart, nth, sum, content, data"
    tables = (f"SELECT {columns} FROM events", "SELECT * FROM parts")
    rows = []
    with foldmark.open(":memory:") as log:
        agent = log.agent(import_session(log, path).name)
        events = [
            event for number in range(1, agent.standing().newest) if (event := selections.event(stored(log), number))
        ]
        assert list(examine(log)) == []
        assert len(log.search("quartz", limit=1000)) == len(log.search("Http", limit=1000)) > 0
        rows.append([connection(log).execute(f"{sql} ORDER BY 1").fetchall() for sql in tables])
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        for event in events:
            at, call_id, data = event.created_at, event.call_id or "", event.data or {}
            match event.kind:
                case "tool_call":
                    name, rest = data["name"], {k: v for k, v in data.items() if k == "response"}
                    args = {"path": event.content.split('"')[3]}
                    agent.append_tool_call(name, args, call_id=call_id, dialect=event.dialect, data=rest, created_at=at)
                case "tool_result":
                    agent.append_tool_result(call_id, event.content, dialect=event.dialect, created_at=at)
                case "turn_ended":
                    agent.end_turn(interrupted=event.interrupted, created_at=at)
                case "user" | "assistant":
                    agent.append(event.kind, event.content, data=event.data, dialect=event.dialect, created_at=at)
                case _:
                    agent.record(event.kind, event.content, data=event.data, created_at=at)
        rows.append([connection(log).execute(f"{sql} ORDER BY 1").fetchall() for sql in tables])
    imported, single = rows
    assert imported[0][:-1] == single[0]  # the last row is the import's note about itself
    assert imported[1:] == single[1:]


def test_a_search_and_an_erasure_inside_a_batch_see_its_messages() -> None:
    with foldmark.open(":memory:") as log:
        agent = log.agent("default")
        with agent.batch():
            gone = agent.append("user", "quartz and fjord")
            agent.end_turn()
            agent.redact(gone)
            kept = agent.append("user", "quartz parseHttpResponse")
            assert [hit.event_id for hit in log.search("quartz")] == [kept]
            more = agent.append("assistant", "quartz")
            assert sorted(hit.event_id for hit in log.search("quartz")) == [kept, more]
            agent.end_turn()
        assert sorted(hit.event_id for hit in log.search("quartz")) == [kept, more]
        assert [hit.event_id for hit in log.search("Http")] == [kept]
        assert log.search("fjord") == []
        assert list(examine(log)) == []
