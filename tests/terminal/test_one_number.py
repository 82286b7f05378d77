"""A message has one size and one place, on whatever screen it is shown."""

import asyncio
import re
from collections.abc import Callable

import pytest
from driven import Driven, driven
from textual.widgets import OptionList

from foldmark.chat.completion import complete
from foldmark.chat.display.operated import brief
from foldmark.chat.display.overview import agents
from foldmark.chat.display.turns import Section, context_turns
from foldmark.commands import REGISTRY
from foldmark.cost.filling import shares
from foldmark.cost.messages import next_messages
from foldmark.log import Agent, Log
from foldmark.terminal.review import ReviewPanel
from foldmark.terminal.side_screens.rows import RowList
from foldmark.terminal.side_screens.turns import TurnsScreen

MODELS = ("offline", "anthropic/claude-sonnet-4-5", "openai/gpt-5")
"""Models whose tokens have different numbers of bytes."""


def conversation(log: Log, model: str) -> Agent:
    """Return a conversation with long and escaped results, something before the window, something out, a pinned turn
    and an evicted result."""
    agent = log.agent("notes")
    agent.configure("model", model)
    texts = ('line of "output"\t\\ n\n' * 150, "short", "日本語のテキスト\n" * 40, "x" * 5000)
    turns = []
    for number in range(8):
        turns.append(agent.append("user", f"Question {number} about tables"))
        agent.append_tool_call("bash", {"command": f"echo {number}"}, call_id=f"c{number}")
        agent.append_tool_result(f"c{number}", texts[number % 4])
        agent.append("assistant", f"Answer {number} is **short**.")
        agent.end_turn()
    agent.do(f"/context drop {turns[5]}")
    agent.do(f"/pin {turns[0]}")
    agent.do(f"/context evict {turns[4] + 2}")
    agent.do("/context window 4")
    return agent


def sizes(agent: Agent) -> dict[int, int]:
    """Return the tokens of each turn, as the one who knows them says."""
    with agent.reading() as (moment, at):
        coming = next_messages(agent, moment, at)
        found: dict[int, int] = {}
        for event in moment.select(at.lineage):
            found[event.turn_id or 0] = found.get(event.turn_id or 0, 0) + coming.tokens(event)
    return found


@pytest.mark.parametrize("model", MODELS)
def test_every_screen_shows_the_same_sizes(log: Log, model: str) -> None:
    agent = conversation(log, model)
    known = sizes(agent)
    shown = {turn: brief(tokens) for turn, tokens in known.items()}

    async def look() -> None:
        async with driven(agent, size=(140, 90)) as chat:
            await chat.still()
            request = agent.request()
            await chat.until(f"{brief(request.tokens)} of")  # the meter waits for the tokenizer
            await compare_the_transcript(chat, shown)
            await compare_the_turns(chat, shown, brief(request.tokens))
            await compare_the_review(chat, known)

    asyncio.run(look())


async def compare_the_transcript(chat: Driven, shown: dict[int, str]) -> None:
    await chat.press("tab", "home")
    await chat.still()
    rows = re.compile(r"turn (\d+)(?: · 1 call)? +([\d.]+[KM]?)")
    await chat.until(lambda: len(found := rows.findall(chat.screen)) >= 6 and are_known(found, shown))
    chat.app.chat.prompt.focus()


async def compare_the_turns(chat: Driven, shown: dict[int, str], request: str) -> None:
    await chat.press("f2")
    await chat.until(lambda: isinstance(chat.app.screen, TurnsScreen))
    await chat.until("▸ Out")
    await chat.until(f"next request {request}")
    await chat.press("end", "right")
    await chat.until("/restore")
    rows = chat.app.screen.query_one(RowList)
    await chat.press("up")
    await chat.until(lambda: rows.current == found_section(rows, "before the window"))
    await chat.press("right")
    await chat.until(lambda: len([row for row in rows.rows if not row.tool]) == 8)
    listed = re.compile(r"(?:\[.\]|   )[ ▸▾]+(\d+)  Question \d about tables(?: 📌)? +([\d.]+[KM]?) ")
    await chat.until(lambda: len(found := listed.findall(chat.screen)) == 8 and are_known(found, shown))
    await chat.press("escape")


def are_known(found: list[tuple[str, str]], shown: dict[int, str]) -> bool:
    """Return True if each turn that was found on the screen has its size there."""
    return all(size == shown[int(turn)] for turn, size in found)


def found_section(rows: RowList, place: str) -> Section:
    return next(line for line in rows.lines if isinstance(line, Section) and line.place == place)


async def compare_the_review(chat: Driven, known: dict[int, int]) -> None:
    turn = max(known)
    await chat.type(f"/forget messages {turn}-{turn + 3}")
    await chat.until("Carry out what is ticked")
    ranges = chat.app.chat.query_one(ReviewPanel).query_one(OptionList)
    await chat.until(lambda: ranges.has_focus)
    found = re.search(r"\[x\] 1 .*~([\d,]+) token", chat.screen)
    leave = re.search(r"messages \(~([\d,]+) tokens?\) leave", chat.screen)
    assert found is not None
    assert leave is not None
    with chat.app.chat.agent.reading() as (moment, at):
        coming = next_messages(chat.app.chat.agent, moment, at)
        inside = [event for event in moment.select(at.visible) if turn <= event.id <= turn + 3]
        # The log has gone on, and another request divides its tokens among its messages anew.
        assert _number(found[1]) == pytest.approx(coming.total(inside), abs=len(inside))
    assert _number(leave[1]) == _number(found[1])
    await chat.press("escape")
    await chat.until(lambda: not chat.app.chat.query(ReviewPanel))


def _number(text: str) -> int:
    return int(text.replace(",", ""))


@pytest.mark.parametrize("model", MODELS)
def test_every_list_shows_the_same_sizes(log: Log, model: str) -> None:
    agent = conversation(log, model)
    known = sizes(agent)
    listed = agent.do("/message list 20").text
    for turn, size in re.findall(r"Turn +(\d+) .*? messages?, ~([\d,]+) tokens", listed):
        assert _number(size) == known[int(turn)]
    request = agent.do("/context show").text
    heads = re.findall(r"^Turn (\d+) · ~([\d,]+) token", request, re.MULTILINE)
    assert len(heads) == 5  # four turns of the window, and the pinned one
    for turn, size in heads:
        assert _number(size) == known[int(turn)]
    for candidate in complete(REGISTRY, agent, "/context drop ").candidates:
        assert _number(candidate.help.rpartition("~")[2]) == known[int(candidate.text)]
    rows = {row.id: row for row in context_turns(agent).rows}
    results = complete(REGISTRY, agent, "/context evict ").candidates
    assert results
    for candidate in results:
        if (row := rows.get(int(candidate.text))) is not None:
            assert candidate.help.startswith(f"~{row.tokens:,} ")


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_of_a_request_add_up(log: Log, model: str) -> None:
    agent = conversation(log, model)
    with agent.reading() as (moment, at):
        request = agent.request()
        coming = next_messages(agent, moment, at)
        parts = coming.portions
        inside = sum(coming.tokens(event) for event in moment.select(at.visible) if coming.place(event) == "sent")
        whole = coming.of(at)
        assert whole.messages == at.size.messages
        assert whole.tokens == pytest.approx(coming.total(moment.select(at.visible)), abs=len(parts))
    assert sum(each.tokens for each in shares(parts)) == request.tokens
    found = context_turns(agent)
    assert sum(row.tokens for row in found.rows if not row.tool) == inside == found.sections[0].size.tokens


PLACES: dict[str, Callable[[Agent, int], str]] = {
    "list": lambda agent, turn: next(
        line.split(" · ")[3] for line in agent.do("/message list 20").text.splitlines() if f"Turn {turn:>6} " in line
    ),
    "show": lambda agent, turn: agent.do(f"/message show {turn}").text.splitlines()[0].split(", ")[1].split(" · ")[0],
    "explain": lambda agent, turn: re.findall(
        r"^It is (.*?):", agent.do(f"/context explain {turn}").text, re.MULTILINE
    )[0],
    "turns": lambda agent, turn: next(
        row.place
        for row in context_turns(agent, {"before the window": 100, "out": 100}).rows
        if row.id == turn and not row.tool
    ),
}
"""How each interface names the place of a turn."""


def test_every_interface_names_the_same_place(log: Log) -> None:
    agent = conversation(log, "offline")
    turns = sorted(sizes(agent))
    expected = dict.fromkeys(turns, "sent")
    expected |= {turns[5]: "out", **dict.fromkeys(turns[1:3], "before the window")}
    shown = {name: {turn: place(agent, turn) for turn in turns} for name, place in PLACES.items()}
    assert {name: found for name, found in shown.items() if found != expected} == {}
    runs = agent.do("/recall question").data["runs"]
    hits = {turn: run["where"] for run in runs for turn in run["turns"] if len(run["turns"]) == 1}
    assert all(where.startswith(expected[turn]) for turn, where in hits.items())


def test_what_was_recorded_is_named_so(log: Log) -> None:
    """Sizes that are not those of the next request say what they are."""
    agent = conversation(log, "anthropic/claude-sonnet-4-5")
    agent.do("/undo")
    agent.do("/mark HERE")
    agent.append("user", "More of it")
    agent.end_turn()
    for command in ("/operations", "/marks", "/agents"):
        for line in agent.do(command).text.splitlines():
            assert line.count("token") == line.count("recorded token"), line
    assert len(agents(agent)) == 1

    async def look() -> None:
        async with driven(agent, size=(120, 90)) as chat:
            await chat.still()
            await chat.press("tab", "home")
            await chat.still()
            dropped = re.search(r"✂ turn \d+ dropped by you · 1 turn, [\d.K]+ recorded ", chat.screen)
            assert dropped is not None, chat.screen
            await chat.press("escape", "f4")
            await chat.until("⚑ HERE · ")
            assert re.search(r"⚑ HERE · 1 message, [\d.K]+\s+recorded", chat.screen)

    asyncio.run(look())
