"""`manage_scratchpad` (SPEC 4.1, 7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import foldmark
from foldmark import Agent, CommandError
from foldmark.core import selections
from foldmark.tools.knowledge import LONGEST_PAD
from stored import stored


@pytest.fixture
def agent() -> Iterator[Agent]:
    with foldmark.open(":memory:", settings={}) as log:
        yield log.agent("root")


def manage(agent: Agent, action: str, content: str | None = None) -> str:
    return agent.call_tool("manage_scratchpad", {"action": action, **({} if content is None else {"content": content})})


def test_read_update_append(agent: Agent) -> None:
    assert manage(agent, "read") == "The scratchpad is empty."
    assert manage(agent, "append", "- [ ] one") == "Scratchpad written: 9 characters."
    assert manage(agent, "append", "- [ ] two") == "Scratchpad extended: 19 characters."
    assert manage(agent, "read") == agent.context().scratchpad == "- [ ] one\n- [ ] two"
    manage(agent, "update", "- [x] one")
    assert manage(agent, "read") == "- [x] one"
    assert manage(agent, "update", "") == "Scratchpad cleared."
    assert manage(agent, "read") == "The scratchpad is empty."


def test_the_model_wrote_it_and_it_is_sent(agent: Agent) -> None:
    event_id = agent.append("user", "Plan it.") + 1
    manage(agent, "update", "1. plan")
    event = selections.event(stored(agent.log), event_id)
    assert event is not None
    assert (event.kind, event.actor, event.turn_id) == ("scratchpad", "model", event_id - 1)
    agent.end_turn()
    agent.append("user", "Go on.")
    *_, told, asked = agent.request("openai", "gpt-5").body["messages"]
    assert (told["content"], asked["content"]) == ("### SCRATCHPAD\n1. plan", "Go on.")
    assert agent.do("/scratchpad").text == "1. plan"


def test_it_outlasts_a_change_of_model_and_a_restart(tmp_path: Path) -> None:
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        manage(log.agent("root"), "update", "1. plan")
        log.agent("root").do("/model gemini/gemini-2.5-pro")
    with foldmark.open(tmp_path / "log.db", settings={}) as log:
        assert manage(log.agent("root"), "read") == "1. plan"
        assert manage(log.agent("other"), "read") == "The scratchpad is empty."


def test_a_person_and_the_model_write_the_same_one(agent: Agent) -> None:
    agent.do("/scratchpad edit mine")
    manage(agent, "append", "yours")
    assert agent.do("/scratchpad").text == "mine\nyours"


def test_a_fork_goes_on_with_its_own(agent: Agent) -> None:
    manage(agent, "update", "of the parent")
    child = agent.log.agent(agent.do("/fork").data["child"])
    manage(child, "append", "of the child")
    assert (manage(child, "read"), manage(agent, "read")) == ("of the parent\nof the child", "of the parent")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"action": "update"}, "content is missing: the text to update the scratchpad with"),
        ({"action": "append"}, "content is missing: the text to append"),
        ({"action": "delete"}, "manage_scratchpad takes an object with action, content: Invalid enum value 'delete'"),
        ({}, "manage_scratchpad takes an object with action, content"),
        ({"action": "update", "content": 3}, "manage_scratchpad takes an object"),
        (
            {"action": "update", "content": "x" * (LONGEST_PAD + 1)},
            "would have 20,001 characters, and has at most 20,000",
        ),
    ],
)
def test_wrong_calls_change_nothing(agent: Agent, args: dict[str, object], says: str) -> None:
    manage(agent, "update", "as it was")
    with pytest.raises(CommandError, match=says):
        agent.call_tool("manage_scratchpad", args)
    assert manage(agent, "read") == "as it was"


def test_it_does_not_grow_without_end(agent: Agent) -> None:
    manage(agent, "update", "x" * (LONGEST_PAD - 2))
    manage(agent, "append", "y")
    with pytest.raises(CommandError, match="update it with a shorter one"):
        manage(agent, "append", "z")
    assert len(manage(agent, "read")) == LONGEST_PAD
