"""`/recall`: runs of turns with date, count and place; nothing is recorded (SPEC 4; S1, "Future: /recall")."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

import foldmark
from foldmark.cli.program import run
from foldmark.core.errors import CommandError

Say = Callable[..., list[int]]


def runs(agent: Any, query: str = "schema") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = agent.do(f"/recall {query}").data["runs"]
    return found


def test_recall_prints_as_in_seed_1(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    talk = ("Initial schema design?", "The schema has two tables.")
    first = say(agent, *[talk] * 6, day=15)
    say(agent, *["Lunch"] * 3, day=16)
    second = say(agent, *[("Refactoring, at last", "The schema is done.")] * 4, day=18)
    say(agent, *["Lunch"] * 3, day=19)
    third = say(agent, ("Column naming in this schema?", "Snake case."), "And so on", "schema it is", day=20)
    out = f"out · /restore {agent.apply_filter('forget', [*first, *third])}"
    result = agent.do("/recall what did we discuss about the schema?")
    assert result.event_id is None
    listed = sorted(line for line in result.text.splitlines() if line.startswith("- "))
    assert listed == [
        f"- March 15, 2026: Initial schema design? (12 messages), {out}, turns {first[0]}–{first[-2]}",
        f"- March 18, 2026: Refactoring, at last (8 messages), sent, turns {second[0]}–{second[-2]}",
        f"- March 20, 2026: Column naming in this schema? (4 messages), {out}, turns {third[0]}–{third[-1]}",
    ]
    assert result.text.splitlines()[0] == (
        "Found 18 messages in 3 runs of turns, the best first: what did we discuss about the schema?"
    )


def test_recall_returns_its_runs_as_data(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    ids = say(agent, ("the schema", "no answer"), "between", "one more schema")
    result = agent.do("/recall schema")
    (only,) = result.data["runs"]
    hits = only.pop("hits")
    assert result.data["query"] == "schema"
    assert only == {
        "rank": 1,
        "agent": agent.id,
        "name": "default",
        "first": ids[0],
        "last": ids[3],
        "turns": [ids[0], ids[3]],
        "messages": 4,
        "date": "2026-03-15",
        "title": "the schema",
        "where": "sent",
        "visible": True,
    }
    assert sorted(hit["event_id"] for hit in hits) == [ids[0], ids[3]]
    assert hits == msgspec.json.decode(msgspec.json.encode(log.search("schema", 100)))
    json.dumps(result.data)


@pytest.mark.parametrize(("between", "expected"), [(0, 1), (1, 1), (2, 1), (3, 2), (10, 2)])
def test_at_most_two_turns_lie_in_between(log: foldmark.Log, say: Say, between: int, expected: int) -> None:
    agent = log.agent("default")
    say(agent, "schema", *[("other", "words")] * between, "schema")
    assert len(runs(agent)) == expected


def test_turns_of_others_do_not_lie_in_between(log: foldmark.Log, say: Say) -> None:
    agent, other = log.agent("default"), log.agent("other")
    for _ in range(6):
        say(agent, "schema")
        say(other, "schema", "a", "b", "c")
    found = runs(agent)
    assert sorted(len(run["turns"]) for run in found) == [1, 1, 1, 1, 1, 1, 6]
    assert {run["where"] for run in found if len(run["turns"]) == 6} == {"sent"}
    assert {(run["where"], run["name"]) for run in found if len(run["turns"]) == 1} == {("elsewhere", "other")}


def test_a_run_has_the_hits_of_long_turns(log: foldmark.Log) -> None:
    agent = log.agent("default")
    agent.append("user", "a long turn")
    for n in range(20):
        agent.append("assistant", f"schema {n}")
    agent.end_turn()
    (only,) = runs(agent)
    assert (len(only["hits"]), only["messages"], len(only["turns"]), only["title"]) == (20, 21, 1, "a long turn")


def test_each_message_outside_turns_is_a_separate_run(log: foldmark.Log) -> None:
    agent = log.agent("default")
    ids = [agent.append("system", "the schema"), agent.append("system", "more schema")]
    found = sorted(runs(agent), key=lambda run: run["first"])
    assert [(run["first"], run["last"], run["messages"]) for run in found] == [(id, id, 1) for id in ids]


def test_erased_messages_do_not_count(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    first, between, second, _, third, _ = say(agent, *["schema", "Lunch"] * 3)
    agent.do(f"/message remove {between} --yes")
    (only,) = runs(agent)
    assert (only["first"], only["last"], only["messages"]) == (first, third, 4)
    agent.do(f"/message remove {second} --yes")
    with agent.batch():
        newest = agent.append("user", "one more schema")
        (only,) = runs(agent)
    assert (only["turns"], only["messages"]) == ([first, third, newest], 5)


def test_the_best_run_comes_first(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "schema " + "of much more " * 30, *["other"] * 4, "database schema", *["other"] * 4, "database")
    first, *others = runs(agent, "database schema")
    assert (first["title"], len(others)) == ("database schema", 2)
    assert first["hits"][0]["score"] > 1 > max(run["hits"][0]["score"] for run in others)


# The place of a run


def places(agent: Any) -> list[str]:
    return [line.partition("), ")[2] for line in agent.do("/recall schema").text.splitlines() if line.startswith("- ")]


def test_the_heading_of_a_run_says_how_much_of_it_is_in_the_context(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    a, b = say(agent, "schema", "schema")
    assert places(agent) == [f"sent, turns {a}–{b}"]
    drop = agent.do(f"/context drop {a}").event_id
    assert places(agent) == [f"1 of 2 sent, 1 out · /restore {drop}, turns {a}–{b}"]
    undo = agent.do("/undo").event_id
    assert places(agent) == [f"1 of 2 out · /restore {drop}, 1 out · /restore {undo}, turns {a}–{b}"]
    agent.do(f"/restore {drop}")
    assert places(agent) == [f"1 of 2 sent, 1 out · /restore {undo}, turns {a}–{b}"]
    agent.configure("context_size", 1)
    agent.do(f"/restore {undo}")
    assert places(agent) == [f"1 of 2 sent, 1 before the window, turns {a}–{b}"]


def test_a_fork_recalls_what_it_inherited(log: foldmark.Log, say: Say) -> None:
    parent = log.agent("default")
    (a,) = say(parent, "schema")
    child = log.agent(parent.do("/fork").data["child"])
    clear = parent.do("/clear").event_id
    assert places(child) == [f"sent, turn {a}"]
    assert places(parent) == [f"out · /restore {clear}, turn {a}"]
    own = child.do("/clear").event_id
    (b,) = say(child, "schema of the child")
    assert sorted(places(child)) == [f"out · /restore {own}, turn {a}", f"sent, turn {b}"]
    assert sorted(places(parent)) == [f"in {child.id[:8]}, turn {b}", f"out · /restore {clear}, turn {a}"]


def test_recall_finds_messages_of_other_conversations(log: foldmark.Log, say: Say) -> None:
    agent, other = log.agent("default"), log.agent("side project")
    (a,) = say(other, "schema")
    assert places(agent) == [f"in side project, turn {a}"]
    other.do("/clear")
    assert places(agent) == [f"in side project and out there, turn {a}"]


# Titles and texts


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("schema", "schema"),
        ("\n\n  ## The schema\nand more", "The schema"),
        ("---\n\n* the   schema", "the schema"),
        ("schema " + "word " * 50, "schema" + " word" * 10 + "…"),
        ("schema" + "x" * 100, "schema" + "x" * 53 + "…"),
        ("schema\x1b[31m\u202e", "schema\\x1b[31m\\u202e"),
        ("schema\u2028next line", "schema"),
    ],
)
def test_runs_have_titles(log: foldmark.Log, say: Say, said: str, title: str) -> None:
    agent = log.agent("default")
    say(agent, said)
    query = "schema*"
    assert [run["title"] for run in runs(agent, query)] == [title]
    lines = agent.do(f"/recall {query}").text.split("\n")
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def test_a_title_is_the_persons_text(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, ("What shall we do?", "A schema."), ("More of the schema", "Yes."))
    assert [run["title"] for run in runs(agent)] == ["More of the schema"]
    assert [run["title"] for run in runs(agent, "yes")] == ["More of the schema"]


def test_recall_without_a_match_and_without_a_query(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "schema")
    result = agent.do("/recall zebra\x1b[31m")
    assert result.text == "No messages match: zebra\\x1b[31m"
    assert result.data == {"query": "zebra\x1b[31m", "runs": [], "memos": [], "sessions": [], "missing": []}
    with pytest.raises(CommandError, match="QUERY is missing; usage: /recall QUERY"):
        agent.do("/recall")
    with pytest.raises(CommandError, match="there is no word to search for"):
        agent.do("/recall ?!")
    with pytest.raises(CommandError, match="/recall is not for a model"):
        agent.do("/recall schema", actor="model")


def test_recall_shows_up_to_the_limit(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    for _ in range(60):
        with agent.batch():
            say(agent, "schema", "x", "y", "z")
    for line, number in (("/recall schema", 20), ("/recall schema --limit 3", 3), ("/recall --limit 50 schema", 50)):
        result = agent.do(line)
        lines = result.text.splitlines()
        assert len([line for line in lines if line.startswith("- ")]) == len(result.data["runs"]) == number
        assert lines[-1] == (
            f"These are the {number} best; a higher limit finds more, a query with more words finds others."
        )
    assert "best;" not in agent.do("/recall schema --limit 100").text
    for wrong in ("0", "1001", "many"):
        with pytest.raises(CommandError, match="must be a number"):
            agent.do(f"/recall schema --limit {wrong}")


def test_recall_records_nothing(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "schema")
    before = (agent.context().at, agent.context().segments, agent.context().size)
    agent.do("/recall schema")
    assert (agent.context().at, agent.context().segments, agent.context().size) == before


def test_recall_works_from_the_command_line(
    path: str, log: foldmark.Log, say: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDMARK_DB", path)
    (id,) = say(log.agent("default"), "The schema\x1b[31m")
    assert run(["do", "default", "/recall", '"the', 'schema"']) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1] == f"- March 15, 2026: The schema\\x1b[31m (1 message), sent, turn {id}"
    assert "\x1b" not in shown
    assert run(["do", "default", "/recall schema", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["runs"][0]["first"] == id
    assert run(["do", "default", "/recall ?"]) == 2
    assert capsys.readouterr().err.startswith("foldmark: there is no word to search for; type some")
