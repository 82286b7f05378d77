"""The transcript: its view of the log, the keys for its entries, and harmful texts."""

import asyncio
from collections.abc import Callable

import pytest
from driven import Driven, driven, sample
from textual.geometry import Size

from foldmark.chat.display.operated import brief
from foldmark.chat.display.pages import Pages, Place, read
from foldmark.chat.display.transcript import (
    Entry,
    Flag,
    Gap,
    Operated,
    Page,
    Said,
    ToolCallGroup,
    WindowEdge,
    page,
)
from foldmark.cost.messages import NextMessages
from foldmark.log import Agent, Log
from foldmark.terminal.scrollback.answer import LONGEST, Answer, parted, settled
from foldmark.terminal.scrollback.transcript import Transcript
from sampled import DEEP
from steps import steps, work

DEPTH = 5_000 if DEEP else 2_000
HARM = {
    "escape": "\x1b[31mred\x1b]0;title\x07\x9b2J",
    "bidi": "abc\u202edcba\u2066x\u2069\u2028line",
    "markup": "[bold red]x[/] [@click=app.quit]y[/] [link=file:///etc]z[/link]",
    "markdown": "[a](javascript:alert) ![i](http://x/y.png) <b>&#27;[31m &#x202e;</b>",
    "tabs": "a\tb\tc",
    "surrogate": "a\ud800b\udfff",
    "zero width": "a\u200bb\u200d\ufeffc\u0301\u0301",
    "one long line": "x" * (1_000_000 if DEEP else 100_000),
    "many lines": "y\n" * (50_000 if DEEP else 10_000),
    "wide": "日本語のテキスト👩‍👩‍👧‍👦 " * 40,
    "deep": "> " * DEPTH + "[" * DEPTH + "*a" * DEPTH,
    "table": "|" * 300 + "\n" + "|-" * 300 + "|\n" + "|a" * 300 + "|",
}
LONG = {name: text for name, text in HARM.items() if len(text) > 1_000}
TEXTS = HARM if DEEP else {"short ones": "\n\n".join(text for text in HARM.values() if len(text) <= 1_000)} | LONG

NEWEST, NOTHING = Place("end"), Pages()


def entries(agent: Agent, place: Place = NEWEST, known: Pages = NOTHING) -> list[Entry]:
    return [entry for page in read(agent, place, known).kept for entry in page.entries]


def talk(agent: Agent, turns: int) -> list[int]:
    """Append turns of one message each, and return their ids."""
    ids = []
    with agent.batch():
        for number in range(turns):
            ids.append(agent.append("user", f"number {number}"))
            agent.end_turn()
    return ids


def drive(agent: Agent, steps: Callable[[Driven, Transcript], object], size: tuple[int, int] = (100, 30)) -> None:
    async def run() -> None:
        async with driven(agent, size=size) as chat:
            await chat.still()
            await steps(chat, chat.app.chat.transcript)  # type: ignore[misc]

    asyncio.run(run())


# Content


def test_a_page_has_turns_calls_marks_operations_and_what_left(log: Log) -> None:
    found = entries(sample(log))
    assert [type(entry) for entry in found] == [
        *(Said, ToolCallGroup, Said, Flag, Gap, Said, ToolCallGroup, Said, Operated, Said, ToolCallGroup, Said)
    ]
    gap = next(entry for entry in found if isinstance(entry, Gap))
    assert gap.line == '✂ turn 7 dropped by you: "led nowhere" · 1 turn, 383 recorded'
    assert gap.back == "/restore 17"
    first = found[0]
    assert isinstance(first, Said)
    assert first.opens is not None
    assert first.opens.calls == 1


def long_turn(agent: Agent, calls: int) -> None:
    """Append a turn of so many calls, and a turn behind it."""
    with agent.batch():
        agent.append("user", "Do it all.")
        for number in range(calls):
            agent.append_tool_call("bash", {"command": "ls"}, call_id=f"c{number}")
            agent.append_tool_result(f"c{number}", "text")
        agent.append("assistant", "Done.")
        agent.end_turn()
        agent.append("user", "Thanks.")
        agent.end_turn()


def beginning(agent: Agent) -> Page:
    with agent.reading() as (moment, at):
        return page(moment, at, NextMessages(moment, at, None), after=-1)


def test_a_turn_that_the_page_cuts_has_its_whole_size(log: Log) -> None:
    for calls, counted in ((200, 200), (600, 0)):
        agent = log.agent(f"long {calls}")
        long_turn(agent, calls)
        first = beginning(agent).entries[0]
        assert isinstance(first, Said)
        assert first.opens is not None
        thanks = agent.context().messages[-1].tokens
        assert (first.opens.tokens, first.opens.calls) == (agent.context().size.tokens - thanks, counted)


def test_the_cost_of_a_page_does_not_grow_with_its_turn(log: Log) -> None:
    short, long = log.agent("short"), log.agent("long")
    long_turn(short, 1_000)
    long_turn(long, 4_000)
    few, many = (steps(log, lambda agent=agent: beginning(agent)) for agent in (short, long))  # type: ignore[misc]
    assert many < 1.1 * few
    lines, more = (work(lambda agent=agent: beginning(agent)) for agent in (short, long))  # type: ignore[misc]
    assert more < 1.1 * lines


def test_the_next_request_is_made_once_for_each_state_of_the_log(log: Log) -> None:
    agent = log.agent("long")
    long_turn(agent, 500)
    known = read(agent, Place("end"), Pages())
    first = steps(log, lambda: read(agent, Place("beginning"), Pages()))
    again = steps(log, lambda: read(agent, Place("beginning"), known))
    assert again < 0.6 * first
    assert read(agent, Place("beginning"), known).coming is known.coming
    agent.do("/context window 1")
    assert read(agent, Place("same"), known).coming is not known.coming


def test_an_operation_directly_behind_what_it_took_is_one_line(log: Log) -> None:
    agent = log.agent("notes")
    *_, newest = talk(agent, 3)
    agent.do(f"/context drop {newest}")
    assert [type(entry) for entry in entries(agent)] == [Said, Said, Gap]


def test_what_left_is_opened_page_by_page(log: Log) -> None:
    agent = log.agent("notes")
    ids = talk(agent, 200)
    agent.do("/clear")
    (gap,) = entries(agent)
    assert isinstance(gap, Gap)
    known = read(agent, Place("end"), Pages(opened=gap.segments))
    shown = [entry for page in known.kept for entry in page.entries if isinstance(entry, Said)]
    assert shown
    assert all(entry.left for entry in shown)
    assert len(shown) < 100
    while known.kept[0].older:
        known = read(agent, Place("older"), known)
    kept = [entry.id for page in known.kept for entry in page.entries if isinstance(entry, Said)]
    assert kept == ids
    assert read(agent, Place("event", ids[90]), Pages()).opened


def test_pages_join_without_a_gap_in_both_directions(log: Log) -> None:
    agent = log.agent("notes")
    with agent.batch():
        for number in range(30):
            turn = agent.append("user", f"turn {number}")
            for call in range(number * 5):
                agent.append_tool_call("bash", {"command": str(call)}, call_id=f"{turn}-{call}")
                agent.append_tool_result(f"{turn}-{call}", "done")
            agent.append("assistant", "done")
            agent.end_turn()
    up, down = read(agent, Place("end"), Pages()), read(agent, Place("beginning"), Pages())
    seen = [{entry.id for page in known.kept for entry in page.entries} for known in (up, down)]
    for at, (known, place) in enumerate(((up, "older"), (down, "newer"))):
        pages = list(known.kept)
        while pages[0].older if place == "older" else pages[-1].newer:
            known = read(agent, Place("older" if place == "older" else "newer"), known)
            pages = list(known.kept)
            seen[at] |= {entry.id for page in pages for entry in page.entries}
    assert {entry for entry in seen[0] if entry} >= {
        entry.id for entry in agent.context().messages if entry.kind == "user"
    }
    assert {event.id for event in agent.context().messages if event.kind == "assistant"} <= seen[1]


def test_the_edge_is_shown_where_the_window_begins(log: Log) -> None:
    agent = log.agent("notes")
    ids = talk(agent, 10)
    agent.do("/config set context_size=4")
    found = entries(agent)
    edge = next(entry for entry in found if isinstance(entry, WindowEdge))
    assert (edge.id, edge.before.messages) == (ids[6], 6)
    assert [entry.outside for entry in found if isinstance(entry, Said)] == [True] * 6 + [False] * 4


def test_an_evicted_result_says_so_and_how_it_comes_back(log: Log) -> None:
    agent = sample(log)
    result = next(event.id for event in agent.context().messages if event.kind == "tool_result")
    done = agent.do(f"/context evict {result}")
    calls = next(entry for entry in entries(agent) if isinstance(entry, ToolCallGroup))
    assert calls.calls[0].evicted == done.event_id


def test_sizes_are_short() -> None:
    assert [brief(each) for each in (0, 999, 1000, 9949, 21_400, 999_499, 1_200_000)] == [
        *("0", "999", "1.0K", "9.9K", "21K", "999K", "1.2M")
    ]


# Harmful texts


@pytest.mark.parametrize("harm", TEXTS.values(), ids=TEXTS)
def test_no_text_does_harm_wherever_it_stands(log: Log, harm: str) -> None:
    agent = log.agent("notes")
    agent.append("user", harm)
    agent.append_tool_call(harm[:5000], {"path": harm, harm[:100]: 1}, call_id="1")
    agent.append_tool_result("1", harm)
    agent.append("assistant", harm)
    agent.end_turn()
    gone = talk(agent, 1)[0]
    agent.do(f"/context drop {gone} -- {' '.join(harm[:500].split())}")

    async def look(chat: Driven, transcript: Transcript) -> None:
        transcript.add_line(harm)
        transcript.begin_answer()
        transcript.stream(lambda answer: answer.add_text(harm))
        await chat.until("streaming")
        transcript.end_answer()
        await chat.pilot.pause(0.2)
        transcript.focus()
        await chat.press("home")
        await chat.until(lambda: transcript.scroll_y == 0)
        width = transcript.scrollable_content_region.width
        for item in transcript._items:
            for strip in item.strips:
                assert not set("\x1b\x07\x9b\u202e\u2066\ud800\n\t") & set(strip.text)
                assert strip.cell_length <= width
        chat.app.screen.refresh()

    drive(agent, look, (80, 24))


def test_an_answer_that_streams_is_rendered_in_parts_that_are_not_rendered_again() -> None:
    answer, text = Answer(), ""
    answer.add_text("```" + "a" * 100 + "\n")
    for number in range(5_000):
        text += f"line {number}\n"
    answer.add_text(text)
    shown = [entry for entry in answer.entries if isinstance(entry, Said)]
    assert all(len(entry.text) <= LONGEST + 200 for entry in shown)
    assert all(entry.text.startswith("```") for entry in shown)
    assert settled("short\n\ntext") == 0
    assert parted("```py\na\nb", 8) == ("```py\na\n\n```", "```py\nb")


# Keys


def test_the_cursor_opens_and_folds(log: Log) -> None:
    async def look(chat: Driven, transcript: Transcript) -> None:
        await chat.press("tab", "home")
        await chat.until(lambda: transcript.current is not None and transcript.current.key[0] == 1)
        await chat.press("down")
        assert "17 more lines" in chat.screen
        await chat.press("enter", "enter")
        await chat.until(lambda: "17 more lines" not in chat.screen)
        await chat.press("enter", "enter")
        await chat.until("20 lines")
        await chat.press("escape")
        assert chat.app.chat.prompt.has_focus_within

    drive(sample(log), look)


def test_enter_offers_what_can_be_done_with_its_price(log: Log) -> None:
    agent = sample(log)

    async def look(chat: Driven, transcript: Transcript) -> None:
        await chat.press("tab", "home")
        await chat.until(lambda: transcript.current is not None and transcript.current.key[0] == 1)
        await chat.press("down", "enter", "down")
        await chat.until("Preview: eviction of result 3. Nothing was changed.")
        await chat.until("next request ~2,6")
        assert not agent.context().evicted
        await chat.press("enter")
        await chat.until(lambda: log.agent("notes").context().evicted)
        await chat.until("placeholder is sent instead")
        transcript.jump(17)
        await chat.until(lambda: transcript.current is not None and transcript.current.key[0] == 17)
        await chat.press("enter", "down")
        await chat.until("take it back")
        await chat.press("enter")
        await chat.until("came back into the context")

    drive(agent, look)
    assert len(log.agent("notes").context().messages) == 16


@pytest.mark.parametrize(
    ("downs", "done", "says"),
    [
        (2, "rewind", "Preview: rewind"),
        (3, "fork", "/fork 12"),
        (4, "drop", "Preview: drop of turn 12"),
        (5, "pin", "/pin 12"),
    ],
)
def test_enter_on_a_prompt_offers_operations_on_its_turn(log: Log, downs: int, done: str, says: str) -> None:
    agent = sample(log)

    async def look(chat: Driven, transcript: Transcript) -> None:
        await chat.press("tab")
        transcript.jump(12)
        await chat.until(lambda: transcript.current is not None and transcript.current.key[0] == 12)
        await chat.press("enter", "escape", "enter", *["down"] * downs)
        await chat.until(says)
        await chat.press("enter")
        await chat.until(lambda: log.agent("notes").events(1)[-1].kind == done)

    drive(agent, look)


def test_typing_never_operates(log: Log) -> None:
    """Wherever the focus is, what is typed stands at the prompt, and nothing is done."""
    agent = sample(log)

    async def look(chat: Driven, transcript: Transcript) -> None:
        newest = agent.standing().newest
        for keys in (("tab", "home"), ("f3",), ("f4",)):
            await chat.press(*keys)
            await chat.until(lambda: not chat.app.chat.prompt.has_focus_within)
            await chat.press(*"eruk find ymf? ", *("space", "e"))
            await chat.still()
            assert chat.app.chat.prompt.text == "eruk find ymf?  e"
            assert chat.app.screen is chat.app.chat
            chat.app.chat.prompt.clear()
        assert agent.standing().newest == newest

    drive(agent, look)


def test_a_jump_opens_what_the_event_lies_in(log: Log) -> None:
    agent = log.agent("notes")
    ids = talk(agent, 300)
    agent.do("/clear")

    async def look(chat: Driven, transcript: Transcript) -> None:
        transcript.jump(ids[40])
        await chat.until("number 40")
        assert transcript.current is not None
        assert transcript.current.key == (ids[40], 0)
        transcript.jump(10_000)
        notices = chat.app._notifications  # under a pilot, the application does not show them
        await chat.until(lambda: "event 10000 is not in this conversation" in [each.message for each in notices])

    drive(agent, look)


def test_scrolling_reads_on_and_keeps_a_bounded_number_of_lines(log: Log) -> None:
    agent = log.agent("notes")
    talk(agent, 1_200)

    async def look(chat: Driven, transcript: Transcript) -> None:
        assert len(transcript._items) < 200
        transcript.focus()
        await chat.press("home")
        await chat.until("number 0")
        for number in (60, 120):
            await chat.until(lambda: bool(transcript._items))
            transcript.scroll_end(animate=False)
            await chat.until(lambda number=number: any(i.key[0] > number for i in transcript._items))  # type: ignore[misc]
        await chat.press("end")
        await chat.until("number 1199")
        assert len(transcript._items) < 1_000
        assert transcript.virtual_size > Size(0, 0)

    drive(agent, look)


@pytest.mark.parametrize("line", ["hello", "/marks"])
def test_a_typed_line_shows_the_end_again(log: Log, line: str) -> None:
    agent = log.agent("notes")
    ids = talk(agent, 1_200)

    async def look(chat: Driven, transcript: Transcript) -> None:
        transcript.jump(ids[600])
        await chat.until("number 600")
        await chat.type(line)
        await chat.until("I am the offline model" if line == "hello" else "No checkpoint yet")
        await chat.until(f"▌ {line}")

    drive(agent, look)
