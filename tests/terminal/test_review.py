"""The review of an offer: its figures follow the ticks, and no message or offer is lost by accident."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from itertools import combinations
from pathlib import Path
from threading import Event as Signal

import pytest
from driven import Driven, driven, sample
from golden import check
from textual.widgets import OptionList, TextArea

import foldmark
from answering import answered_by
from foldmark.chat.display.review import review
from foldmark.core.agents import Size
from foldmark.core.errors import FoldmarkError
from foldmark.core.ports import Provider
from foldmark.core.request import Piece, Request, ToolCall
from foldmark.cost.messages import next_messages
from foldmark.log import Agent, Log
from foldmark.providers.offline import OfflineModel
from foldmark.sending.interruption import watched
from foldmark.terminal.dialogs import Question
from foldmark.terminal.review import CARRY_OUT, ReviewPanel
from foldmark.terminal.screens import TextScreen
from patience import LIMIT
from scripted import ScriptedProvider

Talk = Callable[[Driven], Awaitable[None]]

WANTED = "messages 3, 14, 20"
"""Criteria for three ranges. The first one names a result, and its call goes along."""


def conversation(log: Log) -> Agent:
    """Return a conversation of seven turns, with a tool call in the first and the third."""
    agent = log.agent("notes")
    for text in ("Which tables [bold]do[/] we need? 漢字", "Where \x1b[31mshall we eat?", "Is there an index?"):
        turn = agent.append("user", text)
        if "eat" not in text:
            agent.append_tool_call("grep", {"pattern": "index"}, call_id=f"call_{turn}", dialect="openai")
            agent.append_tool_result(f"call_{turn}", "no match in 3 files", dialect="openai")
        agent.append("assistant", f"About “{text}”.")
        agent.end_turn()
    for text in ("Good.", "And then?", "What is left?", "And now?"):
        agent.append("user", text)
        agent.end_turn()
    return agent


@pytest.fixture
def agent(log: Log) -> Agent:
    return conversation(log)


def talked(agent: Agent, talk: Talk, models: Callable[[str], Provider] = lambda _: OfflineModel()) -> None:
    async def run() -> None:
        async with driven(agent, models) as chat:
            await talk(chat)

    asyncio.run(run())


async def reviewed(chat: Driven, line: str = f"/forget {WANTED}") -> OptionList:
    """Type a line, wait for its review, and return the list of ranges."""
    if line:
        await chat.type(line)
    await chat.until("Anything else you type")
    ranges = chat.app.chat.query_one(ReviewPanel).query_one(OptionList)
    await chat.until(lambda: ranges.has_focus)
    return ranges


def there(agent: Agent) -> list[int]:
    """Return the ids of the messages in the context, as another program reads them."""
    agent.context()
    assert agent.open_turn is None
    return [message.id for message in agent.context().messages]


def closed(chat: Driven) -> Callable[[], bool]:
    return lambda: not chat.app.chat.query(ReviewPanel) and chat.app.idle


@pytest.mark.parametrize("mode", ["forget", "remember"])
def test_the_shown_effects_are_what_happens(tmp_path: Path, mode: str) -> None:
    """This holds for every choice of ranges."""
    for unticked in [each for size in range(3) for each in combinations((3, 14, 20), size)]:
        with foldmark.open(":memory:") as log:
            agent = conversation(log)
            before = sized(agent)
            agent.do(f"/{mode} {WANTED}")
            found = review(agent, unticked)
            assert found is not None
            assert found.chosen is not None
            assert found.chosen.before.messages == before.messages
            # Another request divides its form among its messages anew, and these texts are shorter than it.
            assert abs(found.chosen.before.tokens - before.tokens) <= 8 * before.messages
            gone = found.chosen.before.less(found.chosen.after)
            stays = [each for each in found.ranges if each.ids[0] not in unticked]
            matched = sum(each.matches.tokens + each.along.tokens for each in stays)
            assert mode == "remember" or gone.tokens == matched
            along = [each.along.messages for each in found.ranges]
            assert along == [0 if 3 in unticked else 1, 0, 0]
            assert bool(found.ranges[0].along_line(forgets=found.offer.forgets)) is (3 not in unticked)
            agent.do(found.command(unticked) or "")
            after = sized(agent)
            assert after.messages == found.chosen.after.messages
            assert review(agent) is None


def sized(agent: Agent) -> Size:
    """Return the size of the context, as its next request sends it."""
    with agent.reading() as (moment, at):
        return next_messages(agent, moment, at).of(at)


def test_a_choice_of_messages_inside_ranges_is_carried_out(log: Log) -> None:
    agent = log.agent("notes")
    turns = []
    for number in range(9):
        turns.append(agent.append("user", f"{'Lunch' if number in (3, 7) else 'Tables'} {number}"))
        agent.end_turn()
    agent.do("/forget tables")
    first = review(agent, (), (2,))
    assert first is not None
    assert [len(each.ids) for each in first.ranges] == [3, 3, 1]
    assert [each.id for each in first.ranges[1].messages] == turns[4:7]
    assert [each.title for each in first.ranges[1].messages] == ["Tables 4", "Tables 5", "Tables 6"]
    assert sum(each.tokens for each in first.ranges[1].messages) == first.ranges[1].matches.tokens
    assert not first.ranges[0].messages
    assert first.command((turns[1],)) == f"/agree {first.offer.id} all but messages {turns[1]}"
    assert first.command((*turns[0:3], turns[8])) == f"/agree {first.offer.id} only 2"
    unticked = (turns[1], turns[4], *turns[5:7])
    command = first.command(unticked)
    assert command == f"/agree {first.offer.id} only messages {turns[0]} {turns[2]} {turns[8]}"
    assert first.command(unticked[:3]) == f"/agree {first.offer.id} all but messages {turns[1]} {turns[4]}-{turns[5]}"
    agent.do(command)
    assert there(agent) == [each for at, each in enumerate(turns) if at in (3, 7) or each in unticked]


def test_a_range_opens_to_its_messages(log: Log) -> None:
    agent = log.agent("notes")
    turns = []
    for number in range(4):
        turns.append(agent.append("user", f"{'Lunch' if number == 3 else 'Tables'} {number}"))
        agent.end_turn()

    async def talk(chat: Driven) -> None:
        lines = await reviewed(chat, "/forget tables")
        await chat.press("right")
        await chat.until(f"[x] {turns[2]}   Tables 2")
        await chat.press("down", "down", "enter")
        await chat.until(f"[ ] {turns[1]}   Tables 1")
        await chat.until("[-] 1")
        await chat.until("2 messages (")
        await chat.press("right")
        await chat.until(lambda: isinstance(chat.app.screen, TextScreen))
        await chat.until("user: Tables 1")
        await chat.press("escape", "left")
        await chat.until("[-] 1")
        await chat.until(lambda: f"[x] {turns[2]}   Tables 2" not in chat.screen)
        assert lines.highlighted == 0
        await chat.press("end", "enter")
        await chat.until(closed(chat))

    talked(agent, talk)
    assert there(agent) == [turns[1], turns[3]]


def test_all_ranges_unticked(agent: Agent) -> None:
    agent.do(f"/remember {WANTED}")
    found = review(agent, (3, 14, 20))
    assert found is not None
    assert (found.chosen, found.price, found.command((3, 14, 20))) == (None, (), None)
    assert found.outcome == "Nothing is ticked. Tick what to remember, or keep everything."


def test_a_choice_of_many_ranges_is_carried_out(log: Log) -> None:
    """The command may be of any length."""
    agent = log.agent("notes")
    for number in range(180):
        agent.append("user", f"{'Tables' if number % 3 == 0 else 'Lunch'} {number}")
        agent.end_turn()
    agent.do("/forget tables")
    found = review(agent)
    assert found is not None
    assert len(found.ranges) == 60
    odd = [id for each in found.ranges if each.number % 2 for id in each.ids]
    command = found.command(odd)
    assert command is not None
    assert len(command) > 100
    agent.do(command)
    assert agent.context().size.messages == 150


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (100, 30)])
def test_the_effect_and_the_last_line_of_many_ranges_fit_the_screen(log: Log, size: tuple[int, int]) -> None:
    agent = log.agent("notes")
    for number in range(180):
        for kind in ("user", "assistant"):
            agent.append(kind, f"{'Tables' if number % 3 == 0 else 'Lunch'} {number}")
        agent.end_turn()

    async def look() -> None:
        async with driven(agent, size=size) as chat:
            await chat.type("/forget tables")
            await chat.until(lambda: chat.app.chat.query(ReviewPanel))
            await chat.until("context 360 → 240")
            await chat.until("next request")
            rows = [line for line in chat.screen.split("\n") if "[x]" in line]
            assert rows
            assert all(" tokens" in row for row in rows)
            await chat.until(lambda: chat.app.chat.query_one(ReviewPanel).query_one(OptionList).has_focus)
            await chat.press("end")
            await chat.until(CARRY_OUT)

    asyncio.run(look())


def test_the_last_line_applies_the_ticked_ranges(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        assert "Forget: “messages 3, 14, 20” · matched by offline" in chat.screen
        assert "[x] 1  3   " in chat.screen
        assert "+ 1 message goes along with its call or result" in chat.screen
        assert re.search(r"4 messages \(~\d+ tokens\) leave · context 14 → 10 messages", chat.screen)
        await chat.press("enter", "down", "down", "enter")
        await chat.until("context 14 → 13 messages")
        assert "goes along" not in chat.screen
        await chat.press("end", "enter")
        await chat.until(closed(chat))
        await chat.until("left the context")
        assert chat.app.chat.prompt.editor.has_focus

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == [id for id in before if id != 14]


def test_the_screen_of_a_review(log: Log) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat, "/forget messages 4, 14, 20")
        await chat.still()
        check(chat.app, "review")
        await chat.press("right")
        await chat.until("    [x] 4 ")
        await chat.press("right")
        await chat.until(lambda: isinstance(chat.app.screen, TextScreen) and chat.app.screen.query_one(TextArea).text)
        await chat.still()
        check(chat.app, "range")

    talked(sample(log), talk)


def test_without_a_ticked_range_there_is_nothing_to_agree_to(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        await chat.press("enter", "down", "enter", "down", "enter")
        await chat.until("Nothing is ticked. Tick what to forget")
        await chat.press("end", "enter")
        assert chat.app.chat.query(ReviewPanel)

    before = there(agent)
    talked(agent, talk)
    assert there(agent)[: len(before)] == before


def test_no_and_escape_cancel_the_review_and_keeps_everything(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        for number, keys in enumerate((("n", "o", "enter"), ("escape",))):
            await reviewed(chat)
            await chat.press(*keys)
            await chat.until(lambda said=number + 1: chat.screen.count("Cancelled. Nothing was forgotten") == said)  # type: ignore[misc]
            await chat.until(closed(chat))

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == before


def test_an_arrow_opens_the_whole_range(agent: Agent) -> None:
    """The range includes the messages that go along. Text from the log controls neither the terminal nor the markup."""

    async def talk(chat: Driven) -> None:
        await reviewed(chat, "/forget messages 3-6")
        await chat.press("right")
        await chat.until("[x] 4   About")
        await chat.press("right")
        await chat.until(lambda: isinstance(chat.app.screen, TextScreen) and chat.app.screen.query_one(TextArea).text)
        text = chat.app.screen.query_one(TextArea).text.splitlines()
        assert text == [
            '       2 tool_call (goes along): grep({"pattern":"index"})',
            "       3 tool_result: no match in 3 files",
            "       4 assistant: About “Which tables [bold]do[/] we need? 漢字”.",
            "       6 user: Where \\x1b[31mshall we eat?",
        ]
        await chat.press("escape")
        await chat.until("Anything else you type")

    talked(agent, talk)


def test_an_offer_that_is_open_is_reviewed_at_once(agent: Agent) -> None:
    agent.do(f"/forget {WANTED}")

    async def talk(chat: Driven) -> None:
        await reviewed(chat, "")
        await chat.press("end", "enter")
        await chat.until("left the context")

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == [id for id in before if id not in (2, 3, 14, 20) and id < 22]


# At the prompt


def test_a_yes_at_the_prompt_applies_the_ticked_ranges(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        await chat.press("enter", "tab", *"Yes, please", "enter")
        await chat.until("left the context")
        await chat.until(closed(chat))

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == [id for id in before if id not in (14, 20)]


def test_an_answer_in_doubt_is_asked_about_and_leaves_the_review(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        await chat.press("tab")
        await chat.type("fine, but keep the first one")
        await chat.until("yes or no?")
        await chat.type("which ones?")
        await chat.until(lambda: chat.screen.count("which ones?") == 2 and chat.app.idle)
        await chat.until("Anything else you type")
        await chat.type("all but 1")
        await chat.until("left the context")
        await chat.until(closed(chat))

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == [id for id in before if id not in (14, 20)]


def test_a_preview_by_words_says_so(agent: Agent) -> None:
    agent.do("/config set tools=none")

    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        assert "Forget: “messages 3, 14, 20” · matched by words" in chat.screen
        await chat.press("end", "enter")
        await chat.until(closed(chat))

    talked(agent, talk)


def test_a_command_leaves_the_review_and_a_message_ends_it(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        ranges = await reviewed(chat)
        await chat.press("enter", "tab")
        await chat.type("/marks")
        await chat.until("No checkpoint yet")
        await chat.until("[ ] 1")
        await chat.press("shift+tab")
        await chat.until(lambda: ranges.has_focus)
        await chat.press("tab")
        await chat.type("Let us go on")
        await chat.until("words: “Let us go on”")
        await chat.until(closed(chat))

    before = there(agent)
    talked(agent, talk)
    assert there(agent)[: len(before)] == before
    assert review(agent) is None


def test_another_preview_leads_to_the_next_review(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        await chat.press("enter", "tab")
        await chat.type('call filter_context {"action": "preview", "criteria": "messages 3, 14, 20, eat"}')
        await chat.until("Forget: “messages 3, 14, 20, eat”")
        assert "[ ]" not in chat.screen

    talked(agent, talk)


def test_a_message_begun_before_the_offer_is_sent_only_after_a_question(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        prompt = chat.app.chat.prompt
        prompt.insert("you")
        chat.app.submit(f"/forget {WANTED}")
        await chat.until("Your message waits")
        await chat.press("n", "enter")
        await chat.until("Send it?")
        assert isinstance(chat.app.screen, Question)
        await chat.press("n")
        await chat.until(lambda: not isinstance(chat.app.screen, Question))
        assert prompt.text == "youn"
        assert chat.app.chat.query_one(OptionList).has_focus
        await chat.press("escape")
        await chat.until("Cancelled. Nothing was forgotten")
        assert prompt.text == "youn"

    before = there(agent)
    talked(agent, talk)
    assert there(agent) == before


# During the matching


class Matching(ScriptedProvider):
    """A model that makes a preview, then answers with a text."""

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        if request.bytes.count(b'"filter_context"') < 2:  # the list of tools names it once
            yield ToolCall("p", "filter_context", {"action": "preview"})
        else:
            yield "That is it."


def test_a_line_typed_before_an_offer_is_shown_does_not_answer_it(agent: Agent) -> None:
    agent.do("/model openai/gpt-5")
    asked, go_on = Signal(), Signal()

    def complete(_: Request) -> str:
        asked.set()
        assert go_on.wait(LIMIT)
        return "[14]"

    answered_by(complete)

    async def talk(chat: Driven) -> None:
        await chat.type("/forget tables")
        await chat.until(asked.is_set)
        await chat.until("0% read")
        await chat.type("yes")
        go_on.set()
        await chat.until("Your message waits")
        assert chat.app.chat.prompt.text == "yes"
        await chat.until(lambda: "% read" not in chat.screen)
        await chat.press("enter")
        await chat.until("left the context")

    before = there(agent)
    talked(agent, talk, lambda _: Matching())
    assert there(agent) == [id for id in before if id != 14]


def test_ctrl_c_ends_the_matching(agent: Agent) -> None:
    agent.do("/model openai/gpt-5")

    def complete(_: Request) -> str:
        with watched() as cut:
            assert cut.wait(LIMIT)
        raise FoldmarkError("interrupted")

    answered_by(complete)

    async def talk(chat: Driven) -> None:
        await chat.type("/forget tables")
        await chat.until("0% read")
        await chat.press("ctrl+c")
        await chat.until("(interrupted;")
        await chat.until(lambda: chat.app.idle)
        await chat.until(lambda: "% read" not in chat.screen)
        assert not chat.app.chat.query(ReviewPanel)

    talked(agent, talk, lambda _: Matching())


# The context changes


def test_a_review_closes_when_its_offer_is_no_longer_open(agent: Agent) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        await chat.press("tab")
        await chat.type("/context drop 1")
        await chat.until(closed(chat))
        (said,) = [each.message for each in chat.app._notifications]
        assert said.startswith("The offer is no longer open")

    talked(agent, talk)


def test_a_yes_to_an_offer_that_another_program_ended(agent: Agent, tmp_path: Path) -> None:
    async def talk(chat: Driven) -> None:
        await reviewed(chat)
        with foldmark.open(tmp_path / "log.db") as other:
            other.agent("notes").do("/context drop 1")
        chat.app.chat.query_one(ReviewPanel).action_agree()  # at once, before the change is seen
        await chat.until("is not open")
        await chat.until(closed(chat))

    talked(agent, talk)
    assert {6, 14, 20} < {*there(agent)}
