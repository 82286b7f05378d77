"""The chat accepts a state block in any format that models write, and names the missing keys (SPEC 7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

import foldmark
from foldmark.chat.lines.line_mode import chat
from foldmark.core.request import Piece, Request


class Says:
    """A model that answers with the given texts in order, letter by letter."""

    def __init__(self, *texts: str) -> None:
        self._texts = list(texts)

    async def answer(self, request: Request) -> AsyncGenerator[Piece, None]:
        for letter in self._texts.pop(0):
            yield letter

    async def count(self, request: Request) -> int:
        return request.tokens


WHOLE = "Goal: a\nContext: b\nResolved: c\nTechnical Anchors: d"


@pytest.mark.parametrize(
    ("answer", "lacks"),
    [
        (f"Done.\n\n### State\n{WHOLE}", None),
        (f"Done.\n\n**### STATE**\n{WHOLE}", None),
        (f"Done.\n\n```markdown\n### STATE\n{WHOLE}\n```\n", None),
        ("Done.\n\n### STATE\nGoal: a\nResolved: c", "Context, Technical Anchors"),
        ("Done.\n\n```md\n**### State:**\n**Goal:** a\n```", "Context, Resolved, Technical Anchors"),
    ],
)
def test_a_block_is_accepted_and_missing_headings_are_reported(
    log: foldmark.Log, capsys: pytest.CaptureFixture[str], answer: str, lacks: str | None
) -> None:
    agent, model = log.agent("default"), Says(answer, "And on.")
    assert chat(agent, lambda name: model, ["hello", "go on"]) == 0
    shown = capsys.readouterr().out
    state = agent.context().state
    assert state is not None
    assert "Goal" in state
    assert "```" not in state
    assert [message.content for message in agent.context().messages if message.kind == "assistant"] == [
        "Done.",
        "And on.",
    ]
    assert "Goal:" not in shown
    assert "```" not in shown
    note = f"(the state block has no {lacks}; /state shows it)\n"
    assert shown.count("the state block has no") == shown.count(note) == (lacks is not None)  # once, after the turn


def test_a_look_alike_is_shown_and_changes_nothing(log: foldmark.Log, capsys: pytest.CaptureFixture[str]) -> None:
    agent = log.agent("default")
    text = f"Such a block:\n```py\n### STATE\n{WHOLE}\n```"
    model = Says(f"Done.\n### STATE\n{WHOLE}", text)
    chat(agent, lambda name: model, ["hello", "how does it look?"])
    assert text in capsys.readouterr().out
    assert agent.context().state == WHOLE
    assert agent.context().messages[-1].content == text
