"""Filters of `/recall`, memos among messages, and highlights in its text (SPEC 7)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest

import foldmark
from foldmark import rendering
from foldmark.cli.program import run
from foldmark.core.errors import CommandError

Say = Callable[..., list[int]]


def found(agent: Any, line: str) -> list[int]:
    return sorted(hit["event_id"] for each in agent.do(f"/recall {line}").data["runs"] for hit in each["hits"])


@pytest.fixture
def agent(log: foldmark.Log, say: Say) -> Any:
    """Two conversations with the word schema in each message; event ids are 1, 2, 4, 6, 7, 9."""
    agent, other = log.agent("default"), log.agent("side project")
    assert say(agent, ("schema one", "schema two"), day=10) == [1, 2]
    assert say(other, "schema three", day=12) == [4]
    agent.append("user", "schema four", created_at="2026-03-14T12:00:00")
    agent.append_tool_call("grep", {"pattern": "schema"}, call_id="c1", created_at="2026-03-14T12:00:00")
    agent.append_tool_result("c1", "schema.sql", created_at="2026-03-14T12:00:00")
    agent.end_turn()
    agent.do("/context drop 1")
    return agent


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [1, 2, 4, 6, 7, 8]),
        ("--role user", [1, 4, 6]),
        ("--role=assistant", [2]),
        ("--tool GREP", [7, 8]),
        ("--agent default", [1, 2, 6, 7, 8]),
        ('--agent "side project"', [4]),
        ("--project SIDE", [4]),
        ("--since 2026-03-12", [4, 6, 7, 8]),
        ("--before 2026-03-12T12:00", [1, 2]),
        ("--since 2026-03-12 --before 2026-03-13", [4]),
        ("--forgotten", [1, 2]),
        ("--visible", [4, 6, 7, 8]),
        ("--visible --role user --agent default", [6]),
    ],
)
def test_each_filter_of_recall_excludes_messages(agent: Any, options: str, expected: list[int]) -> None:
    assert found(agent, f"{options} schema") == found(agent, f"schema {options}") == expected


def test_the_filters_of_a_search_are_named(agent: Any) -> None:
    first = agent.do("/recall schema --role user --since 2026-03-12 --before 2026-03-13T08:00:00+01:00").text
    assert first.startswith(
        "Found 1 message in 1 run of turns, the best first: schema (role user, since 2026-03-12, "
        "before 2026-03-13T07:00:00)"
    )
    nothing = agent.do("/recall schema --tool nobody's --forgotten").text
    assert nothing == "No messages match: schema (tool nobody's, in no context)"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("schema --role me", "role must be one of user, assistant, thinking, tool_call, tool_result, client, not 'me'"),
        ("schema --since soon", "since must be a date such as 2026-01-31 or 2026-01-31T12:00, not 'soon'"),
        ("schema --before 2026-02-30", "before must be a date"),
        ("schema --since 0001-01-01T00:00+14:00", "since must be a date"),
        ("--visible schema --forgotten", "exclude each other"),
        ("schema --role", "--role needs a value"),
        ("--role user", "QUERY is missing"),
    ],
)
def test_wrong_filters_are_refused(agent: Any, line: str, told: str) -> None:
    with pytest.raises(CommandError) as caught:
        agent.do(f"/recall {line}")
    assert told in str(caught.value)


def test_a_query_that_holds_an_option_is_quoted(agent: Any, log: foldmark.Log, say: Say) -> None:
    (id,) = say(log.agent("default"), "call it with --role user, then")
    assert found(agent, '"--role user"') == [id]


@pytest.mark.parametrize("hostile", ["\ud800", "a\0b", "x\u2028y", "'; DROP TABLE events", "%", "9" * 5000])
def test_hostile_filter_values_are_refused(agent: Any, hostile: str) -> None:
    for option in ("agent", "project", "tool"):
        result = agent.do(f'/recall schema --{option} "{hostile}"')
        assert result.data["runs"] == []
        assert all(char.isprintable() for char in result.text)


def test_memos_are_ranked_together_with_messages(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    (id,) = say(agent, "the schema, and whatever else there is")
    agent.do("/memo add schema tables #arch-decision")
    result = agent.do("/recall schema tables")
    (memo,), (one,) = result.data["memos"], result.data["runs"]
    assert (memo["rank"], memo["id"], memo["name"], one["rank"], one["first"]) == (1, "1", "arch-decision", 2, id)
    lines = result.text.splitlines()
    assert lines[0] == "Found 1 message in 1 run of turns, 1 memo, the best first: schema tables"
    assert lines[1].endswith(": memo 1 [arch-decision]")
    assert lines[2].startswith("    schema tables")
    assert agent.do("/recall schema --role user").data["memos"] == []


# Highlights


def marked(result: foldmark.Result) -> list[str]:
    return [result.text[start:end] for start, end in result.marks]


def test_the_found_words_are_marked(log: foldmark.Log, say: Say) -> None:
    agent = log.agent("default")
    say(agent, "one schema\x1b[31m and\u202e two schemas", *["x"] * 4, "a third schema")
    assert marked(agent.do("/recall schema")) == ["schema", "schemas", "schema"] or marked(
        agent.do("/recall schema")
    ) == ["schema", "schema", "schemas"]
    assert agent.do("/recall zebra").marks == ()
    assert agent.do("/help").marks == ()


def test_found_words_are_bold_in_a_terminal_only(agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = agent.do("/recall schema --limit 1")
    assert "\x1b" not in rendering.result_text(result)
    monkeypatch.setattr(rendering, "is_bold", lambda: True)
    shown = rendering.result_text(result)
    assert "\x1b[1mschema\x1b[0m" in shown
    assert shown.replace("\x1b[1m", "").replace("\x1b[0m", "") == result.text


def test_bold_depends_on_the_terminal_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", StringIO())
    assert not rendering.is_bold()
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert rendering.is_bold()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not rendering.is_bold()


def test_json_has_no_marks_but_highlights(
    path: str, agent: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLDMARK_DB", path)
    assert run(["do", "default", "/recall schema --limit 1", "--json"]) == 0
    assert '"highlights"' in capsys.readouterr().out
