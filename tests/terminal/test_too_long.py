"""A text that the model cannot take is sent only after a question."""

from __future__ import annotations

import pytest
from driven import Driven, run, sample

from foldmark.log import Log
from foldmark.sending.status import too_long
from foldmark.terminal.dialogs import Question

LONG = "word " * 170_000
"""850,000 bytes: 212,500 tokens of the offline model, which takes 200,000."""


def test_only_a_text_beyond_the_limit_is_too_long(log: Log) -> None:
    agent = sample(log)
    assert too_long(agent, "Hello.") is None
    assert too_long(agent, "word " * 150_000) is None
    over = too_long(agent, LONG)
    assert over is not None
    assert over.text == over.request == pytest.approx(212_500, rel=0.01)
    assert over.limit == 200_000


def test_without_a_budget_the_whole_context_counts(log: Log) -> None:
    agent = sample(log)
    agent.do("/context budget 0")
    near = "word " * 158_000  # 197,500 tokens, beside a request of 3,600
    over = too_long(agent, near)
    assert over is not None
    assert over.request == over.text + agent.request().tokens
    assert too_long(agent, "word " * 100_000) is None


@pytest.mark.parametrize("agreed", [False, True])
def test_it_is_asked_about(log: Log, agreed: bool) -> None:
    agent = sample(log)
    before = agent.standing().newest

    async def act(chat: Driven) -> None:
        await chat.still()
        chat.app.submit(LONG)
        await chat.until(lambda: isinstance(chat.app.screen, Question))
        await chat.until("~212,500 tokens; offline takes 200,000. Send it?")
        assert agent.standing().newest == before
        await chat.press(*(("y", "enter") if agreed else ("enter",)))
        if agreed:
            await chat.until(lambda: log.agent("notes").standing().newest > before)
        else:
            await chat.until(lambda: chat.app.chat.prompt.text.strip() == LONG.strip())

    run(agent, act)
    assert (log.agent("notes").standing().newest > before) is agreed
