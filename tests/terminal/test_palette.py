"""The palette of commands: all of the registry, narrowed down by words; the chosen one goes to the prompt."""

from __future__ import annotations

import asyncio

from driven import driven, sample

from foldmark.chat.completion import complete
from foldmark.commands import REGISTRY
from foldmark.log import Log
from foldmark.terminal.palette import CommandPalette, fitting
from foldmark.terminal.side_screens.keys import PURPOSES, places


def test_words_of_the_line_and_of_the_help_narrow_it_down() -> None:
    commands = complete(REGISTRY, None, "/").candidates
    assert {each.text.strip()[1:] for each in commands} == {*REGISTRY.commands}
    assert fitting(commands, "") == list(commands)
    assert [each.text for each in fitting(commands, "take turns out")] == ["/context drop "]
    assert fitting(commands, "/undo")[0].text == "/undo "
    assert fitting(commands, "mark")[0].text == "/mark "
    assert fitting(commands, "no such command") == []


def test_the_chosen_command_is_put_at_the_prompt_and_not_run(log: Log) -> None:
    agent = sample(log)
    before = agent.standing().newest

    async def talk() -> None:
        async with driven(agent) as chat:
            prompt = chat.app.chat.prompt
            await chat.until("^P commands")
            await chat.press(*"draft", "ctrl+p")
            await chat.until(lambda: isinstance(chat.app.screen, CommandPalette))
            await chat.press(*"drop")
            await chat.until("/context drop GID... [--preview] [-- REASON]")
            await chat.press("enter")
            await chat.until(lambda: prompt.text == "/context drop ")
            await chat.until("Run the whole test suite. · 4 messages")  # the ids that may follow
            await chat.press("ctrl+z")
            assert prompt.text == "draft"
            await chat.press("ctrl+p", *"nothing such", "enter")
            await chat.until("No command fits.")
            await chat.press("escape")
            await chat.until(lambda: chat.app.screen is chat.app.chat)
            await chat.press("ctrl+p", *"/marks", "enter")
            await chat.until(lambda: prompt.text == "/marks")

    asyncio.run(talk())
    assert log.agent("notes").standing().newest == before


def test_keys_are_listed_by_purpose_those_of_the_context_first() -> None:
    purposes = [place.purpose for place in places()]
    assert [*dict.fromkeys(purposes)] == [*PURPOSES]
    assert purposes == sorted(purposes, key=[*PURPOSES].index)
    assert "the turns of the context, to tick" in places()[0].keys
