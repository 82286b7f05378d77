"""The panels of agents and of the state: their content, the commands that they submit, and the cost of their reads."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Driven, driven, open_log, sample
from golden import check
from textual.widgets import OptionList

from foldmark.chat.display.overview import agent_state, agents, price_of_rewind
from foldmark.log import Agent, Log
from foldmark.terminal.dialogs import Question
from foldmark.terminal.panels import Panel, PanelScreen
from foldmark.terminal.side_screens.overview import AgentsPanel, StatePanel
from stored import connection

STATE = "Goal: import tags\n  from CSV\nContext: none\n"


def family_of(log: Log) -> tuple[Agent, Agent, Agent]:
    """Return the sample conversation with mail from a child, that child, and a dead one."""
    agent = sample(log)
    agent.record("state", STATE, actor="model")
    agent.record("scratchpad", "try csv first", actor="model")
    child = log.agent(agent.do("/fork").data["child"])
    dead = log.agent(agent.do("/fork").data["child"])
    child.append("user", "Read the files.")
    child.append("assistant", "I have read them.")
    child.end_turn()
    child.do(f"/send {agent.id} half of it is done")
    agent.do(f"/kill {dead.id}")
    return agent, child, dead


async def choose(chat: Driven, row: str) -> None:
    """Highlight the row with this id."""
    options = chat.app.screen.query_one(Panel).query_one(OptionList)
    await chat.until(lambda: row in [option.id for option in options.options])
    options.highlighted = options.get_option_index(row)


def shows(chat: Driven, panel: type[Panel]) -> bool:
    """Return True if the current screen is the panel's own screen."""
    return isinstance(chat.app.screen, PanelScreen) and chat.app.screen.panel is panel


def test_the_values_of_the_agents(log: Log) -> None:
    agent, child, dead = family_of(log)
    found = {line.entry.agent: line for line in agents(child)}
    assert [(found[each.id].entry.state, found[each.id].entry.unread) for each in (agent, child, dead)] == [
        ("idle", 1),
        ("idle", 0),
        ("dead", 0),
    ]
    assert [line.entry.depth for line in found.values()] == [0, 1, 1]
    assert [line.entry.current for line in found.values()] == [False, True, False]
    assert found[child.id].goal == "import tags from CSV"
    assert {line["agent"]: line["unread"] for line in agent.do("/agents").data["agents"]}[agent.id] == 1


def test_without_a_state_the_newest_turn_is_the_goal(log: Log) -> None:
    agent = sample(log)
    assert agents(agent)[0].goal == "Now the simple way: a module per format."


def test_the_values_of_the_state(log: Log) -> None:
    agent, _, _ = family_of(log)
    agent.do("/memo add csv is a format #csv")
    found = agent_state(agent)
    assert (found.state, found.scratchpad, found.memos) == (STATE, "try csv first", 1)
    assert [mark.name for mark in found.marks] == ["BEFORE_PLUGINS"]
    assert [done.event.kind for done in found.operations] == ["fork", "fork", "scratchpad", "drop", "mark"]
    assert found.newest is not None
    assert found.newest.event.kind == "drop"
    assert "would leave" in price_of_rewind(agent, "BEFORE_PLUGINS")[0]
    agent.do(str(found.newest.back))
    after = agent_state(agent)
    assert after.operations[0].event.kind == "restore"
    assert after.newest is not None
    assert after.newest.event.kind == "mark"


@pytest.mark.parametrize("read", [agents, agent_state])
def test_reading_costs_the_same_however_long_the_conversation(read: Callable[[Agent], object], tmp_path: Path) -> None:
    def cost(turns: int) -> int:
        with open_log(tmp_path / f"{turns}.db") as log:
            agent = log.agent("notes")
            agent.do("/mark FIRST")
            for n in range(turns):
                agent.append("user", f"text {n}")
                agent.append("assistant", f"answer {n}")
                agent.end_turn()
            ran: list[str] = []

            def trace(_: object, sql: str, __: object) -> bool:
                ran.append(sql)
                return True

            read(agent)
            connection(log).exec_trace = trace
            read(agent)
            connection(log).exec_trace = None
            return len(ran)

    assert cost(10) == cost(300) < 40


def test_a_panel_stands_beside_the_chat_and_gives_the_keys_back(log: Log) -> None:
    agent, child, _ = family_of(log)

    async def look() -> None:
        async with driven(agent) as chat:
            await chat.until("(mail has come")
            await chat.press("f3")
            await chat.until("1 unread")
            await chat.still()
            check(chat.app, "agents")
            await chat.press("escape")
            await chat.until(lambda: not chat.app.chat.query(Panel) and chat.app.chat.prompt.has_focus_within)
            await chat.press("f3")
            await chat.until("1 unread")
            await chat.press("f4")
            await chat.until("try csv first")
            assert not chat.app.chat.query(AgentsPanel)
            await chat.press("f4")
            await chat.until(lambda: not chat.app.chat.query(Panel) and chat.app.chat.prompt.has_focus_within)
            await chat.press("f3")
            await choose(chat, child.id)
            await chat.press("enter", "enter")
            await chat.until(lambda: chat.app.chat.agent == child)
            await choose(chat, agent.id)
            await chat.press("enter", "down", "enter")
            await chat.press("f3")  # the panel has the focus, so it closes
            await chat.until(lambda: not chat.app.chat.query(Panel))
            await chat.until("half of it is done")
            assert chat.app.chat.agent == agent

    asyncio.run(look())


def test_an_agent_is_ended_after_a_question(log: Log) -> None:
    agent, child, _ = family_of(log)

    async def kill() -> None:
        async with driven(agent, size=(80, 24)) as chat:
            await chat.press("f3")
            await chat.until(lambda: shows(chat, AgentsPanel))
            await choose(chat, child.id)
            await chat.still()
            check(chat.app, "agents-80")
            for keys in (("k", "n"), ("k", "y", "enter")):
                await chat.press(keys[0])
                await chat.until(lambda: isinstance(chat.app.screen, Question))
                await chat.press(*keys[1:])
                await chat.until(lambda: shows(chat, AgentsPanel))
                assert ("dead" not in agents(agent)[1].entry.state) or keys[1] == "y"
            await chat.until(lambda: agents(agent)[1].entry.state == "dead")

    asyncio.run(kill())


def test_the_state_shows_the_price_of_a_rewind_before_it_is_made(log: Log) -> None:
    agent, _, _ = family_of(log)

    async def rewind() -> None:
        async with driven(agent, size=(80, 24)) as chat:
            await chat.press("f4")
            await chat.until(lambda: shows(chat, StatePanel))
            await choose(chat, "mark BEFORE_PLUGINS")
            await chat.until("would leave")
            await chat.still()
            check(chat.app, "state-80")
            await chat.press("enter")
            await chat.until(lambda: agent_state(agent).operations[0].event.kind == "rewind")
            await chat.press("u")
            await chat.until(lambda: agent_state(agent).operations[0].event.kind == "restore")
            await chat.press("escape")
            await chat.until(lambda: chat.app.screen is chat.app.chat)

    asyncio.run(rewind())


def test_the_state_panel_next_to_the_chat(log: Log) -> None:
    agent, _, _ = family_of(log)

    async def look() -> None:
        async with driven(agent) as chat:
            await chat.until("(mail has come")
            await chat.press("f4")
            await chat.until("try csv first")
            drop = next(each for each in agent_state(agent).operations if each.event.kind == "drop")
            await choose(chat, f"operation {drop.event.id}")
            await chat.until("reason: led nowhere")
            await chat.still()
            check(chat.app, "state")
            assert isinstance(chat.app.focused, OptionList)
            assert chat.app.query_one(StatePanel)
            await chat.press("enter")
            await chat.until("taken back by")

    asyncio.run(look())


def test_an_open_panel_moves_when_the_width_of_the_terminal_changes(log: Log) -> None:
    """Next to the chat, it leaves most of the width to the chat; on its own screen, it takes all of it."""
    agent, _, _ = family_of(log)

    async def resize() -> None:
        async with driven(agent, size=(120, 30)) as chat:

            async def beside() -> None:
                await chat.until(lambda: chat.app.screen is chat.app.chat and chat.app.chat.query(StatePanel))
                await chat.until("try csv first")
                panel = chat.app.chat.query_one(StatePanel)
                assert panel.size.width < chat.app.chat.transcript.size.width
                assert panel.has_focus_within

            await chat.press("f4")
            await beside()
            for _ in range(2):
                await chat.pilot.resize_terminal(80, 24)
                await chat.until(lambda: shows(chat, StatePanel))
                await chat.until("try csv first")
                assert chat.app.screen.query_one(StatePanel).size.width == 80 - 2  # its padding
                assert not chat.app.chat.query(Panel)
                await chat.pilot.resize_terminal(120, 30)
                await beside()
            await chat.press("a")
            assert chat.app.chat.prompt.text == "a"
            await chat.pilot.resize_terminal(80, 24)
            await chat.until(lambda: shows(chat, StatePanel))
            await chat.press("escape")
            await chat.until(lambda: chat.app.screen is chat.app.chat and chat.app.chat.prompt.has_focus_within)
            assert chat.app.chat.prompt.text == "a"

    asyncio.run(resize())


def test_a_panel_below_a_dialog_is_closed_when_the_terminal_becomes_too_narrow(log: Log) -> None:
    async def resize() -> None:
        async with driven(sample(log), size=(120, 30)) as chat:
            await chat.press("f4")
            await chat.until(lambda: chat.app.chat.query(StatePanel))
            chat.app.push_screen(Question("Go on?"))
            await chat.until("Go on?")
            await chat.pilot.resize_terminal(80, 24)
            await chat.until(lambda: not chat.app.chat.query(Panel))
            assert isinstance(chat.app.screen, Question)
            await chat.press("escape")
            await chat.until(lambda: chat.app.screen is chat.app.chat and chat.app.chat.prompt.has_focus_within)

    asyncio.run(resize())


def test_a_panel_that_is_closed_while_it_opens_is_gone(log: Log) -> None:
    async def close() -> None:
        async with driven(sample(log), size=(120, 30)) as chat:
            panel = StatePanel(chat.app.chat.agent, chat.app.submit)
            mounted = chat.app.chat.query_one("#middle").mount(panel)
            removed = panel.remove()
            await mounted
            await removed
            await chat.until(lambda: not chat.app.chat.query(StatePanel))
            await chat.press("a")
            assert chat.app.chat.prompt.text == "a"

    asyncio.run(close())
