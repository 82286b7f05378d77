"""A text that was not recorded returns to the prompt, or is printed if the chat has to end."""

from __future__ import annotations

from pathlib import Path

import pytest
from driven import Driven, open_log, run, sample

import foldmark
from foldmark.log import Log
from foldmark.runtime.lease import take
from stored import connection


@pytest.mark.parametrize("why", ["is being run by", "nothing can be added", "Context full"])
def test_a_text_that_is_refused_returns_to_the_prompt(tmp_path: Path, why: str) -> None:
    with open_log(tmp_path / "log.db") as log, foldmark.open(tmp_path / "log.db", settings={}) as other:
        agent = sample(log)
        if why == "Context full":
            agent.do("/context budget 0")
            agent.append("user", "word " * 170_000)
            agent.end_turn()

        async def act(chat: Driven) -> None:
            await chat.still()
            held = take(other.agent("notes"), "somebody") if why == "is being run by" else None
            if why == "nothing can be added":
                other.agent("notes").do("/session delete notes --yes")
            await chat.type("where is my text?")
            await chat.until(why)
            await chat.until(lambda: chat.app.chat.prompt.text == "where is my text?")
            if held is not None:
                held.give_back()
                await chat.press("enter")
                await chat.until("I am the offline model")
                assert chat.app.chat.prompt.text == ""

        run(agent, act)


def test_what_a_full_disk_did_not_take_is_printed_at_the_end(log: Log) -> None:
    agent = sample(log)

    async def act(chat: Driven) -> None:
        await chat.still()
        db = connection(log)
        db.pragma("max_page_count", db.pragma("page_count") + 1)
        chat.app.chat.prompt.editor.put("begun")
        chat.app.submit("x" * 100_000)
        await chat.until(lambda: chat.app.ended)
        db.pragma("max_page_count", 1_000_000)
        first, *typed = chat.app.farewell.split("\n")
        assert first.startswith("foldmark: the disk is full: nothing was recorded")
        assert typed == ["You had typed:", "x" * 100_000, "begun"]

    run(agent, act)
