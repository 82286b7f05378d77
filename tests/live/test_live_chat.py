"""A chat on a live session: it shows the messages that the gateway records, and the agent's next request omits the ones
that the chat drops (SPEC 5.7)."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from claude_client import SESSION, ClaudeRunning
from driven import Driven, driven
from tmux import Tmux

import foldmark
from foldmark.live.clients.anthropic import ANTHROPIC
from foldmark.live.transcript import ClientTranscript
from foldmark.log import Agent, Log
from foldmark.providers.offline import OfflineModel

NAME = f"app · {SESSION[:8]}"


def users(running: ClaudeRunning) -> list[str]:
    """Return the prompts of the newest request, without those that the client injects."""
    return [text for kind, text in running.texts() if kind == "user"][1:]


def recorded(agent: Agent) -> list[int]:
    return [event.id for event in agent.events(0, 1000)]


def lines(chat: Driven) -> list[str]:
    """Return the transcript as shown, without the sizes, which follow the newest request, and the scrollbar."""
    return [line[:92].rstrip() for line in chat.screen.split("\n")[4:-4]]


async def say(running: ClaudeRunning, *texts: str) -> None:
    for text in texts:
        await asyncio.to_thread(running.client.say, text)


def test_it_grows_and_edits_the_next_request(running: ClaudeRunning) -> None:
    async def talk(chat: Driven) -> None:
        await chat.until("recorded while its agent runs")
        await say(running, "the third prompt")
        await chat.until("the third prompt")
        await chat.until("I see 7.")
        await chat.press("f2")
        await chat.until("READ two")
        row = next(row for row in chat.app.screen.table.rows if row.title == "READ two")  # type: ignore[attr-defined]
        chat.app.screen.table.ticked = {row.id}  # type: ignore[attr-defined]
        await chat.press("d")
        await chat.until(lambda: chat.app.focused is not None and type(chat.app.focused).__name__ == "LineInput")
        await chat.press(*"wrong", "enter")
        await chat.until(lambda: "READ two" not in chat.screen)
        await say(running, "four")
        assert users(running) == ["one", "the third prompt", "four"]
        await chat.until("four")  # the list is updated, too
        await chat.press("u")
        await chat.until("READ two")
        await say(running, "five")
        assert users(running) == ["one", "READ two", "the third prompt", "four", "five"]
        await chat.press("escape")
        await chat.type("/forget third")
        await chat.until("Esc keep all")
        await chat.press("end", "enter")
        await chat.until("left the context")
        await say(running, "six")
        assert users(running) == ["one", "READ two", "four", "five", "six"]

    running.client.say("one")
    running.client.say("READ two")
    with foldmark.open(running.path, settings={}) as log:
        asyncio.run(chatting(log, talk))
    events = running.agent.events(0, 1000)
    assert [event.reason for event in events if event.kind == "drop"] == ["wrong"]


async def chatting(log: Log, talk: Callable[[Driven], Awaitable[None]]) -> None:
    async with driven(log.agent(NAME)) as chat:
        await talk(chat)


def test_scrolled_up_it_stays(running: ClaudeRunning) -> None:
    async def talk(chat: Driven) -> None:
        transcript = chat.app.chat.transcript
        await chat.until("prompt 11")
        transcript.focus()
        await chat.press("home")
        await chat.until("prompt 0")
        await chat.still()
        before = lines(chat)
        await say(running, "it goes on")
        await chat.until(lambda: transcript._pages.newest == recorded(running.agent)[-1])
        await chat.still()
        assert lines(chat) == before
        assert "it goes on" not in chat.screen
        await chat.press("end")
        await chat.until("it goes on")
        await say(running, "and on")
        await chat.until("and on")

    for number in range(12):
        running.client.say(f"prompt {number}")
    with foldmark.open(running.path, settings={}) as log:
        asyncio.run(chatting(log, talk))


def test_a_prompt_belongs_in_the_agent(running: ClaudeRunning) -> None:
    async def talk(chat: Driven) -> None:
        before, asked = recorded(running.agent), len(running.upstream.asked)
        await chat.type("What do you think?")
        await chat.until("a prompt for this session belongs in the agent itself")
        await chat.type("yes")  # there is no preview to agree to
        await chat.until(lambda: chat.screen.count("belongs in the agent itself") == 2)
        await chat.type("!touch made")
        await chat.until("prompts for this session belong in the agent that runs it")
        assert not Path("made").exists()
        assert recorded(running.agent) == before
        assert len(running.upstream.asked) == asked
        await chat.type("/fork")
        await chat.until("Forked. Child:")
        (child,) = running.agent.children
        await chat.type(f"/switch {child.id[:8]}")
        await chat.until(lambda: chat.app.chat.agent.id == child.id)
        await chat.type("What do you think?")
        await chat.until(lambda: child.context().messages[-1].kind == "assistant" and chat.app.idle)
        assert "What do you think?" in [event.content for event in child.context().messages]

    running.client.say("one")
    with foldmark.open(running.path, settings={}) as log:
        asyncio.run(chatting(log, talk))
    running.client.say("two")
    assert users(running) == ["one", "two"]


def test_a_yes_without_a_slash(running: ClaudeRunning) -> None:
    async def talk(chat: Driven) -> None:
        await chat.type("/forget cache")
        await chat.until("Esc keep all")
        await chat.press("tab")
        await chat.type(":all but 2")
        await chat.until("left the context")

    between = ["two", "three", "four", "five"]
    for text in ("the cache experiment", *between, "the cache again"):
        running.client.say(text)
    with foldmark.open(running.path, settings={}) as log:
        asyncio.run(chatting(log, talk))
    running.client.say("six")
    assert users(running) == [*between, "the cache again", "six"]


def test_the_meter_is_the_agents(running: ClaudeRunning) -> None:
    async def talk(chat: Driven) -> None:
        await chat.until("· idle")
        await chat.until("system ")
        assert "tools" not in chat.screen.split("\n")[1]
        agent.append("user", "it is at work", dialect="anthropic")
        await chat.until("· at work")

    running.client.say("one")
    agent = running.agent
    agent.context()
    with foldmark.open(running.path, settings={}) as log:
        asyncio.run(chatting(log, talk))


def test_nobody_runs_a_sub_agent_of_the_client(running: ClaudeRunning) -> None:
    """It has no message yet, like a fork that waits."""
    running.client.say("one")
    child = ClientTranscript(running.agent, SESSION, ANTHROPIC).child("a1b2")

    async def supervise() -> None:
        async with foldmark.supervise(running.log, lambda _: OfflineModel()) as agents:
            await agents.settled()

    asyncio.run(supervise())
    assert [*child.context().messages] == []


def test_mail_wakes_no_agent_of_the_client(running: ClaudeRunning) -> None:
    running.client.say("one")
    agent = running.agent
    child = ClientTranscript(agent, SESSION, ANTHROPIC).child("a1b2")
    ClientTranscript(child, SESSION, ANTHROPIC).begin()  # as the gateway does once the sub-agent sends a request
    before = agent.events(0, 1000), child.events(0, 1000)

    async def supervise() -> None:
        async with foldmark.supervise(running.log, lambda _: OfflineModel()) as agents:
            agents.attended = agent.id
            agents._look_once()
            agents.attended = None
            other = running.log.agent("other")
            for each in (agent, child):
                other.do(f"/send {each.id} Hello.")
            agents._look_once()
            await asyncio.sleep(0)  # for the callbacks of commits in this process
            await agents.settled()

    asyncio.run(supervise())
    for each, events in zip((agent, child), before, strict=True):
        assert [event.kind for event in each.events(0, 1000)] == [*(event.kind for event in events), "mail"]


def test_line_by_line(running: ClaudeRunning, tmp_path: Path) -> None:
    running.client.say("one")
    variables = {"FOLDMARK_DB": str(running.path), "LANG": "C.UTF-8", "HOME": str(tmp_path), "TERM": "xterm"}
    words = (sys.executable, "-m", "foldmark", "chat", NAME, "--plain")
    with Tmux(tmp_path, *words, env=variables) as chat:
        chat.until("recorded while its agent runs", "> ")
        chat.type("/context dr")  # the line being typed stays
        running.client.say("READ two")
        chat.until("> READ two", "[Read", "I see 5.", "Context: ", "> /context dr")
        chat.line(f"op {running.turn('READ two')}")
        chat.until("left the context")
        running.client.say(":mark HERE")
        chat.until("HERE")
        chat.line("hello")
        chat.until("belongs in the agent itself")
        running.client.say("three")
        screen = chat.until("> three")
        assert screen.count("left the context") == 1
        chat.press("C-d")
        chat.until("ended with 0")
    assert users(running) == ["one", "three"]
    assert "hello" not in json.dumps(running.texts())
