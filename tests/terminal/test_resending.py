"""Back to a prompt of the transcript: its text is edited at the prompt, and sent in its place."""

from __future__ import annotations

import pytest
from driven import Driven, prompts, run, sample

from foldmark.log import Log
from foldmark.terminal.dialogs import Question

HINT = "Enter: rewind to before turn 12, then send this"


async def edit(chat: Driven) -> None:
    """Put the prompt of turn 12 at the prompt."""
    transcript = chat.app.chat.transcript
    transcript.jump(12)
    await chat.until(lambda: transcript.current is not None and transcript.current.key[0] == 12)
    await chat.press("enter", "down")
    await chat.until("Preview: rewind")
    await chat.press("enter")
    await chat.until(HINT)
    assert chat.app.chat.prompt.text == "Run the whole test suite."


def test_an_edited_prompt_is_sent_in_the_place_of_its_turn(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await edit(chat)
        assert prompts(log.agent("notes"))[-1] == "Now the simple way: a module per format."
        await chat.press("backspace", *" twice.")
        await chat.until(HINT)
        await chat.press("enter")
        await chat.until("Rewound to the beginning of turn 12")
        await chat.until("I am the offline model")
        await chat.until(lambda: HINT not in chat.screen)

    run(sample(log), act)
    assert prompts(log.agent("notes"))[1:] == ["Run the whole test suite twice."]


@pytest.mark.parametrize("way", ["escape", "cleared", "command"])
def test_nothing_is_rewound_after_esc_an_empty_prompt_or_a_command(log: Log, way: str) -> None:
    async def act(chat: Driven) -> None:
        await edit(chat)
        if way == "escape":
            await chat.press("escape")
        elif way == "cleared":
            await chat.press("ctrl+c")
            await chat.press(*"Another text")
        else:
            chat.app.chat.prompt.editor.put("/marks")
            await chat.press("enter")
            await chat.until("BEFORE_PLUGINS ·")
        await chat.until(lambda: HINT not in chat.screen)
        if way != "command":
            await chat.press("enter")
            await chat.until("I am the offline model")

    run(sample(log), act)
    agent = log.agent("notes")
    assert "rewind" not in [each.kind for each in agent.events(200)]
    if way != "command":
        assert prompts(agent)[-1] == ("Run the whole test suite." if way == "escape" else "Another text")


def test_another_answer_is_asked_about(log: Log) -> None:
    async def act(chat: Driven) -> None:
        await chat.type("/retry")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.until("Take this answer out and ask again?")
        await chat.press("enter")
        await chat.until("nothing was changed")
        await chat.type("/retry")
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.press("y", "enter")
        await chat.until("I am the offline model")

    run(sample(log), act)
