"""The slider over the timeline: steps, the context and the request at a moment, their changes, and the way back."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from driven import Driven, driven, sample
from golden import check
from textual.widgets import Input

from foldmark.chat.display.moments import after, before, past, timeline, way_back
from foldmark.core.errors import CommandError
from foldmark.log import Agent, Log
from foldmark.request.recorded import newest_requests, request_at
from foldmark.terminal.dialogs import Question
from foldmark.terminal.side_screens.time import EventDialog, TimeScreen
from stored import connection, stored

MARK, DROP, NEWEST = 6, 17, 21
"""Events of the sample: its operations, and its newest message."""


def looked_at(agent: Agent, look: Callable[[Driven], Awaitable[None]], *, line: str = "") -> None:
    """Open the screen, by its key or by a line, and run `look`."""

    async def run() -> None:
        async with driven(agent) as chat:
            await (chat.type(line) if line else chat.press("f5"))
            await chat.until(f"event {NEWEST} of 22")
            await look(chat)

    asyncio.run(run())


def statements(log: Log, act: Callable[[], object]) -> int:
    ran = 0

    def trace(*_: object) -> bool:
        nonlocal ran
        ran += 1
        return True

    connection(log).exec_trace = trace
    try:
        act()
    finally:
        connection(log).exec_trace = None
    return ran


# The values


def test_steps_go_to_messages_and_operations(log: Log) -> None:
    agent = sample(log)
    line = timeline(agent)
    assert (line.first, line.newest, list(line.operations)) == (1, 22, [MARK, DROP])
    places = [line.first]
    while (following := after(agent, line, places[-1])) != places[-1]:
        places.append(following)
    assert places == [1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 17, 18, 19, 20, 21]
    way = [line.newest + 1]
    while (earlier := before(agent, line, way[-1])) != way[-1]:
        way.append(earlier)
    assert way[:0:-1] == places
    assert [line.operation_before(each) for each in (22, DROP, MARK, 1)] == [DROP, MARK, 1, 1]
    assert [line.operation_after(each) for each in (1, MARK, DROP, 21)] == [MARK, DROP, DROP, 21]
    assert line.line(21, 1, 22) == "◆────⚑──────────✂───█─"
    assert len(line.line(DROP, None, 7)) == 7


def test_a_moment_shows_its_event_and_the_context_at_that_time(log: Log) -> None:
    agent = sample(log)
    line = timeline(agent)
    drop = past(agent, line, DROP)
    assert drop.head.startswith(
        "2026-03-02 09:00 · you · drop of turn 7 · reason: led nowhere · context 12 messages (~"
    )
    assert ") → 8 messages (~" in drop.head
    assert drop.changed.splitlines()[0] == "Changed with this event:"
    assert "− turn 7: 4 messages, ~" in drop.changed
    assert "Try a plugin" not in drop.shown
    assert "Try a plugin" in past(agent, line, DROP - 1).shown
    first = past(agent, line, 1)
    assert "context 0 messages (~0 tokens) → 1 message (~" in first.head
    assert "+ turn 1: 1 message" in first.changed
    assert past(agent, line, 5).changed == "Nothing changed in the context with this event."
    both = [past(agent, line, *pair).changed for pair in ((NEWEST, MARK), (MARK, NEWEST))]
    assert both[0] == both[1]
    assert both[0].splitlines()[0].startswith(f"From event {MARK} to {NEWEST}: 4 messages (~")
    assert both[0] == agent.do(f"/context diff {MARK} {NEWEST}").text


def test_a_fork_begins_with_what_was_handed_down(log: Log) -> None:
    parent = sample(log)
    child = log.agent(str(parent.do("/fork BEFORE_PLUGINS").data["child"]))
    born = timeline(child)
    assert (born.first, dict(born.operations)) == (23, {})
    child.append("user", "go on")
    line = timeline(child)
    assert before(child, line, line.newest) == 23
    assert "+ turn 12: 4 messages" in past(child, line, 23).changed
    with pytest.raises(CommandError, match="was born with event 23"):
        past(child, line, 4)


def test_the_request_of_a_moment(log: Log) -> None:
    agent = log.agent("notes")
    line = [(agent.append("user", f"question {number}"), _sent(agent), agent.end_turn()) for number in range(9)]
    found = [newest_requests(stored(log), agent.id, 20)[::-1], []]
    with log.store.read() as moment:
        for event in range(1, agent.standing().newest + 1):
            expected = next((each for each in reversed(found[0]) if each.event <= event), None)
            assert request_at(moment, agent.id, event) == expected
    shown = past(agent, timeline(agent), line[4][0], request=True).shown
    assert shown.startswith(f"Request {line[4][1]}, which went to offline for notes after event {line[4][0]}")
    assert "Rebuilt byte for byte: the same " in shown
    other = log.agent("other")
    event = other.append("user", "alone")
    assert past(other, timeline(other), event, request=True).shown.startswith(
        f"No request was sent up to event {event}."
    )


def _sent(agent: Agent) -> int:
    return agent.record_sent(agent.request()).number


def test_a_long_text_loses_its_middle(log: Log) -> None:
    agent = log.agent("notes")
    for number in range(200):
        agent.append("user", f"{number} " + "x" * 390)
    agent.end_turn()
    line = timeline(agent)
    shown = past(agent, line, line.newest).shown
    assert len(shown) < 41_000
    assert " characters …\n" in shown
    assert "199 xxx" in shown


def test_the_cost_of_a_moment_follows_the_operations_not_the_history(log: Log) -> None:
    counts = []
    for turns in (40, 1000):
        agent = log.agent(f"with {turns}")
        with agent.batch():
            for number in range(turns):
                agent.append("user", f"question {number}")
                agent.append("assistant", f"answer {number}")
                agent.end_turn()
        agent.do("/mark HERE")
        agent.append("user", "one more")
        line = timeline(agent)

        def act(agent: Agent = agent) -> None:
            found = timeline(agent)
            at = before(agent, found, found.newest)
            past(agent, found, at, after(agent, found, found.first))

        counts.append(statements(log, act))
        assert len(line.operations) == 1
    assert counts[0] == counts[1]


def test_a_way_back_with_its_price(log: Log) -> None:
    agent = sample(log)
    line = timeline(agent)
    question, command = way_back(agent, line.operations[DROP])
    assert command == f"/restore {DROP}"
    assert question.startswith(f"Preview: restore of operation {DROP}. Nothing was changed.\n  4 messages (~")
    fork = agent.do("/fork").event_id or 0
    with pytest.raises(CommandError, match="cannot be taken back"):
        way_back(agent, timeline(agent).operations[fork])


# The screen


def test_the_screen_of_time(log: Log) -> None:
    async def look(chat: Driven) -> None:
        await chat.press("pageup")
        await chat.until(f"event {DROP} of 22")
        await chat.still()
        check(chat.app, "time")

    looked_at(sample(log), look, line="/context at")


def test_keys_step_compare_and_jump(log: Log) -> None:
    async def look(chat: Driven) -> None:
        await chat.press(*["left"] * 5)
        await chat.until("event 15 of 22")
        await chat.press("d", "right")
        await chat.until("event 17 of 22 ◆ 15")
        await chat.until("From event 15 to 17")
        await chat.press("d", "home")
        await chat.until("event 1 of 22")
        assert "◆" not in chat.screen
        await chat.press("g")
        await chat.until(lambda: isinstance(chat.app.screen, EventDialog) and chat.app.screen.query(Input))
        await chat.press(*"16", "enter")
        await chat.until("event 15 of 22")
        await chat.press("end", "tab")
        await chat.until("No request was sent up to event 21")
        await chat.press("tab", "enter")
        await chat.until(lambda: not isinstance(chat.app.screen, TimeScreen))

    looked_at(sample(log), look)


def test_an_operation_is_taken_back(log: Log) -> None:
    async def look(chat: Driven) -> None:
        await chat.press("pageup", "enter")
        await chat.until(f"Carry out /restore {DROP}?")
        assert isinstance(chat.app.screen, Question)
        await chat.press("y", "enter")
        await chat.until("event 17 of 23")
        await chat.until("taken back by 23")

    agent = sample(log)
    looked_at(agent, look)
    assert 7 in [message.id for message in agent.context().messages]


def test_hostile_texts_and_an_empty_timeline(log: Log) -> None:
    agent = log.agent("notes")

    async def run() -> None:
        async with driven(agent) as chat:
            await chat.press("f5")
            await chat.until("No event yet.")
            await chat.press("left", "pageup", "home", "enter", "d", "tab")
            chat.app.submit("/note [bold]\x1b[31mred[/bold]")
            await chat.until("user: [bold]\\x1b[31mred[/bold]")

    asyncio.run(run())


def test_a_continued_line_keeps_its_indentation_at_any_width(log: Log) -> None:
    async def run() -> None:
        async with driven(sample(log), size=(80, 24)) as chat:
            await chat.press("f5")
            await chat.until(f"event {NEWEST} of 22")
            await chat.until("\n       answer to “Now the simple way: a")
            await chat.pilot.resize_terminal(120, 30)
            await chat.until("21 assistant: I looked at it, and the answer to “Now the")
            await chat.until("PgUp operation")

    asyncio.run(run())
