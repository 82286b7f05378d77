"""The tools over MCP: derived from Foldmark's own, on the intended conversation (SPEC 4, 4.1, 4.2)."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from guest import ERAS, inside, visit, yes
from mcp import MCPError
from mcp.types import INVALID_PARAMS, ElicitResult, InputRequiredResult

import foldmark
from foldmark.core import selections
from foldmark.core.segments import END, Segment
from foldmark.mcp import conversations
from foldmark.mcp.tools import TOOLS
from foldmark.request.planning import planning
from foldmark.runtime.lease import HeldLease, LeaseError, take
from foldmark.tools import TOOLS as MODELS
from planning_talk import IN_CHAT
from stored import stored

WORKING = {"read_file", "list_files", "grep", "bash"}
OWN = {"search", "read", "context_meter"}


def talk(log: foldmark.Log, name: str = "default") -> foldmark.Agent:
    agent = log.agent(name)
    for text in ("hello there", "bananas are yellow", "the plan is simple"):
        agent.append("user", text)
        agent.append("assistant", f"You said: {text}")
        agent.end_turn()
    return agent


def test_they_are_the_models_tools(db: str, log: foldmark.Log) -> None:
    assert TOOLS.keys() == {*OWN, *MODELS.keys()} - WORKING
    talk(log)

    async def visiting() -> None:
        async with inside(db) as guest:
            listed = {tool.name: tool for tool in (await guest.client.list_tools()).tools}
        assert listed.keys() == TOOLS.keys()
        for name in listed.keys() - OWN:
            tool, spec = listed[name], MODELS[name].spec
            properties = dict(tool.input_schema["properties"])
            assert "'default' if left out" in properties.pop("conversation")["description"]
            assert {**tool.input_schema, "properties": properties} == spec.parameters
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint is MODELS[name].together

    visit(visiting)


def test_a_conversation_narrows_them(db: str, log: foldmark.Log) -> None:
    agent = talk(log)
    agent.do("/config set model_commands=mark")
    agent.do("/config set tools=slash, recall")

    async def visiting() -> None:
        async with inside(db) as guest:
            listed = {tool.name: tool for tool in (await guest.client.list_tools()).tools}
            assert listed.keys() == {*OWN, "slash", "recall"}
            assert listed["slash"].input_schema["properties"]["command"]["enum"] == ["mark"]
            assert "is not for a model" in await guest.call("slash", command="clear")
            assert "there is no tool 'query_db'" in await guest.call("query_db", sql="SELECT 1")

    visit(visiting)


@pytest.mark.parametrize("era", ERAS)
def test_a_visit(db: str, log: foldmark.Log, era: str) -> None:
    agent = talk(log)

    async def visiting() -> None:
        async with inside(db, era=era) as guest:
            assert (await guest.call("slash", command="mark", args="HERE")).startswith(
                "Checkpoint 'HERE' created.\n  event "
            )
            rows = json.loads(await guest.call("query_db", sql="SELECT count(*) AS n FROM messages"))
            assert rows["rows"] == [{"n": 6}]
            assert "query_db reads these views" in await guest.call("describe_db")
            assert await guest.call("manage_scratchpad", action="append", content="a list") == (
                "Scratchpad written: 6 characters."
            )
            assert await guest.call("save_memo", content="Ports are even.", tags=["net"]) == "Memo 1 saved [net]."
            assert "Ports are even." in await guest.call("retrieve_memos", tags=["net"])
            assert "bananas are yellow" in await guest.call("recall", query="bananas")
            assert await guest.call("context_meter") == (
                f"Conversation 'default': {agent.do('/context show').text.splitlines()[-1]}"
            )
            said = await guest.call("slash", command="clear", args="HERE")
            assert said.startswith("Rewound to 'HERE'. Nothing came after it.\n  event ")
            with pytest.raises(MCPError, match="there is no tool 'bash'") as caught:
                await guest.call("bash", command="id")
            assert caught.value.code == INVALID_PARAMS

    visit(visiting)
    agent.context()
    assert agent.context().scratchpad == "a list"
    mark = next(each for each in selections.operations(stored(log), agent.id) if each.kind == "mark")
    assert mark.actor == "model"


def test_which_conversation_is_meant(db: str, log: foldmark.Log) -> None:
    talk(log, "one")
    child = talk(log, "two").do("/fork").data["child"]

    async def visiting() -> None:
        async with inside(db, None) as guest:
            for nameless in ({}, {"conversation": ""}):
                assert await guest.call("slash", command="mark", **nameless) == (
                    "Error: Foldmark does not record this chat. If the person means another conversation, name it as "
                    "`conversation`; available: one, two"
                )
            assert await guest.call("query_db", sql="SELECT 1") == (
                "Error: name a conversation as `conversation`; available: one, two"
            )
            told = await guest.call("slash", command="mark", conversation="three")
            assert told == "Error: there is no conversation or agent 'three'; conversations: one, two"
            assert (await guest.call("slash", command="mark", args="M", conversation="one")).startswith(
                "Checkpoint 'M' created.\n  event "
            )
            assert "created" in await guest.call("slash", command="mark", conversation=child[:8])
            assert "must be a conversation's name, not 5" in await guest.call("slash", command="mark", conversation=5)
            # These tools concern all conversations.
            assert "hello there" in await guest.call("recall", query="hello")
            assert await guest.call("save_memo", content="known", tags=[]) == "Memo 1 saved."
        async with inside(db, "two") as guest:
            assert "created" in await guest.call("slash", command="mark", args="M")
            assert "created" in await guest.call("slash", command="mark", args="OTHER", conversation="one")

    visit(visiting)
    assert list(log.agent("one").context().marks) == ["M", "OTHER"]
    assert list(log.agent("two").context().marks) == ["M"]


def test_nothing_is_made(tmp_path: Path) -> None:
    async def visiting() -> None:
        async with inside(str(tmp_path / "none.db"), "gone") as guest:
            assert len((await guest.client.list_tools()).tools) == len(TOOLS)
            assert "there is no database" in await guest.call("slash", command="mark")
            assert "there is nothing to search yet" in await guest.call("search", query="x")
            assert [each.name for each in (await guest.client.list_resources()).resources] == ["conversations"]

    visit(visiting)
    assert not (tmp_path / "none.db").exists()
    foldmark.open(tmp_path / "none.db").close()

    async def again() -> None:
        async with inside(str(tmp_path / "none.db"), None) as guest:
            assert await guest.call("recall", query="x") == (
                "Error: there is no conversation yet; `foldmark chat` starts one"
            )

    visit(again)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing required field"),
        ({"command": 5}, "Expected `str`"),
        ({"command": "mark", "x": 1}, "unknown field `x`"),
        ({"command": "undo"}, "/undo is not for a model"),
        ({"command": "clear", "args": "NOWHERE"}, "NOWHERE"),
    ],
)
def test_wrong_arguments_are_told_and_change_nothing(
    db: str, log: foldmark.Log, arguments: dict[str, object], told: str
) -> None:
    head = talk(log).standing().newest

    async def visiting() -> None:
        async with inside(db) as guest:
            answer = await guest.call("slash", **arguments)
            assert answer.startswith("Error: ")
            assert told in answer

    visit(visiting)
    assert log.agent("default").standing().newest == head


def test_the_argument_that_gemini_cli_adds_to_every_tool(db: str, log: foldmark.Log) -> None:
    talk(log)

    async def visiting() -> None:
        async with inside(db) as guest:
            answer = await guest.call("slash", command="mark", args="HERE", wait_for_previous=True)
            assert "'HERE' created" in answer

    visit(visiting)


def test_calls_of_one_answer_come_together(db: str, log: foldmark.Log) -> None:
    agent = talk(log)

    async def visiting() -> None:
        async with inside(db) as guest, anyio.create_task_group() as tasks:
            for number in range(8):
                line = f"line {number}"
                tasks.start_soon(partial(guest.call, "manage_scratchpad", action="append", content=line))

    visit(visiting)
    agent.context()
    assert sorted((agent.context().scratchpad or "").splitlines()) == [f"line {number}" for number in range(8)]


def test_one_that_is_at_work_elsewhere_is_left_alone(db: str, log: foldmark.Log) -> None:
    agent = talk(log)
    held = take(agent, log.new_id())
    agent.append("user", "a turn that goes on")
    head = agent.standing().newest

    async def visiting() -> None:
        async with inside(db) as guest:
            told = await guest.call("slash", command="clear")
            assert "is being run by process" in told
            assert "Nothing was recorded" in told
            assert "hello there" in await guest.call("recall", query="hello")
            assert "saved" in await guest.call("save_memo", content="x", tags=["y"])

    visit(visiting)
    assert agent.standing().newest == head
    agent.end_turn()  # the runtime that holds the lease continues
    held.give_back()


def test_one_whose_work_is_soon_done_is_waited_for(db: str, log: foldmark.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    held = take(talk(log), log.new_id())

    def tried(*given: Any) -> HeldLease:
        try:
            return take(*given)
        except LeaseError:
            held.give_back()
            raise

    monkeypatch.setattr(conversations, "take", tried)

    async def visiting() -> None:
        async with inside(db) as guest:
            assert (await guest.call("slash", command="mark", args="HERE")).startswith(
                "Checkpoint 'HERE' created.\n  event "
            )

    visit(visiting)


def test_a_question_shows_little_of_what_a_model_wrote(db: str, log: foldmark.Log) -> None:
    forgetting(log)

    async def visiting() -> None:
        async with inside(db) as guest:
            await guest.call("filter_context", action="preview", criteria="bananas " * 1000)
            told = await guest.call("filter_context", action="apply")
            assert "show them the preview" in told
            assert len(told) < 800

    visit(visiting)


def forgetting(log: foldmark.Log) -> foldmark.Agent:
    """Create a conversation in which the person has asked to forget bananas and the model has shown a preview."""
    agent = talk(log)
    agent.do("/forget bananas", asking=IN_CHAT)
    agent.call_tool("filter_context", {"action": "preview"})
    agent.end_turn()
    return agent


@pytest.mark.parametrize("era", ERAS)
def test_the_person_agrees_through_the_client(db: str, log: foldmark.Log, era: str) -> None:
    agent = forgetting(log)

    async def visiting() -> None:
        async with inside(db, era=era, answer=yes()) as guest:
            applied = json.loads(await guest.call("filter_context", action="apply"))
            assert applied["messages_filtered"] == 2
            (question,) = guest.asked
            assert "Conversation 'default': Forget 2 messages (~" in question
            assert "  1. Message 4-5: bananas are yellow (2 messages, ~" in question
            assert "  Context: " in question

    visit(visiting)
    agent.context()
    assert [each.content for each in agent.context().messages if "banana" in each.content] == []
    with agent.reading() as (moment, at):
        assert planning(moment, at) is None
    assert agent.open_turn is None
    said = [each for each in stored(log).select((Segment(agent.id, 1, END),)) if each.actor == "human"]
    assert said[-1].content == "Yes."


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
        ElicitResult(action="accept"),
        ElicitResult(action="accept", content={"agree": False}),
        ElicitResult(action="accept", content={"agree": "true"}),
    ],
)
def test_anything_but_a_yes_is_a_no(db: str, log: foldmark.Log, era: str, answer: ElicitResult) -> None:
    agent = forgetting(log)
    head = agent.standing().newest

    async def visiting() -> None:
        async with inside(db, era=era, answer=answer) as guest:
            told = await guest.call("filter_context", action="apply")
            assert told.startswith("Error: the person did not agree; nothing was changed. If this client did not ask")
            assert len(guest.asked) == 1

    visit(visiting)
    assert agent.standing().newest == head


@pytest.mark.parametrize("era", ERAS)
def test_a_client_that_cannot_ask_says_how_the_person_can(db: str, log: foldmark.Log, cli: object, era: str) -> None:
    agent = forgetting(log)

    async def visiting() -> None:
        async with inside(db, era=era) as guest:
            told = await guest.call("filter_context", action="apply")
            (agree,) = re.findall(r"`foldmark do default '(/agree [0-9]+)'`", told)
            assert "Forget 2 messages" in told
            assert cli("do", "default", agree).code == 0  # type: ignore[operator]
            assert "no planning conversation is open" in await guest.call("filter_context", action="apply")

    visit(visiting)
    agent.context()
    assert agent.open_turn is None
    assert [each.content for each in agent.context().messages if "banana" in each.content] == []


def test_a_yes_that_was_noted_is_one(db: str, log: foldmark.Log, cli: object) -> None:
    forgetting(log)

    async def visiting() -> None:
        async with inside(db) as guest:
            assert cli("do", "default", "/note yes").code == 0  # type: ignore[operator]
            assert json.loads(await guest.call("filter_context", action="apply"))["messages_filtered"] == 2

    visit(visiting)


@pytest.mark.parametrize("line", ["/note Something else", "/forget apples", "/mark A\n/rewind A"])
def test_a_stale_offer_is_not_even_asked_about(db: str, log: foldmark.Log, cli: object, line: str) -> None:
    forgetting(log)

    async def visiting() -> None:
        async with inside(db, answer=yes()) as guest:
            for each in line.splitlines():
                assert cli("do", "default", each).code == 0  # type: ignore[operator]
            assert (await guest.call("filter_context", action="apply")).startswith("Error: ")
            assert guest.asked == []

    visit(visiting)


def test_a_yes_is_for_what_was_asked(db: str, log: foldmark.Log) -> None:
    """In the protocol of 2026 the client repeats the call with the answer, which is valid only for the same ids."""
    forgetting(log)

    async def visiting() -> None:
        async with inside(db, answer=yes()) as guest:
            session = guest.client.session
            first = await session.call_tool("filter_context", {"action": "apply"}, allow_input_required=True)
            assert isinstance(first, InputRequiredResult)
            (key,) = first.input_requests or {}
            again = await session.call_tool(
                "filter_context", {"action": "apply", "message_ids": [4]}, input_responses={key: yes()}
            )
            assert "the person did not agree; nothing was changed" in again.content[0].text  # type: ignore[union-attr]
            done = await session.call_tool("filter_context", {"action": "apply"}, input_responses={key: yes()})
            assert not done.is_error

    visit(visiting)
