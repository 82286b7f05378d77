"""`/message list | show | remove` and `/note` (SPEC 4): turns as they are in the log, visible or not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

import foldmark
from foldmark import Agent, CommandError, Log
from foldmark.core import selections
from foldmark.operations.effects import Asking
from stored import stored


@pytest.fixture
def log() -> Iterator[Log]:
    with foldmark.open(":memory:") as log:
        log.clock = lambda: "2026-03-04T05:06:07.000000Z"
        yield log


@pytest.fixture
def agent(log: Log) -> Agent:
    return log.agent("root")


def said(agent: Agent, *texts: str) -> list[int]:
    """Append one turn for each text and return the ids of the turns."""
    turns = []
    for text in texts:
        turns.append(agent.append("user", text))
        agent.append("assistant", f"about {text}")
        agent.end_turn()
    return turns


# Listing


def test_an_empty_log(agent: Agent) -> None:
    assert agent.do("/message list").text == "No turn yet."
    assert agent.do("/message list").data == {"turns": []}


def test_turns_with_their_size_and_the_snapshot(agent: Agent) -> None:
    one, two, three = said(agent, "one", "two", "three " * 30)
    drop = agent.do(f"/context drop {two}").event_id
    agent.do(f"/pin {three}")
    result = agent.do("/message list")
    title = "three " * 8 + "three…"
    rows = result.data["turns"]
    first, second, third = (row["request_tokens"] for row in rows)
    assert 4 < first < second + 5 < 50 < 96 < third < 150
    assert result.text.splitlines() == [
        f"Turn {one:>6} · 2026-03-04 05:06 · 2 messages, ~{first} tokens · sent · ~{first} tokens · one",
        f"Turn {two:>6} · 2026-03-04 05:06 · 2 messages, ~{second} tokens · out · /restore {drop} · two",
        (
            f"Turn {three:>6} · 2026-03-04 05:06 · 2 messages, ~{third} tokens · sent · ~{first + third} tokens · "
            f"pinned · {title}"
        ),
    ]
    assert [row["id"] for row in rows] == [one, two, three]
    assert [row["in_context"] for row in rows] == [2, 0, 2]
    assert [row["tokens"] for row in rows] == [4, 4, 92]
    assert [row["snapshot"] for row in rows] == [first, None, first + third]
    assert [row["pinned"] for row in rows] == [False, False, True]
    assert result.event_id is None


def test_a_turn_that_is_partly_there(agent: Agent) -> None:
    one, _ = said(agent, "one", "two")
    drop = agent.apply_filter("forget", [one])
    assert f"· 1 of 2 sent, 1 out · /restore {drop} · ~" in agent.do("/message list").text


@pytest.mark.parametrize(("number", "first"), [("1", 12), ("3", 10), ("12", 1), ("999", 1), ("9" * 40, 1), (None, 3)])
def test_the_newest_so_many(agent: Agent, number: str | None, first: int) -> None:
    said(agent, *(f"text {number}" for number in range(1, 13)))
    lines = agent.do("/message list" if number is None else f"/messages list {number}").text.splitlines()
    assert lines[0].endswith(f"text {first}")
    assert lines[-1].endswith("text 12")
    assert len(lines) == 13 - first


def test_a_child_lists_its_inherited_turns_and_its_own(log: Log, agent: Agent) -> None:
    said(agent, "one")
    agent.do("/mark M")
    (two,) = said(agent, "two")
    child = log.agent(agent.do("/fork M").data["child"])
    said(agent, "three")
    (four,) = said(child, "four")
    assert [row["id"] for row in child.do("/message list").data["turns"]] == [two, four]


def test_erased_turns_are_listed_as_erased(log: Log, agent: Agent) -> None:
    one, two, three = said(agent, "one", "two", "three")
    child = log.agent(agent.do("/fork").data["child"])
    redact = agent.do(f"/message remove {two} --yes -- a secret").event_id
    erased = f"Turn {two:>6} · 2026-03-04 05:06 · erased by a human at 2026-03-04 05:06 · a secret"
    for each in (agent, child):
        lines = each.do("/message list").text.splitlines()
        assert lines[1] == erased
        rows = each.do("/message list").data["turns"]
        assert [row["id"] for row in rows] == [one, two, three]
        assert [row["erased"] for row in rows] == [None, redact, None]
        assert [row["id"] for row in each.do("/message list 1").data["turns"]] == [three]
        assert [row["id"] for row in each.do("/message list 2").data["turns"]] == [two, three]
    agent.do(f"/message remove {three} --yes")
    agent.do(f"/message remove {one} --yes")
    assert [row["messages"] for row in agent.do("/message list").data["turns"]] == [0, 0, 0]


def test_turns_before_the_window(agent: Agent) -> None:
    one, _, _ = said(agent, "one", "two", "three")
    assert [row["sent"] for row in agent.do("/message list").data["turns"]] == [2, 2, 2]
    agent.do("/context window 1")
    agent.do(f"/pin {one}")
    first, second, third = agent.do("/message list").text.splitlines()
    assert re.search(r" · sent · ~\d+ tokens · pinned · one", first)
    assert re.search(r" · before the window · ~\d+ tokens · two", second)
    assert " · sent · ~" in third
    assert [row["sent"] for row in agent.do("/message list").data["turns"]] == [2, 0, 2]
    undo = agent.do("/undo").event_id
    assert f"· out · /restore {undo} ·" in agent.do("/message list").text.splitlines()[2]


def test_listing_reads_neither_history_nor_other_conversations(log: Log, agent: Agent) -> None:
    """Tombstones are found by their index; without it the events of all conversations would be read."""
    said(agent, "one")
    store: Any = log.store
    sql = f"EXPLAIN QUERY PLAN {store.connector.sql['select erased']}"
    plan = store.connector.db.execute(sql, {"segments": "[]", "page": 1}).fetchall()
    assert any("INDEX tombstones" in step[3] for step in plan)


# Showing


def test_a_turn_whole(agent: Agent) -> None:
    text = "line\n" * 50 + "end"
    (one,) = said(agent, text)
    drop = agent.do(f"/context drop {one}").event_id
    result = agent.do(f"/message show {one}")
    assert result.text.splitlines()[0] == f"Turn {one}: 2 messages, out · /restore {drop}"
    assert result.text.count("line") == 100
    assert [message["content"] for message in result.data["messages"]] == [text, f"about {text}"]
    assert result.data["in_context"] == 0
    agent.do("/restore 4")
    assert agent.do(f"/message show {one}").data["in_context"] == 2


def test_calls_and_their_results(agent: Agent) -> None:
    one = agent.append("user", "look")
    agent.append_tool_call("read_file", {"path": "x"}, call_id="c")
    agent.append_tool_result("c", "y" * 900)
    agent.append("assistant", "hm", interrupted=True)
    result = agent.do(f"/message show {one}")
    lines, shown = result.text.splitlines(), result.data["messages"]
    (first,), (second,) = ({row["snapshot"] for row in rows} for rows in (shown[:2], shown[2:]))
    assert 0 < first < second
    assert lines == [
        f"Turn {one}: 4 messages, sent",
        f"       1 user · ~{first} tokens: look",
        f'       2 tool_call · ~{first} tokens: read_file({{"path":"x"}})',
        f"       3 tool_result · ~{second} tokens: {'y' * 900}",
        f"       4 assistant (interrupted) · ~{second} tokens: hm",
    ]


# Erasing


def asked(agent: Agent, line: str, answer: bool = False) -> str:
    """Return the question that a command asks; it is answered with `answer`."""
    questions = []

    def confirm(question: str) -> bool:
        questions.append(question)
        return answer

    if answer:
        agent.do(line, asking=Asking(confirm))
    else:
        with pytest.raises(CommandError, match=r"^not confirmed; nothing was changed$"):
            agent.do(line, asking=Asking(confirm))
    (question,) = questions
    return question


def test_it_asks_first(agent: Agent) -> None:
    one, _ = said(agent, "one " * 40, "two")
    newest = agent.standing().newest
    title = ("one " * 14).rstrip()
    expected = f"Erase turn {one} for good (2 messages, ~82 tokens: {title}…)? This cannot be taken back."
    assert asked(agent, f"/message remove {one}") == expected
    assert agent.standing().newest == newest
    assert agent.context().size.messages == 4
    asked(agent, f"/message remove {one}", answer=True)
    assert agent.context().size.messages == 2


def test_nobody_is_there_to_ask(agent: Agent) -> None:
    (one,) = said(agent, "one")
    question = f"Erase turn {one} for good (2 messages, ~4 tokens: one)? This cannot be taken back."
    with pytest.raises(
        CommandError, match=f"^{re.escape(question)} Nothing was changed; repeat with --yes to do it\\.$"
    ):
        agent.do(f"/message remove {one}")
    assert agent.context().size.messages == 2


@pytest.mark.parametrize("line", ["/message remove {} --yes", "/message remove --yes {}", "/messages remove {} --yes"])
def test_yes_beforehand(agent: Agent, line: str) -> None:
    (one,) = said(agent, "one")

    def never(question: str) -> bool:
        raise AssertionError(question)

    result = agent.do(line.format(one), asking=Asking(never))
    assert result.text == f"Turn {one} erased. Scratchpads, memos, mail and summaries were not searched."
    assert agent.context().size.messages == 0
    assert (result.data["turn"], result.data["traces"], result.data["agents"]) == (one, False, [agent.id])
    assert result.data["erased"] == {"messages": 2, "tokens": 4}


def test_the_question_names_every_agent_that_sees_it(log: Log, agent: Agent) -> None:
    """This includes agents that forgot the turn, for they lose it too, but not agents that never had it."""
    numbers = iter(f"{n}0000000-0000-4000-8000-000000000000" for n in range(1, 9))
    log.new_id = lambda: next(numbers)
    (one,) = said(agent, "one")
    agent.do("/mark M")
    sees, forgot, without = (log.agent(agent.do(line).data["child"]) for line in ("/fork", "/fork", "/fork M"))
    forgot.do(f"/context drop {one}")
    without.do("/note on its own")
    grandchild = log.agent(forgot.do("/fork").data["child"])
    below = log.agent(sees.do("/fork").data["child"])
    said(log.agent("another"), "one")
    tail = "This cannot be taken back."
    assert asked(agent, f"/message remove {one}").endswith(
        f"? Agents that inherited it lose it as well: {sees.id[:8]}, {forgot.id[:8]}, {below.id[:8]}. {tail}"
    )
    assert asked(sees, f"/message remove {one}").endswith(
        f"? Agents that inherited it lose it as well: root, {forgot.id[:8]}, {below.id[:8]}. {tail}"
    )
    with pytest.raises(CommandError, match=f"there is no turn {one} in this conversation"):
        grandchild.do(f"/message remove {one}")
    result = below.do(f"/message remove {one} --yes")
    assert {*result.data["agents"]} == {agent.id, sees.id, forgot.id, below.id}


def test_only_a_person_may(agent: Agent) -> None:
    (one,) = said(agent, "one")
    for actor in ("model", "system"):
        with pytest.raises(CommandError, match=rf"/message remove is not for a {actor}; available: /mark"):
            agent.do(f"/message remove {one} --yes", actor=actor)
    assert agent.context().size.messages == 2


def test_an_event_inside_a_turn_is_no_turn(agent: Agent) -> None:
    one, two = said(agent, "one", "two")
    inside = two + 1
    for line in ("/message show {}", "/message remove {} --yes"):
        with pytest.raises(
            CommandError,
            match=rf"^there is no turn {two + 1} in this conversation; event {two + 1} belongs to turn {two}$",
        ):
            agent.do(line.format(inside))
    assert agent.do(f"/message show {one}").data["in_context"] == 2


# Notes


def test_a_note_is_a_turn_of_its_own(agent: Agent) -> None:
    said(agent, "one")
    result = agent.do("/note   the child's goal,  as typed")
    event = selections.event(stored(agent.log), result.data["message"])
    assert event is not None
    assert (event.kind, event.content, event.actor) == ("user", "the child's goal,  as typed", "human")
    assert event.turn_id == event.id
    assert agent.open_turn is None
    assert result.text == f"Noted as message {event.id}."
    assert result.event_id is None


def test_a_note_in_an_open_turn_joins_it(agent: Agent) -> None:
    opened = agent.append("user", "one")
    event = selections.event(stored(agent.log), agent.do("/note and two").data["message"])
    assert event is not None
    assert event.turn_id == opened == agent.open_turn


def test_a_childs_goal(log: Log, agent: Agent) -> None:
    said(agent, "one")
    agent.do("/mark M")
    agent.do("/note Find the bug.")
    child = log.agent(agent.do("/fork M").data["child"])
    assert [message.content for message in child.context().messages] == ["Find the bug."]
    assert child.request().body["messages"][-1] == {"role": "user", "content": "Find the bug."}


@pytest.mark.parametrize("text", ["/mark X", "--yes", "日本語 ☃", "a\nb\n c", "x" * 100_000, "\ud800"])
def test_any_text_is_a_note(agent: Agent, text: str) -> None:
    agent.do(f"/note {text}")
    (message,) = agent.context().messages
    assert message.content == text.replace("\ud800", "\ufffd")
