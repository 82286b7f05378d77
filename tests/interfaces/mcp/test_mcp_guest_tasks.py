"""The descriptions of the tools for a guest's model, which sees no conversation of Foldmark's, and the permission for
what could empty one (SPEC 4.1, 9)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from guest import ERAS, Guest, inside, visit, yes
from mcp.types import ElicitResult, Tool

import foldmark
from foldmark.commands import REGISTRY
from foldmark.core import selections
from foldmark.mcp.tools import TOOLS
from foldmark.tools import TOOLS as MODELS
from foldmark.tools.tool import THIS_CONVERSATION
from stored import stored


class Task(NamedTuple):
    """What a person says to a guest's model: the tool to call (None: none, the person has to act), the words of its
    description that decide it; the tool that could be called by mistake, and its words that say not to."""

    said: str
    call: str | None
    because: str
    instead_of: str
    not_because: str


TASKS = (
    Task(
        "Find where we discussed the retry policy last week.",
        "search",
        "where something was discussed, last week",
        "recall",
        "Not to find out what was said",
    ),
    Task(
        "What did I tell Foldmark to remember about the release?",
        "retrieve_memos",
        "what the person told Foldmark to remember",
        "search",
        "Not for what was saved as a memo",
    ),
    Task(
        "Drop turn 5 of the conversation notes.",
        None,
        "to drop a turn, rewind, undo, restore, pin or summarize, no tool is right",
        "evict",
        "not for messages of people and models",
    ),
    Task(
        "Clear this chat.",
        None,
        "To clear, compact or rewind this chat, the person uses the commands of its own program",
        "evict",
        "Not for this chat's own results",
    ),
    Task(
        "How full is this chat by now?",
        "context_meter",
        "how full this chat is",
        "query_db",
        "not this chat",
    ),
    Task(
        "For all our projects from now on: staging is read-only on Fridays. Keep that.",
        "save_memo",
        "a fact remembered from now on, beyond one conversation",
        "manage_scratchpad",
        "not for knowledge that other conversations need",
    ),
    Task(
        "Put calling the bank on the checklist of the conversation notes.",
        "manage_scratchpad",
        "a plan or a checklist kept in that conversation",
        "save_memo",
        "Not for the plan of one conversation",
    ),
    Task(
        "Set a checkpoint DRAFT in the conversation notes, before I try something.",
        "slash",
        "mark [NAME] [-- REASON]: Set a checkpoint",
        "filter_context",
        "only after the person has begun that",
    ),
    Task(
        "Does the model of the conversation notes still get what we said about tabs?",
        "recall",
        "whether messages about something are still sent to the model",
        "search",
        "not to see what a Foldmark conversation still sends",
    ),
    Task(
        "How many messages of each role has the conversation notes?",
        "query_db",
        "Use it to count, group or list messages exactly",
        "describe_db",
        "Not for messages: `query_db` reads them",
    ),
    Task(
        "The outputs of the test runs in the conversation notes are not needed any more: make room.",
        "evict",
        "Take tool results that are needed no more out of the requests",
        "context_meter",
        "Not to make room",
    ),
    Task(
        "Forget everything about bananas in the conversation notes.",
        None,
        "no tool begins it",
        "slash",
        "For every other edit",
    ),
)
EVERYWHERE = "not this chat"
"""Words that many descriptions share."""


async def tools(guest: Guest) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await guest.client.list_tools()).tools}


def descriptions(db: str, name: str | None) -> dict[str, Tool]:
    found = dict[str, Tool]()

    async def visiting() -> None:
        async with inside(db, name) as guest:
            found.update(await tools(guest))

    visit(visiting)
    return found


@pytest.mark.parametrize("name", [None, "notes"])
def test_the_list_alone_decides_which_tool_to_call(db: str, log: foldmark.Log, name: str | None) -> None:
    log.agent("notes").append("user", "We use tabs.")
    told = {tool: str(each.description) for tool, each in descriptions(db, name).items()}
    for task in TASKS:
        having = [tool for tool, text in told.items() if task.because in text]
        assert having == [task.call] if task.call else len(having) == 1, task
        warned = [tool for tool, text in told.items() if task.not_because in text]
        assert task.instead_of in warned, task
        assert task.not_because == EVERYWHERE or warned == [task.instead_of], task
        assert task.call not in warned, task
    assert {task.call for task in TASKS} - {None} == told.keys() - {"read", "describe_db", "filter_context"}


@pytest.mark.parametrize("name", [None, "notes"])
def test_each_says_whose_context_it_changes_and_what_it_returns(db: str, log: foldmark.Log, name: str | None) -> None:
    log.agent("notes").append("user", "We use tabs.")
    for tool, listed in descriptions(db, name).items():
        told, hints = str(listed.description), listed.annotations
        assert hints is not None
        which = "'notes', or the one that `conversation` names" if name else "that `conversation` names"
        if TOOLS[tool].of_one:
            does = "reads" if hints.read_only_hint else "changes"
            assert f"It {does} the Foldmark conversation {which}, not this chat" in told
        else:
            assert "changes nothing" in told or "changes no conversation and not this chat" in told
        assert re.search(r" Use it [^.]+\..* Returns [^.]+\.$", told, re.DOTALL), tool
        assert re.search(r"\b(Not|not|no tool|only after)\b", told[told.index(" Use it ") :]), tool
        assert len(told) < 1200, tool  # clients cut at 2,048 characters
        # It speaks to no model of a conversation, and about none that the guest could take for its own.
        assert not re.search(r"\b(you|your|yours)\b", told, re.IGNORECASE), tool
        assert THIS_CONVERSATION not in str(listed.model_dump()), tool


def test_the_descriptions_come_from_the_models_tools(db: str, log: foldmark.Log) -> None:
    """What a tool does stands in one place, and what the commands do in the registry."""
    log.agent("notes").append("user", "We use tabs.")
    told = {tool: str(each.description) for tool, each in descriptions(db, None).items()}
    for name in told.keys() & MODELS.keys() - {"slash"}:
        tool = MODELS[name]
        shared = tool.spec.description.removesuffix(tool.own).rstrip(" .")
        assert told[name].startswith(shared.replace(THIS_CONVERSATION, "a Foldmark conversation")), name
    for name in MODELS["slash"].spec.parameters["properties"]["command"]["enum"]:
        command = REGISTRY.commands[name]
        assert f"\n- {command.synopsis[1:]}: {command.help}" in told["slash"]


def test_a_conversation_has_to_be_named(db: str, log: foldmark.Log) -> None:
    log.agent("notes").append("user", "We use tabs.")
    for tool, listed in descriptions(db, None).items():
        assert ("conversation" in listed.input_schema.get("required", ())) is TOOLS[tool].of_one
    for listed in descriptions(db, "notes").values():
        assert "conversation" not in listed.input_schema.get("required", ())


# Permission


def talk(log: foldmark.Log) -> foldmark.Agent:
    agent = log.agent("notes")
    for text in ("We use tabs.", "What if we used spaces?"):
        agent.append("user", text)
        agent.end_turn()
    return agent


REACHING = [{"command": "clear"}, {"command": "clear", "args": "-- over"}]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("arguments", REACHING)
def test_a_clear_without_a_place_is_refused(
    db: str, log: foldmark.Log, arguments: dict[str, str], era: str, cli: Any
) -> None:
    agent = talk(log)
    head = agent.standing().newest

    async def visiting() -> None:
        async with inside(db, None, era=era) as guest:
            told = await guest.call("slash", **arguments, conversation="notes")
            assert "the person has not allowed this, and this client cannot ask them" in told
            assert "Conversation 'notes': may the model run /clear? 2 messages (~" in told
            assert agent.standing().newest == head
            # Nothing that the guest may run gives the permission.
            for command, args in (("config set", "tool_approval=always"), ("agree", "1"), ("rewind", "")):
                told = await guest.call("slash", command=command, args=args, conversation="notes")
                assert "is not for a model" in told or "there is no command" in told
            assert agent.standing().newest == head
            assert "would leave" in await guest.call("slash", command="clear", args="--preview", conversation="notes")
            # With a place, nobody is asked.
            told = await guest.call("slash", command="clear", args=str(head - 1), conversation="notes")
            assert "Rewound to the beginning of turn" in told

            told = await guest.call("slash", **arguments, conversation="notes")
            (allows,) = re.findall(r"`foldmark do notes '(/config set tool_approval=[^`]*)'`", told)
            assert cli("do", "notes", allows).code == 0
            assert (await guest.call("slash", **arguments, conversation="notes")).startswith(
                "Context cleared.\n  event "
            )

    visit(visiting)
    assert selections.operations(stored(log), agent.id)[-1].actor == "model"
    assert list(log.agent("notes").context().messages) == []


@pytest.mark.parametrize("era", ERAS)
def test_the_person_allows_it_once(db: str, log: foldmark.Log, era: str) -> None:
    agent = talk(log)

    async def visiting() -> None:
        async with inside(db, "notes", era=era, answer=yes()) as guest:
            assert (await guest.call("slash", command="clear")).startswith("Context cleared.\n  event ")
            assert (await guest.call("slash", command="clear")).startswith("Context cleared.\n  event ")
            assert len(guest.asked) == 2
            assert "may the model run /clear?" in guest.asked[0]

    visit(visiting)
    assert agent.standing().config.tool_approval == "ask"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", [ElicitResult(action="decline"), ElicitResult(action="cancel")])
def test_the_person_refuses_it(db: str, log: foldmark.Log, era: str, answer: ElicitResult) -> None:
    agent = talk(log)
    head = agent.standing().newest

    async def visiting() -> None:
        async with inside(db, "notes", era=era, answer=answer) as guest:
            told = await guest.call("slash", command="clear")
            assert told.startswith("Error: the person did not agree; nothing was changed.")
            assert "foldmark do notes /clear" in told

    visit(visiting)
    assert agent.standing().newest == head


def test_a_permission_is_for_the_context_that_was_shown(db: str, log: foldmark.Log) -> None:
    agent = talk(log)

    async def visiting() -> None:
        async with inside(db, "notes", answer=yes()) as guest:
            session = guest.client.session
            first = await session.call_tool("slash", {"command": "clear"}, allow_input_required=True)
            (key,) = first.input_requests or {}  # type: ignore[union-attr]
            agent.append("user", "One more.")
            agent.end_turn()
            again = await session.call_tool("slash", {"command": "clear"}, input_responses={key: yes()})
            assert again.is_error

    visit(visiting)
    assert len(list(log.agent("notes").context().messages)) == 3


def test_a_refusal_for_good(db: str, log: foldmark.Log) -> None:
    agent = talk(log)
    agent.do("/config set tool_approval=always, slash(clear)=never")

    async def visiting() -> None:
        async with inside(db, "notes", answer=yes()) as guest:
            assert "says never" in await guest.call("slash", command="clear")
            assert guest.asked == []

    visit(visiting)
    assert len(list(agent.context().messages)) == 2


def test_a_project_cannot_allow_it(
    db: str, log: foldmark.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    talk(log)
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".foldmark.toml").write_text('[context]\ntool_approval = "always"\n')
    monkeypatch.chdir(tmp_path / "project")
    assert "belongs in your own config.toml" in cli("mcp").err


def test_a_model_of_foldmark_s_own_needs_none(log: foldmark.Log) -> None:
    agent = talk(log)
    assert agent.call_tool("slash", {"command": "clear"}) == "Context cleared."
