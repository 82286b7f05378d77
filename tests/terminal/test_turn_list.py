"""The list of the turns in the context, the cost of an edit, the edits, and the bar that leads to the list."""

import asyncio
import re
from collections.abc import Callable, Collection
from functools import partial

import pytest
from driven import Driven, driven, sample
from golden import check
from rich.cells import cell_len

from foldmark.chat.display.meter import meter
from foldmark.chat.display.turns import (
    Section,
    TurnRow,
    arranged,
    context_turns,
    edits,
    prices,
    results_named,
    span,
)
from foldmark.commands import REGISTRY
from foldmark.core.errors import CommandError
from foldmark.cost.filling import ORDER, RESULT, TURNLESS, Portion
from foldmark.cost.messages import BEFORE, OUT, SENT, Place
from foldmark.log import Agent, Log
from foldmark.terminal.meter import GAP, Bar, pieces
from foldmark.terminal.screens import TextScreen
from foldmark.terminal.side_screens.rows import RowList
from foldmark.terminal.side_screens.turns import LineInput, TurnsScreen
from sampled import DEEP
from stored import connection

# The values


def statements(log: Log, step: Callable[[], object]) -> int:
    """Return the number of SQL statements that a step runs."""
    ran: list[str] = []

    def trace(_: object, sql: str, __: object) -> bool:
        ran.append(sql)
        return True

    connection(log).exec_trace = trace
    try:
        step()
    finally:
        connection(log).exec_trace = None
    return len(ran)


def test_the_list_holds_what_the_request_holds(log: Log) -> None:
    found = context_turns(sample(log))
    turns = {row.id: row for row in found.rows if not row.tool}
    results = {row.turn: row for row in found.rows if row.tool}
    assert list(turns) == list(results) == [18, 12, 1]
    assert [row.title for row in results.values()] == [
        "list_files src/export",
        "bash pytest tests/export",
        "read_file tags.py",
    ]
    assert sum(row.tokens for row in turns.values()) < found.tokens
    assert all(results[turn].tokens < turns[turn].tokens for turn in turns)
    assert {row.calls for row in turns.values()} == {1}
    assert found.back == 17
    sent, out = found.sections
    assert (sent.place, sent.size.messages, sent.older) == (SENT, 12, 0)
    assert sent.size.tokens == sum(row.tokens for row in turns.values())
    assert (out.place, out.size.messages, out.older) == (OUT, 4, 4)


def test_each_place_has_its_turns(log: Log) -> None:
    agent = sample(log)
    agent.do("/context window 1")
    few = context_turns(agent)
    assert [(each.place, each.size.messages, each.older) for each in few.sections] == [
        (SENT, 4, 0),
        (BEFORE, 8, 8),
        (OUT, 4, 4),
    ]
    found = context_turns(agent, {BEFORE: 100, OUT: 100})
    assert [each.older for each in found.sections] == [0, 0, 0]
    places = {row.id: row.place for row in found.rows if not row.tool}
    assert places == {18: SENT, 12: BEFORE, 1: BEFORE, 7: OUT}
    assert {row.id: row.back for row in found.rows if row.back} == {7: "/restore 17"}
    size = found.sections[1].size
    assert abs(sum(row.tokens for row in found.rows if row.place == BEFORE) - size.tokens) <= size.messages
    paged = context_turns(agent, {BEFORE: 4})
    assert [row.id for row in paged.rows if row.place == BEFORE] == [12]
    assert paged.sections[1].older == 4


def test_orders_and_filters(log: Log) -> None:
    found = context_turns(sample(log))

    def ids(order: str, wanted: str = "", opened: Collection[int | Place] = (SENT, 1, 12, 18)) -> list[int]:
        return [line.id for line in arranged(found, order, wanted, opened) if isinstance(line, TurnRow)]

    assert ids("newest") == [18, 20, 12, 14, 1, 3]
    assert ids("size") == [1, 3, 12, 14, 18, 20]
    assert ids("size", "", (SENT, 12)) == [1, 12, 14, 18]
    assert ids("size", "", ()) == []
    assert ids("results") == [3, 14, 20]
    assert ids("kind") == [3, 14, 20, 1, 12, 18]
    assert ids("size", "bash", ()) == [12, 14]  # the tool, and the turn that called it
    assert ids("size", "pytest") == [12, 14]
    assert ids("size", "simple way") == [18]
    assert ids("size", "user") == [1, 12, 18]
    assert arranged(found, "size", "tools") == []
    assert [line.place for line in arranged(found, "size") if isinstance(line, Section)] == [SENT, OUT]


def test_a_rule_names_results_by_size_and_tool(log: Log) -> None:
    rows = context_turns(sample(log)).rows
    assert results_named(rows, "over 5") == {3, 14, 20}
    assert results_named(rows, "> 0.118k") == results_named(rows, " over  118 ") == {3}
    assert results_named(rows, "read_file") == results_named(rows, "READ_FILE over 10") == {3}
    for wrong in ("", "over", "over many", "nothing", "bash over 2K", "bash 500", "over 1.2.3"):
        with pytest.raises(
            CommandError, match=r"names no result; say `over 2K`, a tool \(bash, list_files, read_file\)"
        ):
            results_named(rows, wrong)


def test_ticks_become_ids_and_a_span(log: Log) -> None:
    rows = context_turns(sample(log)).rows
    assert edits(rows, {12, 3}) == ([12], [3, 14])
    assert edits(rows, {14}) == ([], [14])
    assert span(rows, [12, 18]) == "12..18"
    with pytest.raises(CommandError, match="tick 12 as well"):
        span(rows, [1, 18])


def test_a_price_says_what_breaks_and_when_it_is_even(log: Log) -> None:
    agent = sample(log)
    agent.configure("model", "anthropic/claude-sonnet-4-5")
    rows = context_turns(agent).rows
    drop, evict, summary = prices(agent, rows, {12})
    assert (summary.key, summary.what) == ("s", "summarizes 1 turn")
    assert summary.text.startswith(f"the model reads {next(row.tokens for row in rows if row.id == 12)} once")
    assert "follow each other" in prices(agent, rows, {1, 18})[-1].text
    for each, what in ((drop, "drops 1 turn"), (evict, "evicts 1 result")):
        assert each.what == what
        for said in (" → ", "% of the cached prompt breaks, $0.", " more once", " less a request from then on", "even"):
            assert said in each.text, each.text


def test_the_cost_of_the_list_follows_the_window(log: Log) -> None:
    def filled(name: str, turns: int) -> Agent:
        agent = log.agent(name)
        with agent.batch():
            for number in range(turns):
                agent.append("user", f"Question {number} " * 20)
                agent.append("assistant", "Answer " * 20)
                agent.end_turn()
        agent.configure("sliding_context_tokens", 20_000)
        return agent

    agents = (filled("small", 400), filled("large", 4000 if DEEP else 1200))
    for agent in agents:
        found = context_turns(agent, {BEFORE: 100})  # everything that is read only once is read now
        assert len([row for row in found.rows if not row.sent]) == 50
        assert found.sections[1].older == agent.request().manifest.edge.before - 100
    for read in (lambda agent: context_turns(agent, {BEFORE: 100}), meter):
        few, many = (statements(log, partial(read, agent)) for agent in agents)
        assert few == many


def test_a_bar_has_its_width() -> None:
    shares = [
        Portion("system", "system", 300),
        Portion("user", "👩‍🚀 name", 500),
        *(Portion(RESULT, f"Tool{n}", n) for n in range(1, 90)),
    ]
    for width in (20, 78, 98, 200):
        found = pieces(shares, 4000, width)
        assert sum(each.tokens for each in (piece.share for piece in found)) == sum(s.tokens for s in shares) + 4000
        if width >= 78:
            assert sum(piece.columns for piece in found) == width
            assert min(piece.columns for piece in found) >= 1
            labels = [piece.label for piece in found if piece.label]
            assert sum(map(cell_len, labels)) + GAP * (len(labels) - 1) <= width


def test_the_legend_omits_what_is_free_before_it_merges_parts() -> None:
    shares = [Portion("tools", "tools", 1900), Portion("user", "user", 65), Portion("assistant", "assistant", 354)]
    assert [piece.label for piece in pieces(shares, 96_000, 56)] == [
        *("■ tools 1.9K", "■ user 65", "■ assistant 354"),
        "─ free 96K",
    ]
    assert [piece.label for piece in pieces(shares, 96_000, 40)] == [
        *("■ tools 1.9K", "■ user 65", "■ assistant 354"),
        "",
    ]
    assert [piece.label for piece in pieces(shares, 96_000, 39)] == ["■ tools 1.9K", "■ other 419", "─ free 96K"]


# The screen


async def opened(chat: Driven) -> RowList:
    """Open the list, and return its rows once they are shown."""
    await chat.press("f2")
    await chat.until(lambda: isinstance(chat.app.screen, TurnsScreen) and chat.app.screen.query(RowList))
    rows = chat.app.screen.query_one(RowList)
    await chat.until(lambda: rows.rows)
    return rows


@pytest.mark.parametrize(("name", "background"), [("turns", "0"), ("turns-light", "15")])
def test_the_screen_of_the_turns(log: Log, name: str, background: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORFGBG", f"7;{background}")
    agent = sample(log)
    agent.configure("model", "anthropic/claude-sonnet-4-5")

    async def look() -> None:
        async with driven(agent) as chat:
            await opened(chat)
            await chat.press("space")
            await chat.until("d drops 1 turn: ")
            await chat.still()
            check(chat.app, name)

    asyncio.run(look())


@pytest.mark.parametrize(
    ("width", "keys"),
    [
        (80, "Space tick d drop e evict u restore / filter o order t rule Esc back F1 keys"),
        (100, "Space tick d drop e evict u restore / filter o order t rule s summarize p pin Esc back F1 keys"),
    ],
)
def test_the_line_of_keys_names_the_most_important_ones(log: Log, width: int, keys: str) -> None:
    """While a line is typed, it names the keys of that line alone."""

    async def look() -> None:
        async with driven(sample(log), size=(width, 24)) as chat:
            await opened(chat)
            await chat.still()
            assert chat.screen.split("\n")[-1].strip() == keys
            await chat.press("e")
            await chat.until("a reason, or nothing")
            await chat.still()
            assert chat.screen.split("\n")[-1].strip() == "Enter done Esc cancel ^C stop F1 keys"
            assert "\n a reason" in chat.screen  # in the same column as the lines above it

    asyncio.run(look())


def test_ticked_turns_are_dropped_with_a_reason_and_come_back(log: Log) -> None:
    agent = sample(log)

    async def edit() -> None:
        async with driven(agent, size=(80, 24)) as chat:
            rows = await opened(chat)
            await chat.press("space")
            await chat.until("d drops 1 turn: ")
            assert agent.standing().newest == 22  # nothing was written
            await chat.press("d")
            await chat.until("/context drop 1 · Enter does it")
            await chat.press(*"old", "enter")
            await chat.until('✂ turn 1 dropped by you: "old"')
            await chat.until(lambda: 1 not in {row.id for row in rows.rows})
            assert not rows.ticked
            await chat.press("u")
            await chat.until(lambda: 1 in {row.id for row in rows.rows})
            await chat.until("taken back by you")

    asyncio.run(edit())
    done = [(event.kind, event.reason) for event in log.agent("notes").events(20) if event.kind in ("drop", "restore")]
    assert done == [("drop", "old"), ("restore", None)]


def test_results_are_evicted_turns_are_pinned_and_summed_up(log: Log) -> None:
    agent = sample(log)

    async def edit() -> None:
        async with driven(agent) as chat:
            rows = await opened(chat)
            await chat.press("down", "right")
            await chat.until(lambda: 14 in {row.id for row in rows.rows})
            await chat.press("down", "d")
            await chat.until("A result leaves with its turn only")
            await chat.press("e")
            await chat.until("/context evict 14 · Enter")
            await chat.press("enter")
            await chat.until("1 result evicted by you")
            await chat.until(lambda: [row.id for row in rows.rows if row.evicted] == [14])
            await chat.press("home", "down", "p")
            await chat.until("📌")
            await chat.press("p")
            await chat.until(lambda: not any(row.pinned for row in rows.rows))
            await chat.press("s", "enter")
            await chat.until("✂ summary of")

    asyncio.run(edit())


def test_a_filter_ticks_what_it_finds_and_no_heading(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log)) as chat:
            rows = await opened(chat)
            await chat.press("slash", *"bash", "enter")
            await chat.until(lambda: [row.id for row in rows.rows] == [12, 14])
            await chat.press("a")
            assert rows.ticked == {14}
            await chat.until("1 result ticked: ")
            await chat.press("e")
            await chat.until("/context evict 14 · Enter does it")
            await chat.press("escape", "slash", *([*["backspace"] * 4]), *"whole test", "enter")
            rows.ticked = set()
            await chat.press("a")
            assert rows.ticked == {12}

    asyncio.run(look())


@pytest.mark.parametrize(("key", "says"), [("d", "d drops 1 turn: "), ("e", "e evicts 1 result: ")])
def test_an_edit_at_the_cursor_shows_its_price_before_it_is_made(log: Log, key: str, says: str) -> None:
    async def look() -> None:
        async with driven(sample(log)) as chat:
            await opened(chat)
            assert says not in chat.screen
            await chat.press(key)
            await chat.until("1 turn at the cursor: ")
            await chat.until(says)
            await chat.press("escape")
            await chat.until(lambda: "at the cursor" not in chat.screen)

    asyncio.run(look())


def test_sections_and_turns_fold(log: Log) -> None:
    async def look() -> None:
        async with driven(sample(log)) as chat:
            rows = await opened(chat)
            assert "▸ Out · 4 messages, " in chat.screen
            assert "read_file" not in chat.screen
            await chat.press("down", "right")
            await chat.until("└ bash pytest tests/export")
            await chat.press("down", "left")  # from a result, its turn is folded
            await chat.until(lambda: "└ bash" not in chat.screen)
            await chat.press("end", "enter")
            await chat.until("Try a plugin system for exporters.")
            await chat.press("down", "space")
            assert not rows.ticked  # what is out cannot be taken out
            await chat.press("d")
            await chat.until("That turn is out already; u brings it back.")
            await chat.press("u")
            await chat.until("taken back by you")
            await chat.until(lambda: 7 in {row.id for row in rows.rows if row.sent})
            await chat.press("home", "left")
            await chat.until(lambda: not rows.rows)
            await chat.until("▸ Sent")

    asyncio.run(look())


def test_results_are_ticked_by_a_rule_and_when_they_are_superseded(log: Log) -> None:
    agent = log.agent("notes")
    read = {"path": "parser.py"}
    for number in range(3):
        agent.append("user", f"Look {number}")
        agent.append_tool_call("read_file", read, call_id=f"c{number}")
        agent.append_tool_result(f"c{number}", "def parse(text): pass\n" * 12)
        agent.append("assistant", "I see.")
        agent.end_turn()
    results = [row.id for row in context_turns(agent).rows if row.tool]

    async def look() -> None:
        async with driven(agent) as chat:
            rows = await opened(chat)
            await chat.until("x ticks 2 results that later calls superseded: ")
            await chat.press("x")
            await chat.until("2 results ticked: ")
            assert rows.ticked == {*sorted(results)[:2]}
            assert "└ read_file parser.py" in chat.screen  # they are shown
            await chat.press("a", "a", "t", *"read_file over 5", "enter")
            await chat.until("3 results ticked: ")
            await chat.press("t", *"over 9k", "enter")
            await chat.until("“over 9k” names no result")
            assert rows.ticked == {*results}

    asyncio.run(look())


def test_a_refused_edit_says_why(log: Log) -> None:
    agent = sample(log)

    async def edit() -> None:
        async with driven(agent) as chat:
            await opened(chat)
            agent.do("/context drop 1")  # as another program might meanwhile
            await chat.press("d", "enter")
            await chat.until(lambda: [each.severity for each in chat.app._notifications] == ["error"])
            await chat.press("escape")
            await chat.until("foldmark: turn 1 is not in the context")

    asyncio.run(edit())


def test_a_turn_opens_whole_and_hostile_text_stays_text(log: Log) -> None:
    agent = log.agent("notes")
    agent.append("user", "[bold]Look[/] \x1b[31m at this")
    agent.append_tool_call("to[/]ol\x07", {"x": "\x1b]0;t\x07"}, call_id="c")
    agent.append_tool_result("c", "line\n" * 300 + "\x1b[2J the end")
    agent.append("assistant", "Done.")
    agent.end_turn()

    async def look() -> None:
        async with driven(agent) as chat:
            await opened(chat)
            assert r"[bold]Look[/] \x1b[31m at this" in chat.screen
            await chat.press("enter")
            await chat.until(lambda: isinstance(chat.app.screen, TextScreen))
            await chat.until("Turn 1: 4 messages")
            await chat.press("escape")
            await chat.until("sort: ▾ size")

    asyncio.run(look())


def test_the_bar_leads_to_the_turns_of_its_part(log: Log) -> None:
    async def choose() -> None:
        async with driven(sample(log)) as chat:
            await chat.until("■ tools")
            bar = chat.app.chat.query_one(Bar)
            bar.focus()
            names = [piece.share.name for piece in bar.pieces]
            await chat.press(*["right"] * names.index("bash"), "enter")
            await chat.until("filter: bash")
            await chat.until("bash pytest tests/export")
            assert "read_file" not in chat.screen
            await chat.press("slash")
            await chat.until(lambda: isinstance(chat.app.focused, LineInput))
            await chat.press("escape")
            await chat.until("Why does the import of tags fail?")

    asyncio.run(choose())


def test_a_part_of_the_bar_that_belongs_to_no_turn_says_where_it_is_changed(log: Log) -> None:
    """The list of turns would be empty; filtered by such a kind, it says the same."""

    async def choose() -> None:
        async with driven(sample(log)) as chat:
            await chat.until("■ tools")
            bar = chat.app.chat.query_one(Bar)
            bar.focus()
            for kind in (piece.share.kind for piece in bar.pieces[:2]):
                await chat.press("enter", "right")
                await chat.until(lambda: chat.app._notifications)
                assert [each.message for each in chat.app._notifications] == [TURNLESS[kind]]
                chat.app.clear_notifications()
                assert chat.app.screen is chat.app.chat
            await opened(chat)
            await chat.press("slash", *"tools")
            await chat.until(TURNLESS["tools"])

    asyncio.run(choose())


@pytest.mark.parametrize("kind", TURNLESS)
def test_where_a_part_of_the_bar_is_changed_names_real_commands(log: Log, kind: str) -> None:
    assert kind in ORDER
    for line in re.findall(r"/([a-z]+(?: [a-z]+)?)", TURNLESS[kind]):
        assert {line, line.split()[0]} & {*REGISTRY.commands}, line
    for change in re.findall(r"/config set \S+\w", TURNLESS[kind]):
        sample(log).do(change)
