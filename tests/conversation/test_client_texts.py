"""Texts that a coding agent told its model by itself: messages of kind `client`."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldmark
from foldmark import Agent
from foldmark.chat.lines.screen import message_text
from foldmark.core.search import Filters
from foldmark.documents.json_export import conversation_json
from foldmark.documents.json_import import import_document, read_document

NOTE = "<system-reminder>\nNote: /w/a.py was modified.\nLine two.\n</system-reminder>"


@pytest.fixture
def agent() -> Agent:
    agent = foldmark.open(":memory:", settings={}).agent("default")
    agent.append("user", "First?")
    agent.append("assistant", "Yes.")
    agent.end_turn()
    agent.append("client", NOTE)
    agent.append("user", "Second?")
    agent.append("assistant", "Yes, again.")
    agent.end_turn()
    return agent


def test_it_is_of_the_turn_of_the_prompt_behind_it_and_leaves_with_it(agent: Agent) -> None:
    note, prompt = agent.context().messages[2:4]
    assert (note.kind, note.role, note.actor, note.content) == ("client", "user", "system", NOTE)
    assert prompt.turn_id == note.turn_id == note.id
    agent.do(f"/context drop {note.id}")
    assert [message.content for message in agent.context().messages] == ["First?", "Yes."]


def test_it_is_sent_as_the_users_text_before_the_prompt(agent: Agent) -> None:
    body = agent.request(provider="anthropic", model="claude-sonnet-4-5").body
    assert [block["text"] for block in body["messages"][2]["content"]] == [NOTE, "Second?"]
    assert body["messages"][2]["role"] == "user"


def test_a_turn_is_named_after_its_prompt(agent: Agent) -> None:
    assert "Second?" in agent.do("/message list").text
    assert "system-reminder" not in agent.do("/message list").text


def test_it_is_no_question_to_ask_again(agent: Agent) -> None:
    agent.do("/retry")
    assert [message.content for message in agent.context().messages][2:] == [NOTE, "Second?"]


def test_a_chat_folds_it_into_one_line(agent: Agent) -> None:
    assert message_text(agent.context().messages[2]) == "[client] Note: /w/a.py was modified."


def test_a_search_finds_it_by_its_role_only(agent: Agent) -> None:
    assert agent.log.search("modified") == []
    assert [hit.kind for hit in agent.log.search("modified", filters=Filters(role="client"))] == ["client"]


def test_a_document_keeps_it(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text("".join(conversation_json(agent, "1", lambda *_: None)), encoding="utf-8")
    with foldmark.open(":memory:", settings={}) as other:
        copied = other.agent(import_document(other, read_document(path), "copy").agent_id)
        kept = [(message.kind, message.content) for message in copied.context().messages]
    assert kept == [(message.kind, message.content) for message in agent.context().messages]


def test_a_filter_takes_it_with_the_last_other_message_of_its_turn(agent: Agent) -> None:
    _, _, note, prompt, answer = (message.id for message in agent.context().messages)
    agent.apply_filter("forget", [prompt], None)
    assert [message.content for message in agent.context().messages][2:] == [NOTE, "Yes, again."]
    agent.apply_filter("forget", [answer], None)
    assert [message.content for message in agent.context().messages] == ["First?", "Yes."]
    assert note not in {message.id for message in agent.context().messages}


def test_it_stays_with_a_message_that_is_remembered(agent: Agent) -> None:
    agent.apply_filter("remember", [agent.context().messages[4].id], None)
    assert [message.content for message in agent.context().messages] == [NOTE, "Yes, again."]
